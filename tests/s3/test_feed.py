"""The change feed of a bucket: ordered, resumable, exactly once; and listening as MinIO's clients do."""
import http.client
import json
import threading
import time

import pytest

from feed import Feed
from kist import Server
from sign import Presigner


@pytest.fixture
def feed(server, bucket):
    feed = Feed(server, bucket)
    feed.switch(True)
    yield feed
    feed.switch(False)


def names(changes):
    return [(change["eventName"], change["key"]) for change in changes]


# A reader sees each change once, in the order it happened, with what it needs to fetch the object.
def test_order_and_content(s3, bucket, feed):
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"one")["ETag"].strip('"')
    s3.put_object(Bucket=bucket, Key="b/ü", Body=b"two")
    s3.copy_object(Bucket=bucket, Key="c", CopySource=f"{bucket}/a")
    s3.delete_object(Bucket=bucket, Key="a")
    changes, cursor = feed.all()
    assert names(changes) == [("ObjectCreated:Put", "a"), ("ObjectCreated:Put", "b/ü"),
                              ("ObjectCreated:Copy", "c"), ("ObjectRemoved:Delete", "a")]
    assert (changes[0]["size"], changes[0]["eTag"]) == (3, etag)
    assert "size" not in changes[3] and "versionId" not in changes[0]
    sequencers = [change["sequencer"] for change in changes]
    assert sequencers == sorted(set(sequencers)) and changes[0]["eventTime"].endswith("Z")
    assert feed.all(cursor)[0] == []
    assert names(feed.all(sequencers[1])[0]) == names(changes[2:])  # a sequencer is a cursor


# Pages of any size give the same changes.
def test_pages(s3, bucket, feed):
    for i in range(25):
        s3.put_object(Bucket=bucket, Key=f"{i % 2}/{i}", Body=b"")
    whole, _ = feed.all()
    assert len(whole) == 25
    assert feed.all(max_changes=7)[0] == whole
    assert [c["key"] for c in feed.all(prefix="1/", max_changes=3)[0]] == [f"1/{i}" for i in range(1, 25, 2)]


# A batch of deletes is as many changes as it deleted, and all of them have places of their own.
def test_delete_objects(s3, bucket, feed):
    for i in range(5):
        s3.put_object(Bucket=bucket, Key=str(i), Body=b"")
    _, cursor = feed.all()
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": str(i)} for i in range(5)] + [{"Key": "no"}]})
    changes, _ = feed.all(cursor)
    assert names(changes) == [("ObjectRemoved:Delete", str(i)) for i in range(5)]
    assert len({change["sequencer"] for change in changes}) == 5


# Uploads in parts are one change, when they are whole.
def test_multipart(s3, bucket, feed):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    assert feed.all()[0] == []
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    changes, _ = feed.all()
    assert names(changes) == [("ObjectCreated:CompleteMultipartUpload", "m")]
    assert changes[0]["eTag"].endswith("-1") and changes[0]["size"] == 1000


# Who waits is answered when something comes, not when the time is over.
def test_long_poll(s3, bucket, feed):
    cursor = feed.page("latest")["nextCursor"]
    begin = time.monotonic()
    assert feed.page(cursor, wait=1)["changes"] == []
    assert 0.9 < time.monotonic() - begin < 5
    writer = threading.Timer(0.5, lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"x"))
    writer.start()
    begin = time.monotonic()
    page = feed.page(cursor, wait=20)
    writer.join()
    assert names(page["changes"]) == [("ObjectCreated:Put", "k")]
    assert time.monotonic() - begin < 5


# "latest" begins behind everything that is there.
def test_latest(s3, bucket, feed):
    s3.put_object(Bucket=bucket, Key="before", Body=b"")
    page = feed.page("latest")
    assert page["changes"] == []
    s3.put_object(Bucket=bucket, Key="after", Body=b"")
    assert names(feed.all(page["nextCursor"])[0]) == [("ObjectCreated:Put", "after")]


