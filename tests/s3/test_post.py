"""Form uploads from browsers: the body, the policy, the signature, what becomes of the fields, the answers."""
import base64
import datetime
import hashlib
import hmac
import http.client
import json
import re
import socket
import urllib.parse

import pytest

from kist import ACCESS_KEY, REGION, SECRET_KEY, Server

BOUNDARY = "----WebKitFormBoundaryAbCdEf"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def multipart(fields, content=b"content", name="upload.bin", boundary=BOUNDARY, end=None):
    """As browsers send it. `fields`: pairs. `content` None: no file."""
    out = b""
    for key, value in fields:
        value = value if isinstance(value, bytes) else value.encode()
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n'.encode() + value + b"\r\n"
    if content is not None:
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                f"Content-Type: application/octet-stream\r\n\r\n").encode() + content + b"\r\n"
    return out + (f"--{boundary}--\r\n".encode() if end is None else end)


class Form:
    """A signed form. conditions=None: every field is covered by its own value."""

    def __init__(self, bucket, fields=(), conditions=None, key="k", expires_s=600, more=(), secret=SECRET_KEY,
                 access_key=ACCESS_KEY, region=REGION, policy=None, date=None):
        date = date or now().strftime("%Y%m%dT%H%M%SZ")
        scope = f"{date[:8]}/{region}/s3/aws4_request"
        self.fields = [("key", key), *fields, ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
                       ("x-amz-credential", f"{access_key}/{scope}"), ("x-amz-date", date)]
        if conditions is None:
            conditions = [{name: value} for name, value in self.fields]
            conditions = [c for c in conditions if "key" not in c] + [["starts-with", "$key", ""]]
        else:
            conditions = [*conditions, *({name: value} for name, value in self.fields[-3:])]
        expiration = (now() + datetime.timedelta(seconds=expires_s)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        document = {"expiration": expiration, "conditions": [{"bucket": bucket}, *conditions, *more]}
        text = policy if policy is not None else base64.b64encode(json.dumps(document).encode()).decode()
        key_bytes = f"AWS4{secret}".encode()
        for part in (date[:8], region, "s3", "aws4_request"):
            key_bytes = _hmac(key_bytes, part)
        self.fields += [("policy", text), ("x-amz-signature", _hmac(key_bytes, text).hex())]


class Reply:
    def __init__(self, reply):
        self.status, self.text = reply.status, reply.read().decode()
        self.header = reply.getheader

    def element(self, name):
        found = re.search(f"<{name}>(.*?)</{name}>", self.text, re.S)
        return found and found.group(1).replace("&quot;", '"').replace("&#34;", '"').replace("&apos;", "'") \
            .replace("&#39;", "'").replace("&lt;", "<")

    @property
    def code(self):
        return self.element("Code")


@pytest.fixture(scope="module")
def server():
    with Server(arguments=["--domain", "s3.localhost"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


@pytest.fixture
def post(server, bucket):
    def send(form, content=b"content", boundary=BOUNDARY, path=None, body=None, headers=None, **options):
        fields = form.fields if isinstance(form, Form) else form
        body = body if body is not None else multipart(fields, content, boundary=boundary, **options)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", path or f"/{bucket}", body=body, headers={
            "Content-Type": f"multipart/form-data; boundary={boundary}", **(headers or {})})
        reply = Reply(connection.getresponse())
        connection.close()
        return reply
    return send


def body_of(s3, bucket, key="k"):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def test_boto3s_form(post, server, s3, bucket):
    """generate_presigned_post() is how most pages get their form."""
    client = server.client(signature_version="s3v4")
    made = client.generate_presigned_post(bucket, "dir/${filename}", Fields={"acl": "private", "Content-Type": "text/x"},
                                          Conditions=[{"acl": "private"}, ["starts-with", "$Content-Type", "text/"],
                                                      ["content-length-range", 1, 100]])
    reply = post(list(made["fields"].items()), b"from a browser", name="C:\\fakepath\\ä b.txt")
    assert reply.status == 204 and reply.text == "", reply.text
    got = s3.get_object(Bucket=bucket, Key="dir/ä b.txt")
    assert got["Body"].read() == b"from a browser" and got["ContentType"] == "text/x"
    assert reply.header("ETag") == got["ETag"]
    assert reply.header("Location").endswith(f"/{bucket}/dir%2F%C3%A4%20b.txt")


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 131072, 131073, 3 * 1024 * 1024 + 7])
def test_sizes(post, s3, bucket, size):
    """The file's end is found by its delimiter alone, whatever bytes come before it."""
    content = (b"\r\n--" + BOUNDARY.encode()[:-1] + b"\r\r\n-" + bytes(range(256))) * (size // 290 + 1)
    content = content[:size]
    assert post(Form(bucket), content).status == 204
    assert body_of(s3, bucket) == content


def test_byte_by_byte(server, s3, bucket):
    """A slow client's delimiter comes in pieces."""
    body = multipart(Form(bucket).fields, b"a\r\n--\r\nb\r\n")
    head = (f"POST /{bucket} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
            f'Content-Type: Multipart/Form-Data; charset=x; boundary="{BOUNDARY}"\r\n\r\n').encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(head)
        for at in range(len(body)):
            stream.sendall(body[at:at + 1])
        assert stream.recv(65536).startswith(b"HTTP/1.1 204")
    assert body_of(s3, bucket) == b"a\r\n--\r\nb\r\n"


@pytest.mark.parametrize("boundary", ["x", "--b--", "a b", "=_'()+,./:?" * 6, "0" * 190])
def test_boundaries(post, s3, bucket, boundary):
    """Every HTTP library invents its own."""
    quoted = f'"{boundary}"'
    body = multipart(Form(bucket).fields, b"bytes", boundary=boundary)
    reply = post([], body=body, headers={"Content-Type": f"multipart/form-data; boundary={quoted}"})
    assert reply.status == 204 and body_of(s3, bucket) == b"bytes"


def test_what_follows_the_file_is_ignored(post, s3, bucket):
    """AWS: the file is the last field. A submit button behind it is common."""
    body = multipart(Form(bucket).fields, b"bytes", end=b"")
    body += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="key"\r\n\r\nother\r\n--{BOUNDARY}--'.encode()
    assert post([], body=body + b"junk").status == 204
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


def test_fields_become_the_object(post, s3, bucket):
    """Metadata, system headers, tags and checksums as with PUT."""
    digest = base64.b64encode(hashlib.sha256(b"content").digest()).decode()
    fields = [("Content-Type", "image/png"), ("Cache-Control", "max-age=1"), ("Content-Disposition", "inline"),
              ("Content-Encoding", "gzip"), ("Content-Language", "de"), ("Expires", "Fri, 21 Mar 2036 00:00:00 GMT"),
              ("x-amz-meta-Colour", "grün"), ("x-amz-storage-class", "STANDARD"), ("x-amz-checksum-sha256", digest),
              ("Content-MD5", base64.b64encode(hashlib.md5(b"content").digest()).decode()),
              ("x-amz-website-redirect-location", "/x"), ("x-ignore-me", "1"),
              ("tagging", "<Tagging><TagSet><Tag><Key>a b</Key><Value>=c/d</Value></Tag></TagSet></Tagging>")]
    assert post(Form(bucket, fields)).status == 204
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["ContentType"], head["CacheControl"], head["ContentDisposition"], head["ContentEncoding"],
            head["ContentLanguage"]) == ("image/png", "max-age=1", "inline", "gzip", "de")
    assert head["Metadata"] == {"colour": "=?UTF-8?B?Z3LDvG4=?="}  # "grün", as AWS gives it back
    assert head["ChecksumSHA256"] == digest
    assert head["WebsiteRedirectLocation"] == "/x"
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a b", "Value": "=c/d"}]


