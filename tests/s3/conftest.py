"""One server for all tests of this folder; a bucket of its own for each test."""
import itertools
import os
import socket
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
from kist import Server  # noqa: E402

from raw import Raw  # noqa: E402

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    directories = int(os.environ.get("KIST_TEST_DIRECTORIES", "1"))
    with Server(directories=directories, arguments=["--domain", "s3.localhost"]) as running:
        yield running


@pytest.fixture(scope="session")
def s3(server):
    return server.client()


@pytest.fixture(scope="session")
def raw(server):
    """Requests as they go on the wire, signed."""
    return Raw(server)


@pytest.fixture
def bucket(s3):
    name = f"test-{os.getpid()}-{next(numbers)}"
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def versioned(s3, bucket):
    """A bucket that keeps versions."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture
def locked(s3):
    """A bucket with object lock."""
    name = f"test-{os.getpid()}-{next(numbers)}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


def empty(s3, bucket):
    for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    bypass = {}
    try:
        s3.get_object_lock_configuration(Bucket=bucket)
        bypass = {"BypassGovernanceRetention": True}
    except ClientError:
        pass
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [{"Key": entry["Key"], "VersionId": entry["VersionId"]}
                 for entry in page.get("Versions", []) + page.get("DeleteMarkers", [])]
        odd = [one for one in found if any(ord(c) < 32 for c in one["Key"])]  # XML has no words for these
        even = [one for one in found if one not in odd]
        if even:
            s3.delete_objects(Bucket=bucket, Delete={"Objects": even, "Quiet": True}, **bypass)
        for one in odd:
            s3.delete_object(Bucket=bucket, **one, **bypass)


@pytest.fixture
def virtual_names(monkeypatch):
    """Names under s3.localhost lead to this machine, whatever the resolver says."""
    ask = socket.getaddrinfo

    def answer(host, *rest, **more):
        return ask("127.0.0.1" if str(host).endswith("s3.localhost") else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


class Refusal:
    """with refused(404, "NoSuchKey") as refusal: ...; refusal.response is the error's."""

    def __init__(self, status, code):
        self.status, self.code, self.response = status, code, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert kind is not None, f"was not refused ({self.status} {self.code})"
        if not issubclass(kind, ClientError):
            return False
        self.response = error.response
        got = (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
        assert got == (self.status, self.code), error.response
        return True


@pytest.fixture(scope="session")
def refused():
    return Refusal
