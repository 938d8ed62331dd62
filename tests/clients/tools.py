#!/usr/bin/env python3
"""Tools that keep their data in S3, unchanged, against a real server: restic, duplicity, rclone mount, the newest
aws-cli, a container registry, locks by conditional write as Terraform makes them.

    tests/clients/tools.py [--only NAME]

Closing line: `N passed, N failed`.
"""
import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "harness"))
from clients import Skip, World, digest, expect_equal, gather, regular_files, run, wait_for  # noqa: E402
from kist import ACCESS_KEY, REGION, ROOT, SECRET_KEY, Server, clean_environment, free_port  # noqa: E402

REGISTRY = "github.com/distribution/distribution/v3/cmd/registry@v3.1.2"
LAYER_BYTES = 120 * 1024 * 1024


def test_restic(world):
    """init, backup twice, forget and prune, check with all data read, restore."""
    env = world.aws_environment() | {"RESTIC_PASSWORD": "secret", "RESTIC_REPOSITORY": f"s3:{world.server.endpoint}/restic/r"}
    source = world.folder("restic-source")
    shutil.copytree(world.tree, source / "tree")
    run(["restic", "init"], env)
    run(["restic", "backup", "-q", source], env)
    victim = sorted(regular_files(source))[0]
    (source / victim).write_bytes(os.urandom(3 * 1024 * 1024))
    run(["restic", "backup", "-q", source], env)
    run(["restic", "forget", "-q", "--keep-last", "1", "--prune"], env)
    run(["restic", "check", "-q", "--read-data"], env)
    down = world.folder("restic")
    run(["restic", "restore", "-q", "latest", "--target", down], env)
    expect_equal(source, down / source.relative_to("/"))


def test_duplicity(world):
    """Full and incremental backup, verify, restore."""
    env = world.aws_environment() | {"PASSPHRASE": "secret"}
    source = world.folder("duplicity-source")
    for index, name in enumerate(sorted(regular_files(world.tree))[:200]):
        shutil.copy2(Path(world.tree, name), source / f"{index}")
    world.aws("s3", "mb", "s3://duplicity")
    url = "boto3+s3://duplicity/backup"
    options = ["--s3-endpoint-url", world.server.endpoint, "--no-encryption", "--archive-dir", world.scratch / "archive"]
    run(["duplicity", "full", *options, source, url], env)
    (source / "added").write_bytes(os.urandom(1024 * 1024))
    run(["duplicity", "incremental", *options, source, url], env)
    down = world.scratch / "duplicity"
    run(["duplicity", "restore", *options, url, down], env)
    expect_equal(source, down)


def test_rclone_mount(world):
    """A mount with a write-back cache: copy in, read back through a second mount."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    env = {"RCLONE_CONFIG_K_TYPE": "s3", "RCLONE_CONFIG_K_PROVIDER": "Other", "RCLONE_CONFIG_K_ACCESS_KEY_ID": ACCESS_KEY,
           "RCLONE_CONFIG_K_SECRET_ACCESS_KEY": SECRET_KEY, "RCLONE_CONFIG_K_ENDPOINT": world.server.endpoint,
           "RCLONE_CONFIG_K_REGION": REGION, "HOME": str(world.scratch)}
    source = world.folder("mount-source")
    for index, name in enumerate(sorted(regular_files(world.tree))[:80]):
        target = source / f"d{index % 4}" / f"{index}"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(Path(world.tree, name), target)
    (source / "large").write_bytes(os.urandom(20 * 1024 * 1024))
    run(["rclone", "mkdir", "k:mount"], env)
    for turn in ("one", "two"):
        mount = world.folder(f"mount-{turn}")
        process = subprocess.Popen(["rclone", "mount", "--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--cache-dir",
                                    str(world.scratch / f"cache-{turn}"), "k:mount", str(mount)],
                                   env=clean_environment(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: os.path.ismount(mount), "rclone mount")
            if turn == "one":
                run(["cp", "-r", source, mount / "up"], timeout=300)
                run(["mv", mount / "up" / "d0", mount / "up" / "renamed"], timeout=120)
                run(["mv", mount / "up" / "renamed", mount / "up" / "d0"], timeout=120)
            expect_equal(source, mount / "up")
        finally:
            subprocess.run(["fusermount3", "-u", str(mount)], check=False, capture_output=True)
            try:
                process.wait(60)  # uploads what is still cached
            except subprocess.TimeoutExpired:
                process.kill()


def test_newest_aws_cli(world):
    """PyPI's aws-cli (checksum trailers by default): sync up and down, tags, versions."""
    path = ROOT / "build" / "awscli-venv"
    if not (path / "bin" / "aws").exists():
        subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
        subprocess.run([str(path / "bin" / "pip"), "install", "-q", "awscli"], check=True)

    def aws(*arguments):
        return run([path / "bin" / "aws", "--endpoint-url", world.server.endpoint, *arguments], world.aws_environment())

    aws("s3", "mb", "s3://newest")
    aws("s3", "sync", "--no-follow-symlinks", "--only-show-errors", world.tree, "s3://newest/t")
    down = world.folder("newest")
    aws("s3", "sync", "--only-show-errors", "s3://newest/t", down)
    expect_equal(world.tree, down)
    aws("s3api", "put-bucket-versioning", "--bucket", "newest", "--versioning-configuration", "Status=Enabled")
    aws("s3api", "put-object", "--bucket", "newest", "--key", "v", "--tagging", "a=b", "--body", "/etc/hostname")
    aws("s3api", "delete-object", "--bucket", "newest", "--key", "v")
    listed = json.loads(aws("s3api", "list-object-versions", "--bucket", "newest", "--prefix", "v").stdout)
    assert len(listed["Versions"]) == 1 and len(listed["DeleteMarkers"]) == 1, listed


