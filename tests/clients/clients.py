#!/usr/bin/env python3
"""Real clients, unchanged, against a real server.

    tests/clients/clients.py [--tree DIR ...] [--files-max N] [--only NAME] [--directories N]

aws-cli, rclone, s3cmd, s3fs (when /dev/fuse is there), boto3 with its default checksums. Each puts a tree of
real files up and takes it down again; regular files must be equal by checksum. Closing line:
`N passed, N failed, N skipped`.
"""
import argparse
import filecmp
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import ACCESS_KEY, REGION, SECRET_KEY, Server, clean_environment  # noqa: E402

TIMEOUT_S = 3000


class Skip(Exception):
    pass


def run(command, env=None, check=True, timeout=TIMEOUT_S):
    result = subprocess.run(
        [str(c) for c in command], env=clean_environment(env), text=True, capture_output=True,
        timeout=timeout,
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"{' '.join(str(c) for c in command)}: exit {result.returncode}\n"
            f"{result.stdout[-1500:]}\n{result.stderr[-1500:]}"
        )
    return result


def regular_files(top):
    """Relative paths of the regular files, links not followed."""
    found = []
    for folder, folders, names in os.walk(top):
        folders[:] = [f for f in folders if not os.path.islink(os.path.join(folder, f))]
        for name in names:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    found.append(os.path.relpath(path, top))
            except OSError:
                pass
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expect_equal(source, copy):
    want, got = set(regular_files(source)), set(regular_files(copy))
    assert want == got, f"names differ: {sorted(want ^ got)[:10]} ({len(want ^ got)} in all)"
    for name in want:
        assert digest(Path(source, name)) == digest(Path(copy, name)), f"{name}: bytes differ"
    return len(want)


class World:
    """The server, the tree, a scratch folder."""

    def __init__(self, server, tree, scratch):
        self.server, self.tree, self.scratch = server, tree, scratch
        self.count = len(regular_files(tree))

    def folder(self, name):
        path = self.scratch / name
        path.mkdir()
        return path

    def aws_environment(self):
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(self.scratch),
        }

    def aws(self, *arguments, check=True):
        command = ["/usr/bin/aws", "--endpoint-url", self.server.endpoint, *arguments]
        return run(command, self.aws_environment(), check)


def test_aws_cli(world):
    """aws s3 sync up and down, then the everyday commands."""
    world.aws("s3", "mb", "s3://awscli")
    world.aws("s3", "sync", "--no-follow-symlinks", "--only-show-errors", world.tree, "s3://awscli/t")
    down = world.folder("awscli")
    world.aws("s3", "sync", "--only-show-errors", "s3://awscli/t", down)
    expect_equal(world.tree, down)
    again = world.aws("s3", "sync", "--no-follow-symlinks", world.tree, "s3://awscli/t").stdout
    assert "upload:" not in again, "a second sync uploads again"
    listed = world.aws("s3", "ls", "--recursive", "s3://awscli").stdout.splitlines()
    assert len(listed) == world.count, f"ls shows {len(listed)} of {world.count}"
    name = sorted(regular_files(world.tree))[0]
    world.aws("s3", "cp", f"s3://awscli/t/{name}", "s3://awscli/copy")
    world.aws("s3", "mv", "s3://awscli/copy", "s3://awscli/moved")
    world.aws("s3", "cp", "s3://awscli/moved", down / "moved")
    assert digest(down / "moved") == digest(Path(world.tree, name))
    url = world.aws("s3", "presign", "s3://awscli/moved").stdout.strip()
    assert run(["curl", "-sf", "-o", down / "signed", url]).returncode == 0
    assert digest(down / "signed") == digest(down / "moved")
    world.aws("s3", "rm", "--recursive", "--only-show-errors", "s3://awscli")
    world.aws("s3", "rb", "s3://awscli")


