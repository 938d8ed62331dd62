"""Bucket policies as clients see them: stored byte by byte, refused with AWS's words, enforced at once."""
import datetime
import json

import pytest
from callers import add_user, anonymous


@pytest.fixture(scope="module")
def ann(server):
    return add_user(server, "policy-ann")


@pytest.fixture(scope="module")
def bob(server):
    return add_user(server, "policy-bob")


@pytest.fixture(scope="module")
def nobody(server):
    return anonymous(server)


def statement(bucket, action, resource="/*", effect="Allow", principal="*", **more):
    resources = resource if isinstance(resource, list) else [resource]
    return {"Effect": effect, "Principal": principal, "Action": action,
            "Resource": [f"arn:aws:s3:::{bucket}{r}" for r in resources], **more}


def put(s3, bucket, *statements):
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))


# What was put comes back byte by byte (Terraform compares it); put and delete answer 204 as AWS does.
def test_round_trip(s3, bucket, refused):
    text = '{ "Version":"2012-10-17",\n  "Statement": ' + json.dumps([statement(bucket, "s3:GetObject")]) + "}"
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)
    put_reply = s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert put_reply["ResponseMetadata"]["HTTPStatusCode"] == 204
    got = s3.get_bucket_policy(Bucket=bucket)
    assert got["Policy"] == text
    assert got["ResponseMetadata"]["HTTPHeaders"]["content-type"] == "application/json"
    assert s3.delete_bucket_policy(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert s3.delete_bucket_policy(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)


# A refused policy leaves the one that stands, and says what is wrong with AWS's words.
@pytest.mark.parametrize("change, message", [
    ({"Effect": "Perhaps"}, "Invalid effect: Perhaps"),
    ({"Action": "s3:Frobnicate"}, "Policy has invalid action"),
    ({"Resource": "arn:aws:s3:::another-bucket/*"}, "Policy has invalid resource"),
    ({"Principal": {"AWS": "no-such-user"}}, "Invalid principal in policy"),
    ({"Principal": {"AWS": "arn:aws:iam::123456789012:user/no-such-user"}}, "Invalid principal in policy"),
    ({"Action": "s3:ListBucket"}, "Action does not apply to any resource(s) in statement"),
    ({"Condition": {"StringIs": {"aws:Referer": "x"}}}, "Invalid Condition type : StringIs"),
    ({"Condition": {"StringEquals": {"s3:prefix": "x"}}},
     "Conditions do not apply to combination of actions and resources in statement"),
])
def test_malformed(s3, bucket, refused, change, message):
    put(s3, bucket, statement(bucket, "s3:GetObject"))
    with refused(400, "MalformedPolicy") as refusal:
        put(s3, bucket, {**statement(bucket, "s3:GetObject"), **change})
    assert refusal.response["Error"]["Message"] == message
    assert "GetObject" in s3.get_bucket_policy(Bucket=bucket)["Policy"]


# 20 KiB is AWS's bound; what is not JSON is not stored.
def test_bounds(s3, bucket, refused):
    with refused(400, "MalformedPolicy"):
        put(s3, bucket, statement(bucket, "s3:GetObject", Sid="x" * 20480))
    with refused(400, "MalformedPolicy"):
        s3.put_bucket_policy(Bucket=bucket, Policy="{")
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)


# A condition on something that this store cannot know is refused, not stored silently.
def test_not_enforced_is_not_stored(s3, bucket, refused):
    with refused(501, "NotImplemented"):
        put(s3, bucket, statement(bucket, "s3:GetObject",
                                  Condition={"StringEquals": {"aws:PrincipalTag/team": "x"}}))
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)


# The public website case: everybody reads objects, nobody lists or writes.
def test_public_read(s3, bucket, nobody, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"open")
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="k")
    put(s3, bucket, statement(bucket, "s3:GetObject"))
    assert nobody.get_object(Bucket=bucket, Key="k")["Body"].read() == b"open"
    assert nobody.head_object(Bucket=bucket, Key="k")["ContentLength"] == 4
    with refused(403, "AccessDenied"):
        nobody.list_objects_v2(Bucket=bucket)
    with refused(403, "AccessDenied"):
        nobody.put_object(Bucket=bucket, Key="k", Body=b"x")
    with refused(403, "AccessDenied"):
        nobody.delete_object(Bucket=bucket, Key="k")
    with refused(403, "AccessDenied"):
        nobody.delete_bucket(Bucket=bucket)
    s3.delete_bucket_policy(Bucket=bucket)
    with refused(403, "AccessDenied"):
        nobody.get_object(Bucket=bucket, Key="k")