def image_layout(path):
    """An OCI image of one random layer."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data):
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        info = tarfile.TarInfo("random")
        info.size = LAYER_BYTES
        tar.addfile(info, io.BytesIO(os.urandom(LAYER_BYTES)))
    layer_blob = blob(layer.getvalue()) | {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                              "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]}}).encode())
    config["mediaType"] = "application/vnd.oci.image.config.v1+json"
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                "config": config, "layers": [layer_blob]}).encode())
    manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return layer_blob["digest"].removeprefix("sha256:")


def test_registry(world):
    """A registry (distribution) with its S3 driver: an image with a layer over 100 MB pushed, pulled, equal."""
    program = ROOT / "build" / "peers" / "registry"
    if not program.exists():
        env = clean_environment({"GOBIN": str(program.parent), "GOTOOLCHAIN": "auto"})
        env.pop("AWS_CA_BUNDLE", None)
        subprocess.run(["go", "install", REGISTRY], env=env, check=True, timeout=1200)
    world.aws("s3", "mb", "s3://registry")
    port = free_port()
    config = world.scratch / "registry.yml"
    config.write_text(f"""
version: 0.1
storage:
  s3: {{accesskey: "{ACCESS_KEY}", secretkey: "{SECRET_KEY}", region: {REGION}, regionendpoint: "{world.server.endpoint}",
       bucket: registry, forcepathstyle: true, secure: false, chunksize: 10485760}}
  delete: {{enabled: true}}
  redirect: {{disable: true}}
http: {{addr: "127.0.0.1:{port}"}}
""")
    env = clean_environment({"OTEL_TRACES_EXPORTER": "none"})
    with open(world.scratch / "registry.log", "wb") as log:
        process = subprocess.Popen([str(program), "serve", str(config)], env=env, stdout=log, stderr=log)
    try:
        def answers():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=2).status == 200
            except OSError:
                return False
        wait_for(answers, "registry")
        layer = image_layout(world.folder("image"))
        policy = ["skopeo", "--insecure-policy", "copy", "--preserve-digests"]
        run([*policy, "--dest-tls-verify=false", f"oci:{world.scratch}/image", f"docker://127.0.0.1:{port}/t/image:1"],
            timeout=300)
        run([*policy, "--src-tls-verify=false", f"docker://127.0.0.1:{port}/t/image:1", f"dir:{world.scratch}/pulled"],
            timeout=300)
        assert digest(world.scratch / "pulled" / layer) == layer
    finally:
        process.terminate()
        process.wait(20)


def test_state_lock(world):
    """Terraform's S3 lock: of many that create the lock object at once exactly one succeeds; its owner deletes it."""
    s3 = world.server.client()
    s3.create_bucket(Bucket="state")
    for turn in range(20):
        won = []

        def contend(name):
            from botocore.exceptions import ClientError
            try:
                s3.put_object(Bucket="state", Key="terraform.tfstate.tflock", Body=name.encode(), IfNoneMatch="*",
                              ContentType="application/json")
                won.append(name)
            except ClientError as error:
                assert error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"), error

        threads = [threading.Thread(target=contend, args=(f"{turn}-{i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1, won
        assert s3.get_object(Bucket="state", Key="terraform.tfstate.tflock")["Body"].read().decode() == won[0]
        s3.delete_object(Bucket="state", Key="terraform.tfstate.tflock")


TESTS = [test_restic, test_duplicity, test_rclone_mount, test_newest_aws_cli, test_registry, test_state_lock]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    only = parser.parse_args().only
    passed = failed = skipped = 0
    scratch = Path(tempfile.mkdtemp(prefix="kist-tools-"))
    try:
        (scratch / "tree").mkdir()
        tree = gather(["/usr/share/doc"], 400, scratch / "tree")
        with Server() as server:
            world = World(server, tree, scratch)
            for test in TESTS:
                name = test.__name__.removeprefix("test_")
                if only and only != name:
                    continue
                begin = time.monotonic()
                try:
                    test(world)
                    passed += 1
                    print(f"ok {name} ({time.monotonic() - begin:.0f} s)", flush=True)
                except Skip as why:
                    skipped += 1
                    print(f"skipped {name}: {why}", flush=True)
                except Exception as error:
                    failed += 1
                    print(f"FAILED {name}: {error}\n{server.tail(10)}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{passed} passed, {skipped} skipped, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