@pytest.mark.parametrize("field,code", [
    (("Content-MD5", base64.b64encode(hashlib.md5(b"other").digest()).decode()), "BadDigest"),
    (("Content-MD5", "xx"), "InvalidDigest"),
    (("x-amz-checksum-crc32", "AAAAAA=="), "BadDigest"),
    (("x-amz-checksum-crc32", "bad"), "InvalidRequest"),
    (("x-amz-checksum-nonsense", "AAAAAA=="), "InvalidRequest"),
    (("x-amz-storage-class", "NONSENSE"), "InvalidStorageClass"),
    (("x-amz-website-redirect-location", "ftp://x"), "InvalidRedirectLocation"),
    (("tagging", "a=b"), "MalformedXML"),
    (("acl", "nonsense"), "InvalidArgument"),
    (("x-amz-meta-a", "b\r\nX-Injected: 1"), "InvalidArgument"),
    (("x-amz-meta-a", "b" * 2049), "MetadataTooLarge"),
])
def test_bad_fields(post, s3, bucket, field, code):
    """Nothing of an upload that says something untrue about itself may become visible."""
    reply = post(Form(bucket, [field]))
    assert (reply.status, reply.code) == (400, code), reply.text
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("fields,wanted,xml", [([], 204, False), ([("success_action_status", "200")], 200, False),
                                               ([("success_action_status", "201")], 201, True),
                                               ([("success_action_status", "404")], 204, False)])
