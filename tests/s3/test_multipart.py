"""Multipart uploads."""
import base64
import hashlib
import threading
import zlib

import pytest

MIB = 1024 * 1024
PART = bytes(range(256)) * 4 * 1024 * 5  # 5 MiB


def start(s3, bucket, key="k", **more):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **more)["UploadId"]


def part(s3, bucket, upload, number, body, key="k", **more):
    reply = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body, **more)
    sums = {name: value for name, value in reply.items() if name.startswith("Checksum")}
    return {"PartNumber": number, "ETag": reply["ETag"], **sums}


def complete(s3, bucket, upload, parts, key="k", **more):
    return s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts},
                                        **more)


def etag_of(bodies):
    whole = hashlib.md5(b"".join(hashlib.md5(body).digest() for body in bodies)).hexdigest()
    return f'"{whole}-{len(bodies)}"'


def test_life(s3, bucket):
    upload = start(s3, bucket, ContentType="text/plain", Metadata={"a": "1"})
    first = part(s3, bucket, upload, 2, PART)
    part(s3, bucket, upload, 5, b"not listed")
    last = part(s3, bucket, upload, 7, b"tail")
    reply = complete(s3, bucket, upload, [first, last])
    assert reply["ETag"] == etag_of([PART, b"tail"])
    assert reply["Location"].endswith(f"/{bucket}/k") and reply["Bucket"] == bucket
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == PART + b"tail"
    assert got["ContentType"] == "text/plain" and got["Metadata"] == {"a": "1"}
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads") is None
    cut = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={len(PART) - 2}-{len(PART) + 1}")
    assert cut["Body"].read() == PART[-2:] + b"ta"


def test_by_part_number(s3, bucket, refused):
    upload = start(s3, bucket)
    parts = [part(s3, bucket, upload, 3, PART), part(s3, bucket, upload, 9, b"tail")]
    complete(s3, bucket, upload, parts)
    got = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert got["Body"].read() == b"tail" and got["PartsCount"] == 2
    assert got["ContentRange"] == f"bytes {len(PART)}-{len(PART) + 3}/{len(PART) + 4}"
    assert s3.head_object(Bucket=bucket, Key="k", PartNumber=1)["ContentLength"] == len(PART)
    with refused(416, "InvalidPartNumber"):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=3)


def test_repeat_gets_the_same_answer(s3, bucket, refused):
    upload = start(s3, bucket)
    parts = [part(s3, bucket, upload, 1, b"only")]
    first = complete(s3, bucket, upload, parts)
    assert complete(s3, bucket, upload, parts)["ETag"] == first["ETag"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"overwritten")
    assert complete(s3, bucket, upload, parts)["ETag"] == first["ETag"]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"overwritten"
    with refused(404, "NoSuchUpload"):
        complete(s3, bucket, upload, [{"PartNumber": 2, "ETag": parts[0]["ETag"]}])


def test_parallel_completes(s3, bucket):
    upload = start(s3, bucket)
    parts = [part(s3, bucket, upload, 1, PART), part(s3, bucket, upload, 2, b"tail")]
    etags, errors = [], []

    def race():
        try:
            etags.append(complete(s3, bucket, upload, parts)["ETag"])
        except s3.exceptions.ClientError as error:
            errors.append(error)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and set(etags) == {etag_of([PART, b"tail"])}
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == PART + b"tail"


def test_part_sent_again(s3, bucket, refused):
    upload = start(s3, bucket)
    old = part(s3, bucket, upload, 1, b"old")
    new = part(s3, bucket, upload, 1, b"new and longer")
    with refused(400, "InvalidPart"):
        complete(s3, bucket, upload, [old])
    complete(s3, bucket, upload, [new])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new and longer"


def test_wrong_lists(s3, bucket, refused):
    upload = start(s3, bucket)
    one, two, three = (part(s3, bucket, upload, n, body) for n, body in ((1, PART), (2, b"small"), (3, b"last")))
    for parts, code in (([two, one], "InvalidPartOrder"), ([one, one], "InvalidPartOrder"),
                        ([{"PartNumber": 4, "ETag": one["ETag"]}], "InvalidPart"),
                        ([{"PartNumber": 1, "ETag": two["ETag"]}], "InvalidPart"),
                        ([one, two, three], "EntityTooSmall"), ([], "MalformedXML"),
                        ([{"PartNumber": 10001, "ETag": one["ETag"]}], "InvalidArgument")):
        with refused(400, code):
            complete(s3, bucket, upload, parts)
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="k")
    complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": one["ETag"].strip('"')}])


