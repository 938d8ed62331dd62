"""Readers while versions move between "current" and "older": they see states that were, never the moment between."""
import threading
import time

import pytest

SECONDS = 3


class Readers:
    """Runs functions over and over in threads of their own while a block runs; their first error is raised at its end."""

    def __init__(self, *functions):
        self.stop = threading.Event()
        self.errors = []
        self.rounds = [0] * len(functions)
        self.threads = [threading.Thread(target=self.run, args=(i, function)) for i, function in enumerate(functions)]

    def run(self, i, function):
        try:
            while not self.stop.is_set():
                function()
                self.rounds[i] += 1
        except Exception as error:  # noqa: BLE001: raised again at the end
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        if self.errors:
            raise self.errors[0]
        assert min(self.rounds) > 10


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def test_a_key_is_never_missing(s3, versioned):
    """Undoing a write by deleting its version promotes the one before: in between nobody may get a 404."""
    first = s3.put_object(Bucket=versioned, Key="k", Body=b"first")["VersionId"]

    def newest():
        assert s3.get_object(Bucket=versioned, Key="k")["Body"].read() in (b"first", b"second")

    def named():
        assert s3.get_object(Bucket=versioned, Key="k", VersionId=first)["Body"].read() == b"first"

    def listed():
        page = s3.list_object_versions(Bucket=versioned)
        assert [version["IsLatest"] for version in page["Versions"]] in ([True], [True, False])
        assert page["Versions"][-1]["VersionId"] == first

    with Readers(newest, named, listed):
        for _ in until(SECONDS):
            second = s3.put_object(Bucket=versioned, Key="k", Body=b"second")["VersionId"]
            s3.delete_object(Bucket=versioned, Key="k", VersionId=second)


def test_a_marker_hides_wholly(s3, versioned):
    """Delete and undelete in turn: the key is there or hidden by a marker, and a list says the same."""
    version = s3.put_object(Bucket=versioned, Key="k", Body=b"x" * 40000)["VersionId"]

    def newest():
        try:
            assert len(s3.get_object(Bucket=versioned, Key="k")["Body"].read()) == 40000
        except s3.exceptions.NoSuchKey as error:
            headers = error.response["ResponseMetadata"]["HTTPHeaders"]
            assert headers["x-amz-delete-marker"] == "true"

    def listed():
        page = s3.list_object_versions(Bucket=versioned)
        markers = page.get("DeleteMarkers", [])
        assert [found["VersionId"] for found in page["Versions"]] == [version]
        assert page["Versions"][0]["IsLatest"] == (not markers)
        assert all(marker["IsLatest"] for marker in markers)

    with Readers(newest, newest, listed):
        for _ in until(SECONDS):
            marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
            s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)


@pytest.mark.parametrize("size", [1, 3])
def test_all_versions_go_page_by_page(s3, versioned, size):
    """How tools empty a versioned bucket: list a page, delete what it shows, ask for the next. Nothing may stay."""
    for i in range(4):
        for key in ("a", "b/1", "b/2"):
            s3.put_object(Bucket=versioned, Key=key, Body=b"x")
    s3.delete_object(Bucket=versioned, Key="a")
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket=versioned, Key="b/1", Body=b"null")
    s3.delete_object(Bucket=versioned, Key="b/2")
    marker = {}
    for _ in range(50):
        page = s3.list_object_versions(Bucket=versioned, MaxKeys=size, **marker)
        shown = page.get("Versions", []) + page.get("DeleteMarkers", [])
        if shown:
            s3.delete_objects(Bucket=versioned, Delete={"Objects": [
                {"Key": found["Key"], "VersionId": found["VersionId"]} for found in shown]})
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    page = s3.list_object_versions(Bucket=versioned)
    assert "Versions" not in page and "DeleteMarkers" not in page
    s3.delete_bucket(Bucket=versioned)
    s3.create_bucket(Bucket=versioned)
