"""Reads, conditions, copies, uploads, documents and deletes that other stores get wrong (user-reports 8, 10-13, 17-20
and the list of runners-up)."""
import base64
import datetime
import hashlib
import threading
import time
import zlib

import pytest
from kist import Server
from raw import read_reply

MIB = 1024 * 1024
PART = bytes(range(256)) * 4096 * 5
TEN = b"0123456789"


# ---- 8: digests of documents ----

RETAIN = "2099-01-01T00:00:00Z"
DOCUMENTS = {
    "delete": ("POST", "?delete", "<Delete><Object><Key>none</Key></Object></Delete>"),
    "lifecycle": ("PUT", "?lifecycle", "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix>p"
                  "</Prefix></Filter><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>"),
    "versioning": ("PUT", "?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
    "policy": ("PUT", "?policy", '{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":'
               '"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/none"}]}'),
    "tagging": ("PUT", "?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
    "object-lock": ("PUT", "?object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
                    "</ObjectLockConfiguration>"),
    "cors": ("PUT", "?cors", "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET"
             "</AllowedMethod></CORSRule></CORSConfiguration>"),
    "website": ("PUT", "?website", "<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument>"
                "</WebsiteConfiguration>"),
    "notification": ("PUT", "?notification", "<NotificationConfiguration/>"),
    "ownership": ("PUT", "?ownershipControls", "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>"
                  "</Rule></OwnershipControls>"),
    "public-access": ("PUT", "?publicAccessBlock", "<PublicAccessBlockConfiguration><BlockPublicAcls>true"
                      "</BlockPublicAcls></PublicAccessBlockConfiguration>"),
    "payment": ("PUT", "?requestPayment", "<RequestPaymentConfiguration><Payer>BucketOwner</Payer>"
                "</RequestPaymentConfiguration>"),
    "object-tagging": ("PUT", "/k?tagging", "<Tagging><TagSet/></Tagging>"),
    "retention": ("PUT", "/k?retention", f"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{RETAIN}</RetainUntilDate>"
                  "</Retention>"),
    "legal-hold": ("PUT", "/k?legal-hold", "<LegalHold><Status>OFF</Status></LegalHold>"),
}
# AWS asks for a digest of these.
DEMANDING = ["delete", "lifecycle", "tagging", "object-lock", "cors", "object-tagging", "retention", "legal-hold"]


def digests(body):
    def text(raw):
        return base64.b64encode(raw).decode()
    return {"crc32": ("x-amz-checksum-crc32", text(zlib.crc32(body).to_bytes(4, "big"))),
            "sha1": ("x-amz-checksum-sha1", text(hashlib.sha1(body).digest())),
            "sha256": ("x-amz-checksum-sha256", text(hashlib.sha256(body).digest())),
            "md5": ("Content-MD5", text(hashlib.md5(body).digest()))}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_digests_of_documents(raw, s3, locked, name):
    """SDKs send one checksum of their choice: any that fits will do, one that does not fit changes nothing."""
    s3.put_object(Bucket=locked, Key="k", Body=b"x")
    method, target, text = DOCUMENTS[name]
    body = text.replace("BUCKET", locked).encode()
    for kind, header in digests(body).items():
        reply = raw.send(method, f"/{locked}{target}", [header], body)
        assert reply.status in (200, 204), (kind, reply.body)
    crc = digests(b"other")["crc32"]
    for header, code in ((digests(b"other")["md5"], "BadDigest"), (crc, "BadDigest"), (("Content-MD5", "abc"), "InvalidDigest"),
                         (("Content-MD5", ""), "InvalidDigest"), (("x-amz-checksum-crc32", "abc"), "InvalidRequest")):
        reply = raw.send(method, f"/{locked}{target}", [header], body)
        assert (reply.status, reply.code) == (400, code), (header, reply.body)
    if name in DEMANDING:
        reply = raw.send(method, f"/{locked}{target}", [], body)
        assert (reply.status, reply.code) == (400, "InvalidRequest")
        assert "Content-MD5 OR x-amz-checksum-" in reply.element("Message")


# ---- 10, 11, 12, 13: uploads ----

def started(s3, bucket, bodies=(b"only",)):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    parts = [{"PartNumber": number, "ETag": s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number,
                                                           Body=body)["ETag"]} for number, body in enumerate(bodies, 1)]
    return {"Bucket": bucket, "Key": "k", "UploadId": upload}, parts


def test_complete_again_after_all_kinds_of_changes(s3, bucket, refused):
    """A client whose answer got lost asks again: the same answer, and nothing of what happened since is undone."""
    call, parts = started(s3, bucket)
    first = s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts})
    for change in (lambda: None, lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"later"),
                   lambda: s3.delete_object(Bucket=bucket, Key="k")):
        change()
        again = s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts})
        assert (again["ETag"], again["Location"]) == (first["ETag"], first["Location"])
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="k")
    with refused(404, "NoSuchUpload"):
        s3.complete_multipart_upload(**call, MultipartUpload={"Parts": [{**parts[0], "PartNumber": 3}]})
    with refused(404, "NoSuchUpload"):
        s3.upload_part(**call, PartNumber=1, Body=b"late")
    call, parts = started(s3, bucket)
    s3.abort_multipart_upload(**call)
    with refused(404, "NoSuchUpload"):
        s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts})


