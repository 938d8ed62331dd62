"""Versions of objects: what is made, what is read, what a delete leaves behind."""
import io
import threading

import pytest

from raw import path


def put(s3, bucket, key="k", body=b"1", **more):
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **more)["VersionId"]


def read(s3, bucket, key="k", **more):
    return s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


def suspend(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})


def headers(reply):
    return reply["ResponseMetadata"]["HTTPHeaders"]


def test_unversioned_replies_name_no_version(s3, bucket):
    """Clients take the header for "this bucket keeps versions"."""
    for reply in (s3.put_object(Bucket=bucket, Key="k", Body=b"1"), s3.get_object(Bucket=bucket, Key="k"),
                  s3.head_object(Bucket=bucket, Key="k"), s3.delete_object(Bucket=bucket, Key="k")):
        assert "x-amz-version-id" not in headers(reply) and "x-amz-delete-marker" not in headers(reply)


@pytest.mark.parametrize("size", [0, 10, 100_000, 3_000_000])
def test_every_version_is_kept(s3, versioned, size):
    """Each body size has a way to the disks of its own; none may lose an older version."""
    bodies = {put(s3, versioned, body=bytes([i]) * size): bytes([i]) * size for i in range(4)}
    assert len(bodies) == 4
    for version, body in bodies.items():
        reply = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        assert reply["Body"].read() == body and reply["VersionId"] == version
    reply = s3.get_object(Bucket=versioned, Key="k")
    assert reply["VersionId"] == list(bodies)[-1] and reply["Body"].read() == list(bodies.values())[-1]
    assert s3.head_object(Bucket=versioned, Key="k", VersionId=list(bodies)[0])["ContentLength"] == size


def test_marker_hides_and_its_delete_shows_again(s3, versioned, refused):
    """Undelete is how people get back what a script removed."""
    first = put(s3, versioned, body=b"first")
    second = put(s3, versioned, body=b"second")
    gone = s3.delete_object(Bucket=versioned, Key="k")
    assert gone["DeleteMarker"] is True and gone["VersionId"] not in (first, second)
    with refused(404, "NoSuchKey") as refusal:
        s3.get_object(Bucket=versioned, Key="k")
    assert headers(refusal.response)["x-amz-delete-marker"] == "true"
    assert headers(refusal.response)["x-amz-version-id"] == gone["VersionId"]
    assert s3.list_objects_v2(Bucket=versioned)["KeyCount"] == 0
    assert read(s3, versioned, VersionId=first) == b"first"
    back = s3.delete_object(Bucket=versioned, Key="k", VersionId=gone["VersionId"])
    assert back["DeleteMarker"] is True and back["VersionId"] == gone["VersionId"]
    assert read(s3, versioned) == b"second"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_marker_by_its_id(s3, versioned, raw, method):
    """A marker is a version that can only be deleted; the reply says so in headers, for HEAD too."""
    put(s3, versioned)
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    reply = raw.send(method, f"/{versioned}/k?versionId={marker}")
    assert reply.status == 405 and reply.headers["x-amz-delete-marker"] == "true"
    assert reply.headers["allow"] == "DELETE" and "GMT" in reply.headers["last-modified"]
    assert reply.headers["x-amz-version-id"] == marker
    assert reply.code == ("MethodNotAllowed" if method == "GET" else None)


def test_each_delete_adds_a_marker(s3, versioned):
    """AWS does so, MinIO does not; tools that count markers see the difference."""
    markers = {s3.delete_object(Bucket=versioned, Key="never")["VersionId"] for _ in range(3)}
    found = s3.list_object_versions(Bucket=versioned)["DeleteMarkers"]
    assert {entry["VersionId"] for entry in found} == markers and len(markers) == 3
    assert [entry["IsLatest"] for entry in found] == [True, False, False]


def test_removing_the_newest_promotes_the_next(s3, versioned, refused):
    """The key must not vanish while older versions are there."""
    versions = [put(s3, versioned, body=str(i).encode()) for i in range(3)]
    reply = s3.delete_object(Bucket=versioned, Key="k", VersionId=versions[2])
    assert reply["VersionId"] == versions[2] and "DeleteMarker" not in reply
    assert read(s3, versioned) == b"1"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=versions[0])
    assert read(s3, versioned) == b"1"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=versions[1])
    with refused(404, "NoSuchKey") as refusal:
        s3.get_object(Bucket=versioned, Key="k")
    assert "x-amz-delete-marker" not in headers(refusal.response)


