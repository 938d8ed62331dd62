"""PutObject, GetObject, HeadObject, DeleteObject: bytes, headers, sizes."""
import hashlib
import io
import threading

import pytest

KIB, MIB = 1024, 1024 * 1024
EDGES = [0, 1, 16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 128 * KIB - 1, 128 * KIB, 128 * KIB + 1,
         MIB - 1, MIB, MIB + 1, 4 * MIB + 3, 33 * MIB + 5]


def content(size, seed=0):
    block = hashlib.shake_128(f"{seed}".encode()).digest(min(size, 1 << 16) or 1)
    return (block * (size // len(block) + 1))[:size]


@pytest.mark.parametrize("size", EDGES)
def test_sizes(s3, bucket, size):
    body = content(size, size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["Body"].read() == body
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == size and head["ETag"] == put["ETag"]
    for first, last in ((0, 0), (size // 2, size // 2 + 70000), (max(size - 3, 0), size)):
        if size:
            part = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
            assert part["Body"].read() == body[first:last + 1]


def test_empty_put_leaves_the_connection_usable(s3, bucket):
    """An empty body with Expect: 100-continue, then another request on the same connection."""
    for size in (0, 1, 0, 0, 2):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x" * size)
        assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == size


def test_overwrite(s3, bucket):
    for size in (10, 200 * KIB, 0, 3 * MIB, 5):
        s3.put_object(Bucket=bucket, Key="k", Body=content(size, size))
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == content(size, size)


def test_headers_come_back(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain", CacheControl="no-cache",
                  ContentDisposition='attachment; filename="a"', ContentEncoding="gzip", ContentLanguage="de",
                  WebsiteRedirectLocation="/other", StorageClass="REDUCED_REDUNDANCY",
                  Metadata={"Name": "value", "empty": "", "two-words": "a  b"})
    for got in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        assert got["ContentType"] == "text/plain"
        assert got["CacheControl"] == "no-cache"
        assert got["ContentDisposition"] == 'attachment; filename="a"'
        assert got["ContentEncoding"] == "gzip"
        assert got["ContentLanguage"] == "de"
        assert got["WebsiteRedirectLocation"] == "/other"
        assert got["StorageClass"] == "REDUCED_REDUNDANCY"
        assert got["Metadata"] == {"name": "value", "empty": "", "two-words": "a  b"}
        assert got["AcceptRanges"] == "bytes"
        assert len(got["ResponseMetadata"]["RequestId"]) == 16


def test_content_type_default(s3, raw, bucket):
    raw.send("PUT", f"/{bucket}/k", body=b"x")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "binary/octet-stream"


def test_metadata_limit(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Metadata={"a": "v" * 2047})
    with refused(400, "MetadataTooLarge"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"", Metadata={"a": "v" * 2048})


@pytest.mark.parametrize("sent,given", [
    ("=?UTF-8?B?w6Q=?=", "=?UTF-8?B?w6Q=?="), ("=?utf-8?q?=C3=A4?=", "=?UTF-8?B?w6Q=?="),
    ("=?UTF-8?B?YQ==?=", "a"), ("plain", "plain")])
def test_metadata_words(raw, bucket, sent, given):
    assert raw.send("PUT", f"/{bucket}/k", [("x-amz-meta-a", sent)], b"x").status == 200
    assert raw.send("HEAD", f"/{bucket}/k").headers["x-amz-meta-a"] == given


def test_raw_utf8_metadata(raw, bucket):
    assert raw.send("PUT", f"/{bucket}/k", [("x-amz-meta-a", "grün")], b"x").status == 200
    assert raw.send("HEAD", f"/{bucket}/k").headers["x-amz-meta-a"] == "=?UTF-8?B?Z3LDvG4=?="


def test_repeated_metadata_is_joined(raw, bucket):
    headers = [("x-amz-meta-a", "1"), ("x-amz-meta-a", "2")]
    assert raw.send("PUT", f"/{bucket}/k", headers, b"x").status == 200
    assert raw.send("HEAD", f"/{bucket}/k").headers["x-amz-meta-a"] == "1,2"


def test_delete_is_repeatable(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for _ in range(2):
        assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(404, "NoSuchKey") as refusal:
        s3.get_object(Bucket=bucket, Key="k")
    assert refusal.response["Error"]["Key"] == "k"
    with refused(404, "404"):
        s3.head_object(Bucket=bucket, Key="k")


def test_streamed_upload(s3, bucket):
    body = content(20 * MIB, 1)
    s3.upload_fileobj(io.BytesIO(body), bucket, "k")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body


def test_many_at_once(s3, bucket):
    failures = []

    def work(i):
        body = content(1000 * i * i, i)
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=body)
        if s3.get_object(Bucket=bucket, Key=f"k{i}")["Body"].read() != body:
            failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 32


def test_body_cut_short_is_not_stored(s3, raw, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    signed = raw.headers("PUT", f"/{bucket}/k", payload="UNSIGNED-PAYLOAD")
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/k", signed, 100000) + b"x" * 50000)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


def test_missing_length(raw, bucket):
    signed = raw.headers("PUT", f"/{bucket}/k")
    reply = raw.unsigned(raw.head("PUT", f"/{bucket}/k", signed))
    assert (reply.status, reply.code) == (411, "MissingContentLength")


def test_too_large_is_refused_before_the_body(raw, bucket):
    signed = raw.headers("PUT", f"/{bucket}/k", [("Expect", "100-continue")], "UNSIGNED-PAYLOAD")
    reply = raw.unsigned(raw.head("PUT", f"/{bucket}/k", signed, 5 * 1024**3 + 1))
    assert (reply.status, reply.code) == (400, "EntityTooLarge")


@pytest.mark.parametrize("headers", [
    {"ServerSideEncryption": "AES256"}, {"StorageClass": "GLACIER"}])
def test_not_enforced_is_refused(s3, bucket, refused, headers):
    with refused(501, "NotImplemented"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", **headers)


def test_storage_class(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="STANDARD", ACL="private")
    assert "StorageClass" not in s3.head_object(Bucket=bucket, Key="k")
    with refused(400, "InvalidStorageClass"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="FAST")


def test_the_only_version(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"x"
    with refused(400, "InvalidArgument"):
        s3.get_object(Bucket=bucket, Key="k", VersionId="abc")


def test_response_overrides(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain")
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="text/html", ResponseCacheControl="no-store",
                        ResponseContentDisposition="attachment", ResponseContentEncoding="x",
                        ResponseContentLanguage="fr")
    assert (got["ContentType"], got["CacheControl"]) == ("text/html", "no-store")
    assert (got["ContentDisposition"], got["ContentEncoding"], got["ContentLanguage"]) == ("attachment", "x", "fr")
    with refused(400, "InvalidArgument"):
        s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a\r\nb: c")


def test_metadata_without_a_name(raw, bucket):
    assert raw.send("PUT", f"/{bucket}/k", [("x-amz-meta-", "value"), ("x-amz-meta-a", "")], b"body").status == 200
    reply = raw.send("HEAD", f"/{bucket}/k")
    assert reply.status == 200 and reply.headers["x-amz-meta-"] == "value" and reply.headers["x-amz-meta-a"] == ""
