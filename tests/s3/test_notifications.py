"""Bucket notifications: configurations as AWS checks them, and events that arrive whatever dies meanwhile."""
import json
import socket
import ssl
import subprocess
import time
import urllib.request

import pytest

from feed import Webhook
from kist import Server

ARN = "arn:kist:sqs::hook:webhook"


def queue(events=("s3:ObjectCreated:*",), arn=ARN, rules=(), identity=None):
    made = {"QueueArn": arn, "Events": list(events)}
    if rules:
        made["Filter"] = {"Key": {"FilterRules": [{"Name": n, "Value": v} for n, v in rules]}}
    if identity:
        made["Id"] = identity
    return made


def configure(s3, bucket, *queues, **more):
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": list(queues), **more})


@pytest.fixture(scope="module")
def hook():
    with Webhook() as hook:
        yield hook


@pytest.fixture(scope="module")
def server(hook, tmp_path_factory):
    token = tmp_path_factory.mktemp("secrets") / "token"
    token.write_text("let-me-in\n")
    with Server(arguments=["--webhook", f"hook url={hook.url} token-file={token}",
                           "--webhook", f"second url={hook.url}2"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


# What was put is what is read, with an id that was made when none was given.
def test_round_trip(s3, bucket):
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    configure(s3, bucket,
              queue(["s3:ObjectCreated:Put", "s3:ObjectRemoved:*"], rules=[("prefix", "in/"), ("suffix", ".txt")],
                    identity="mine"),
              queue(arn="arn:minio:sqs:us-east-1:second:webhook", rules=[("Prefix", "out/")]))
    got = s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert got[0]["Id"] == "mine" and got[0]["QueueArn"] == ARN
    assert got[0]["Events"] == ["s3:ObjectCreated:Put", "s3:ObjectRemoved:*"]
    assert got[0]["Filter"]["Key"]["FilterRules"] == [{"Name": "Prefix", "Value": "in/"},
                                                      {"Name": "Suffix", "Value": ".txt"}]
    assert len(got[1]["Id"]) > 10
    configure(s3, bucket)
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)


# A configuration that cannot be honoured is refused as AWS refuses it; nothing of it is kept.
@pytest.mark.parametrize("queues, text", [
    ([queue(arn="arn:aws:sqs:us-east-1:1:none")], "Unable to validate"),
    ([queue(arn="arn:kist:sqs::nobody:webhook")], "Unable to validate"),
    ([queue(arn="arn:kist:sqs:mars:hook:webhook")], "Unable to validate"),
    ([queue(arn="hook")], "not well formed"),
    ([queue(["s3:ObjectEaten:*"])], "not supported"),
    ([queue(["s3:ObjectCreated"])], "not supported"),
    ([queue(rules=[("middle", "x")])], "prefix or suffix"),
    ([queue(rules=[("prefix", "x"), ("prefix", "y")])], "more than one prefix"),
    ([queue(rules=[("suffix", "x" * 1025)])], "1024"),
    ([queue(identity="a" * 256)], "255"),
    ([queue(), queue(["s3:ObjectCreated:Put"])], "overlap"),
    ([queue(rules=[("prefix", "a")]), queue(rules=[("prefix", "ab")])], "overlap"),
    ([queue(rules=[("suffix", ".b.c")]), queue(rules=[("suffix", ".c")])], "overlap"),
    ([queue(identity="x"), queue(["s3:ObjectRemoved:*"], identity="x")], "unique"),
])
def test_refusals(s3, bucket, refused, queues, text):
    with refused(400, "InvalidArgument") as refusal:
        configure(s3, bucket, *queues)
    assert text in refusal.response["Error"]["Message"]
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)


# What looks alike but shares no event of any key is fine.
def test_no_overlap(s3, bucket):
    configure(s3, bucket, queue(rules=[("prefix", "a")]), queue(rules=[("prefix", "b")]),
              queue(["s3:ObjectRemoved:*"]))
    configure(s3, bucket, queue(rules=[("prefix", "a"), ("suffix", ".x")]),
              queue(rules=[("prefix", "ab"), ("suffix", ".y")]))


