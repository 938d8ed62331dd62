"""Access control lists and object ownership: canned lists, grants in headers and documents, who owns what, and whom
they let in. Buckets say ObjectWriter where lists are to count: they are off otherwise, as at AWS."""
import base64
import hashlib
import os
import subprocess

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import empty, numbers
from kist import ACCESS_KEY, REGION, SECRET_KEY, binary, clean_environment

ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
OTHER = ("acl-other", "ACLOTHERACCESSKEY000", "acl/other/secret/0123456789")


@pytest.fixture(scope="module")
def other(server):
    """A client of another user."""
    user, access_key, secret_key = OTHER
    env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY,
                             "KIST_NEW_ACCESS_KEY": access_key, "KIST_NEW_SECRET_KEY": secret_key})
    for command in (["user", "add", user], ["key", "add", user]):
        subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", *command], env=env, check=True,
                       capture_output=True, timeout=60)
    return server.client(access_key, secret_key)


@pytest.fixture(scope="module")
def nobody(server):
    """Anonymous."""
    return boto3.session.Session().client("s3", endpoint_url=server.endpoint, region_name=REGION,
                                          config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"},
                                                        retries={"max_attempts": 1}))


def new_bucket(s3, **more):
    name = f"acl-{os.getpid()}-{next(numbers)}"
    s3.create_bucket(Bucket=name, **more)
    return name


@pytest.fixture
def lists(s3):
    """A bucket in which lists count."""
    name = new_bucket(s3, ObjectOwnership="ObjectWriter")
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def shared(s3):
    """A bucket in which lists count and everybody may write."""
    name = new_bucket(s3, ObjectOwnership="ObjectWriter", ACL="public-read-write")
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


def grants(found):
    """(grantee, permission) of an answer, sorted."""
    return sorted((g["Grantee"].get("ID") or g["Grantee"]["URI"], g["Permission"]) for g in found["Grants"])


def user(name, permission):
    return {"Grantee": {"Type": "CanonicalUser", "ID": name}, "Permission": permission}


def group(uri, permission):
    return {"Grantee": {"Type": "Group", "URI": uri}, "Permission": permission}


def policy(owner, *given):
    return {"Owner": {"ID": owner}, "Grants": list(given)}


CANNED = [
    ("private", [("root", "FULL_CONTROL")]),
    ("public-read", [(ALL_USERS, "READ"), ("root", "FULL_CONTROL")]),
    ("public-read-write", [(ALL_USERS, "READ"), (ALL_USERS, "WRITE"), ("root", "FULL_CONTROL")]),
    ("authenticated-read", [(AUTHENTICATED, "READ"), ("root", "FULL_CONTROL")]),
]


