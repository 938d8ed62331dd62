"""A cluster of kist processes of one's own: in network namespaces with addresses of their own when that works
here (root, `ip netns`), otherwise on several ports of 127.0.0.1. Stopped and cleaned up whatever happens.

    with Cluster(metads=3) as cluster:
        cluster.init()
        cluster.metads[0].kill()
"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from kist import binary, clean_environment, free_port

METAD_PORT = 9010
ADMIN_PORT = 9011


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=30)


def namespaces_work():
    if os.geteuid() != 0 or os.environ.get("KIST_CLUSTER_NETNS") == "0":
        return False
    name = f"kistprobe{os.getpid()}"
    try:
        made = run("ip", "netns", "add", name, check=False).returncode == 0
        return made and run("ip", "netns", "del", name, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Network:
    """A bridge, and a namespace for each node; the tests run in one more, which the bridge reaches."""

    def __init__(self):
        self.tag = f"k{os.getpid() % 100000}"
        self.bridge = f"{self.tag}b"
        self.net = f"10.{200 + os.getpid() % 50}.{(os.getpid() // 50) % 250}"
        self.names = []

    def open(self):
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.net}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def add(self, index):
        name = f"{self.tag}n{index}"
        outside = f"{self.tag}v{index}"
        run("ip", "netns", "add", name)
        self.names.append(name)
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", outside, "master", self.bridge, "up")
        run("ip", "-n", name, "addr", "add", f"{self.net}.{index + 10}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name, f"{self.net}.{index + 10}"

    def link(self, index, up):
        run("ip", "link", "set", f"{self.tag}v{index}", "up" if up else "down")

    def close(self):
        for name in self.names:
            run("ip", "netns", "del", name, check=False)
        run("ip", "link", "del", self.bridge, check=False)


class Metad:
    def __init__(self, cluster, index, peers=None, address=None):
        self.cluster = cluster
        self.index = index
        self.namespace = None
        if cluster.network is not None:
            self.namespace, self.host = cluster.network.add(index)
            self.port, self.admin_port = METAD_PORT, ADMIN_PORT
        else:
            self.host, self.port, self.admin_port = "127.0.0.1", free_port(), free_port()
        self.address = address or f"{self.host}:{self.port}"
        self.directory = cluster.path / f"m{index}"
        self.log_path = cluster.path / f"m{index}.log"
        self.peers = peers
        self.process = None

    def command(self):
        peers = self.peers if self.peers is not None else self.cluster.addresses()
        command = [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]
        command += [binary(), "metad", "--data", str(self.directory)]
        command += ["--listen", f"{self.host}:{self.port}", "--advertise", self.address]
        command += ["--admin-listen", f"{self.host}:{self.admin_port}", "--node-name", f"m{self.index}"]
        command += ["--cluster-key-file", str(self.cluster.key_file)]
        return command + (["--peers", ",".join(peers)] if peers else [])

    def start(self):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            self.command(), env=clean_environment(), stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9."""
        if self.running():
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(30)

    def stop(self, wait_s=30):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(wait_s)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def empty(self):
        shutil.rmtree(self.directory)

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, self.admin_port, timeout=2)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None, ""
        finally:
            connection.close()

    def status(self):
        """What /status.json says; {} when it does not answer."""
        code, text = self.get("/status.json")
        return json.loads(text) if code == 200 else {}

    def tail(self, lines=20):
        text = self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else []
        return f"--- m{self.index} ({self.address})\n" + "\n".join(text[-lines:])


class Cluster:
    def __init__(self, metads=3, keep=False):
        self.path = Path(tempfile.mkdtemp(prefix="kist-cluster-"))
        self.keep = keep
        self.key_file = self.path / "key"
        self.network = Network() if namespaces_work() else None
        self.count = metads
        self.metads = []

    def addresses(self):
        return [metad.address for metad in self.metads]

    def add(self, **settings):
        metad = Metad(self, len(self.metads), **settings)
        self.metads.append(metad)
        return metad

    def __enter__(self):
        try:
            if self.network is not None:
                self.network.open()
            key = run(binary(), "admin", "cluster", "key").stdout
            self.key_file.write_text(key)
            for _ in range(self.count):
                self.add()
            for metad in self.metads:
                metad.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print("\n".join(metad.tail() for metad in self.metads), flush=True)
        self.close()

    def close(self):
        for metad in self.metads:
            metad.kill()
        if self.network is not None:
            self.network.close()
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)

    def admin(self, *words, check=True, wait_s=90):
        """`kist admin WORDS`; returns (exit code, what it printed)."""
        command = [binary(), "admin", *words, "--metad", ",".join(self.addresses())]
        command += ["--cluster-key-file", str(self.key_file)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=wait_s, env=clean_environment()
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kist admin {' '.join(words)}: {done.stderr or done.stdout}")
        return done.returncode, done.stdout + done.stderr

    def init(self):
        wait_for(lambda: all(metad.status() for metad in self.metads), 30, "metads answer")
        return self.admin("cluster", "init")

    def leader(self):
        """The metad that may answer; None: nobody."""
        for metad in self.metads:
            if metad.running() and metad.status().get("serving"):
                return metad
        return None

    def wait_leader(self, wait_s=20):
        return wait_for(self.leader, wait_s, "a leader")

    def rows(self):
        """What `kist admin metad list` says: {name: (id, word, leads)}."""
        code, text = self.admin("metad", "list", check=False)
        rows = {}
        for line in text.splitlines() if code == 0 else []:
            fields = line.split()
            rows[fields[1]] = (int(fields[0]), fields[3], fields[4] == "leader")
        return rows


def wait_for(what, wait_s, name):
    """Looks until `what()` is true, and returns that; fails after wait_s."""
    until = time.monotonic() + wait_s
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"{name}: not within {wait_s} s")
        time.sleep(0.05)