# A user that is named gets what is named, another one nothing.
def test_named_user(s3, bucket, ann, bob, refused):
    put(s3, bucket, statement(bucket, ["s3:PutObject", "s3:GetObject"], principal={"AWS": "policy-ann"}),
        statement(bucket, "s3:ListBucket", resource="", principal={"AWS": "arn:aws:iam::000000000000:user/policy-ann"}))
    ann.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert ann.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert ann.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"
    with refused(403, "AccessDenied"):
        ann.delete_object(Bucket=bucket, Key="k")
    with refused(403, "AccessDenied"):
        ann.get_bucket_policy(Bucket=bucket)
    for call in (bob.get_object, bob.head_object, bob.delete_object):
        with pytest.raises(bob.exceptions.ClientError):
            call(Bucket=bucket, Key="k")


# A deny binds the owner and root; the policy itself stays in their hands, or a bucket would be lost for ever.
def test_deny_binds_root(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    put(s3, bucket, statement(bucket, "s3:*", resource=["", "/*"], effect="Deny"))
    with refused(403, "AccessDenied") as refusal:
        s3.get_object(Bucket=bucket, Key="k")
    assert refusal.response["Error"]["Message"] == (
        'User: arn:aws:iam::000000000000:root is not authorized to perform: s3:GetObject on resource: '
        f'"arn:aws:s3:::{bucket}/k" with an explicit deny in a resource-based policy')
    with refused(403, "AccessDenied"):
        s3.get_bucket_location(Bucket=bucket)
    assert "Deny" in s3.get_bucket_policy(Bucket=bucket)["Policy"]
    s3.delete_bucket_policy(Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"


# The same for an owner who is not root.
def test_deny_binds_owner(s3, ann, refused):
    ann.create_bucket(Bucket="policy-anns-own")
    ann.put_object(Bucket="policy-anns-own", Key="k", Body=b"1")
    put(ann, "policy-anns-own", statement("policy-anns-own", "s3:DeleteObject", effect="Deny"))
    with refused(403, "AccessDenied"):
        ann.delete_object(Bucket="policy-anns-own", Key="k")
    done = ann.delete_objects(Bucket="policy-anns-own", Delete={"Objects": [{"Key": "k"}]})
    assert [e["Code"] for e in done["Errors"]] == ["AccessDenied"]
    ann.delete_bucket_policy(Bucket="policy-anns-own")
    ann.delete_object(Bucket="policy-anns-own", Key="k")
    ann.delete_bucket(Bucket="policy-anns-own")


# DeleteObjects asks for each key: what is denied is named, the rest is done.
def test_delete_objects_by_key(s3, bucket, ann, nobody):
    for key in ("mine/1", "mine/2", "other/1"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    put(s3, bucket, statement(bucket, "s3:DeleteObject", resource="/mine/*", principal={"AWS": "policy-ann"}))
    keys = [{"Key": "mine/1"}, {"Key": "other/1"}, {"Key": "mine/2"}]
    done = nobody.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    assert [e["Code"] for e in done["Errors"]] == ["AccessDenied"] * 3
    done = ann.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    assert [d["Key"] for d in done["Deleted"]] == ["mine/1", "mine/2"]
    assert [(e["Key"], e["Code"]) for e in done["Errors"]] == [("other/1", "AccessDenied")]
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["other/1"]


# The home folder example of AWS's guide: a user lists and writes below his own name only.
def test_home_folders(s3, bucket, ann, bob, refused):
    put(s3, bucket,
        statement(bucket, "s3:ListBucket", resource="", principal={"AWS": ["policy-ann", "policy-bob"]},
                  Condition={"StringLike": {"s3:prefix": ["home/${aws:username}/*"]}}),
        statement(bucket, ["s3:GetObject", "s3:PutObject"], resource="/home/${aws:username}/*",
                  principal={"AWS": ["policy-ann", "policy-bob"]}))
    ann.put_object(Bucket=bucket, Key="home/policy-ann/x", Body=b"a")
    bob.put_object(Bucket=bucket, Key="home/policy-bob/x", Body=b"b")
    assert ann.list_objects_v2(Bucket=bucket, Prefix="home/policy-ann/")["KeyCount"] == 1
    for refused_call in (lambda: ann.list_objects_v2(Bucket=bucket, Prefix="home/policy-bob/"),
                         lambda: ann.list_objects_v2(Bucket=bucket),
                         lambda: ann.get_object(Bucket=bucket, Key="home/policy-bob/x"),
                         lambda: bob.put_object(Bucket=bucket, Key="home/policy-ann/x", Body=b"")):
        with refused(403, "AccessDenied"):
            refused_call()


# Conditions see the request: address, agent, referer, time, transport, page size.
@pytest.mark.parametrize("condition, allowed", [
    ({"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, True),
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, False),
    ({"NotIpAddress": {"aws:SourceIp": "127.0.0.1"}}, False),
    ({"Bool": {"aws:SecureTransport": "false"}}, True),
    ({"Bool": {"aws:SecureTransport": "true"}}, False),
    ({"StringLike": {"aws:UserAgent": "*Boto3*"}}, True),
    ({"StringLike": {"aws:UserAgent": "curl*"}}, False),
    ({"Null": {"aws:Referer": "true"}}, True),
    ({"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, False),
    ({"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, True),
    ({"NumericGreaterThan": {"aws:EpochTime": "1600000000"}}, True),
    ({"StringEquals": {"aws:username": "policy-ann"}}, True),
    ({"StringEquals": {"aws:userid": "policy-bob"}}, False),
    ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/policy-ann"}}, True),
    ({"StringEquals": {"s3:authType": "REST-HEADER"}}, True),
    ({"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}, False),
    ({"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}}, True),
    ({"NumericLessThan": {"s3:signatureAge": "60000"}}, True),
])
def test_conditions(s3, bucket, ann, refused, condition, allowed):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    put(s3, bucket, statement(bucket, "s3:GetObject", Condition=condition))
    if allowed:
        ann.get_object(Bucket=bucket, Key="k")
    else:
        with refused(403, "AccessDenied"):
            ann.get_object(Bucket=bucket, Key="k")


# The page size can be bounded, as AWS's guide shows.
def test_max_keys(s3, bucket, ann, refused):
    put(s3, bucket, statement(bucket, "s3:ListBucket", resource="",
                              Condition={"NumericLessThanEquals": {"s3:max-keys": "10"}}))
    ann.list_objects_v2(Bucket=bucket, MaxKeys=10)
    with refused(403, "AccessDenied"):
        ann.list_objects_v2(Bucket=bucket, MaxKeys=11)
    with refused(403, "AccessDenied"):
        ann.list_objects_v2(Bucket=bucket)


# Tags of the object decide who reads it; the object is looked at first, and never given away before.
def test_existing_tag(s3, bucket, ann, refused):
    s3.put_object(Bucket=bucket, Key="open", Body=b"1", Tagging="class=open")
    s3.put_object(Bucket=bucket, Key="closed", Body=b"1", Tagging="class=closed")
    s3.put_object(Bucket=bucket, Key="bare", Body=b"1")
    put(s3, bucket, statement(bucket, ["s3:GetObject", "s3:GetObjectTagging"],
                              Condition={"StringEquals": {"s3:ExistingObjectTag/class": "open"}}))
    assert ann.get_object(Bucket=bucket, Key="open")["Body"].read() == b"1"
    assert ann.get_object_tagging(Bucket=bucket, Key="open")["TagSet"] == [{"Key": "class", "Value": "open"}]
    for key in ("closed", "bare", "absent"):
        with refused(403, "AccessDenied"):
            ann.get_object(Bucket=bucket, Key=key)
        with refused(403, "AccessDenied"):
            ann.get_object_tagging(Bucket=bucket, Key=key)
        with pytest.raises(ann.exceptions.ClientError):
            ann.head_object(Bucket=bucket, Key=key)
        with refused(403, "AccessDenied"):
            ann.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})


# A deny by tags binds the owner too.
def test_existing_tag_denies(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="closed", Body=b"1", Tagging="class=closed")
    s3.put_object(Bucket=bucket, Key="open", Body=b"1")
    put(s3, bucket, statement(bucket, "s3:GetObject", effect="Deny",
                              Condition={"StringEquals": {"s3:ExistingObjectTag/class": "closed"}}))
    s3.get_object(Bucket=bucket, Key="open")
    with refused(403, "AccessDenied"):
        s3.get_object(Bucket=bucket, Key="closed")


# Tags that come with the request: in the header of a PUT, in the document of PutObjectTagging.
def test_request_tags(s3, bucket, ann, refused):
    put(s3, bucket, statement(bucket, ["s3:PutObject", "s3:PutObjectTagging"],
                              Condition={"StringEquals": {"s3:RequestObjectTag/team": "red"},
                                         "ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team", "more"]}}))
    ann.put_object(Bucket=bucket, Key="k", Body=b"", Tagging="team=red&more=1")
    for tagging in ("team=blue", "team=red&else=1"):
        with refused(403, "AccessDenied"):
            ann.put_object(Bucket=bucket, Key="k", Body=b"", Tagging=tagging)
    with refused(403, "AccessDenied"):
        ann.put_object(Bucket=bucket, Key="k", Body=b"")
    ann.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "team", "Value": "red"}]})
    with refused(403, "AccessDenied"):
        ann.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "team", "Value": "blue"}]})


