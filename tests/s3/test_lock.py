"""Object lock: what may not go, and who may change that."""
import time
from datetime import datetime, timedelta, timezone

import pytest


def later(**more):
    return (datetime.now(timezone.utc) + timedelta(**(more or {"days": 1}))).replace(microsecond=0)


def put(s3, bucket, **more):
    return s3.put_object(Bucket=bucket, Key="k", Body=b"1", **more)["VersionId"]


def retain(s3, bucket, mode, until, **more):
    return s3.put_object_retention(Bucket=bucket, Key="k", Retention={"Mode": mode, "RetainUntilDate": until}, **more)


@pytest.fixture
def hold(s3, locked):
    """Legal holds are lifted at the end, so that the bucket can be emptied."""
    yield lambda on, **more: s3.put_object_legal_hold(Bucket=locked, Key="k", LegalHold={"Status": on}, **more)
    for version in s3.list_object_versions(Bucket=locked).get("Versions", []):
        s3.put_object_legal_hold(Bucket=locked, Key=version["Key"], VersionId=version["VersionId"],
                                 LegalHold={"Status": "OFF"})


def test_governance(s3, locked, refused):
    """Backup tools rely on it: no delete before its time, unless somebody asks to pass over it."""
    until = later()
    version = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    head = s3.head_object(Bucket=locked, Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    got = s3.get_object_retention(Bucket=locked, Key="k", VersionId=version)["Retention"]
    assert got == {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    with refused(403, "AccessDenied") as refusal:
        s3.delete_object(Bucket=locked, Key="k", VersionId=version)
    assert "object lock" in refusal.response["Error"]["Message"]
    errors = s3.delete_objects(Bucket=locked, Delete={"Objects": [{"Key": "k", "VersionId": version}]})["Errors"]
    assert [(error["Code"], error["VersionId"]) for error in errors] == [("AccessDenied", version)]
    for shorter in (until - timedelta(hours=1), until + timedelta(hours=1)):
        retain(s3, locked, "GOVERNANCE", shorter, BypassGovernanceRetention=True)
    with refused(403, "AccessDenied"):
        retain(s3, locked, "GOVERNANCE", until)
    retain(s3, locked, "GOVERNANCE", until + timedelta(hours=2))
    s3.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    assert "Versions" not in s3.list_object_versions(Bucket=locked)


def test_a_plain_delete_is_allowed(s3, locked):
    """A marker takes nothing away."""
    version = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later())
    assert s3.delete_object(Bucket=locked, Key="k")["DeleteMarker"] is True
    assert s3.get_object(Bucket=locked, Key="k", VersionId=version)["Body"].read() == b"1"


def test_compliance_is_for_nobody(s3, locked, refused):
    """Not even root may shorten it, weaken it or delete; extending is allowed."""
    until = later(seconds=4)
    version = put(s3, locked, ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until)
    with refused(403, "AccessDenied"):
        s3.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    with refused(403, "AccessDenied"):
        retain(s3, locked, "GOVERNANCE", later(), BypassGovernanceRetention=True)
    with refused(403, "AccessDenied"):
        s3.put_object_retention(Bucket=locked, Key="k", Retention={}, BypassGovernanceRetention=True)
    retain(s3, locked, "COMPLIANCE", until)
    while True:  # until its time is over, and not before
        try:
            s3.delete_object(Bucket=locked, Key="k", VersionId=version)
            break
        except s3.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied"
            assert datetime.now(timezone.utc) < until + timedelta(seconds=5)
            time.sleep(0.2)
    assert datetime.now(timezone.utc) >= until


def test_legal_hold(s3, locked, hold, refused):
    """Holds have no end and no bypass; whoever may lift it, lifts it."""
    version = put(s3, locked)
    with refused(404, "NoSuchObjectLockConfiguration"):
        s3.get_object_legal_hold(Bucket=locked, Key="k")
    hold("ON")
    assert s3.get_object_legal_hold(Bucket=locked, Key="k")["LegalHold"]["Status"] == "ON"
    assert s3.head_object(Bucket=locked, Key="k")["ObjectLockLegalHoldStatus"] == "ON"
    with refused(403, "AccessDenied"):
        s3.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    hold("OFF")
    assert s3.get_object_legal_hold(Bucket=locked, Key="k")["LegalHold"]["Status"] == "OFF"
    s3.delete_object(Bucket=locked, Key="k", VersionId=version)


def test_hold_and_retention_are_apart(s3, locked, hold):
    """Setting the one must not drop the other."""
    version = put(s3, locked, ObjectLockLegalHoldStatus="ON", ObjectLockMode="GOVERNANCE",
                  ObjectLockRetainUntilDate=later())
    hold("OFF", VersionId=version)
    assert s3.get_object_retention(Bucket=locked, Key="k")["Retention"]["Mode"] == "GOVERNANCE"
    hold("ON", VersionId=version)
    retain(s3, locked, "GOVERNANCE", later(days=2))
    assert s3.get_object_legal_hold(Bucket=locked, Key="k")["LegalHold"]["Status"] == "ON"


def test_default_retention(s3, locked, refused):
    """Every new version gets the bucket's; one of its own replaces it."""
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration={
        "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 2}}})
    version = put(s3, locked)
    got = s3.get_object_retention(Bucket=locked, Key="k")["Retention"]
    assert got["Mode"] == "GOVERNANCE" and abs(got["RetainUntilDate"] - later(days=2)) < timedelta(minutes=2)
    with refused(403, "AccessDenied"):
        s3.delete_object(Bucket=locked, Key="k", VersionId=version)
    until = later(days=9)
    put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    assert s3.get_object_retention(Bucket=locked, Key="k")["Retention"]["RetainUntilDate"] == until
    s3.copy_object(Bucket=locked, Key="copy", CopySource={"Bucket": locked, "Key": "k"})
    got = s3.get_object_retention(Bucket=locked, Key="copy")["Retention"]["RetainUntilDate"]
    assert abs(got - later(days=2)) < timedelta(minutes=2)  # a lock is not copied


def test_copy_and_multipart(s3, locked):
    """Locks can be asked for by every way that makes a version."""
    until = later()
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    put(s3, locked)
    s3.copy_object(Bucket=locked, Key="copy", CopySource={"Bucket": locked, "Key": "k"}, **lock)
    upload = s3.create_multipart_upload(Bucket=locked, Key="parts", **lock)["UploadId"]
    where = {"Bucket": locked, "Key": "parts", "UploadId": upload}
    etag = s3.upload_part(PartNumber=1, Body=b"1", **where)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **where)
    for key in ("copy", "parts"):
        assert s3.head_object(Bucket=locked, Key=key)["ObjectLockRetainUntilDate"] == until


def test_removing_governance(s3, locked, refused):
    """An empty retention takes it away, for those who may."""
    version = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later())
    with refused(403, "AccessDenied"):
        s3.put_object_retention(Bucket=locked, Key="k", Retention={})
    s3.put_object_retention(Bucket=locked, Key="k", Retention={}, BypassGovernanceRetention=True)
    with refused(404, "NoSuchObjectLockConfiguration"):
        s3.get_object_retention(Bucket=locked, Key="k")
    s3.delete_object(Bucket=locked, Key="k", VersionId=version)


