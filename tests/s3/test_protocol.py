"""The protocol around the operations: ids, timing, early heads of slow replies, replies without bodies."""
import re
import socket
import xml.etree.ElementTree as ET

import pytest

from kist import Server
from raw import Raw, path, read_reply

MIB = 1 << 20


# ---- Ids ----

def has_ids(reply):
    return (re.fullmatch("[0-9A-Z]{16}", reply.headers["x-amz-request-id"]) and len(reply.headers["x-amz-id-2"]) == 64)


@pytest.mark.parametrize("data", [
    b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"], ids=range(5))
def test_refused_heads_have_ids(raw, data):
    """Support asks for the request id first: also of what is no request at all, and the document says the same."""
    reply = raw.unsigned(data)
    assert reply.status >= 400 and has_ids(reply)
    assert reply.element("RequestId") == reply.headers["x-amz-request-id"]
    assert reply.element("HostId") == reply.headers["x-amz-id-2"]
    again = raw.unsigned(data)
    assert again.headers["x-amz-request-id"] != reply.headers["x-amz-request-id"]


def test_every_reply_has_ids(raw, s3, bucket):
    """Success, error, not modified, preflight: each is told apart by its id."""
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    origin = [("Origin", "http://a"), ("Access-Control-Request-Method", "GET")]
    for method, target, headers, status in (
            ("GET", "/k", [], 200), ("GET", "/absent", [], 404), ("HEAD", "/absent", [], 404),
            ("GET", "/k", [("If-None-Match", etag)], 304), ("DELETE", "/absent", [], 204), ("OPTIONS", "/k", origin, 403),
            ("PATCH", "/k", [], 405)):
        reply = raw.send(method, path(bucket) + target, headers)
        assert (reply.status, has_ids(reply) is not None) == (status, True), (method, target)
    reply = raw.send("GET", path(bucket, "absent"))
    assert reply.element("RequestId") == reply.headers["x-amz-request-id"]
    assert reply.element("Resource") == f"/{bucket}/absent" and reply.element("HostId") == reply.headers["x-amz-id-2"]


@pytest.mark.parametrize("method,target,headers", [
    ("HEAD", "/absent", []), ("HEAD", "/k", [("If-Match", '"x"')]), ("HEAD", "/k", [("Range", "bytes=5-")]),
    ("GET", "/k", [("If-None-Match", "*")])])
def test_no_body(raw, s3, bucket, method, target, headers):
    """Replies to HEAD and 304 have no body whatever they say, so the next reply is where it belongs."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    target = path(bucket) + target
    with raw.connect() as stream:
        stream.sendall(raw.head(method, target, raw.headers(method, target, headers)))
        stream.sendall(raw.head("GET", path(bucket, "k"), raw.headers("GET", path(bucket, "k"))))
        data = b""
        while not data.endswith(b"\r\n\r\n1"):
            more = stream.recv(65536)
            assert more, data
            data += more
        first, second = data.split(b"HTTP/1.1 ")[1:]
        assert first.endswith(b"\r\n\r\n") and second.startswith(b"200 ")


# ---- Timing ----

@pytest.mark.parametrize("method,size", [("GET", 10), ("GET", 500_000), ("PUT", 10), ("PUT", 500_000), ("DELETE", 0)])
def test_server_timing(raw, s3, bucket, method, size):
    """Who asks where the time went is told, step by step, and the parts make up the whole."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * size)
    body = b"x" * size if method == "PUT" else b""
    asked = {"headers": [("x-kist-server-timing", "1")], "sign": ["x-kist-server-timing"]}
    reply = raw.send(method, path(bucket, "k"), body=body, **asked)
    assert reply.status < 300
    parts = dict(re.findall(r"([a-z]+);dur=(\d+\.\d{3})", reply.headers["server-timing"]))
    total = float(parts.pop("total"))
    assert {"judge", {"GET": "read", "PUT": "store", "DELETE": "commit"}[method]} <= set(parts)
    assert sum(map(float, parts.values())) <= total + 0.1
    assert "server-timing" not in raw.send(method, path(bucket, "k"), body=body).headers
    assert "server-timing" in raw.send("GET", path(bucket, "absent"), **asked).headers


# ---- Slow replies ----

@pytest.fixture(scope="module")
def slow():
    """A server to which everything is slow: it sends the first sign of life after a millisecond."""
    with Server(arguments=["--keep-alive-after", "1ms"]) as running:
        client = running.client()
        client.create_bucket(Bucket="slow")
        client.put_object(Bucket="slow", Key="big", Body=b"x" * (64 * MIB), ChecksumAlgorithm="CRC32")
        yield running


def chunked(server, method, target, headers=()):
    """Status, headers and the body without its framing, as it came."""
    raw = Raw(server)
    with raw.connect() as stream:
        stream.sendall(raw.head(method, target, raw.headers(method, target, headers), 0))
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            more = stream.recv(65536)
            assert more, data
            data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    return head.decode(), body


def test_slow_copy(slow):
    """A copy that must read 64 MiB: 200 at once, blanks meanwhile, then the result: no balancer cuts it."""
    head, body = chunked(slow, "PUT", "/slow/copy", [("x-amz-copy-source", "/slow/big"),
                                                     ("x-amz-checksum-algorithm", "SHA256")])
    assert head.startswith("HTTP/1.1 200 ") and "x-amz-request-id" in head
    assert re.match(rb'<\?xml version="1.0" encoding="UTF-8"\?>\n +<CopyObjectResult', body), body[:200]
    assert ET.fromstring(body).tag.endswith("CopyObjectResult")
    assert slow.client().head_object(Bucket="slow", Key="copy")["ContentLength"] == 64 * MIB


def test_slow_failure(slow, refused):
    """The failure comes as an Error document behind the 200; SDKs see it as one."""
    slow.client().put_object(Bucket="slow", Key="there", Body=b"1")
    headers = [("x-amz-copy-source", "/slow/big"), ("x-amz-checksum-algorithm", "SHA256"), ("If-None-Match", "*")]
    head, body = chunked(slow, "PUT", "/slow/there", headers)
    assert head.startswith("HTTP/1.1 200 ")
    assert ET.fromstring(body).find("Code").text == "PreconditionFailed"
    with pytest.raises(Exception) as failure:
        slow.client(retries={"max_attempts": 1, "mode": "standard"}).copy_object(
            Bucket="slow", Key="there", CopySource="slow/big", ChecksumAlgorithm="SHA256", IfNoneMatch="*")
    assert "PreconditionFailed" in str(failure.value)


def test_slow_multipart(slow):
    """Complete and UploadPartCopy are understood by SDKs, early head or not."""
    client = slow.client()
    upload = client.create_multipart_upload(Bucket="slow", Key="parts", ChecksumAlgorithm="SHA256")["UploadId"]
    parts = []
    for number in range(1, 4):
        copied = client.upload_part_copy(Bucket="slow", Key="parts", UploadId=upload, PartNumber=number,
                                         CopySource="slow/big")["CopyPartResult"]
        parts.append({"PartNumber": number, "ETag": copied["ETag"], "ChecksumSHA256": copied["ChecksumSHA256"]})
    done = client.complete_multipart_upload(Bucket="slow", Key="parts", UploadId=upload,
                                            MultipartUpload={"Parts": parts})
    assert done["ETag"].endswith('-3"')
    assert client.head_object(Bucket="slow", Key="parts")["ContentLength"] == 3 * 64 * MIB


def test_slow_hangup(slow):
    """A client that goes away in the middle leaves nothing behind, and the server goes on."""
    raw = Raw(slow)
    headers = [("x-amz-copy-source", "/slow/big"), ("x-amz-checksum-algorithm", "SHA256")]
    for _ in range(5):
        with raw.connect() as stream:
            stream.sendall(raw.head("PUT", "/slow/gone", raw.headers("PUT", "/slow/gone", headers), 0))
            assert stream.recv(12) == b"HTTP/1.1 200"
    assert slow.client().head_object(Bucket="slow", Key="big")["ContentLength"] == 64 * MIB


# ---- Connections ----

def test_connection_survives_small_unread_bodies(raw, s3, bucket):
    """An error before the body was read keeps the connection when the body is small, and closes it when it is not."""
    for size, closed in ((1000, False), (100_000, False), (40 * MIB, True)):
        target = "/no-such-bucket-here/k"
        with raw.connect() as stream:
            stream.sendall(raw.head("PUT", target, raw.headers("PUT", target, payload="UNSIGNED-PAYLOAD"), size))
            if not closed:
                stream.sendall(b"x" * size)
            reply = read_reply(stream)
            assert (reply.status, reply.closed) == (404, closed)
            if closed:
                continue
            stream.sendall(raw.head("GET", path(bucket), raw.headers("GET", path(bucket))))
            assert read_reply(stream).status == 200


def test_http_1_0_streams_until_close(raw, s3, bucket):
    """A client of HTTP/1.0 gets the whole body and the end of the connection."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 300_000)
    head = raw.head("GET", path(bucket, "k"), raw.headers("GET", path(bucket, "k")))
    with raw.connect() as stream:
        stream.sendall(head.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        data = b""
        while True:
            more = stream.recv(65536)
            if not more:
                break
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    assert body == b"x" * 300_000 and b"chunked" not in head.lower()


def test_half_close(raw, s3, bucket):
    """A client that ends its side after the request still gets its reply."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    with raw.connect() as stream:
        stream.sendall(raw.head("GET", path(bucket, "k"), raw.headers("GET", path(bucket, "k"))))
        stream.shutdown(socket.SHUT_WR)
        assert read_reply(stream).body in (b"1", b"")
