"""Appending, in the words of AWS, Ceph and ECS: the offset decides, all bytes stay, checksums hold for the whole."""
import base64
import http.client
import random
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from raw import path, read_reply


def append(raw, bucket, key, offset, body, headers=()):
    return raw.send("PUT", path(bucket, key), [("x-amz-write-offset-bytes", str(offset)), *headers], body)


def crc32c(body):
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    crc = 0xFFFFFFFF
    for byte in body:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def declared(algorithm, body):
    """The header of a CRC32C; the server makes a CRC64NVME when it is told nothing."""
    if algorithm == "CRC64NVME":
        return []
    return [("x-amz-checksum-crc32c", base64.b64encode(crc32c(body).to_bytes(4, "big")).decode())]


def get(s3, bucket, key):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


@pytest.mark.parametrize("sizes", [
    [0, 1], [1, 1, 1], [10_000, 6_384, 1], [16_384, 1], [16_383, 200_000], [100, 3_000_000, 5], [200_000, 1, 16_384, 1],
    [3_000_000, 700_000, 20_000], [0, 0x50000, 1],
    [4_000, 262_140], [16_384, 1_500_000, 7], [16_384, 9_000_000]], ids=str)
def test_grows(s3, raw, bucket, sizes):
    """Across every way of storing bytes (in metad, copies, stripes) an append keeps what was there."""
    pattern = random.Random(1).randbytes(sum(sizes))
    at = 0
    for n, size in enumerate(sizes):
        reply = append(raw, bucket, "log", at, pattern[at:at + size])
        at += size
        assert reply.status == 200, (n, reply.body)
        assert reply.headers["x-amz-object-size"] == str(at)
        head = s3.head_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")
        assert head["ContentLength"] == at and head["ETag"] == reply.headers["etag"]
        assert head["ChecksumType"] == "FULL_OBJECT"
    assert get(s3, bucket, "log") == pattern
    assert s3.get_object(Bucket=bucket, Key="log", Range=f"bytes={at // 2}-")["Body"].read() == pattern[at // 2:]
    assert head["ETag"].strip('"').endswith(f"-{len(sizes)}"), "not an MD5, and it says so"
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (listed["ETag"], listed["Size"]) == (head["ETag"], at)
    assert s3.get_object(Bucket=bucket, Key="log", IfMatch=head["ETag"])["ContentLength"] == at


def test_wrong_offset(s3, raw, bucket):
    """Another offset than the size is refused, and nothing changes: that is what keeps two writers apart."""
    assert append(raw, bucket, "log", 1, b"x").code == "InvalidWriteOffset"
    s3.put_object(Bucket=bucket, Key="log", Body=b"12345")
    for offset in (0, 4, 6, 1 << 40):
        reply = append(raw, bucket, "log", offset, b"x")
        assert (reply.status, reply.code) == (400, "InvalidWriteOffset"), offset
    for offset in ("-1", "x", "", str(1 << 70)):
        assert append(raw, bucket, "log", offset, b"x").code == "InvalidArgument"
    assert get(s3, bucket, "log") == b"12345"


def test_refused_before_the_body(raw, s3, bucket):
    """A client that waits for 100 Continue is told of the wrong offset before it sends gigabytes."""
    headers = raw.headers("PUT", f"/{bucket}/log", [("x-amz-write-offset-bytes", "7")], "UNSIGNED-PAYLOAD")
    headers.append(("Expect", "100-continue"))
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/log", headers, 1 << 30))
        assert read_reply(stream).code == "InvalidWriteOffset"


def test_checksums(s3, raw, bucket):
    """The CRC of the whole is combined; a wrong one of the new bytes is refused; hashes are dropped."""
    first, second = b"a" * 20_000, b"b" * 300_001
    s3.put_object(Bucket=bucket, Key="log", Body=first, ChecksumAlgorithm="CRC32")
    own = base64.b64encode(zlib.crc32(second).to_bytes(4, "big")).decode()
    wrong = append(raw, bucket, "log", 20_000, second, [("x-amz-checksum-crc32", "AAAAAA==")])
    assert (wrong.status, wrong.code) == (400, "BadDigest")
    reply = append(raw, bucket, "log", 20_000, second, [("x-amz-checksum-crc32", own)])
    whole = base64.b64encode(zlib.crc32(first + second).to_bytes(4, "big")).decode()
    assert reply.headers["x-amz-checksum-crc32"] == whole
    assert s3.head_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")["ChecksumCRC32"] == whole
    for algorithm in ("CRC32C", "CRC64NVME"):
        raw.send("PUT", path(bucket, "a"), declared(algorithm, first), first)
        grown = append(raw, bucket, "a", 20_000, second)
        assert grown.status == 200, (algorithm, grown.body)
        raw.send("PUT", path(bucket, "b"), declared(algorithm, first + second), first + second)
        a, b = (s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED") for key in "ab")
        assert a[f"Checksum{algorithm}"] == b[f"Checksum{algorithm}"]
    s3.put_object(Bucket=bucket, Key="hash", Body=first, ChecksumAlgorithm="SHA256")
    assert append(raw, bucket, "hash", 20_000, second).status == 200
    assert "ChecksumSHA256" not in s3.head_object(Bucket=bucket, Key="hash", ChecksumMode="ENABLED")
    assert get(s3, bucket, "hash") == first + second


def test_streamed(s3, raw, bucket):
    """aws-chunked bodies append like any other; a broken one leaves the object as it was."""
    pieces = [b"x" * 70_000, b"y" * 70_000]
    s3.put_object(Bucket=bucket, Key="log", Body=b"0123456789")
    offset = [("x-amz-write-offset-bytes", "10")]
    for signed in (True, False):
        broken = raw.put_chunked(path(bucket, "log"), pieces, signed, ("x-amz-checksum-crc32", "AAAAAA=="),
                                 headers=offset)
        assert broken.code == "BadDigest"
    assert get(s3, bucket, "log") == b"0123456789"
    assert raw.put_chunked(path(bucket, "log"), pieces, headers=offset).status == 200
    assert get(s3, bucket, "log") == b"0123456789" + b"".join(pieces)


def test_metadata_stays(s3, raw, bucket):
    """Metadata, tags and type are those of the object; what an append says counts when it creates."""
    more = [("x-amz-meta-m", "2"), ("Content-Type", "text/b"), ("x-amz-tagging", "t=2")]
    s3.put_object(Bucket=bucket, Key="log", Body=b"1", Metadata={"m": "1"}, ContentType="text/a", Tagging="t=1")
    assert append(raw, bucket, "log", 1, b"2", more).status == 200
    assert append(raw, bucket, "new", 0, b"2", more).status == 200
    old, new = s3.get_object(Bucket=bucket, Key="log"), s3.get_object(Bucket=bucket, Key="new")
    assert (old["Metadata"], old["ContentType"], old["TagCount"]) == ({"m": "1"}, "text/a", 1)
    assert (new["Metadata"], new["ContentType"], new["TagCount"]) == ({"m": "2"}, "text/b", 1)


def test_conditions(s3, raw, bucket):
    """If-Match and If-None-Match hold as for every write."""
    etag = s3.put_object(Bucket=bucket, Key="log", Body=b"1")["ETag"]
    assert append(raw, bucket, "log", 1, b"2", [("If-Match", '"x"')]).code == "PreconditionFailed"
    assert append(raw, bucket, "log", 1, b"2", [("If-None-Match", "*")]).code == "PreconditionFailed"
    assert append(raw, bucket, "log", 1, b"2", [("If-Match", etag)]).status == 200
    assert append(raw, bucket, "log", 2, b"3", [("If-Match", etag)]).code == "PreconditionFailed"
    assert append(raw, bucket, "new", 0, b"3", [("If-None-Match", "*")]).status == 200


@pytest.mark.parametrize("size", [3, 300_000])
def test_copies_stay(s3, raw, bucket, size):
    """A copy, and the version before, are not touched by what is appended to the other."""
    body = b"a" * size
    s3.put_object(Bucket=bucket, Key="log", Body=body)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/log")
    assert append(raw, bucket, "log", size, b"b" * 200_000).status == 200
    assert append(raw, bucket, "copy", size, b"c" * 5).status == 200
    assert get(s3, bucket, "log") == body + b"b" * 200_000
    assert get(s3, bucket, "copy") == body + b"c" * 5
    s3.delete_object(Bucket=bucket, Key="log")
    assert get(s3, bucket, "copy") == body + b"c" * 5


@pytest.mark.parametrize("size", [3, 300_000])
def test_versioned(s3, raw, versioned, size):
    """Every append is a version; the older ones stay as they were."""
    bodies, versions = [], []
    for n in range(4):
        reply = append(raw, versioned, "log", n * size, bytes([n]) * size)
        assert reply.status == 200
        bodies.append((bodies[-1] if bodies else b"") + bytes([n]) * size)
        versions.append(reply.headers["x-amz-version-id"])
    for body, version in zip(bodies, versions):
        assert s3.get_object(Bucket=versioned, Key="log", VersionId=version)["Body"].read() == body
    s3.delete_object(Bucket=versioned, Key="log", VersionId=versions[1])
    assert get(s3, versioned, "log") == bodies[3]
    s3.delete_object(Bucket=versioned, Key="log")
    assert append(raw, versioned, "log", 0, b"new").status == 200
    assert get(s3, versioned, "log") == b"new"


def test_multipart(s3, raw, bucket):
    """An object of several parts can be appended to as well."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="log")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="log", UploadId=upload, PartNumber=1, Body=b"p" * 100_000)
    s3.complete_multipart_upload(Bucket=bucket, Key="log", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert append(raw, bucket, "log", 100_000, b"q" * 9).status == 200
    assert get(s3, bucket, "log") == b"p" * 100_000 + b"q" * 9
    assert "PartsCount" not in s3.head_object(Bucket=bucket, Key="log", PartNumber=1)


def test_race(s3, raw, bucket):
    """Of ten appends at one offset one wins; the others are told, and none is mixed in."""
    size = 0
    for _ in range(3):
        with ThreadPoolExecutor(10) as pool:
            replies = list(pool.map(lambda n: append(raw, bucket, "log", size, b"%d" % n * 1000), range(10)))
        assert sorted(reply.status for reply in replies)[:2] == [200, 400]
        assert [reply.status for reply in replies].count(200) == 1
        winner = [n for n, reply in enumerate(replies) if reply.status == 200][0]
        assert get(s3, bucket, "log")[size:] == b"%d" % winner * 1000
        size += 1000


def test_ceph(s3, raw, bucket):
    """Ceph's words for the same: position, its error, and where to go on."""
    target = path(bucket, "log") + "?append&position="
    assert raw.send("PUT", target + "0", body=b"one").headers["x-rgw-next-append-position"] == "3"
    reply = raw.send("PUT", target + "2", body=b"x")
    assert (reply.status, reply.code) == (409, "PositionNotEqualToLength")
    assert reply.headers["x-rgw-next-append-position"] == "3"
    assert raw.send("PUT", target + "3", body=b"two").headers["x-rgw-next-append-position"] == "6"
    assert raw.send("PUT", path(bucket, "log") + "?append", body=b"x").code == "InvalidArgument"
    assert get(s3, bucket, "log") == b"onetwo"


def test_ecs(s3, raw, bucket):
    """ECS's: at the end, wherever that is. Concurrent ones all succeed; other ranges are not ours."""
    end = [("Range", "bytes=-1-")]
    assert raw.send("PUT", path(bucket, "log"), end, b"one").headers["x-emc-previous-object-size"] == "0"
    assert raw.send("PUT", path(bucket, "log"), end, b"two").headers["x-emc-previous-object-size"] == "3"
    assert get(s3, bucket, "log") == b"onetwo"
    reply = raw.send("PUT", path(bucket, "log"), [("Range", "bytes=1-2")], b"xx")
    assert (reply.status, reply.code) == (501, "NotImplemented")
    for key, size in (("small", 100), ("large", 150_000)):
        s3.put_object(Bucket=bucket, Key=key, Body=b"-" * size)
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda n: raw.send("PUT", path(bucket, key), end, b"%d" % n * size), range(8)))
        assert [reply.status for reply in replies] == 8 * [200], key
        body = get(s3, bucket, key)
        assert sorted(body[at:at + size] for at in range(size, 9 * size, size)) == [b"%d" % n * size for n in range(8)]


def test_many(s3, raw, bucket):
    """Thousands of small appends stay fast and whole: one connection, no growth of the command."""
    total = b""
    connection = http.client.HTTPConnection("127.0.0.1", raw.server.port, timeout=30)
    for n in range(400):
        body = b"%d\n" % n * 20
        headers = raw.headers("PUT", path(bucket, "log"), [("x-amz-write-offset-bytes", str(len(total)))],
                              "UNSIGNED-PAYLOAD")
        connection.request("PUT", path(bucket, "log"), body=body, headers=dict(headers))
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
        total += body
    connection.close()
    assert get(s3, bucket, "log") == total
    assert s3.head_object(Bucket=bucket, Key="log")["ETag"].endswith('-400"')