def test_event_bridge_is_not_claimed(s3, bucket, refused):
    with refused(501, "NotImplemented"):
        configure(s3, bucket, EventBridgeConfiguration={})


@pytest.mark.parametrize("body", ["", "<NotificationConfiguration><Foo/></NotificationConfiguration>",
                                  "<NotificationConfiguration><QueueConfiguration><Queue>" + ARN +
                                  "</Queue></QueueConfiguration></NotificationConfiguration>"])
def test_malformed(server, bucket, body):
    from raw import Raw
    reply = Raw(server).send("PUT", f"/{bucket}?notification", body=body.encode())
    assert reply.status == 400 and reply.code in ("MalformedXML", "MissingRequestBodyError")


# The whole message as AWS documents it (version 2.1).
def test_message(s3, bucket, hook):
    configure(s3, bucket, queue(["s3:ObjectCreated:*", "s3:ObjectRemoved:*"], identity="all"))
    etag = s3.put_object(Bucket=bucket, Key="a dir/ü+x.txt", Body=b"hello")["ETag"].strip('"')
    s3.delete_object(Bucket=bucket, Key="a dir/ü+x.txt")
    hook.wait(lambda h: len([r for r in h.records() if r["s3"]["bucket"]["name"] == bucket]) == 2)
    put, gone = [r for r in hook.records() if r["s3"]["bucket"]["name"] == bucket]
    assert (put["eventVersion"], put["eventSource"], put["awsRegion"]) == ("2.1", "aws:s3", "us-east-1")
    assert (put["eventName"], gone["eventName"]) == ("ObjectCreated:Put", "ObjectRemoved:Delete")
    assert put["userIdentity"]["principalId"] == "root" and put["eventTime"].endswith("Z")
    assert put["s3"]["s3SchemaVersion"] == "1.0" and put["s3"]["configurationId"] == "all"
    assert put["s3"]["bucket"] == {"name": bucket, "ownerIdentity": {"principalId": "root"},
                                   "arn": f"arn:aws:s3:::{bucket}"}
    thing = put["s3"]["object"]
    assert (thing["key"], thing["size"], thing["eTag"]) == ("a+dir/%C3%BC%2Bx.txt", 5, etag)
    assert thing["sequencer"] < gone["s3"]["object"]["sequencer"]
    assert "size" not in gone["s3"]["object"]
    assert hook.headers[-1]["Authorization"] == "Bearer let-me-in"
    assert hook.headers[-1]["Content-Type"] == "application/json"


# Putting a configuration sends AWS's test event.
def test_test_event(s3, bucket, hook):
    configure(s3, bucket, queue())
    hook.wait(lambda h: any(e.get("Event") == "s3:TestEvent" and e["Bucket"] == bucket for e in h.events))
    test = [e for e in hook.events if e.get("Bucket") == bucket][0]
    assert test["Service"] == "Amazon S3" and test["Time"].endswith("Z")


# Filters and wildcards choose, and nothing else comes.
def test_filters(s3, bucket, hook):
    configure(s3, bucket, queue(["s3:ObjectCreated:Copy"], rules=[("prefix", "p/"), ("suffix", ".z")]))
    s3.put_object(Bucket=bucket, Key="p/put.z", Body=b"")
    s3.copy_object(Bucket=bucket, Key="p/no", CopySource=f"{bucket}/p/put.z")
    s3.copy_object(Bucket=bucket, Key="no.z", CopySource=f"{bucket}/p/put.z")
    s3.copy_object(Bucket=bucket, Key="p/yes.z", CopySource=f"{bucket}/p/put.z")
    hook.wait(lambda h: "p/yes.z" in h.keys())
    assert [k for k in hook.keys() if k.endswith(".z") or k == "p/no"] == ["p/yes.z"]


