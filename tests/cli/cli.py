#!/usr/bin/env python3
"""The program as an operator meets it: what it refuses and how it says so, what it prints, the admin port and
`kist admin`, stopping, refilling.

    tests/cli/cli.py [NAME ...]

Closing line: `N passed, N failed`.
"""
import base64
import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import ACCESS_KEY, SECRET_KEY, Server, binary, clean_environment, free_port  # noqa: E402


def serve(arguments, environment=None, timeout=20):
    """A start that is expected to end by itself: (exit code, its one line)."""
    ports = ["--listen", f"127.0.0.1:{free_port()}", "--admin-listen", f"127.0.0.1:{free_port()}"]
    result = subprocess.run([binary(), "serve", *ports, *arguments], env=clean_environment(environment), text=True,
                            capture_output=True, timeout=timeout)
    return result.returncode, result.stderr.strip()


def refused(arguments, code, text, environment=None):
    got, line = serve(arguments, environment)
    assert got == code, f"exit {got}, want {code}: {line}"
    assert text in line, f"'{line}' does not say '{text}'"
    assert "\n" not in line, f"more than one line: {line}"


def admin(server, *arguments, code=0, environment=None):
    env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY, **(environment or {})})
    result = subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", *arguments], env=env, text=True,
                            capture_output=True, timeout=40)
    assert result.returncode == code, f"{arguments}: exit {result.returncode}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def get(server, path, headers=None, method="GET", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def basic(access=ACCESS_KEY, secret=SECRET_KEY):
    return {"Authorization": "Basic " + base64.b64encode(f"{access}:{secret}".encode()).decode()}


class Scratch:
    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="kist-cli-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


# ---- What is refused ----

def wrong_command_lines_end_with_2():
    with Scratch() as path:
        data = ["--data", str(path / "d")]
        refused([*data, "--dta", "x"], 2, "unknown option '--dta'")
        refused([*data, "--threads", "many"], 2, "--threads: 'many' is not a number")
        refused([*data, "--segment-size", "1"], 2, "out of range")
        refused([*data, "--root-secret-key", "x"], 2, "every user of this machine")
        refused([*data, "--config", "/no/such/file"], 2, "/no/such/file")
        refused([*data, "--tls-cert", "/no/such"], 2, "belong together")
        refused([*data, *data], 2, "is named twice")
        refused([*data], 2, "KIST_ROOT_ACCESS_KEY", {"KIST_ROOT_ACCESS_KEY": "abcdef"})
        refused([*data], 2, "'Bad_Name' is not a bucket name", {"KIST_BUCKETS": "good,Bad_Name"})
        refused(["--data", str(path / "no" / "parent")], 2, "neither it nor")
        refused([*data, "--region", "eu\nx"], 2, "--region: want a name")
        for domain in ("http://s3.example", "a_b.example", "two words", "-a.example", "a.example.", "a..example", "x" * 300):
            refused([*data, "--domain", domain], 2, "--domain: want a host name")
        refused([*data, "--website-domain", "a_b"], 2, "--website-domain: want a host name")
        refused([*data, "--domain", "a.example", "--website-domain", "A.example"], 2, "are the same")
        (path / "file").write_text("x")
        refused(["--data", str(path / "file")], 2, "is not a directory")
        refused(["--data", str(path / "file" / "d")], 2, "neither it nor the directory")
        refused([], 2, "no data directory")
        assert not (path / "d").exists(), "something was made"


def port_in_use_touches_nothing():
    with Scratch() as path, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, line = serve(["--data", str(path / "d"), "--listen", f"127.0.0.1:{port}"])
        assert code == 1 and "in use by another process" in line and str(port) in line, line
        assert not (path / "d").exists(), "something was made"


def one_port_for_both_is_refused():
    port = free_port()
    for listen in (f"127.0.0.1:{port}", f"localhost:{port}", f"0.0.0.0:{port}"):
        with Scratch() as path:
            code, line = serve(["--data", str(path / "d"), "--listen", listen, "--admin-listen", f"127.0.0.1:{port}"])
            assert code in (1, 2) and "another with --admin-listen" in line and "\n" not in line, line
            assert not (path / "d").exists(), "something was made"


def foreign_directory_touches_nothing():
    with Scratch() as path:
        (path / "holiday.jpg").write_text("x")
        refused(["--data", str(path)], 1, "holds files but no kist identity")
        assert [p.name for p in path.iterdir()] == ["holiday.jpg"]


