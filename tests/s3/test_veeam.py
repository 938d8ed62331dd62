"""Veeam's documents of what the store can do and how full it is: backup software reads them from any bucket."""
import re

from raw import path

FOLDER = ".system-d26a9498-cb7c-4a87-a44a-8ae204f5ba6c"


def test_system(s3, bucket):
    """Without it Veeam does not know the store, and neither sizes blocks nor shows free space."""
    got = s3.get_object(Bucket=bucket, Key=f"{FOLDER}/system.xml")
    text = got["Body"].read().decode()
    assert got["ContentType"] == "application/xml"
    assert re.search('<ProtocolVersion>(&quot;|")1.0(&quot;|")</ProtocolVersion>', text)
    assert "<CapacityInfo>true</CapacityInfo>" in text and "<UploadSessions>false</UploadSessions>" in text
    assert s3.head_object(Bucket=bucket, Key=f"{FOLDER}/system.xml")["ContentLength"] == len(text)


def test_capacity(s3, bucket):
    """Used and available add up to the capacity, and it is not nothing."""
    text = s3.get_object(Bucket=bucket, Key=f"{FOLDER}/capacity.xml")["Body"].read().decode()
    capacity, available, used = (int(re.search(f"<{name}>(\\d+)</{name}>", text).group(1))
                                 for name in ("Capacity", "Available", "Used"))
    assert capacity > 0 and available > 0 and capacity == available + used


def test_bounds(s3, raw, bucket, refused):
    """Nothing else under that folder is special, listings do not show it, and strangers do not see it."""
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with refused(404, "NoSuchKey"):
        s3.get_object(Bucket=bucket, Key=f"{FOLDER}/other.xml")
    with refused(404, "NoSuchBucket"):
        s3.get_object(Bucket="no-such-bucket-here", Key=f"{FOLDER}/system.xml")
    request = f"GET {path(bucket, FOLDER)}/system.xml HTTP/1.1\r\nHost: {raw.host}\r\n\r\n"
    assert raw.unsigned(request.encode()).status == 403