class TestCanned:
    @pytest.mark.parametrize("name,wanted", CANNED)
    def test_of_a_bucket(self, s3, lists, name, wanted):
        """Each canned list comes back as the grants that AWS documents."""
        s3.put_bucket_acl(Bucket=lists, ACL=name)
        found = s3.get_bucket_acl(Bucket=lists)
        assert found["Owner"]["ID"] == "root" and grants(found) == sorted(wanted)

    @pytest.mark.parametrize("name,wanted", CANNED)
    def test_of_an_object(self, s3, lists, name, wanted):
        """At the write, by a copy, through an upload, and afterwards: always the same list."""
        s3.put_object(Bucket=lists, Key="put", Body=b"x", ACL=name)
        s3.copy_object(Bucket=lists, Key="copy", CopySource=f"{lists}/put", ACL=name)
        upload = s3.create_multipart_upload(Bucket=lists, Key="parts", ACL=name)["UploadId"]
        part = s3.upload_part(Bucket=lists, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
        s3.complete_multipart_upload(Bucket=lists, Key="parts", UploadId=upload,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        s3.put_object(Bucket=lists, Key="later", Body=b"x")
        s3.put_object_acl(Bucket=lists, Key="later", ACL=name)
        for key in ("put", "copy", "parts", "later"):
            assert grants(s3.get_object_acl(Bucket=lists, Key=key)) == sorted(wanted), key

    def test_a_copy_does_not_take_the_list_along(self, s3, lists):
        """A private copy of a public object must not be public (AWS: the copy begins private)."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="public-read")
        s3.copy_object(Bucket=lists, Key="b", CopySource=f"{lists}/a")
        assert grants(s3.get_object_acl(Bucket=lists, Key="b")) == [("root", "FULL_CONTROL")]

    def test_an_overwrite_begins_private(self, s3, lists):
        """The list belongs to the version, not to the name."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="public-read")
        s3.put_object(Bucket=lists, Key="a", Body=b"y")
        assert grants(s3.get_object_acl(Bucket=lists, Key="a")) == [("root", "FULL_CONTROL")]

    def test_unknown_names(self, s3, raw, lists, refused):
        """A misspelt list must not pass for private."""
        for target in (f"/{lists}?acl", f"/{lists}/a"):
            reply = raw.send("PUT", target, [("x-amz-acl", "publicread")])
            assert (reply.status, reply.code) == (400, "InvalidArgument")
        with refused(501, "NotImplemented"):
            s3.put_object(Bucket=lists, Key="a", Body=b"", ACL="aws-exec-read")

    def test_of_versions(self, s3, lists):
        """Every version has a list of its own, told by its id."""
        s3.put_bucket_versioning(Bucket=lists, VersioningConfiguration={"Status": "Enabled"})
        first = s3.put_object(Bucket=lists, Key="a", Body=b"1")["VersionId"]
        second = s3.put_object(Bucket=lists, Key="a", Body=b"2")["VersionId"]
        s3.put_object_acl(Bucket=lists, Key="a", VersionId=first, ACL="public-read")
        assert len(grants(s3.get_object_acl(Bucket=lists, Key="a", VersionId=first))) == 2
        assert len(grants(s3.get_object_acl(Bucket=lists, Key="a", VersionId=second))) == 1
        assert len(grants(s3.get_object_acl(Bucket=lists, Key="a"))) == 1


class TestGrants:
    def test_headers(self, s3, other, lists):
        """Grants in headers are the whole list: the owner has what they say."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", GrantRead=f'id="{OTHER[0]}", uri="{AUTHENTICATED}"',
                      GrantFullControl="id=root", GrantWriteACP=f"id={OTHER[0]}")
        assert grants(s3.get_object_acl(Bucket=lists, Key="a")) == sorted([
            (OTHER[0], "READ"), (AUTHENTICATED, "READ"), ("root", "FULL_CONTROL"), (OTHER[0], "WRITE_ACP")])
        s3.put_bucket_acl(Bucket=lists, GrantRead=f"uri={ALL_USERS}")
        assert grants(s3.get_bucket_acl(Bucket=lists)) == [(ALL_USERS, "READ")]

    def test_documents(self, s3, other, lists):
        """A document comes back as it went in."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x")
        given = [user("root", "FULL_CONTROL"), user(OTHER[0], "READ_ACP"), group(ALL_USERS, "READ")]
        wanted = sorted([("root", "FULL_CONTROL"), (OTHER[0], "READ_ACP"), (ALL_USERS, "READ")])
        s3.put_object_acl(Bucket=lists, Key="a", AccessControlPolicy=policy("root", *given))
        assert grants(s3.get_object_acl(Bucket=lists, Key="a")) == wanted
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", *given))
        assert grants(s3.get_bucket_acl(Bucket=lists)) == wanted
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root"))
        assert grants(s3.get_bucket_acl(Bucket=lists)) == []

    def test_grantees_must_exist(self, s3, lists, refused):
        """A grant to a misspelt user would wait for whoever takes that name later."""
        with refused(400, "InvalidArgument"):
            s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", user("no-such-user", "READ")))
        with refused(400, "InvalidArgument"):
            s3.put_object(Bucket=lists, Key="a", Body=b"x", GrantRead="id=no-such-user")
        with refused(404, "NoSuchKey"):
            s3.get_object(Bucket=lists, Key="a")
        with refused(400, "UnresolvableGrantByEmailAddress"):
            s3.put_bucket_acl(Bucket=lists, GrantRead="emailAddress=nobody@example.com")
        with refused(400, "InvalidArgument"):
            s3.put_bucket_acl(Bucket=lists, GrantRead="uri=http://example.com/group")

    def test_a_user_made_a_moment_ago(self, s3, server, lists):
        """"No such user" is confirmed before it is said."""
        name = f"fresh-{next(numbers)}"
        env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY})
        subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", "user", "add", name], env=env,
                       check=True, capture_output=True, timeout=60)
        s3.put_bucket_acl(Bucket=lists, GrantRead=f"id={name}")
        assert grants(s3.get_bucket_acl(Bucket=lists)) == [(name, "READ")]

    def test_one_way_at_a_time(self, s3, raw, lists, refused):
        """Two ways to say it may contradict one another."""
        reply = raw.send("PUT", f"/{lists}?acl", [("x-amz-acl", "private"), ("x-amz-grant-read", "id=root")])
        assert (reply.status, reply.code) == (400, "InvalidRequest")
        reply = raw.send("PUT", f"/{lists}?acl")
        assert (reply.status, reply.code) == (400, "MissingSecurityHeader")
        reply = raw.send("PUT", f"/{lists}?acl", [("x-amz-acl", "private")], b"<AccessControlPolicy/>")
        assert (reply.status, reply.code) == (400, "UnexpectedContent")
        with refused(400, "InvalidRequest"):
            s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="private", GrantRead="id=root")

    @pytest.mark.parametrize("document", [
        b"<AccessControlPolicy>",
        b"<Other/>",
        b"<AccessControlPolicy><AccessControlList/></AccessControlPolicy>",
        b"<AccessControlPolicy><Owner><ID>root</ID></Owner></AccessControlPolicy>",
        b"<AccessControlPolicy><Owner><ID>root</ID></Owner><AccessControlList><Grant><Grantee><ID>root</ID></Grantee>"
        b"<Permission>ALL</Permission></Grant></AccessControlList></AccessControlPolicy>",
        b"<AccessControlPolicy><Owner><ID>root</ID></Owner><AccessControlList><Grant><Grantee/>"
        b"<Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>",
    ])
    def test_broken_documents(self, raw, lists, document):
        """What does not parse changes nothing."""
        digest = base64.b64encode(hashlib.md5(document).digest()).decode()
        reply = raw.send("PUT", f"/{lists}?acl", [("Content-MD5", digest)], document)
        assert (reply.status, reply.code) == (400, "MalformedACLError")

    def test_a_hundred(self, s3, lists, refused):
        """The bound of AWS."""
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", *[user("root", "READ")] * 100))
        with refused(400, "MalformedACLError"):
            s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", *[user("root", "READ")] * 101))

    def test_the_owner_stays(self, s3, other, lists, refused):
        """A list cannot give a bucket away."""
        with refused(403, "AccessDenied"):
            s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy(OTHER[0], user("root", "FULL_CONTROL")))
        with refused(400, "InvalidArgument"):
            s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("no-such-user", user("root", "FULL_CONTROL")))


