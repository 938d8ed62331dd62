"""The ten checksum algorithms of S3, for tests that compare with what the server computed."""
import base64
import functools
import hashlib
import zlib

import xxhash


def _table(polynomial):
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        rows.append(value)
    return rows


CRC32C_TABLE = _table(0x82F63B78)
CRC64NVME_TABLE = _table(0x9A6C9329AC4BC9B5)


@functools.lru_cache(16)
def _crc(data, bits):
    """Slow, byte by byte: what was computed once is kept."""
    table = {32: CRC32C_TABLE, 64: CRC64NVME_TABLE}[bits]
    value = mask = (1 << bits) - 1
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return (value ^ mask).to_bytes(bits // 8, "big")


FUNCTIONS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "CRC32C": lambda data: _crc(data, 32),
    "CRC64NVME": lambda data: _crc(data, 64),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
    "SHA512": lambda data: hashlib.sha512(data).digest(),
    "MD5": lambda data: hashlib.md5(data).digest(),
    "XXHASH64": lambda data: xxhash.xxh64_digest(data),
    "XXHASH3": lambda data: xxhash.xxh3_64_digest(data),
    "XXHASH128": lambda data: xxhash.xxh3_128_digest(data),
}
ALGORITHMS = list(FUNCTIONS)
COMBINE = ("CRC32", "CRC32C", "CRC64NVME")  # whose value of the whole follows from those of its parts


def header(algorithm):
    return f"x-amz-checksum-{algorithm.lower()}"


def digest(algorithm, data):
    """As it stands in a header."""
    return base64.b64encode(FUNCTIONS[algorithm](data)).decode()


def composite(algorithm, parts):
    whole = FUNCTIONS[algorithm](b"".join(FUNCTIONS[algorithm](part) for part in parts))
    return f"{base64.b64encode(whole).decode()}-{len(parts)}"