def test_abort(s3, bucket, refused):
    upload = start(s3, bucket)
    made = part(s3, bucket, upload, 1, b"x")
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    for call in (lambda: part(s3, bucket, upload, 2, b"x"), lambda: complete(s3, bucket, upload, [made]),
                 lambda: s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)):
        with refused(404, "NoSuchUpload"):
            call()


def test_abort_again(s3, bucket, refused):
    """A client that lost the answer aborts once more (S3A's contract does); what never was, or is complete, is refused."""
    upload = start(s3, bucket)
    part(s3, bucket, upload, 1, b"x")
    for _ in range(2):
        assert s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)["ResponseMetadata"]["HTTPStatusCode"] == 204
    done = start(s3, bucket)
    complete(s3, bucket, done, [part(s3, bucket, done, 1, b"x")])
    for key, wrong in (("k", done), ("other", upload)):
        with refused(404, "NoSuchUpload"):
            s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=wrong)


def test_numbers(s3, bucket, refused):
    upload = start(s3, bucket)
    for number in (0, 10001):
        with refused(400, "InvalidArgument"):
            part(s3, bucket, upload, number, b"x")
    with refused(404, "NoSuchUpload"):
        part(s3, bucket, "unknown", 1, b"x")


def test_empty_part(s3, bucket):
    upload = start(s3, bucket)
    complete(s3, bucket, upload, [part(s3, bucket, upload, 1, b"")])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b""


def test_conditions(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"there")
    upload = start(s3, bucket)
    parts = [part(s3, bucket, upload, 1, b"x")]
    with refused(412, "PreconditionFailed"):
        complete(s3, bucket, upload, parts, IfNoneMatch="*")
    complete(s3, bucket, upload, parts, IfMatch=s3.head_object(Bucket=bucket, Key="k")["ETag"])


def test_object_size(s3, bucket, refused):
    upload = start(s3, bucket)
    parts = [part(s3, bucket, upload, 1, b"four")]
    with refused(400, "InvalidRequest"):
        complete(s3, bucket, upload, parts, MpuObjectSize=5)
    complete(s3, bucket, upload, parts, MpuObjectSize=4)


def test_list_parts(s3, bucket):
    upload = start(s3, bucket)
    for number in (1, 2, 5, 9):
        part(s3, bucket, upload, number, b"x" * number)
    seen, marker = [], 0
    while True:
        page = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload, MaxParts=3, PartNumberMarker=marker)
        seen += [(p["PartNumber"], p["Size"]) for p in page["Parts"]]
        marker = page["NextPartNumberMarker"]
        if not page["IsTruncated"]:
            break
    assert seen == [(1, 1), (2, 2), (5, 5), (9, 9)]
    assert page["Owner"]["ID"] == page["Initiator"]["ID"] == "root"


