"""Signatures and the forms of a body, as they go on the wire."""
import base64
import datetime
import hashlib
import urllib.request
import zlib
from urllib.error import HTTPError

import pytest

BODY = b"0123456789abcdef" * 5000
PIECES = [BODY[:65536], BODY[65536:]]


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def stored(s3, bucket):
    got = s3.get_object(Bucket=bucket, Key="k")
    return got["Body"].read(), got.get("ContentEncoding")


@pytest.mark.parametrize("signed,trailer", [(True, None), (True, ("x-amz-checksum-crc32", crc32(BODY))),
                                            (False, ("x-amz-checksum-crc32", crc32(BODY)))])
@pytest.mark.parametrize("encoding,kept", [("aws-chunked", None), ("gzip,aws-chunked", "gzip"),
                                           ("aws-chunked, gzip", "gzip"), ("AWS-Chunked", None)])
def test_chunked_forms(raw, s3, bucket, signed, trailer, encoding, kept):
    reply = raw.put_chunked(f"/{bucket}/k", PIECES, signed, trailer, headers=[("Content-Encoding", encoding)])
    assert reply.status == 200, reply.body
    assert stored(s3, bucket) == (BODY, kept)


def test_plain_forms(raw, s3, bucket):
    for payload in (hashlib.sha256(BODY).hexdigest(), "UNSIGNED-PAYLOAD"):
        assert raw.send("PUT", f"/{bucket}/k", body=BODY, payload=payload).status == 200
        assert stored(s3, bucket)[0] == BODY


@pytest.mark.parametrize("change,codes", [
    (lambda data: data.replace(b"0123", b"9123", 1), {"SignatureDoesNotMatch"}),
    (lambda data: data[:-10], {"IncompleteBody", "SignatureDoesNotMatch", None}),
    (lambda data: data.replace(b"10000;", b"10001;", 1), {"IncompleteBody", "SignatureDoesNotMatch"}),
    (lambda data: data.replace(b"chunk-signature=", b"chunk-signature=0", 1), {"SignatureDoesNotMatch", "IncompleteBody"})])
def test_broken_chunks_are_not_stored(raw, s3, bucket, change, codes):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    reply = raw.put_chunked(f"/{bucket}/k", PIECES, change=change)
    assert reply.status != 200 and reply.code in codes
    assert stored(s3, bucket)[0] == b"before"


def test_wrong_trailers_are_not_stored(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    for signed in (True, False):
        reply = raw.put_chunked(f"/{bucket}/k", PIECES, signed, ("x-amz-checksum-crc32", crc32(b"other")))
        assert (reply.status, reply.code) == (400, "BadDigest")
    assert stored(s3, bucket)[0] == b"before"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums(s3, bucket, algorithm, refused):
    if algorithm in ("CRC32C", "CRC64NVME"):
        pytest.importorskip("awscrt")
    put = s3.put_object(Bucket=bucket, Key="k", Body=BODY, ChecksumAlgorithm=algorithm)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]
    assert head["ChecksumType"] == "FULL_OBJECT"
    plain = s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-9")
    assert f"Checksum{algorithm}" not in plain


@pytest.mark.parametrize("header,value,code", [
    ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"), ("x-amz-checksum-crc32c", "AAAAAA==", "BadDigest"),
    ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", "BadDigest"),
    ("x-amz-checksum-sha1", base64.b64encode(b"0" * 20).decode(), "BadDigest"),
    ("x-amz-checksum-crc32", "short", "InvalidRequest"), ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==", "BadDigest"),
    ("Content-MD5", "short", "InvalidDigest")])
def test_wrong_digests(raw, s3, bucket, header, value, code):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    reply = raw.send("PUT", f"/{bucket}/k", [(header, value)], BODY)
    assert (reply.status, reply.code) == (400, code)
    assert stored(s3, bucket)[0] == b"before"


def test_crc64nvme_when_none_was_sent(raw, bucket):
    reply = raw.send("PUT", f"/{bucket}/k", body=b"123456789")
    want = base64.b64encode(0xae8b14860a799888.to_bytes(8, "big")).decode()
    assert reply.headers["x-amz-checksum-crc64nvme"] == want
    assert reply.headers["x-amz-checksum-type"] == "FULL_OBJECT"


