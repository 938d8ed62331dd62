#!/usr/bin/env python3
"""Real metad processes as a cluster: init, kills, pauses, partitions, joins and removals under writes.

    tests/cluster/metads.py [--kills 12] [--only NAME]

Writers (tests/bench/meta_load.c) journal every key that was answered; afterwards each must read back whole.
Ends with `N passed, N failed`: one per test.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from cluster import Cluster, wait_for  # noqa: E402
from kist import binary, clean_environment  # noqa: E402

GAP_P50_S = 1.0
GAP_MAX_S = 3.0
WRITERS = 8
VALUE_BYTES = 300
VERIFY_MAX = 50_000
TOOL_ENVIRONMENT = clean_environment({"ASAN_OPTIONS": "detect_leaks=0"})


def meta_load():
    return os.environ.get("KIST_META_LOAD", str(Path(binary()).parent / "meta_load"))


class Load:
    """Writers in a process of their own, for at most `seconds`."""

    def __init__(self, cluster, seconds, bucket="load"):
        self.cluster = cluster
        self.bucket = bucket
        self.journal = cluster.path / f"journal-{bucket}"
        self.errors = open(cluster.path / f"load-{bucket}.log", "w+")
        command = [meta_load(), "write", str(cluster.key_file), ",".join(cluster.addresses()), bucket]
        command += [str(WRITERS), str(seconds), str(VALUE_BYTES), str(self.journal)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=TOOL_ENVIRONMENT
        )
        wait_for(lambda: self.answered() > 0, 20, "the first write is answered")

    def answered(self):
        """Bytes of the journal: grows with every answer."""
        return self.journal.stat().st_size if self.journal.exists() else 0

    def gap(self, watch_s):
        """The longest time without an answer that begins now, watched for watch_s at least."""
        begin = last = time.monotonic()
        before = self.answered()
        longest = 0.0
        while time.monotonic() - begin < watch_s or longest < time.monotonic() - last:
            now = time.monotonic()
            size = self.answered()
            longest = max(longest, now - last)
            if size != before:
                before, last = size, now
            if now - last > 30:
                raise AssertionError("no write is answered for 30 s")
            time.sleep(0.002)
            if now - begin >= watch_s and now - last < 0.2:
                break
        return longest

    def finish(self, wait_s=60):
        """Its own account; no write may have failed or be in doubt."""
        out, _ = self.process.communicate(timeout=wait_s)
        self.errors.seek(0)
        account = json.loads(out) if out.strip() else {}
        if self.process.returncode != 0 or account.get("failed") != 0:
            raise AssertionError(f"writers: {account} {self.errors.read()[-2000:]}")
        return account

    def verify(self):
        """Every key of the journal (of a long one a sample) holds its bytes; returns their number."""
        text = self.journal.read_text()  # it may still grow: what is there now is looked at
        lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
        if len(lines) > VERIFY_MAX:  # the newest, and as many of the others by chance
            older = random.sample(lines[: -VERIFY_MAX // 2], VERIFY_MAX // 2)
            lines = older + lines[-VERIFY_MAX // 2 :]
        keys = len(lines)
        looked = self.cluster.path / f"looked-{self.bucket}"
        looked.write_text("".join(lines))
        command = [meta_load(), "verify", str(self.cluster.key_file)]
        command += [",".join(self.cluster.addresses()), self.bucket, str(looked)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=TOOL_ENVIRONMENT)
        account = json.loads(done.stdout) if done.stdout.strip() else {}
        if done.returncode != 0 or account.get("done", 0) != keys or keys == 0:
            raise AssertionError(f"verify of {keys} keys: {account} {done.stderr[-2000:]}")
        return keys

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def voters(cluster):
    return {name: row for name, row in cluster.rows().items() if row[1] == "voter"}


# ---- Tests ----


def init_once(options):
    """A second init would make two clusters of one: refused, by whichever node it meets first."""
    with Cluster(3) as cluster:
        assert all(not m.status().get("serving") for m in cluster.metads)
        cluster.init()
        cluster.wait_leader()
        code, text = cluster.admin("cluster", "init", check=False)
        assert code != 0 and "holds a cluster already" in text, text
        assert len(voters(cluster)) == 3


def waits_without_dns(options):
    """A node whose peers do not resolve must never form a cluster of its own: it waits, and joins later."""
    with Cluster(1) as cluster:
        cluster.init()
        cluster.wait_leader()
        lost = cluster.add(peers=["nowhere.invalid:9010"]).start()
        wait_for(lambda: lost.status().get("state") == "waiting", 10, "it waits")
        time.sleep(3)
        assert lost.status().get("state") == "waiting", lost.status()
        assert lost.get("/health/live")[0] == 200 and lost.get("/health/ready")[0] == 503
        cluster.metads = [cluster.metads[0], lost]
        code, text = cluster.admin("metad", "add", lost.address)
        assert code == 0, text
        assert cluster.rows()["m1"][1] == "learner"  # two voters would bear less than one


def leader_killed(options):
    """kill -9 of the leader again and again: no answered write is lost, and writes go on within 3 s."""
    seed = random.Random(7)
    with Cluster(3) as cluster:
        cluster.init()
        cluster.wait_leader()
        load = Load(cluster, options.kills * 4 + 10)
        try:
            gaps = []
            for number in range(options.kills):
                leader = cluster.wait_leader()
                wait_for(lambda: len(voters(cluster)) == 3, 20, "three voters")
                time.sleep(seed.uniform(0.2, 0.8))
                leader.kill()
                gaps.append(load.gap(1.0))
                leader.start()
                wait_for(lambda: leader.status().get("leader"), 20, "it is back")
                if number % 10 == 9:
                    load.verify()
            load.process.wait(timeout=options.kills * 4 + 60)
            account = load.finish()
            keys = load.verify()
        finally:
            load.stop()
        gaps.sort()
        middle = gaps[len(gaps) // 2]
        print(f"  {len(gaps)} kills, {keys} read back, gap p50 {middle:.2f} s, max {gaps[-1]:.2f} s, {account}")
        assert middle < GAP_P50_S and gaps[-1] < GAP_MAX_S, gaps


def restart_in_any_order(options):
    """All down, then up one after the other in any order: what was answered is there."""
    with Cluster(3) as cluster:
        cluster.init()
        cluster.wait_leader()
        load = Load(cluster, 3)
        load.finish()
        for seed in range(3):
            for metad in cluster.metads:
                metad.kill()
            order = list(cluster.metads)
            random.Random(seed).shuffle(order)
            for metad in order:
                metad.start()
                time.sleep(0.3)
            cluster.wait_leader()
            load.verify()
        load.stop()


def leader_stopped(options):
    """SIGTERM hands leadership over: a rolling restart must not be felt."""
    with Cluster(3) as cluster:
        cluster.init()
        cluster.wait_leader()
        load = Load(cluster, 12)
        gaps = []
        for _ in range(2):
            leader = cluster.wait_leader()
            assert leader.stop() == 0
            gaps.append(load.gap(0.5))
            leader.start()
            wait_for(lambda: leader.status().get("leader"), 20, "it is back")
            time.sleep(0.5)
        load.finish()
        load.verify()
        load.stop()
        print(f"  gaps {', '.join(f'{gap:.2f}' for gap in gaps)} s")
        assert max(gaps) < 1.0, gaps


def leader_paused(options):
    """A leader that stands still and comes back must not answer by an old lease, nor disturb the new one."""
    with Cluster(3) as cluster:
        cluster.init()
        cluster.wait_leader()
        load = Load(cluster, 15)
        for _ in range(2):
            leader = cluster.wait_leader()
            leader.pause()
            gap = load.gap(1.0)
            leader.resume()
            assert gap < GAP_MAX_S, gap
            wait_for(lambda: leader.status().get("leader"), 10, "it follows")
        load.finish()
        load.verify()
        load.stop()


def leader_cut_off(options):
    """Behind a partition the old leader answers nothing, the others go on; healed, all are one again."""
    with Cluster(3) as cluster:
        if cluster.network is None:
            print("  skipped: no network namespaces here")
            return
        cluster.init()
        leader = cluster.wait_leader()
        load = Load(cluster, 12)
        cluster.network.link(leader.index, False)
        gap = load.gap(2.0)
        cluster.network.link(leader.index, True)
        assert gap < GAP_MAX_S, gap
        wait_for(lambda: leader.status().get("leader"), 20, "it follows")
        load.finish()
        load.verify()
        load.stop()
        print(f"  gap {gap:.2f} s")


def emptied_rejoins(options):
    """An emptied directory must not answer for its old id, whose votes it has forgotten: it joins as a new one."""
    with Cluster(3) as cluster:
        cluster.init()
        leader = cluster.wait_leader()
        load = Load(cluster, 8)
        emptied = next(m for m in cluster.metads if m is not leader)
        before = cluster.rows()[f"m{emptied.index}"][0]
        emptied.kill()
        emptied.empty()
        emptied.start()

        def whole():
            rows = voters(cluster)
            return len(rows) == 3 and rows.get(f"m{emptied.index}", (before,))[0] != before

        wait_for(whole, 30, "a new member in its place")
        load.finish()
        load.verify()
        # The new one counts: with it and one other the group goes on.
        other = next(m for m in cluster.metads if m is not emptied)
        other.kill()
        cluster.wait_leader()
        load.verify()
        load.stop()


def fourth_in_first_out(options):
    """A node added and another removed while writes run: no write fails, three voters in the end."""
    with Cluster(3) as cluster:
        cluster.init()
        cluster.wait_leader()
        load = Load(cluster, 15)
        fourth = cluster.add().start()
        cluster.admin("metad", "add", fourth.address)
        first = cluster.metads[0]
        cluster.admin("metad", "remove", "m0")
        wait_for(lambda: not first.running(), 20, "the removed one ends")
        rows = voters(cluster)
        assert set(rows) == {"m1", "m2", "m3"}, cluster.rows()
        cluster.admin("metad", "transfer")
        load.finish()
        load.verify()
        load.stop()
        assert "was removed from the cluster" in first.tail()


def two_of_one_identity(options):
    """A copied directory started elsewhere: of the two the one started later stays, the other ends."""
    with Cluster(3) as cluster:
        cluster.init()
        leader = cluster.wait_leader()
        twin_of = next(m for m in cluster.metads if m is not leader)
        twin_of.kill()
        copy = cluster.add()
        subprocess.run(["cp", "-r", str(twin_of.directory), str(copy.directory)], check=True, timeout=60)
        twin_of.start()
        wait_for(lambda: twin_of.status().get("leader"), 20, "the first runs")
        time.sleep(1)
        copy.start()
        wait_for(lambda: not twin_of.running(), 30, "the older one ends")
        assert "started later" in twin_of.tail(), twin_of.tail()
        wait_for(lambda: copy.status().get("leader"), 20, "the later one runs")


def majority_lost(options):
    """Two of three are gone for good: the survivor goes on alone when told so, and the old ones cannot come back."""
    with Cluster(3) as cluster:
        cluster.init()
        leader = cluster.wait_leader()
        load = Load(cluster, 2)
        load.finish()
        for metad in cluster.metads:
            metad.kill()
        command = [binary(), "admin", "metad", "recover", "--data", str(leader.directory)]
        looked = subprocess.run(command, capture_output=True, text=True, timeout=30, env=clean_environment())
        assert looked.returncode == 0 and "Nothing was changed" in looked.stdout, looked
        done = subprocess.run(
            command + ["--yes-lose-unreplicated"], capture_output=True, text=True, timeout=30, env=clean_environment()
        )
        assert done.returncode == 0 and "cluster of one" in done.stdout, done
        lost = [m for m in cluster.metads if m is not leader]
        leader.start()
        cluster.wait_leader()
        load.verify()  # the leader held everything answered
        lost[0].start()  # of the old epoch: refused
        time.sleep(3)
        assert not lost[0].status().get("leader"), lost[0].status()
        wait_for(lambda: set(voters(cluster)) == {f"m{leader.index}"}, 20, "a cluster of one")
        for metad in lost:
            metad.kill()
            metad.empty()
            metad.start()
        wait_for(lambda: len(voters(cluster)) == 3, 30, "three voters again")
        load.verify()
        load.stop()


TESTS = [
    init_once,
    waits_without_dns,
    restart_in_any_order,
    leader_stopped,
    leader_paused,
    leader_cut_off,
    emptied_rejoins,
    fourth_in_first_out,
    two_of_one_identity,
    majority_lost,
    leader_killed,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed = failed = 0
    for test in TESTS:
        if options.only and options.only not in test.__name__:
            continue
        begin = time.monotonic()
        try:
            test(options)
            passed += 1
            print(f"{test.__name__}: good, {time.monotonic() - begin:.1f} s", flush=True)
        except Exception:  # the next ones are run too
            traceback.print_exc()
            failed += 1
            print(f"{test.__name__}: FAILED, {time.monotonic() - begin:.1f} s", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
