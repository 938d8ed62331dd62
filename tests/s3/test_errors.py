"""Error documents, and what HTTP itself asks of a server."""
import socket

import pytest
from raw import read_reply


def test_document(raw):
    reply = raw.send("GET", "/no-such-bucket/key")
    assert (reply.status, reply.code) == (404, "NoSuchBucket")
    assert reply.headers["content-type"] == "application/xml"
    assert reply.body.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>')
    assert reply.element("Message") == "The specified bucket does not exist."
    assert reply.element("Resource") == "/no-such-bucket/key"
    assert reply.element("RequestId") == reply.headers["x-amz-request-id"]
    assert reply.element("HostId") == reply.headers["x-amz-id-2"]
    assert reply.headers["server"] == "kist" and "date" in reply.headers


@pytest.mark.parametrize("method,target,name", [
    ("PUT", "?replication", "PutBucketReplication"), ("PUT", "?logging", "PutBucketLogging"),
    ("PUT", "?inventory&id=x", "PutBucketInventoryConfiguration"), ("PUT", "/k?encryption", "UpdateObjectEncryption"),
    ("GET", "/k?torrent", "GetObjectTorrent"), ("POST", "/k?select&select-type=2", "SelectObjectContent")])
def test_not_implemented_names_the_operation(raw, bucket, method, target, name):
    reply = raw.send(method, f"/{bucket}{target}")
    assert (reply.status, reply.code) == (501, "NotImplemented")
    assert name in reply.element("Message")


def test_method_not_allowed(raw, bucket):
    reply = raw.send("POST", f"/{bucket}/k")
    assert (reply.status, reply.code) == (405, "MethodNotAllowed")
    assert reply.element("Method") == "POST" and reply.element("ResourceType") == "OBJECT"


def test_conflicting_sub_resources(raw, bucket):
    assert raw.send("GET", f"/{bucket}?acl&policy").code == "InvalidArgument"


def test_head_errors_keep_the_connection_in_step(raw, bucket):
    with raw.connect() as stream:
        for _ in range(2):
            head = raw.headers("HEAD", f"/{bucket}/none")
            stream.sendall(raw.head("HEAD", f"/{bucket}/none", head))
            reply = read_reply(stream, "HEAD")
            assert reply.status == 404 and reply.body == b""
        stream.sendall(raw.head("GET", f"/{bucket}", raw.headers("GET", f"/{bucket}")))
        assert read_reply(stream).status == 200


def test_keep_alive_after_a_refused_body(raw, bucket):
    """What is left of a small body is drained; the next request on the connection is read from its start."""
    with raw.connect() as stream:
        headers = raw.headers("PUT", f"/{bucket}/k", [("x-amz-server-side-encryption", "AES256")],
                              "UNSIGNED-PAYLOAD")
        stream.sendall(raw.head("PUT", f"/{bucket}/k", headers, 1000) + b"x" * 1000)
        first = read_reply(stream)
        assert first.status == 501
        if not first.closed:
            stream.sendall(raw.head("GET", f"/{bucket}", raw.headers("GET", f"/{bucket}")))
            assert read_reply(stream).status == 200


def test_pipelining(raw, bucket):
    with raw.connect() as stream:
        requests = b"".join(raw.head("GET", f"/{bucket}?prefix={i}", raw.headers("GET", f"/{bucket}?prefix={i}"))
                            for i in range(5))
        stream.sendall(requests)
        data = b""
        while data.count(b"</ListBucketResult>") < 5:
            more = stream.recv(65536)
            assert more
            data += more
        assert [data.index(f"<Prefix>{i}</Prefix>".encode()) for i in range(5)] == sorted(
            data.index(f"<Prefix>{i}</Prefix>".encode()) for i in range(5))