def test_rclone(world):
    """rclone sync, check --download, move, purge."""
    env = {
        "RCLONE_CONFIG_K_TYPE": "s3",
        "RCLONE_CONFIG_K_PROVIDER": "Other",
        "RCLONE_CONFIG_K_ACCESS_KEY_ID": ACCESS_KEY,
        "RCLONE_CONFIG_K_SECRET_ACCESS_KEY": SECRET_KEY,
        "RCLONE_CONFIG_K_ENDPOINT": world.server.endpoint,
        "RCLONE_CONFIG_K_REGION": REGION,
        "HOME": str(world.scratch),
    }
    options = ["--skip-links", "--transfers", "8", "--checkers", "8", "-q"]
    run(["rclone", "mkdir", "k:rclone"], env)
    run(["rclone", "sync", *options, world.tree, "k:rclone/t"], env)
    run(["rclone", "check", "--download", *options, world.tree, "k:rclone/t"], env)
    down = world.folder("rclone")
    run(["rclone", "sync", *options, "k:rclone/t", down], env)
    expect_equal(world.tree, down)
    run(["rclone", "moveto", *options, "k:rclone/t", "k:rclone/u"], env)
    run(["rclone", "check", *options, world.tree, "k:rclone/u"], env)
    run(["rclone", "purge", "k:rclone"], env)


def test_s3cmd(world):
    """s3cmd sync up and down, info, copy, delete."""
    host = world.server.endpoint.removeprefix("http://")
    base = [
        "s3cmd", "-c", "/dev/null", f"--access_key={ACCESS_KEY}", f"--secret_key={SECRET_KEY}",
        f"--host={host}", f"--host-bucket={host}", "--no-ssl", "--no-progress", "-q",
        f"--region={REGION}",
    ]
    small = world.folder("s3cmd-source")
    for index, name in enumerate(sorted(regular_files(world.tree))[:150]):
        shutil.copy2(Path(world.tree, name), small / f"{index}-{Path(name).name}")
    (small / "multi part").write_bytes(os.urandom(17 * 1024 * 1024))
    run([*base, "mb", "s3://s3cmd"])
    run([*base, "sync", f"{small}/", "s3://s3cmd/t/"])
    down = world.folder("s3cmd")
    run([*base, "sync", "s3://s3cmd/t/", f"{down}/"])
    expect_equal(small, down)
    info = run([c for c in base if c != "-q"] + ["info", "s3://s3cmd/t/multi part"]).stdout
    assert str(17 * 1024 * 1024) in info, info
    run([*base, "cp", "s3://s3cmd/t/multi part", "s3://s3cmd/copy"])
    run([*base, "get", "s3://s3cmd/copy", down / "copy"])
    assert filecmp.cmp(small / "multi part", down / "copy", shallow=False)
    run([*base, "del", "--recursive", "--force", "s3://s3cmd"])
    run([*base, "rb", "s3://s3cmd"])


def wait_for(condition, what, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.05)


