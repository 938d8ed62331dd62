"""aws-cli as a user types it."""
import os
import shutil
import subprocess

import pytest
from kist import ACCESS_KEY, REGION, SECRET_KEY, clean_environment

pytestmark = pytest.mark.skipif(shutil.which("aws") is None, reason="aws is not installed")


@pytest.fixture
def aws(server):
    env = clean_environment({"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                             "AWS_DEFAULT_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"})

    def run(*arguments):
        result = subprocess.run(["aws", "--endpoint-url", server.endpoint, *arguments], env=env, text=True,
                                capture_output=True, timeout=120)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_tree(aws, bucket, tmp_path):
    tree, back = tmp_path / "tree", tmp_path / "back"
    for name in ("a", "b/c", "b/d e", "ü/ß"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(os.urandom(1000))
    (tree / "large").write_bytes(os.urandom(20 * 1024 * 1024))
    for path in tree.rglob("*"):  # LastModified has whole seconds: a file of this second would count as newer
        os.utime(path, (1_700_000_000, 1_700_000_000))
    aws("s3", "sync", str(tree), f"s3://{bucket}/t")
    assert aws("s3", "sync", str(tree), f"s3://{bucket}/t") == ""
    aws("s3", "sync", f"s3://{bucket}/t", str(back))
    for path in tree.rglob("*"):
        if path.is_file():
            assert (back / path.relative_to(tree)).read_bytes() == path.read_bytes()
    assert "PRE t/" in aws("s3", "ls", f"s3://{bucket}")


def test_copy_move_remove(aws, s3, bucket, tmp_path):
    (tmp_path / "large").write_bytes(os.urandom(20 * 1024 * 1024))
    aws("s3", "cp", str(tmp_path / "large"), f"s3://{bucket}/one")
    aws("s3", "cp", f"s3://{bucket}/one", f"s3://{bucket}/two")
    aws("s3", "mv", f"s3://{bucket}/two", f"s3://{bucket}/three")
    assert s3.get_object(Bucket=bucket, Key="three")["Body"].read() == (tmp_path / "large").read_bytes()
    aws("s3", "rm", f"s3://{bucket}", "--recursive")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_make_and_remove_bucket(aws, s3):
    aws("s3", "mb", "s3://made-by-cli")
    s3.put_object(Bucket="made-by-cli", Key="k", Body=b"x")
    aws("s3", "rb", "s3://made-by-cli", "--force")
    assert "made-by-cli" not in aws("s3", "ls")
