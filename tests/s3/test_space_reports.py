"""Bytes on disks against bytes that are referenced, and what a full disk still does (user-reports 28, 30)."""
import json
import os
import random
import subprocess
import threading
import time
import urllib.request

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from kist import Server

KIB, MIB = 1024, 1024 * 1024
SPARE = 256 * KIB  # checksums of blocks, lengths rounded up


def live(server):
    """Bytes of shards that exist, on all disks."""
    with urllib.request.urlopen(f"{server.admin}/status.json", timeout=10) as reply:
        return sum(disk["live_bytes"] for disk in json.load(reply)["disks"])


def wait_for(server, referenced, seconds=60):
    """Until no more than this is live; what is missing of it would be found by reading."""
    end = time.monotonic() + seconds
    while live(server) > referenced * 1.02 + SPARE:
        assert time.monotonic() < end, f"{live(server)} bytes live, {referenced} referenced"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def own():
    with Server(arguments=["--reclaim-grace", "100ms"]) as server:
        yield server


@pytest.fixture
def box(own):
    """A bucket on a server of which all other bytes are gone."""
    s3 = own.client()
    s3.create_bucket(Bucket="space")
    wait_for(own, 0)
    yield s3
    for upload in s3.list_multipart_uploads(Bucket="space").get("Uploads", []):
        s3.abort_multipart_upload(Bucket="space", Key=upload["Key"], UploadId=upload["UploadId"])
    for found in s3.list_objects_v2(Bucket="space").get("Contents", []):
        s3.delete_object(Bucket="space", Key=found["Key"])
    s3.delete_bucket(Bucket="space")


def test_overwritten_a_thousand_times(own, box):
    """Each overwrite frees what it replaces: copies, stripes and inline objects alike."""
    sizes = (20 * KIB, 300 * KIB, 10, 0)
    for number in range(1000):
        box.put_object(Bucket="space", Key="k", Body=b"x" * sizes[number % 4])
    box.put_object(Bucket="space", Key="k", Body=b"x" * sizes[1])
    wait_for(own, sizes[1])
    assert len(box.get_object(Bucket="space", Key="k")["Body"].read()) == sizes[1]
    box.delete_object(Bucket="space", Key="k")
    wait_for(own, 0)


def test_parts_sent_again(own, box):
    """Of a part that came six times one is kept; parts that Complete does not list go."""
    upload = box.create_multipart_upload(Bucket="space", Key="k")["UploadId"]
    call = {"Bucket": "space", "Key": "k", "UploadId": upload}
    for _ in range(6):
        one = box.upload_part(**call, PartNumber=1, Body=b"x" * 5 * MIB)["ETag"]
    box.upload_part(**call, PartNumber=2, Body=b"y" * 5 * MIB)
    wait_for(own, 10 * MIB)
    box.complete_multipart_upload(**call, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": one}]})
    wait_for(own, 5 * MIB)
    assert len(box.get_object(Bucket="space", Key="k")["Body"].read()) == 5 * MIB


def test_aborted_and_refused(own, box):
    """Aborts, failed digests, failed conditions and cut connections leave nothing behind."""
    import http.client
    from sign import Presigner
    upload = box.create_multipart_upload(Bucket="space", Key="k")["UploadId"]
    box.upload_part(Bucket="space", Key="k", UploadId=upload, PartNumber=1, Body=b"x" * 5 * MIB)
    box.abort_multipart_upload(Bucket="space", Key="k", UploadId=upload)
    box.put_object(Bucket="space", Key="there", Body=b"")
    for more in ({"Key": "there", "IfNoneMatch": "*"}, {"Key": "k", "ContentMD5": "AAAAAAAAAAAAAAAAAAAAAA=="}):
        with pytest.raises(ClientError):
            box.put_object(Bucket="space", Body=b"x" * 3 * MIB, **more)
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=10)
        connection.putrequest("PUT", Presigner(f"127.0.0.1:{own.port}").target("PUT", "/space/cut"), skip_host=True)
        connection.putheader("Host", f"127.0.0.1:{own.port}")
        connection.putheader("Content-Length", str(8 * MIB))
        connection.endheaders()
        connection.send(b"x" * 3 * MIB)
        connection.close()
    wait_for(own, 0)


def test_a_bucket_with_open_uploads(own):
    """What lay in unfinished uploads goes with their bucket."""
    s3 = own.client()
    s3.create_bucket(Bucket="unfinished")
    for key in ("a", "b"):
        upload = s3.create_multipart_upload(Bucket="unfinished", Key=key)["UploadId"]
        s3.upload_part(Bucket="unfinished", Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 5 * MIB)
    s3.delete_bucket(Bucket="unfinished")
    wait_for(own, 0)


