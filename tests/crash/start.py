#!/usr/bin/env python3
"""Start-up after kill -9 with many objects: under 5 s, and nothing is missing.

    tests/crash/start.py [--objects 1000000] [--directories 1]
"""
import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import Server  # noqa: E402
from load import put_many  # noqa: E402

LIMIT_S = 5.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--directories", type=int, default=1)
    options = parser.parse_args()
    checks = {}
    with Server(directories=options.directories) as server:
        server.client().create_bucket(Bucket="many")
        names = [f"folder{i % 1000:03d}/object-{i:08d}" for i in range(options.objects)]
        took = put_many(server.port, "many", names, b"some bytes of a small object", connections=64)
        print(f"{options.objects} objects written in {took:.0f} s")
        server.kill()
        server.start()
        print(f"started in {server.started_in:.2f} s after kill -9, Pss {server.pss_mib():.1f} MiB")
        checks[f"start under {LIMIT_S:.0f} s"] = server.started_in < LIMIT_S
        begin = time.monotonic()
        listed = 0
        for page in server.client().get_paginator("list_objects_v2").paginate(Bucket="many"):
            listed += len(page.get("Contents", []))
        print(f"{listed} objects listed in {time.monotonic() - begin:.1f} s")
        checks["every acknowledged object is listed"] = listed == options.objects
        checks["clean stop"] = server.stop() == 0
        server.start()
        print(f"started in {server.started_in:.2f} s after a clean stop")
        checks["start after a clean stop"] = server.started_in < LIMIT_S
    for name, ok in checks.items():
        print(("ok " if ok else "FAILED ") + name)
    print(f"{sum(checks.values())} passed, {len(checks) - sum(checks.values())} failed")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
