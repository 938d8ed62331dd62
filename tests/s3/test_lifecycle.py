"""Lifecycle: what a configuration may say, and what it does. The server's lifecycle day is two seconds; every
wait has an end."""
import datetime
import time

import pytest

from kist import Server

DAY_S = 2
WAIT_S = 30  # expiry is due within 2 or 3 days; the rest is for a slow machine


@pytest.fixture(scope="module")
def quick():
    with Server(arguments=["--lifecycle-day", f"{DAY_S}s"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(quick):
    return quick.client()


@pytest.fixture
def box(client, request):
    name = "lc-" + request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:55].strip("-.")
    client.create_bucket(Bucket=name)
    return name


def rules(client, bucket, *all_rules):
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(all_rules)})


def rule(name="r", prefix="", status="Enabled", **more):
    return {"ID": name, "Status": status, "Filter": {"Prefix": prefix}, **more}


def until(check, wait_s=WAIT_S):
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.1)
    return check()


def keys(client, bucket):
    return [found["Key"] for found in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def versions(client, bucket):
    page = client.list_object_versions(Bucket=bucket)
    return page.get("Versions", []), page.get("DeleteMarkers", [])


def enable(client, bucket):
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


# ---- Configurations ----


def test_round_trip(client, box):
    """What was put comes back as it was: Terraform compares the two on every run."""
    put = [
        rule("all", "a/", Expiration={"Days": 3}),
        {"ID": "old", "Status": "Disabled", "Prefix": "b/", "Expiration": {"Days": 1}},
        {"ID": "and", "Status": "Enabled",
         "Filter": {"And": {"Prefix": "c/", "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": ""}],
                            "ObjectSizeGreaterThan": 10, "ObjectSizeLessThan": 20}},
         "Expiration": {"Date": datetime.datetime(2040, 1, 2, tzinfo=datetime.timezone.utc)}},
        {"ID": "tag", "Status": "Enabled", "Filter": {"Tag": {"Key": "k", "Value": "v"}},
         "NoncurrentVersionExpiration": {"NoncurrentDays": 4, "NewerNoncurrentVersions": 2}},
        {"ID": "size", "Status": "Enabled", "Filter": {"ObjectSizeGreaterThan": 0}, "Expiration": {"Days": 9}},
        rule("rest", "d/", Expiration={"ExpiredObjectDeleteMarker": True},
             AbortIncompleteMultipartUpload={"DaysAfterInitiation": 7}),
    ]
    rules(client, box, *put)
    got = client.get_bucket_lifecycle_configuration(Bucket=box)
    assert got["Rules"] == put
    assert got["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"


def test_minimum_size_header(client, box):
    """Terraform puts it and reads it back, though only transitions depend on it."""
    answer = client.put_bucket_lifecycle_configuration(
        Bucket=box, TransitionDefaultMinimumObjectSize="varies_by_storage_class",
        LifecycleConfiguration={"Rules": [rule(Expiration={"Days": 1})]})
    assert answer["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"
    got = client.get_bucket_lifecycle_configuration(Bucket=box)
    assert got["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"


def test_absent_and_deleted(client, box, refused):
    """Clients tell "none" by this code, before the first put and after the delete."""
    with refused(404, "NoSuchLifecycleConfiguration"):
        client.get_bucket_lifecycle_configuration(Bucket=box)
    rules(client, box, rule(Expiration={"Days": 1}))
    assert client.delete_bucket_lifecycle(Bucket=box)["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(404, "NoSuchLifecycleConfiguration"):
        client.get_bucket_lifecycle_configuration(Bucket=box)


def test_a_name_is_made(client, box):
    """A rule without an ID gets one, by which it can be told and changed."""
    rules(client, box, {"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 1}})
    found = client.get_bucket_lifecycle_configuration(Bucket=box)["Rules"][0]
    assert len(found["ID"]) > 10


EXPIRE = {"Days": 1}
TAG = {"Tag": {"Key": "k", "Value": "v"}}
REFUSALS = {
    "days_zero": (rule(Expiration={"Days": 0}), "InvalidArgument"),
    "not_midnight": (rule(Expiration={"Date": datetime.datetime(2040, 1, 2, 3)}), "InvalidArgument"),
    "days_and_date": (rule(Expiration={"Days": 1, "Date": datetime.datetime(2040, 1, 2)}), "MalformedXML"),
    "days_and_marker": (rule(Expiration={"Days": 1, "ExpiredObjectDeleteMarker": True}), "MalformedXML"),
    "no_action": (rule(), "InvalidRequest"),
    "bad_status": (rule(status="enabled", Expiration=EXPIRE), "MalformedXML"),
    "long_id": (rule("x" * 256, Expiration=EXPIRE), "InvalidArgument"),
    "no_filter": ({"ID": "r", "Status": "Enabled", "Expiration": EXPIRE}, "MalformedXML"),
    "and_of_one": ({"ID": "r", "Status": "Enabled", "Filter": {"And": {"Prefix": "a"}}, "Expiration": EXPIRE},
                   "MalformedXML"),
    "two_predicates": ({"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "a", **TAG}, "Expiration": EXPIRE},
                       "MalformedXML"),
    "sizes": ({"ID": "r", "Status": "Enabled", "Expiration": EXPIRE,
               "Filter": {"And": {"ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 5}}}, "InvalidRequest"),
    "same_tags": ({"ID": "r", "Status": "Enabled", "Expiration": EXPIRE,
                   "Filter": {"And": {"Tags": [TAG["Tag"], TAG["Tag"]]}}}, "InvalidRequest"),
    "abort_by_tag": ({"ID": "r", "Status": "Enabled", "Filter": TAG,
                      "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}, "InvalidRequest"),
    "marker_by_tag": ({"ID": "r", "Status": "Enabled", "Filter": TAG,
                       "Expiration": {"ExpiredObjectDeleteMarker": True}}, "InvalidRequest"),
    "noncurrent_zero": (rule(NoncurrentVersionExpiration={"NoncurrentDays": 0}), "InvalidArgument"),
    "keep_too_many": (rule(NoncurrentVersionExpiration={"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}),
                      "InvalidArgument"),
    "abort_zero": (rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 0}), "InvalidArgument"),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_refusal(client, box, refused, name):
    """A rule that cannot be meant is refused with AWS's code, and nothing is stored of it."""
    wrong, code = REFUSALS[name]
    with refused(400, code):
        rules(client, box, wrong)
    with refused(404, "NoSuchLifecycleConfiguration"):
        client.get_bucket_lifecycle_configuration(Bucket=box)


def test_same_names(client, box, refused):
    """Two rules of one ID could not be told apart."""
    with refused(400, "InvalidArgument"):
        rules(client, box, rule("same", "a", Expiration=EXPIRE), rule("same", "b", Expiration=EXPIRE))


@pytest.mark.parametrize("action", [
    {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]},
    {"NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": "GLACIER"}]}])
def test_transitions_are_refused(client, box, refused, action):
    """A transition that is stored but never happens would be a bill that is never saved."""
    with refused(501, "NotImplemented"):
        rules(client, box, rule(Expiration={"Days": 1}, **action))


# ---- What happens ----


def test_expires_by_days(client, box):
    """The whole point: what is old goes, what another rule or none names stays."""
    rules(client, box, rule("gone", "gone/", Expiration={"Days": 1}), rule("later", "later/", Expiration={"Days": 900}))
    for key in ("gone/a", "gone/b", "later/a", "other"):
        client.put_object(Bucket=box, Key=key, Body=b"x")
    assert until(lambda: keys(client, box) == ["later/a", "other"])
    begin = time.monotonic()
    client.put_object(Bucket=box, Key="gone/late", Body=b"x")
    assert until(lambda: keys(client, box) == ["later/a", "other"])
    assert time.monotonic() - begin > DAY_S - 0.5  # never early


def test_rules_come_after_objects(client, box):
    """Rules also hold for what was there before them, more than one step of the job can see."""
    for i in range(600):
        client.put_object(Bucket=box, Key=f"k{i:04}", Body=b"")
    client.put_object(Bucket=box, Key="stays", Body=b"")
    rules(client, box, rule("gone", "k", Expiration={"Days": 1}))
    assert until(lambda: keys(client, box) == ["stays"])


def test_changed_rules(client, box):
    """A due row of old rules is a hint: rules that were taken back delete nothing."""
    rules(client, box, rule("gone", "a", Expiration={"Days": 1}))
    client.put_object(Bucket=box, Key="a", Body=b"x")
    client.put_object(Bucket=box, Key="b", Body=b"x")
    rules(client, box, rule("gone", "b", Expiration={"Days": 1}))
    assert until(lambda: keys(client, box) == ["a"])
    time.sleep(2 * DAY_S)
    assert keys(client, box) == ["a"]


def test_disabled(client, box):
    """A disabled rule is kept, and does nothing."""
    rules(client, box, rule("off", "a", status="Disabled", Expiration={"Days": 1}),
          rule("on", "b", Expiration={"Days": 1}))
    client.put_object(Bucket=box, Key="a", Body=b"x")
    client.put_object(Bucket=box, Key="b", Body=b"x")
    assert until(lambda: keys(client, box) == ["a"])


def test_by_date(client, box):
    """A date that has passed holds at once for everything, one to come for nothing yet."""
    past = datetime.datetime(2020, 1, 1)
    rules(client, box, rule("past", "past/", Expiration={"Date": past}),
          rule("future", "future/", Expiration={"Date": datetime.datetime(2099, 1, 1)}))
    client.put_object(Bucket=box, Key="past/a", Body=b"x")
    client.put_object(Bucket=box, Key="future/a", Body=b"x")
    assert until(lambda: keys(client, box) == ["future/a"])


def test_by_size_and_tag(client, box):
    """Filters are exact: both bounds of a size are exclusive, every tag must be there."""
    rules(client, box,
          {"ID": "size", "Status": "Enabled", "Expiration": {"Days": 1},
           "Filter": {"And": {"Prefix": "s", "ObjectSizeGreaterThan": 2, "ObjectSizeLessThan": 5}}},
          {"ID": "tags", "Status": "Enabled", "Expiration": {"Days": 1},
           "Filter": {"And": {"Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]}}})
    for size in (2, 3, 4, 5):
        client.put_object(Bucket=box, Key=f"s{size}", Body=b"x" * size)
    client.put_object(Bucket=box, Key="t-both", Body=b"x", Tagging="b=2&a=1&c=3")
    client.put_object(Bucket=box, Key="t-one", Body=b"x", Tagging="a=1")
    client.put_object(Bucket=box, Key="t-later", Body=b"x")
    assert until(lambda: keys(client, box) == ["s2", "s5", "t-later", "t-one"])
    client.put_object_tagging(Bucket=box, Key="t-later",
                              Tagging={"TagSet": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]})
    assert until(lambda: keys(client, box) == ["s2", "s5", "t-one"])


def test_uploads(client, box, refused):
    """Abandoned uploads hold space that nobody sees; the young ones go on."""
    rules(client, box, rule("abort", "a/", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}))
    stale = client.create_multipart_upload(Bucket=box, Key="a/x")
    client.upload_part(Bucket=box, Key="a/x", UploadId=stale["UploadId"], PartNumber=1, Body=b"x")
    other = client.create_multipart_upload(Bucket=box, Key="b/x")
    assert stale["AbortRuleId"] == "abort" and stale["AbortDate"]
    assert "AbortDate" not in other
    listed = client.list_parts(Bucket=box, Key="a/x", UploadId=stale["UploadId"])
    assert listed["AbortRuleId"] == "abort" and listed["AbortDate"] == stale["AbortDate"]
    assert until(lambda: [u["Key"] for u in client.list_multipart_uploads(Bucket=box).get("Uploads", [])] == ["b/x"])
    with refused(404, "NoSuchUpload"):
        client.list_parts(Bucket=box, Key="a/x", UploadId=stale["UploadId"])


def test_versioned(client, box):
    """Expiration hides the current version, NoncurrentVersionExpiration removes it, then the marker goes: nothing is
    left for ever."""
    enable(client, box)
    rules(client, box, rule("e", Expiration={"Days": 1}, NoncurrentVersionExpiration={"NoncurrentDays": 3}),
          rule("m", Expiration={"ExpiredObjectDeleteMarker": True}))
    client.put_object(Bucket=box, Key="k", Body=b"x")
    assert until(lambda: [len(found) for found in versions(client, box)] == [1, 1])
    assert keys(client, box) == []
    assert until(lambda: [len(found) for found in versions(client, box)] == [0, 0])
    client.delete_bucket(Bucket=box)


def test_versioned_keeps_markers(client, box):
    """Without ExpiredObjectDeleteMarker or days, a lone marker stays."""
    enable(client, box)
    rules(client, box, rule("n", NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    client.put_object(Bucket=box, Key="k", Body=b"x")
    client.delete_object(Bucket=box, Key="k")
    assert until(lambda: [len(found) for found in versions(client, box)] == [0, 1])
    time.sleep(2 * DAY_S)
    assert [len(found) for found in versions(client, box)] == [0, 1]


def test_newer_noncurrent(client, box):
    """As many noncurrent versions as asked are kept, and the count holds when further ones come."""
    enable(client, box)
    rules(client, box, rule("n", NoncurrentVersionExpiration={"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}))
    made = [client.put_object(Bucket=box, Key="k", Body=str(i).encode())["VersionId"] for i in range(6)]
    assert until(lambda: [v["VersionId"] for v in versions(client, box)[0]] == made[:2:-1])
    time.sleep(2 * DAY_S)
    assert [v["VersionId"] for v in versions(client, box)[0]] == made[:2:-1]
    made.append(client.put_object(Bucket=box, Key="k", Body=b"last")["VersionId"])
    assert until(lambda: [v["VersionId"] for v in versions(client, box)[0]] == made[:3:-1])


def test_suspended(client, box):
    """In a suspended bucket the null version gives way to a null marker, the others stay."""
    enable(client, box)
    first = client.put_object(Bucket=box, Key="k", Body=b"1")["VersionId"]
    client.put_bucket_versioning(Bucket=box, VersioningConfiguration={"Status": "Suspended"})
    client.put_object(Bucket=box, Key="k", Body=b"2")
    rules(client, box, rule("e", Expiration={"Days": 1}))

    def hidden():
        found, markers = versions(client, box)
        return [v["VersionId"] for v in found] == [first] and [m["VersionId"] for m in markers] == ["null"]
    assert until(hidden)


def test_locked(client, request):
    """A lock is stronger than any rule; when it ends, the rule is."""
    name = "lc-locked-" + str(time.time_ns())
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    rules(client, name, rule("n", NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    until_s = int(time.time()) + 4 * DAY_S
    locked = client.put_object(Bucket=name, Key="k", Body=b"x", ObjectLockMode="GOVERNANCE",
                               ObjectLockRetainUntilDate=datetime.datetime.fromtimestamp(until_s, datetime.timezone.utc)
                               )["VersionId"]
    held = client.put_object(Bucket=name, Key="h", Body=b"x", ObjectLockLegalHoldStatus="ON")["VersionId"]
    client.put_object(Bucket=name, Key="k", Body=b"y")
    client.put_object(Bucket=name, Key="h", Body=b"y")
    free = client.put_object(Bucket=name, Key="f", Body=b"x")["VersionId"]
    client.put_object(Bucket=name, Key="f", Body=b"y")

    def ids():
        return {v["VersionId"] for v in versions(client, name)[0]}
    assert until(lambda: free not in ids())
    if time.time() < until_s:
        assert locked in ids()
    assert until(lambda: locked not in ids())
    assert time.time() >= until_s and held in ids()
    client.put_object_legal_hold(Bucket=name, Key="h", VersionId=held, LegalHold={"Status": "OFF"})
    assert until(lambda: held not in ids())


def test_restart():
    """What is due while the server is down expires after its start; what is not stays."""
    with Server(arguments=["--lifecycle-day", f"{DAY_S}s"]) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="restart")
        rules(s3, "restart", rule("gone", "gone/", Expiration={"Days": 1}), rule("not", "not/", Expiration={"Days": 999}))
        for i in range(50):
            s3.put_object(Bucket="restart", Key=f"gone/{i}", Body=b"x" * 100000)
        s3.put_object(Bucket="restart", Key="not/yet", Body=b"x")
        server.kill()
        time.sleep(2 * DAY_S)
        server.start()
        assert until(lambda: keys(s3, "restart") == ["not/yet"])
        assert s3.get_object(Bucket="restart", Key="not/yet")["Body"].read() == b"x"


# ---- What is told ----


def test_headers(s3, bucket):
    """Clients read from these when an object will go; a real day here, so that midnight can be checked."""
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [
        rule("rule one", "a/", Expiration={"Days": 3}),
        rule("up", "u/", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1})]})
    put = s3.put_object(Bucket=bucket, Key="a/k", Body=b"x")
    got = s3.get_object(Bucket=bucket, Key="a/k")
    made = got["LastModified"]
    midnight = (made + datetime.timedelta(days=4)).replace(hour=0, minute=0, second=0, microsecond=0)
    want = f'expiry-date="{midnight.strftime("%a, %d %b %Y %H:%M:%S GMT")}", rule-id="rule%20one"'
    assert put["Expiration"] == got["Expiration"] == want
    assert s3.head_object(Bucket=bucket, Key="a/k")["Expiration"] == want
    copy = s3.copy_object(Bucket=bucket, Key="a/copy", CopySource={"Bucket": bucket, "Key": "a/k"})
    assert copy["Expiration"] == want
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="b/k", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="u/k")
    assert upload["AbortDate"].hour == 0 and upload["AbortRuleId"] == "up"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a/m")
    part = s3.upload_part(Bucket=bucket, Key="a/m", UploadId=upload["UploadId"], PartNumber=1, Body=b"x")
    whole = s3.complete_multipart_upload(Bucket=bucket, Key="a/m", UploadId=upload["UploadId"], MultipartUpload={
        "Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert whole["Expiration"].endswith('rule-id="rule%20one"')