def test_complete_again_on_a_versioned_bucket(s3, versioned):
    """A repeat makes no second version."""
    call, parts = started(s3, versioned)
    ids = {s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts})["VersionId"] for _ in range(3)}
    assert len(ids) == 1 and len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 1


def test_parts_sent_again_while_it_completes(server, s3, bucket):
    """ceph tracker 20861: whoever wins, the object is made of the parts that were named, and stays readable."""
    for _ in range(6):
        call, parts = started(s3, bucket, (PART, b"old" * 100000))
        outcome = {}

        def send(call=call, outcome=outcome):
            try:
                server.client().upload_part(**call, PartNumber=2, Body=b"new" * 100000)
                outcome["sent"] = True
            except s3.exceptions.ClientError as error:
                outcome["sent"] = error.response["Error"]["Code"]

        def complete(call=call, parts=parts, outcome=outcome):
            try:
                outcome["done"] = server.client().complete_multipart_upload(**call, MultipartUpload={"Parts": parts})["ETag"]
            except s3.exceptions.ClientError as error:
                outcome["done"] = error.response["Error"]["Code"]

        threads = [threading.Thread(target=work) for work in (send, complete, complete)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert outcome["sent"] in (True, "NoSuchUpload")
        if outcome["done"] == "InvalidPart":  # the part was replaced before: the upload goes on
            s3.abort_multipart_upload(**call)
            continue
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == PART + b"old" * 100000


def test_abort_while_a_part_streams(raw, s3, bucket, refused):
    """The late part is refused, and nothing of the upload is left."""
    call, _ = started(s3, bucket)
    target = f"/{bucket}/k?partNumber=2&uploadId={call['UploadId']}"
    with raw.connect() as stream:
        stream.sendall(raw.head("PUT", target, raw.headers("PUT", target, payload="UNSIGNED-PAYLOAD"), 2 * MIB) + b"x" * MIB)
        s3.abort_multipart_upload(**call)
        stream.sendall(b"x" * MIB)
        reply = read_reply(stream)
    assert (reply.status, reply.code) == (404, "NoSuchUpload")
    with refused(404, "NoSuchUpload"):
        s3.list_parts(**call)


@pytest.mark.parametrize("quote", ['"{}"', "{}", "&quot;{}&quot;", "&#34;{}&#34;", "<![CDATA[\"{}\"]]>"])
def test_quotes_of_listed_etags(raw, s3, bucket, quote):
    """Quoted, bare or escaped: every SDK has its own way, and gaps between numbers are legal."""
    call, _ = started(s3, bucket, ())
    rows = ""
    for number, body in ((1, PART), (3, PART), (7, b"tail")):
        etag = s3.upload_part(**call, PartNumber=number, Body=body)["ETag"].strip('"')
        rows += f"<Part><PartNumber>{number}</PartNumber><ETag>{quote.format(etag)}</ETag></Part>"
    body = f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{rows}</CompleteMultipartUpload>'
    reply = raw.send("POST", f"/{bucket}/k?uploadId={call['UploadId']}", [], body.encode())
    assert reply.status == 200, reply.body
    assert reply.element("ETag").strip('"&quot;').endswith("-3")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 2 * len(PART) + 4


@pytest.mark.parametrize("number", ["10001", "0", "-1", "x", "99999999999999999999"])
def test_the_range_of_part_numbers_is_told(raw, s3, bucket, number):
    """distribution#4572: people read this message when an upload of a terabyte fails at its end."""
    call, _ = started(s3, bucket, ())
    reply = raw.send("PUT", f"/{bucket}/k?partNumber={number}&uploadId={call['UploadId']}", body=b"x")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
    assert "1" in reply.element("Message") and "10000" in reply.element("Message")


def test_a_large_complete_is_quick_and_true(s3, bucket, refused):
    """minio#1866: a Complete that answers late dies at a proxy; one that answers 200 early hides its error."""
    s3.put_object(Bucket=bucket, Key="five", Body=PART)
    call, _ = started(s3, bucket, ())
    source = {"CopySource": {"Bucket": bucket, "Key": "five"}}
    parts = [{"PartNumber": number, "ETag": s3.upload_part_copy(**call, **source, PartNumber=number)[
        "CopyPartResult"]["ETag"]} for number in range(1, 1026)]
    begin = time.monotonic()
    with refused(400, "InvalidPart"):
        s3.complete_multipart_upload(**call, MultipartUpload={"Parts": [*parts[:-1], {**parts[-1], "ETag": '"wrong"'}]})
    s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts})
    assert time.monotonic() - begin < 20
    with refused(400, "InvalidRequest"):  # 19: more than 5 GiB go in parts
        s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})


