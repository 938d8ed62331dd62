"""Jobs of the server: a prefix is deleted without a client listing it; progress, pause, resume, cancel."""
import base64
import datetime
import json
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from kist import ACCESS_KEY, SECRET_KEY, Server, binary, clean_environment
from raw import Raw

WAIT_S = 60


@pytest.fixture(scope="module")
def own():
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def client(own):
    return own.client()


@pytest.fixture
def box(client, request):
    name = "job-" + request.node.name.replace("_", "-").lower()[:55].strip("-")
    client.create_bucket(Bucket=name)
    return name


def admin(server, method, path, body=None):
    request = urllib.request.Request(f"{server.admin}/admin/v1/{path}", method=method,
                                     data=None if body is None else json.dumps(body).encode())
    token = base64.b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()).decode()
    request.add_header("Authorization", f"Basic {token}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def command(server, *words):
    env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY})
    return subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", *words], env=env, text=True,
                          capture_output=True, timeout=30)


def force_delete(server, bucket, prefix, **headers):
    """The job's id."""
    more = {"x-minio-force-delete": "true", **{name.replace("_", "-"): value for name, value in headers.items()}}
    answer = Raw(server).send("DELETE", f"/{bucket}/{prefix}", headers=list(more.items()), sign=list(more))
    assert answer.status == 202, answer.body
    return answer.headers["x-kist-job-id"]


def ended(server, job):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = admin(server, "GET", f"jobs/{job}")
        if found["state"] not in ("running", "paused"):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def fill(client, bucket, prefix, count):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: client.put_object(Bucket=bucket, Key=f"{prefix}{i:05}", Body=b"x"), range(count)))


def keys(client, bucket):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def test_prefix(own, client, box):
    """All of the prefix, more than one step takes, and nothing beside it."""
    fill(client, box, "logs/", 700)
    for key in ("log", "logs0", "z"):
        client.put_object(Bucket=box, Key=key, Body=b"x")
    job = ended(own, force_delete(own, box, "logs/"))
    assert (job["state"], job["done"], job["skipped"], job["prefix"]) == ("done", 700, 0, "logs/")
    assert keys(client, box) == ["log", "logs0", "z"]


def test_versions(own, client, box):
    """Plain deletes leave markers, as DeleteObject does; x-kist-all-versions leaves nothing."""
    client.put_bucket_versioning(Bucket=box, VersioningConfiguration={"Status": "Enabled"})
    for _ in range(3):
        fill(client, box, "a/", 5)
    assert ended(own, force_delete(own, box, "a/"))["done"] == 5
    page = client.list_object_versions(Bucket=box)
    assert (len(page["Versions"]), len(page["DeleteMarkers"])) == (15, 5)
    assert ended(own, force_delete(own, box, "a/", x_kist_all_versions="true"))["done"] == 20
    page = client.list_object_versions(Bucket=box)
    assert "Versions" not in page and "DeleteMarkers" not in page
    client.delete_bucket(Bucket=box)


def test_locked(own, client):
    """Locked versions are counted and stay."""
    client.create_bucket(Bucket="job-locked", ObjectLockEnabledForBucket=True)
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    client.put_object(Bucket="job-locked", Key="a/1", Body=b"x", ObjectLockMode="COMPLIANCE",
                      ObjectLockRetainUntilDate=later)
    client.put_object(Bucket="job-locked", Key="a/2", Body=b"x")
    job = ended(own, force_delete(own, "job-locked", "a/", x_kist_all_versions="true"))
    assert (job["done"], job["skipped"]) == (1, 1)
    assert keys(client, "job-locked") == ["a/1"]


def test_survives_a_crash(client):
    """A job goes on where it stood: a client that got its 202 need not come back."""
    with Server(directories=2) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="crash")
        fill(s3, "crash", "k", 2000)
        s3.put_object(Bucket="crash", Key="stays", Body=b"x")
        job = force_delete(server, "crash", "k")
        server.kill()
        server.start()
        assert ended(server, job)["done"] == 2000
        assert keys(s3, "crash") == ["stays"]


def test_pause_resume_cancel(own, client, box):
    """Who sees a job eat his disks can stop it, look, and let it go on."""
    fill(client, box, "k", 300)
    job = force_delete(own, box, "k")
    paused = admin(own, "POST", f"jobs/{job}/pause")
    if paused["state"] == "paused":
        left = len(keys(client, box))
        time.sleep(1)
        assert len(keys(client, box)) == left
    assert admin(own, "POST", f"jobs/{job}/resume")["state"] in ("running", "done")
    assert ended(own, job)["done"] == 300
    assert admin(own, "POST", f"jobs/{job}/cancel")["state"] == "done"  # too late
    with pytest.raises(urllib.error.HTTPError) as refusal:
        admin(own, "POST", "jobs/99999/cancel")
    assert refusal.value.code == 404


def test_command_line(own, client, box):
    """`kist admin job` does what the API does."""
    fill(client, box, "k", 3)
    made = command(own, "job", "add", box, "k")
    assert made.returncode == 0, made.stderr
    job = dict(line.split(" ", 1) for line in made.stdout.splitlines() if " " in line)["id"]
    assert ended(own, job)["done"] == 3
    shown = command(own, "job", "show", job).stdout
    assert "state done" in shown and f"bucket {box}" in shown and "done 3" in shown
    assert f"id={job} " in command(own, "job", "list").stdout
    for verb in ("pause", "resume", "cancel"):
        assert "state done" in command(own, "job", verb, job).stdout
    missing = command(own, "job", "show", "99999")
    assert missing.returncode == 1 and "no such job" in missing.stderr
    assert command(own, "job", "add", "no-such-bucket", "k").returncode == 1


def test_refusals(own, client, box):
    """What is not asked clearly deletes nothing; a stranger least of all."""
    client.put_object(Bucket=box, Key="k", Body=b"x")
    raw = Raw(own)
    for headers in ({"x-minio-force-delete": "yes"}, {"x-minio-force-delete": "true", "x-kist-all-versions": "1"}):
        assert raw.send("DELETE", f"/{box}/k", headers=list(headers.items()), sign=list(headers)).status == 400
    # Added to a request that somebody else has signed, it would turn one key into a whole prefix.
    unsigned = raw.send("DELETE", f"/{box}/k", headers=[("x-minio-force-delete", "true")])
    assert (unsigned.status, unsigned.code) == (403, "AccessDenied")
    env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY,
                             "KIST_NEW_ACCESS_KEY": "STRANGERKEY000000000", "KIST_NEW_SECRET_KEY": "stranger/secret/key"})
    for words in (["user", "add", "stranger"], ["key", "add", "stranger"]):
        subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{own.admin_port}", *words], env=env, check=True,
                       capture_output=True)
    stranger = own.client(access_key="STRANGERKEY000000000", secret_key="stranger/secret/key")

    def force(request, **_):
        request.headers["x-minio-force-delete"] = "true"
    stranger.meta.events.register("before-sign.s3.DeleteObject", force)
    with pytest.raises(ClientError) as refusal:
        stranger.delete_object(Bucket=box, Key="k")
    assert refusal.value.response["Error"]["Code"] == "AccessDenied"
    assert keys(client, box) == ["k"]
