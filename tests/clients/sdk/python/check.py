"""Checks an S3 endpoint with minio-py. Prints "ok NAME" or "FAIL NAME: why" a check; ends with 1 after a failure."""
import hashlib
import io
import os
import sys
import time
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from minio import Minio
from minio.commonconfig import ENABLED, CopySource, Tags
from minio.deleteobjects import DeleteObject
from minio.versioningconfig import VersioningConfig

BUCKET = f"mpy-{time.time_ns()}"
BODY = bytes((i * 7 + i // 251) % 256 for i in range(1 << 20)) * 12
failed = False


def check(name):
    def run(body):
        global failed
        try:
            body()
            print("ok", name)
        except Exception as error:  # any: it is the result
            failed = True
            print(f"FAIL {name}: {type(error).__name__} {error}")
    return run


client = Minio(urlsplit(os.environ["SDK_ENDPOINT"]).netloc, access_key=os.environ["SDK_ACCESS_KEY"],
               secret_key=os.environ["SDK_SECRET_KEY"], secure=False)


def named(method, *arguments, **options):
    """minio-py 7.2 takes names by position, later ones by keyword only."""
    order = ("bucket_name", "object_name", "data", "length")
    try:
        return method(**dict(zip(order, arguments)), **options)
    except TypeError:
        return method(*arguments, **options)


@check("minio-py-put-get")
def _():
    named(client.make_bucket, BUCKET)
    named(client.put_object, BUCKET, "dir/ä + b", io.BytesIO(BODY), len(BODY), part_size=5 << 20, metadata={"color": "blue"})
    reply = named(client.get_object, BUCKET, "dir/ä + b")
    assert hashlib.sha256(reply.read()).digest() == hashlib.sha256(BODY).digest()
    reply.close()


@check("minio-py-list")
def _():
    assert [o.object_name for o in named(client.list_objects, BUCKET, recursive=True)] == ["dir/ä + b"]


@check("minio-py-copy")
def _():
    named(client.copy_object, BUCKET, "copy", source=CopySource(bucket_name=BUCKET, object_name="dir/ä + b"))
    assert named(client.stat_object, BUCKET, "copy").size == len(BODY)


@check("minio-py-presigned")
def _():
    import urllib.request
    url = named(client.presigned_get_object, BUCKET, "copy", expires=timedelta(minutes=1))
    with urllib.request.urlopen(url) as reply:
        assert len(reply.read()) == len(BODY)


@check("minio-py-tags-versions")
def _():
    tags = Tags.new_object_tags()
    tags["a"] = "b"
    named(client.set_object_tags, BUCKET, "copy", tags=tags)
    assert named(client.get_object_tags, BUCKET, "copy")["a"] == "b"
    named(client.set_bucket_versioning, BUCKET, config=VersioningConfig(ENABLED))
    assert named(client.get_bucket_versioning, BUCKET).status == ENABLED


@check("minio-py-remove-many")
def _():
    names = [DeleteObject("copy"), DeleteObject("dir/ä + b")]
    assert list(named(client.remove_objects, BUCKET, delete_object_list=names)) == []


print(datetime.now(timezone.utc).isoformat(), file=sys.stderr)
sys.exit(1 if failed else 0)