class TestOwnership:
    def test_lists_are_off_by_default(self, s3, bucket, refused):
        """As at AWS since 2023: what would open something is refused, what would not is accepted."""
        s3.put_object(Bucket=bucket, Key="a", Body=b"x")
        for call in (lambda **acl: s3.put_bucket_acl(Bucket=bucket, **acl),
                     lambda **acl: s3.put_object_acl(Bucket=bucket, Key="a", **acl),
                     lambda **acl: s3.put_object(Bucket=bucket, Key="b", Body=b"", **acl),
                     lambda **acl: s3.copy_object(Bucket=bucket, Key="c", CopySource=f"{bucket}/a", **acl),
                     lambda **acl: s3.create_multipart_upload(Bucket=bucket, Key="d", **acl)):
            for acl in ({"ACL": "public-read"}, {"ACL": "authenticated-read"}, {"GrantRead": f"uri={ALL_USERS}"}):
                with refused(400, "AccessControlListNotSupported"):
                    call(**acl)
        for acl in ("private", "bucket-owner-full-control"):  # half of the clients send the first
            s3.put_object(Bucket=bucket, Key="b", Body=b"", ACL=acl)
            s3.put_object_acl(Bucket=bucket, Key="b", ACL=acl)
        with refused(400, "AccessControlListNotSupported"):
            s3.put_bucket_acl(Bucket=bucket, ACL="private")
        assert grants(s3.get_object_acl(Bucket=bucket, Key="b")) == [("root", "FULL_CONTROL")]
        assert grants(s3.get_bucket_acl(Bucket=bucket)) == [("root", "FULL_CONTROL")]

    def test_made_with_a_list(self, s3, refused):
        """A list at creation needs a rule under which it counts."""
        with refused(400, "InvalidBucketAclWithObjectOwnership"):
            new_bucket(s3, ACL="public-read")
        name = new_bucket(s3, ACL="public-read", ObjectOwnership="BucketOwnerPreferred")
        assert len(grants(s3.get_bucket_acl(Bucket=name))) == 2
        s3.delete_bucket(Bucket=name)

    def test_lists_off_needs_a_private_bucket(self, s3, shared, refused):
        """Who relies on the bucket's list is told before it stops to count."""
        enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        with refused(400, "InvalidBucketAclWithObjectOwnership"):
            s3.put_bucket_ownership_controls(Bucket=shared, OwnershipControls=enforced)
        s3.put_bucket_acl(Bucket=shared, ACL="private")
        s3.put_bucket_ownership_controls(Bucket=shared, OwnershipControls=enforced)

    def test_lists_of_objects_sleep_and_wake(self, s3, lists):
        """Turning lists off hides those of objects; turning them on brings them back."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="public-read")
        s3.put_bucket_ownership_controls(Bucket=lists, OwnershipControls={
            "Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})
        assert grants(s3.get_object_acl(Bucket=lists, Key="a")) == [("root", "FULL_CONTROL")]
        s3.delete_bucket_ownership_controls(Bucket=lists)
        assert len(grants(s3.get_object_acl(Bucket=lists, Key="a"))) == 2

    def test_the_writer_owns(self, s3, other, shared):
        """ObjectWriter: what another user wrote is his, and the bucket's owner sees what he grants."""
        other.put_object(Bucket=shared, Key="a", Body=b"x", ACL="bucket-owner-read")
        found = other.get_object_acl(Bucket=shared, Key="a")
        assert found["Owner"]["ID"] == OTHER[0]
        assert grants(found) == sorted([(OTHER[0], "FULL_CONTROL"), ("root", "READ")])

    def test_the_bucket_owner_is_preferred(self, s3, other, shared):
        """BucketOwnerPreferred: with bucket-owner-full-control the object is given away."""
        s3.put_bucket_ownership_controls(Bucket=shared, OwnershipControls={
            "Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]})
        other.put_object(Bucket=shared, Key="a", Body=b"x", ACL="bucket-owner-full-control")
        other.put_object(Bucket=shared, Key="b", Body=b"x")
        found = s3.get_object_acl(Bucket=shared, Key="a")
        assert found["Owner"]["ID"] == "root" and grants(found) == [("root", "FULL_CONTROL")]
        assert other.get_object_acl(Bucket=shared, Key="b")["Owner"]["ID"] == OTHER[0]


class TestAccess:
    """Whom lists let in (judged by gateway/access)."""

    @pytest.mark.parametrize("name,anonymous,stranger", [
        ("private", False, False), ("public-read", True, True), ("authenticated-read", False, True)])
    def test_reading_an_object(self, s3, other, nobody, lists, name, anonymous, stranger):
        """The three lists that are in use everywhere."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL=name)
        for client, allowed in ((nobody, anonymous), (other, stranger)):
            if allowed:
                assert client.get_object(Bucket=lists, Key="a")["Body"].read() == b"x"
                continue
            with pytest.raises(ClientError) as error:
                client.get_object(Bucket=lists, Key="a")
            assert error.value.response["Error"]["Code"] == "AccessDenied"

    def test_writing_into_a_bucket(self, s3, other, lists, refused):
        """WRITE on a bucket lets write objects, and not read them."""
        with refused(403, "AccessDenied"):
            other.put_object(Bucket=lists, Key="a", Body=b"")
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", user("root", "FULL_CONTROL"),
                                                                   user(OTHER[0], "WRITE")))
        other.put_object(Bucket=lists, Key="a", Body=b"")
        with refused(403, "AccessDenied"):
            other.list_objects_v2(Bucket=lists)

    def test_reading_and_writing_the_list(self, s3, other, lists, refused):
        """READ_ACP and WRITE_ACP are rights of their own."""
        with refused(403, "AccessDenied"):
            other.get_bucket_acl(Bucket=lists)
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", user(OTHER[0], "READ_ACP")))
        assert grants(other.get_bucket_acl(Bucket=lists)) == [(OTHER[0], "READ_ACP")]
        with refused(403, "AccessDenied"):
            other.put_bucket_acl(Bucket=lists, ACL="private")
        s3.put_bucket_acl(Bucket=lists, AccessControlPolicy=policy("root", user(OTHER[0], "WRITE_ACP")))
        other.put_bucket_acl(Bucket=lists, ACL="private")
        assert grants(s3.get_bucket_acl(Bucket=lists)) == [("root", "FULL_CONTROL")]


    def test_requester_pays(self, s3, other, nobody, lists, refused):
        """Requester: strangers must say that they pay, and nobody in particular cannot."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="public-read")
        s3.put_bucket_request_payment(Bucket=lists, RequestPaymentConfiguration={"Payer": "Requester"})
        for client, more in ((other, {}), (nobody, {}), (nobody, {"RequestPayer": "requester"})):
            with refused(403, "AccessDenied"):
                client.get_object(Bucket=lists, Key="a", **more)
        assert other.get_object(Bucket=lists, Key="a", RequestPayer="requester")["RequestCharged"] == "requester"
        assert s3.get_object(Bucket=lists, Key="a")["Body"].read() == b"x"


class TestBlock:
    def test_public_lists_are_refused(self, s3, lists, refused):
        """BlockPublicAcls: nothing becomes public from now on; what is not public goes on."""
        s3.put_object(Bucket=lists, Key="old", Body=b"x")
        s3.put_public_access_block(Bucket=lists, PublicAccessBlockConfiguration={"BlockPublicAcls": True})
        for acl in ({"ACL": "public-read"}, {"ACL": "authenticated-read"}, {"GrantRead": f"uri={ALL_USERS}"}):
            with refused(403, "AccessDenied"):
                s3.put_object(Bucket=lists, Key="new", Body=b"", **acl)
            with refused(403, "AccessDenied"):
                s3.put_bucket_acl(Bucket=lists, **acl)
            with refused(403, "AccessDenied"):
                s3.put_object_acl(Bucket=lists, Key="old", **acl)
        s3.put_object(Bucket=lists, Key="new", Body=b"", ACL="private")

    def test_public_lists_are_ignored(self, s3, nobody, lists, refused):
        """IgnorePublicAcls: they stay, and open nothing."""
        s3.put_object(Bucket=lists, Key="a", Body=b"x", ACL="public-read")
        assert nobody.get_object(Bucket=lists, Key="a")["Body"].read() == b"x"
        s3.put_public_access_block(Bucket=lists, PublicAccessBlockConfiguration={"IgnorePublicAcls": True})
        with refused(403, "AccessDenied"):
            nobody.get_object(Bucket=lists, Key="a")
        assert len(grants(s3.get_object_acl(Bucket=lists, Key="a"))) == 2