def test_null_version(s3, bucket):
    """What was there before versioning was enabled is the null version, and stays reachable."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.head_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    put(s3, bucket, body=b"new")
    assert read(s3, bucket, VersionId="null") == b"old" and read(s3, bucket) == b"new"
    reply = s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert reply["VersionId"] == "null"
    assert [entry["VersionId"] != "null" for entry in s3.list_object_versions(Bucket=bucket)["Versions"]] == [True]


def test_suspended_replaces_only_the_null_version(s3, versioned, refused):
    """Suspending must not lose the versions that are there."""
    kept = put(s3, versioned, body=b"kept")
    suspend(s3, versioned)
    for body in (b"a", b"b"):  # AWS names the null version in replies of reads only
        assert "VersionId" not in s3.put_object(Bucket=versioned, Key="k", Body=body)
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == "null"
    assert read(s3, versioned) == b"b" and read(s3, versioned, VersionId="null") == b"b"
    assert len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 2
    gone = s3.delete_object(Bucket=versioned, Key="k")
    assert gone["DeleteMarker"] is True and gone["VersionId"] == "null"
    listed = s3.list_object_versions(Bucket=versioned)
    assert [entry["VersionId"] for entry in listed["Versions"]] == [kept]
    assert [entry["VersionId"] for entry in listed["DeleteMarkers"]] == ["null"]
    with refused(405, "MethodNotAllowed"):
        s3.get_object(Bucket=versioned, Key="k", VersionId="null")
    s3.delete_object(Bucket=versioned, Key="k", VersionId="null")
    assert read(s3, versioned) == b"kept"


@pytest.mark.parametrize("text,status,code", [
    ("", 400, "InvalidArgument"), ("nonsense", 400, "InvalidArgument"), ("../../etc", 400, "InvalidArgument"),
    ("x" * 2000, 400, "InvalidArgument"), ("AAAAAAAAAAAAAAAA", 404, "NoSuchVersion"), ("null", 404, "NoSuchVersion"),
    ("L4kqtJlcpXroDTDmpUMLUo", 404, "NoSuchVersion"), ("invalid_version_id", 400, "InvalidArgument"),
    ("5e1cbd0f-0a86-4bd8-a7b1-4ee91a4a3c0c", 404, "NoSuchVersion")])
def test_version_ids_that_are_not_there(s3, versioned, raw, text, status, code):
    """An id that is not ours must not be taken for "no such version": clients retry that one elsewhere."""
    put(s3, versioned)
    reply = raw.send("GET", path(versioned, "k") + f"?versionId={text.replace('/', '%2F')}")
    assert (reply.status, reply.code) == (status, code)
    if status == 400:
        assert reply.element("ArgumentName") == "versionId"
    assert raw.send("HEAD", path(versioned, "k") + f"?versionId={text.replace('/', '%2F')}").status == status


def test_delete_of_an_unknown_version_is_done(s3, versioned):
    """A repeated delete whose first answer got lost is no error."""
    version = put(s3, versioned)
    for _ in range(2):
        assert s3.delete_object(Bucket=versioned, Key="k", VersionId=version)["VersionId"] == version


def test_put_takes_no_version(versioned, raw):
    """An upload cannot name its version; one that does is not meant as it would be done."""
    assert raw.send("PUT", f"/{versioned}/k?versionId=null", body=b"1").code == "InvalidArgument"


def test_copy_of_a_version(s3, versioned, refused):
    """Restoring an old version is a copy of it onto its key."""
    old = put(s3, versioned, body=b"old" * 10_000, Metadata={"a": "1"})
    put(s3, versioned, body=b"new")
    source = {"Bucket": versioned, "Key": "k", "VersionId": old}
    reply = s3.copy_object(Bucket=versioned, Key="k", CopySource=source)
    assert reply["CopySourceVersionId"] == old and reply["VersionId"] not in ("null", old)
    assert read(s3, versioned) == b"old" * 10_000 and len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 3
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    with refused(400, "InvalidRequest"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={**source, "VersionId": marker})
    with refused(404, "NoSuchKey"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k"})
    with refused(404, "NoSuchVersion"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={**source, "VersionId": "AAAAAAAAAAAAAAAA"})
    with refused(400, "InvalidArgument"):
        s3.copy_object(Bucket=versioned, Key="c", CopySource={**source, "VersionId": "x"})


def test_copies_outlive_the_version_they_share(s3, versioned):
    """Copies share bytes with their source: deleting it must not take them along."""
    body = bytes(range(256)) * 4000
    old = put(s3, versioned, body=body)
    s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": "k", "VersionId": old})
    s3.delete_object(Bucket=versioned, Key="k", VersionId=old)
    assert read(s3, versioned, "copy") == body


def test_multipart_of_versions(s3, versioned):
    """Complete makes a version, and a part may be copied from an old one."""
    part = b"x" * (5 << 20)
    old = put(s3, versioned, body=part)
    put(s3, versioned, body=b"new")
    upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
    where = {"Bucket": versioned, "Key": "k", "UploadId": upload}
    copied = s3.upload_part_copy(PartNumber=1, CopySource={"Bucket": versioned, "Key": "k", "VersionId": old}, **where)
    assert copied["CopySourceVersionId"] == old
    second = s3.upload_part(PartNumber=2, Body=b"end", **where)["ETag"]
    done = s3.complete_multipart_upload(MultipartUpload={"Parts": [
        {"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}, {"PartNumber": 2, "ETag": second}]}, **where)
    s3.delete_object(Bucket=versioned, Key="k", VersionId=old)
    assert read(s3, versioned, VersionId=done["VersionId"]) == part + b"end"
    assert s3.get_object(Bucket=versioned, Key="k", PartNumber=2)["Body"].read() == b"end"


def test_delete_objects_by_version(s3, versioned):
    """Bulk tools tell versions from markers by what comes back for each key."""
    first, second = put(s3, versioned), put(s3, versioned, body=b"2")
    made = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k"}, {"Key": "none"}]})["Deleted"]
    assert [entry["Key"] for entry in made] == ["k", "none"] and all(entry["DeleteMarker"] for entry in made)
    assert all("VersionId" not in entry and entry["DeleteMarkerVersionId"] for entry in made)
    marker = made[0]["DeleteMarkerVersionId"]
    wanted = [{"Key": "k", "VersionId": first}, {"Key": "k", "VersionId": marker},
              {"Key": "k", "VersionId": "AAAAAAAAAAAAAAAA"}, {"Key": "k", "VersionId": "bad"}]
    reply = s3.delete_objects(Bucket=versioned, Delete={"Objects": wanted})
    assert [(entry["VersionId"], entry.get("DeleteMarker"), entry.get("DeleteMarkerVersionId"))
            for entry in reply["Deleted"]] == [(first, None, None), (marker, True, marker),
                                               ("AAAAAAAAAAAAAAAA", None, None)]
    assert [(entry["VersionId"], entry["Code"]) for entry in reply["Errors"]] == [("bad", "NoSuchVersion")]
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == second


def test_same_key_twice_in_one_bulk_delete(s3, versioned):
    """Two markers of one command must not be one: each has an id of its own."""
    put(s3, versioned)
    made = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k"}, {"Key": "k"}]})["Deleted"]
    assert len({entry["DeleteMarkerVersionId"] for entry in made}) == 2
    assert len(s3.list_object_versions(Bucket=versioned)["DeleteMarkers"]) == 2


def test_conditions_see_the_newest_version(s3, versioned, refused):
    """Compare-and-set on a versioned bucket: a marker counts as absent."""
    etag = s3.put_object(Bucket=versioned, Key="k", Body=b"1")["ETag"]
    with refused(412, "PreconditionFailed"):
        s3.put_object(Bucket=versioned, Key="k", Body=b"2", IfNoneMatch="*")
    s3.put_object(Bucket=versioned, Key="k", Body=b"2", IfMatch=etag)
    s3.delete_object(Bucket=versioned, Key="k")
    with refused(404, "NoSuchKey"):
        s3.put_object(Bucket=versioned, Key="k", Body=b"3", IfMatch=etag)
    with refused(404, "NoSuchKey"):
        s3.delete_object(Bucket=versioned, Key="k", IfMatch="*")
    s3.put_object(Bucket=versioned, Key="k", Body=b"3", IfNoneMatch="*")
    assert read(s3, versioned) == b"3"


def test_conditions_of_a_copys_destination(s3, versioned, refused):
    """A copy can create or compare-and-set like a PUT."""
    etag = s3.put_object(Bucket=versioned, Key="s", Body=b"1")["ETag"]
    source = {"Bucket": versioned, "Key": "s"}
    s3.copy_object(Bucket=versioned, Key="d", CopySource=source, IfNoneMatch="*")
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=versioned, Key="d", CopySource=source, IfNoneMatch="*")
    s3.copy_object(Bucket=versioned, Key="d", CopySource=source, IfMatch=etag)
    with refused(412, "PreconditionFailed"):
        s3.copy_object(Bucket=versioned, Key="d", CopySource=source, IfMatch='"x"')
    with refused(404, "NoSuchKey"):
        s3.copy_object(Bucket=versioned, Key="none", CopySource=source, IfMatch=etag)


def test_condition_on_a_version_id(s3, versioned, raw):
    """x-amz-if-match-version-id is ours: compare-and-set without trusting that ETags differ."""
    first = put(s3, versioned)
    second = put(s3, versioned)
    for version, status in ((first, 412), (second, 200), ("x", 400)):
        assert raw.send("PUT", f"/{versioned}/k", [("x-amz-if-match-version-id", version)], b"1").status == status
    newest = s3.head_object(Bucket=versioned, Key="k")["VersionId"]
    assert raw.send("DELETE", f"/{versioned}/k", [("x-amz-if-match-version-id", second)]).status == 412
    assert raw.send("DELETE", f"/{versioned}/k", [("x-amz-if-match-version-id", newest)]).status == 204


def test_condition_of_a_named_versions_delete(s3, versioned, raw):
    """A condition beside a version id speaks of that version."""
    old = s3.put_object(Bucket=versioned, Key="k", Body=b"1")
    put(s3, versioned, body=b"2")
    target = f"/{versioned}/k?versionId={old['VersionId']}"
    assert raw.send("DELETE", target, [("If-Match", '"0123456789abcdef0123456789abcdef"')]).status == 412
    assert raw.send("DELETE", target, [("If-Match", old["ETag"])]).status == 204


def test_delete_bucket_needs_all_versions_gone(s3, versioned, refused):
    """A bucket that shows no keys may still hold all the data."""
    put(s3, versioned)
    s3.delete_object(Bucket=versioned, Key="k")
    with refused(409, "BucketNotEmpty"):
        s3.delete_bucket(Bucket=versioned)


def test_not_modified_names_the_version(s3, versioned, raw):
    """A cache that revalidates learns which version it holds."""
    made = s3.put_object(Bucket=versioned, Key="k", Body=b"1")
    reply = raw.send("GET", f"/{versioned}/k", [("If-None-Match", made["ETag"])])
    assert reply.status == 304 and reply.headers["x-amz-version-id"] == made["VersionId"]


def test_parallel_writers_lose_nothing(s3, versioned):
    """Every answered PUT is a version of its own."""
    made = []
    threads = [threading.Thread(target=lambda i=i: made.append((put(s3, versioned, body=str(i).encode()), i)))
               for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({version for version, _ in made}) == 30
    for version, i in made:
        assert read(s3, versioned, VersionId=version) == str(i).encode()
    newest = s3.list_object_versions(Bucket=versioned, MaxKeys=1)["Versions"][0]
    assert newest["IsLatest"] and newest["VersionId"] == s3.head_object(Bucket=versioned, Key="k")["VersionId"]


def test_upload_of_a_stream(s3, versioned):
    """What SDKs upload in parts is one version."""
    s3.upload_fileobj(io.BytesIO(b"y" * (20 << 20)), versioned, "big")
    assert len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 1