def test_copies_hold_what_they_share(own, box):
    """Shared bytes are there once, until the last name goes."""
    box.put_object(Bucket="space", Key="k0", Body=b"x" * 4 * MIB)
    for number in range(1, 10):
        box.copy_object(Bucket="space", Key=f"k{number}", CopySource=f"space/k{number - 1}")
    for number in range(9):
        box.delete_object(Bucket="space", Key=f"k{number}")
    time.sleep(1)
    wait_for(own, 4 * MIB)
    assert len(box.get_object(Bucket="space", Key="k9")["Body"].read()) == 4 * MIB
    box.delete_object(Bucket="space", Key="k9")
    wait_for(own, 0)


@pytest.mark.parametrize("directories", [1, 4])
def test_killed_while_it_writes(directories):
    """kill -9 in every phase of PUT leaves at most what was under way (its audit: issue 5); what was replaced is freed."""
    kills, lanes, largest = 6, 6, 300 * KIB
    with Server(directories=directories, arguments=["--reclaim-grace", "100ms"]) as server:
        server.client().create_bucket(Bucket="kills")
        written = 0
        for seed in range(kills):
            client = server.client(retries={"max_attempts": 1}, read_timeout=20)
            stop = threading.Event()

            def write(lane, client=client, stop=stop):
                nonlocal written
                dice = random.Random(lane)
                while not stop.is_set():
                    size = dice.choice((100, 100 * KIB, largest))
                    try:
                        client.put_object(Bucket="kills", Key=f"k{lane}", Body=b"x" * size)
                        written += size
                    except (ClientError, BotoCoreError):
                        return

            threads = [threading.Thread(target=write, args=(lane,)) for lane in range(lanes)]
            for thread in threads:
                thread.start()
            time.sleep(random.Random(seed).uniform(0.5, 1.5))
            server.kill()
            stop.set()
            for thread in threads:
                thread.join(60)
            server.start()
        s3 = server.client()
        found = s3.list_objects_v2(Bucket="kills").get("Contents", [])
        copies = {1: 1, 4: 3}[directories]  # at most: of small objects
        under_way = kills * lanes * largest
        assert written > 2 * under_way, "too little was written to see a leak"
        wait_for(server, (sum(one["Size"] for one in found) + under_way) * copies)
        for one in found:
            assert len(s3.get_object(Bucket="kills", Key=one["Key"])["Body"].read()) == one["Size"]


# ---- 28 ----

@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 MiB."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "kist-test", str(tmp_path)], capture_output=True)
    if made.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=False)


def refusal(call):
    try:
        call()
        return None
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


def test_a_full_disk_can_be_emptied(small_disk):
    """Filled by clients alone: writes say so, reads, lists, deletes and aborts go on, a restart too, and space comes back by itself."""
    server = Server(arguments=["--free-space-min", "16M", "--segment-size", "16M", "--reclaim-grace", "100ms"])
    server.directories = [small_disk / "d"]
    with server:
        s3 = server.client()
        s3.create_bucket(Bucket="full")
        upload = s3.create_multipart_upload(Bucket="full", Key="u")["UploadId"]
        s3.upload_part(Bucket="full", Key="u", UploadId=upload, PartNumber=1, Body=os.urandom(5 * MIB))
        count = 0
        while (told := refusal(lambda: s3.put_object(Bucket="full", Key=f"k{count:03}", Body=os.urandom(4 * MIB)))) is None:
            count += 1
            assert count < 100, "never full"
        assert told == (507, "InsufficientStorage")
        assert count > 30
        assert s3.list_objects_v2(Bucket="full")["KeyCount"] == count
        assert len(s3.get_object(Bucket="full", Key="k000")["Body"].read()) == 4 * MIB
        assert server.stop() == 0
        server.start()  # full, and it starts
        s3 = server.client()
        assert len(s3.get_object(Bucket="full", Key=f"k{count - 1:03}")["Body"].read()) == 4 * MIB
        s3.abort_multipart_upload(Bucket="full", Key="u", UploadId=upload)
        reply = s3.delete_objects(Bucket="full", Delete={"Objects": [{"Key": f"k{number:03}"} for number in range(count // 2)]})
        assert len(reply["Deleted"]) == count // 2
        end = time.monotonic() + 60
        while refusal(lambda: s3.put_object(Bucket="full", Key="again", Body=os.urandom(4 * MIB))) is not None:
            assert time.monotonic() < end, "still full"
            time.sleep(0.2)
        for number in range(count // 2, count):
            assert len(s3.get_object(Bucket="full", Key=f"k{number:03}")["Body"].read()) == 4 * MIB
