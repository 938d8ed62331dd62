#!/usr/bin/env python3
"""Server CPU time per request, side by side in one run: kist, nginx (static files, no signatures: the floor of
HTTP) and, with --peers, Versity gateway (the cheapest of the peers measured).

    tests/bench/bench.py [--peers] [--seconds 8] [--rounds 3] [--list-keys 100000] [--only get,put,list,copy]

Figures that are asked for (limits in LIMITS) fail the run when they are missed. CPU = utime + stime of the
server process; medians over alternating rounds. Closing line `N passed, N failed`.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "harness"))
from kist import ACCESS_KEY, SECRET_KEY, Server, clean_environment, free_port  # noqa: E402
from load import put_many  # noqa: E402
from sign import Presigner  # noqa: E402

OBJECTS = 1000
SIZE = 8000
CONNECTIONS = 70
LIMITS = {"list_ms": 3.0, "copy_ms": 2.0, "peer_ratio": 4.0}


def cpu_s(pids):
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid):
    text = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True).stdout
    return [int(p) for p in text.split()]


class Kist:
    name = "kist"

    def __init__(self, scratch):
        self.server = Server().start()
        self.port = self.server.port
        self.pids = [self.server.process.pid]
        self.signer = Presigner(f"127.0.0.1:{self.port}")

    def prepare(self):
        self.server.client().create_bucket(Bucket="bench")
        put_many(self.port, "bench", [f"o{i}" for i in range(OBJECTS)], b"b" * SIZE)

    def target(self, method, name, query=()):
        return self.signer.target(method, f"/bench/{name}" if name else "/bench", query)

    def close(self):
        self.server.__exit__()


class Nginx:
    name = "nginx"

    def __init__(self, scratch):
        self.port = free_port()
        self.root = scratch / "nginx"
        (self.root / "html" / "bench").mkdir(parents=True)
        config = self.root / "nginx.conf"
        config.write_text(
            f"worker_processes 2; daemon off; pid {self.root}/pid; error_log {self.root}/error.log;\n"
            "events { worker_connections 1024; }\n"
            "http { access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n"
            f"client_body_temp_path {self.root}/t1; proxy_temp_path {self.root}/t2; fastcgi_temp_path {self.root}/t3;\n"
            f"uwsgi_temp_path {self.root}/t4; scgi_temp_path {self.root}/t5; open_file_cache max=5000;\n"
            f"server {{ listen 127.0.0.1:{self.port}; root {self.root}/html; }} }}\n"
        )
        self.process = subprocess.Popen(
            ["/usr/sbin/nginx", "-c", str(config)], stderr=subprocess.DEVNULL, env=clean_environment()
        )
        time.sleep(0.5)
        self.pids = children(self.process.pid)

    def prepare(self):
        os.chmod(self.root.parent, 0o755)
        for i in range(OBJECTS):
            (self.root / "html" / "bench" / f"o{i}").write_bytes(b"b" * SIZE)

    def target(self, method, name, query=()):
        return f"/bench/{name}"

    def close(self):
        self.process.terminate()
        self.process.wait(10)


class Versity:
    name = "versity"

    def __init__(self, scratch):
        binary = versity_binary()
        self.port = free_port()
        root = scratch / "versity"
        root.mkdir()
        self.process = subprocess.Popen(
            [binary, "--port", f"127.0.0.1:{self.port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY,
             "--keep-alive", "posix", str(root)],
            env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        time.sleep(1.5)
        self.pids = [self.process.pid]
        self.signer = Presigner(f"127.0.0.1:{self.port}")

    def prepare(self):
        put_many_via = Server.client  # the same client code as for kist

        class Endpoint:
            endpoint = f"http://127.0.0.1:{self.port}"

        put_many_via(Endpoint()).create_bucket(Bucket="bench")
        put_many(self.port, "bench", [f"o{i}" for i in range(OBJECTS)], b"b" * SIZE)

    def target(self, method, name, query=()):
        return self.signer.target(method, f"/bench/{name}" if name else "/bench", query)

    def close(self):
        self.process.terminate()
        self.process.wait(10)


def versity_binary():
    cache = HERE.parents[1] / "build" / "peers"
    path = cache / "versitygw"
    if not path.exists():
        env = clean_environment({"GOBIN": str(cache), "GOFLAGS": "-trimpath", "GOTOOLCHAIN": "auto"})
        subprocess.run(
            ["go", "install", "github.com/versity/versitygw/cmd/versitygw@v1.8.0"], env=env, check=True
        )
    return str(path)


def wrk(server, targets, seconds, method="GET", body_bytes=0, connections=CONNECTIONS):
    """(requests, errors, CPU us per request, p50 ms, p99 ms)."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(targets) + "\n")
        file.flush()
        env = clean_environment(
            {"TARGETS": file.name, "METHOD": method, "BODY_BYTES": str(body_bytes)}
        )
        before = cpu_s(server.pids)
        output = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(HERE / "requests.lua"),
             f"http://127.0.0.1:{server.port}"],
            env=env, capture_output=True, text=True, check=True,
        ).stdout
        used = cpu_s(server.pids) - before
    fields = next(line for line in output.splitlines() if line.startswith("RESULT")).split()[1:]
    requests, errors, _, p50, p99 = (int(f) for f in fields)
    return requests / seconds, errors, used * 1e6 / max(1, requests), p50 / 1e3, p99 / 1e3


