"""Buckets as websites: documents, redirects, error pages, and who may see them."""
import http.client
import json
import re

import pytest

from kist import Server

DOMAIN = "web.localhost"


@pytest.fixture(scope="module")
def server():
    with Server(arguments=["--domain", "s3.localhost", "--website-domain", f"{DOMAIN},*"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


class Site:
    def __init__(self, server, s3, bucket):
        self.server, self.s3, self.bucket, self.host = server, s3, bucket, f"{bucket}.{DOMAIN}:{server.port}"

    def ask(self, path, method="GET", headers=None, host=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        connection.request(method, path, body=body, headers={"Host": host or self.host, **(headers or {})})
        reply = connection.getresponse()
        reply.text = reply.read().decode()
        connection.close()
        return reply

    def configure(self, **settings):
        self.s3.put_bucket_website(Bucket=self.bucket, WebsiteConfiguration={
            "IndexDocument": {"Suffix": "index.html"}, **settings})

    def publish(self, keys="*"):
        self.s3.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{self.bucket}/{keys}"}]}))

    def put(self, **files):
        for key, text in files.items():
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=text.encode(), ContentType="text/html")

    def redirect(self, path, **options):
        reply = self.ask(path, **options)
        return reply.status, reply.getheader("Location")


@pytest.fixture
def site(server, s3, bucket):
    made = Site(server, s3, bucket)
    made.configure()
    made.publish()
    yield made
    s3.delete_bucket_policy(Bucket=bucket)


def test_the_configuration_is_kept(s3, bucket, refused):
    """Terraform reads it back and plans again for ever when a field is lost."""
    with refused(404, "NoSuchWebsiteConfiguration") as refusal:
        s3.get_bucket_website(Bucket=bucket)
    assert refusal.response["Error"]["BucketName"] == bucket
    wanted = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "e/404.html"}, "RoutingRules": [
        {"Condition": {"KeyPrefixEquals": "a/", "HttpErrorCodeReturnedEquals": "404"},
         "Redirect": {"HostName": "h.example", "HttpRedirectCode": "302", "Protocol": "https",
                      "ReplaceKeyPrefixWith": "b/"}},
        {"Redirect": {"ReplaceKeyWith": "x.html"}}]}
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=wanted)
    got = s3.get_bucket_website(Bucket=bucket)
    assert {k: got[k] for k in wanted} == wanted
    wanted = {"RedirectAllRequestsTo": {"HostName": "www.example", "Protocol": "https"}}
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=wanted)
    got = s3.get_bucket_website(Bucket=bucket)
    assert got["RedirectAllRequestsTo"] == wanted["RedirectAllRequestsTo"] and "IndexDocument" not in got
    s3.delete_bucket_website(Bucket=bucket)
    s3.delete_bucket_website(Bucket=bucket)
    with refused(404, "NoSuchWebsiteConfiguration"):
        s3.get_bucket_website(Bucket=bucket)


def index(suffix="index.html"):
    return {"IndexDocument": {"Suffix": suffix}}


def rule(redirect=None, **condition):
    made = {"Redirect": redirect if redirect is not None else {"HostName": "h.example"}}
    if condition:
        made["Condition"] = condition
    return {**index(), "RoutingRules": [made]}


@pytest.mark.parametrize("configuration,code,text", [
    ({}, "MalformedXML", None),
    ({"ErrorDocument": {"Key": "e"}}, "MalformedXML", None),
    (index(""), "InvalidArgument", "The IndexDocument Suffix is not well formed"),
    (index("a/b"), "InvalidArgument", "The IndexDocument Suffix is not well formed"),
    ({**index(), "RedirectAllRequestsTo": {"HostName": "h"}}, "MalformedXML", None),
    ({"RedirectAllRequestsTo": {"HostName": "h", "Protocol": "ftp"}}, "InvalidRequest", "Invalid protocol"),
    ({"RedirectAllRequestsTo": {"HostName": "h\r\nX: y"}}, "InvalidArgument", None),
    (rule({}), "MalformedXML", None),
    (rule({"ReplaceKeyWith": "a", "ReplaceKeyPrefixWith": "b"}), "InvalidRequest",
     "You can only define ReplaceKeyPrefix or ReplaceKey but not both."),
    (rule({"HttpRedirectCode": "300"}), "InvalidRequest",
     "The provided HTTP redirect code (300) is not valid. Valid codes are 3XX except 300."),
    (rule({"HttpRedirectCode": "x"}), "MalformedXML", None),
    (rule(HttpErrorCodeReturnedEquals="418"), "InvalidRequest",
     "The provided HTTP error code (418) is not valid. Valid codes are 4XX or 5XX."),
    ({**index(), "RoutingRules": rule()["RoutingRules"] * 51}, "InvalidRequest",
     "51 routing rules provided, the number of routing rules in a website configuration is limited to 50."),
])
def test_a_bad_configuration_is_refused(s3, bucket, refused, configuration, code, text):
    """It would become a Location header, or a site that answers nothing."""
    with refused(400, code) as refusal:
        s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=configuration)
    if text:
        assert text in refusal.response["Error"]["Message"]


