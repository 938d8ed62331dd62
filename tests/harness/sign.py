"""Presigned URLs by hand: botocore takes a millisecond for one, a load generator needs a million."""
import datetime
import hashlib
import hmac
from urllib.parse import quote

from kist import ACCESS_KEY, REGION, SECRET_KEY


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Presigner:
    """Signs for one host and one moment: the signing key is computed once."""

    def __init__(self, host, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, expires=86400):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.host, self.expires = host, expires
        self.date = now.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.date[:8]}/{region}/s3/aws4_request"
        self.credential = quote(f"{access_key}/{self.scope}", safe="")
        key = _hmac(f"AWS4{secret_key}".encode(), self.date[:8])
        for part in (region, "s3", "aws4_request"):
            key = _hmac(key, part)
        self.key = key

    def target(self, method, path, query=()):
        """Path and query to put on the request line. `path` is percent-encoded already."""
        pairs = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", self.credential),
            ("X-Amz-Date", self.date),
            ("X-Amz-Expires", str(self.expires)),
            ("X-Amz-SignedHeaders", "host"),
        ] + [(quote(k, safe=""), quote(v, safe="")) for k, v in query]
        pairs.sort()
        text = "&".join(f"{k}={v}" for k, v in pairs)
        canonical = f"{method}\n{path}\n{text}\nhost:{self.host}\n\nhost\nUNSIGNED-PAYLOAD"
        to_sign = "\n".join(
            ("AWS4-HMAC-SHA256", self.date, self.scope, hashlib.sha256(canonical.encode()).hexdigest())
        )
        signature = hmac.new(self.key, to_sign.encode(), hashlib.sha256).hexdigest()
        return f"{path}?{text}&X-Amz-Signature={signature}"
