"""Tags of objects: by header, by document, by version."""
import base64
import hashlib
from urllib.parse import quote

import pytest


def tags(s3, bucket, key="k", **more):
    return {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key=key, **more)["TagSet"]}


def put_tags(s3, bucket, wanted, key="k", **more):
    return s3.put_object_tagging(Bucket=bucket, Key=key, **more, Tagging={
        "TagSet": [{"Key": name, "Value": value} for name, value in wanted]})


def test_put_get_delete(s3, bucket, refused):
    """Lifecycle and cost tools write tags after the upload and must read the same back."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert tags(s3, bucket) == {} and "TagCount" not in s3.head_object(Bucket=bucket, Key="k")
    modified = s3.head_object(Bucket=bucket, Key="k")
    put_tags(s3, bucket, [("a", "1"), ("\u00e9", ""), ("x +-=._:/@", "y +-=._:/@")])
    assert tags(s3, bucket) == {"a": "1", "\u00e9": "", "x +-=._:/@": "y +-=._:/@"}
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "3"
    assert (head["LastModified"], head["ETag"]) == (modified["LastModified"], modified["ETag"])
    put_tags(s3, bucket, [("b", "2")])
    assert tags(s3, bucket) == {"b": "2"}
    reply = s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204 and tags(s3, bucket) == {}
    for call in (s3.get_object_tagging, s3.delete_object_tagging):
        with refused(404, "NoSuchKey"):
            call(Bucket=bucket, Key="none")
    with refused(404, "NoSuchKey"):
        put_tags(s3, bucket, [("a", "1")], "none")


@pytest.mark.parametrize("header,want", [
    ("a=1&b=2", {"a": "1", "b": "2"}), ("&a&", {"a": ""}), ("a=&b", {"a": "", "b": ""}), ("a%20b=c+d%2B", {"a b": "c d+"}),
    ("%C3%A9=%E4%BD%A0", {"\u00e9": "\u4f60"}), ("", {}), ("k==", {"k": "="})])
def test_header(s3, raw, bucket, header, want):
    """Uploads carry their tags in the same request, encoded like a query string."""
    assert raw.send("PUT", f"/{bucket}/k", [("x-amz-tagging", header)], b"1").status == 200
    assert tags(s3, bucket) == want


@pytest.mark.parametrize("header,code", [
    ("=", "InvalidArgument"), ("a%", "InvalidArgument"), ("a=1&a=2", "InvalidArgument"), ("a?=1", "InvalidTag"),
    ("a=1*", "InvalidTag"), ("aws:x=1", "InvalidTag"), ("%FF=1", "InvalidTag"), ("k" * 129 + "=1", "InvalidTag"),
    ("k=" + "v" * 257, "InvalidTag"), ("&".join(f"k{i}=1" for i in range(11)), "BadRequest")])
def test_bad_header(s3, raw, bucket, header, code):
    """A tag that cannot be kept refuses the upload: a rule that looks for it would never find it."""
    for more in ([], [("x-amz-copy-source", f"{bucket}/s"), ("x-amz-tagging-directive", "REPLACE")]):
        s3.put_object(Bucket=bucket, Key="s", Body=b"1")
        reply = raw.send("PUT", f"/{bucket}/k", [("x-amz-tagging", header), *more], b"" if more else b"1")
        assert (reply.status, reply.code) == (400, code)
    assert raw.send("POST", f"/{bucket}/k?uploads", [("x-amz-tagging", header)]).code == code
    assert raw.send("HEAD", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("wanted,code", [
    ([("k" * 129, "")], "InvalidTag"), ([("k", "v" * 257)], "InvalidTag"),
    ([("a", "1"), ("a", "2")], "InvalidTag"), ([("a!", "1")], "InvalidTag"), ([("a", "1;")], "InvalidTag"),
    ([("aws:a", "1")], "InvalidTag"), ([(f"k{i}", "1") for i in range(11)], "BadRequest")])
def test_bad_document(s3, bucket, refused, wanted, code):
    """A refused set leaves the old one."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="old=1")
    with refused(400, code):
        put_tags(s3, bucket, wanted)
    assert tags(s3, bucket) == {"old": "1"}


