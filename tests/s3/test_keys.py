"""A key is bytes, not a path."""
import pytest
from raw import path

KEYS = ["a", "a/", "/a", "//a", "a//b", "a/./b", "a/../b", ".", "..", "./", "../x", "a b", " a", "a ", "a+b", "a%2Fb",
        "%61", "é", "e\u0301", "日本語", "😀", "x=y&z", "q?r#s", "a:b;c,d", "\\", "'\"<>&", "\x01\x1f", "\x7f",
        "a\tb\nc", "~-_.!*'()@$", "file", "file/2", "k" * 1024, "語" * 341, "x" * 256 + "/y", "\ufffd", "\U0001d655"]


@pytest.mark.parametrize("key", KEYS, ids=[f"{i}" for i in range(len(KEYS))])
def test_round_trip(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [found["Key"] for found in listed] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_all_together(s3, bucket):
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    listed = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(set(KEYS), key=lambda key: key.encode())
    for key in KEYS:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()


def test_order_is_that_of_bytes(s3, bucket):
    keys = ["Z", "\uff3a", "\U0001d655", "\ue000", "\U00010000", "a", "a/", "a-", "a0"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    listed = [found["Key"] for found in s3.list_objects(Bucket=bucket)["Contents"]]
    assert listed == sorted(keys, key=lambda key: key.encode())


@pytest.mark.parametrize("key", ["k" * 1025, "語" * 342])
def test_too_long(s3, bucket, refused, key):
    with refused(400, "KeyTooLongError"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")


@pytest.mark.parametrize("target", ["%ff", "%c0%af", "%ed%a0%80"])
def test_not_utf8(raw, bucket, target):
    assert raw.send("PUT", f"/{bucket}/{target.upper()}", body=b"x").code == "InvalidURI"


@pytest.mark.parametrize("style", ["path", "virtual"])
@pytest.mark.parametrize("key", ["/a", "a//b", "a/./b", "a b", "a+b", "a%2Fb", "é", "😀", "x=y", "%61.txt"])
def test_signatures_of_odd_keys(raw, s3, bucket, key, style):
    host = None if style == "path" else f"{bucket}.s3.localhost:{raw.server.port}"
    target = path(bucket, key) if style == "path" else path(key)
    assert raw.send("PUT", target, body=b"odd", host=host).status == 200
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"odd"


def test_styles_meet(server, s3, bucket, virtual_names):
    virtual = server.client(endpoint=f"http://s3.localhost:{server.port}", s3={"addressing_style": "virtual"})
    virtual.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    assert virtual.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
