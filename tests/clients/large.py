#!/usr/bin/env python3
"""One large file by multipart with aws-cli, down again, and range reads of it with boto3.

    tests/clients/large.py [--mib 5120] [--directories 1]
"""
import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from clients import World, digest  # noqa: E402
from kist import Server  # noqa: E402


def make_file(path, mib):
    """Pseudo-random bytes, fast: no two MiB are alike."""
    subprocess.run(
        f"head -c {mib * 1024 * 1024 + 7} /dev/zero | openssl enc -aes-256-ctr -pbkdf2 -pass pass:kist -nosalt"
        f" > '{path}'",
        shell=True, check=True, stderr=subprocess.DEVNULL,
    )


def check_ranges(s3, path, size, count=60):
    rng = random.Random(5)
    edges = [(0, 0), (size - 1, size - 1), (size - 1000, size - 1)]
    for boundary in (8 << 20, 128 << 10, 256 << 20):
        if boundary < size:
            edges.append((boundary - 3, boundary + 3))
    for _ in range(count):
        first = rng.randrange(size)
        edges.append((first, min(size - 1, first + rng.randrange(3 << 20))))
    with open(path, "rb") as file:
        for first, last in edges:
            file.seek(first)
            want = file.read(last - first + 1)
            got = s3.get_object(Bucket="large", Key="big", Range=f"bytes={first}-{last}")
            assert got["ContentRange"] == f"bytes {first}-{last}/{size}"
            assert got["Body"].read() == want, f"range {first}-{last}"
    return len(edges)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=5120)
    parser.add_argument("--directories", type=int, default=1)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="kist-large-"))
    failed = 0
    try:
        path = scratch / "big"
        make_file(path, options.mib)
        size = path.stat().st_size
        want = digest(path)
        with Server(directories=options.directories) as server:
            (scratch / "empty").mkdir()
            world = World(server, scratch / "empty", scratch)
            s3 = server.client()
            s3.create_bucket(Bucket="large")
            begin = time.monotonic()
            world.aws("s3", "cp", "--only-show-errors", path, "s3://large/big")
            up = time.monotonic() - begin
            head = s3.head_object(Bucket="large", Key="big")
            assert head["ContentLength"] == size, head
            assert "-" in head["ETag"], head["ETag"]
            ranges = check_ranges(s3, path, size)
            begin = time.monotonic()
            hasher = hashlib.sha256()
            for piece in s3.get_object(Bucket="large", Key="big")["Body"].iter_chunks(1 << 20):
                hasher.update(piece)
            assert hasher.hexdigest() == want, "bytes differ"
            down = time.monotonic() - begin
            print(
                f"{size} bytes: up {up:.0f} s ({size / 2**20 / up:.0f} MiB/s), down {down:.0f} s"
                f" ({size / 2**20 / down:.0f} MiB/s), {ranges} ranges, Pss {server.pss_mib():.0f} MiB"
            )
            assert server.stop() == 0
    except Exception as error:
        failed = 1
        print(f"FAILED {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{1 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
