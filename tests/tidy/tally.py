#!/usr/bin/env python3
"""Runs suites for the Makefile and closes each with one line, `N passed, N failed`.

    tally.py run COMMAND...                    a suite that prints such a line itself; none: one test
    tally.py ctest BUILD JOBS                  unit tests
    tally.py sim BUILD JOBS START SEEDS        the simulator
    tally.py fuzz BUILD JOBS RUNS TARGET SECONDS
    tally.py all NAME=COMMAND...               several suites, one after the other; a sum at the end
    tally.py resumable DIR NAME=COMMAND...     the same; a result of this commit in DIR is not made again

Exit 0 when nothing failed. Suites run with build/venv first in PATH when it exists.
"""
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLOSING = re.compile(r"(\d+) passed(?:, (\d+) skipped)?, (\d+) failed")


def environment():
    env = dict(os.environ)
    venv = ROOT / "build" / "venv" / "bin"
    if venv.is_dir():
        env["PATH"] = f"{venv}:{env['PATH']}"
    env.setdefault("KIST_BINARY", str(ROOT / "build" / "kist"))
    return env


def stream(command, shell=False):
    """Runs it, shows what it prints, returns (exit code, the last closing line's counts or None)."""
    counts = None
    process = subprocess.Popen(command, shell=shell, executable="/bin/bash" if shell else None, cwd=ROOT,
                               env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace")
    for line in process.stdout:
        found = CLOSING.search(line)
        if found:
            counts = (int(found.group(1)), int(found.group(3)))
        sys.stdout.write(line)
        sys.stdout.flush()
    return process.wait(), counts


def judged(code, counts):
    """A suite that fails without saying what counts as one failure; one that says nothing is one test."""
    if counts is None:
        return (1, 0) if code == 0 else (0, 1)
    passed, failed = counts
    return passed, max(failed, 1) if code != 0 else failed


def close(passed, failed):
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if failed == 0 else 1


def run(command):
    program = ROOT / command[0]
    if "/" in command[0] and not program.exists():
        print(f"{command[0]} does not exist in this tree")
        return close(0, 1)
    return close(*judged(*stream(command)))


def ctest(build, jobs):
    built = subprocess.run(["ninja", "--quiet", "-k", "0", "-C", build, "-j", jobs], cwd=ROOT, env=environment(), text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    if built.returncode != 0:
        sys.stdout.write(built.stdout[-20000:])
    command = ["ctest", "--test-dir", build, "-j", jobs, "--output-on-failure", "--no-tests=error"]
    result = subprocess.run(command, cwd=ROOT, env=environment(), text=True, capture_output=True, errors="replace")
    total = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", result.stdout)
    if result.returncode != 0:
        sys.stdout.write(result.stdout[-20000:] + result.stderr[-4000:])
    if not total:
        return close(0, 1)
    failed = int(total.group(2))
    return close(int(total.group(3)) - failed, max(failed, 1) if built.returncode != 0 else failed)


def sim(build, jobs, start, seeds):
    program = next((p for p in (ROOT / build / "tests/sim/kist_sim", ROOT / build / "kist_sim") if p.exists()), None)
    if program is None:
        print(f"the simulator is not built in {build}")
        return close(0, 1)
    return close(*judged(*stream([str(program), "--seeds", seeds, "--start", start, "--jobs", jobs])))


def fuzz(build, jobs, runs, target, seconds):
    """Every corpus is replayed, then new inputs are tried: RUNS of them, or for SECONDS."""
    if not (ROOT / "tests/fuzz/CMakeLists.txt").exists():
        print("there are no fuzz targets in this tree")
        return close(0, 1)
    configure = ["cmake", "-S", ".", "-B", build, "-G", "Ninja", "-DFUZZ=ON", "-DTESTS=ON", "-DCMAKE_C_COMPILER=clang",
                 "-DCMAKE_CXX_COMPILER=clang++"]
    subprocess.run(configure, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    names = sorted(p.stem for p in (ROOT / "tests/fuzz").glob("fuzz_*.c"))
    names = [n for n in names if not target or n in (target, f"fuzz_{target}")]
    built = subprocess.run(["ninja", "--quiet", "-C", build, "-j", jobs, *names], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    if built.returncode != 0:
        sys.stdout.write(built.stdout[-8000:])
        return close(0, max(len(names), 1))
    passed = failed = 0
    for name in names:
        corpus = ROOT / "tests/fuzz/corpus" / name.removeprefix("fuzz_")
        work = ROOT / build / "corpus" / name
        work.mkdir(parents=True, exist_ok=True)
        program = next(p for p in (ROOT / build / "tests/fuzz" / name, ROOT / build / name) if p.is_file())
        limit = [f"-max_total_time={seconds}"] if seconds else [f"-runs={runs}"]
        command = [str(program), *limit, "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={work}/", str(work)]
        command += [str(corpus)] if corpus.is_dir() else []
        result = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, errors="replace")
        print(f"{'ok    ' if result.returncode == 0 else 'FAILED'} {name}", flush=True)
        if result.returncode == 0:
            passed += 1
        else:
            failed += 1
            sys.stdout.write(result.stderr[-6000:])
    return close(passed, max(failed, 1) if not names else failed)


def suites(rows, results=None):
    total_passed = total_failed = 0
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True).stdout.strip()
    summary = []
    for row in rows:
        name, command = row.split("=", 1)
        kept = results / f"{name}.txt" if results else None
        if kept and kept.exists() and kept.read_text().startswith(f"{commit} passed"):
            summary.append(f"{name:10} kept: {kept.read_text().strip()}")
            total_passed += 1
            continue
        print(f"== {name}: {command}", flush=True)
        begin = time.monotonic()
        passed, failed = judged(*stream(command, shell=True))
        seconds = time.monotonic() - begin
        total_passed += passed
        total_failed += failed
        summary.append(f"{name:10} {passed:6} passed {failed:4} failed {seconds:7.0f} s")
        if kept:
            results.mkdir(parents=True, exist_ok=True)
            kept.write_text(f"{commit} {'passed' if failed == 0 else 'failed'}: {passed} passed, {failed} failed, "
                            f"{seconds:.0f} s, {shlex.quote(command)}\n")
    print("\n".join(["==", *summary]))
    return close(total_passed, total_failed)


def main(arguments):
    verb, rest = arguments[0], arguments[1:]
    if verb == "run":
        return run(rest)
    if verb == "ctest":
        return ctest(*rest)
    if verb == "sim":
        return sim(*rest)
    if verb == "fuzz":
        return fuzz(*rest)
    if verb == "all":
        return suites(rest)
    if verb == "resumable":
        return suites(rest[1:], ROOT / rest[0])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
