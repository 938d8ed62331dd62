"""Who asks: users of their own, and nobody."""
import subprocess

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from kist import ACCESS_KEY, REGION, SECRET_KEY, binary, clean_environment


def add_user(server, name):
    """Makes the user with a key (its secret is secret/<name>) and returns a client."""
    access_key, secret_key = (name.upper().replace("-", "") + "0" * 20)[:20], f"secret/{name}/0123456789"
    env = clean_environment({"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY,
                             "KIST_NEW_ACCESS_KEY": access_key, "KIST_NEW_SECRET_KEY": secret_key})
    for command in (["user", "add", name], ["key", "add", name]):
        subprocess.run([binary(), "admin", "--admin", f"127.0.0.1:{server.admin_port}", *command], env=env, check=True,
                       capture_output=True, timeout=60)
    return server.client(access_key, secret_key, signature_version="s3v4")


def anonymous(server):
    return boto3.session.Session().client("s3", endpoint_url=server.endpoint, region_name=REGION,
                                          config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"},
                                                        retries={"max_attempts": 1}))
