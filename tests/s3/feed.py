"""The change feed as its readers see it, and a webhook to send events to."""
import http.client
import http.server
import json
import threading
import time

from kist import free_port
from sign import Presigner


class Feed:
    """`GET /bucket?changes` and `PUT /bucket?feed`, presigned."""

    def __init__(self, server, bucket):
        self.server, self.bucket = server, bucket
        self.signer = Presigner(f"127.0.0.1:{server.port}")

    def ask(self, method, query, body=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout)
        try:
            connection.request(method, self.signer.target(method, f"/{self.bucket}", query), body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def switch(self, on):
        status = "Enabled" if on else "Disabled"
        got, body = self.ask("PUT", [("feed", "")],
                             f"<FeedConfiguration><Status>{status}</Status></FeedConfiguration>")
        assert got == 200, body

    def page(self, cursor=None, **options):
        query = [("changes", "")] + [(k.replace("_", "-"), str(v)) for k, v in options.items()]
        if cursor is not None:
            query.append(("cursor", cursor))
        status, body = self.ask("GET", query)
        assert status == 200, body
        return json.loads(body)

    def all(self, cursor=None, **options):
        found = []
        while True:
            page = self.page(cursor, **options)
            found += page["changes"]
            cursor = page["nextCursor"]
            if not page["more"]:
                return found, cursor


class Webhook:
    """Takes events; can be stopped and started again on the same port, or told to refuse."""

    def __init__(self):
        self.port = free_port()
        self.events, self.headers = [], []
        self.refusals = 0
        self.delay = 0
        self.server = None
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self):
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(hook.delay)
                with hook.lock:
                    refuse = hook.refusals > 0
                    hook.refusals -= 1 if refuse else 0
                    if not refuse:
                        hook.events.append(json.loads(body))
                        hook.headers.append(dict(self.headers))
                self.send_response(500 if refuse else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def records(self):
        with self.lock:
            return [record for event in self.events for record in event.get("Records", [])]

    def keys(self, name=None):
        return [record["s3"]["object"]["key"] for record in self.records()
                if name is None or record["eventName"] == name]

    def wait(self, done, seconds=20):
        end = time.monotonic() + seconds
        while not done(self):
            assert time.monotonic() < end, f"waited {seconds} s; got {self.keys()}"
            time.sleep(0.02)