def test_status(post, s3, bucket, fields, wanted, xml):
    """Old Flash uploaders need 201 and its document; anything else means 204."""
    reply = post(Form(bucket, fields, key="a/b c&d"))
    assert reply.status == wanted
    etag = s3.head_object(Bucket=bucket, Key="a/b c&d")["ETag"]
    if xml:
        assert reply.element("Key") == "a/b c&amp;d" and reply.element("Bucket") == bucket
        assert reply.element("ETag") == etag
        assert reply.element("Location") == reply.header("Location")
        assert reply.header("Location").endswith(f"/{bucket}/a%2Fb%20c%26d")
    else:
        assert reply.text == ""


@pytest.mark.parametrize("field", ["success_action_redirect", "redirect"])
@pytest.mark.parametrize("url,wanted", [("http://h.example/done", "http://h.example/done?"),
                                        ("https://h.example/done?a=b", "https://h.example/done?a=b&"),
                                        ("javascript:alert(1)", None)])
def test_redirect(post, s3, bucket, field, url, wanted):
    """The page behind the upload learns what was uploaded from the query."""
    reply = post(Form(bucket, [(field, url)], key="a&b"))
    if wanted is None:
        assert reply.status == 204
        return
    etag = urllib.parse.quote(s3.head_object(Bucket=bucket, Key="a&b")["ETag"])
    assert reply.status == 303 and reply.header("Location") == f"{wanted}bucket={bucket}&key=a%26b&etag={etag}"


POLICY_OK = '{"expiration":"2144-11-08T04:19:33Z","conditions":[%s]}'


