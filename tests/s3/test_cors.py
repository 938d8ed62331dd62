"""Cross-origin resource sharing: the document, preflights, and the headers that let a page read a reply."""
import http.client

import pytest

RULES = [
    {"ID": "one", "AllowedOrigins": ["https://*.example", "https://exact.test"], "AllowedMethods": ["GET", "PUT"],
     "AllowedHeaders": ["x-amz-*", "Content-Type"], "ExposeHeaders": ["ETag", "x-amz-version-id"],
     "MaxAgeSeconds": 300},
    {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]},
]


def send(server, method, path, headers, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body=body, headers=headers)
    reply = connection.getresponse()
    reply.text = reply.read().decode()
    connection.close()
    return reply


def preflight(server, path, origin=None, method=None, headers=None):
    given = {"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    return send(server, "OPTIONS", path, {k: v for k, v in given.items() if v is not None})


def allowed(reply):
    return {name[len("access-control-"):]: value for name, value in
            ((name.lower(), value) for name, value in reply.getheaders()) if name.startswith("access-control-")}


def put_xml(raw, bucket, body):
    import base64
    import hashlib
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    return raw.send("PUT", f"/{bucket}?cors", [("Content-MD5", digest)], body)


def document(rule):
    return f"<CORSConfiguration><CORSRule>{rule}</CORSRule></CORSConfiguration>".encode()


def test_what_is_put_is_got(s3, bucket, refused):
    """Terraform compares what it reads with what it wrote: a changed order or a lost field is an endless plan."""
    with refused(404, "NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES
    s3.delete_bucket_cors(Bucket=bucket)
    s3.delete_bucket_cors(Bucket=bucket)
    with refused(404, "NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)


GOOD = "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"


@pytest.mark.parametrize("rule,code,text", [
    ("", "MalformedXML", None),
    ("<AllowedOrigin>*</AllowedOrigin>", "MalformedXML", None),
    ("<AllowedMethod>GET</AllowedMethod>", "MalformedXML", None),
    (GOOD + "<Other/>", "MalformedXML", None),
    (GOOD + "<MaxAgeSeconds>soon</MaxAgeSeconds>", "MalformedXML", None),
    ("<AllowedOrigin>*</AllowedOrigin><AllowedMethod>PATCH</AllowedMethod>", "InvalidRequest",
     "Found unsupported HTTP method in CORS config. Unsupported method is PATCH"),
    ("<AllowedOrigin>*</AllowedOrigin><AllowedMethod>get</AllowedMethod>", "InvalidRequest",
     "Found unsupported HTTP method in CORS config. Unsupported method is get"),
    ("<AllowedOrigin>http://*.a.*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>", "InvalidRequest",
     'AllowedOrigin "http://*.a.*" can not have more than one wildcard.'),
    (GOOD + "<AllowedHeader>x-*-*</AllowedHeader>", "InvalidRequest",
     'AllowedHeader "x-*-*" can not have more than one wildcard.'),
    (GOOD + "<AllowedHeader>a b</AllowedHeader>", "InvalidRequest", 'AllowedHeader "a b" contains invalid character.'),
    (GOOD + "<ExposeHeader>x-*</ExposeHeader>", "InvalidRequest",
     'ExposeHeader "x-*" contains wildcard. We currently do not support wildcard for ExposeHeader.'),
    (GOOD + f"<ID>{'x' * 256}</ID>", "InvalidArgument", None),
])
def test_a_bad_document_is_refused(raw, bucket, rule, code, text):
    """What is not checked here would never match later, and nobody would know why."""
    reply = put_xml(raw, bucket, document(rule))
    assert (reply.status, reply.code) == (400, code), reply.body
    if text:
        assert reply.element("Message").replace("&quot;", '"').replace("&#34;", '"') == text


def test_bounds_of_the_document(raw, bucket):
    """A hundred rules and 64 KiB, as at AWS: settings travel to every gateway."""
    rule = f"<CORSRule>{GOOD}</CORSRule>"
    assert put_xml(raw, bucket, f"<CORSConfiguration>{rule * 100}</CORSConfiguration>".encode()).status == 200
    reply = put_xml(raw, bucket, f"<CORSConfiguration>{rule * 101}</CORSConfiguration>".encode())
    assert (reply.status, reply.code) == (400, "MalformedXML")
    reply = put_xml(raw, bucket, document(GOOD + "<!--" + "x" * 65536 + "-->"))
    assert (reply.status, reply.code) == (400, "MaxMessageLengthExceeded")
    assert put_xml(raw, bucket, b"<CORSConfiguration></CORSConfiguration>").code == "MalformedXML"
    assert put_xml(raw, bucket, b"nonsense").code == "MalformedXML"


@pytest.fixture
def shared(s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    return bucket


def test_preflight_needs_no_signature(server, shared):
    """s3-orchestrator#1371: a browser never signs a preflight, so authenticating it breaks every page."""
    for path in (f"/{shared}", f"/{shared}/k", f"/{shared}/not/there", f"/{shared}/k?X-Amz-Signature=0&Signature=0"):
        reply = preflight(server, path, "https://a.example", "PUT", "X-Amz-Date, content-type")
        assert reply.status == 200 and reply.text == ""
        assert allowed(reply) == {
            "allow-origin": "https://a.example", "allow-methods": "GET, PUT",
            "allow-headers": "x-amz-date, content-type", "expose-headers": "ETag, x-amz-version-id",
            "max-age": "300", "allow-credentials": "true"}
        assert reply.getheader("Vary") == "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"


def test_preflight_of_any_origin(server, shared):
    """With "*" the browser must not send credentials, and is told so by the star itself."""
    reply = preflight(server, f"/{shared}/k", "https://a.example", "HEAD")
    assert reply.status == 200 and allowed(reply) == {"allow-origin": "*", "allow-methods": "HEAD"}


@pytest.mark.parametrize("origin,method,headers,status,text", [
    (None, "GET", None, 400, "Insufficient information. Origin request header needed."),
    ("https://a.example", None, None, 400, "Invalid Access-Control-Request-Method: null"),
    ("https://a.example", "PATCH", None, 400, "Invalid Access-Control-Request-Method: PATCH"),
    ("https://a.example", "GET", "a b", 400, "Access-Control-Request-Headers"),
    ("https://a.example", "DELETE", None, 403, "CORSResponse: This CORS request is not allowed."),
    ("https://a.example.org", "GET", None, 403, "CORSResponse: This CORS request is not allowed."),
    ("https://exact.test.org", "GET", None, 403, "CORSResponse: This CORS request is not allowed."),
    ("https://a.example", "GET", "x-other", 403, "CORSResponse: This CORS request is not allowed."),
])
def test_preflight_refused(server, shared, origin, method, headers, status, text):
    """Pages debug CORS by these messages; a rule too many is a hole."""
    reply = preflight(server, f"/{shared}/k", origin, method, headers)
    assert reply.status == status and text in reply.text and allowed(reply) == {}
    assert ("<Code>BadRequest</Code>" if status == 400 else "<Code>AccessForbidden</Code>") in reply.text
    if status == 403:
        assert f"<Method>{method}</Method><ResourceType>OBJECT</ResourceType>" in reply.text


def test_preflight_without_rules(server, bucket):
    """The message must tell a bucket without rules from rules that do not match."""
    reply = preflight(server, f"/{bucket}", "https://a.example", "GET")
    assert reply.status == 403 and "CORSResponse: CORS is not enabled for this bucket." in reply.text
    assert "<ResourceType>BUCKET</ResourceType>" in reply.text
    reply = preflight(server, "/no-such-bucket-here", "https://a.example", "GET")
    assert reply.status == 404 and "<Code>NoSuchBucket</Code>" in reply.text


def cors_get(raw, path, origin="https://a.example", more=()):
    return raw.send("GET", path, [("Origin", origin), *more])


def test_every_reply_is_readable_by_the_page(raw, server, s3, shared):
    """Without the headers on errors and on 304 a page sees "network error" where it should see 403 or use its cache."""
    etag = s3.head_object(Bucket=shared, Key="k")["ETag"]
    replies = {
        200: cors_get(raw, f"/{shared}/k"),
        206: cors_get(raw, f"/{shared}/k", more=[("Range", "bytes=0-1")]),
        304: cors_get(raw, f"/{shared}/k", more=[("If-None-Match", etag)]),
        404: cors_get(raw, f"/{shared}/none"),
        416: cors_get(raw, f"/{shared}/k", more=[("Range", "bytes=99-")]),
        412: cors_get(raw, f"/{shared}/k", more=[("If-Match", '"0"')]),
    }
    for status, reply in replies.items():
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == "https://a.example", status
        assert reply.headers["access-control-expose-headers"] == "ETag, x-amz-version-id"
        assert reply.headers["vary"].startswith("Origin")
    listing = cors_get(raw, f"/{shared}?list-type=2")
    assert listing.status == 200 and listing.headers["access-control-allow-methods"] == "GET, PUT"
    anonymous = send(server, "GET", f"/{shared}/k", {"Origin": "https://a.example"})
    assert anonymous.status == 403 and allowed(anonymous)["allow-origin"] == "https://a.example"
    wrong = raw.send("GET", f"/{shared}/k", [("Origin", "https://a.example")], secret="not the secret")
    assert wrong.status == 403 and wrong.headers["access-control-allow-origin"] == "https://a.example"


def test_other_replies_say_nothing(raw, shared):
    """A header for everybody would let any page read what only some may."""
    for reply in (raw.send("GET", f"/{shared}/k"), cors_get(raw, f"/{shared}/k", "https://evil.test"),
                  raw.send("DELETE", f"/{shared}/none", [("Origin", "https://a.example")])):
        assert not [name for name in reply.headers if name.startswith("access-control-")]


def test_presigned(server, s3, shared):
    """Uploads from pages are presigned PUTs: preflight, then the PUT, both with the headers."""
    client = server.client(signature_version="s3v4")
    url = client.generate_presigned_url("put_object", {"Bucket": shared, "Key": "up"})
    path = url[url.index("/", 8):]
    assert preflight(server, path, "https://a.example", "PUT", "content-type").status == 200
    reply = send(server, "PUT", path, {"Origin": "https://a.example"}, b"from a page")
    assert reply.status == 200 and allowed(reply)["allow-origin"] == "https://a.example"
    assert s3.get_object(Bucket=shared, Key="up")["Body"].read() == b"from a page"
