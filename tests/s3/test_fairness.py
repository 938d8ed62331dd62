"""Memory for streams is shared: clients that stand still do not keep others out."""
import http.client
import socket
import threading
import time
import urllib.request

import pytest

from kist import Server
from raw import Raw

MIB = 1 << 20
PROMPT_S = 8
HOLDERS = 200


@pytest.fixture(scope="module")
def own():
    with Server() as running:
        running.client().create_bucket(Bucket="fair")
        running.client().put_object(Bucket="fair", Key="big", Body=bytes(32 * MIB))
        yield running


@pytest.fixture
def client(own):
    return own.client(read_timeout=30)


def metric(server, name):
    text = urllib.request.urlopen(f"{server.admin}/metrics", timeout=10).read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def stopped_readers(server, count):
    raw, streams = Raw(server), []
    for _ in range(count):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", server.port))
        stream.sendall(raw.head("GET", "/fair/big", raw.headers("GET", "/fair/big")))
        streams.append(stream)
    return streams


def others_are_served(client):
    """A PUT and a GET of 1 MiB, each within PROMPT_S."""
    body = b"x" * MIB
    for call in (lambda: client.put_object(Bucket="fair", Key="mine", Body=body),
                 lambda: client.get_object(Bucket="fair", Key="mine")["Body"].read()):
        begin = time.monotonic()
        got = call()
        assert time.monotonic() - begin < PROMPT_S
    assert got == body


def test_stopped_readers(own, client):
    """200 downloads whose clients stopped reading hold all buffers: who waits gets them within seconds."""
    before = metric(own, "kist_streams_cut_total")
    streams = stopped_readers(own, HOLDERS)
    try:
        wait_for(lambda: metric(own, "kist_stream_memory_bytes") > 34 * MIB)
        others_are_served(client)
        assert metric(own, "kist_streams_cut_total") > before
        assert metric(own, "kist_stream_memory_bytes") <= 40 * MIB
        assert "stream_cut" in (own.path / "server.log").read_text()
    finally:
        for stream in streams:
            stream.close()
    wait_for(lambda: metric(own, "kist_stream_memory_bytes") == 0)


def test_nobody_waits(own, client):
    """A reader that pauses while there is memory for all is left alone, and gets every byte."""
    before = metric(own, "kist_streams_cut_total")
    stream = stopped_readers(own, 1)[0]
    time.sleep(7)
    others_are_served(client)
    assert metric(own, "kist_streams_cut_total") == before
    reply = http.client.HTTPResponse(stream)
    reply.begin()
    assert len(reply.read()) == 32 * MIB
    stream.close()


def trickle(server, count, first):
    """Uploads of 64 MiB that sent `first` bytes and then send one a second."""
    raw, streams, stop = Raw(server), [], threading.Event()
    for n in range(count):
        target = f"/fair/slow{n}"
        stream = raw.connect()
        stream.sendall(raw.head("PUT", target, raw.headers("PUT", target, payload="UNSIGNED-PAYLOAD"), 64 * MIB))
        stream.sendall(b"x" * first)
        streams.append(stream)

    def run():
        while not stop.wait(1):
            for stream in streams:
                try:
                    stream.send(b"x")
                except OSError:
                    pass

    thread = threading.Thread(target=run)
    thread.start()
    return streams, stop, thread


@pytest.mark.parametrize("first", [0, 10_000])
def test_slow_uploads(own, client, first):
    """300 uploads at a byte a second: those that sent nothing yet hold nothing, the others lose what they hold."""
    streams, stop, thread = trickle(own, 300, first)
    try:
        wait_for(lambda: metric(own, "kist_requests_active") >= 250)
        if first == 0:
            assert metric(own, "kist_stream_memory_bytes") == 0
        others_are_served(client)
        assert metric(own, "kist_stream_memory_bytes") <= 40 * MIB
    finally:
        stop.set()
        thread.join()
        for stream in streams:
            stream.close()
    wait_for(lambda: metric(own, "kist_requests_active") == 0)
    wait_for(lambda: metric(own, "kist_stream_memory_bytes") == 0)


def test_cut_upload_is_told(own):
    """An upload that is cut gets RequestTimeout, as AWS says it, and leaves no object."""
    streams, stop, thread = trickle(own, 300, 10_000)
    try:
        replies = []
        end = time.monotonic() + 25
        while not replies and time.monotonic() < end:
            for stream in streams:
                stream.setblocking(False)
                try:
                    data = stream.recv(4096)
                    if data:
                        replies.append(data)
                except OSError:
                    pass
                stream.setblocking(True)
            time.sleep(0.1)
        assert replies and b"<Code>RequestTimeout</Code>" in replies[0] and b"400" in replies[0].split(b"\r\n")[0]
    finally:
        stop.set()
        thread.join()
        for stream in streams:
            stream.close()
    listed = own.client().list_objects_v2(Bucket="fair", Prefix="slow")
    assert listed["KeyCount"] == 0