# One bucket's changes are not another's.
def test_other_buckets(s3, server, bucket, feed):
    s3.create_bucket(Bucket="feed-other")
    other = Feed(server, "feed-other")
    other.switch(True)
    s3.put_object(Bucket="feed-other", Key="theirs", Body=b"")
    s3.put_object(Bucket=bucket, Key="ours", Body=b"")
    assert names(feed.all()[0]) == [("ObjectCreated:Put", "ours")]
    assert names(other.all()[0]) == [("ObjectCreated:Put", "theirs")]
    s3.delete_object(Bucket="feed-other", Key="theirs")
    s3.delete_bucket(Bucket="feed-other")
    assert other.ask("GET", [("changes", "")])[0] == 404


# A reader that would miss changes is told, and not given what is left as if it were all.
def test_off_and_on_again(s3, bucket, feed):
    s3.put_object(Bucket=bucket, Key="a", Body=b"")
    _, cursor = feed.all()
    feed.switch(False)
    status, body = feed.ask("GET", [("changes", "")])
    assert status == 409 and b"<Code>InvalidBucketState</Code>" in body
    s3.put_object(Bucket=bucket, Key="unseen", Body=b"")
    feed.switch(True)
    status, body = feed.ask("GET", [("changes", ""), ("cursor", cursor)])
    assert status == 410 and b"<Code>CursorExpired</Code>" in body
    s3.put_object(Bucket=bucket, Key="seen", Body=b"")
    assert names(feed.all()[0]) == [("ObjectCreated:Put", "seen")]


# Switching on what is on loses nothing.
def test_on_twice(s3, bucket, feed):
    s3.put_object(Bucket=bucket, Key="a", Body=b"")
    cursor = feed.page("latest")["nextCursor"]
    feed.switch(True)
    s3.put_object(Bucket=bucket, Key="b", Body=b"")
    assert names(feed.all(cursor)[0]) == [("ObjectCreated:Put", "b")]
    assert b"<Status>Enabled</Status>" in feed.ask("GET", [("feed", "")])[1]


@pytest.mark.parametrize("query", [("cursor", "zz"), ("cursor", "0" * 23), ("wait", "21"), ("wait", "x"),
                                   ("max-changes", "0"), ("max-changes", "1001")])
# Nonsense is refused by name.
def test_bad_arguments(feed, query):
    status, body = feed.ask("GET", [("changes", ""), query])
    assert status == 400 and f"<ArgumentName>{query[0]}</ArgumentName>".encode() in body


# What happened while nobody read, and before a crash, is there afterwards: nothing twice, nothing missing.
def test_restart():
    with Server() as server:
        s3 = server.client()
        s3.create_bucket(Bucket="kept")
        feed = Feed(server, "kept")
        feed.switch(True)
        for i in range(20):
            s3.put_object(Bucket="kept", Key=f"k{i}", Body=b"x")
        first = feed.page(max_changes=8)
        server.kill()
        server.start()
        for i in range(20, 30):
            s3.put_object(Bucket="kept", Key=f"k{i}", Body=b"x")
        rest, _ = feed.all(first["nextCursor"])
        assert [c["key"] for c in first["changes"] + rest] == [f"k{i}" for i in range(30)]