def second_process_is_refused():
    with Server() as server:
        refused(["--data", str(server.directories[0])], 1, "in use by another kist")
        assert get(server, "/health/ready")[0] == 200


def read_only_directory_is_refused():
    if os.geteuid() == 0:
        return  # root writes everywhere
    with Scratch() as path:
        path.chmod(0o500)
        refused(["--data", str(path)], 1, "cannot be written")


def another_cluster_is_refused():
    with Server(directories=2) as one, Server(directories=2) as other:
        assert one.stop() == 0 and other.stop() == 0
        refused(["--data", str(one.directories[0]), "--data", str(other.directories[1])], 2, "another cluster")


def state_of(directory):
    """Names, sizes, modes, times and bytes."""
    return {str(p.relative_to(directory)): (p.lstat().st_mode, p.lstat().st_mtime_ns,
                                            p.read_bytes() if p.is_file() else b"") for p in directory.rglob("*")}


def untouched(directory, arguments, code, text):
    before = state_of(directory)
    refused(arguments, code, text)
    assert state_of(directory) == before, f"{text}: touched"


def break_identity(identity, how):
    bytes_ = bytearray(identity.read_bytes())
    identity.unlink()
    if how == "foreign":
        identity.write_bytes(b"something else entirely, and long enough to be read as a header" * 3)
    elif how == "damaged":
        bytes_[40] ^= 1
        identity.write_bytes(bytes_)
    elif how == "empty":
        identity.write_bytes(b"")
    elif how == "unreadable":
        identity.symlink_to("identity")


def unknown_format_is_refused():
    rows = (("foreign", "its identity cannot be used"), ("damaged", "checksum mismatch"), ("empty", "not an identity file"),
            ("gone", "identity is missing though data was here"), ("unreadable", "its identity cannot be read"))
    with Server() as server:
        assert server.stop() == 0
        for how, text in rows:
            copy = server.path / how
            shutil.copytree(server.directories[0], copy)
            break_identity(copy / "identity", how)
            untouched(copy, ["--data", str(copy)], 1, text)
            # Nobody could refill it: that advice would cost the only copy.
            assert "refilled" not in serve(["--data", str(copy)])[1], how


def lost_contents_are_refused():
    with Server() as server:
        assert server.stop() == 0
        for part in ("meta", "data", "meta/log", "meta/state", "data/segments", "meta/*", "data/*"):
            copy = server.path / "copy"
            shutil.copytree(server.directories[0], copy)
            for found in list(copy.glob(part)):
                shutil.rmtree(found) if found.is_dir() else found.unlink()
            untouched(copy, ["--data", str(copy)], 1, "is missing though data was here")
            shutil.rmtree(copy)


def more_directories_are_refused():
    with Server() as server:
        assert server.stop() == 0
        untouched(server.path, ["--data", str(server.directories[0]), "--data", str(server.path / "more")], 2,
                  "the cluster has 1 data directory, 2 are named")


class Disk:
    """A small file system of one's own; None where mounting is not allowed."""
    def __init__(self, mib):
        self.mib = mib

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="kist-cli-disk-"))
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.mib}m,mode=700", "kist-cli", str(self.path)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        return self.path if self.mounted else None

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", str(self.path)], check=False)
        self.path.rmdir()


def read_only_mount_is_refused():
    with Disk(400) as disk:
        if disk is None:
            return
        with Server() as server:
            assert server.stop() == 0
            shutil.copytree(server.directories[0], disk / "d")
        (disk / "empty").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name in ("d", "empty", "new"):
            untouched(disk, ["--data", str(disk / name)], 1, "cannot be written: a read-only file system")


def fill(disk):
    """Takes what is free."""
    free = os.statvfs(disk)
    with open(disk / "filler", "ab") as out:
        os.posix_fallocate(out.fileno(), out.tell(), free.f_bavail * free.f_frsize)