def test_index_documents(site):
    """A directory has a page of its own only through its index document (ceph PR 28904: slash or not)."""
    site.put(**{"index.html": "home", "docs/index.html": "docs", "plain": "plain", "my dir/index.html": "blank"})
    for path, text in (("/", "home"), ("/docs/", "docs"), ("/docs/index.html", "docs"), ("/plain", "plain"),
                       ("/my%20dir/", "blank"), ("/?list-type=2&versionId=x", "home"), ("/plain?acl", "plain")):
        reply = site.ask(path)
        assert (reply.status, reply.text, reply.getheader("Content-Type")) == (200, text, "text/html"), path
    assert site.redirect("/docs") == (302, "/docs/")
    assert site.redirect("/my%20dir") == (302, "/my%20dir/")
    assert site.ask("/docs", "HEAD").status == 302
    assert site.ask("/none/").status == 404


def test_no_redirect_to_another_host(site):
    """"//host/" as a Location is a link to that host: whoever may write a key must not get one."""
    site.put(**{"/evil.example/index.html": "x"})
    status, location = site.redirect("//evil.example")
    assert status == 404 or not location.startswith("//")


def test_the_object_is_served_as_get_object_does(site):
    """Players seek and browsers revalidate: the page must not be a poorer object than the object."""
    site.put(page="0123456789")
    assert site.ask("/page", headers={"Range": "bytes=2-4"}).text == "234"
    reply = site.ask("/page", headers={"Range": "bytes=2-4"})
    assert reply.status == 206 and reply.getheader("Content-Range") == "bytes 2-4/10"
    etag = site.ask("/page").getheader("ETag")
    assert site.ask("/page", headers={"If-None-Match": etag}).status == 304
    assert site.ask("/page", headers={"If-Match": '"0"'}).status == 412
    assert site.ask("/page", headers={"Range": "bytes=99-"}).status == 416
    head = site.ask("/page", "HEAD")
    assert head.status == 200 and head.getheader("Content-Length") == "10" and head.text == ""
    reply = site.ask("/page", headers={"Authorization": "AWS4-HMAC-SHA256 nonsense"})
    assert reply.status == 200  # websites know no signatures


def test_error_pages(site):
    """Without an error document a visitor sees AWS's page, and scripts its headers."""
    reply = site.ask("/no%20such%3Ckey%3E")
    assert reply.status == 404 and reply.getheader("Content-Type") == "text/html; charset=utf-8"
    assert reply.getheader("x-amz-error-code") == "NoSuchKey"
    assert reply.getheader("x-amz-error-message") == "The specified key does not exist."
    identity = re.search(r"<li>RequestId: (\w+)</li>\n<li>HostId: (\S+)</li>", reply.text)
    assert reply.getheader("x-amz-request-id") == identity.group(1)
    assert reply.text == (
        "<html>\n<head><title>404 Not Found</title></head>\n<body>\n<h1>404 Not Found</h1>\n<ul>\n"
        "<li>Code: NoSuchKey</li>\n<li>Message: The specified key does not exist.</li>\n"
        "<li>Key: no such&lt;key&gt;</li>\n"
        f"<li>RequestId: {identity.group(1)}</li>\n<li>HostId: {identity.group(2)}</li>\n</ul>\n<hr/>\n</body>\n"
        "</html>\n")
    head = site.ask("/none", "HEAD")
    assert (head.status, head.text, head.getheader("x-amz-error-code")) == (404, "", "NoSuchKey")


