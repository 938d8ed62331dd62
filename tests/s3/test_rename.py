"""RenameObject: on every bucket, in one step, with conditions of both ends and a client token."""
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from raw import path

SIZES = [0, 5, 40_000, 700_000]


def rename(raw, bucket, source, key, headers=(), **options):
    return raw.send("PUT", path(bucket, key) + "?renameObject", [("x-amz-rename-source", source), *headers], **options)


def keys(s3, bucket):
    return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.mark.parametrize("size", SIZES)
def test_moves(s3, raw, bucket, size):
    """Bytes, metadata and tags go along, whatever way they are stored; the old key is gone."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    s3.put_object(Bucket=bucket, Key="a", Body=body, Metadata={"m": "1"}, ContentType="text/x", Tagging="t=1")
    before = s3.head_object(Bucket=bucket, Key="a")
    reply = rename(raw, bucket, "a", "b/ü +c")
    assert (reply.status, reply.body) == (200, b"")
    assert keys(s3, bucket) == ["b/ü +c"]
    got = s3.get_object(Bucket=bucket, Key="b/ü +c")
    assert got["Body"].read() == body and got["Metadata"] == {"m": "1"} and got["ETag"] == before["ETag"]
    assert got["ContentType"] == "text/x" and got["TagCount"] == 1
    assert rename(raw, bucket, "a", "c").code == "NoSuchKey"


def test_source_forms(s3, raw, bucket):
    """The source comes as a key or as /bucket/key, percent-encoded."""
    for source, key in (("a", "a"), (f"/{bucket}/a", "a"), (f"/{bucket}/x/y", "x/y"), ("x%2Fy%20%C3%BC", "x/y ü"),
                        ("/a", "/a"), (f"/{bucket}//a", "/a")):
        s3.put_object(Bucket=bucket, Key=key, Body=source)
        assert rename(raw, bucket, source, "target").status == 200, source
        assert s3.get_object(Bucket=bucket, Key="target")["Body"].read().decode() == source


def test_refusals(s3, raw, bucket):
    """What cannot be renamed is told as AWS tells it, and nothing changes."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    assert rename(raw, bucket, "absent", "b").code == "NoSuchKey"
    assert rename(raw, bucket, "a", "a").code == "InvalidRequest"
    assert rename(raw, bucket, "%zz", "b").code == "InvalidArgument"
    assert rename(raw, bucket, "", "b").code == "InvalidArgument"
    assert raw.send("PUT", f"/{bucket}/b?renameObject").code == "InvalidArgument"
    assert rename(raw, bucket, "k" * 1025, "b").code == "KeyTooLongError"
    assert rename(raw, "no-such-bucket-here", "a", "b").code == "NoSuchBucket"
    assert rename(raw, bucket, "a", "b", [("x-amz-client-token", "x y")]).code == "InvalidArgument"
    assert rename(raw, bucket, "a", "b", [("x-amz-client-token", "x" * 65)]).code == "InvalidArgument"
    assert keys(s3, bucket) == ["a"]


def test_conditions(s3, raw, bucket):
    """Conditions hold for the end they name; a failed one changes nothing."""
    old = format_datetime(datetime.now(timezone.utc) - timedelta(hours=1), usegmt=True)
    new = format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True)
    a = s3.put_object(Bucket=bucket, Key="a", Body=b"a")["ETag"]
    b = s3.put_object(Bucket=bucket, Key="b", Body=b"b")["ETag"]
    source = "x-amz-rename-source-if-"
    for header, value in (("If-None-Match", "*"), ("If-Match", a), ("If-None-Match", b), ("If-Unmodified-Since", old),
                          ("If-Modified-Since", new), (source + "match", b), (source + "none-match", a),
                          (source + "unmodified-since", old), (source + "modified-since", new)):
        reply = rename(raw, bucket, "a", "b", [(header, value)])
        assert (reply.status, reply.code) == (412, "PreconditionFailed"), header
    reply = rename(raw, bucket, "a", "absent", [("If-Match", a)])
    assert (reply.status, reply.code) == (412, "PreconditionFailed")
    assert keys(s3, bucket) == ["a", "b"]
    reply = rename(raw, bucket, "a", "b", [
        ("If-Match", b), ("If-Unmodified-Since", old), ("If-Modified-Since", old), (source + "match", a),
        (source + "none-match", b), (source + "unmodified-since", new)])
    assert reply.status == 200
    assert s3.get_object(Bucket=bucket, Key="b")["ETag"] == a and keys(s3, bucket) == ["b"]
    assert rename(raw, bucket, "b", "c", [("If-None-Match", "*")]).status == 200