def full_disk_refuses_writes_and_recovers():
    import botocore.exceptions

    with Disk(400) as disk:
        if disk is None:
            return
        server = Server(arguments=["--free-space-min", "16M", "--segment-size", "16M"])
        server.directories = [disk / "d"]
        with server:
            s3 = server.client()
            s3.create_bucket(Bucket="full")
            for key, size in (("big", 3_000_000), ("middle", 100_000), ("small", 10)):
                s3.put_object(Bucket="full", Key=key, Body=b"x" * size)
            fill(disk)
            deadline = time.monotonic() + 20
            refusals = set()
            for key, size in (("big", 3_000_000), ("middle", 100_000), ("small", 10)) * 400:
                try:
                    s3.put_object(Bucket="full", Key=f"new-{key}", Body=b"y" * size)
                    refusals.discard(key)
                except botocore.exceptions.ClientError as error:
                    assert error.response["Error"]["Code"] == "InsufficientStorage", error
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 507, error
                    refusals.add(key)
                if len(refusals) == 3:
                    break
                assert time.monotonic() < deadline, f"only {refusals} are refused"
                time.sleep(0.05)
            assert len(s3.get_object(Bucket="full", Key="big")["Body"].read()) == 3_000_000
            for key in ("big", "small"):
                s3.delete_object(Bucket="full", Key=key)
            code = server.stop()
            assert code == 0, f"{code}: {server.tail()}"
            fill(disk)  # stopping has given some back
            untouched(disk / "d", ["--data", str(disk / "d")], 1, "the disk is full")
            refused(["--data", str(disk / "other")], 1, "the disk is full")
            assert not (disk / "other").exists()
            (disk / "filler").unlink()
            server.start()
            fill(disk)
            time.sleep(2.2)  # it looks once a second
            (disk / "filler").unlink()
            for key, size in (("big", 3_000_000), ("middle", 100_000), ("small", 10)):
                while True:
                    try:
                        server.client().put_object(Bucket="full", Key=f"again-{key}", Body=b"z" * size)
                        break
                    except botocore.exceptions.ClientError as error:
                        assert time.monotonic() < deadline + 20, f"no recovery: {error}"
                        time.sleep(0.2)
            assert server.stop() == 0


# ---- Start and stop ----

def first_start_makes_and_prints_keys():
    with Scratch() as path:
        ports = [free_port(), free_port()]
        command = [binary(), "serve", "--data", str(path / "d"), "--listen", f"127.0.0.1:{ports[0]}", "--admin-listen",
                   f"127.0.0.1:{ports[1]}"]
        process = subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            seen = ""
            while "stop " not in seen:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                seen += line
            kept = path / "d" / "root-credentials"
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
            keys = dict(line.split("=", 1) for line in kept.read_text().splitlines())
            assert keys["KIST_ROOT_ACCESS_KEY"] in seen and keys["KIST_ROOT_SECRET_KEY"] in seen
            assert "NONE: one directory, one copy" in seen and f"http://127.0.0.1:{ports[0]}" in seen
            assert seen.count("aws --endpoint-url") == 3
            # The line that sets the keys works as it is printed.
            line = next(line for line in seen.splitlines() if line.startswith("  try "))[6:]
            exported = subprocess.run(["sh", "-c", line + "; env"], env=clean_environment(), text=True, capture_output=True).stdout
            assert f"AWS_ACCESS_KEY_ID={keys['KIST_ROOT_ACCESS_KEY']}\n" in exported
            assert f"AWS_SECRET_ACCESS_KEY={keys['KIST_ROOT_SECRET_KEY']}\n" in exported
            out = subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{ports[1]}", "--data", str(path / "d"), "user",
                                  "list"], env=clean_environment(), text=True, capture_output=True, timeout=40)
            assert out.returncode == 0 and "root" in out.stdout, out
        finally:
            process.terminate()
            assert process.wait(60) == 0


def starts_again_and_keeps_keys():
    with Server(environment={"KIST_BUCKETS": "one,two"}) as server:
        assert [b["Name"] for b in server.client().list_buckets()["Buckets"]] == ["one", "two"]
        assert server.stop() == 0
        server.environment = {"KIST_ROOT_ACCESS_KEY": "", "KIST_ROOT_SECRET_KEY": "", "KIST_BUCKETS": "three"}
        server.start()
        assert [b["Name"] for b in server.client().list_buckets()["Buckets"]] == ["one", "two"]


def a_misspelt_variable_is_said():
    with Server(environment={"KIST_LISTN": "127.0.0.1:1"}) as server:
        text = (server.path / "server.log").read_text()
        assert "environment_unknown name=KIST_LISTN" in text and text.count("environment_unknown") == 1, text


def options_come_from_the_file():
    with Scratch() as path:
        (path / "kist.conf").write_text("[serve]\nregion = eu-far-1\nlog-json = yes\n")
        with Server(arguments=["--config", str(path / "kist.conf")]) as server:
            assert "eu-far-1" in get(server, "/")[1]
            assert '"event":"ready"' in server.tail()