# What a PUT brings with it needs a permission of its own.
def test_more_permissions(s3, locked, ann, refused):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=60)
    asked = {"Tagging": ("s3:PutObjectTagging", {"Tagging": "a=b"}),
             "Retention": ("s3:PutObjectRetention", {"ObjectLockMode": "GOVERNANCE",
                                                     "ObjectLockRetainUntilDate": until}),
             "Hold": ("s3:PutObjectLegalHold", {"ObjectLockLegalHoldStatus": "OFF"})}
    put(s3, locked, statement(locked, "s3:PutObject"))
    for _, more in asked.values():
        with refused(403, "AccessDenied"):
            ann.put_object(Bucket=locked, Key="k", Body=b"", ChecksumAlgorithm="CRC32", **more)
        with refused(403, "AccessDenied"):
            ann.create_multipart_upload(Bucket=locked, Key="k", **more)
    for action, more in asked.values():
        put(s3, locked, statement(locked, ["s3:PutObject", action]))
        ann.put_object(Bucket=locked, Key="k", Body=b"", ChecksumAlgorithm="CRC32", **more)


# Governance may be passed by only with the permission for it.
def test_bypass_governance(s3, locked, ann, refused):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    put(s3, locked, statement(locked, ["s3:DeleteObject", "s3:DeleteObjectVersion"]))
    version = s3.put_object(Bucket=locked, Key="k", Body=b"", ObjectLockMode="GOVERNANCE", ChecksumAlgorithm="CRC32",
                            ObjectLockRetainUntilDate=until)["VersionId"]
    with refused(403, "AccessDenied"):
        ann.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    put(s3, locked, statement(locked, ["s3:DeleteObjectVersion", "s3:BypassGovernanceRetention"]))
    ann.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)