@pytest.mark.parametrize("document,text", [
    ("", "Invalid Policy: Expecting '{' but found End-of-Input"),
    (None, "Invalid Policy: invalid Base64 encoding."),
    ("nonsense", "Invalid Policy: Invalid JSON."),
    ("[]", "Invalid Policy: Invalid JSON."),
    ('{"conditions":[]}', "Invalid Policy: Policy missing expiration."),
    ('{"EXPIRATION":"2144-11-08T04:19:33Z","conditions":[]}', "Invalid Policy: Policy missing expiration."),
    ('{"expiration":"2144-11-08T04:19:33Z"}', "Invalid Policy: Policy missing conditions."),
    ('{"expiration":"tomorrow","conditions":[]}', "Invalid Policy: Invalid 'expiration' value: 'tomorrow'"),
    ('{"expiration":"2144-11-08T04:19:33Z","conditions":true}',
     "Invalid Policy: Invalid 'conditions' value: must be a List."),
    ('{"expiration":"2144-11-08T04:19:33Z","conditions":[],"extra":1}', 'Invalid Policy: Unexpected: "extra"'),
    (POLICY_OK % "true", "Invalid Policy: Invalid condition test: must be a List or Object."),
    (POLICY_OK % "[]", "Invalid Policy: Invalid Condition: missing operation identifier."),
    (POLICY_OK % '["like","$key","a"]', "Invalid Policy: Invalid Condition: unknown operation 'like'."),
    (POLICY_OK % '["eq","$key"]', "Invalid Policy: Invalid eq: wrong number of arguments."),
    (POLICY_OK % '["content-length-range",0]', "Invalid Policy: Invalid content-length-range: wrong number of "
                                               "arguments."),
    (POLICY_OK % '["content-length-range",-1,5]', "Invalid Policy: Invalid JSON."),
    (POLICY_OK % "{}", "Invalid Policy: Invalid Simple-Condition: Simple-Conditions must have exactly one property "
                       "specified."),
    (POLICY_OK % '{"key":1}', "Invalid Policy: Invalid Simple-Condition: value must be a string."),
])
def test_bad_policies(post, bucket, document, text):
    """A page's author finds the mistake by these words."""
    policy = "not base64!" if document is None else base64.b64encode(document.encode()).decode()
    reply = post(Form(bucket, policy=policy))
    assert (reply.status, reply.code, reply.element("Message")) == (400, "InvalidPolicyDocument", text)


@pytest.mark.parametrize("fields,conditions,text", [
    ([], [["eq", "$key", "other"]], 'Policy Condition failed: ["eq", "$key", "other"]'),
    ([], [["starts-with", "$key", "x"]], 'Policy Condition failed: ["starts-with", "$key", "x"]'),
    ([], [["starts-with", "$key", ""], {"bucket": "other"}], 'Policy Condition failed: ["eq", "$bucket", "other"]'),
    ([], [["starts-with", "$key", ""], {"acl": "private"}], 'Policy Condition failed: ["eq", "$acl", "private"]'),
    ([], [["eq", "key", "k"]], 'Policy Condition failed: ["eq", "key", "k"]'),
    ([("Content-Type", "text/a, image/b")], [["starts-with", "$key", ""], ["starts-with", "$Content-Type", "text/"]],
     'Policy Condition failed: ["starts-with", "$Content-Type", "text/"]'),
    ([("x-amz-meta-a", "b")], [["starts-with", "$key", ""]], "Extra input fields: x-amz-meta-a"),
    ([("acl", "private")], [["starts-with", "$key", ""]], "Extra input fields: acl"),
    ([], [], "Extra input fields: key"),
])
def test_what_a_policy_forbids(post, s3, bucket, fields, conditions, text):
    """The form is in the hands of whoever has the page: the policy is all that binds them."""
    reply = post(Form(bucket, fields, conditions))
    assert (reply.status, reply.code) == (403, "AccessDenied"), reply.text
    assert reply.element("Message") == f"Invalid according to Policy: {text}"
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_policy_needs_the_bucket(post, bucket):
    """Else a form for one bucket would be good for all of its signer's."""
    form = Form("another", [], None)
    assert 'Policy Condition failed: ["eq", "$bucket", "another"]' in post(form).element("Message")
    text = json.loads(base64.b64decode(dict(form.fields)["policy"]))
    text["conditions"] = [c for c in text["conditions"] if "bucket" not in c]
    policy = base64.b64encode(json.dumps(text).encode()).decode()
    assert post(Form(bucket, policy=policy)).code == "AccessDenied"


def test_names_in_any_case(post, s3, bucket):
    """AWS compares the names of fields and operations without case."""
    form = Form(bucket, [("X-Amz-Meta-A", "b")], [["StArTs-WiTh", "$KeY", "k"], ["EQ", "$x-amz-META-a", "b"]])
    form.fields = [("kEy" if name == "key" else name, value) for name, value in form.fields]
    assert post(form).status == 204
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"a": "b"}