@pytest.mark.parametrize("host", ["127.0.0.1:{p}", "name.example", "name.example:8443", "[::1]:{p}", "{b}.s3.localhost:{p}"])
def test_location_names_the_host_that_was_asked(raw, s3, bucket, host):
    """ministack#1322: clients follow Location; a hard-coded host leads nowhere."""
    host = host.format(p=raw.server.port, b=bucket)
    base = "" if host.startswith(bucket) else f"/{bucket}"
    upload = raw.send("POST", f"{base}/a%20b?uploads", host=host).element("UploadId")
    etag = raw.send("PUT", f"{base}/a%20b?partNumber=1&uploadId={upload}", body=b"x", host=host).headers["etag"]
    body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    reply = raw.send("POST", f"{base}/a%20b?uploadId={upload}", body=body.encode(), host=host)
    assert reply.element("Location") == f"http://{host}{base}/a%20b", reply.body


# ---- 17, 18: conditions ----

HOUR = datetime.timedelta(hours=1)
DAYS = {"past": -HOUR, "now": datetime.timedelta(0), "future": HOUR}


@pytest.mark.parametrize("im", [None, "right", "wrong", "*"])
@pytest.mark.parametrize("ius", [None, "past", "now"])
@pytest.mark.parametrize("inm", [None, "right", "wrong", "*"])
@pytest.mark.parametrize("ims", [None, "past", "now"])
def test_precedence(raw, plain, im, ius, inm, ims):
    """RFC 9110 13.2.2, all of it: ETags beat dates, 412 comes before 304."""
    target, etag, when = plain
    tags = {"right": etag, "wrong": '"0123"', "*": "*"}
    headers = []
    for name, value in (("If-Match", tags.get(im)), ("If-None-Match", tags.get(inm))):
        headers += [(name, value)] if value else []
    for name, value in (("If-Unmodified-Since", ius), ("If-Modified-Since", ims)):
        if value:
            headers.append((name, (when + DAYS[value]).strftime("%a, %d %b %Y %H:%M:%S GMT")))
    want = 200
    if im == "wrong" or (im is None and ius == "past"):
        want = 412
    elif inm in ("right", "*") or (inm is None and ims == "now"):
        want = 304
    for method in ("GET", "HEAD"):
        reply = raw.send(method, target, headers)
        assert reply.status == want, (method, headers)
        if want == 304:
            assert reply.body == b"" and reply.headers["etag"] == etag and "last-modified" in reply.headers
        if want == 412 and method == "GET":
            assert reply.code == "PreconditionFailed"


@pytest.fixture(scope="module")
def plain(s3, raw):
    s3.create_bucket(Bucket="conditions")
    etag = s3.put_object(Bucket="conditions", Key="k", Body=TEN)["ETag"]
    yield "/conditions/k", etag, s3.head_object(Bucket="conditions", Key="k")["LastModified"]
    s3.delete_object(Bucket="conditions", Key="k")
    s3.delete_bucket(Bucket="conditions")


