"""Requests byte by byte: for what SDKs would tidy up or refuse to send."""
import datetime
import hashlib
import hmac
import re
import socket
from urllib.parse import quote

from kist import ACCESS_KEY, REGION, SECRET_KEY

EMPTY = hashlib.sha256(b"").hexdigest()


class Reply:
    def __init__(self, status, headers, body, closed):
        self.status, self.headers, self.body, self.closed = status, headers, body, closed

    @property
    def code(self):
        found = re.search(rb"<Code>(\w+)</Code>", self.body)
        return found.group(1).decode() if found else None

    def element(self, name):
        found = re.search(f"<{name}>(.*?)</{name}>".encode(), self.body, re.S)
        return found.group(1).decode() if found else None


def read_reply(stream, method="GET"):
    head = b""
    while b"\r\n\r\n" not in head:
        more = stream.recv(65536)
        if not more:
            return Reply(None, {}, head, True)
        head += more
    head, _, body = head.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if status == 100:
        return Reply(100, headers, body, False)
    length = int(headers.get("content-length", 0))
    if method == "HEAD" or status in (204, 304):
        length = 0
    while len(body) < length:
        more = stream.recv(65536)
        if not more:
            break
        body += more
    return Reply(status, headers, body, headers.get("connection", "").lower() == "close")


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Raw:
    def __init__(self, server):
        self.server = server
        self.host = f"127.0.0.1:{server.port}"

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=30)

    def signing_key(self, date, secret=SECRET_KEY):
        key = _hmac(f"AWS4{secret}".encode(), date[:8])
        for part in (REGION, "s3", "aws4_request"):
            key = _hmac(key, part)
        return key

    def headers(self, method, target, headers=(), payload=EMPTY, host=None, now=None, sign=None,
                access_key=ACCESS_KEY, secret=SECRET_KEY):
        """The header lines, signed: host, x-amz-* and what `sign` names. `target` is the request line's."""
        now = now or datetime.datetime.now(datetime.timezone.utc)
        date = now.strftime("%Y%m%dT%H%M%SZ")
        all_headers = [("Host", host or self.host), ("x-amz-date", date),
                       ("x-amz-content-sha256", payload), *headers]
        chosen = {}
        for name, value in all_headers:
            low = name.lower()
            if low == "host" or low.startswith("x-amz-") or low in (sign or ()):
                text = re.sub(" +", " ", value.strip())
                chosen[low] = f"{chosen[low]},{text}" if low in chosen else text
        names = ";".join(sorted(chosen))
        lines = "".join(f"{name}:{chosen[name]}\n" for name in sorted(chosen))
        path, _, query = target.partition("?")
        pairs = sorted(tuple((term + "=").split("=")[:2]) for term in query.split("&") if term)
        canonical = "\n".join([method, path, "&".join(f"{k}={v}" for k, v in pairs), lines, names, payload])
        scope = f"{date[:8]}/{REGION}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = hmac.new(self.signing_key(date, secret), to_sign.encode(), hashlib.sha256).hexdigest()
        self.seed, self.date, self.scope = signature, date, scope
        all_headers.append(("Authorization", f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, "
                                             f"SignedHeaders={names}, Signature={signature}"))
        return all_headers

    def head(self, method, target, headers, body_length=None):
        lines = [f"{method} {target} HTTP/1.1"] + [f"{k}: {v}" for k, v in headers]
        if body_length is not None:
            lines.append(f"Content-Length: {body_length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")

    def send(self, method, target, headers=(), body=b"", **options):
        payload = options.pop("payload", hashlib.sha256(body).hexdigest())
        signed = self.headers(method, target, headers, payload, **options)
        with self.connect() as stream:
            stream.sendall(self.head(method, target, signed, len(body)) + body)
            reply = read_reply(stream, method)
            return read_reply(stream, method) if reply.status == 100 else reply

    def unsigned(self, data):
        with self.connect() as stream:
            stream.sendall(data)
            return read_reply(stream)

    # ---- aws-chunked ----

    def chunks(self, pieces, signed, trailer=None):
        """The framed body. `trailer`: (name, value). Signatures continue from the last headers()."""
        key = self.signing_key(self.date)
        previous, out = self.seed, b""
        for piece in [*pieces, b""]:
            line = f"{len(piece):x}"
            if signed:
                text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.date, self.scope, previous, EMPTY,
                                  hashlib.sha256(piece).hexdigest()])
                previous = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
                line += f";chunk-signature={previous}"
            out += line.encode() + b"\r\n" + piece + (b"\r\n" if piece or not trailer else b"")
        if trailer:
            text = f"{trailer[0]}:{trailer[1]}\n"
            out += f"{trailer[0]}:{trailer[1]}\r\n".encode()
            if signed:
                to_sign = "\n".join(["AWS4-HMAC-SHA256-TRAILER", self.date, self.scope, previous,
                                     hashlib.sha256(text.encode()).hexdigest()])
                signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
                out += f"x-amz-trailer-signature:{signature}\r\n".encode()
            out += b"\r\n"
        return out

    def put_chunked(self, target, pieces, signed=True, trailer=None, change=lambda data: data, headers=()):
        payload = {
            (True, False): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            (True, True): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            (False, True): "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }[(signed, trailer is not None)]
        more = [("x-amz-decoded-content-length", str(sum(map(len, pieces)))), *headers]
        if not any(name.lower() == "content-encoding" for name, _ in headers):
            more.append(("Content-Encoding", "aws-chunked"))
        if trailer:
            more.append(("x-amz-trailer", trailer[0]))
        signed_headers = self.headers("PUT", target, more, payload)
        body = change(self.chunks(pieces, signed, trailer))
        with self.connect() as stream:
            stream.sendall(self.head("PUT", target, signed_headers, len(body)) + body)
            return read_reply(stream)


def path(*parts):
    """/bucket/key as S3 clients put it on the wire."""
    return "/" + "/".join(quote(part, safe="/-._~") for part in parts)