# The configuration of the moment counts: what happened before it was put is not told, what happened before it
# was removed is.
def test_configuration_of_the_moment(s3, bucket, hook):
    s3.put_object(Bucket=bucket, Key="moment-before", Body=b"")
    configure(s3, bucket, queue())
    s3.put_object(Bucket=bucket, Key="moment-during", Body=b"")
    configure(s3, bucket)
    s3.put_object(Bucket=bucket, Key="moment-after", Body=b"")
    hook.wait(lambda h: "moment-during" in h.keys())
    time.sleep(0.3)
    assert [k for k in hook.keys() if k.startswith("moment")] == ["moment-during"]


# An event that a target refuses is offered again; those of the same key wait behind it.
def test_refused_events_come_again_in_order(s3, bucket, hook):
    configure(s3, bucket, queue())
    hook.wait(lambda h: any(e.get("Bucket") == bucket for e in h.events))
    hook.refusals = 2
    etags = [s3.put_object(Bucket=bucket, Key="again", Body=str(i).encode())["ETag"].strip('"') for i in range(12)]
    hook.wait(lambda h: any(r["s3"]["object"].get("eTag") == etags[-1] for r in h.records()))
    came = [r["s3"]["object"]["eTag"] for r in hook.records() if r["s3"]["bucket"]["name"] == bucket]
    assert came == etags


def status_of(server, name):
    with urllib.request.urlopen(f"{server.admin}/status.json", timeout=10) as reply:
        sinks = json.load(reply)["feed"]["sinks"]
    return next(sink for sink in sinks if sink["name"] == name)


