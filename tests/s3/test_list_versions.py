"""ListObjectVersions: order, pages, names."""
import re
import xml.etree.ElementTree as xml

import pytest

NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def fill(s3, bucket, keys, each=1):
    return {key: [s3.put_object(Bucket=bucket, Key=key, Body=str(i).encode())["VersionId"] for i in range(each)][::-1]
            for key in keys}


def entries(page):
    """(key, version, latest) in the order of a page's document; boto3 takes versions and markers apart."""
    return [(found["Key"], found["VersionId"], found["IsLatest"])
            for found in page.get("Versions", []) + page.get("DeleteMarkers", [])]


def pages(s3, bucket, **more):
    marker = {}
    while True:
        page = s3.list_object_versions(Bucket=bucket, **marker, **more)
        yield page
        if not page["IsTruncated"]:
            return
        marker = {"KeyMarker": page["NextKeyMarker"]}
        if "NextVersionIdMarker" in page:
            marker["VersionIdMarker"] = page["NextVersionIdMarker"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_pages_lose_and_repeat_nothing(s3, versioned, size):
    """A page may end in the middle of a key's versions."""
    made = fill(s3, versioned, ["a", "a/b", "b", "\u00e9 +", "z"], 4)
    want = [(key, version, i == 0) for key in sorted(made, key=lambda k: k.encode())
            for i, version in enumerate(made[key])]
    got = [entry for page in pages(s3, versioned, MaxKeys=size) for entry in entries(page)]
    assert got == want


def test_markers_stand_in_their_place(s3, versioned, raw):
    """Newest first within a key, whatever kind: the document's order is what tools show."""
    fill(s3, versioned, ["a", "b"], 2)
    s3.delete_object(Bucket=versioned, Key="a")
    s3.put_object(Bucket=versioned, Key="a", Body=b"again")
    s3.delete_object(Bucket=versioned, Key="b")
    root = xml.fromstring(raw.send("GET", f"/{versioned}?versions").body)
    kinds = [(entry.tag.removeprefix(NS), entry.find(NS + "Key").text, entry.find(NS + "IsLatest").text)
             for entry in root if entry.tag in (NS + "Version", NS + "DeleteMarker")]
    assert kinds == [("Version", "a", "true"), ("DeleteMarker", "a", "false"), ("Version", "a", "false"),
                     ("Version", "a", "false"), ("DeleteMarker", "b", "true"), ("Version", "b", "false"),
                     ("Version", "b", "false")]


def test_elements(s3, versioned, raw):
    """Every element that SDKs read is there, with AWS's names."""
    made = s3.put_object(Bucket=versioned, Key="k", Body=b"12345", ChecksumAlgorithm="SHA256")
    s3.delete_object(Bucket=versioned, Key="k")
    page = s3.list_object_versions(Bucket=versioned)
    version, marker = page["Versions"][0], page["DeleteMarkers"][0]
    assert version["ETag"] == made["ETag"] and version["Size"] == 5 and version["StorageClass"] == "STANDARD"
    assert version["ChecksumAlgorithm"] == ["SHA256"] and version["ChecksumType"] == "FULL_OBJECT"
    assert version["Owner"]["ID"] == marker["Owner"]["ID"] != ""
    assert version["LastModified"] <= marker["LastModified"]
    assert page["Name"] == versioned and page["MaxKeys"] == 1000 and page["IsTruncated"] is False
    assert page["KeyMarker"] == "" and page["VersionIdMarker"] == "" and page["Prefix"] == ""
    body = raw.send("GET", f"/{versioned}?versions").body
    assert body.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<ListVersionsResult xmlns=')
    assert re.search(rb"<DeleteMarker>(?:(?!</DeleteMarker>).)*<(ETag|Size|StorageClass)>", body) is None


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_delimiter(s3, versioned, size):
    """Common prefixes count as entries, come once, and never loop."""
    fill(s3, versioned, ["a/1", "a/2", "b", "c/1", "c/2", "d"], 2)
    prefixes, names = [], []
    for page in pages(s3, versioned, Delimiter="/", MaxKeys=size):
        prefixes += [found["Prefix"] for found in page.get("CommonPrefixes", [])]
        names += [name for name, _, _ in entries(page)]
        assert len(page.get("CommonPrefixes", [])) + len(entries(page)) <= size
    assert prefixes == ["a/", "c/"] and names == ["b", "b", "d", "d"]


def test_prefix_and_markers(s3, versioned):
    """A key marker alone skips all versions of that key."""
    made = fill(s3, versioned, ["p/a", "p/b", "q"], 2)
    assert {name for name, _, _ in entries(s3.list_object_versions(Bucket=versioned, Prefix="p/"))} == {"p/a", "p/b"}
    page = s3.list_object_versions(Bucket=versioned, KeyMarker="p/a")
    assert [name for name, _, _ in entries(page)] == ["p/b", "p/b", "q", "q"]
    page = s3.list_object_versions(Bucket=versioned, KeyMarker="p/a", VersionIdMarker=made["p/a"][0])
    assert entries(page)[0] == ("p/a", made["p/a"][1], False) and len(entries(page)) == 5


def test_null_version_as_a_marker(s3, bucket):
    """The null version has its place in time, not in the order of ids."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="l", Body=b"1")
    got = [entry for page in pages(s3, bucket, MaxKeys=1) for entry in entries(page)]
    assert [(name, version) for name, version, _ in got][:2] == [("k", newer), ("k", "null")] and len(got) == 3


def test_unversioned_bucket(s3, bucket):
    """Backup tools list versions of every bucket: there, each key has its null version."""
    for key in "abc":
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    page = s3.list_object_versions(Bucket=bucket, MaxKeys=2)
    assert entries(page) == [("a", "null", True), ("b", "null", True)] and page["NextVersionIdMarker"] == "null"
    assert [name for one in pages(s3, bucket, MaxKeys=2) for name, _, _ in entries(one)] == ["a", "b", "c"]


def test_no_keys_asked(s3, versioned):
    """max-keys=0 is a probe: nothing, and not truncated."""
    fill(s3, versioned, ["a"])
    page = s3.list_object_versions(Bucket=versioned, MaxKeys=0)
    assert entries(page) == [] and page["IsTruncated"] is False


@pytest.mark.parametrize("query,code", [
    ("version-id-marker=null", "InvalidArgument"), ("key-marker=a&version-id-marker=x", "InvalidArgument"),
    ("key-marker=a&version-id-marker=", "InvalidArgument"), ("max-keys=-1", "InvalidArgument"),
    ("max-keys=x", "InvalidArgument"), ("encoding-type=base64", "InvalidArgument")])
def test_bad_parameters(versioned, raw, query, code):
    """A marker that is not understood must not restart the listing: clients would loop."""
    reply = raw.send("GET", f"/{versioned}?versions&{query}")
    assert (reply.status, reply.code) == (400, code) and reply.element("ArgumentName")


def test_encoding(versioned, s3, raw):
    """Names that XML cannot carry come encoded when asked for."""
    key = "a b+c\u00fc/\x01"
    s3.put_object(Bucket=versioned, Key=key, Body=b"")
    body = raw.send("GET", f"/{versioned}?versions&encoding-type=url&delimiter=%2F").body
    assert b"<Prefix>a+b%2Bc%C3%BC/</Prefix>" in body and b"<EncodingType>url</EncodingType>" in body
    body = raw.send("GET", f"/{versioned}?versions&encoding-type=url").body
    assert b"<Key>a+b%2Bc%C3%BC/%01</Key>" in body
