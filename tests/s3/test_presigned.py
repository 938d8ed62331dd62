"""Presigned URLs as boto3 makes them without being told: version 2 for us-east-1 unless --sigv2 off, version 4 elsewhere."""
import time
import urllib.error
import urllib.parse
import urllib.request

import boto3
import pytest
from botocore.config import Config

from kist import ACCESS_KEY, SECRET_KEY, Server
from raw import Raw

KEYS = ["plain", "a b", "ü/ß", "x=y&z", "a+b", "%41"]


def fetch(url, method="GET", body=None, headers=None):
    # urllib adds a Content-Type of its own, which version 2 would have to sign.
    headers = headers or ({"Content-Type": ""} if body is not None else {})
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read(), reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


@pytest.fixture(scope="module")
def server():
    with Server(arguments=["--domain", "s3.localhost"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


@pytest.fixture(scope="module")
def raw(server):
    return Raw(server)


@pytest.fixture(params=["s3", "s3v4"])
def signer(request, server):
    return boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS_KEY,
                        aws_secret_access_key=SECRET_KEY, region_name="us-east-1",
                        config=Config(signature_version=request.param, s3={"addressing_style": "path"}))


def test_default_is_accepted(server, s3, bucket):
    client = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS_KEY,
                          aws_secret_access_key=SECRET_KEY, region_name="us-east-1")
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    assert fetch(url)[:2] == (200, b"bytes")


@pytest.mark.parametrize("key", KEYS)
def test_put_get_delete(signer, s3, bucket, key):
    url = signer.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key, "ContentType": "text/x",
                                                              "Metadata": {"a": "1", "b": "two"}})
    headers = {"Content-Type": "text/x", "x-amz-meta-b": "two", "x-amz-meta-a": "1"}
    assert fetch(url, "PUT", b"body", headers)[0] == 200
    assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {"a": "1", "b": "two"}
    assert fetch(url, "PUT", b"body", {**headers, "x-amz-meta-c": "3"})[0] == 403
    url = signer.generate_presigned_url("get_object", Params={
        "Bucket": bucket, "Key": key, "ResponseContentDisposition": 'attachment; filename="ü &.txt"',
        "ResponseContentType": "text/plain"})
    status, body, headers = fetch(url)
    assert (status, body) == (200, b"body") and headers["Content-Type"] == "text/plain"
    assert fetch(url, "DELETE")[0] == 403
    url = signer.generate_presigned_url("delete_object", Params={"Bucket": bucket, "Key": key})
    assert fetch(url, "DELETE")[0] == 204


def test_lists_and_parts(signer, s3, bucket):
    s3.put_object(Bucket=bucket, Key="p/k", Body=b"x")
    url = signer.generate_presigned_url("list_objects_v2", Params={"Bucket": bucket, "Prefix": "p/", "MaxKeys": 5})
    status, body, _ = fetch(url)
    assert status == 200 and b"<Key>p/k</Key>" in body
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    url = signer.generate_presigned_url("upload_part", Params={"Bucket": bucket, "Key": "m", "UploadId": upload,
                                                               "PartNumber": 1})
    assert fetch(url, "PUT", b"part")[0] == 200
    assert [p["Size"] for p in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]] == [4]


def test_refusals(signer, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    assert fetch(url.replace("/k?", "/j?"))[0] == 403
    assert fetch(url + "&response-content-type=text/html")[0] == 403
    assert fetch(url + "&uploads")[0] in (400, 403)
    assert fetch(url + "&attributes")[0] == 403
    assert fetch(url.replace(ACCESS_KEY, "NOSUCHKEY"))[0] == 403
    expired = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=1)
    end = time.monotonic() + 10
    while fetch(expired)[0] == 200:
        assert time.monotonic() < end
    assert b"expired" in fetch(expired)[1]


def test_virtual_host(server, s3, bucket, raw):
    """Version 2 signs the bucket of the host as part of the path."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    client = boto3.client("s3", endpoint_url=f"http://s3.localhost:{server.port}", aws_access_key_id=ACCESS_KEY,
                          aws_secret_access_key=SECRET_KEY, region_name="us-east-1",
                          config=Config(signature_version="s3", s3={"addressing_style": "virtual"}))
    url = urllib.parse.urlsplit(client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}))
    assert url.hostname == f"{bucket}.s3.localhost"
    status, body, _ = fetch(f"{server.endpoint}{url.path}?{url.query}", headers={"Host": url.netloc})
    assert (status, body) == (200, b"bytes")
