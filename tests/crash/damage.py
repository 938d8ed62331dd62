#!/usr/bin/env python3
"""Four directories (2+2): one is removed, bytes of another's segments are flipped, an empty directory is put
back, one metad replica's files are flipped. Every object reads back right in each state; what was lost is
filled again.

    tests/crash/damage.py [--objects 120] [--seed 1]

Closing line: `N passed, N failed`, one per state.
"""
import argparse
import hashlib
import json
import random
import shutil
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import Server  # noqa: E402

BUCKET = "damage"
SIZES = [0, 1, 16384, 16385, 131072, 131073, 262144, 262145, 1_000_000, 5_000_000]


def fill(client, count, seed):
    client.create_bucket(Bucket=BUCKET)
    want = {}
    for number in range(count):
        data = random.Random(f"{seed}-{number}").randbytes(SIZES[number % len(SIZES)])
        client.put_object(Bucket=BUCKET, Key=f"o{number}", Body=data)
        want[f"o{number}"] = hashlib.sha256(data).hexdigest()
    return want


def faults(client, want):
    def check(key):
        try:
            body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        except Exception as error:
            return f"{key}: {error}"
        return None if hashlib.sha256(body).hexdigest() == want[key] else f"{key}: wrong bytes"

    with ThreadPoolExecutor(8) as pool:
        return [fault for fault in pool.map(check, want) if fault]


def flip(path, every, seed):
    """One bit in each `every` bytes of a file, where it is not a hole of zeros."""
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    flipped = 0
    for at in range(0, len(data) - every, every):
        where = at + rng.randrange(every)
        if data[where] != 0:
            data[where] ^= 1 << rng.randrange(8)
            flipped += 1
    path.write_bytes(data)
    return flipped


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def state(self, name, found):
        if found:
            self.failed += 1
            print(f"FAILED {name}: {len(found)} faults: {found[:5]}")
        else:
            self.passed += 1
            print(f"ok {name}")


def wait_refilled(server, timeout_s=180):
    """Until the status document says that nothing is missing."""
    end = time.monotonic() + timeout_s
    status = {}
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{server.admin}/status.json", timeout=10) as reply:
            status = json.load(reply)
        replicas = status["metad"]["replicas"]
        repair = status["repair"]
        if (
            repair["deficit"] == 0
            and repair["running"] is False
            and all(r["state"] in ("serving", "follower") for r in replicas)
        ):
            return []
        time.sleep(0.2)
    return [f"not refilled in {timeout_s} s: {status}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report()
    server = Server(directories=4)
    try:
        server.start()
        want = fill(server.client(), options.objects, options.seed)
        report.state("all directories", faults(server.client(), want))
        server.stop()

        shutil.move(server.directories[3], server.path / "away")
        flipped = 0
        for segment in sorted((server.directories[0] / "data").rglob("*")):
            if segment.is_file() and "seg" in segment.name:
                flipped += flip(segment, 65536, options.seed)
        report.state("segments were there to flip", [] if flipped else ["none"])
        server.start()
        report.state("one directory gone, one with flipped bytes", faults(server.client(), want))
        extra = random.Random("extra").randbytes(700_000)
        server.client().put_object(Bucket=BUCKET, Key="late", Body=extra)
        want["late"] = hashlib.sha256(extra).hexdigest()
        report.state("written with one directory gone", faults(server.client(), want))
        server.stop()

        server.directories[3].mkdir()
        server.start()
        report.state("refill of an empty directory", wait_refilled(server))
        report.state("after the refill", faults(server.client(), want))
        server.stop()

        for gone in (0, 1):  # what was refilled must now carry the rest
            shutil.move(server.directories[gone], server.path / f"away{gone}")
            server.start()
            report.state(f"directory {gone} gone after the refill", faults(server.client(), want))
            server.stop()
            shutil.move(server.path / f"away{gone}", server.directories[gone])

        flipped = 0
        for file in sorted((server.directories[1] / "meta").rglob("*")):
            if file.is_file() and file.suffix in (".sst", ".log", ".blob"):
                flipped += flip(file, 4096, options.seed)
        report.state("metadata files were there to flip", [] if flipped else ["none"])
        server.start()
        report.state("one metadata replica with flipped bytes", faults(server.client(), want))
        report.state("refill of the replica", wait_refilled(server))
        report.state("after the refill of the replica", faults(server.client(), want))
        report.state("clean stop", [] if server.stop() == 0 else ["exit code"])
    except Exception as error:
        report.state("the run itself", [f"{type(error).__name__}: {error}\n{server.tail()}"])
    finally:
        server.__exit__()
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
