#!/usr/bin/env python3
"""Runs the black-box S3 tests (pytest, boto3, aws-cli) against build/kist; bounded in time.

    tests/s3/run.py [pytest arguments]

Closing line: `N passed, N failed`. KIST_TEST_DIRECTORIES=4 runs them over four directories.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 1500


def main():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE), *sys.argv[1:]]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True,
                               env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 15)
        output, _ = process.communicate()
        output += f"\nnot finished after {TIMEOUT_S} s\n"
    sys.stdout.write(output)
    passed = re.search(r"(\d+) passed", output)
    failed = sum(int(n) for n in re.findall(r"(\d+) (?:failed|errors?)\b", output.rsplit("\n", 3)[-2] if output else ""))
    if process.returncode != 0:
        failed = max(failed, 1)
    print(f"{passed.group(1) if passed else 0} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
