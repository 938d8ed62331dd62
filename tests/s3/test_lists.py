"""ListObjects v1 and v2."""
import threading

import pytest

TREE = ["a", "b/1", "b/2", "c/1", "c/2", "d"]


@pytest.fixture
def tree(s3, bucket):
    for key in TREE:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    return bucket


def names(page):
    return [c["Key"] for c in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]


def walk(s3, bucket, version, **query):
    seen, more = [], {}
    while True:
        list_page = s3.list_objects_v2 if version == 2 else s3.list_objects
        page = list_page(Bucket=bucket, **{**query, **more})
        assert len(names(page)) <= query.get("MaxKeys", 1000)
        if version == 2:
            assert page["KeyCount"] == len(names(page))
        seen += names(page)
        if not page["IsTruncated"]:
            return seen
        if version == 2:
            more = {"ContinuationToken": page["NextContinuationToken"]}
        else:
            more = {"Marker": page.get("NextMarker") or page["Contents"][-1]["Key"]}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("query,want", [
    ({}, TREE), ({"Delimiter": "/"}, ["a", "b/", "c/", "d"]), ({"Prefix": "b/"}, ["b/1", "b/2"]),
    ({"Prefix": "b", "Delimiter": "/"}, ["b/"]), ({"Prefix": "b/", "Delimiter": "/"}, ["b/1", "b/2"]),
    ({"Delimiter": "/1"}, ["a", "b/1", "b/2", "c/1", "c/2", "d"]), ({"Prefix": "x"}, []),
    ({"Delimiter": "1"}, ["a", "b/1", "b/2", "c/1", "c/2", "d"])])
def test_every_entry_once(s3, tree, version, size, query, want):
    assert sorted(walk(s3, tree, version, MaxKeys=size, **query)) == sorted(want)


@pytest.mark.parametrize("after,want", [("a", ["b/", "c/", "d"]), ("b", ["b/", "c/", "d"]), ("b/", ["c/", "d"]),
                                        ("b/1", ["c/", "d"]), ("b/zz", ["c/", "d"]), ("d", [])])
def test_start_after(s3, tree, after, want):
    assert sorted(walk(s3, tree, 2, StartAfter=after, Delimiter="/", MaxKeys=1)) == want
    assert sorted(walk(s3, tree, 1, Marker=after, Delimiter="/", MaxKeys=1)) == want


def test_fields(s3, tree):
    page = s3.list_objects_v2(Bucket=tree, MaxKeys=2, Delimiter="/", StartAfter="0", Prefix="")
    assert (page["Name"], page["MaxKeys"], page["Delimiter"], page["StartAfter"]) == (tree, 2, "/", "0")
    found = s3.list_objects_v2(Bucket=tree, FetchOwner=True)["Contents"][1]
    assert found["Size"] == 3 and found["StorageClass"] == "STANDARD" and found["Owner"]["ID"] == "root"
    assert found["ETag"] == s3.head_object(Bucket=tree, Key="b/1")["ETag"]
    assert found["LastModified"] == s3.head_object(Bucket=tree, Key="b/1")["LastModified"]
    assert "Owner" not in s3.list_objects_v2(Bucket=tree)["Contents"][0]
    assert s3.list_objects(Bucket=tree)["Contents"][0]["Owner"]["DisplayName"] == "root"
    assert "NextMarker" not in s3.list_objects(Bucket=tree, MaxKeys=1)


def test_token_beats_start_after(s3, tree):
    first = s3.list_objects_v2(Bucket=tree, MaxKeys=1)
    page = s3.list_objects_v2(Bucket=tree, ContinuationToken=first["NextContinuationToken"], StartAfter="zzz")
    assert names(page) == TREE[1:]
    assert page["ContinuationToken"] == first["NextContinuationToken"]


def test_page_sizes(s3, raw, tree):
    page = s3.list_objects_v2(Bucket=tree, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)
    assert s3.list_objects(Bucket=tree, MaxKeys=5000)["MaxKeys"] == 1000
    for bad in ("max-keys=-1", "max-keys=x", "encoding-type=b", "list-type=2&continuation-token=!"):
        target = f"/{tree}?{bad.replace('!', '%21')}"
        reply = raw.send("GET", target)
        assert (reply.status, reply.code) == (400, "InvalidArgument"), bad


def test_encoding(raw, s3, bucket):
    for key in ("a b+c%/ä", "é/x", "z\x01"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    reply = raw.send("GET", f"/{bucket}?encoding-type=url&list-type=2&delimiter=%2F&start-after=%20")
    assert reply.element("StartAfter") == "+"
    assert reply.element("EncodingType") == "url"
    assert reply.element("Delimiter") == "/"
    assert b"<CommonPrefixes><Prefix>a+b%2Bc%25/</Prefix>" in reply.body
    assert b"<CommonPrefixes><Prefix>%C3%A9/</Prefix>" in reply.body
    assert b"<Key>z%01</Key>" in reply.body
    plain = raw.send("GET", f"/{bucket}?list-type=2")
    assert b"<Key>z&#x1;</Key>" in plain.body and plain.element("EncodingType") is None


def test_a_thousand_and_one(s3, bucket):
    def work(lane):
        for i in range(lane, 1001, 16):
            s3.put_object(Bucket=bucket, Key=f"k{i:04}", Body=b"")

    lanes = [threading.Thread(target=work, args=(lane,)) for lane in range(16)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join(120)
    page = s3.list_objects_v2(Bucket=bucket)
    assert (page["KeyCount"], page["IsTruncated"]) == (1000, True)
    rest = s3.list_objects_v2(Bucket=bucket, ContinuationToken=page["NextContinuationToken"])
    assert [c["Key"] for c in rest["Contents"]] == ["k1000"]
    assert walk(s3, bucket, 1, MaxKeys=333) == [f"k{i:04}" for i in range(1001)]


def test_missing_bucket(s3, refused):
    with refused(404, "NoSuchBucket"):
        s3.list_objects_v2(Bucket="no-such-bucket-here")