def test_s3fs(world):
    """A FUSE mount: cp -r, mv of files and folders, append, rm -r."""
    if not os.path.exists("/dev/fuse") or shutil.which("s3fs") is None:
        raise Skip("no /dev/fuse or no s3fs")
    world.aws("s3", "mb", "s3://s3fs")
    keys = world.scratch / "s3fs-keys"
    keys.write_text(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    keys.chmod(0o600)
    mount = world.folder("s3fs")
    options = f"url={world.server.endpoint},use_path_request_style,passwd_file={keys},endpoint={REGION}"
    process = subprocess.Popen(
        ["s3fs", "s3fs", str(mount), "-f", "-o", options], env=clean_environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: os.path.ismount(mount), "s3fs mount")
        source = world.folder("s3fs-source")
        for index, name in enumerate(sorted(regular_files(world.tree))[:60]):
            target = source / f"dir{index % 5}" / f"{index}"
            target.parent.mkdir(exist_ok=True)
            shutil.copy(Path(world.tree, name), target)
        (source / "large").write_bytes(os.urandom(30 * 1024 * 1024))
        run(["cp", "-r", source, mount / "up"], timeout=300)
        expect_equal(source, mount / "up")
        run(["mv", mount / "up" / "large", mount / "large moved"], timeout=120)
        assert digest(mount / "large moved") == digest(source / "large")
        run(["mv", mount / "up" / "dir0", mount / "up" / "renamed"], timeout=120)
        expect_equal(source / "dir0", mount / "up" / "renamed")
        with open(mount / "note", "w") as note:
            note.write("one\n")
        with open(mount / "note", "a") as note:
            note.write("two\n")
        assert (mount / "note").read_text() == "one\ntwo\n"
        run(["rm", "-r", mount / "up"], timeout=300)
        assert not (mount / "up").exists()
    finally:
        subprocess.run(["fusermount", "-u", str(mount)], check=False, capture_output=True)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def test_boto3(world):
    """The newest boto3 with its default checksums: trailers over http, multipart, ranges, copies."""
    s3 = world.server.client(retries={"max_attempts": 2})
    s3.create_bucket(Bucket="boto3")
    files = sorted(regular_files(world.tree))[:300]
    for name in files:
        s3.upload_file(str(Path(world.tree, name)), "boto3", name)
    down = world.folder("boto3")
    for name in files:
        s3.download_file("boto3", name, str(down / "file"))
        assert digest(down / "file") == digest(Path(world.tree, name)), name
    large = world.scratch / "large"
    large.write_bytes(os.urandom(40 * 1024 * 1024 + 13))
    s3.upload_file(str(large), "boto3", "large")
    s3.download_file("boto3", "large", str(down / "large"))
    assert filecmp.cmp(large, down / "large", shallow=False)
    data = large.read_bytes()
    for first, last in ((0, 0), (8388607, 8388608), (40 * 1024 * 1024, 40 * 1024 * 1024 + 12)):
        body = s3.get_object(Bucket="boto3", Key="large", Range=f"bytes={first}-{last}")["Body"]
        assert body.read() == data[first : last + 1], (first, last)
    s3.copy({"Bucket": "boto3", "Key": "large"}, "boto3", "copied")
    assert s3.head_object(Bucket="boto3", Key="copied")["ContentLength"] == len(data)
    import boto3.session  # noqa: F401  (the resource API pages for us)

    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="boto3"):
        keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
        s3.delete_objects(Bucket="boto3", Delete={"Objects": keys})
    s3.delete_bucket(Bucket="boto3")


TESTS = [test_aws_cli, test_rclone, test_s3cmd, test_s3fs, test_boto3]


def gather(trees, files_max, into):
    """At most files_max regular files of the trees, linked or copied into one tree; 0: the trees as they are."""
    if files_max == 0 and len(trees) == 1:
        return trees[0]
    count = 0
    for tree in trees:
        for name in sorted(regular_files(tree)):
            if files_max and count >= files_max:
                return into
            target = Path(into, Path(tree).name, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(tree, name), target)
            count += 1
    return into


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", action="append")
    parser.add_argument("--files-max", type=int, default=1500)
    parser.add_argument("--only")
    parser.add_argument("--directories", type=int, default=1)
    options = parser.parse_args()
    passed = failed = skipped = 0
    scratch = Path(tempfile.mkdtemp(prefix="kist-clients-"))
    try:
        (scratch / "tree").mkdir()
        tree = gather(options.tree or ["/usr/share/doc"], options.files_max, scratch / "tree")
        with Server(directories=options.directories) as server:
            world = World(server, tree, scratch)
            print(f"{world.count} files of {options.tree or ['/usr/share/doc']}")
            for test in TESTS:
                name = test.__name__.removeprefix("test_")
                if options.only and options.only != name:
                    continue
                begin = time.monotonic()
                try:
                    test(world)
                    passed += 1
                    print(f"ok {name} ({time.monotonic() - begin:.0f} s)")
                except Skip as why:
                    skipped += 1
                    print(f"skipped {name}: {why}")
                except Exception as error:
                    failed += 1
                    print(f"FAILED {name}: {error}\n{server.tail(10)}")
            if server.stop() != 0:
                failed += 1
                print(f"server did not stop cleanly:\n{server.tail()}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
