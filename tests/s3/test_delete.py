"""DeleteObjects."""
import base64
import hashlib
import zlib

import pytest


def xml(keys, quiet=False):
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f"<Delete>{'<Quiet>true</Quiet>' if quiet else ''}{objects}</Delete>".encode()


def digests(body):
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    return {"crc32": ("x-amz-checksum-crc32", crc),
            "sha256": ("x-amz-checksum-sha256", base64.b64encode(hashlib.sha256(body).digest()).decode()),
            "sha1": ("x-amz-checksum-sha1", base64.b64encode(hashlib.sha1(body).digest()).decode()),
            "md5": ("Content-MD5", base64.b64encode(hashlib.md5(body).digest()).decode())}


def test_mixed(s3, bucket):
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": [
        {"Key": "a"}, {"Key": "a"}, {"Key": "none"}, {"Key": "b", "ETag": '"wrong"'}, {"Key": "c", "VersionId": "v"}]})
    assert sorted(d["Key"] for d in reply["Deleted"]) == ["a", "a", "none"]
    assert {e["Key"]: e["Code"] for e in reply["Errors"]} == {"b": "PreconditionFailed", "c": "NoSuchVersion"}
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["b", "c"]


def test_quiet(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Quiet": True, "Objects": [
        {"Key": "a"}, {"Key": "b", "ETag": '"wrong"'}]})
    assert "Deleted" not in reply and [e["Code"] for e in reply["Errors"]] == ["NoSuchKey"]


@pytest.mark.parametrize("kind", ["crc32", "sha256", "sha1", "md5"])
def test_any_digest_will_do(raw, s3, bucket, kind):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    body = xml(["a"])
    reply = raw.send("POST", f"/{bucket}?delete", [digests(body)[kind]], body)
    assert reply.status == 200 and reply.element("Key") == "a"


@pytest.mark.parametrize("header,code", [
    (None, "InvalidRequest"), (("Content-MD5", ""), "InvalidDigest"), (("Content-MD5", "abc"), "InvalidDigest"),
    (("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), "BadDigest"), (("x-amz-checksum-crc32", "AAAAAA=="), "BadDigest")])
def test_digest_is_needed(raw, s3, bucket, header, code):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    reply = raw.send("POST", f"/{bucket}?delete", [header] if header else [], xml(["a"]))
    assert (reply.status, reply.code) == (400, code)
    assert s3.head_object(Bucket=bucket, Key="a")


@pytest.mark.parametrize("body", [b"<Delete/>", b"<Delete><Object/></Delete>", b"<Other/>", b"<Delete>",
                                  xml(f"k{i}" for i in range(1001)),
                                  b"<!DOCTYPE x [<!ENTITY a 'b'>]><Delete><Object><Key>&a;</Key></Object></Delete>"])
def test_malformed(raw, bucket, body):
    reply = raw.send("POST", f"/{bucket}?delete", [digests(body)["crc32"]], body)
    assert (reply.status, reply.code) == (400, "MalformedXML")


@pytest.mark.parametrize("length", [10, 900])
def test_a_thousand(s3, bucket, length):
    keys = [f"{i:04}".ljust(length, "k") for i in range(1000)]
    s3.put_object(Bucket=bucket, Key=keys[0], Body=b"")
    s3.put_object(Bucket=bucket, Key=keys[999], Body=b"")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert [d["Key"] for d in reply["Deleted"]] == keys
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


# An ETag of any length is compared and does not match: it used to burst the command, a 503 that no retry would cure.
@pytest.mark.parametrize("length", [49, 1_500, 70_000])
def test_long_etags(s3, bucket, length):
    keys = [f"k{n}" for n in range(1000 if length == 1_500 else 2)]
    s3.put_object(Bucket=bucket, Key="k1", Body=b"")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key, "ETag": "e" * length} for key in keys]})
    codes = {error["Key"]: error["Code"] for error in reply["Errors"]}
    assert len(codes) == len(keys) and "Deleted" not in reply
    assert codes["k1"] == "PreconditionFailed" and codes["k0"] == "NoSuchKey"


def test_escaped_keys(s3, bucket):
    keys = ["<&>'\"", "a b", "é", "/x//"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    reply = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert sorted(d["Key"] for d in reply["Deleted"]) == sorted(keys)
