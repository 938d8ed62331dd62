#!/usr/bin/env python3
"""Writes sigv4_vectors.def: requests as botocore signs them, for keys that have broken servers before.

    python3 sigv4_vectors.py > sigv4_vectors.def        (needs boto3; the clock is fixed)
"""
import datetime
import io
import urllib.parse

import boto3
import botocore.auth
import botocore.awsrequest
from botocore.config import Config

NOW = datetime.datetime(2026, 11, 30, 12, 52, 55)
KEYS = ["/a", "a//b", "a/./b", "a/../b", "a b", "a+b", "a%2Fb", "\u00e9", "\U0001f600", "x=y", "%61.txt", "a&b?c#d",
        "~tilde-._", "quote'\"<>", "trailing/"]

botocore.auth.get_current_datetime = lambda *args, **kwargs: NOW


def text(value):
    out = ""
    for byte in value.encode("latin-1") if isinstance(value, str) else value:
        if byte == 0x0d:
            out += "\\r"
        elif byte == 0x0a:
            out += "\\n"
        elif byte in (0x22, 0x5c) or not 0x20 <= byte < 0x7f or byte == 0x3f:
            out += "\\%03o" % byte
        else:
            out += chr(byte)
    return out


def emit(name, request):
    url = urllib.parse.urlsplit(request.url)
    target = url.path + ("?" + url.query if url.query else "")
    head = request.method + " " + target + " HTTP/1.1\r\n"
    headers = {k.lower(): v.decode("latin-1") if isinstance(v, bytes) else v for k, v in request.headers.items()}
    headers.setdefault("host", url.netloc)
    for key, value in headers.items():
        if key not in ("user-agent", "amz-sdk-request", "amz-sdk-invocation-id", "expect"):
            head += key + ": " + value + "\r\n"
    print('SIGV4_VECTOR("%s",\n    "%s")' % (text(name.encode("utf-8")), text(head)))


class Stop(Exception):
    pass


def main():
    print("/* Made by sigv4_vectors.py with botocore %s. Name of the case, head of the request. */"
          % botocore.__version__)
    for style in ("path", "virtual"):
        client = boto3.client("s3", region_name="us-east-1", endpoint_url="http://s3.example.com:9000",
                              aws_access_key_id="AKIDEXAMPLE",
                              aws_secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                              config=Config(signature_version="s3v4", s3={"addressing_style": style}))
        case = [""]

        def capture(request, **_):
            emit(case[0], request)
            raise Stop()

        client.meta.events.register("before-send.s3", capture)

        def run(name, call, **args):
            case[0] = style + " " + name
            try:
                call(Bucket="bucket", **args)
            except Stop:
                pass

        for key in KEYS:
            run("get " + key, client.get_object, Key=key)
            url = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key}, ExpiresIn=3600)
            emit(style + " presigned " + key, botocore.awsrequest.AWSRequest("GET", url))
        run("put default checksum", client.put_object, Key="k", Body=b"hello")
        run("put metadata", client.put_object, Key="k", Body=b"hello", Metadata={"a": "two  blanks", "b": "x"})
        run("put content-md5", client.put_object, Key="k", Body=b"hello", ContentMD5="XUFAKrxLKna5cZ2REBfFkg==")
        run("list", client.list_objects_v2, Prefix="a b+c/", Delimiter="/", StartAfter="\u00e9", MaxKeys=7)
        run("delete many", client.delete_objects, Delete={"Objects": [{"Key": "a"}]})
        url = client.generate_presigned_url(
            "put_object", Params={"Bucket": "bucket", "Key": "k", "ContentType": "text/plain"}, ExpiresIn=604800)
        request = botocore.awsrequest.AWSRequest("PUT", url)
        request.headers["content-type"] = "text/plain"
        emit(style + " presigned put", request)
        url = client.generate_presigned_url(
            "get_object", Params={"Bucket": "bucket", "Key": "k", "ResponseContentDisposition": "a; filename=\"b c\""})
        emit(style + " presigned override", botocore.awsrequest.AWSRequest("GET", url))


main()
