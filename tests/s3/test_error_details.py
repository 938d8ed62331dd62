"""What AWS's error documents say besides the code: programs and people compare these values with their own."""
import base64
import hashlib
import json

import pytest
from botocore.exceptions import ClientError
from callers import anonymous

WRONG_MD5 = "XrY7u+Ae7tCTyyK7j1rNww=="
EVERYBODY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*"}]}


def code_of(call, **parameters):
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.fixture
def nobody(server):
    return anonymous(server)


@pytest.fixture
def opened(s3, bucket):
    """Everybody may do everything."""
    resource = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(
        {**EVERYBODY, "Statement": [{**EVERYBODY["Statement"][0], "Resource": resource}]}))
    return bucket


def test_digests_of_a_body_that_is_another(raw, bucket):
    """Whoever looks for the byte that changed needs both sides."""
    body = b"dummy data"
    reply = raw.send("PUT", f"/{bucket}/k", [("content-md5", WRONG_MD5)], body)
    assert (reply.status, reply.code) == (400, "BadDigest")
    assert reply.element("CalculatedDigest") == base64.b64encode(hashlib.md5(body).digest()).decode()
    assert reply.element("ExpectedDigest") == base64.b64decode(WRONG_MD5).hex()
    reply = raw.send("PUT", f"/{bucket}/k", [("content-md5", "invalid_md5")], body)
    assert (reply.code, reply.element("Content-MD5")) == ("InvalidDigest", "invalid_md5")


@pytest.mark.parametrize("query,name,message", [
    ("max-keys=-1", "maxKeys", "Argument maxKeys must be an integer between 0 and 2147483647"),
    ("list-type=2&max-keys=-01", "maxKeys", "Argument maxKeys must be an integer between 0 and 2147483647"),
    ("max-keys=abc", "max-keys", "Provided max-keys not an integer or within integer range"),
    ("max-keys=2147483648", "max-keys", "Provided max-keys not an integer or within integer range"),
    ("max-keys=-2147483649", "max-keys", "Provided max-keys not an integer or within integer range"),
    ("versions&max-keys=-1", "maxKeys", "max-keys cannot be negative"),
    ("uploads&max-uploads=-3", "max-uploads", "Argument max-uploads must be an integer between 0 and 2147483647"),
    ("uploads&max-uploads=5x", "max-uploads", "Provided max-uploads not an integer or within integer range")])
def test_limits_of_lists(raw, bucket, query, name, message):
    """AWS tells a number out of range from what is no number, and names the argument."""
    reply = raw.send("GET", f"/{bucket}?{query}")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
    assert (reply.element("ArgumentName"), reply.element("Message")) == (name, message)


@pytest.mark.parametrize("number", ["", "0", "-0", "007", "2147483647"])
def test_numbers_that_are_numbers(raw, bucket, number):
    """By value, as AWS reads them: a client's leading zeros are no fault."""
    assert raw.send("GET", f"/{bucket}?max-keys={number}").status == 200


def test_part_number_without_upload(raw, bucket):
    """Such a PUT means a part: it must not become the object."""
    reply = raw.send("PUT", f"/{bucket}/k?partNumber=1", [], b"x")
    assert (reply.code, reply.element("ArgumentValue")) == ("InvalidArgument", "partNumber")
    reply = raw.send("PUT", f"/{bucket}/k?uploadId=x", [], b"x")
    assert (reply.status, reply.element("ResourceType")) == (405, "UPLOAD")


def test_bucket_with_versions_is_not_empty(s3, versioned):
    """A listing shows nothing: only the message says what is in the way."""
    s3.put_object(Bucket=versioned, Key="k", Body=b"x")
    s3.delete_object(Bucket=versioned, Key="k")
    code, message = code_of(s3.delete_bucket, Bucket=versioned)
    assert code == "BucketNotEmpty" and message.endswith("You must delete all versions in the bucket.")


def test_encoded_separator_of_a_version(raw, s3, versioned):
    """Clients encode the whole header: the version must not become part of the key."""
    first = s3.put_object(Bucket=versioned, Key="a", Body=b"one")["VersionId"]
    s3.put_object(Bucket=versioned, Key="a", Body=b"two")
    source = f"{versioned}%2Fa%3FversionId%3D"
    assert raw.send("PUT", f"/{versioned}/b", [("x-amz-copy-source", source + first)]).status == 200
    assert s3.get_object(Bucket=versioned, Key="b")["Body"].read() == b"one"
    reply = raw.send("PUT", f"/{versioned}/b", [("x-amz-copy-source", source + "..%2fx")])
    assert (reply.status, reply.code) == (400, "InvalidArgument")