@pytest.mark.parametrize("body,code", [
    (b"", "MissingRequestBodyError"), (b"<Tagging/>", "MalformedXML"), (b"<Tagging>", "MalformedXML"),
    (b"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"),
    (b"<Tagging><TagSet><Tag><Key/><Value>v</Value></Tag></TagSet></Tagging>", "InvalidTag"),
    (b"<Tagging><TagSet><Other/></TagSet></Tagging>", "MalformedXML"), (b"<Tags><TagSet/></Tags>", "MalformedXML")])
def test_malformed(s3, raw, bucket, body, code):
    """What is not a tag set must not empty the tags."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="old=1")
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    reply = raw.send("PUT", f"/{bucket}/k?tagging", [("Content-MD5", digest)], body)
    assert (reply.status, reply.code) == (400, code) and tags(s3, bucket) == {"old": "1"}


def test_largest(s3, bucket):
    """Ten tags of the longest texts, in characters and not in bytes, go together with all metadata."""
    wanted = [(f"{i}" + "\u4f60" * 127, "\u597d" * 256) for i in range(10)]
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Metadata={"m": "x" * 2000})
    put_tags(s3, bucket, wanted)
    assert tags(s3, bucket) == dict(wanted)
    header = "&".join(f"{quote(name)}={quote(value)}" for name, value in wanted[:3])
    s3.put_object(Bucket=bucket, Key="h", Body=b"1", Tagging=header)
    assert tags(s3, bucket, "h") == dict(wanted[:3])


def test_of_a_version(s3, versioned, refused):
    """Each version has tags of its own, newest or not."""
    versions = [s3.put_object(Bucket=versioned, Key="k", Body=b"1", Tagging=f"n={i}")["VersionId"] for i in range(3)]
    assert [tags(s3, versioned, VersionId=version) for version in versions] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]
    reply = put_tags(s3, versioned, [("old", "1")], VersionId=versions[0])
    assert reply["VersionId"] == versions[0]
    put_tags(s3, versioned, [("new", "1")])
    assert s3.delete_object_tagging(Bucket=versioned, Key="k", VersionId=versions[1])["VersionId"] == versions[1]
    assert [tags(s3, versioned, VersionId=version) for version in versions] == [{"old": "1"}, {}, {"new": "1"}]
    assert s3.get_object_tagging(Bucket=versioned, Key="k")["VersionId"] == versions[2]
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    with refused(405, "MethodNotAllowed"):
        put_tags(s3, versioned, [("a", "1")], VersionId=marker)
    with refused(404, "NoSuchKey"):
        tags(s3, versioned)
    with refused(404, "NoSuchVersion"):
        put_tags(s3, versioned, [("a", "1")], VersionId="AAAAAAAAAAAAAAAA")
    with refused(400, "InvalidArgument"):
        tags(s3, versioned, VersionId="x")


def test_copy_directive(s3, bucket, refused):
    """COPY is the default; REPLACE takes the request's, also when that has none."""
    s3.put_object(Bucket=bucket, Key="s", Body=b"1", Tagging="a=1")
    source = {"Bucket": bucket, "Key": "s"}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source)
    assert tags(s3, bucket) == {"a": "1"}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"m": "1"})
    assert tags(s3, bucket) == {"a": "1"}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, Tagging="b=2", TaggingDirective="REPLACE")
    assert tags(s3, bucket) == {"b": "2"}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, TaggingDirective="REPLACE")
    assert tags(s3, bucket) == {}
    with refused(400, "InvalidArgument"):
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source, TaggingDirective="MERGE")


def test_multipart(s3, bucket):
    """Tags are given when an upload begins, and show when it is done."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", Tagging="a=1")["UploadId"]
    where = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    etag = s3.upload_part(PartNumber=1, Body=b"1", **where)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **where)
    assert tags(s3, bucket) == {"a": "1"}
