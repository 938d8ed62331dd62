"""Settings of buckets: versioning, object lock, tags, ownership, public access block, request payment, what was
never configured, and what a bucket is made with."""
import base64
import hashlib
import threading

import pytest
from botocore.exceptions import ClientError


def put(raw, target, body):
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    return raw.send("PUT", target, [("Content-MD5", digest)], body)


def made(s3, name, **more):
    s3.create_bucket(Bucket=name, **more)
    return name


@pytest.fixture
def named(s3, bucket):
    """A name for a bucket that the test makes itself."""
    name = bucket + "-own"
    yield name
    try:
        s3.delete_bucket(Bucket=name)
    except ClientError:
        pass


class TestVersioning:
    def test_states_follow_one_another(self, s3, bucket):
        """Clients tell a bucket that never had versions from one where they are suspended."""
        assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
        for state in ("Enabled", "Suspended", "Enabled"):
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})
            assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == state

    @pytest.mark.parametrize("state", ["Disabled", "enabled", ""])
    def test_other_states_are_malformed(self, s3, bucket, refused, state):
        """A state that is taken for another one would lose versions."""
        with refused(400, "MalformedXML"):
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})
        assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)

    def test_no_state(self, s3, bucket, refused):
        """A document without a state changes nothing and says so."""
        with refused(400, "IllegalVersioningConfigurationException"):
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={})

    def test_mfa_delete_is_not_pretended(self, s3, bucket, refused):
        """Who asks for MFA delete must not believe to have it."""
        with refused(501, "NotImplemented"):
            s3.put_bucket_versioning(Bucket=bucket, MFA="123 456",
                                     VersioningConfiguration={"Status": "Enabled", "MFADelete": "Enabled"})

    def test_absent_bucket(self, s3, refused):
        """A setting of a bucket that is not there is no setting."""
        with refused(404, "NoSuchBucket"):
            s3.put_bucket_versioning(Bucket="there-is-none-of-this", VersioningConfiguration={"Status": "Enabled"})
        with refused(404, "NoSuchBucket"):
            s3.get_bucket_versioning(Bucket="there-is-none-of-this")

    def test_broken_documents(self, raw, bucket):
        """What does not parse is refused, not guessed."""
        for body, code in ((b"", "MissingRequestBodyError"), (b"<Versioning", "MalformedXML"),
                           (b"<Other><Status>Enabled</Status></Other>", "MalformedXML")):
            reply = put(raw, f"/{bucket}?versioning", body)
            assert reply.status == 400 and code.encode() in reply.body, reply.body

    def test_a_read_sees_the_last_write(self, s3, server, bucket):
        """Settings are read from root: any gateway thread answers what was last put."""
        clients = [server.client() for _ in range(4)]
        for number in range(10):
            state = ("Enabled", "Suspended")[number % 2]
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})
            for client in clients:
                assert client.get_bucket_versioning(Bucket=bucket)["Status"] == state


class TestObjectLock:
    @pytest.fixture
    def locked(self, s3, named):
        return made(s3, named, ObjectLockEnabledForBucket=True)

    def test_made_with_lock(self, s3, locked):
        """A bucket made with lock is versioned at once; without a rule nothing is retained by default."""
        assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
        found = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
        assert found == {"ObjectLockEnabled": "Enabled"}

    @pytest.mark.parametrize("retention", [{"Mode": "GOVERNANCE", "Days": 1}, {"Mode": "COMPLIANCE", "Years": 100},
                                           {"Mode": "COMPLIANCE", "Days": 36500}])
    def test_default_retention(self, s3, locked, retention):
        """The rule comes back as it was put, and goes with a document without one."""
        wanted = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}
        s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=wanted)
        assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"] == wanted
        s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
        assert "Rule" not in s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]

    @pytest.mark.parametrize("retention,code", [
        ({"Mode": "GOVERNANCE", "Days": 0}, "InvalidArgument"),
        ({"Mode": "GOVERNANCE", "Years": -1}, "InvalidArgument"),
        ({"Mode": "GOVERNANCE", "Days": 36501}, "InvalidArgument"),
        ({"Mode": "GOVERNANCE", "Years": 101}, "InvalidArgument"),
        ({"Mode": "GOVERNANCE", "Days": 1, "Years": 1}, "MalformedXML"),
        ({"Mode": "GOVERNANCE"}, "MalformedXML"),
        ({"Mode": "governance", "Days": 1}, "MalformedXML"),
        ({"Days": 1}, "MalformedXML"),
    ])
    def test_bad_rules(self, s3, locked, refused, retention, code):
        """A rule that retains nothing, or twice, would be found out when data is gone."""
        with refused(400, code):
            s3.put_object_lock_configuration(
                Bucket=locked,
                ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}})
        assert "Rule" not in s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]

    def test_disabled_is_malformed(self, s3, locked, refused):
        """Lock cannot be switched off."""
        with refused(400, "MalformedXML"):
            s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Disabled"})

    def test_versioning_stays(self, s3, locked, refused):
        """Suspended versioning would let locked names be overwritten."""
        with refused(409, "InvalidBucketState"):
            s3.put_bucket_versioning(Bucket=locked, VersioningConfiguration={"Status": "Suspended"})
        assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"

    def test_bucket_without_lock(self, s3, bucket, refused):
        """Scanners look for exactly this error."""
        with refused(404, "ObjectLockConfigurationNotFoundError"):
            s3.get_object_lock_configuration(Bucket=bucket)

    def test_lock_needs_versioning(self, s3, bucket, refused):
        """AWS allows lock on an existing bucket since 2023, when it is versioned."""
        wanted = {"ObjectLockEnabled": "Enabled"}
        with refused(409, "InvalidBucketState"):
            s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=wanted)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=wanted)
        assert s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"] == wanted