@pytest.mark.parametrize("key", ["a?versionId=null", "a?versionId=", "q?versionId=b?versionId=c"])
def test_keys_that_look_like_versions(s3, versioned, key):
    """SDKs encode the key and leave the separator: such a key must be copied, and not the bytes of another."""
    s3.put_object(Bucket=versioned, Key="a", Body=b"another")
    version = s3.put_object(Bucket=versioned, Key=key, Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key=key, Body=b"new")
    s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": key})
    assert s3.get_object(Bucket=versioned, Key="copy")["Body"].read() == b"new"
    s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": key, "VersionId": version})
    assert s3.get_object(Bucket=versioned, Key="copy")["Body"].read() == b"old"


def test_what_no_policy_gives_to_everybody(s3, nobody, opened):
    """An open bucket stays its owner's: whoever has no name cannot turn it, or leave uploads in it."""
    s3.put_object(Bucket=opened, Key="k", Body=b"x")
    assert nobody.get_object(Bucket=opened, Key="k")["Body"].read() == b"x"
    for call, parameters, text in (
            (nobody.put_bucket_acl, {"ACL": "public-read"}, "Anonymous users cannot invoke this API."),
            (nobody.put_object_acl, {"Key": "k", "ACL": "public-read"}, "Anonymous users cannot invoke this API."),
            (nobody.create_multipart_upload, {"Key": "u"}, "Anonymous users cannot initiate multipart uploads."),
            (nobody.copy_object, {"Key": "c", "CopySource": f"{opened}/k"}, "Anonymous users cannot copy objects."),
            (nobody.delete_bucket_ownership_controls, {}, "s3:PutBucketOwnershipControls does not support")):
        code, message = code_of(call, Bucket=opened, **parameters)
        assert code == "AccessDenied" and message.startswith(text)
    for call, parameters in ((nobody.get_bucket_policy, {}), (nobody.delete_bucket_policy, {}),
                             (nobody.put_bucket_policy, {"Policy": "{}"})):
        assert code_of(call, Bucket=opened, **parameters)[0] == "MethodNotAllowed"
    assert s3.get_bucket_policy(Bucket=opened)["Policy"]


def test_overrides_need_a_signature(s3, nobody, opened):
    """Else a link to somebody's object would make his server send what the link's author likes."""
    s3.put_object(Bucket=opened, Key="k", Body=b"x", ContentType="text/plain")
    code, message = code_of(nobody.get_object, Bucket=opened, Key="k", ResponseContentType="text/html")
    assert code == "InvalidRequest" and "anonymous GET requests" in message
    assert s3.get_object(Bucket=opened, Key="k", ResponseContentType="text/html")["ContentType"] == "text/html"


def test_grantee_of_an_unknown_type(raw, s3, bucket):
    """What it says would be guessed."""
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    document = ('<AccessControlPolicy><Owner><ID>root</ID></Owner><AccessControlList><Grant><Grantee '
                'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="{}"><ID>root</ID></Grantee>'
                '<Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>')
    reply = raw.send("PUT", f"/{bucket}?acl", [], document.format("Whoever").encode())
    assert (reply.status, reply.code) == (400, "MalformedACLError")
    assert raw.send("PUT", f"/{bucket}?acl", [], document.format("CanonicalUser").encode()).status == 200


def test_lifecycle_date_before_what_is_not_there(s3, bucket):
    """The client's own mistake comes first: 501 would send him looking at the store."""
    rule = {"ID": "a", "Prefix": "", "Status": "Enabled",
            "Transitions": [{"Date": "1970-08-23T00:55:27Z", "StorageClass": "GLACIER"}]}
    assert code_of(s3.put_bucket_lifecycle_configuration, Bucket=bucket,
                   LifecycleConfiguration={"Rules": [rule]})[0] == "InvalidArgument"
    rule["Transitions"][0]["Date"] = "2030-01-01T00:00:00Z"
    assert code_of(s3.put_bucket_lifecycle_configuration, Bucket=bucket,
                   LifecycleConfiguration={"Rules": [rule]})[0] == "NotImplemented"


def test_checksum_of_a_part_nobody_asked_for(s3, bucket):
    """CRC64NVME of an upload without an algorithm is the object's alone; a client would compare the part's with its own."""
    for algorithm in (None, "SHA256"):
        asked = {"ChecksumAlgorithm": algorithm} if algorithm else {}
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k", **asked)["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x", **asked)
        done = {"ETag": part["ETag"], "PartNumber": 1,
                **({"ChecksumSHA256": part["ChecksumSHA256"]} if algorithm else {})}
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [done]})
        head = s3.head_object(Bucket=bucket, Key="k", PartNumber=1, ChecksumMode="ENABLED")
        found = {name for name in head if name.startswith("Checksum") and name != "ChecksumType"}
        assert found == ({"ChecksumSHA256"} if algorithm else set())
