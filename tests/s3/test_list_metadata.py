"""metadata=true of listings: metadata and tags of each entry, in MinIO's form."""
import json
import re
from urllib.parse import parse_qsl

import pytest

from raw import path


def entries(reply, element):
    assert reply.status == 200, reply.body
    found = {}
    for entry in re.findall(f"<{element}>(.*?)</{element}>", reply.body.decode(), re.S):
        key = re.search("<Key>(.*?)</Key>", entry).group(1)
        block = re.search("<UserMetadata>(.*?)</UserMetadata>", entry, re.S)
        metadata = dict(re.findall("<([^<>/]+)>([^<]*)</", block.group(1))) if block else None
        tags = re.search("<UserTags>(.*?)</UserTags>", entry)
        found[key] = (metadata, dict(parse_qsl(tags.group(1).replace("&amp;", "&"))) if tags else None)
    return found


FORMS = [("list-type=2&metadata=true", "Contents"), ("metadata=true", "Contents"), ("metadata=true&versions=", "Version")]


@pytest.mark.parametrize("query,element", FORMS)
def test_shown(s3, raw, bucket, query, element):
    """One listing tells what a HEAD of each key would: that is what replication and search tools ask for."""
    user = {"one": "=?UTF-8?B?MSA8Jj4gw7w=?=", "Two": "2"}
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", Metadata=user, ContentType="text/x",
                  CacheControl="no-store", Tagging="k%2B=v%3D1&l=%C3%BC")
    s3.put_object(Bucket=bucket, Key="b", Body=b"1")
    found = entries(raw.send("GET", path(bucket) + "?" + query), element)
    metadata, tags = found["a"]
    assert metadata["X-Amz-Meta-one"] == "1 &lt;&amp;&gt; ü" and metadata["X-Amz-Meta-two"] == "2"
    assert metadata["content-type"] == "text/x" and metadata["cache-control"] == "no-store"
    assert tags == {"k+": "v=1", "l": "ü"}
    assert found["b"][1] is None and not any(name.startswith("X-Amz-Meta-") for name in found["b"][0])
    plain = raw.send("GET", path(bucket) + "?" + query.replace("metadata=true", "metadata=false"))
    assert b"UserMetadata" not in plain.body and b"UserTags" not in plain.body


def test_pages_are_bounded(s3, raw, bucket):
    """Pages with much metadata are shorter, not megabytes; nothing is lost between them."""
    from concurrent.futures import ThreadPoolExecutor
    tags = "&".join(f"{n}{'k' * 100}={'%C3%BC' * 250}" for n in range(10))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: s3.put_object(Bucket=bucket, Key=f"{n:04}", Body=b"", Tagging=tags), range(400)))
    keys, token, pages = [], "", 0
    while True:
        reply = raw.send("GET", path(bucket) + f"?list-type=2&metadata=true{token}")
        assert len(reply.body) < 16 << 20
        keys += entries(reply, "Contents")
        pages += 1
        following = reply.element("NextContinuationToken")
        if following is None:
            break
        token = f"&continuation-token={following}"
    assert keys == [f"{n:04}" for n in range(400)] and pages > 1


def test_rights(s3, raw, bucket):
    """Listing alone does not read: metadata needs GetObject, tags GetObjectTagging, key by key."""
    s3.put_object(Bucket=bucket, Key="shown/a", Body=b"1", Metadata={"m": "1"}, Tagging="t=1")
    s3.put_object(Bucket=bucket, Key="hidden/a", Body=b"1", Metadata={"m": "1"}, Tagging="t=1")
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectTagging"],
         "Resource": f"arn:aws:s3:::{bucket}/hidden/*"}]}))
    found = entries(raw.send("GET", path(bucket) + "?list-type=2&metadata=true"), "Contents")
    assert found["shown/a"][0]["X-Amz-Meta-m"] == "1" and found["shown/a"][1] == {"t": "1"}
    assert found["hidden/a"] == (None, None)
    s3.delete_bucket_policy(Bucket=bucket)


def test_optional_attributes(raw, bucket, s3):
    """RestoreStatus may be asked for: no object here is ever being restored."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    reply = raw.send("GET", path(bucket) + "?list-type=2", [("x-amz-optional-object-attributes", "RestoreStatus")])
    assert reply.status == 200 and b"RestoreStatus" not in reply.body