def test_expired(post, bucket):
    """A form in a cached page must end some day."""
    reply = post(Form(bucket, expires_s=-60))
    assert (reply.status, reply.code) == (403, "AccessDenied")
    assert reply.element("Message") == "Invalid according to Policy: Policy expired."


def test_length_range(post, s3, bucket):
    """The only bound on what strangers upload; also when the length is not known beforehand."""
    assert post(Form(bucket, more=[["content-length-range", 7, 7]])).status == 204
    reply = post(Form(bucket, key="b", more=[["content-length-range", 8, 100]]))
    assert (reply.status, reply.code, reply.element("ProposedSize"), reply.element("MinSizeAllowed")) == \
        (400, "EntityTooSmall", "7", "8")
    reply = post(Form(bucket, key="b", more=[["content-length-range", 0, 6]]))
    assert (reply.status, reply.code, reply.element("MaxSizeAllowed")) == (400, "EntityTooLarge", "6")
    reply = post(Form(bucket, key="b", more=[["content-length-range", 0, 1000000]]), b"x" * 1000001)
    assert (reply.status, reply.code) == (400, "EntityTooLarge")
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


def test_signatures(post, bucket):
    """What is signed is the policy, by the secret of the key that the form names."""
    wrong = Form(bucket, secret="another secret")
    reply = post(wrong)
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert reply.element("StringToSign") == dict(wrong.fields)["policy"]
    reply = post(Form(bucket, access_key="NOSUCHKEY"))
    assert (reply.status, reply.code, reply.element("AWSAccessKeyId")) == (403, "InvalidAccessKeyId", "NOSUCHKEY")
    reply = post(Form(bucket, region="eu-north-9"))
    assert reply.code == "InvalidArgument" and 'the region "eu-north-9" is wrong' in reply.element("Message")
    old = (now() - datetime.timedelta(days=8)).strftime("%Y%m%dT%H%M%SZ")
    assert post(Form(bucket, date=old)).code == "AccessDenied"


@pytest.mark.parametrize("name", ["policy", "x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm"])
def test_a_signature_is_whole_or_not_there(post, bucket, name):
    """Taking half of one for none would make an upload anonymous by mistake."""
    form = Form(bucket)
    form.fields = [field for field in form.fields if field[0] != name]
    reply = post(form)
    assert (reply.status, reply.code, reply.element("ArgumentName")) == (400, "InvalidArgument", name)
    assert f"Bucket POST must contain a field named '{name}'." in reply.element("Message")


@pytest.mark.parametrize("name,value,text", [
    ("x-amz-algorithm", "AWS4-HMAC-SHA1", "Only AWS4-HMAC-SHA256 is supported"),
    ("x-amz-date", "yesterday", "X-Amz-Date must be formated via ISO8601 Long format"),
    ("x-amz-credential", "none", "the Credential is mal-formed"),
    ("x-amz-credential", f"{ACCESS_KEY}/20200101/{REGION}/s3/aws4_request", "Invalid credential date"),
])
def test_malformed_signatures(post, bucket, name, value, text):
    """Each complaint names the field that is wrong."""
    form = Form(bucket)
    form.fields = [(n, value if n == name else v) for n, v in form.fields]
    reply = post(form)
    assert (reply.status, reply.code) == (400, "InvalidArgument") and text in reply.element("Message")


def test_sigv2_is_checked(post, bucket):
    """boto3 makes version 2 forms unasked, so they are taken (test_sigv2.py), and only when signed."""
    reply = post([("key", "k"), ("AWSAccessKeyId", ACCESS_KEY), ("signature", "x"), ("policy", "e30=")])
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")


