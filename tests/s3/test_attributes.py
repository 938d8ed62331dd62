"""GetObjectAttributes and RestoreObject."""
import base64
import hashlib

import pytest

ALL = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]


def attributes(s3, bucket, names=ALL, **more):
    return s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=names, **more)


@pytest.fixture
def parts(s3, bucket):
    """An object of three parts with SHA256 each."""
    where = {"Bucket": bucket, "Key": "k"}
    where["UploadId"] = s3.create_multipart_upload(ChecksumAlgorithm="SHA256", **where)["UploadId"]
    bodies = [b"a" * (5 << 20), b"b" * (5 << 20), b"c"]
    done = [{"PartNumber": i, "ETag": made["ETag"], "ChecksumSHA256": made["ChecksumSHA256"]}
            for i, made in ((i, s3.upload_part(PartNumber=i, Body=body, ChecksumAlgorithm="SHA256", **where))
                            for i, body in enumerate(bodies, 1))]
    s3.complete_multipart_upload(MultipartUpload={"Parts": done}, **where)
    return [hashlib.sha256(body).digest() for body in bodies]


def test_of_one_put(s3, bucket):
    """What was asked comes, nothing else; the ETag has no quotes here."""
    made = s3.put_object(Bucket=bucket, Key="k", Body=b"12345", ChecksumAlgorithm="SHA256")
    got = attributes(s3, bucket)
    assert got["ETag"] == made["ETag"].strip('"') and got["ObjectSize"] == 5 and got["StorageClass"] == "STANDARD"
    assert got["Checksum"] == {"ChecksumSHA256": made["ChecksumSHA256"], "ChecksumType": "FULL_OBJECT"}
    assert "ObjectParts" not in got and "VersionId" not in got
    assert got["LastModified"] == s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    got = attributes(s3, bucket, ["ObjectSize"])
    assert got["ObjectSize"] == 5 and not {"ETag", "Checksum", "StorageClass"} & set(got)


def test_of_parts(s3, bucket, parts):
    """Tools that verify an upload compare each part's checksum; the object's has no "-3" here."""
    got = attributes(s3, bucket)
    whole = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode()
    assert got["Checksum"] == {"ChecksumSHA256": whole, "ChecksumType": "COMPOSITE"} and got["ETag"].endswith("-3")
    assert got["ObjectParts"]["TotalPartsCount"] == 3 and got["ObjectParts"]["IsTruncated"] is False
    assert got["ObjectParts"]["Parts"] == [
        {"PartNumber": i, "Size": size, "ChecksumSHA256": base64.b64encode(digest).decode()}
        for i, size, digest in zip((1, 2, 3), (5 << 20, 5 << 20, 1), parts)]


def test_pages_of_parts(s3, bucket, parts):
    """10,000 parts come in pages."""
    first = attributes(s3, bucket, ["ObjectParts"], MaxParts=2)["ObjectParts"]
    assert [part["PartNumber"] for part in first["Parts"]] == [1, 2] and first["IsTruncated"] is True
    assert (first["MaxParts"], first["NextPartNumberMarker"], first["PartNumberMarker"]) == (2, 2, 0)
    second = attributes(s3, bucket, ["ObjectParts"], MaxParts=2, PartNumberMarker=2)["ObjectParts"]
    assert [part["PartNumber"] for part in second["Parts"]] == [3] and second["IsTruncated"] is False
    assert attributes(s3, bucket, ["ObjectParts"], PartNumberMarker=9)["ObjectParts"].get("Parts", []) == []


def test_parts_of_a_full_object_checksum(s3, bucket):
    """Without an algorithm the store sums the object itself; its parts are listed all the same."""
    where = {"Bucket": bucket, "Key": "k"}
    where["UploadId"] = s3.create_multipart_upload(**where)["UploadId"]
    etag = s3.upload_part(PartNumber=1, Body=b"1", **where)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **where)
    got = attributes(s3, bucket)["ObjectParts"]
    assert got["TotalPartsCount"] == 1 and [(part["PartNumber"], part["Size"]) for part in got["Parts"]] == [(1, 1)]


def test_of_versions(s3, versioned, refused):
    """A version's attributes are its own; markers have none."""
    old = s3.put_object(Bucket=versioned, Key="k", Body=b"old")["VersionId"]
    new = s3.put_object(Bucket=versioned, Key="k", Body=b"newer")["VersionId"]
    assert (attributes(s3, versioned)["VersionId"], attributes(s3, versioned)["ObjectSize"]) == (new, 5)
    assert attributes(s3, versioned, VersionId=old)["ObjectSize"] == 3
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    with refused(404, "NoSuchKey") as refusal:
        attributes(s3, versioned)
    assert refusal.response["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    with refused(405, "MethodNotAllowed"):
        attributes(s3, versioned, VersionId=marker)


@pytest.mark.parametrize("headers,code", [
    ([], "InvalidRequest"), ([("x-amz-object-attributes", "Name")], "InvalidArgument"),
    ([("x-amz-object-attributes", "ETag,")], None), ([("x-amz-object-attributes", "ETag"), ("x-amz-max-parts", "x")],
                                                     "InvalidArgument"),
    ([("x-amz-object-attributes", "ETag"), ("x-amz-part-number-marker", "-1")], "InvalidArgument")])
def test_bad_headers(s3, raw, bucket, headers, code):
    """A misspelt attribute must not look like one that the object does not have."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert raw.send("GET", f"/{bucket}/k?attributes", headers).code == code


def test_restore(s3, bucket, refused):
    """Nothing is archived: AWS's answer for an object that is at hand."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    with refused(403, "InvalidObjectState"):
        s3.restore_object(Bucket=bucket, Key="k", RestoreRequest={"Days": 1})
    with refused(404, "NoSuchKey"):
        s3.restore_object(Bucket=bucket, Key="none", RestoreRequest={"Days": 1})