def sigterm_lets_requests_finish():
    with Server() as server:
        s3 = server.client(signature_version="s3v4")
        s3.create_bucket(Bucket="drain")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        url = s3.generate_presigned_url("put_object", Params={"Bucket": "drain", "Key": "slow"})
        connection.putrequest("PUT", url.split(str(server.port), 1)[1])
        connection.putheader("Content-Length", "200000")
        connection.endheaders()
        connection.send(b"a" * 100000)
        time.sleep(0.3)
        server.process.terminate()
        time.sleep(0.3)
        connection.send(b"a" * 100000)
        reply = connection.getresponse()
        assert reply.status == 200, f"{reply.status} {reply.read()} {server.tail()}"
        connection.close()
        assert server.process.wait(60) == 0
        server.start()
        assert server.client().get_object(Bucket="drain", Key="slow")["ContentLength"] == 200000


# ---- Directories ----

def empty_directory_is_refilled_and_said():
    with Server(directories=4) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="fill")
        body = os.urandom(700_000)
        s3.put_object(Bucket="fill", Key="object", Body=body)
        assert server.stop() == 0
        shutil.rmtree(server.directories[2])
        server.directories[2].mkdir()
        server.start()
        assert "is being refilled" in server.tail(40)
        assert server.client().get_object(Bucket="fill", Key="object")["Body"].read() == body
        assert server.stop() == 0
        server.start()
        assert "is being refilled" not in server.tail(14)


def missing_directory_is_served_without():
    with Server(directories=4) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="away")
        body = os.urandom(700_000)
        s3.put_object(Bucket="away", Key="object", Body=body)
        assert server.stop() == 0
        server.directories[1].rename(server.path / "elsewhere")
        server.start()
        assert "MISSING" in server.tail(40)
        assert server.client().get_object(Bucket="away", Key="object")["Body"].read() == body
        server.client().put_object(Bucket="away", Key="other", Body=body)
        assert "Missing:" in get(server, "/")[1]


def too_many_empty_are_refused():
    with Server(directories=3) as server:
        assert server.stop() == 0
        for directory in server.directories[:2]:
            shutil.rmtree(directory)
            directory.mkdir()
        refused([a for d in server.directories for a in ("--data", str(d))], 1, "more than can be refilled")
        assert not any(server.directories[0].iterdir())


# ---- Admin port ----

def pages_need_no_credentials_and_tell_no_secrets():
    with Server(directories=2, environment={"KIST_BUCKETS": "shown"}) as server:
        assert get(server, "/health/live") == (200, "live\n")
        assert get(server, "/health/ready") == (200, "ready\n")
        status, page = get(server, "/")
        assert status == 200 and "1+1" in page and "shown" in page and SECRET_KEY not in page
        status, text = get(server, "/metrics")
        assert status == 200 and 'kist_losses_tolerated{of="directory"} 1' in text
        assert 'kist_losses_tolerated{of="block_device"} 0' in text
        assert text.count("kist_disk_healthy{") == 2
        for line in text.splitlines():
            assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2, line
        assert get(server, "/nope")[0] == 404
        assert get(server, "/", method="POST")[0] == 405


def api_wants_the_keys_of_root():
    with Server() as server:
        assert get(server, "/admin/v1/users")[0] == 401
        assert get(server, "/admin/v1/users", basic(secret="wrong-secret"))[0] == 401
        assert get(server, "/admin/v1/users", basic())[0] == 200
        admin(server, "user", "add", "ann")
        made = json.loads(admin(server, "--json", "key", "add", "ann"))
        assert get(server, "/admin/v1/users", basic(made["access_key"], made["secret_key"]))[0] == 401
        assert get(server, "/admin/v1/users", basic(), method="POST", body="not json")[0] == 400
        assert get(server, "/admin/v1/users", basic(), method="POST", body="x" * 100_000)[0] == 413
        assert get(server, "/admin/v1/nothing", basic())[0] == 404