# The bound on bytes drops the oldest; whoever is behind them is told, whoever begins is not.
def test_bounds():
    with Server(arguments=["--feed-size", "64K"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="small")
        feed = Feed(server, "small")
        feed.switch(True)
        s3.put_object(Bucket="small", Key="first", Body=b"")
        cursor = feed.page(max_changes=1)["nextCursor"]
        for i in range(400):
            s3.put_object(Bucket="small", Key=f"{i:04}" + "x" * 300, Body=b"")
        end = time.monotonic() + 20
        while feed.ask("GET", [("changes", ""), ("cursor", cursor)])[0] == 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        changes, _ = feed.all()
        assert 50 < len(changes) < 400
        kept = [change["key"][:4] for change in changes]
        assert kept == [f"{i:04}" for i in range(400 - len(kept), 400)]


# Old changes go even when the feed is small.
def test_age():
    with Server(arguments=["--feed-age", "1s"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="young")
        feed = Feed(server, "young")
        feed.switch(True)
        s3.put_object(Bucket="young", Key="old", Body=b"")
        end = time.monotonic() + 20
        while feed.all()[0]:
            assert time.monotonic() < end
            time.sleep(0.1)


# ---- Listening ----


class Listener:
    def __init__(self, server, bucket, query):
        signer = Presigner(f"127.0.0.1:{server.port}")
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self.connection.request("GET", signer.target("GET", f"/{bucket}", query))
        self.reply = self.connection.getresponse()

    def next(self):
        while True:
            line = self.reply.readline()
            assert line, "the stream ended"
            if line.strip() and json.loads(line)["Records"] is not None:
                return json.loads(line)

    def close(self):
        self.connection.close()


# `mc watch` works on any bucket, also one whose feed nobody switched on.
def test_listen(s3, server, bucket):
    listener = Listener(server, bucket, [("events", "s3:ObjectCreated:*"), ("prefix", "in/"), ("suffix", ".txt"),
                                         ("ping", "1")])
    assert listener.reply.status == 200
    s3.put_object(Bucket=bucket, Key="in/no.png", Body=b"x")
    s3.put_object(Bucket=bucket, Key="out/no.txt", Body=b"x")
    s3.put_object(Bucket=bucket, Key="in/yes 1.txt", Body=b"xyz")
    s3.delete_object(Bucket=bucket, Key="in/yes 1.txt")
    s3.put_object(Bucket=bucket, Key="in/2.txt", Body=b"")
    first, second = listener.next(), listener.next()
    assert (first["EventName"], first["Key"]) == ("s3:ObjectCreated:Put", f"{bucket}/in/yes 1.txt")
    record = first["Records"][0]
    assert record["s3"]["object"]["key"] == "in/yes+1.txt" and record["s3"]["object"]["size"] == 3
    assert second["Key"] == f"{bucket}/in/2.txt"
    listener.close()


# A listener alone shows that the server lives.
def test_listen_ping(server, bucket):
    listener = Listener(server, bucket, [("events", "s3:ObjectRemoved:*"), ("ping", "1")])
    assert json.loads(listener.reply.readline()) == {"Records": None}
    listener.close()


# Stopping the server does not wait for those who listen.
def test_listen_ends_with_the_server():
    with Server() as server:
        server.client().create_bucket(Bucket="heard")
        listener = Listener(server, "heard", [("events", "s3:ObjectCreated:*")])
        assert listener.reply.status == 200
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 10
        listener.close()


def test_listen_refuses_unknown_events(server, bucket):
    listener = Listener(server, bucket, [("events", "s3:ObjectEaten:*")])
    assert listener.reply.status == 400
    listener.close()


# ---- Versions, tags, locks ----


# In a versioned bucket a change names the version, so that a reader can fetch exactly that.
def test_versions(s3, bucket, feed):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    try:
        first = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
        second = s3.put_object(Bucket=bucket, Key="k", Body=b"22")["VersionId"]
        marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
        s3.delete_object(Bucket=bucket, Key="k", VersionId=second)
        changes, _ = feed.all()
        assert [(c["eventName"], c["versionId"]) for c in changes] == [
            ("ObjectCreated:Put", first), ("ObjectCreated:Put", second),
            ("ObjectRemoved:DeleteMarkerCreated", marker), ("ObjectRemoved:Delete", second)]
        assert s3.get_object(Bucket=bucket, Key="k", VersionId=changes[0]["versionId"])["Body"].read() == b"1"
    finally:
        for version in (first, second, marker):
            s3.delete_object(Bucket=bucket, Key="k", VersionId=version)


# Tags have events of their own; the object is not made again.
def test_tags(s3, bucket, feed):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert names(feed.all()[0]) == [("ObjectCreated:Put", "k"), ("ObjectTagging:Put", "k"),
                                    ("ObjectTagging:Delete", "k")]


# A rename is what a reader that knows only of deletes and creations can follow.
def test_rename(s3, raw, bucket, feed):
    s3.put_object(Bucket=bucket, Key="from", Body=b"1")
    reply = raw.send("PUT", f"/{bucket}/to?renameObject", [("x-amz-rename-source", f"/{bucket}/from")])
    assert reply.status == 200
    changes, _ = feed.all()
    assert names(changes[1:]) == [("ObjectRemoved:Delete", "from"), ("ObjectCreated:Copy", "to")]
    assert changes[2]["renamedFrom"] == "from"
