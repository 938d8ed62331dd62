"""Who gets in without a policy: owners, root, everybody; expected owners; requesters that pay."""
import os

import pytest
from callers import add_user, anonymous
from conftest import empty, numbers


@pytest.fixture(scope="module")
def ann(server):
    return add_user(server, "access-ann")


@pytest.fixture(scope="module")
def bob(server):
    return add_user(server, "access-bob")


@pytest.fixture(scope="module")
def nobody(server):
    return anonymous(server)


@pytest.fixture
def anns(ann):
    """A bucket of ann's."""
    name = f"access-{os.getpid()}-{next(numbers)}"
    ann.create_bucket(Bucket=name)
    yield name
    empty(ann, name)
    ann.delete_bucket(Bucket=name)


# What another user or nobody may do with a new bucket: nothing at all, whatever the operation.
def test_closed(anns, ann, bob, nobody, refused):
    ann.put_object(Bucket=anns, Key="k", Body=b"1")
    for caller in (bob, nobody):
        for call, more in ((caller.get_object, {"Key": "k"}), (caller.get_object, {"Key": "absent"}),
                           (caller.put_object, {"Key": "k", "Body": b""}), (caller.delete_object, {"Key": "k"}),
                           (caller.get_object_acl, {"Key": "k"}), (caller.get_object_tagging, {"Key": "k"}),
                           (caller.create_multipart_upload, {"Key": "k"}), (caller.list_objects_v2, {}),
                           (caller.list_object_versions, {}), (caller.list_multipart_uploads, {}),
                           (caller.get_bucket_acl, {}), (caller.get_bucket_policy, {}),
                           (caller.get_bucket_versioning, {}), (caller.delete_bucket, {})):
            with refused(403, "AccessDenied"):
                call(Bucket=anns, **more)
        with refused(403, "403"):
            caller.head_bucket(Bucket=anns)
        with refused(403, "403"):
            caller.head_object(Bucket=anns, Key="k")
        done = caller.delete_objects(Bucket=anns, Delete={"Objects": [{"Key": "k"}]})
        assert [e["Code"] for e in done["Errors"]] == ["AccessDenied"]
        assert "Deleted" not in done
    assert ann.get_object(Bucket=anns, Key="k")["Body"].read() == b"1"


# Root looks after all buckets; a user sees his own in ListBuckets.
def test_root_and_lists(s3, anns, ann, bob):
    s3.put_object(Bucket=anns, Key="k", Body=b"1")
    s3.get_object(Bucket=anns, Key="k")
    assert anns in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert anns in [b["Name"] for b in ann.list_buckets()["Buckets"]]
    assert anns not in [b["Name"] for b in bob.list_buckets()["Buckets"]]


# Without a signature neither buckets are made nor listed.
def test_anonymous_service(nobody, refused):
    with refused(403, "AccessDenied"):
        nobody.list_buckets()
    with refused(403, "AccessDenied"):
        nobody.create_bucket(Bucket="access-of-nobody")


# A bucket that is not there is told to everybody, as AWS does.
def test_no_such_bucket(nobody, refused):
    with refused(404, "NoSuchBucket"):
        nobody.get_object(Bucket="access-no-such-bucket", Key="k")


# The guard against buckets that changed hands (bucket sniping).
def test_expected_owner(s3, anns, ann, refused):
    ann.put_object(Bucket=anns, Key="k", Body=b"1", ExpectedBucketOwner="access-ann")
    with refused(403, "AccessDenied"):
        ann.put_object(Bucket=anns, Key="k", Body=b"2", ExpectedBucketOwner="access-bob")
    with refused(403, "AccessDenied"):
        s3.get_object(Bucket=anns, Key="k", ExpectedBucketOwner="root")
    with refused(403, "AccessDenied"):
        ann.copy_object(Bucket=anns, Key="c", CopySource=f"{anns}/k", ExpectedSourceBucketOwner="access-bob")
    ann.copy_object(Bucket=anns, Key="c", CopySource=f"{anns}/k", ExpectedSourceBucketOwner="access-ann")
    assert ann.get_object(Bucket=anns, Key="k")["Body"].read() == b"1"


# ACLs while they count: a bucket's for its keys, an object's for itself; absent keys are told to those who may list.
def test_acls(ann, bob, nobody, refused):
    name = f"access-{os.getpid()}-{next(numbers)}"
    ann.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter", ACL="public-read")
    ann.put_object(Bucket=name, Key="open", Body=b"1", ACL="public-read")
    ann.put_object(Bucket=name, Key="closed", Body=b"1")
    for caller in (bob, nobody):
        assert caller.get_object(Bucket=name, Key="open")["Body"].read() == b"1"
        assert caller.list_objects_v2(Bucket=name)["KeyCount"] == 2
        with refused(403, "AccessDenied"):
            caller.get_object(Bucket=name, Key="closed")
        with refused(404, "NoSuchKey"):
            caller.get_object(Bucket=name, Key="absent")
        with refused(403, "AccessDenied"):
            caller.put_object(Bucket=name, Key="open", Body=b"")
    ann.put_bucket_acl(Bucket=name, ACL="private")
    with refused(403, "AccessDenied"):
        nobody.list_objects_v2(Bucket=name)
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=name, Key="absent")
    assert nobody.get_object(Bucket=name, Key="open")["Body"].read() == b"1"
    copied = bob.create_bucket
    copied(Bucket=f"{name}-bob")
    bob.copy_object(Bucket=f"{name}-bob", Key="c", CopySource=f"{name}/open")
    with refused(403, "AccessDenied"):
        bob.copy_object(Bucket=f"{name}-bob", Key="c", CopySource=f"{name}/closed")
    for owner, bucket in ((bob, f"{name}-bob"), (ann, name)):
        empty(owner, bucket)
        owner.delete_bucket(Bucket=bucket)


# An object belongs to who wrote it: the bucket's owner deletes it, and reads it only when he is let in.
def test_foreign_objects(s3, ann, bob, refused):
    name = f"access-{os.getpid()}-{next(numbers)}"
    ann.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter", ACL="public-read-write")
    bob.put_object(Bucket=name, Key="his", Body=b"1")
    bob.put_object(Bucket=name, Key="given", Body=b"2", ACL="bucket-owner-full-control")
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=name, Key="his")
    assert ann.get_object(Bucket=name, Key="given")["Body"].read() == b"2"
    assert bob.get_object(Bucket=name, Key="his")["Body"].read() == b"1"
    ann.put_bucket_ownership_controls(Bucket=name, OwnershipControls={"Rules": [
        {"ObjectOwnership": "ObjectWriter"}]})
    ann.delete_object(Bucket=name, Key="his")
    empty(ann, name)
    ann.delete_bucket(Bucket=name)


# Requester pays: others must say that they pay, nobody cannot.
def test_requester_pays(s3, bucket, ann, nobody, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_bucket_policy(Bucket=bucket, Policy=(
        '{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",'
        f'"Resource":"arn:aws:s3:::{bucket}/*"}}]}}'))
    ann.get_object(Bucket=bucket, Key="k")
    s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": "Requester"})
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=bucket, Key="k")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="k", RequestPayer="requester")
    assert ann.get_object(Bucket=bucket, Key="k", RequestPayer="requester")["RequestCharged"] == "requester"
    assert "RequestCharged" not in s3.get_object(Bucket=bucket, Key="k")
