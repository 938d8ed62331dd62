#!/usr/bin/env python3
"""Runs a copy of ceph/s3-tests (not part of this tree) against build/kist.

    tests/s3/s3tests.py DIR [pytest arguments]        make test-s3tests DIR=...

Makes a venv beside build/ with the suite's own requirements, starts kist with the users that the suite wants, and
leaves out what no S3 store but its own answers (`fails_on_aws`, bucket logging, cloud tiers). Results, one line a
test: build/s3tests.txt. Closing line: `N passed, N failed`.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from kist import ACCESS_KEY, ROOT, SECRET_KEY, Server, binary, clean_environment  # noqa: E402

MARKERS = ("not fails_on_aws and not bucket_logging and not bucket_logging_cleanup and not cloud_transition and "
           "not cloud_restore and not lifecycle_expiration and not lifecycle_transition")
# Cases that wait for lifecycle: on a server whose day is this short. Those that look at the dates of headers need a
# real day.
DAY_S = 10
EXPIRY = "lifecycle_expiration and not lifecycle_transition and not cloud_transition and not fails_on_aws"
HEADERS = "expiration_header"
TIMEOUT_S = 3600
USERS = {"main": ("mainuser", "MAINACCESSKEY0000000", "main/secret/key/0123456789"),
         "alt": ("altuser", "ALTACCESSKEY00000000", "alt/secret/key/01234567890"),
         "tenant": ("tenantuser", "TENANTACCESSKEY00000", "tenant/secret/key/01234567"),
         "iam": ("iamuser", "IAMACCESSKEY00000000", "iam/secret/key/01234567890"),
         "iam root": ("iamroot", "IAMROOTACCESSKEY0000", "iamroot/secret/key/0123456"),
         "iam alt root": ("iamaltroot", "IAMALTROOTACCESSKEY0", "iamaltroot/secret/key/0123")}


def venv(directory):
    path = ROOT / "build" / "s3tests-venv"
    if not (path / "bin" / "pytest").exists():
        subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
        subprocess.run([str(path / "bin" / "pip"), "-q", "install", "-r", str(directory / "requirements.txt"),
                        "pytest-timeout"], check=True)
    return path / "bin" / "python"


def add_users(server):
    for user, access_key, secret_key in USERS.values():
        env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY,
                                 "KIST_NEW_ACCESS_KEY": access_key, "KIST_NEW_SECRET_KEY": secret_key})
        for command in (["user", "add", user], ["key", "add", user]):
            subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", *command], env=env,
                           check=True, capture_output=True)


def configuration(server, day_s):
    text = (f"[DEFAULT]\nhost = 127.0.0.1\nport = {server.port}\nis_secure = False\nssl_verify = False\n"
            "[fixtures]\nbucket prefix = s3tests-{random}-\niam name prefix = s3tests-\niam path prefix = /s3tests/\n")
    for section, (user, access_key, secret_key) in USERS.items():
        name = section if section.startswith("iam") else f"s3 {section}"
        text += (f"[{name}]\ndisplay_name = {user}\nuser_id = {user}\nemail = {user}@example.com\n"
                 f"api_name =\naccess_key = {access_key}\nsecret_key = {secret_key}\n")
        if section == "main":
            text += f"lc_debug_interval = {day_s}\n"
        if section == "tenant":
            text += "tenant = tenant\n"
    return text


def run(python, directory, chosen, day_s=None):
    """One server, one pytest; its output."""
    arguments = ["--sigv2", "on", "--default-ownership", "ObjectWriter"]  # the habits of the suite
    arguments += ["--lifecycle-day", f"{day_s}s"] if day_s else []
    with tempfile.TemporaryDirectory() as scratch, Server(arguments=arguments) as server:
        add_users(server)
        conf = Path(scratch) / "s3tests.conf"
        conf.write_text(configuration(server, day_s or DAY_S))
        trace = os.environ.get("KIST_S3TESTS_TB", "no")
        command = [str(python), "-m", "pytest", "-q", "-rA", f"--tb={trace}", "--timeout=120", "-p", "no:cacheprovider",
                   *chosen]
        env = clean_environment({"S3TEST_CONF": str(conf), "PYTHONDONTWRITEBYTECODE": "1"})
        try:
            output = subprocess.run(command, cwd=directory, env=env, text=True, capture_output=True,
                                    timeout=TIMEOUT_S).stdout
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode()
    print(output[-2000:] if trace == "no" else output)
    return output


def main():
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "s3tests").is_dir():
        print("make test-s3tests DIR=<a copy of ceph/s3-tests>")
        print("0 passed, 1 failed")
        return 1
    directory = Path(sys.argv[1]).resolve()
    python = venv(directory)
    files = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]
    short_day = int(os.environ.get("KIST_S3TESTS_DAY_S", "0"))
    if len(sys.argv) > 2:
        chosen = sys.argv[2:] if not sys.argv[2].startswith("-") else [*files, *sys.argv[2:]]
        output = run(python, directory, chosen, short_day)
    else:
        output = run(python, directory, [*files, "-m", MARKERS])
        output += run(python, directory, [files[0], "-m", EXPIRY, "-k", HEADERS])
        output += run(python, directory, [files[0], "-m", EXPIRY, "-k", f"not {HEADERS}"], short_day or DAY_S)
    lines = sorted(set(re.findall(r"^(?:PASSED|FAILED|ERROR) \S+", output, re.M)))
    results = Path(os.environ.get("KIST_S3TESTS_RESULTS", ROOT / "build" / "s3tests.txt"))
    results.parent.mkdir(exist_ok=True)
    results.write_text("\n".join(lines) + "\n")
    failed = [line for line in lines if not line.startswith("PASSED")]
    print(f"{len(lines) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
