"""What breaks clients on the wire: payload forms, chunk framing, canonical paths, unsigned headers (user-reports 1-7, 23)."""
import base64
import hashlib
import http.client
import socket
import ssl
import subprocess
import zlib
from urllib.parse import quote

import pytest
from kist import Server
from raw import path, read_reply
from sign import Presigner

FORM_OF = {(True, False): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", (True, True): "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
           (False, True): "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
PIECES = [b"a" * 65536, b"b" * 100]
BODY = b"".join(PIECES)
CRC = ("x-amz-checksum-crc32", base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode())
FORMS = [(True, None), (True, CRC), (False, CRC)]
FORM_NAMES = ["signed", "signed-trailer", "unsigned-trailer"]


@pytest.fixture
def before(s3, bucket):
    """A key that holds "before": what is refused must leave it so."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    yield f"/{bucket}/k"
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


# ---- 1: forms ----

@pytest.mark.parametrize("form", ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
                                  "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", "STREAMING-UNSIGNED-PAYLOAD",
                                  "unsigned-payload", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILERS", "abc", ""])
def test_unknown_forms(raw, before, form):
    """A form that is not ours is refused as what it is: "authorization malformed" sends people to look at their keys."""
    reply = raw.send("PUT", before, body=b"x", payload=form)
    assert reply.status in (400, 501) and reply.code in ("InvalidArgument", "InvalidRequest", "NotImplemented"), reply.body


def test_unsigned_trailer_over_tls(tmp_path):
    """What every SDK of 2025 sends by default over https."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    with Server(arguments=["--tls-cert", str(cert), "--tls-key", str(key)]) as server:
        import boto3
        from botocore.config import Config
        from kist import ACCESS_KEY, REGION, SECRET_KEY
        sent = []
        s3 = boto3.client("s3", endpoint_url=f"https://127.0.0.1:{server.port}", aws_access_key_id=ACCESS_KEY,
                          aws_secret_access_key=SECRET_KEY, region_name=REGION, verify=str(cert),
                          config=Config(s3={"addressing_style": "path"}))
        s3.meta.events.register("before-send", lambda request, **_: sent.append(dict(request.headers)))
        s3.create_bucket(Bucket="tls")
        for size in (0, 5, 3_000_000):
            s3.put_object(Bucket="tls", Key="k", Body=b"x" * size)
            got = s3.get_object(Bucket="tls", Key="k", ChecksumMode="ENABLED")
            assert got["Body"].read() == b"x" * size and "ChecksumCRC32" in got
        forms = {bytes(headers.get("X-Amz-Content-SHA256", b"")) if isinstance(
            headers.get("X-Amz-Content-SHA256"), bytes) else headers.get("X-Amz-Content-SHA256") for headers in sent}
        assert "STREAMING-UNSIGNED-PAYLOAD-TRAILER" in forms or b"STREAMING-UNSIGNED-PAYLOAD-TRAILER" in forms
        with pytest.raises(ssl.SSLError):
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10)
            connection.request("GET", "/")


# ---- 2: what a trailer and a chunk signature protect ----

def flip_payload(data):
    return data.replace(b"ab", b"aB", 1) if b"ab" in data else data.replace(b"bbb", b"bBb", 1)


def flip_signature(which):
    """Changes one digit of the chunk signature number `which`."""
    def change(data):
        at = -1
        for _ in range(which + 1):
            at = data.index(b"chunk-signature=", at + 1)
        at += len(b"chunk-signature=") + 10
        return data[:at] + (b"0" if data[at:at + 1] != b"0" else b"1") + data[at + 1:]
    return change


def flip_trailer_signature(data):
    at = data.index(b"x-amz-trailer-signature:") + len(b"x-amz-trailer-signature:") + 3
    return data[:at] + (b"0" if data[at:at + 1] != b"0" else b"1") + data[at + 1:]


