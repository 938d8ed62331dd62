"""Ten checksum algorithms, composite and of the full object, in uploads of one and of several parts (user-reports 9)."""
import re

import pytest
from checksums import ALGORITHMS, COMBINE, composite, digest, header

FIRST = bytes(range(256)) * 4096 * 5  # 5 MiB, the least that a part but the last may have
LAST = b"tail"
TYPES = ("COMPOSITE", "FULL_OBJECT")
DEFAULT = {"CRC64NVME": "FULL_OBJECT"}


def kinds(algorithm):
    """The types that S3 has for an algorithm."""
    return [kind for kind in TYPES if kind == "COMPOSITE" and algorithm != "CRC64NVME"
            or kind == "FULL_OBJECT" and algorithm in COMBINE]


@pytest.fixture(scope="module")
def first():
    """What each algorithm makes of the large part, computed once."""
    return {algorithm: digest(algorithm, FIRST) for algorithm in ALGORITHMS}


class Upload:
    def __init__(self, raw, bucket, algorithm=None, kind=None):
        headers = [("x-amz-checksum-algorithm", algorithm)] if algorithm else []
        headers += [("x-amz-checksum-type", kind)] if kind else []
        self.raw, self.target, self.algorithm = raw, f"/{bucket}/k", algorithm
        self.reply = raw.send("POST", f"{self.target}?uploads", headers)
        self.id = self.reply.element("UploadId")
        self.parts = []

    def part(self, body, value=None, number=None):
        number = number or len(self.parts) + 1
        headers = [(header(self.algorithm), value)] if value else []
        reply = self.raw.send("PUT", f"{self.target}?partNumber={number}&uploadId={self.id}", headers, body)
        if reply.status == 200:
            self.parts.append((number, reply.headers["etag"], value))
        return reply

    def complete(self, headers=(), with_sums=True):
        name = f"Checksum{self.algorithm}"
        rows = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>"
                       + (f"<{name}>{value}</{name}>" if value and with_sums else "") + "</Part>"
                       for number, etag, value in self.parts)
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        return self.raw.send("POST", f"{self.target}?uploadId={self.id}", headers, body)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_put(raw, bucket, algorithm):
    """A right value is kept and comes back, a wrong or malformed one stores nothing."""
    right = digest(algorithm, LAST)
    reply = raw.send("PUT", f"/{bucket}/k", [(header(algorithm), right)], LAST)
    assert reply.status == 200, reply.body
    assert (reply.headers[header(algorithm)], reply.headers["x-amz-checksum-type"]) == (right, "FULL_OBJECT")
    for value, code in ((digest(algorithm, b"other"), "BadDigest"), ("bad", "InvalidRequest"), ("", "InvalidRequest")):
        reply = raw.send("PUT", f"/{bucket}/k", [(header(algorithm), value)], b"different")
        assert (reply.status, reply.code) == (400, code), value
    head = raw.send("HEAD", f"/{bucket}/k", [("x-amz-checksum-mode", "ENABLED")])
    assert head.headers[header(algorithm)] == right and head.headers["content-length"] == "4"
    assert header(algorithm) not in raw.send("HEAD", f"/{bucket}/k").headers
    attributes = raw.send("GET", f"/{bucket}/k?attributes", [("x-amz-object-attributes", "Checksum")])
    assert attributes.element(f"Checksum{algorithm}") == right


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_trailers(raw, bucket, algorithm, signed):
    """SDKs send the checksum behind the body; a wrong one must not be stored."""
    reply = raw.put_chunked(f"/{bucket}/k", [LAST], signed, (header(algorithm), digest(algorithm, LAST)))
    assert reply.status == 200 and reply.headers[header(algorithm)] == digest(algorithm, LAST)
    reply = raw.put_chunked(f"/{bucket}/k", [b"different"], signed, (header(algorithm), digest(algorithm, LAST)))
    assert (reply.status, reply.code) == (400, "BadDigest")
    assert raw.send("GET", f"/{bucket}/k").body == LAST


@pytest.mark.parametrize("kind", [None, *TYPES])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_parts(raw, bucket, first, algorithm, kind):
    """Type and value as AWS makes them: "-2" on composites, none on full objects, none in GetObjectAttributes."""
    upload = Upload(raw, bucket, algorithm, kind)
    if kind is not None and kind not in kinds(algorithm):
        assert (upload.reply.status, upload.reply.code) == (400, "InvalidRequest")
        return
    kind = kind or DEFAULT.get(algorithm, "COMPOSITE")
    assert upload.reply.headers["x-amz-checksum-algorithm"] == algorithm
    assert upload.reply.headers["x-amz-checksum-type"] == kind
    assert upload.part(FIRST, digest(algorithm, LAST)).code == "BadDigest"
    assert upload.part(FIRST, first[algorithm]).headers[header(algorithm)] == first[algorithm]
    assert upload.part(LAST, digest(algorithm, LAST)).status == 200
    want = composite(algorithm, [FIRST, LAST]) if kind == "COMPOSITE" else digest(algorithm, FIRST + LAST)
    other = "FULL_OBJECT" if kind == "COMPOSITE" else "COMPOSITE"
    wrong = composite(algorithm, [LAST, FIRST]) if kind == "COMPOSITE" else digest(algorithm, LAST)
    assert upload.complete([(header(algorithm), wrong), ("x-amz-checksum-type", kind)]).code == "BadDigest"
    assert upload.complete([("x-amz-checksum-type", other)]).status == 400
    if kind == "COMPOSITE":
        reply = upload.complete(with_sums=False)
        assert (reply.status, reply.code) == (400, "InvalidRequest")
        assert re.search(r"\b1\b", reply.element("Message")), "the message names the part"
    reply = upload.complete([(header(algorithm), want), ("x-amz-checksum-type", kind)])
    assert reply.status == 200, reply.body
    assert reply.element(f"Checksum{algorithm}") == want and reply.element("ChecksumType") == kind
    head = raw.send("HEAD", f"/{bucket}/k", [("x-amz-checksum-mode", "ENABLED")])
    assert head.headers[header(algorithm)] == want and head.headers["x-amz-checksum-type"] == kind
    attributes = raw.send("GET", f"/{bucket}/k?attributes", [("x-amz-object-attributes", "Checksum,ObjectParts")])
    assert attributes.element(f"Checksum{algorithm}") == want.split("-")[0]
    assert attributes.element("ChecksumType") == kind


def test_no_algorithm(raw, bucket):
    """What no client sums, the store sums itself: CRC64NVME of the full object, as at AWS."""
    upload = Upload(raw, bucket)
    assert upload.part(FIRST).status == 200 and upload.part(LAST).status == 200
    reply = upload.complete()
    assert reply.element("ChecksumCRC64NVME") == digest("CRC64NVME", FIRST + LAST)
    assert reply.element("ChecksumType") == "FULL_OBJECT"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_part(raw, bucket, algorithm):
    """A composite of one part is no checksum of the bytes: it says so by its "-1"."""
    upload = Upload(raw, bucket, algorithm)
    assert upload.part(LAST, digest(algorithm, LAST)).status == 200
    kind = DEFAULT.get(algorithm, "COMPOSITE")
    want = composite(algorithm, [LAST]) if kind == "COMPOSITE" else digest(algorithm, LAST)
    assert upload.complete().element(f"Checksum{algorithm}") == want
