"""CopyObject."""
import base64
import hashlib

import pytest

BIG = bytes(range(256)) * 4096 * 3


@pytest.mark.parametrize("body", [b"", b"small", BIG], ids=["empty", "inline", "extents"])
def test_copy_keeps_all(s3, bucket, body):
    s3.put_object(Bucket=bucket, Key="from", Body=body, ContentType="text/plain", Metadata={"a": "1"})
    reply = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})["CopyObjectResult"]
    assert reply["ETag"] == s3.head_object(Bucket=bucket, Key="from")["ETag"]
    s3.delete_object(Bucket=bucket, Key="from")
    got = s3.get_object(Bucket=bucket, Key="to")
    assert got["Body"].read() == body and got["ContentType"] == "text/plain" and got["Metadata"] == {"a": "1"}


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "extents"])
def test_chain_survives_its_links(s3, bucket, body):
    s3.put_object(Bucket=bucket, Key="k0", Body=body)
    for i in range(4):
        s3.copy_object(Bucket=bucket, Key=f"k{i + 1}", CopySource=f"{bucket}/k{i}")
    s3.put_object(Bucket=bucket, Key="k0", Body=b"other")
    for i in range(1, 4):
        s3.delete_object(Bucket=bucket, Key=f"k{i}")
    assert s3.get_object(Bucket=bucket, Key="k4")["Body"].read() == body


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "extents"])
def test_replace_onto_itself(s3, bucket, refused, body):
    s3.put_object(Bucket=bucket, Key="k", Body=body, Metadata={"a": "1"}, ContentType="text/plain")
    with refused(400, "InvalidRequest"):
        s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k")
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k", MetadataDirective="REPLACE", Metadata={"b": "2"})
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body and got["Metadata"] == {"b": "2"}
    assert got["ContentType"] == "binary/octet-stream"
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k", StorageClass="REDUCED_REDUNDANCY")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body and got["StorageClass"] == "REDUCED_REDUNDANCY"


def test_between_buckets_and_odd_keys(s3, bucket):
    s3.create_bucket(Bucket="copies-of")
    for key in ("a b", "é/ü", "x+y", "q?r", "%25", "//"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        s3.copy_object(Bucket="copies-of", Key=key, CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket="copies-of", Key=key)["Body"].read() == key.encode()
        s3.delete_object(Bucket="copies-of", Key=key)
    s3.delete_bucket(Bucket="copies-of")


def test_conditions(s3, bucket, refused):
    etag = s3.put_object(Bucket=bucket, Key="from", Body=b"x")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="from")["LastModified"]
    source = f"{bucket}/from"
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, CopySourceIfMatch=etag)
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, CopySourceIfMatch='"x"')
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, CopySourceIfNoneMatch=etag)
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, CopySourceIfModifiedSince=when)
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, IfNoneMatch="*")
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, IfMatch=etag)


def test_refusals(s3, raw, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with refused(404, "NoSuchKey") as refusal:
        s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/none")
    assert refusal.response["Error"]["Key"] == "none"
    with refused(404, "NoSuchBucket"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource="no-such-bucket/k")
    with refused(400, "InvalidArgument"):
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "k", "VersionId": "v"})
    s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "k", "VersionId": "null"})
    for header in ("nokey", "/", "%zz/k", f"/{bucket}/"):
        reply = raw.send("PUT", f"/{bucket}/to", [("x-amz-copy-source", header)])
        assert (reply.status, reply.code) == (400, "InvalidArgument"), header


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "extents"])
def test_checksum_of_another_kind(s3, bucket, body):
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    result = s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/k", ChecksumAlgorithm="SHA256")
    want = base64.b64encode(hashlib.sha256(body).digest()).decode()
    assert result["CopyObjectResult"]["ChecksumSHA256"] == want
    got = s3.get_object(Bucket=bucket, Key="to", ChecksumMode="ENABLED")
    assert got["ChecksumSHA256"] == want and got["Body"].read() == body


def test_checksums_go_along(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="SHA256")
    result = s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/k")["CopyObjectResult"]
    head = s3.head_object(Bucket=bucket, Key="to", ChecksumMode="ENABLED")
    assert result["ChecksumSHA256"] == head["ChecksumSHA256"]


def test_redirect(s3, bucket, refused):
    """A website redirect is not copied; the request's own is kept beside copied metadata."""
    s3.put_object(Bucket=bucket, Key="s", Body=b"x", Metadata={"a": "1"}, CacheControl="no-store",
                  ContentType="text/plain", WebsiteRedirectLocation="/old")
    source = {"Bucket": bucket, "Key": "s"}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert "WebsiteRedirectLocation" not in head and head["Metadata"] == {"a": "1"}
    s3.copy_object(Bucket=bucket, Key="s", CopySource=source, WebsiteRedirectLocation="/new")
    head = s3.head_object(Bucket=bucket, Key="s")
    assert head["WebsiteRedirectLocation"] == "/new" and head["Metadata"] == {"a": "1"}
    assert (head["CacheControl"], head["ContentType"]) == ("no-store", "text/plain")
    with refused(400, "InvalidRedirectLocation"):
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source, WebsiteRedirectLocation="new")