def users_keys_and_buckets_are_managed():
    with Server() as server:
        admin(server, "user", "add", "ann")
        assert "exists already" in admin(server, "user", "add", "ann", code=1)
        assert "ann" in admin(server, "user", "list")
        made = json.loads(admin(server, "--json", "key", "add", "ann"))
        ann = server.client(made["access_key"], made["secret_key"])
        ann.create_bucket(Bucket="ann-bucket")
        admin(server, "bucket", "add", "given", "ann")
        rows = {r["name"]: r["owner"] for r in json.loads(admin(server, "--json", "bucket", "list"))["buckets"]}
        assert rows == {"ann-bucket": "ann", "given": "ann"}, rows
        ann.put_object(Bucket="given", Key="k", Body=b"x")
        assert "not empty" in admin(server, "bucket", "remove", "given", code=1)
        admin(server, "bucket", "owner", "given", "root")
        server.client().delete_object(Bucket="given", Key="k")
        admin(server, "bucket", "remove", "given")
        assert "no such bucket" in admin(server, "bucket", "remove", "given", code=1)
        assert "still owns buckets" in admin(server, "user", "remove", "ann", code=1)
        admin(server, "bucket", "remove", "ann-bucket")
        admin(server, "key", "remove", made["access_key"])
        assert made["access_key"] not in admin(server, "key", "list")
        admin(server, "user", "remove", "ann")
        assert "root cannot be removed" in admin(server, "user", "remove", "root", code=1)
        assert "last key of root" in admin(server, "key", "remove", ACCESS_KEY, code=1)


def own_keys_can_be_stored():
    with Server() as server:
        admin(server, "user", "add", "bob")
        admin(server, "key", "add", "bob", environment={"KIST_NEW_ACCESS_KEY": "BOBKEY", "KIST_NEW_SECRET_KEY": "bob-secret-key"})
        server.client("BOBKEY", "bob-secret-key").list_buckets()


def admin_says_what_is_wrong():
    with Scratch() as path:
        env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY})
        address = ["--admin", f"127.0.0.1:{free_port()}"]

        def run(*arguments, env=env):
            result = subprocess.run([binary(), "admin", *arguments], env=env, text=True, capture_output=True, timeout=40, cwd=path)
            return result.returncode, result.stderr
        assert run(*address, "user", "list")[0] == 1 and "is kist running" in run(*address, "user", "list")[1]
        assert run("user", "list", env=clean_environment())[0] == 2
        assert run("user", "paint")[0] == 2 and run("bucket", "owner", "x")[0] == 2


# ---- Pages ----

def the_page_names_what_fails_and_why():
    """A suite's failure without a reason, or without a result file, makes `docs` fail; with one it stands on the page."""
    files = {"docs/results/s3tests.txt": "PASSED a/test_s3.py::test_a\nFAILED a/test_s3.py::test_b[x-1]\n"
                                         "ERROR a/test_s3.py::test_b[y-2]\nFAILED a/test_s3.py::test_c\n",
             "docs/results/versity.txt": "PASS A\nSKIP B\n", "docs/results/s3a.txt": "PASSED C.m\n",
             "tests/s3/s3tests-not-passed.txt": "# test, reason\ntest_b* encrypts\ntest_c is wrong\n",
             "tests/clients/versity-not-claimed.txt": "", "tests/clients/s3a-not-passed.txt": ""}

    def page(change=()):
        with Scratch() as path:
            for name, text in {**files, **dict(change)}.items():
                if text is not None:
                    (path / name).parent.mkdir(parents=True, exist_ok=True)
                    (path / name).write_text(text)
            result = subprocess.run([binary(), "docs", "compatibility"], cwd=path, env=clean_environment(), text=True,
                                    capture_output=True, timeout=20)
            return result.returncode, result.stdout, result.stderr
    code, text, _ = page()
    assert code == 0, text
    assert "1 passed, 3 failed." in text and "1 passed, 0 failed, 1 skipped themselves." in text
    assert "| encrypts | 2 | `test_b[x-1]`, `test_b[y-2]` |" in text and "| is wrong | 1 | `test_c` |" in text
    for change in ({"tests/s3/s3tests-not-passed.txt": "test_b* encrypts\ntest_cc other\n"}.items(),
                   {"docs/results/versity.txt": "FAIL D\n"}.items()):
        code, _, said = page(change)
        assert code == 1 and "has no reason" in said, said
    for change in ({"docs/results/s3a.txt": None}.items(), {"docs/results/s3a.txt": "PASSED\n"}.items()):
        code, _, said = page(change)
        assert code == 1 and "docs/results/s3a.txt" in said, said


TESTS = [value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__"
         and name not in ("serve", "refused", "admin", "get", "basic", "Scratch", "state_of", "untouched", "break_identity", "Disk",
                          "fill")]


def main():
    passed = failed = 0
    for test in TESTS:
        if len(sys.argv) > 1 and test.__name__ not in sys.argv[1:]:
            continue
        if test is main:
            continue
        try:
            test()
            passed += 1
        except Exception:  # noqa: BLE001: each failure is reported, the others still run
            failed += 1
            print(f"FAILED {test.__name__}\n{traceback.format_exc(limit=4)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
