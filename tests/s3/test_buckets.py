"""Buckets: names, owners, places, lists."""
import pytest


def test_life(s3, refused):
    s3.create_bucket(Bucket="a-life")
    assert s3.head_bucket(Bucket="a-life")["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket="a-life")["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket="a-life")
    assert "a-life" in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    s3.delete_bucket(Bucket="a-life")
    with refused(404, "404"):
        s3.head_bucket(Bucket="a-life")
    with refused(404, "NoSuchBucket") as refusal:
        s3.delete_bucket(Bucket="a-life")
    assert refusal.response["Error"]["BucketName"] == "a-life"


def test_again_is_a_success_in_us_east_1(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.create_bucket(Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_full_bucket_stays(s3, bucket, refused):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with refused(409, "BucketNotEmpty"):
        s3.delete_bucket(Bucket=bucket)


@pytest.mark.parametrize("name", ["ab", "UPPER", "under_score", "-dash", "dash-", "a..b", "192.168.5.4",
                                  "xn--a", "a" * 64, "a-s3alias"])
def test_bad_names(raw, name):
    reply = raw.send("PUT", f"/{name}")
    assert (reply.status, reply.code) == (400, "InvalidBucketName")


@pytest.mark.parametrize("name", ["abc", "a.b.c", "0-1", "a" * 63])
def test_good_names(s3, name):
    s3.create_bucket(Bucket=name)
    s3.delete_bucket(Bucket=name)


def test_location_constraint(s3, refused):
    s3.create_bucket(Bucket="at-home", CreateBucketConfiguration={"LocationConstraint": "us-east-1"})
    s3.delete_bucket(Bucket="at-home")
    with refused(400, "IllegalLocationConstraintException"):
        s3.create_bucket(Bucket="abroad", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})


def test_list_pages(s3):
    names = [f"page-{i}" for i in range(5)]
    for name in names:
        s3.create_bucket(Bucket=name)
    seen, token = [], None
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = s3.list_buckets(Prefix="page-", MaxBuckets=2, **more)
        assert len(page["Buckets"]) <= 2
        seen += [b["Name"] for b in page["Buckets"]]
        token = page.get("ContinuationToken")
        if not token:
            break
    assert seen == names
    for name in names:
        s3.delete_bucket(Bucket=name)


def test_arn(raw, s3, bucket):
    assert raw.send("HEAD", f"/{bucket}").headers["x-amz-bucket-arn"] == f"arn:aws:s3:::{bucket}"
    assert raw.send("PUT", f"/{bucket}").headers["x-amz-bucket-arn"] == f"arn:aws:s3:::{bucket}"
