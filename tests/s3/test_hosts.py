"""Hosts: virtual-host style in all its forms, next to path style on the same port (user-reports 5, 6 and the list)."""
import http.client
import socket

import boto3
import pytest
from botocore.config import Config

from kist import ACCESS_KEY, REGION, SECRET_KEY, Server
from raw import Raw

DOMAINS = "s3.localhost,*.wild.localhost,s3.*.region.localhost,storage.s3.localhost"


@pytest.fixture(scope="module")
def server():
    with Server(arguments=["--domain", DOMAINS, "--website-domain", "web.localhost"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(server):
    return server.client()


@pytest.fixture(scope="module")
def raw(server):
    return Raw(server)


@pytest.fixture
def dotted(s3):
    name = "a.dotted.bucket"
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="k", Body=b"dotted")
    yield name
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("host", ["{b}.s3.localhost", "{b}.s3.localhost:{p}", "{b}.s3.localhost:80", "{b}.S3.LocalHost",
                                  "{b}.s3.localhost.", "{b}.s3.localhost.:{p}", "{b}.wild.localhost",
                                  "{b}.s3.us-east-1.region.localhost", "{b}.s3.eu-1.region.localhost:{p}",
                                  "{b}.storage.s3.localhost"])
def test_bucket_in_the_host(raw, s3, server, bucket, host):
    """Signatures cover the Host as sent; the bucket comes from it whatever its case, port or last dot."""
    s3.put_object(Bucket=bucket, Key="dir/k", Body=b"bytes")
    host = host.format(b=bucket, p=server.port)
    reply = raw.send("GET", "/dir/k", host=host)
    assert (reply.status, reply.body) == (200, b"bytes"), reply.body
    assert b"<Key>dir/k</Key>" in raw.send("GET", "/", host=host).body
    assert raw.send("PUT", f"/{bucket}", body=b"a key", host=host).status == 200  # not the bucket again
    assert s3.get_object(Bucket=bucket, Key=bucket)["Body"].read() == b"a key"


@pytest.mark.parametrize("host", ["s3.localhost", "s3.localhost:{p}", "S3.localhost.", "wild.localhost",
                                  "s3.us-east-1.region.localhost", "storage.s3.localhost", "127.0.0.1:{p}", "[::1]:{p}",
                                  "[::1]", "localhost", "other.example:{p}", "10.0.0.1", "us-east-1.region.localhost"])
def test_path_style_everywhere_else(raw, s3, server, bucket, host):
    """A client that was told the endpoint only must find its buckets in the path (pgbackrest#1380)."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    host = host.format(p=server.port)
    assert raw.send("GET", f"/{bucket}/k", host=host).body == b"bytes"
    assert f"<Name>{bucket}</Name>".encode() in raw.send("GET", "/", host=host).body


@pytest.mark.parametrize("host", ["{b}.s3.localhost", "{b}.wild.localhost", "{b}.s3.x.region.localhost"])
def test_dots_in_bucket_names(raw, dotted, host):
    """duckdb-httpfs#283: everything before the domain is the bucket, dots and all."""
    reply = raw.send("GET", "/k", host=host.format(b=dotted))
    assert (reply.status, reply.body) == (200, b"dotted"), reply.body
    assert raw.send("GET", f"/{dotted}/k").body == b"dotted"


def test_the_longest_domain_counts(raw, s3):
    """With NAME and sub.NAME both listed, "sub" is not a bucket."""
    reply = raw.send("GET", "/", host="storage.s3.localhost")
    assert b"<ListAllMyBucketsResult" in reply.body


@pytest.mark.parametrize("host,status,code", [
    ("no-such-bucket.s3.localhost", 404, "NoSuchBucket"), ("x.s3.localhost", 400, "InvalidBucketName"),
    (".s3.localhost", 200, None)])
def test_hosts_that_name_no_bucket(raw, host, status, code):
    """The wrong bucket gets its own error, never the list of all buckets."""
    reply = raw.send("GET", "/", host=host)
    assert (reply.status, reply.code) == (status, code)


def test_a_website_host_is_no_endpoint(raw, s3, bucket):
    """Signed requests to the website's domain are answered as a website would."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    reply = raw.send("GET", "/k", host=f"{bucket}.web.localhost")
    assert reply.status == 404 and b"NoSuchWebsiteConfiguration" in reply.body


def client(server, style, host):
    return boto3.client("s3", endpoint_url=f"http://{host}:{server.port}", aws_access_key_id=ACCESS_KEY,
                        aws_secret_access_key=SECRET_KEY, region_name=REGION,
                        config=Config(signature_version="s3v4", s3={"addressing_style": style}))


@pytest.mark.parametrize("style", ["path", "virtual", "auto"])
@pytest.mark.parametrize("key", ["a b", "ü/ß", "x=y&z", "a+b", "%41", "a//b", "/lead"])
def test_sdk_styles(server, s3, bucket, virtual_names, style, key):
    """The bucket is not in the canonical path of a virtual host: keys of every kind, signed and presigned."""
    other = client(server, style, "s3.localhost")
    other.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"bytes"
    url = other.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key})
    host = url.split("/")[2]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", url[url.index("/", 8):], headers={"Host": host})
    assert connection.getresponse().read() == b"bytes"
    connection.close()
    assert (host.split(":")[0] == f"{bucket}.s3.localhost") == (style == "virtual")


def test_without_a_host(server):
    """HTTP/1.1 demands one; 1.0 need not have it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stream:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b" 403 " in stream.recv(65536).split(b"\r\n")[0]


@pytest.mark.parametrize("value", ["a..b", ".a", "a b", "*", "-a", "a,,b", "a/b", "s3.*"])
def test_bad_domains_are_refused(value):
    """A domain that can never match would be a silent mistake."""
    with pytest.raises(RuntimeError, match="--domain"):
        with Server(arguments=["--domain", value]):
            pass


def test_a_domain_is_one_or_the_other():
    """A host cannot be the endpoint and a website's at once."""
    with pytest.raises(RuntimeError, match="website-domain"):
        with Server(arguments=["--domain", "a.b,c.d", "--website-domain", "C.d"]):
            pass
