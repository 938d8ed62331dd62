"""Plain sockets as load: many small PUTs, and streams of large bodies, without a client library's cost."""
import socket
import time
from multiprocessing import Process, Queue

from sign import Presigner


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=120)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_reply(sock, pending=b""):
    """Status and body of one reply with Content-Length; bytes of the next one are an error."""
    while b"\r\n\r\n" not in pending:
        more = sock.recv(65536)
        if not more:
            raise ConnectionError("closed before the reply")
        pending += more
    head, _, body = pending.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        more = sock.recv(min(1 << 20, length - len(body)))
        if not more:
            raise ConnectionError("closed within the body")
        body += more
    return int(head.split(b" ", 2)[1]), body


def _put_many(port, bucket, names, body, connections, faults):
    """Batches: one request on each connection, then all replies. (The server sees `connections` at once.)"""
    signer = Presigner(f"127.0.0.1:{port}")
    socks = [connect(port) for _ in range(connections)]
    bad = 0
    head = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for at in range(0, len(names), connections):
        batch = names[at : at + connections]
        for sock, name in zip(socks, batch):
            target = signer.target("PUT", f"/{bucket}/{name}")
            sock.sendall(b"PUT " + target.encode() + head + body)
        for sock, _ in zip(socks, batch):
            bad += read_reply(sock)[0] != 200
    faults.put(bad)


def put_many(port, bucket, names, body=b"x", processes=2, connections=16):
    """PUTs one small object per (percent-encoded) name; returns seconds. Raises when one is refused."""
    faults = Queue()
    begin = time.monotonic()
    shares = [names[i::processes] for i in range(processes)]
    workers = [
        Process(target=_put_many, args=(port, bucket, share, body, connections, faults))
        for share in shares
    ]
    for worker in workers:
        worker.start()
    bad = sum(faults.get(timeout=3600) for _ in workers)
    for worker in workers:
        worker.join()
    if bad:
        raise AssertionError(f"{bad} of {len(names)} PUTs were refused")
    return time.monotonic() - begin


def put_stream(port, bucket, name, size, block):
    """One PUT of `size` bytes made of `block`; returns the status."""
    signer = Presigner(f"127.0.0.1:{port}")
    with connect(port) as sock:
        target = signer.target("PUT", f"/{bucket}/{name}")
        sock.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        left = size
        while left > 0:
            piece = block if left >= len(block) else block[:left]
            sock.sendall(piece)
            left -= len(piece)
        return read_reply(sock)[0]


def get_stream(port, bucket, name):
    """One GET; returns (status, body bytes)."""
    signer = Presigner(f"127.0.0.1:{port}")
    with connect(port) as sock:
        target = signer.target("GET", f"/{bucket}/{name}")
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        buffer = bytearray(1 << 20)
        head = b""
        while b"\r\n\r\n" not in head:
            more = sock.recv(65536)
            if not more:
                raise ConnectionError("closed before the reply")
            head += more
        head, _, body = head.partition(b"\r\n\r\n")
        total = len(body)
        while True:
            got = sock.recv_into(buffer)
            if got == 0:
                return int(head.split(b" ", 2)[1]), total
            total += got
