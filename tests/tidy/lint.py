#!/usr/bin/env python3
"""clang-format, cppcheck and clang-tidy, pinned in build/venv.

    lint.py BUILD [--all] [--seconds N]

clang-format and cppcheck see every file. clang-tidy sees tests/ only with --tests (`make long`), and is slow: files changed since the branch point come first, then the
others until --seconds (default 600) have passed; a file that was clean with the same content, headers and settings is not
checked again. Closing line `N passed, N failed`; what the time did not allow is said before it.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "venv" / "bin"
CPPCHECK = ["--std=c11", "--enable=warning,performance,portability", "--inline-suppr", "--error-exitcode=1", "--quiet",
            "-I.", "--suppress=missingIncludeSystem", "--suppress=unknownMacro"]

FILE_SECONDS = 180  # the analyzer's paths explode in a file now and then


def output(command, timeout=None):
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, errors="replace", timeout=timeout)


def sources():
    listed = output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.c", "*.h"]).stdout
    return [p for p in listed.split("\0") if p and (ROOT / p).is_file()]


def changed():
    for base in ("origin/main", "main", "HEAD~1"):
        found = output(["git", "merge-base", "HEAD", base])
        if found.returncode == 0:
            diff = output(["git", "diff", "--name-only", found.stdout.strip()]).stdout.split()
            return {p for p in diff if p.endswith((".c", ".h"))}
    return set()


def check_format(paths):
    result = output([str(BIN / "clang-format"), "--dry-run", "-Werror", *paths])
    wrong = {line.split(":")[0] for line in result.stderr.split("\n") if ": error:" in line}
    for path in sorted(wrong):
        print(f"{path}: not formatted: build/venv/bin/clang-format -i {path}")
    return len(paths) - len(wrong), len(wrong)


def check_cppcheck(paths, jobs):
    folders = sorted({p.split("/")[0] for p in paths if p.endswith(".c") and not p.startswith("tests/")})
    result = output([str(BIN / "cppcheck"), *CPPCHECK, f"-j{jobs}", *folders])
    if result.returncode != 0:
        print(result.stderr[-8000:] or result.stdout[-8000:])
    return (1, 0) if result.returncode == 0 else (0, 1)


class Cache:
    """Digests of what was clean."""

    def __init__(self, paths):
        self.path = ROOT / "build" / "lint-clean.json"
        self.clean = set(json.loads(self.path.read_text())) if self.path.exists() else set()
        common = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
        for path in sorted(p for p in paths if p.endswith(".h")):
            common.update((ROOT / path).read_bytes())
        self.common = common.digest()

    def key(self, path):
        return hashlib.sha256(self.common + (ROOT / path).read_bytes()).hexdigest()

    def save(self):
        self.path.write_text(json.dumps(sorted(self.clean)))


def check_tidy(build, paths, seconds, jobs, tests):
    known = {os.path.relpath(row["file"], ROOT) for row in json.loads((ROOT / build / "compile_commands.json").read_text())}
    cache = Cache(paths)
    first = changed()
    queue = [p for p in paths if p in known and p.endswith(".c") and (tests or not p.startswith("tests/"))]
    queue.sort(key=lambda p: (p.startswith("tests/"), p not in first, p))
    end = time.monotonic() + seconds
    passed = failed = left = 0

    def check(path):
        if cache.key(path) in cache.clean:
            return path, None
        if time.monotonic() > end:
            return path, "left"
        try:
            return path, output([str(BIN / "clang-tidy"), "-p", build, "--quiet", path], FILE_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{path}: clang-tidy took more than {FILE_SECONDS} s")
            return path, "left"

    with ThreadPoolExecutor(jobs) as pool:
        for path, result in pool.map(check, queue):
            if result == "left":
                left += 1
            elif result is None or result.returncode == 0:
                passed += 1
                cache.clean.add(cache.key(path))
            else:
                failed += 1
                print(result.stdout[-6000:])
    cache.save()
    if left:
        print(f"clang-tidy: {left} files were left out after {seconds} s (the next run begins with them)")
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("LINT_SECONDS", "600")))
    parser.add_argument("--tests", action="store_true", help="clang-tidy sees tests/ too: an hour")
    parser.add_argument("--only", choices=["format", "cppcheck", "tidy"])
    arguments = parser.parse_args()
    jobs = os.cpu_count() or 1
    paths = sources()
    total = [0, 0]
    subprocess.run(["ninja", "-C", arguments.build, "proto"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for name, check in (("format", lambda: check_format(paths)),
                        ("cppcheck", lambda: check_cppcheck(paths, jobs)),
                        ("tidy", lambda: check_tidy(arguments.build, paths, arguments.seconds, jobs, arguments.tests))):
        if arguments.only in (None, name):
            passed, failed = check()
            print(f"{name}: {passed} clean, {failed} not", flush=True)
            total[0] += passed
            total[1] += failed
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
