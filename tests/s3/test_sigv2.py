"""Signature Version 2: URLs and forms unless --sigv2 off, headers only with --sigv2 on; else refused with a hint."""
import base64
import datetime
import hashlib
import hmac
import http.client
import json
from email.utils import formatdate

import boto3
import pytest
from botocore.config import Config

from kist import ACCESS_KEY, REGION, SECRET_KEY, Server

HINT = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."


@pytest.fixture(scope="module")
def server():
    with Server(arguments=["--sigv2", "on", "--domain", "s3.localhost"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


@pytest.fixture(scope="module")
def old(server):
    return client(server)


@pytest.fixture(scope="module")
def strict():
    with Server(arguments=["--sigv2", "off"]) as running:
        yield running


def client(server, style="path", secret=SECRET_KEY, endpoint=None):
    return boto3.client("s3", endpoint_url=endpoint or server.endpoint, aws_access_key_id=ACCESS_KEY,
                        aws_secret_access_key=secret, region_name=REGION,
                        config=Config(signature_version="s3", s3={"addressing_style": style},
                                      retries={"max_attempts": 1}))


def sign(text, secret=SECRET_KEY):
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()


def send(server, method, path, headers, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body=body, headers=headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def test_operations(old, s3, bucket):
    """What old clients do all day: sub-resources, metadata, parts, lists, overrides."""
    old.put_object(Bucket=bucket, Key="a b/ü", Body=b"bytes", Metadata={"b": "2", "a": "1"}, ContentType="text/x")
    got = old.get_object(Bucket=bucket, Key="a b/ü", ResponseContentDisposition="inline; filename=ü")
    assert got["Body"].read() == b"bytes" and got["Metadata"] == {"a": "1", "b": "2"}
    assert got["ContentDisposition"].startswith("inline")
    assert [o["Key"] for o in old.list_objects_v2(Bucket=bucket, Prefix="a ", MaxKeys=5)["Contents"]] == ["a b/ü"]
    upload = old.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    etag = old.upload_part(Bucket=bucket, Key="big", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    old.complete_multipart_upload(Bucket=bucket, Key="big", UploadId=upload,
                                  MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    old.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [
        {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]})
    assert old.get_bucket_cors(Bucket=bucket)["CORSRules"]
    old.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "big"}]})
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b/ü"]


def test_virtual_host(server, s3, bucket, virtual_names):
    """Version 2 signs the bucket of the host, not the host."""
    old = client(server, "virtual", endpoint=f"http://s3.localhost:{server.port}")
    old.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"bytes"


@pytest.mark.parametrize("headers,status,code", [
    ({"Authorization": "AWS HAHAHA"}, 400, "InvalidArgument"),
    ({"Authorization": "AWS :sig"}, 400, "InvalidArgument"),
    ({"Authorization": "AWS key:"}, 400, "InvalidArgument"),
    ({"Authorization": "AWS NOSUCHKEY:c2ln", "Date": "{now}"}, 403, "InvalidAccessKeyId"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln", "Date": "{now}"}, 403, "SignatureDoesNotMatch"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln"}, 403, "AccessDenied"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln", "Date": "Bad Date"}, 403, "AccessDenied"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln", "x-amz-date": "", "Date": "{now}"}, 403, "AccessDenied"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln", "Date": "Wed, 07 Jul 2010 21:53:04 GMT"}, 403, "RequestTimeTooSkewed"),
    ({"Authorization": f"AWS {ACCESS_KEY}:c2ln", "Date": "{now}", "x-amz-security-token": "t"}, 400, "InvalidToken"),
])
def test_bad_headers(server, bucket, headers, status, code):
    """Each mistake has AWS's code; none of them passes."""
    headers = {k: v.replace("{now}", formatdate(usegmt=True)) for k, v in headers.items()}
    got, text = send(server, "GET", f"/{bucket}", headers)
    assert (got, f"<Code>{code}</Code>" in text) == (status, True), text