# How long an object may be locked can be bounded (AWS: managing Object Lock): the days stand in the document.
def test_retention_days(s3, locked, ann, refused):
    now = datetime.datetime.now(datetime.timezone.utc)
    s3.put_object(Bucket=locked, Key="k", Body=b"", ChecksumAlgorithm="CRC32")
    put(s3, locked, statement(locked, "s3:PutObjectRetention",
                              Condition={"NumericLessThanEquals": {"s3:object-lock-remaining-retention-days": "10"}}))
    with refused(403, "AccessDenied"):
        ann.put_object_retention(Bucket=locked, Key="k", Retention={
            "Mode": "GOVERNANCE", "RetainUntilDate": now + datetime.timedelta(days=30)})
    ann.put_object_retention(Bucket=locked, Key="k", Retention={
        "Mode": "GOVERNANCE", "RetainUntilDate": now + datetime.timedelta(days=9)})


# A version that is named is another permission than the newest one.
def test_versions(s3, versioned, ann, refused):
    first = s3.put_object(Bucket=versioned, Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket=versioned, Key="k", Body=b"2")
    put(s3, versioned, statement(versioned, ["s3:GetObject", "s3:DeleteObject"]))
    assert ann.get_object(Bucket=versioned, Key="k")["Body"].read() == b"2"
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=versioned, Key="k", VersionId=first)
    with refused(403, "AccessDenied"):
        ann.delete_object(Bucket=versioned, Key="k", VersionId=first)
    put(s3, versioned, statement(versioned, "s3:GetObjectVersion",
                                 Condition={"StringEquals": {"s3:VersionId": first}}))
    assert ann.get_object(Bucket=versioned, Key="k", VersionId=first)["Body"].read() == b"1"
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=versioned, Key="k")


# Both ends of a copy are asked for.
def test_copy(s3, bucket, ann, refused):
    s3.put_object(Bucket=bucket, Key="public/a", Body=b"a")
    s3.put_object(Bucket=bucket, Key="private/a", Body=b"p")
    put(s3, bucket, statement(bucket, "s3:GetObject", resource="/public/*"),
        statement(bucket, "s3:PutObject", resource="/to/*",
                  Condition={"StringLike": {"s3:x-amz-copy-source": f"{bucket}/*"}}))
    ann.copy_object(Bucket=bucket, Key="to/a", CopySource=f"{bucket}/public/a")
    with refused(403, "AccessDenied"):
        ann.copy_object(Bucket=bucket, Key="to/a", CopySource=f"{bucket}/private/a")
    with refused(403, "AccessDenied"):
        ann.copy_object(Bucket=bucket, Key="elsewhere", CopySource=f"{bucket}/public/a")
    with refused(403, "AccessDenied"):
        ann.put_object(Bucket=bucket, Key="to/b", Body=b"")


