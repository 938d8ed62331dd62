#!/usr/bin/env python3
"""versitygw's integration client (not part of this tree; `go install`) against build/kist.

    tests/clients/versity.py [TEST ...]     full-flow with versioning and website-hosting, or single tests by name

Its tests make users through `./versitygw admin`; a shim of that name maps these calls to `kist admin`. Tests that
contradict AWS or ask for what kist does not claim stand in versity-not-claimed.txt with the reason: they may fail.
Results, one line a test: build/versity.txt; what failed and how: build/versity.log. Closing line: `N passed, N failed`.
"""
import fnmatch
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from kist import ROOT, Server, binary, clean_environment  # noqa: E402

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
# The suite expects the owner of what root makes to be root's access key.
ROOT_KEY, ROOT_SECRET = "root", "versity/client+secret0123"
TIMEOUT_S = 1500
# Tests that want a store to themselves.
ALONE = ["ListBuckets_empty_success"]
# Websites are addressed as test-bucket-N.DOMAIN.
DOMAIN, HOSTS = "localhost", 200

SHIM = """#!/usr/bin/env python3
import os, subprocess, sys

words = sys.argv[1:]
verb = next((w for w in words if w in ("create-user", "delete-user", "change-bucket-owner", "list-buckets")), None)
options = dict(zip(words[words.index(verb) + 1:][::2], words[words.index(verb) + 1:][1::2])) if verb else {}
caller = dict(zip(words[1:words.index(verb)][::2], words[1:words.index(verb)][1::2])) if verb else {}


def admin(*command, **extra):
    env = dict(os.environ, KIST_ROOT_ACCESS_KEY=caller["-a"], KIST_ROOT_SECRET_KEY=caller["-s"], **extra)
    done = subprocess.run([os.environ["SHIM_KIST"], "admin", "--admin", os.environ["SHIM_ADMIN"], *command],
                          env=env, capture_output=True, text=True)
    if done.returncode != 0:
        print("XAdminAccessDenied" if "key of root" in done.stderr else "XAdmin: " + done.stderr)
        sys.exit(1)
    print(done.stdout)


if verb == "create-user":
    admin("user", "add", options["-a"])
    admin("key", "add", options["-a"], KIST_NEW_ACCESS_KEY=options["-a"], KIST_NEW_SECRET_KEY=options["-s"])
elif verb == "delete-user":
    admin("user", "remove", options["-a"])
elif verb == "change-bucket-owner":
    admin("bucket", "owner", options["-b"], options["-o"])
elif verb == "list-buckets":
    admin("bucket", "list")
else:
    sys.exit("shim: unknown call " + " ".join(words))
"""


def client():
    """Path of the suite's binary, built once below build/."""
    path = ROOT / "build" / "peers" / "versitygw"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        env = clean_environment({"GOBIN": str(path.parent), "GOTOOLCHAIN": "auto"})
        env.pop("AWS_CA_BUNDLE", None)
        subprocess.run(["go", "install", MODULE], env=env, check=True, timeout=1200)
    return path


def not_claimed():
    """{test: reason}"""
    listed = {}
    for line in (HERE / "versity-not-claimed.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(None, 1)
            listed[name] = reason
    return listed


def results_of(output):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    found = {}
    for verdict, name in re.findall(r"^(PASS|FAIL|SKIP) +([A-Za-z0-9_]+)", plain, re.M):
        if found.get(name) != "FAIL":
            found[name] = verdict
    reasons = dict(re.findall(r"^FAIL +([A-Za-z0-9_]+):? *(.*)", plain, re.M))
    return found, reasons


def run(server, scratch, command, prefix=()):
    shim = Path(scratch) / "versitygw"
    shim.write_text(SHIM)
    shim.chmod(0o755)
    env = clean_environment({"SHIM_KIST": binary(), "SHIM_ADMIN": f"127.0.0.1:{server.admin_port}"})
    done = subprocess.run([*prefix, str(client()), "test", "-a", ROOT_KEY, "-s", ROOT_SECRET, "-e", server.endpoint, *command],
                          cwd=scratch, env=env, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, errors="replace")
    return done.stdout


def with_hosts(scratch):
    """What to put before a command for which names below DOMAIN must resolve; None: they cannot."""
    names = [f"test-bucket-{i}.{DOMAIN}" for i in range(HOSTS)] + [f"nested.bucket.{DOMAIN}"]
    try:
        socket.getaddrinfo(names[-1], 80)
        return []
    except OSError:
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            return None
    hosts = Path(scratch) / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + "".join(f"127.0.0.1 {name}\n" for name in names))
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]


def run_websites(server, scratch):
    prefix = with_hosts(scratch)
    if prefix is None:
        print(f"names below {DOMAIN} do not resolve: websites are left out")
        return ""
    return run(server, scratch, ["website-hosting", "--domain", DOMAIN, "--port", str(server.port)], prefix)


def main():
    if shutil.which("go") is None and not (ROOT / "build" / "peers" / "versitygw").exists():
        print("go is not installed\n0 passed, 1 failed")
        return 1
    arguments = {"environment": {"KIST_ROOT_ACCESS_KEY": ROOT_KEY, "KIST_ROOT_SECRET_KEY": ROOT_SECRET},
                 "arguments": ["--website-domain", DOMAIN]}
    with tempfile.TemporaryDirectory() as scratch, Server(**arguments) as server:
        names = [n for n in sys.argv[1:] if not n.startswith("-")]
        output = "".join(run(server, scratch, [name]) for name in names) if names else \
            run(server, scratch, ["full-flow", "-vs", "--parallel"]) + run_websites(server, scratch)
    found, reasons = results_of(output)
    for name in [] if names else ALONE:
        with tempfile.TemporaryDirectory() as scratch, Server(**arguments) as server:
            alone = results_of(run(server, scratch, [name]))
        found.update(alone[0])
        reasons.update(alone[1])
    crash = re.search(r"^(?:panic|fatal error): .*", output, re.M)
    if crash:  # of the suite itself: what ran beside it is missing
        found["suite_ended"], reasons["suite_ended"] = "FAIL", crash.group(0)
    listed = not_claimed()
    excused = {name for name in found if any(fnmatch.fnmatchcase(name, pattern) for pattern in listed)}
    failed = {n for n, verdict in found.items() if verdict == "FAIL"}
    results = Path(os.environ.get("KIST_VERSITY_RESULTS", ROOT / "build" / "versity.txt"))
    results.write_text("".join(f"{verdict} {name}\n" for name, verdict in sorted(found.items())))
    (ROOT / "build" / "versity.log").write_text("".join(f"{name}: {reason}\n" for name, reason in sorted(reasons.items())))
    for name in sorted(failed - excused):
        print(f"FAIL {name}: {reasons.get(name, '')}")
    for name in sorted((set(listed) & set(found)) - failed):
        print(f"note: {name} passes and is listed as not claimed")
    passed = sum(1 for verdict in found.values() if verdict == "PASS")
    unexcused = len(failed - excused)
    print(f"{passed} of {len(found)} tests pass, {len(failed & excused)} not claimed")
    print(f"{passed} passed, {unexcused if found else 1} failed")
    return 1 if unexcused or not found else 0


if __name__ == "__main__":
    sys.exit(main())