class TestTagging:
    def test_life(self, s3, bucket, refused):
        """Terraform reads, sets and removes tags on every plan."""
        with refused(404, "NoSuchTagSet"):
            s3.get_bucket_tagging(Bucket=bucket)
        tags = [{"Key": "team", "Value": "storage ß"}, {"Key": "empty", "Value": ""}]
        reply = s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
        assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
        assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags[:1]})
        assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags[:1]
        for _ in range(2):
            reply = s3.delete_bucket_tagging(Bucket=bucket)
            assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
        with refused(404, "NoSuchTagSet"):
            s3.get_bucket_tagging(Bucket=bucket)

    def test_fifty(self, s3, bucket, refused):
        """Fifty tags are allowed, one more is not."""
        tags = [{"Key": f"k{i}", "Value": "v" * 256} for i in range(51)]
        with refused(400, "BadRequest"):
            s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags[:50]})
        assert len(s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == 50

    @pytest.mark.parametrize("tags", [
        [("k" * 129, "v")], [("k", "v" * 257)], [("aws:k", "v")], [("a", "1"), ("a", "2")], [("a$", "1")],
    ])
    def test_bad_tags(self, s3, bucket, refused, tags):
        """Tags that AWS would refuse are refused, so that a bucket can move there."""
        with refused(400, "InvalidTag"):
            s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in tags]})

    def test_broken_document(self, raw, bucket):
        """One TagSet, with complete tags."""
        reply = put(raw, f"/{bucket}?tagging",
                    b"<Tagging><TagSet><Tag><Key></Key><Value>v</Value></Tag></TagSet></Tagging>")
        assert (reply.status, reply.code) == (400, "InvalidTag")
        for body in (b"<Tagging></Tagging>", b"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>",
                     b"<Tagging><TagSet/><TagSet/></Tagging>"):
            reply = put(raw, f"/{bucket}?tagging", body)
            assert reply.status == 400 and b"MalformedXML" in reply.body, reply.body


class TestOwnership:
    @pytest.mark.parametrize("rule", ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"])
    def test_at_creation_and_later(self, s3, named, bucket, rule):
        """Both ways to set the rule must agree."""
        made(s3, named, ObjectOwnership=rule)
        wanted = {"Rules": [{"ObjectOwnership": rule}]}
        assert s3.get_bucket_ownership_controls(Bucket=named)["OwnershipControls"] == wanted
        s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=wanted)
        assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == wanted

    def test_default_and_deletion(self, s3, bucket, refused):
        """ACLs are off in a new bucket (AWS since 2023); deleted controls are not there."""
        found = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]
        assert found == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        for _ in range(2):
            reply = s3.delete_bucket_ownership_controls(Bucket=bucket)
            assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
        with refused(404, "OwnershipControlsNotFoundError"):
            s3.get_bucket_ownership_controls(Bucket=bucket)

    def test_bad_rules(self, s3, named, bucket, refused):
        """An unknown rule is not a rule."""
        with refused(400, "MalformedXML"):
            s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "Mine"}]})
        with refused(400, "MalformedXML"):
            s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": []})
        with refused(400, "InvalidArgument"):
            made(s3, named, ObjectOwnership="Mine")


class TestPublicAccessBlock:
    def test_life(self, s3, bucket, refused):
        """Terraform and scanners read all four flags."""
        with refused(404, "NoSuchPublicAccessBlockConfiguration"):
            s3.get_public_access_block(Bucket=bucket)
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"IgnorePublicAcls": True})
        assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": False, "IgnorePublicAcls": True, "BlockPublicPolicy": False,
            "RestrictPublicBuckets": False}
        reply = s3.delete_public_access_block(Bucket=bucket)
        assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
        with refused(404, "NoSuchPublicAccessBlockConfiguration"):
            s3.get_public_access_block(Bucket=bucket)

    def test_broken_documents(self, raw, bucket):
        """A flag that cannot be read must not count as off."""
        for inside in (b"", b"<BlockPublicAcls>yes</BlockPublicAcls>", b"<BlockAll>true</BlockAll>",
                       b"<BlockPublicAcls>true</BlockPublicAcls><BlockPublicAcls>false</BlockPublicAcls>"):
            body = b"<PublicAccessBlockConfiguration>" + inside + b"</PublicAccessBlockConfiguration>"
            reply = put(raw, f"/{bucket}?publicAccessBlock", body)
            assert reply.status == 400 and b"MalformedXML" in reply.body, reply.body