@pytest.mark.parametrize("headers,code", [
    ([("x-amz-object-lock-mode", "GOVERNANCE")], "InvalidArgument"),
    ([("x-amz-object-lock-retain-until-date", "2999-01-01T00:00:00Z")], "InvalidArgument"),
    ([("x-amz-object-lock-mode", "governance"), ("x-amz-object-lock-retain-until-date", "2999-01-01T00:00:00Z")],
     "InvalidArgument"),
    ([("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", "2001-01-01T00:00:00Z")],
     "InvalidArgument"),
    ([("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", "tomorrow")], "InvalidArgument"),
    ([("x-amz-object-lock-legal-hold", "on")], "InvalidArgument"),
    ([("x-amz-object-lock-legal-hold", "ON")], "InvalidRequest")])
def test_bad_headers(s3, raw, locked, headers, code):
    """A lock that cannot be kept must not be half kept. The last row: such a PUT needs a digest."""
    assert raw.send("PUT", f"/{locked}/k", headers, b"1").code == code
    assert raw.send("HEAD", f"/{locked}/k").status == 404


def test_bad_documents(s3, locked, refused):
    """Modes are upper case; dates are still to come."""
    put(s3, locked)
    for mode in ("governance", "abc"):
        with refused(400, "MalformedXML"):
            retain(s3, locked, mode, later())
    with refused(400, "InvalidArgument"):
        retain(s3, locked, "GOVERNANCE", datetime(2001, 1, 1))
    with refused(400, "MalformedXML"):
        s3.put_object_legal_hold(Bucket=locked, Key="k", LegalHold={"Status": "abc"})


def test_bucket_without_object_lock(s3, versioned, refused):
    """A lock that nobody enforces must not be taken."""
    put(s3, versioned)
    for call in (lambda: put(s3, versioned, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later()),
                 lambda: put(s3, versioned, ObjectLockLegalHoldStatus="ON"),
                 lambda: s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k"},
                                        ObjectLockLegalHoldStatus="ON"),
                 lambda: s3.create_multipart_upload(Bucket=versioned, Key="c", ObjectLockLegalHoldStatus="ON"),
                 lambda: retain(s3, versioned, "GOVERNANCE", later()),
                 lambda: s3.put_object_legal_hold(Bucket=versioned, Key="k", LegalHold={"Status": "ON"}),
                 lambda: s3.get_object_retention(Bucket=versioned, Key="k"),
                 lambda: s3.get_object_legal_hold(Bucket=versioned, Key="k")):
        with refused(400, "InvalidRequest"):
            call()
    with refused(400, "InvalidArgument"):
        s3.delete_object(Bucket=versioned, Key="k", BypassGovernanceRetention=True)
    reply = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k"}]}, BypassGovernanceRetention=True)
    assert "Errors" not in reply  # clean-ups of clients send it to every bucket


def test_of_versions(s3, locked, refused):
    """The lock belongs to the version, not to the key."""
    first = put(s3, locked)
    second = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later())
    s3.delete_object(Bucket=locked, Key="k", VersionId=first)
    with refused(403, "AccessDenied"):
        s3.delete_object(Bucket=locked, Key="k", VersionId=second)
    marker = s3.delete_object(Bucket=locked, Key="k")["VersionId"]
    with refused(405, "MethodNotAllowed"):
        retain(s3, locked, "GOVERNANCE", later(), VersionId=marker)
    with refused(405, "MethodNotAllowed"):
        s3.get_object_retention(Bucket=locked, Key="k", VersionId=marker)
    with refused(404, "NoSuchVersion"):
        s3.get_object_legal_hold(Bucket=locked, Key="k", VersionId="AAAAAAAAAAAAAAAA")
    s3.delete_object(Bucket=locked, Key="k", VersionId=marker)