# Target dead, server killed and restarted, target back: every event arrives, in order of each key
# (user-reports: events lost at restart or with a dead target, minio#18404, #8403, #18390).
def test_nothing_is_lost():
    hook = Webhook()
    with Server(arguments=["--webhook", f"hook url={hook.url}"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="events")
        configure(s3, "events", queue(["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]))
        keys = [f"k{i}" for i in range(60)]
        for key in keys[:20]:
            s3.put_object(Bucket="events", Key=key, Body=b"x")
        server.kill()
        server.start()
        for key in keys[20:40]:
            s3.put_object(Bucket="events", Key=key, Body=b"x")
        end = time.monotonic() + 15
        while status_of(server, "hook:webhook")["failures"] == 0:  # it says so
            assert time.monotonic() < end
            time.sleep(0.05)
        assert status_of(server, "hook:webhook")["lag_ms"] > 0
        with urllib.request.urlopen(f"{server.admin}/", timeout=10) as page:  # for readers too
            assert b"<td>hook:webhook" in (text := page.read()) and b"onnect" in text
        with hook:
            hook.wait(lambda h: set(keys[:40]) <= set(h.keys()), 40)
            hook.stop()
            for key in keys[40:]:
                s3.put_object(Bucket="events", Key=key, Body=b"x")
            s3.delete_object(Bucket="events", Key="k0")
            assert server.stop() == 0
            server.start()
            hook.start()
            hook.wait(lambda h: set(keys) <= set(h.keys()) and "k0" in h.keys("ObjectRemoved:Delete"), 40)
            sequencers = [r["s3"]["object"]["sequencer"] for r in hook.records() if r["s3"]["object"]["key"] == "k0"]
            assert sequencers == sorted(sequencers)
            assert status_of(server, "hook:webhook")["lost"] == 0


# After an orderly stop nothing is told twice.
def test_orderly_restart_repeats_nothing():
    with Webhook() as hook, Server(arguments=["--webhook", f"hook url={hook.url}"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="once")
        configure(s3, "once", queue())
        for i in range(10):
            s3.put_object(Bucket="once", Key=f"k{i}", Body=b"x")
        hook.wait(lambda h: "k9" in h.keys())
        assert server.stop() == 0
        server.start()
        s3.put_object(Bucket="once", Key="k10", Body=b"x")
        hook.wait(lambda h: "k10" in h.keys())
        assert sorted(hook.keys()) == sorted(f"k{i}" for i in range(11))


# Beyond its bounds the feed drops events of a dead target: each is counted, and it is said.
def test_losses_are_counted():
    hook = Webhook()
    with Server(arguments=["--webhook", f"hook url={hook.url}", "--feed-size", "64K"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="many")
        configure(s3, "many", queue())
        count = 400
        for i in range(count):
            s3.put_object(Bucket="many", Key=f"{i:04}" + "x" * 300, Body=b"")
        end = time.monotonic() + 20
        while b'kist_notifications_lost_total{sink="hook:webhook"} 0' in urllib.request.urlopen(
                f"{server.admin}/metrics", timeout=10).read():
            assert time.monotonic() < end
            time.sleep(0.1)
        with hook:
            hook.wait(lambda h: any(k.startswith(f"{count - 1:04}") for k in h.keys()), 60)
            # The test event was lost too.
            end = time.monotonic() + 10
            while status_of(server, "hook:webhook")["lost"] != count + 1 - len(set(hook.keys())):
                assert time.monotonic() < end, (status_of(server, "hook:webhook"), len(set(hook.keys())))
                time.sleep(0.1)
        assert "notifications_lost" in (server.path / "server.log").read_text()


@pytest.mark.parametrize("value, text", [("x", "url="), ("a.b url=http://h", "name"), ("x url=ftp://h", "http"),
                                         ("x url=http://h color=red", "color")])
# A wrong sink is a wrong command line.
def test_bad_sinks(value, text):
    with pytest.raises(RuntimeError, match=text):
        with Server(arguments=["--webhook", value]):
            pass


# A distant target is served many events in one round trip, the events of one key one after the other.
def test_slow_target():
    hook = Webhook()
    hook.delay = 0.1
    with hook, Server(arguments=["--webhook", f"hook url={hook.url}"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="slow")
        configure(s3, "slow", queue())
        begin = time.monotonic()
        etags = []
        for i in range(80):
            s3.put_object(Bucket="slow", Key=f"k{i}", Body=b"x")
            if i % 8 == 0:
                etags.append(s3.put_object(Bucket="slow", Key="same", Body=str(i).encode())["ETag"].strip('"'))
        hook.wait(lambda h: len(h.records()) == 90, 30)
        assert time.monotonic() - begin < 6  # one by one: 9 s
        assert [r["s3"]["object"]["eTag"] for r in hook.records() if r["s3"]["object"]["key"] == "same"] == etags


# A target that takes connections and never answers neither holds up the stop nor makes an event count as delivered.
def test_silent_target():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with Server(arguments=["--webhook", f"hook url={url}"]) as server:
            s3 = server.client()
            s3.create_bucket(Bucket="silent")
            configure(s3, "silent", queue())
            s3.put_object(Bucket="silent", Key="k", Body=b"x")
            time.sleep(0.5)
            assert status_of(server, "hook:webhook")["delivered"] == 0
            begin = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begin < 5


# https with an authority of one's own; without it nothing is sent.
def test_tls(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    with Webhook() as hook:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        hook.server.socket = context.wrap_socket(hook.server.socket, server_side=True)
        url = hook.url.replace("http:", "https:")
        with Server(arguments=["--webhook", f"hook url={url} ca={cert}", "--webhook", f"blind url={url}"]) as server:
            s3 = server.client()
            s3.create_bucket(Bucket="secure")
            configure(s3, "secure", queue(), queue(["s3:ObjectRemoved:*"], arn="arn:kist:sqs::blind:webhook"))
            s3.put_object(Bucket="secure", Key="k", Body=b"x")
            hook.wait(lambda h: h.keys() == ["k"])
            end = time.monotonic() + 15
            while "certificate" not in status_of(server, "blind:webhook")["error"]:
                assert time.monotonic() < end
                time.sleep(0.1)
            assert status_of(server, "blind:webhook")["delivered"] == 0
