/*
 * The checksum of a multipart object, from those of its parts (AWS: "Checking object integrity"):
 *
 *     COMPOSITE     the algorithm over the parts' digests put together
 *     FULL_OBJECT   the CRC of all bytes, combined from the parts' CRCs and lengths
 *
 * Nothing is read: what the parts carry was verified when they came in.
 */
#ifndef METAD_APPLY_OBJECT_CHECKSUM_H
#define METAD_APPLY_OBJECT_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"
#include "common/codec/xxhash.h"
#include "common/crypto/hash.h"
#include "proto/record.pb-c.h"

/* Numbers of record.proto. */
enum object_checksum_algorithm {
    OBJECT_CHECKSUM_NONE = 0,
    OBJECT_CHECKSUM_CRC32 = 1,
    OBJECT_CHECKSUM_CRC32C = 2,
    OBJECT_CHECKSUM_CRC64NVME = 3,
    OBJECT_CHECKSUM_SHA1 = 4,
    OBJECT_CHECKSUM_SHA256 = 5,
    OBJECT_CHECKSUM_SHA512 = 6,
    OBJECT_CHECKSUM_MD5 = 7,
    OBJECT_CHECKSUM_XXHASH64 = 8,
    OBJECT_CHECKSUM_XXHASH3 = 9,
    OBJECT_CHECKSUM_XXHASH128 = 10
};
enum object_checksum_type { OBJECT_CHECKSUM_FULL = 1, OBJECT_CHECKSUM_COMPOSITE = 2 };
enum { OBJECT_CHECKSUM_BYTES_MAX = HASH_SHA512_BYTES };

struct object_checksum {
    uint32_t algorithm;
    uint32_t type;
    /* Private. */
    uint64_t crc;
    union { /* by algorithm */
        struct sha1_hash sha1;
        struct sha256_hash sha256;
        struct sha512_hash sha512;
        struct md5_hash md5;
        struct xxhash64 xxhash64;
        struct xxhash3 xxhash3; /* of both widths */
    } hash;
};

/* False when the two do not go together (hashes have no full-object form, CRC64NVME no composite
 * one). */
bool object_checksum_init(struct object_checksum *sum, uint32_t algorithm, uint32_t type);
/* False when the part carries no such checksum. */
bool object_checksum_add(struct object_checksum *sum, const Kist__Part *part);
/* Big endian, as on the wire before base64; returns the length. */
size_t object_checksum_final(struct object_checksum *sum, uint8_t out[OBJECT_CHECKSUM_BYTES_MAX]);

#endif
