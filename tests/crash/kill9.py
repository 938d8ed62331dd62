#!/usr/bin/env python3
"""kill -9 in a loop during mixed writes: every acknowledged write reads back whole, nothing half written is
visible.

    tests/crash/kill9.py [--rounds 10] [--directories 1] [--seed 1] [--workers 8]

Each worker owns its keys, so it knows for each the value acknowledged last and the one in flight when the
server died: after the restart the key must hold one of the two, whole; listings must agree with reads. Ends
with `N passed, N failed`: one per round.
"""
import argparse
import hashlib
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import Server  # noqa: E402

BUCKET = "crash"
KEYS_PER_WORKER = 12
SIZES = [0, 1, 100, 8000, 16384, 16385, 100_000, 131_072, 131_073, 700_000, 3_000_000]
PART = 5 * 1024 * 1024
ABSENT = None
START_LIMIT_S = 5.0


def content(seed, size):
    return random.Random(seed).randbytes(size)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Worker(threading.Thread):
    """Writes to its own keys until the server is gone."""

    def __init__(self, client, number, seed, state, stop):
        super().__init__(daemon=True)
        self.client, self.number, self.stop = client, number, stop
        self.random = random.Random(f"{seed}-{number}")
        self.state = state  # key -> (acknowledged digest or ABSENT, digests in flight)
        self.acknowledged = 0

    def run(self):
        while not self.stop.is_set():
            key = f"w{self.number}/k{self.random.randrange(KEYS_PER_WORKER)}"
            before = self.state.get(key, (ABSENT, []))[0]
            try:
                after = self.change(key, before)
            except Exception:  # the server died under us: the outcome is open
                if not self.stop.wait(0.2):
                    continue
                return
            self.state[key] = (after, [])
            self.acknowledged += 1

    def flying(self, key, before, value):
        self.state[key] = (before, [value])

    def change(self, key, before):
        kind = self.random.randrange(100)
        seed = self.random.getrandbits(48)
        if kind < 60:
            data = content(seed, self.random.choice(SIZES))
            self.flying(key, before, digest(data))
            self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
            return digest(data)
        if kind < 75:
            self.flying(key, before, ABSENT)
            self.client.delete_object(Bucket=BUCKET, Key=key)
            return ABSENT
        if kind < 90:
            return self.copy(key, before)
        return self.multipart(key, before, seed)

    def copy(self, key, before):
        source = f"w{self.number}/k{self.random.randrange(KEYS_PER_WORKER)}"
        value, open_values = self.state.get(source, (ABSENT, []))
        if source == key or value is ABSENT or open_values:
            return before
        self.flying(key, before, value)
        self.client.copy_object(
            Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": source}
        )
        return value

    def multipart(self, key, before, seed):
        data = content(seed, PART + self.random.randrange(1, 200_000))
        self.flying(key, before, digest(data))
        upload = self.client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        parts = []
        for number, piece in ((1, data[:PART]), (2, data[PART:])):
            reply = self.client.upload_part(
                Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=piece
            )
            parts.append({"PartNumber": number, "ETag": reply["ETag"]})
        self.client.complete_multipart_upload(
            Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
        )
        return digest(data)


def read(client, key):
    try:
        return digest(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    except client.exceptions.NoSuchKey:
        return ABSENT


def verify(client, states):
    """Faults found; settles what was in flight to what is there."""
    faults = []
    expected = set()

    def check(item):
        state, key = item
        value, flying = state[key]
        found = read(client, key)
        if found != value and found not in flying:
            return f"{key}: holds {found}, acknowledged {value}, in flight {flying}"
        state[key] = (found, [])
        if found is not ABSENT:
            expected.add(key)
        return None

    with ThreadPoolExecutor(8) as pool:
        faults += [f for f in pool.map(check, [(s, k) for s in states for k in list(s)]) if f]
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    listed = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
    if listed != expected:
        faults.append(f"listing differs: {sorted(listed ^ expected)[:10]}")
    return faults


def one_round(server, states, number, options):
    client = server.client(retries={"max_attempts": 0})
    stop = threading.Event()
    seed = f"{options.seed}-{number}"
    workers = [
        Worker(client, i, seed, states[i], stop) for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    time.sleep(random.Random(seed).uniform(0.3, 2.5))
    server.kill()
    stop.set()
    for worker in workers:
        worker.join(30)
    server.start()
    faults = verify(server.client(), states)
    if server.started_in > START_LIMIT_S:
        faults.append(f"start took {server.started_in:.1f} s")
    return sum(w.acknowledged for w in workers), faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--directories", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    states = [{} for _ in range(options.workers)]
    failed = 0
    total = 0
    with Server(directories=options.directories) as server:
        server.client().create_bucket(Bucket=BUCKET)
        for number in range(options.rounds):
            acknowledged, faults = one_round(server, states, number, options)
            total += acknowledged
            failed += 1 if faults else 0
            for fault in faults:
                print(f"round {number}: {fault}")
            print(f"round {number}: {acknowledged} acknowledged, start {server.started_in:.2f} s")
        code = server.stop()
        if code != 0:
            print(f"SIGTERM: exit {code}")
            failed += 1
    if total == 0:
        print("no write was acknowledged: nothing was tested")
        failed += 1
    print(f"kill9 {options.directories} directories, {total} acknowledged writes")
    print(f"{options.rounds - min(failed, options.rounds)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