# Tags go along with a copy only for who may read them at the source and put them at the destination.
def test_copy_of_tags(s3, bucket, ann, refused):
    own = f"{bucket}-own"
    ann.create_bucket(Bucket=own)
    try:
        s3.put_object(Bucket=bucket, Key="tagged", Body=b"1", Tagging="secret=yes")
        s3.put_object(Bucket=bucket, Key="plain", Body=b"2")
        put(s3, bucket, statement(bucket, "s3:GetObject"))
        with refused(403, "AccessDenied"):
            ann.copy_object(Bucket=own, Key="copy", CopySource=f"{bucket}/tagged")
        ann.copy_object(Bucket=own, Key="copy", CopySource=f"{bucket}/plain")
        ann.copy_object(Bucket=own, Key="copy", CopySource=f"{bucket}/tagged", TaggingDirective="REPLACE")
        assert ann.get_object_tagging(Bucket=own, Key="copy")["TagSet"] == []
        put(s3, bucket, statement(bucket, ["s3:GetObject", "s3:GetObjectTagging"]))
        ann.copy_object(Bucket=own, Key="copy", CopySource=f"{bucket}/tagged")
        assert ann.get_object_tagging(Bucket=own, Key="copy")["TagSet"] == [{"Key": "secret", "Value": "yes"}]

        put(s3, bucket, statement(bucket, "s3:PutObject"))
        with refused(403, "AccessDenied"):
            ann.copy_object(Bucket=bucket, Key="brought", CopySource=f"{own}/copy")
        put(s3, bucket, statement(bucket, ["s3:PutObject", "s3:PutObjectTagging"]))
        ann.copy_object(Bucket=bucket, Key="brought", CopySource=f"{own}/copy")
        assert s3.get_object_tagging(Bucket=bucket, Key="brought")["TagSet"] == [{"Key": "secret", "Value": "yes"}]
    finally:
        ann.delete_object(Bucket=own, Key="copy")
        ann.delete_bucket(Bucket=own)


# A key that is absent is told only to those who may list it (404 tells that it is not there).
def test_absent_keys(s3, bucket, ann, refused):
    put(s3, bucket, statement(bucket, "s3:GetObject"))
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=bucket, Key="absent")
    put(s3, bucket, statement(bucket, "s3:GetObject"),
        statement(bucket, "s3:ListBucket", resource="", Condition={"StringLike": {"s3:prefix": "open/*"}}))
    with refused(404, "NoSuchKey"):
        ann.get_object(Bucket=bucket, Key="open/absent")
    with refused(403, "AccessDenied"):
        ann.get_object(Bucket=bucket, Key="closed/absent")
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="absent")


# GetBucketPolicyStatus, by AWS's meaning of public.
def test_status(s3, bucket, refused):
    with refused(404, "NoSuchBucketPolicy"):
        s3.get_bucket_policy_status(Bucket=bucket)
    put(s3, bucket, statement(bucket, "s3:GetObject"))
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is True
    put(s3, bucket, statement(bucket, "s3:GetObject", Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}))
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is False
    put(s3, bucket, statement(bucket, "s3:GetObject", principal={"AWS": "root"}))
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is False


# Public access block: a public policy is refused, or stands and opens nothing.
def test_public_access_block(s3, bucket, ann, nobody, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicPolicy": True})
    with refused(403, "AccessDenied"):
        put(s3, bucket, statement(bucket, "s3:GetObject"))
    put(s3, bucket, statement(bucket, "s3:GetObject", principal={"AWS": "policy-ann"}))
    ann.get_object(Bucket=bucket, Key="k")
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    put(s3, bucket, statement(bucket, "s3:GetObject"))
    for caller in (ann, nobody):
        with refused(403, "AccessDenied"):
            caller.get_object(Bucket=bucket, Key="k")
    s3.get_object(Bucket=bucket, Key="k")
    s3.delete_public_access_block(Bucket=bucket)
    nobody.get_object(Bucket=bucket, Key="k")


# A presigned URL is no more than its signer.
def test_presigned(s3, bucket, ann):
    import urllib.error
    import urllib.request

    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    url = ann.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(url, timeout=30)
    assert refusal.value.code == 403
    put(s3, bucket, statement(bucket, "s3:GetObject", principal={"AWS": "policy-ann"},
                              Condition={"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}))
    assert urllib.request.urlopen(url, timeout=30).read() == b"1"
