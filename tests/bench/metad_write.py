#!/usr/bin/env python3
"""Write throughput of the metadata service by its own RPC, and CPU per write, against etcd in the same run.

    tests/bench/metad_write.py [--seconds 5] [--rounds 2] [--writers 64] [--bytes 300] [--nodes 1,3] [--no-etcd]

Every node of either is a process of this machine, its files in one directory; every answered write is synced on a
majority. Both clients (meta_load in C, etcd_write in Go, made here with `go build`) talk to the leader alone. A write
to metad is a PUT_OBJECT with an inline body: conditions, bucket, generation, record, change feed, request row; to
etcd it is a put. CPU is utime + stime of all nodes: it moves little with the machine's neighbours, rates do.

Closing line: the ratio of rates and of CPU per write.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "harness"))
os.environ["KIST_CLUSTER_NETNS"] = "0"  # both on loopback

from cluster import Cluster, wait_for  # noqa: E402
from kist import binary, free_port  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pids):
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measure(pids, command):
    before = cpu_of(pids)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    spent = cpu_of(pids) - before
    if done.returncode != 0:
        raise SystemExit(f"{command[0]}: {done.stderr or done.stdout}")
    result = json.loads(done.stdout)
    result["cpu_us"] = spent / result["done"] * 1e6
    return result


class Kist:
    name = "metad"

    def __init__(self, nodes):
        self.cluster = Cluster(metads=nodes)

    def __enter__(self):
        self.cluster.__enter__()
        self.cluster.init()
        self.cluster.wait_leader()
        return self

    def __exit__(self, *what):
        self.cluster.__exit__(*what)

    def run(self, options, seconds):
        load = Path(binary()).parent / "meta_load"
        command = [load, "write", self.cluster.key_file, ",".join(self.cluster.addresses()), "load",
                   options.writers, seconds, options.bytes]
        return measure([m.process.pid for m in self.cluster.metads], [str(word) for word in command])


class Etcd:
    name = "etcd"

    def __init__(self, nodes, client):
        self.client = client
        self.path = Path(tempfile.mkdtemp(prefix="kist-etcd-"))
        self.ports = [(free_port(), free_port()) for _ in range(nodes)]
        self.processes = []

    def __enter__(self):
        peers = ",".join(f"e{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(self.ports))
        try:
            for i, (port, peer) in enumerate(self.ports):
                log = open(self.path / f"e{i}.log", "ab")
                command = ["etcd", "--name", f"e{i}", "--data-dir", self.path / f"e{i}",
                           "--listen-client-urls", f"http://127.0.0.1:{port}",
                           "--advertise-client-urls", f"http://127.0.0.1:{port}",
                           "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                           "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                           "--initial-cluster", peers, "--quota-backend-bytes", str(8 << 30), "--log-level", "error"]
                self.processes.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))
                log.close()
            wait_for(self.healthy, 60, "etcd")
        except BaseException:
            self.__exit__()
            raise
        return self

    def healthy(self):
        time.sleep(0.2)
        return subprocess.run(["etcdctl", "--endpoints", self.endpoints(), "endpoint", "health"], capture_output=True,
                              env={**os.environ, "ETCDCTL_API": "3"}, timeout=60).returncode == 0

    def endpoints(self):
        return ",".join(f"127.0.0.1:{port}" for port, _ in self.ports)

    def run(self, options, seconds):
        command = [self.client, self.endpoints(), options.writers, seconds, options.bytes]
        return measure([p.pid for p in self.processes], [str(word) for word in command])

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait(30)
        shutil.rmtree(self.path, ignore_errors=True)


def etcd_client(scratch):
    if shutil.which("etcd") is None or shutil.which("go") is None:
        raise SystemExit("etcd-server, etcd-client and go are needed; or --no-etcd")
    out = Path(scratch) / "etcd_write"
    subprocess.run(["go", "build", "-o", str(out), "."], cwd=ROOT / "tests" / "bench" / "etcd_write", check=True)
    return out


def rounds(options, nodes, client):
    """{name: [results]}; the two take turns, so that a busy moment of the machine meets both."""
    found = {}
    with Kist(nodes) as kist:
        for at in range(options.rounds):
            kist.run(options, 1)
            found.setdefault(kist.name, []).append(kist.run(options, options.seconds))
            if client is not None:
                with Etcd(nodes, client) as etcd:
                    etcd.run(options, 1)
                    found.setdefault(etcd.name, []).append(etcd.run(options, options.seconds))
    return found


def report(nodes, found):
    middle = {}
    for name, results in found.items():
        row = {key: statistics.median(r[key] for r in results) for key in ("per_s", "cpu_us", "p50_us", "p99_us")}
        client = statistics.median(r["client_cpu_s"] / r["done"] * 1e6 for r in results)
        middle[name] = row
        print(f"{nodes} node{'s' if nodes > 1 else ' '}  {name:6} {row['per_s']:8.0f} writes/s  p50 {row['p50_us'] / 1e3:6.2f} ms"
              f"  p99 {row['p99_us'] / 1e3:7.2f} ms  CPU {row['cpu_us']:6.1f} us a write (client {client:.1f})", flush=True)
    if len(middle) == 2:
        rate = middle["metad"]["per_s"] / middle["etcd"]["per_s"]
        cpu = middle["etcd"]["cpu_us"] / middle["metad"]["cpu_us"]
        print(f"{nodes} node{'s' if nodes > 1 else ' '}  metad: {rate:.2f} times the writes of etcd, 1/{cpu:.2f} of its CPU a write",
              flush=True)
        return rate, cpu
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--nodes", default="1,3")
    parser.add_argument("--no-etcd", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kist-bench-") as scratch:
        client = None if options.no_etcd else etcd_client(scratch)
        for nodes in (int(n) for n in options.nodes.split(",")):
            report(nodes, rounds(options, nodes, client))


if __name__ == "__main__":
    main()