def test_list_uploads(s3, bucket):
    made = [(key, start(s3, bucket, key)) for key in ("a", "b/1", "b/1", "b/2", "c")]
    page = s3.list_multipart_uploads(Bucket=bucket)
    assert [(u["Key"], u["UploadId"]) for u in page["Uploads"]] == made
    seen, more = [], {}
    while True:
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=2, **more)
        seen += [(u["Key"], u["UploadId"]) for u in page["Uploads"]]
        if not page["IsTruncated"]:
            break
        more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    assert seen == made
    page = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [u["Key"] for u in page["Uploads"]] == ["a", "c"]
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"]
    assert len(s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")["Uploads"]) == 3


def test_bucket_with_open_uploads_can_go(s3):
    s3.create_bucket(Bucket="with-uploads")
    upload = start(s3, "with-uploads")
    part(s3, "with-uploads", upload, 1, b"x")
    s3.delete_bucket(Bucket="with-uploads")


# ---- Checksums ----

def test_composite(s3, bucket):
    for algorithm, function in (("SHA256", hashlib.sha256), ("SHA1", hashlib.sha1)):
        upload = start(s3, bucket, ChecksumAlgorithm=algorithm)
        parts = [part(s3, bucket, upload, n, body, ChecksumAlgorithm=algorithm)
                 for n, body in ((1, PART), (2, b"tail"))]
        reply = complete(s3, bucket, upload, parts)
        raw = function(function(PART).digest() + function(b"tail").digest()).digest()
        assert reply[f"Checksum{algorithm}"] == base64.b64encode(raw).decode() + "-2"
        assert reply["ChecksumType"] == "COMPOSITE"
        head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert head[f"Checksum{algorithm}"] == reply[f"Checksum{algorithm}"]


def test_full_object(s3, bucket, refused):
    upload = start(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    parts = [part(s3, bucket, upload, n, body) for n, body in ((1, PART), (2, b"tail"))]
    want = base64.b64encode(zlib.crc32(PART + b"tail").to_bytes(4, "big")).decode()
    with refused(400, "BadDigest"):
        complete(s3, bucket, upload, parts, ChecksumCRC32="AAAAAA==", ChecksumType="FULL_OBJECT")
    reply = complete(s3, bucket, upload, parts, ChecksumCRC32=want, ChecksumType="FULL_OBJECT")
    assert reply["ChecksumCRC32"] == want and reply["ChecksumType"] == "FULL_OBJECT"
    s3.put_object(Bucket=bucket, Key="one", Body=PART + b"tail", ChecksumAlgorithm="CRC32")
    assert s3.head_object(Bucket=bucket, Key="one", ChecksumMode="ENABLED")["ChecksumCRC32"] == want


def test_crc64nvme_without_asking(s3, server, bucket):
    plain = server.client(request_checksum_calculation="when_required")
    upload = start(plain, bucket)
    complete(plain, bucket, upload, [part(plain, bucket, upload, n, body) for n, body in ((1, PART), (2, b"tail"))])
    plain.put_object(Bucket=bucket, Key="one", Body=PART + b"tail")
    heads = [s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED") for key in ("k", "one")]
    assert heads[0]["ChecksumCRC64NVME"] == heads[1]["ChecksumCRC64NVME"]
    assert heads[0]["ChecksumType"] == "FULL_OBJECT"


def test_checksum_rules(s3, bucket, refused):
    for algorithm, kind in (("SHA256", "FULL_OBJECT"), ("SHA1", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE")):
        with refused(400, "InvalidRequest"):
            start(s3, bucket, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    upload = start(s3, bucket, ChecksumAlgorithm="SHA256")
    with refused(400, "InvalidRequest"):
        part(s3, bucket, upload, 1, b"x", ChecksumAlgorithm="CRC32")
    made = part(s3, bucket, upload, 1, b"x", ChecksumAlgorithm="SHA256")
    with refused(400, "InvalidRequest"):
        complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": made["ETag"]}])
    with refused(400, "InvalidPart"):
        complete(s3, bucket, upload, [{**made, "ChecksumSHA256": base64.b64encode(b"0" * 32).decode()}])
    complete(s3, bucket, upload, [made])


# ---- Copies of parts ----

@pytest.mark.parametrize("size", [1, 16 * 1024, 16 * 1024 + 1, 200 * 1024, 6 * MIB])
def test_part_copy(s3, bucket, size):
    body = (PART + PART)[:size]
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    upload = start(s3, bucket)
    copied = s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, CopySource=f"{bucket}/from")
    half = s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=upload, PartNumber=2, CopySource=f"{bucket}/from",
                               CopySourceRange=f"bytes={size // 2}-{size - 1}")
    s3.delete_object(Bucket=bucket, Key="from")
    parts = [{"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]},
             {"PartNumber": 2, "ETag": half["CopyPartResult"]["ETag"]}]
    want = body + body[size // 2:]
    if size < 5 * MIB:  # a small part can only be the last
        parts, want = parts[1:], body[size // 2:]
    complete(s3, bucket, upload, parts)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == want
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    s3.delete_object(Bucket=bucket, Key="k")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == want


def copy_part(s3, bucket, upload, number, source, key, **more):
    reply = s3.upload_part_copy(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number,
                                CopySource={"Bucket": bucket, "Key": source}, **more)
    return {"PartNumber": number, "ETag": reply["CopyPartResult"]["ETag"]}


def test_part_copy_of_a_thousand_pieces(s3, bucket):
    """rclone copies objects over 4.7 GiB in few large parts, however small the source's own parts were."""
    s3.put_object(Bucket=bucket, Key="five", Body=PART)
    upload = start(s3, bucket, "source")
    parts = [copy_part(s3, bucket, upload, number, "five", "source") for number in range(1, 1001)]
    complete(s3, bucket, upload, parts, "source")
    size = 1000 * len(PART)
    upload = start(s3, bucket, "copy")
    parts = [copy_part(s3, bucket, upload, 1, "source", "copy", CopySourceRange=f"bytes=0-{size - 1001}"),
             copy_part(s3, bucket, upload, 2, "source", "copy", CopySourceRange=f"bytes={size - 1000}-{size - 1}")]
    complete(s3, bucket, upload, parts, "copy")
    assert s3.head_object(Bucket=bucket, Key="copy")["ContentLength"] == size
    s3.delete_object(Bucket=bucket, Key="source")
    s3.delete_object(Bucket=bucket, Key="five")
    for first in (0, 3 * len(PART) - 5, 512 * len(PART) - 7, size - 1005, size - 10):
        got = s3.get_object(Bucket=bucket, Key="copy", Range=f"bytes={first}-{first + 9}")["Body"].read()
        assert got == (PART + PART)[first % len(PART):][:10], first


def test_part_copy_with_checksums(s3, bucket):
    s3.put_object(Bucket=bucket, Key="from", Body=PART * 2)
    upload = start(s3, bucket, ChecksumAlgorithm="SHA256")
    parts = []
    for number, (first, last) in enumerate(((0, 5 * MIB - 1), (5 * MIB + 1, 5 * MIB + 9)), 1):
        reply = s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number,
                                    CopySource=f"{bucket}/from", CopySourceRange=f"bytes={first}-{last}")
        result = reply["CopyPartResult"]
        piece = (PART * 2)[first:last + 1]
        assert result["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(piece).digest()).decode()
        assert result["ETag"] == f'"{hashlib.md5(piece).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": result["ETag"], "ChecksumSHA256": result["ChecksumSHA256"]})
    assert complete(s3, bucket, upload, parts)["ChecksumType"] == "COMPOSITE"
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == PART + PART[1:10]


def test_part_copy_refusals(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="from", Body=b"0123456789")
    upload = start(s3, bucket)
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "PartNumber": 1, "CopySource": f"{bucket}/from"}
    for bad in ("bytes=0-10", "bytes=5-3", "bytes=2-", "0-1"):
        with refused(400, "InvalidArgument"):
            s3.upload_part_copy(**call, CopySourceRange=bad)
    with refused(412, "PreconditionFailed"):
        s3.upload_part_copy(**call, CopySourceIfMatch='"x"')
    with refused(404, "NoSuchKey"):
        s3.upload_part_copy(**{**call, "CopySource": f"{bucket}/none"})


def test_managed_copy_of_a_large_object(s3, bucket):
    from boto3.s3.transfer import TransferConfig
    body = PART * 4 + b"end"
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=5 * MIB)
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    s3.copy({"Bucket": bucket, "Key": "from"}, bucket, "to", Config=config)
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == body


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "SHA1", "SHA256"])
def test_a_composite_part_needs_its_checksum(raw, s3, bucket, algorithm):
    upload = start(s3, bucket, ChecksumAlgorithm=algorithm)
    reply = raw.send("PUT", f"/{bucket}/k?partNumber=1&uploadId={upload}", body=b"part")
    assert (reply.status, reply.code) == (400, "InvalidRequest")
    assert reply.element("Message") == (f"Checksum Type mismatch occurred, expected checksum Type: "
                                        f"{algorithm.lower()}, actual checksum Type: null")
    if algorithm.startswith("CRC"):
        upload = start(s3, bucket, ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")
        assert raw.send("PUT", f"/{bucket}/k?partNumber=1&uploadId={upload}", body=b"part").status == 200


def test_checksums_of_listed_parts(s3, bucket, refused):
    upload = start(s3, bucket, ChecksumAlgorithm="SHA256")
    put = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"part", ChecksumAlgorithm="SHA256")
    right = {"PartNumber": 1, "ETag": put["ETag"], "ChecksumSHA256": put["ChecksumSHA256"]}
    other = {"PartNumber": 1, "ETag": put["ETag"], "ChecksumCRC32": "AAAAAA=="}
    for listed, code in [({**right, "ChecksumSHA256": "bad"}, "InvalidArgument"), ({**right, **other}, "InvalidArgument"),
                         (other, "BadDigest"), ({**right, "PartNumber": -1}, "InvalidArgument")]:
        with refused(400, code):
            complete(s3, bucket, upload, [listed])
    whole = base64.b64encode(hashlib.sha256(base64.b64decode(put["ChecksumSHA256"])).digest()).decode()
    for tail, code in [("-x", "InvalidRequest"), ("-", "InvalidRequest"), ("-1-1", "InvalidRequest"), ("-2", "BadDigest")]:
        with refused(400, code):
            complete(s3, bucket, upload, [right], ChecksumSHA256=whole + tail)
    assert complete(s3, bucket, upload, [right], ChecksumSHA256=whole + "-1")["ChecksumSHA256"] == whole + "-1"