def test_error_document(site):
    """Its status stays that of the failure: a search engine must not take it for a page."""
    site.configure(ErrorDocument={"Key": "404.html"})
    reply = site.ask("/none")
    assert reply.status == 404 and "An Error Occurred While Attempting to Retrieve a Custom Error" in reply.text
    assert "<li>Key: 404.html</li>" in reply.text
    site.put(**{"404.html": "lost"})
    for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        reply = site.ask("/none", headers=headers)
        assert (reply.status, reply.text, reply.getheader("Content-Type")) == (404, "lost", "text/html")
    assert site.ask("/none", "HEAD").getheader("Content-Length") == "4"


def test_what_is_not_public(site, s3):
    """A website shows what everybody may read, and nothing else, the error document included."""
    site.put(**{"public/a": "a", "secret/b": "b", "404.html": "lost"})
    site.publish("public/*")
    site.configure(ErrorDocument={"Key": "404.html"})
    assert site.ask("/public/a").text == "a"
    reply = site.ask("/secret/b")
    assert reply.status == 403 and "<li>Code: AccessDenied</li>" in reply.text and "lost" not in reply.text
    assert site.ask("/secret/none").status == 403  # nor whether it exists
    site.publish()
    assert site.ask("/secret/b").text == "b"
    s3.delete_bucket_policy(Bucket=site.bucket)
    assert site.ask("/public/a").status == 403
    site.publish()


def test_redirect_of_everything(site):
    """example.com that leads to www.example.com keeps the path and the query."""
    site.s3.put_bucket_website(Bucket=site.bucket, WebsiteConfiguration={
        "RedirectAllRequestsTo": {"HostName": "www.example"}})
    assert site.redirect("/a%20b/c?x=1&y=2") == (301, "http://www.example/a%20b/c?x=1&y=2")
    site.s3.put_bucket_website(Bucket=site.bucket, WebsiteConfiguration={
        "RedirectAllRequestsTo": {"HostName": "www.example", "Protocol": "https"}})
    assert site.redirect("/", method="HEAD") == (301, "https://www.example/")


@pytest.mark.parametrize("condition,redirect,path,wanted", [
    ({"KeyPrefixEquals": "old/"}, {"ReplaceKeyPrefixWith": "new/"}, "/old/a%3Fb", (301, "http://{host}/new/a%3Fb")),
    ({"KeyPrefixEquals": "old/"}, {"ReplaceKeyWith": "gone.html"}, "/old/a", (301, "http://{host}/gone.html")),
    ({"KeyPrefixEquals": "old/"}, {"HostName": "h.example", "Protocol": "https", "HttpRedirectCode": "307"},
     "/old/a?q", (307, "https://h.example/old/a?q")),
    ({"HttpErrorCodeReturnedEquals": "404"}, {"ReplaceKeyPrefixWith": "#!/"}, "/app/x",
     (301, "http://{host}/#!/app/x")),
    ({"HttpErrorCodeReturnedEquals": "404", "KeyPrefixEquals": "app/"}, {"ReplaceKeyPrefixWith": "b/"}, "/app/x",
     (301, "http://{host}/b/x")),
    ({"HttpErrorCodeReturnedEquals": "404", "KeyPrefixEquals": "other/"}, {"HostName": "h"}, "/app/x", (404, None)),
    ({"HttpErrorCodeReturnedEquals": "403"}, {"HostName": "h"}, "/app/x", (404, None)),
    ({"HttpErrorCodeReturnedEquals": "404"}, {"HostName": "h"}, "/there", (200, None)),
    ({"KeyPrefixEquals": "there"}, {"HostName": "h"}, "/there", (301, "http://h/there")),
    (None, {"HostName": "h"}, "/there", (301, "http://h/there")),
])
def test_routing_rules(site, condition, redirect, path, wanted):
    """Single-page applications and moved trees live by these (ceph PR 32721: rules without a condition)."""
    site.put(there="x")
    made = {"Redirect": redirect, **({"Condition": condition} if condition else {})}
    site.configure(RoutingRules=[made])
    location = wanted[1] and wanted[1].format(host=site.host)
    assert site.redirect(path) == (wanted[0], location)