def test_anonymous(post, s3, bucket):
    """Without a policy anybody could upload anything: only when the bucket says so."""
    fields = [("key", "open/k"), ("Content-Type", "text/plain")]
    reply = post(fields)
    assert (reply.status, reply.code) == (403, "AccessDenied")
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/open/*"}]}))
    assert post(fields).status == 204
    assert body_of(s3, bucket, "open/k") == b"content"
    assert post([("key", "closed/k")]).status == 403
    s3.delete_bucket_policy(Bucket=bucket)


@pytest.mark.parametrize("body,code", [
    (b"", "MalformedPOSTRequest"),
    (b"no delimiter at all", "MalformedPOSTRequest"),
    (f"--{BOUNDARY}\r\n\r\nno headers\r\n--{BOUNDARY}--\r\n".encode(), "MalformedPOSTRequest"),
    (f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--{BOUNDARY}--\r\n".encode(), "MalformedPOSTRequest"),
    (f"--{BOUNDARY}junk\r\n".encode(), "MalformedPOSTRequest"),
    (multipart([("key", "k")], None), "InvalidArgument"),
    (multipart([("key", "k"), ("KEY", "j")]), "InvalidArgument"),
    (multipart([("key", "k"), ("x-amz-meta-a", "x" * 20480)]), "MaxPostPreDataLengthExceededError"),
    (multipart([("key", "k")] + [(f"f{i}", "x") for i in range(200)]), "MaxPostPreDataLengthExceededError"),
])
def test_bodies_that_are_no_form(post, s3, bucket, body, code):
    """Whatever a client sends, it gets an answer that says what is wrong, and nothing is stored."""
    reply = post([], body=body)
    assert (reply.status, reply.code) == (400, code), reply.text
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_the_file_must_end(post, s3, bucket):
    """A body that was cut must not become a shorter object."""
    reply = post([], body=multipart(Form(bucket).fields, b"half of it", end=b"")[:-4])
    assert (reply.status, reply.code) == (400, "MalformedPOSTRequest")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("kind,code", [("application/json", "PreconditionFailed"),
                                       ("multipart/form-data", "MalformedPOSTRequest"),
                                       ("multipart/form-data; boundary=", "MalformedPOSTRequest")])
def test_other_content_types(post, kind, code):
    """A POST on a bucket is a form or nothing."""
    reply = post([], body=b"x", headers={"Content-Type": kind})
    assert reply.code == code and reply.status == (412 if code == "PreconditionFailed" else 400)
    if code == "PreconditionFailed":
        assert reply.element("Condition") == "Bucket POST must be of the enclosure-type multipart/form-data"


@pytest.mark.parametrize("key,code", [("", "InvalidArgument"), ("x" * 1025, "KeyTooLongError"),
                                      (b"\xff\xfe", "InvalidArgument")])
def test_keys(post, bucket, key, code):
    """The key of a form is held to what holds for every key."""
    assert post(Form(bucket, key="k").fields[1:] + [("key", key)], b"x").code == code


def test_virtual_host(post, s3, bucket, server):
    """https://BUCKET.s3.../ is the action of AWS's own examples."""
    reply = post(Form(bucket), path="/", headers={"Host": f"{bucket}.s3.localhost:{server.port}"})
    assert reply.status == 204 and reply.header("Location") == f"http://{bucket}.s3.localhost:{server.port}/k"
    assert body_of(s3, bucket) == b"content"
    assert post(Form("no-such-bucket-here"), path="/no-such-bucket-here").code == "NoSuchBucket"


def test_versions(post, s3, bucket):
    """A form upload is a write like others: it makes a version, and says which."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [post(Form(bucket), text).header("x-amz-version-id") for text in (b"one", b"two")]
    assert len(set(ids)) == 2
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=ids[0])["Body"].read() == b"one"
    for version in ids:
        s3.delete_object(Bucket=bucket, Key="k", VersionId=version)


def test_one_connection_for_many_forms(server, s3, bucket):
    """A connection that is kept must not mix one form's rest with the next request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for i in range(5):
        body = multipart(Form(bucket, key=f"k{i}").fields, b"x" * (i * 20000), end=b"" if i == 2 else None)
        connection.request("POST", f"/{bucket}", body=body + (b"--" + BOUNDARY.encode() + b"--\r\nrest" if i == 2 else b""),
                           headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (204, b"")
    connection.close()
    assert [o["Size"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [0, 20000, 40000, 60000, 80000]