@pytest.mark.parametrize("form,fits", [('"{e}"', True), ("{e}", True), ('"x", "{e}"', True), ('"{e}","x"', True), ("*", True),
                                       ('"x"', False), ('"x", "y"', False), ('"{u}"', False)])
def test_forms_of_etags(raw, plain, form, fits):
    """minio#21526: with and without quotes, in lists, and never by half."""
    target, etag, _ = plain
    value = form.format(e=etag.strip('"'), u=etag.strip('"')[:-1])
    assert raw.send("GET", target, [("If-Match", value)]).status == (200 if fits else 412)
    assert raw.send("GET", target, [("If-None-Match", value)]).status == (304 if fits else 200)


@pytest.mark.parametrize("form", ['"{e}"', "{e}"])
def test_forms_of_etags_on_writes(raw, s3, bucket, form):
    """Compare-and-set of Terraform, Iceberg, Delta: both ways of writing an ETag hold, on every kind of write."""
    def now():
        return form.format(e=s3.head_object(Bucket=bucket, Key="k")["ETag"].strip('"'))
    target = f"/{bucket}/k"
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    s3.put_object(Bucket=bucket, Key="from", Body=b"copied")
    assert raw.send("PUT", target, [("If-Match", now())], b"1").status == 200
    assert raw.send("PUT", target, [("If-Match", form.format(e="0" * 32))], b"2").status == 412
    copy = ("x-amz-copy-source", f"/{bucket}/from")
    assert raw.send("PUT", target, [copy, ("If-Match", form.format(e="0" * 32))]).status == 412
    assert raw.send("PUT", target, [copy, ("If-Match", now())]).status == 200
    call, parts = started(s3, bucket)
    with pytest.raises(s3.exceptions.ClientError):
        s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts}, IfMatch=form.format(e="0" * 32))
    s3.complete_multipart_upload(**call, MultipartUpload={"Parts": parts}, IfMatch=now())
    assert raw.send("DELETE", target, [("If-Match", form.format(e="0" * 32))]).status == 412
    assert raw.send("DELETE", target, [("If-Match", now())]).status == 204


@pytest.mark.parametrize("how", ["put", "copy", "complete"])
def test_one_of_many_creates(server, s3, bucket, how):
    """Locks and table commits: of those that create a key at once one succeeds, whatever operation they use."""
    s3.put_object(Bucket=bucket, Key="from", Body=b"x")
    wins, losses = [], []
    ready = [started(s3, bucket) for _ in range(12)] if how == "complete" else [None] * 24

    def create(mine):
        client = server.client()
        try:
            if how == "put":
                client.put_object(Bucket=bucket, Key="k", Body=b"x", IfNoneMatch="*")
            elif how == "copy":
                client.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/from", IfNoneMatch="*")
            else:
                client.complete_multipart_upload(**mine[0], MultipartUpload={"Parts": mine[1]}, IfNoneMatch="*")
            wins.append(1)
        except client.exceptions.ClientError as error:
            losses.append(error.response["Error"]["Code"])

    threads = [threading.Thread(target=create, args=(mine,)) for mine in ready]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(wins) == 1 and set(losses) <= {"PreconditionFailed", "ConditionalRequestConflict"}
    assert len(losses) == len(ready) - 1


# ---- 19 ----

def test_self_copies_while_it_is_written(server, s3, bucket):
    """leofs#784: a copy onto itself never empties, mixes or loses what a writer puts at the same time."""
    bodies = [bytes([65 + i]) * 300_000 for i in range(4)]
    s3.put_object(Bucket=bucket, Key="k", Body=bodies[0])
    stop, bad = threading.Event(), []

    def copy():
        client = server.client()
        number = 0
        while not stop.is_set():
            number += 1
            try:
                client.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k", MetadataDirective="REPLACE",
                                   Metadata={"n": str(number)})
            except client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] not in ("ConditionalRequestConflict", "OperationAborted"):
                    bad.append(error)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        for number in range(60):
            s3.put_object(Bucket=bucket, Key="k", Body=bodies[number % 4])
            if s3.get_object(Bucket=bucket, Key="k")["Body"].read() not in bodies:
                bad.append(number)
    finally:
        stop.set()
        thread.join(60)
    assert not bad, bad[0]