@pytest.mark.parametrize("signed,trailer,change,status,codes", [
    (False, CRC, flip_payload, 400, {"BadDigest"}),
    (True, None, flip_payload, 403, {"SignatureDoesNotMatch"}),
    (True, CRC, flip_payload, 403, {"SignatureDoesNotMatch"}),
    *[(True, trailer, flip_signature(which), 403, {"SignatureDoesNotMatch"}) for trailer in (None, CRC) for which in (0, 1, 2)],
    (True, CRC, flip_trailer_signature, 403, {"SignatureDoesNotMatch"}),
    (False, CRC, lambda data: data.replace(b"x-amz-checksum-crc32:", b"x-amz-checksum-crc64:"), 400, None),
    (False, CRC, lambda data: data.replace(CRC[0].encode() + b":", b"x-amz-checksum-sha256:"), 400, None),
    (False, CRC, lambda data: data[:data.index(CRC[0].encode())] + b"\r\n", 400, None),
    (True, CRC, lambda data: data[:data.index(b"x-amz-trailer-signature")] + b"\r\n", None, None)])
def test_what_was_changed_is_noticed(raw, before, signed, trailer, change, status, codes):
    """Accepting the framing without what it protects would be worse than not knowing it."""
    reply = raw.put_chunked(before, PIECES, signed, trailer, change=change)
    assert reply.status == status if status else reply.status in (400, 403), reply.body
    assert codes is None or reply.code in codes, reply.body


def test_unsigned_trailer_needs_no_signature(raw, bucket):
    """One code path for both kinds of trailers asks the unsigned one for a signature it cannot have."""
    assert raw.put_chunked(f"/{bucket}/k", PIECES, False, CRC).status == 200
    assert raw.send("GET", f"/{bucket}/k").body == BODY


# ---- 3: framing ----