def side_by_side(servers, options, title, method, names, body_bytes=0):
    """Alternating rounds; returns the median CPU us per request by server name."""
    rows = {server.name: [] for server in servers}
    for _ in range(options.rounds):
        for server in servers:
            targets = [server.target(method, name) for name in names]
            rows[server.name].append(wrk(server, targets, options.seconds, method, body_bytes))
    result = {}
    for name, values in rows.items():
        cpu = statistics.median(v[2] for v in values)
        rate = statistics.median(v[0] for v in values)
        errors = sum(v[1] for v in values)
        last = values[-1]
        print(
            f"{title:22} {name:8} {cpu:8.1f} us CPU  {rate:9.0f}/s  p50 {last[3]:.2f} ms  p99 {last[4]:.2f} ms"
            f"  errors {errors}"
        )
        result[name] = cpu
        assert errors == 0, f"{title} {name}: {errors} errors"
    return result


def bench_list(kist, options):
    """CPU of a page of 1,000 keys at random places of a large bucket."""
    client = kist.server.client()
    client.create_bucket(Bucket="big")
    names = [f"{i * 2654435761 % 2**32:08x}/{i:07d}" for i in range(options.list_keys)]
    took = put_many(kist.port, "big", names, b"x", processes=2, connections=64)
    print(f"{'fill':22} kist     {options.list_keys} keys in {took:.0f} s ({options.list_keys / took:.0f}/s)")
    names.sort()
    targets = [
        kist.signer.target("GET", "/big", (("list-type", "2"), ("start-after", names[i])))
        for i in range(0, len(names) - 1001, max(1, len(names) // 500))
    ]
    wrk(kist, targets, 2, connections=4)
    rate, errors, cpu, p50, p99 = wrk(kist, targets, options.seconds, connections=4)
    print(f"{'LIST 1000 keys':22} kist     {cpu / 1e3:8.2f} ms CPU  {rate:9.0f}/s  p50 {p50:.2f} ms  p99 {p99:.2f} ms")
    assert errors == 0, f"LIST: {errors} errors"
    begin = time.monotonic()
    count = sum(
        len(page.get("Contents", []))
        for page in client.get_paginator("list_objects_v2").paginate(Bucket="big")
    )
    print(f"{'LIST all':22} kist     {count} keys in {time.monotonic() - begin:.1f} s (boto3)")
    assert count == options.list_keys, "keys are missing from the walk"
    return cpu / 1e3


def bench_copy(kist, options):
    """CPU and time of CopyObject of 1 GiB."""
    client = kist.server.client()
    client.create_bucket(Bucket="copy")
    upload = client.create_multipart_upload(Bucket="copy", Key="source")["UploadId"]
    block = os.urandom(64 << 20)
    parts = []
    for number in range(1, 17):
        reply = client.upload_part(
            Bucket="copy", Key="source", UploadId=upload, PartNumber=number, Body=block
        )
        parts.append({"PartNumber": number, "ETag": reply["ETag"]})
    client.complete_multipart_upload(
        Bucket="copy", Key="source", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    count = 200
    before, begin = cpu_s(kist.pids), time.monotonic()
    for i in range(count):
        client.copy_object(Bucket="copy", Key=f"c{i}", CopySource={"Bucket": "copy", "Key": "source"})
    wall = (time.monotonic() - begin) / count * 1e3
    cpu = (cpu_s(kist.pids) - before) / count * 1e3
    size = client.head_object(Bucket="copy", Key="c0")["ContentLength"]
    print(f"{'COPY 1 GiB':22} kist     {cpu:8.2f} ms CPU  {wall:.2f} ms wall (client included)")
    assert size == 1 << 30, size
    return cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list-keys", type=int, default=100_000)
    parser.add_argument("--only", default="get,put,list,copy")
    options = parser.parse_args()
    only = set(options.only.split(","))
    scratch = Path(tempfile.mkdtemp(prefix="kist-bench-"))
    servers, checks = [], {}
    try:
        kinds = [Kist, Nginx] + ([Versity] if options.peers else [])
        for kind in kinds:
            servers.append(kind(scratch))
            servers[-1].prepare()
        names = [f"o{i}" for i in range(OBJECTS)]
        kist = servers[0]
        if "get" in only:
            got = side_by_side(servers, options, f"signed GET {SIZE} B", "GET", names)
            print(f"{'':22} kist is {got['kist'] / got['nginx']:.2f} times nginx")
            if "versity" in got:
                ratio = got["versity"] / got["kist"]
                print(f"{'':22} versity is {ratio:.2f} times kist")
                checks[f"GET {LIMITS['peer_ratio']:.0f} times cheaper than the peer"] = (
                    ratio >= LIMITS["peer_ratio"]
                )
        if "put" in only:
            writers = [s for s in servers if s.name != "nginx"]
            side_by_side(writers, options, f"signed PUT {SIZE} B", "PUT", names, SIZE)
        if "list" in only:
            checks[f"LIST under {LIMITS['list_ms']} ms CPU"] = (
                bench_list(kist, options) < LIMITS["list_ms"]
            )
        if "copy" in only:
            checks[f"COPY of 1 GiB under {LIMITS['copy_ms']} ms CPU"] = (
                bench_copy(kist, options) < LIMITS["copy_ms"]
            )
        checks["ran to the end"] = True
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(scratch, ignore_errors=True)
    for name, ok in checks.items():
        print(("ok " if ok else "FAILED ") + name)
    print(f"{sum(checks.values())} passed, {len(checks) - sum(checks.values())} failed")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