def test_what_is_signed(server, s3, bucket):
    """Method, date, amz headers, path and sub-resources: a change of any of them is noticed."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    date = formatdate(usegmt=True)
    good = {"Date": date, "x-amz-meta-a": "1",
            "Authorization": f"AWS {ACCESS_KEY}:" + sign(f"GET\n\n\n{date}\nx-amz-meta-a:1\n/{bucket}/k?tagging")}
    assert send(server, "GET", f"/{bucket}/k?tagging", good)[0] == 200
    for method, path, more in (("DELETE", f"/{bucket}/k?tagging", {}), ("GET", f"/{bucket}/j?tagging", {}),
                               ("GET", f"/{bucket}/k", {}), ("GET", f"/{bucket}/k?tagging&versionId=x", {}),
                               ("GET", f"/{bucket}/k?tagging", {"x-amz-meta-a": "2"}),
                               ("GET", f"/{bucket}/k?tagging", {"x-amz-meta-b": "2"}),
                               ("GET", f"/{bucket}/k?tagging", {"Content-Type": "x"})):
        status, text = send(server, method, path, {**good, **more})
        assert (status, "SignatureDoesNotMatch" in text) == (403, True), (method, path, more)
    status, text = send(server, "GET", f"/{bucket}/k?tagging&attributes", good)
    assert status == 403 and "does not sign the parameter attributes" in text


def v2_form(bucket, secret=SECRET_KEY):
    expires = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    policy = base64.b64encode(json.dumps({"expiration": expires, "conditions": [
        {"bucket": bucket}, ["starts-with", "$key", ""]]}).encode()).decode()
    fields = {"key": "form", "AWSAccessKeyId": ACCESS_KEY, "policy": policy, "signature": sign(policy, secret)}
    body = "".join(f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items())
    body += '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nbytes\r\n--b--\r\n'
    return body.encode()


FORM = {"Content-Type": "multipart/form-data; boundary=b"}


def test_forms(server, s3, bucket):
    """Forms of version 2 are all over the web's old upload widgets."""
    assert send(server, "POST", f"/{bucket}", FORM, v2_form(bucket))[0] == 204
    assert s3.get_object(Bucket=bucket, Key="form")["Body"].read() == b"bytes"
    status, text = send(server, "POST", f"/{bucket}", FORM, v2_form(bucket, "another"))
    assert status == 403 and "SignatureDoesNotMatch" in text


def test_off_refuses_all_three(strict):
    """Version 2 does not sign the body, the host or most of the query: nobody gets it unasked."""
    new = strict.client(signature_version="s3v4")
    new.create_bucket(Bucket="strict-bucket")
    old = client(strict)
    url = old.generate_presigned_url("get_object", {"Bucket": "strict-bucket", "Key": "k"})
    date = formatdate(usegmt=True)
    header = {"Date": date, "Authorization": f"AWS {ACCESS_KEY}:" + sign(f"GET\n\n\n{date}\n/strict-bucket/k")}
    for answer in (send(strict, "GET", url[url.index("/", 8):], {}), send(strict, "GET", "/strict-bucket/k", header),
                   send(strict, "POST", "/strict-bucket", FORM, v2_form("strict-bucket"))):
        assert answer[0] == 400 and "<Code>InvalidRequest</Code>" in answer[1] and HINT in answer[1]


def test_what_is_signed_ahead_is_the_default():
    """boto3 makes version 2 URLs and forms unasked; old headers are for those who say so."""
    with Server() as usual:
        usual.client(signature_version="s3v4").create_bucket(Bucket="usual-bucket")
        usual.client(signature_version="s3v4").put_object(Bucket="usual-bucket", Key="k", Body=b"x")
        url = client(usual).generate_presigned_url("get_object", {"Bucket": "usual-bucket", "Key": "k"})
        assert send(usual, "GET", url[url.index("/", 8):], {}) == (200, "x")
        assert send(usual, "POST", "/usual-bucket", FORM, v2_form("usual-bucket"))[0] == 204
        assert send(usual, "POST", "/usual-bucket", FORM, v2_form("usual-bucket", "another"))[0] == 403
        date = formatdate(usegmt=True)
        header = {"Date": date, "Authorization": f"AWS {ACCESS_KEY}:" + sign(f"GET\n\n\n{date}\n/usual-bucket/k")}
        status, text = send(usual, "GET", "/usual-bucket/k", header)
        assert status == 400 and HINT in text
