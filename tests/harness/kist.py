"""A kist server of one's own, for black-box tests: started on free ports over a temporary directory, stopped
at the end whatever happens. Used by tests/s3, tests/clients, tests/crash, tests/bench.

    with Server(directories=4) as server:
        s3 = server.client()
"""
import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ACCESS_KEY = "KISTTESTACCESSKEY0"
SECRET_KEY = "kist/test+secret=key0123456789"
REGION = "us-east-1"


def binary():
    return os.environ.get("KIST_BINARY", str(ROOT / "build" / "kist"))


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment(extra=None):
    """The caller's environment without what would change a client's or the server's behaviour."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KIST_", "AWS_"))}
    env.pop("SSL_CERT_FILE", None)
    env.update(extra or {})
    return env


class Server:
    def __init__(self, directories=1, arguments=(), environment=None, path=None, keep=False):
        self.own_path = path is None
        self.keep = keep
        self.path = Path(path or tempfile.mkdtemp(prefix="kist-test-"))
        self.directories = [self.path / f"d{i}" for i in range(directories)]
        self.port = free_port()
        self.admin_port = free_port()
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.process = None
        self.started_in = None

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin(self):
        return f"http://127.0.0.1:{self.admin_port}"

    def command(self):
        command = [binary(), "serve"]
        for directory in self.directories:
            command += ["--data", str(directory)]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        command += ["--admin-listen", f"127.0.0.1:{self.admin_port}"]
        return command + self.arguments

    def start(self, wait_s=60):
        env = clean_environment(
            {"KIST_ROOT_ACCESS_KEY": ACCESS_KEY, "KIST_ROOT_SECRET_KEY": SECRET_KEY}
        )
        if os.environ.get("KIST_META_RPC"):  # gateways talk to metad over loopback (cli/serve_rpc.c)
            env["KIST_META_RPC"] = os.environ["KIST_META_RPC"]
        env.update(self.environment)
        begin = time.monotonic()
        self.log = open(self.path / "server.log", "ab")
        self.process = subprocess.Popen(
            self.command(), env=env, stdout=self.log, stderr=self.log, start_new_session=True
        )
        while not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"kist ended with {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() - begin > wait_s:
                self.kill()
                raise RuntimeError(f"kist not ready after {wait_s} s:\n{self.tail()}")
            time.sleep(0.01)
        self.started_in = time.monotonic() - begin
        return self

    def ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=2)
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def tail(self, lines=30):
        text = (self.path / "server.log").read_text(errors="replace").splitlines()
        return "\n".join(text[-lines:])

    def kill(self):
        """kill -9."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(30)
            self.process = None
            self.log.close()

    def stop(self, wait_s=60):
        """SIGTERM; returns the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.process = None
        self.log.close()
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        if self.own_path and not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)

    # ---- what the process uses ----

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pss_mib(self):
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        return 0.0

    # ---- clients ----

    def client(self, access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint=None, **config):
        import boto3
        from botocore.config import Config

        settings = {
            "retries": {"max_attempts": 1},
            "s3": {"addressing_style": "path"},
            "max_pool_connections": 64,
            "connect_timeout": 10,
            "read_timeout": 120,
        }
        settings.update(config)
        return boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint or self.endpoint,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            region_name=REGION,
            config=Config(**settings),
        )