def test_client_token(s3, raw, bucket):
    """A repeat after a lost reply succeeds although its source is gone; another request is refused."""
    token = [("x-amz-client-token", "token-1")]
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    assert rename(raw, bucket, "a", "b", token).status == 200
    s3.put_object(Bucket=bucket, Key="a", Body=b"2")
    assert rename(raw, bucket, "a", "b", token).status == 200
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"2"
    assert s3.get_object(Bucket=bucket, Key="b")["Body"].read() == b"1"
    for source, key, more in (("a", "c", []), ("b", "c", []), ("a", "b", [("If-None-Match", "*")])):
        reply = rename(raw, bucket, source, key, token + more)
        assert (reply.status, reply.code) == (400, "IdempotencyParameterMismatch")
    assert keys(s3, bucket) == ["a", "b"]
    failed = [("x-amz-client-token", "token-2")]
    assert rename(raw, bucket, "absent", "d", failed).code == "NoSuchKey"
    s3.put_object(Bucket=bucket, Key="absent", Body=b"3")
    assert rename(raw, bucket, "absent", "d", failed).status == 200


def test_versioned(s3, raw, versioned):
    """Where versions are kept, the source gets a marker and the destination a version: nothing is lost."""
    s3.put_object(Bucket=versioned, Key="b", Body=b"old")
    first = s3.put_object(Bucket=versioned, Key="a", Body=b"a")["VersionId"]
    reply = rename(raw, versioned, "a", "b", [("x-amz-client-token", "t")])
    assert reply.status == 200
    again = rename(raw, versioned, "a", "b", [("x-amz-client-token", "t")])
    assert again.headers["x-amz-version-id"] == reply.headers["x-amz-version-id"]
    got = s3.get_object(Bucket=versioned, Key="b")
    assert got["Body"].read() == b"a" and got["VersionId"] == reply.headers["x-amz-version-id"]
    page = s3.list_object_versions(Bucket=versioned)
    assert [(one["Key"], one["IsLatest"]) for one in page["DeleteMarkers"]] == [("a", True)]
    assert sorted(one["Key"] for one in page["Versions"]) == ["a", "b", "b"]
    assert s3.get_object(Bucket=versioned, Key="a", VersionId=first)["Body"].read() == b"a"


def test_locked(s3, raw, locked):
    """A locked version of the source stays; a locked destination gets a newer version, as with PUT."""
    until = datetime.now(timezone.utc) + timedelta(days=1)
    held = s3.put_object(Bucket=locked, Key="a", Body=b"a", ObjectLockMode="GOVERNANCE",
                         ObjectLockRetainUntilDate=until)["VersionId"]
    assert rename(raw, locked, "a", "b").status == 200
    assert s3.get_object(Bucket=locked, Key="a", VersionId=held)["Body"].read() == b"a"
    assert s3.get_object(Bucket=locked, Key="b")["Body"].read() == b"a"


@pytest.mark.parametrize("size", [10, 300_000])
def test_race(s3, raw, bucket, size):
    """Of twenty that rename one source, one wins: nothing is doubled, nothing lost."""
    for turn in range(3):
        source = f"source-{turn}"
        s3.put_object(Bucket=bucket, Key=source, Body=b"x" * size)
        with ThreadPoolExecutor(20) as pool:
            replies = list(pool.map(lambda n: rename(raw, bucket, source, f"t{turn}-{n}"), range(20)))
        assert sorted(reply.status for reply in replies) == [200] + 19 * [404]
        winner = [n for n, reply in enumerate(replies) if reply.status == 200][0]
        assert [key for key in keys(s3, bucket) if key.startswith(f"t{turn}-")] == [f"t{turn}-{winner}"]
        assert len(s3.get_object(Bucket=bucket, Key=f"t{turn}-{winner}")["Body"].read()) == size


def test_chain_keeps_bytes(s3, raw, bucket):
    """Renamed many times, then its first key used again and deleted: the bytes belong to the last name alone."""
    body = bytes(range(256)) * 2000
    s3.put_object(Bucket=bucket, Key="k0", Body=body)
    for n in range(10):
        assert rename(raw, bucket, f"k{n}", f"k{n + 1}").status == 200
    s3.put_object(Bucket=bucket, Key="k0", Body=b"other")
    s3.delete_object(Bucket=bucket, Key="k0")
    assert s3.get_object(Bucket=bucket, Key="k10")["Body"].read() == body


def test_source_rights(s3, raw, bucket, server):
    """A policy that denies deletes, or reads, of the source denies the rename."""
    import json
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    for action in ("s3:DeleteObject", "s3:GetObject"):
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [{
            "Effect": "Deny", "Principal": "*", "Action": action, "Resource": f"arn:aws:s3:::{bucket}/a"}]}))
        reply = rename(raw, bucket, "a", "b")
        assert (reply.status, reply.code) == (403, "AccessDenied"), action
    s3.delete_bucket_policy(Bucket=bucket)
    assert rename(raw, bucket, "a", "b").status == 200