def test_the_first_rule_counts(site):
    """In the order of the document, also between rules for failures."""
    site.configure(RoutingRules=[
        {"Condition": {"HttpErrorCodeReturnedEquals": "404", "KeyPrefixEquals": "a/"}, "Redirect": {"HostName": "one"}},
        {"Condition": {"HttpErrorCodeReturnedEquals": "404"}, "Redirect": {"HostName": "two"}}])
    assert site.redirect("/a/x")[1].startswith("http://one/") and site.redirect("/b")[1].startswith("http://two/")


def test_redirect_of_one_object(site, s3):
    """x-amz-website-redirect-location: 301 on the website, a plain object elsewhere."""
    s3.put_object(Bucket=site.bucket, Key="moved", Body=b"old", WebsiteRedirectLocation="/index.html?a=b")
    assert site.redirect("/moved") == (301, "/index.html?a=b")
    got = s3.get_object(Bucket=site.bucket, Key="moved")
    assert got["Body"].read() == b"old" and got["WebsiteRedirectLocation"] == "/index.html?a=b"
    site.s3.delete_bucket_policy(Bucket=site.bucket)
    assert site.redirect("/moved") == (403, None)
    site.publish()


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_only_reading(site, method):
    """A website's host must not be a way around signatures for writes."""
    reply = site.ask("/index.html", method, body=b"x")
    assert reply.status == 405 and reply.getheader("Allow") == "GET, HEAD, OPTIONS"
    assert "<li>Code: MethodNotAllowed</li>" in reply.text and f"<li>Method: {method}</li>" in reply.text


def test_hosts(site, s3, server):
    """Upper case, a trailing dot, no port, and a bucket that is named as the whole host."""
    site.put(**{"index.html": "home"})
    for host in (f"{site.bucket}.{DOMAIN}", f"{site.bucket.upper()}.WEB.localhost.:{server.port}"):
        assert site.ask("/", host=host).text == "home"
    assert site.ask("/", host=f"no-such-site.{DOMAIN}").status == 404
    assert "<li>Code: NoSuchBucket</li>" in site.ask("/", host=f"no-such-site.{DOMAIN}").text
    for name in (f"www.{DOMAIN}", "www.own-name.example"):
        other = Site(server, s3, name)
        s3.create_bucket(Bucket=name)
        other.configure()
        other.publish()
        other.put(**{"index.html": name})
        assert other.ask("/", host=name).text == name
        assert other.ask(f"/{name}/index.html", host=f"127.0.0.1:{server.port}").text == name  # as S3
        s3.delete_object(Bucket=name, Key="index.html")
        s3.delete_bucket_website(Bucket=name)
        assert other.ask("/", host=name).status in (403, 404)
        s3.delete_bucket(Bucket=name)


def test_without_a_configuration(site, s3):
    """The page names what is missing, as AWS's does."""
    s3.delete_bucket_website(Bucket=site.bucket)
    reply = site.ask("/")
    assert reply.status == 404 and "<li>Code: NoSuchWebsiteConfiguration</li>" in reply.text
    assert f"<li>BucketName: {site.bucket}</li>" in reply.text


def test_cors_on_a_website(site, s3):
    """Fonts and modules are fetched across origins from websites most of all."""
    site.put(font="x")
    s3.put_bucket_cors(Bucket=site.bucket, CORSConfiguration={"CORSRules": [
        {"AllowedOrigins": ["https://a.example"], "AllowedMethods": ["GET"]}]})
    asked = {"Origin": "https://a.example"}
    for path in ("/font", "/none"):
        assert site.ask(path, headers=asked).getheader("Access-Control-Allow-Origin") == "https://a.example"
    reply = site.ask("/font", "OPTIONS", {**asked, "Access-Control-Request-Method": "GET"})
    assert reply.status == 200 and reply.getheader("Access-Control-Allow-Methods") == "GET"
    reply = site.ask("/font", "OPTIONS", {**asked, "Access-Control-Request-Method": "PUT"})
    assert reply.status == 403 and "<li>Code: AccessForbidden</li>" in reply.text