# ---- 20 ----

def test_one_locked_among_many(s3, locked):
    """One that may not go fails alone; quiet tells only of it."""
    ids = {}
    for key in ("a", "b", "c"):
        more = {"ObjectLockLegalHoldStatus": "ON"} if key == "b" else {}
        ids[key] = s3.put_object(Bucket=locked, Key=key, Body=b"x", **more)["VersionId"]
    reply = s3.delete_objects(Bucket=locked, Delete={"Quiet": True, "Objects": [
        {"Key": key, "VersionId": version} for key, version in ids.items()]})
    assert "Deleted" not in reply
    assert [(error["Key"], error["VersionId"], error["Code"]) for error in reply["Errors"]] == [("b", ids["b"], "AccessDenied")]
    assert [found["Key"] for found in s3.list_object_versions(Bucket=locked)["Versions"]] == ["b"]
    s3.put_object_legal_hold(Bucket=locked, Key="b", LegalHold={"Status": "OFF"})


def test_deletes_that_parsers_stumble_over(raw, s3, bucket):
    """White space, no namespace, entities, comments, the declaration, unknown elements."""
    for key in (" ", "a&b", "<x>", "tab\there"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    body = (b'<?xml version="1.0" encoding="UTF-8"?>\n<!-- c --><Delete>\n  <Quiet>false</Quiet>\n  <Object><Key> </Key></Object>'
            b"\n<Object>\n<Key>a&amp;b</Key>\n</Object><Object><Key>&lt;x&gt;</Key></Object><Object><Key>tab&#9;here</Key></Object>"
            b"\n</Delete>\n")
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    reply = raw.send("POST", f"/{bucket}?delete", [("Content-MD5", md5)], body)
    assert reply.status == 200 and reply.body.count(b"<Deleted>") == 4, reply.body
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


# ---- Runners-up ----

def test_each_delete_is_a_marker(s3, versioned):
    """One marker for each plain DELETE, of absent keys too, as at AWS."""
    markers = {s3.delete_object(Bucket=versioned, Key="k")["VersionId"] for _ in range(5)}
    reply = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k"}, {"Key": "k"}]})
    markers |= {one["DeleteMarkerVersionId"] for one in reply["Deleted"]}
    assert len(markers) == 7 == len(s3.list_object_versions(Bucket=versioned)["DeleteMarkers"])


def test_a_stalled_upload_is_told_from_a_wrong_clock(raw, bucket):
    """pgbackrest#788: the date is judged when the head comes; a body that takes its time is no skew."""
    old = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=14, seconds=59)
    with raw.connect() as stream:
        signed = raw.headers("PUT", f"/{bucket}/k", payload="UNSIGNED-PAYLOAD", now=old)
        stream.sendall(raw.head("PUT", f"/{bucket}/k", signed, 4) + b"ab")
        time.sleep(2)
        stream.sendall(b"cd")
        assert read_reply(stream).status == 200
    for minutes in (16, -17, 60 * 24 * 365):
        wrong = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=minutes)
        reply = raw.send("GET", f"/{bucket}", now=wrong)
        assert (reply.status, reply.code) == (403, "RequestTimeTooSkewed"), minutes
        assert reply.element("ServerTime") and reply.element("MaxAllowedSkewMilliseconds") == "900000"


def test_overload_is_retryable():
    """pgbackrest#1290: too much at once is 503 SlowDown or waits its turn; what was refused succeeds when asked again."""
    with Server(arguments=["--stream-memory", "8M", "--connections-max", "64"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="busy")
        client = server.client(retries={"max_attempts": 1})
        refused, bad = [], []

        def send(number):
            try:
                client.put_object(Bucket="busy", Key=f"k{number}", Body=b"x" * 3_000_000)
            except client.exceptions.ClientError as error:
                told = (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
                (refused if told == (503, "SlowDown") else bad).append(number)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(48)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not bad, bad
        for number in refused:
            s3.put_object(Bucket="busy", Key=f"k{number}", Body=b"x" * 3_000_000)
        assert s3.list_objects_v2(Bucket="busy")["KeyCount"] == 48
