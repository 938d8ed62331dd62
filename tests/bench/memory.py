#!/usr/bin/env python3
"""Memory of the server (Pss): at rest, and while 64 clients each stream 128 MiB objects up and down.

    tests/bench/memory.py [--seconds 120] [--clients 64] [--size-mib 128]

Limits: 64 MiB at rest, 128 MiB under load. Closing line `N passed, N failed`.
"""
import argparse
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import Server  # noqa: E402
from load import get_stream, put_stream  # noqa: E402

REST_MIB, LOAD_MIB = 64, 128


def stream(server, number, size, block, end, moved, faults):
    """Writes one object, then reads and rewrites it by turns until time is over."""
    name = f"stream{number}"
    turn = 0
    while time.monotonic() < end:
        try:
            if turn % 2 == 0:
                status = put_stream(server.port, "memory", name, size, block)
                ok = status == 200
            else:
                status, got = get_stream(server.port, "memory", name)
                ok = status == 200 and got == size
            if ok:
                moved[number] += size
            elif status != 503:
                faults.append(f"{name}: status {status}")
        except OSError as error:
            faults.append(f"{name}: {error}")
        turn += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--size-mib", type=int, default=128)
    options = parser.parse_args()
    size = options.size_mib << 20
    block = os.urandom(1 << 20)
    with Server() as server:
        server.client().create_bucket(Bucket="memory")
        time.sleep(1)
        rest = server.pss_mib()
        end = time.monotonic() + options.seconds
        moved, faults = [0] * options.clients, []
        threads = [
            threading.Thread(target=stream, args=(server, i, size, block, end, moved, faults))
            for i in range(options.clients)
        ]
        for thread in threads:
            thread.start()
        peak = 0.0
        while any(thread.is_alive() for thread in threads):
            peak = max(peak, server.pss_mib())
            time.sleep(0.1)
        after = server.pss_mib()
        served = sum(1 for m in moved if m)
    print(f"at rest {rest:.1f} MiB, peak {peak:.1f} MiB, after {after:.1f} MiB (Pss)")
    print(f"{sum(moved) / 2**30:.1f} GiB moved by {options.clients} clients, {served} of them served")
    checks = {
        f"at rest under {REST_MIB} MiB": rest < REST_MIB,
        f"under load under {LOAD_MIB} MiB": peak < LOAD_MIB,
        "no faults": not faults,
        "every client was served": served == options.clients,
    }
    for name, ok in checks.items():
        print(("ok " if ok else "FAILED ") + name)
    for fault in faults[:5]:
        print(f"  {fault}")
    print(f"{sum(checks.values())} passed, {len(checks) - sum(checks.values())} failed")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
