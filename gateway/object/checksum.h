/*
 * Checksums and digests of object bytes (AWS: "Checking object integrity"), computed as the bytes
 * pass. CRCs by ISA-L (CRC64NVME by ours, common/codec), hashes by OpenSSL (common/crypto).
 */
#ifndef GATEWAY_OBJECT_CHECKSUM_H
#define GATEWAY_OBJECT_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "common/codec/xxhash.h"
#include "common/crypto/hash.h"
#include "proto/record.pb-c.h"

/* Numbers stand in records: never change them. */
enum checksum_algorithm {
    CHECKSUM_NONE = 0,
    CHECKSUM_CRC32 = 1,
    CHECKSUM_CRC32C = 2,
    CHECKSUM_CRC64NVME = 3,
    CHECKSUM_SHA1 = 4,
    CHECKSUM_SHA256 = 5,
    CHECKSUM_SHA512 = 6,
    CHECKSUM_MD5 = 7,
    CHECKSUM_XXHASH64 = 8,
    CHECKSUM_XXHASH3 = 9,
    CHECKSUM_XXHASH128 = 10,
    CHECKSUM_ALGORITHMS
};
enum checksum_type { CHECKSUM_FULL_OBJECT = 1, CHECKSUM_COMPOSITE = 2 };

enum { CHECKSUM_BYTES_MAX = 64, MD5_BYTES = 16 };

struct checksum_value {
    enum checksum_algorithm algorithm;
    uint8_t bytes[CHECKSUM_BYTES_MAX]; /* big endian */
};

const char *checksum_name(enum checksum_algorithm algorithm);    /* "CRC64NVME" */
const char *checksum_header(enum checksum_algorithm algorithm);  /* "x-amz-checksum-crc64nvme" */
const char *checksum_element(enum checksum_algorithm algorithm); /* "ChecksumCRC64NVME" */
size_t checksum_bytes(enum checksum_algorithm algorithm);
/* Can the object's be computed from its parts'? (The CRCs; hashes only make COMPOSITE ones.) */
bool checksum_combines(enum checksum_algorithm algorithm);
enum checksum_algorithm checksum_by_name(struct slice name); /* any case; NONE when unknown */
enum checksum_algorithm checksum_by_header(struct slice lower_case_name);

/* Base64 to bytes of exactly the right length. */
bool checksum_parse(enum checksum_algorithm algorithm, struct slice base64,
                    struct checksum_value *out);
struct slice checksum_text(struct arena *arena, enum checksum_algorithm algorithm,
                           struct slice raw); /* base64 */

/* Several algorithms at once over one pass. `mask`: bit per checksum_algorithm; MD5 and the SHA-256
 * of the payload signature are asked apart (the latter shares the work with CHECKSUM_SHA256). */
struct digest_set {
    uint32_t mask;
    bool md5;
    /* Private. */
    uint32_t crc32;
    uint32_t crc32c;
    uint64_t crc64nvme;
    struct md5_hash md5_state;
    struct sha1_hash sha1_state;
    struct sha256_hash sha256_state;
    struct sha512_hash sha512_state;
    struct xxhash64 xxhash64_state;
    struct xxhash3 xxhash3_state;
    struct xxhash3 xxhash128_state;
};

void digest_set_init(struct digest_set *set, uint32_t mask, bool md5);
void digest_set_deinit(struct digest_set *set);
void digest_set_update(struct digest_set *set, struct slice bytes);
/* Once, after the last update; then the results can be asked. */
void digest_set_finish(struct digest_set *set, uint8_t md5[MD5_BYTES],
                       struct checksum_value values[CHECKSUM_ALGORITHMS]);

#endif
