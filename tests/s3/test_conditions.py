"""Ranges and conditional requests."""
import threading
from datetime import timedelta

import pytest

TEN = b"0123456789"


@pytest.mark.parametrize("body,header,status,want", [
    (TEN, "bytes=0-0", 206, b"0"), (TEN, "bytes=9-", 206, b"9"), (TEN, "bytes=10-", 416, None),
    (TEN, "bytes=5-3", 200, TEN), (TEN, "bytes=-0", 416, None), (TEN, "bytes=-4", 206, b"6789"),
    (TEN, "bytes=-400", 206, TEN), (TEN, "bytes=0-400", 206, TEN), (TEN, "bytes=1-2,4-5", 200, TEN),
    (TEN, "bytes=x", 200, TEN), (TEN, "lines=1-2", 200, TEN), (b"", "bytes=0-0", 416, None),
    (b"", "bytes=-4", 200, b""), (b"", "bytes=0-", 416, None)])
def test_ranges(raw, bucket, body, header, status, want):
    raw.send("PUT", f"/{bucket}/k", body=body)
    reply = raw.send("GET", f"/{bucket}/k", [("Range", header)])
    assert reply.status == status
    if status == 416:
        assert reply.code == "InvalidRange" and reply.headers["content-range"] == f"bytes */{len(body)}"
    else:
        assert reply.body == want
    if status == 206:
        at = body.index(want)
        assert reply.headers["content-range"] == f"bytes {at}-{at + len(want) - 1}/{len(body)}"
    assert raw.send("HEAD", f"/{bucket}/k", [("Range", header)]).status == status


def test_if_range(raw, bucket):
    etag = raw.send("PUT", f"/{bucket}/k", body=TEN).headers["etag"]
    for value, status in ((etag, 206), ('"x"', 200)):
        assert raw.send("GET", f"/{bucket}/k", [("Range", "bytes=1-2"), ("If-Range", value)]).status == status


def test_reads(s3, bucket, refused):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=TEN, CacheControl="max-age=5")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = timedelta(hours=1)
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag.strip('"'))["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"x"')["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=when - hour)["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=when)["ETag"] == etag
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag, IfUnmodifiedSince=when - hour)["ETag"] == etag
    with refused(412, "PreconditionFailed"):
        s3.get_object(Bucket=bucket, Key="k", IfMatch='"x"')
    with refused(412, "PreconditionFailed"):
        s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=when - hour)
    with refused(304, "304") as refusal:
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    headers = refusal.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["etag"] == etag and headers["cache-control"] == "max-age=5"
    with refused(304, "304"):
        s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=when)
    with refused(304, "304"):
        s3.head_object(Bucket=bucket, Key="k", IfNoneMatch=etag)
    with refused(412, "412"):
        s3.head_object(Bucket=bucket, Key="k", IfMatch='"x"')


def test_writes(s3, bucket, refused):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    with refused(412, "PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    second = s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=etag)["ETag"]
    with refused(412, "PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    with refused(404, "NoSuchKey"):
        s3.put_object(Bucket=bucket, Key="none", Body=b"3", IfMatch=etag)
    with refused(412, "PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfNoneMatch=second)
    with refused(412, "PreconditionFailed"):
        s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=second)
    s3.put_object(Bucket=bucket, Key="k", Body=b"4", IfNoneMatch="*")


def test_one_winner(s3, bucket):
    wins, losses = [], []

    def race(i):
        try:
            s3.put_object(Bucket=bucket, Key="lock", Body=str(i).encode() * (20000 if i % 2 else 1), IfNoneMatch="*")
            wins.append(i)
        except s3.exceptions.ClientError as error:
            losses.append(error.response["Error"]["Code"])

    threads = [threading.Thread(target=race, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(wins) == 1 and set(losses) == {"PreconditionFailed"} and len(losses) == 39
    assert s3.get_object(Bucket=bucket, Key="lock")["Body"].read()[:1] == str(wins[0])[:1].encode()


def test_compare_and_set_counter(s3, bucket):
    s3.put_object(Bucket=bucket, Key="n", Body=b"0")

    def add():
        for _ in range(5):
            while True:
                got = s3.get_object(Bucket=bucket, Key="n")
                value = int(got["Body"].read())
                try:
                    s3.put_object(Bucket=bucket, Key="n", Body=str(value + 1).encode(), IfMatch=got["ETag"])
                    break
                except s3.exceptions.ClientError as error:
                    assert error.response["Error"]["Code"] == "PreconditionFailed"

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert s3.get_object(Bucket=bucket, Key="n")["Body"].read() == b"30"