class TestRequestPayment:
    def test_life(self, s3, bucket, refused):
        """The owner pays unless told otherwise (whom Requester keeps out: test_acl.py)."""
        assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
        for payer in ("Requester", "BucketOwner"):
            s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": payer})
            assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == payer
        with refused(400, "MalformedXML"):
            s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": "Nobody"})


class TestNeverConfigured:
    """Terraform refreshes all of these: an answer other than AWS's breaks every plan."""

    def test_empty_documents(self, s3, bucket):
        """Off is an empty document."""
        assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=bucket)
        assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
        for call in (s3.list_bucket_analytics_configurations, s3.list_bucket_metrics_configurations,
                     s3.list_bucket_inventory_configurations, s3.list_bucket_intelligent_tiering_configurations):
            assert call(Bucket=bucket)["IsTruncated"] is False

    def test_not_found(self, s3, bucket, refused):
        """Absent is 404 with a code of its own."""
        with refused(404, "ReplicationConfigurationNotFoundError"):
            s3.get_bucket_replication(Bucket=bucket)
        for call in (s3.get_bucket_analytics_configuration, s3.get_bucket_metrics_configuration,
                     s3.get_bucket_inventory_configuration, s3.get_bucket_intelligent_tiering_configuration):
            with refused(404, "NoSuchConfiguration"):
                call(Bucket=bucket, Id="any")

    def test_writes_are_refused(self, s3, bucket, refused):
        """What is not enforced is not stored."""
        with refused(501, "NotImplemented"):
            s3.put_bucket_accelerate_configuration(Bucket=bucket, AccelerateConfiguration={"Status": "Enabled"})

    def test_absent_bucket(self, s3, refused):
        """The bucket comes first."""
        with refused(404, "NoSuchBucket"):
            s3.get_bucket_logging(Bucket="there-is-none-of-this")


class TestCreation:
    def test_tags(self, s3, named):
        """Tags given at creation are the bucket's."""
        tags = [{"Key": "a", "Value": "1"}]
        made(s3, named, CreateBucketConfiguration={"Tags": tags})
        assert s3.get_bucket_tagging(Bucket=named)["TagSet"] == tags

    def test_bad_tags(self, s3, named, refused):
        """A bucket with half of its tags is not made."""
        with refused(400, "InvalidTag"):
            made(s3, named, CreateBucketConfiguration={"Tags": [{"Key": "aws:a", "Value": "1"}]})
        with refused(404, "404"):
            s3.head_bucket(Bucket=named)

    def test_again(self, s3, named, refused):
        """A second CreateBucket is a success (us-east-1) unless it asks for what the bucket is not."""
        made(s3, named, ObjectOwnership="ObjectWriter", ACL="public-read")
        made(s3, named)
        made(s3, named, ACL="public-read", ObjectOwnership="ObjectWriter")
        for more in ({"ObjectLockEnabledForBucket": True}, {"ObjectOwnership": "BucketOwnerEnforced"},
                     {"ACL": "public-read-write", "ObjectOwnership": "ObjectWriter"},
                     {"CreateBucketConfiguration": {"Tags": [{"Key": "a", "Value": "1"}]}}):
            with refused(409, "BucketAlreadyOwnedByYou"):
                made(s3, named, **more)

    def test_settings_of_a_deleted_bucket_are_gone(self, s3, named, refused):
        """A new bucket of an old name begins empty."""
        made(s3, named, ObjectLockEnabledForBucket=True)
        s3.put_bucket_tagging(Bucket=named, Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
        s3.delete_bucket(Bucket=named)
        made(s3, named)
        assert "Status" not in s3.get_bucket_versioning(Bucket=named)
        with refused(404, "NoSuchTagSet"):
            s3.get_bucket_tagging(Bucket=named)


def test_writes_go_on_while_settings_change(s3, server, bucket):
    """A change of settings makes requests be judged again, and none of them fails for it."""
    failures = []
    stop = threading.Event()

    def write(number):
        client = server.client()
        count = 0
        while not stop.is_set() and count < 500:
            try:
                client.put_object(Bucket=bucket, Key=f"k{number}", Body=b"x" * 100)
                client.get_object(Bucket=bucket, Key=f"k{number}")["Body"].read()
            except ClientError as error:
                failures.append(error)
                return
            count += 1

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for number in range(30):
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "n", "Value": str(number)}]})
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[0]


def test_many_at_once(server, s3, bucket):
    """Settings put at the same time all succeed: the last one stays, nobody is told to try again."""
    s3.delete_bucket_ownership_controls(Bucket=bucket)
    failures = []

    def put(number):
        client = server.client()
        try:
            client.put_bucket_acl(Bucket=bucket, ACL="public-read")
            client.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "n", "Value": str(number)}]})
        except ClientError as error:
            failures.append(error)

    threads = [threading.Thread(target=put, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[0]
    assert len(s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == 1