def test_sha256_of_the_body_is_checked(raw, s3, bucket):
    reply = raw.send("PUT", f"/{bucket}/k", body=BODY, payload=hashlib.sha256(b"other").hexdigest())
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")


# ---- Signatures ----

def test_errors_explain(raw, bucket):
    reply = raw.send("GET", f"/{bucket}", secret="another secret")
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    for element in ("StringToSign", "CanonicalRequest", "SignatureProvided", "StringToSignBytes", "AWSAccessKeyId"):
        assert reply.element(element), element
    reply = raw.send("GET", f"/{bucket}", access_key="NOSUCHKEY")
    assert (reply.status, reply.code) == (403, "InvalidAccessKeyId")
    assert reply.element("AWSAccessKeyId") == "NOSUCHKEY"


def test_clock_skew(raw, bucket):
    now = datetime.datetime.now(datetime.timezone.utc)
    assert raw.send("GET", f"/{bucket}", now=now - datetime.timedelta(minutes=14)).status == 200
    reply = raw.send("GET", f"/{bucket}", now=now - datetime.timedelta(minutes=16))
    assert (reply.status, reply.code) == (403, "RequestTimeTooSkewed")


def test_wrong_region_names_ours(server, bucket, refused):
    import boto3
    from kist import ACCESS_KEY, SECRET_KEY
    abroad = boto3.session.Session().client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS_KEY,
                                            aws_secret_access_key=SECRET_KEY, region_name="eu-west-1")
    with refused(400, "AuthorizationHeaderMalformed") as refusal:
        abroad.list_buckets()
    assert refusal.response["Error"]["Region"] == "us-east-1"


def test_anonymous(raw, bucket):
    reply = raw.unsigned(f"GET /{bucket}/k HTTP/1.1\r\nHost: {raw.host}\r\n\r\n".encode())
    assert (reply.status, reply.code) == (403, "AccessDenied")


def fetch(url, method="GET", data=None, headers=None):
    request = urllib.request.Request(url, method=method, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()
    except HTTPError as error:
        return error.code, error.read()


def test_presigned(server, bucket):
    s3 = server.client(signature_version="s3v4")  # boto3 still makes version 2 URLs when not asked
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
    assert fetch(put, "PUT", BODY)[0] == 200
    get = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b",
                                                   "ResponseContentType": "text/x"}, ExpiresIn=60)
    assert fetch(get) == (200, BODY)
    assert fetch(get, headers={"Range": "bytes=0-1"}) == (206, BODY[:2])
    assert fetch(get.replace("Signature=", "Signature=0"))[0] == 403
    assert fetch(put, "PUT", BODY, {"x-amz-meta-more": "1"})[0] == 403
    assert fetch(get.replace("X-Amz-Expires=60", "X-Amz-Expires=604801"))[0] in (400, 403)


@pytest.mark.parametrize("headers,text", [
    ([("x-amz-checksum-foo", "AAAA")], "The algorithm type you specified in x-amz-checksum- header is invalid."),
    ([("x-amz-checksum-sha512", "AAAA")], "Value for x-amz-checksum-sha512 header is invalid."),
    ([("x-amz-checksum-crc32", "bad"), ("x-amz-checksum-sha1", "bad")], "Expecting a single x-amz-checksum- header."),
    ([("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-checksum-foo", "A")], "Expecting a single x-amz-checksum- header.")])
def test_a_checksum_that_cannot_be_checked_is_refused(raw, s3, bucket, headers, text):
    """The client counts on it: stored all the same would be worse than not stored."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    for target in (f"/{bucket}/k", f"/{bucket}/k?partNumber=1&uploadId={upload}"):
        reply = raw.send("PUT", target, headers, b"body")
        assert (reply.status, reply.code) == (400, "InvalidRequest") and text in reply.element("Message")
    assert stored(s3, bucket)[0] == b"before"