@pytest.mark.parametrize("signed,trailer", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("change", [
    lambda data: data[:-2] + b"xx", lambda data: data[:-1], lambda data: data[:-1] + b"x",
    lambda data: data.replace(b"\r\n" + b"a" * 8, b"\r " + b"a" * 8, 1),
    lambda data: data.replace(b"aa\r\n", b"aaxx", 1), lambda data: data.replace(b"10000", b"10010", 1),
    lambda data: data.replace(b"10000", b"ffffffffffffffffff", 1), lambda data: data.replace(b"10000", b"-1", 1),
    lambda data: data.replace(b"10000", b"0x10000", 1), lambda data: data.replace(b"10000", b"", 1),
    lambda data: data[:30000], lambda data: data[:data.index(b"\r\n") + 1], lambda data: b"", lambda data: b"\r\n" + data],
    ids=["last-crlf", "cut-lf", "last-lf", "lf-of-head", "crlf-of-chunk", "longer", "overflow", "negative", "hex-prefix",
         "no-size", "half", "in-head", "nothing", "blank-line"])
def test_broken_framing(raw, before, signed, trailer, change):
    """Every break of the framing is the client's 400 (or a signature that does not fit), at once and without a trace."""
    reply = raw.put_chunked(before, PIECES, signed, trailer, change=change)
    assert reply.status in (400, 403), (reply.status, reply.body)
    assert reply.code in ("IncompleteBody", "SignatureDoesNotMatch", "InvalidChunkSizeError", "InvalidRequest",
                          "MalformedTrailerError", "BadDigest", "InvalidArgument", "MissingContentLength"), reply.body


@pytest.mark.parametrize("signed,trailer", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("difference", [-1, 1, -65636])
def test_decoded_length_is_the_length(raw, before, signed, trailer, difference):
    """A length other than the sum of the chunks: one of the two is a lie."""
    payload = FORM_OF[signed, trailer is not None]
    more = [("Content-Encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(BODY) + difference))]
    more += [("x-amz-trailer", trailer[0])] if trailer else []
    head = raw.headers("PUT", before, more, payload)
    body = raw.chunks(PIECES, signed, trailer)
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", before, head, len(body)) + body)
        reply = read_reply(stream)
    assert reply.status == 400 and reply.code in ("IncompleteBody", "InvalidRequest"), reply.body


@pytest.mark.parametrize("signed,trailer", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("share", [0, 0.3, 0.99])
def test_connection_closed_in_a_chunk(raw, before, signed, trailer, share):
    """A client that dies while it sends leaves no object and no stuck request."""
    head = raw.headers("PUT", before, [("Content-Encoding", "aws-chunked"),
                                       ("x-amz-decoded-content-length", str(len(BODY)))] +
                       ([("x-amz-trailer", trailer[0])] if trailer else []),
                       FORM_OF[signed, trailer is not None])
    body = raw.chunks(PIECES, signed, trailer)
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", before, head, len(body)) + body[:int(len(body) * share)])


@pytest.mark.parametrize("signed,trailer", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("pieces", [[], [b"hello"], [b"x" * 8192, b"y"]], ids=["none", "one", "two"])
def test_every_byte_alone(raw, s3, bucket, signed, trailer, pieces):
    """Chunks come in pieces of any size, the empty object as one chunk of none; sizes are those of the decoded bytes."""
    whole = b"".join(pieces)
    trailer = trailer and (trailer[0], base64.b64encode(zlib.crc32(whole).to_bytes(4, "big")).decode())
    payload = FORM_OF[signed, trailer is not None]
    more = [("Content-Encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(whole)))]
    more += [("x-amz-trailer", trailer[0])] if trailer else []
    head = raw.headers("PUT", f"/{bucket}/k", more, payload)
    body = raw.chunks(pieces, signed, trailer)
    with raw.connect() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(raw.head("PUT", f"/{bucket}/k", head, len(body)))
        for at in range(len(body)):
            stream.sendall(body[at:at + 1])
        assert read_reply(stream).status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == whole
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["Size"] == len(whole)


# ---- 4: Content-Encoding ----

@pytest.mark.parametrize("encoding,kept", [("aws-chunked", None), ("gzip,aws-chunked", "gzip"), ("AWS-CHUNKED", None),
                                           ("aws-chunked, gzip", "gzip"), ("zstd, aws-chunked ,br", "zstd,br")])
def test_encoding_of_an_upload(raw, s3, bucket, encoding, kept):
    """What is in no object's bytes must not stand in its headers: browsers and CDNs refuse such a body."""
    reply = raw.send("POST", f"/{bucket}/k?uploads", [("Content-Encoding", encoding)])
    upload = reply.element("UploadId")
    etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload,
                                 MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    got = raw.send("HEAD", f"/{bucket}/k").headers.get("content-encoding")
    assert (got and got.replace(" ", "")) == kept


# ---- 5: paths ----

ODD = ["/a", "//a", "a//b", "a/./b", "a/../b", "a b", "a+b", "a%2Fb", "é", "😀", "x=y", "%61.txt", "a&b?c#d", "~!*'()"]


@pytest.mark.parametrize("style", ["path", "virtual"])
@pytest.mark.parametrize("how", ["header", "presigned"])
@pytest.mark.parametrize("key", ODD)
def test_paths_are_signed_as_they_are(raw, s3, bucket, key, how, style):
    """No byte of a key may be collapsed, resolved or encoded twice before the signature is computed."""
    host = raw.host if style == "path" else f"{bucket}.s3.localhost:{raw.server.port}"
    target = path(bucket, key) if style == "path" else path(key)
    if how == "header":
        assert raw.send("PUT", target, body=b"odd", host=host).status == 200
    else:
        line = Presigner(host).target("PUT", target)
        reply = raw.unsigned(f"PUT {line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nodd".encode())
        assert reply.status == 200, reply.body
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"odd"
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


@pytest.mark.parametrize("wire,signed_as,key", [
    ("a%2bb", "a%2Bb", "a+b"), ("%c3%a9", "%C3%A9", "é"), ("x=y", "x%3Dy", "x=y"), ("a%7eb", "a~b", "a~b"), ("%6b", "k", "k"),
    ("a:b@c", "a%3Ab%40c", "a:b@c"), ("a!b(c)'*", "a%21b%28c%29%27%2A", "a!b(c)'*")])
def test_paths_are_decoded_once_and_encoded_again(raw, s3, bucket, wire, signed_as, key):
    """Clients put on the wire what they like; what is signed has one form."""
    signed = raw.headers("PUT", f"/{bucket}/{signed_as}", payload=hashlib.sha256(b"x").hexdigest())
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/{wire}", signed, 1) + b"x")
        reply = read_reply(stream)
    assert reply.status == 200, reply.body
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


@pytest.mark.parametrize("signed_as", ["a%2Bb", "a%20b"])
def test_a_raw_plus_is_the_key_that_was_signed(raw, s3, bucket, signed_as):
    """ex_aws#176: whatever a raw "+" is taken for, it must not reach another key than the one that was signed."""
    signed = raw.headers("PUT", f"/{bucket}/{signed_as}", payload=hashlib.sha256(b"x").hexdigest())
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/a+b", signed, 1) + b"x")
        reply = read_reply(stream)
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    assert (reply.status, keys) in ((200, ["a+b" if signed_as == "a%2Bb" else "a b"]), (403, []))


# ---- 6: Host, Accept-Encoding ----

@pytest.mark.parametrize("host", ["127.0.0.1:{p}", "127.0.0.1", "[::1]:{p}", "[::1]", "[2001:db8::1]:9000", "name.example",
                                  "name.example:443", "NAME.example:{p}"])
@pytest.mark.parametrize("how", ["header", "presigned"])
def test_the_host_is_signed_as_it_came(raw, s3, bucket, host, how):
    """With or without a port, an address of IPv6, a balancer's name: the bytes of the header count."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    host = host.format(p=raw.server.port)
    if how == "header":
        assert raw.send("GET", f"/{bucket}/k", host=host).body == b"bytes"
        signed = raw.headers("GET", f"/{bucket}/k", host="other.example")
        signed[0] = ("Host", host)
        changed = raw.head("GET", f"/{bucket}/k", signed)
    else:
        line = Presigner(host).target("GET", f"/{bucket}/k")
        assert raw.unsigned(f"GET {line} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).body == b"bytes"
        changed = f"GET {line} HTTP/1.1\r\nHost: other.example\r\n\r\n".encode()
    assert raw.unsigned(changed).code == "SignatureDoesNotMatch"


def test_a_changed_accept_encoding_is_explained(raw, s3, bucket):
    """terraform#36412: a proxy that rewrites a signed header is found by the canonical request in the error."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    target = f"/{bucket}/k"
    signed = raw.headers("GET", target, [("Accept-Encoding", "identity")], sign=("accept-encoding",))
    assert raw.unsigned(raw.head("GET", target, signed)).status == 200
    changed = [(name, "gzip" if name == "Accept-Encoding" else value) for name, value in signed]
    reply = raw.unsigned(raw.head("GET", target, changed))
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert "accept-encoding:gzip" in reply.element("CanonicalRequest") and reply.element("StringToSign")


# ---- 7: unsigned headers ----

@pytest.mark.parametrize("name", ["x-amz-meta-a", "x-amz-acl", "x-amz-tagging", "x-amz-storage-class", "x-amz-copy-source",
                                  "x-amz-website-redirect-location"])
@pytest.mark.parametrize("how", ["header", "presigned"])
def test_unsigned_amz_headers(raw, before, name, how):
    """Whoever holds a URL must not be able to say more than its signer did."""
    if how == "presigned":
        line = Presigner(raw.host).target("PUT", before)
        reply = raw.unsigned(f"PUT {line} HTTP/1.1\r\nHost: {raw.host}\r\n{name}: private\r\nContent-Length: 1\r\n\r\nx".encode())
    else:
        signed = raw.headers("PUT", before, payload=hashlib.sha256(b"x").hexdigest())
        reply = raw.unsigned(raw.head("PUT", before, [*signed, (name, "private")], 1) + b"x")
    assert (reply.status, reply.code) == (403, "AccessDenied"), reply.body
    assert name in reply.body.decode(), "the error names the header"


def test_unsigned_plain_headers(raw, s3, bucket):
    """Browsers and download managers add headers of their own to a link."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    for header, status in (("Range: bytes=0-1", 206), ("User-Agent: x", 200), ("Accept-Encoding: gzip", 200),
                           ("If-None-Match: *", 304), ("Referer: http://a", 200), ("X-Forwarded-For: 1.2.3.4", 200)):
        line = Presigner(raw.host).target("GET", f"/{bucket}/k")
        reply = raw.unsigned(f"GET {line} HTTP/1.1\r\nHost: {raw.host}\r\n{header}\r\n\r\n".encode())
        assert reply.status == status, header
    line = Presigner(raw.host).target("PUT", f"/{bucket}/k")
    reply = raw.unsigned(f"PUT {line} HTTP/1.1\r\nHost: {raw.host}\r\nContent-Type: text/x\r\nContent-Length: 1\r\n\r\nx".encode())
    assert reply.status == 200 and s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/x"


def test_a_signed_header_that_is_absent(raw, before):
    """A signature over a header that a proxy dropped is refused, not a crash."""
    signed = raw.headers("PUT", before, [("x-amz-meta-a", "1")], hashlib.sha256(b"x").hexdigest())
    without = [(name, value) for name, value in signed if name != "x-amz-meta-a"]
    reply = raw.unsigned(raw.head("PUT", before, without, 1) + b"x")
    assert reply.status in (400, 403), reply.body
    assert raw.send("GET", before).status == 200


# ---- 23: transfer codings ----

def test_aws_chunked_inside_chunked(raw, s3, bucket):
    """trinodb/aws-proxy#199: proxies stream, so signed chunks come within HTTP's own."""
    headers = [("x-amz-decoded-content-length", str(len(BODY))), ("Content-Encoding", "aws-chunked"),
               ("Transfer-Encoding", "chunked")]
    signed = raw.headers("PUT", f"/{bucket}/k", headers, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    body = raw.chunks(PIECES, True)
    framed = b"".join(f"{len(body[at:at + 777]):x}\r\n".encode() + body[at:at + 777] + b"\r\n"
                      for at in range(0, len(body), 777)) + b"0\r\n\r\n"
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", f"/{bucket}/k", signed) + framed)
        assert read_reply(stream).status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


# ---- 22: metadata ----

@pytest.mark.parametrize("name,sent,want", [
    ("X-Amz-Meta-UPPER", "v", "v"), ("x-amz-meta-a", "  v  ", "v"), ("x-amz-meta-a", "a   b", "a   b"), ("x-amz-meta-a", "", ""),
    ("x-amz-meta-a", "plain ascii !\"#$%&", "plain ascii !\"#$%&"), ("x-amz-meta-a-b_c.d", "v", "v")])
def test_metadata_values(raw, bucket, name, sent, want):
    """Names in lower case, blanks trimmed, the rest as it was sent."""
    assert raw.send("PUT", f"/{bucket}/k", [(name, sent)], b"x").status == 200
    assert raw.send("HEAD", f"/{bucket}/k").headers[name.lower()] == want


@pytest.mark.parametrize("text", ["é", "grün und 😀", "日本語", "a\u00a0b"])
def test_metadata_beyond_ascii(raw, s3, bucket, text):
    """HTTP headers are ASCII: what was sent in UTF-8 comes back as RFC 2047 words that decode to the same."""
    from email.header import decode_header, make_header
    assert raw.send("PUT", f"/{bucket}/k", [("x-amz-meta-a", text)], b"x").status == 200
    got = raw.send("HEAD", f"/{bucket}/k").headers["x-amz-meta-a"]
    assert got.isascii() and str(make_header(decode_header(got))) == text
    assert quote(got)  # a header line of its own, nothing folded


@pytest.mark.parametrize("size,status", [(2048, 200), (2049, 400)])
def test_metadata_bound(raw, bucket, size, status):
    """2 KiB of names and values together, to the byte."""
    headers = [("x-amz-meta-a", "v" * 1000), ("x-amz-meta-b", "v" * (size - 1002))]
    assert raw.send("PUT", f"/{bucket}/k", headers, b"x").status == status