def test_expect_continue(raw, bucket):
    with raw.connect() as stream:
        headers = raw.headers("PUT", f"/{bucket}/k", [("Expect", "100-continue")], "UNSIGNED-PAYLOAD")
        stream.sendall(raw.head("PUT", f"/{bucket}/k", headers, 5))
        assert read_reply(stream).status == 100
        stream.sendall(b"hello")
        assert read_reply(stream).status == 200
        headers = raw.headers("PUT", "/no-such-bucket/k", [("Expect", "100-continue")], "UNSIGNED-PAYLOAD")
        stream.sendall(raw.head("PUT", "/no-such-bucket/k", headers, 5))
        assert read_reply(stream).status == 404


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"])
def test_ambiguous_requests_close(raw, data):
    with raw.connect() as stream:
        stream.sendall(data)
        reply = read_reply(stream)
        assert reply.status in (400, 501)
        stream.settimeout(10)
        assert stream.recv(100) == b""


def test_http_1_0(raw, bucket):
    head = raw.head("GET", f"/{bucket}", raw.headers("GET", f"/{bucket}")).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    with raw.connect() as stream:
        stream.sendall(head)
        assert read_reply(stream).status == 200
        stream.settimeout(10)
        assert stream.recv(100) == b""


def test_chunked_transfer_without_length(raw, s3, bucket):
    headers = raw.headers("PUT", f"/{bucket}/k", [("Transfer-Encoding", "chunked")], "UNSIGNED-PAYLOAD")
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/k", headers) + b"5\r\nhello\r\n0\r\n\r\n")
        assert read_reply(stream).status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


def test_client_that_stops_reading_holds_no_one_up(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="big", Body=b"b" * (20 * 1024 * 1024))
    sleepers = []
    for _ in range(8):
        stream = raw.connect()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.sendall(raw.head("GET", f"/{bucket}/big", raw.headers("GET", f"/{bucket}/big")))
        sleepers.append(stream)
    for _ in range(5):
        assert s3.get_object(Bucket=bucket, Key="big", Range="bytes=0-9")["Body"].read() == b"b" * 10
    for stream in sleepers:
        stream.close()


@pytest.mark.parametrize("value", ["", "200", "200-ok", "100-continue, x"])
def test_other_expectations_are_passed_over(raw, s3, bucket, value):
    reply = raw.send("PUT", f"/{bucket}/k", [("Expect", value)], b"body")
    assert reply.status == 200 and not reply.closed
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"body"


@pytest.mark.parametrize("method,query", [
    ("PUT", "uploads"), ("PUT", "delete"), ("PUT", "attributes"), ("PUT", "policy"), ("PUT", "torrent"),
    ("DELETE", "uploads"), ("DELETE", "acl"), ("DELETE", "retention"), ("DELETE", "select&select-type=2")])
def test_a_write_with_a_strange_sub_resource_is_not_the_plain_one(raw, s3, bucket, method, query):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    reply = raw.send(method, f"/{bucket}/k?{query}")
    assert (reply.status, reply.code) == (405, "MethodNotAllowed")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


@pytest.mark.parametrize("query", ["versioning", "acl", "logging", "inventory", "metrics", "location", "uploads"])
def test_a_bucket_is_not_deleted_for_a_strange_sub_resource(raw, s3, bucket, query):
    reply = raw.send("DELETE", f"/{bucket}?{query}")
    assert (reply.status, reply.code) == (405, "MethodNotAllowed")
    s3.head_bucket(Bucket=bucket)


def test_a_bucket_is_not_made_for_a_strange_sub_resource(raw, s3):
    assert raw.send("PUT", "/strange-sub-resource?uploads").status == 405
    assert raw.send("HEAD", "/strange-sub-resource").status == 404


@pytest.mark.parametrize("method,target,headers,code", [
    ("PUT", "/k?partNumber=1", [], "InvalidArgument"), ("GET", "/k?uploads", [], "InvalidRequest"),
    ("GET", "/k?versions", [], "InvalidRequest"),
    ("GET", "/k", [("x-amz-copy-source", "a/b")], "InvalidArgument"),
    ("DELETE", "/k", [("x-amz-copy-source", "a/b")], "InvalidArgument"),
    ("POST", "/k?uploads", [("x-amz-copy-source", "a/b")], "InvalidArgument")])
def test_what_belongs_to_another_operation(raw, s3, bucket, method, target, headers, code):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    reply = raw.send(method, f"/{bucket}{target}", headers)
    assert (reply.status, reply.code) == (400, code)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"
