#include "gateway/object/checksum.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/base64.h"
#include "common/codec/crc.h"

static const struct {
    const char *name;
    const char *header;
    const char *element;
    size_t bytes;
} checksum_rows[CHECKSUM_ALGORITHMS] = {
    [CHECKSUM_NONE] = {"",          "",                         "",                  0                },
    [CHECKSUM_CRC32] = {"CRC32",     "x-amz-checksum-crc32",     "ChecksumCRC32",     4                },
    [CHECKSUM_CRC32C] = {"CRC32C",    "x-amz-checksum-crc32c",    "ChecksumCRC32C",    4                },
    [CHECKSUM_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8                },
    [CHECKSUM_SHA1] = {"SHA1",      "x-amz-checksum-sha1",      "ChecksumSHA1",      HASH_SHA1_BYTES  },
    [CHECKSUM_SHA256] = {"SHA256",    "x-amz-checksum-sha256",    "ChecksumSHA256",    HASH_SHA256_BYTES},
    [CHECKSUM_SHA512] = {"SHA512",    "x-amz-checksum-sha512",    "ChecksumSHA512",    HASH_SHA512_BYTES},
    [CHECKSUM_MD5] = {"MD5",       "x-amz-checksum-md5",       "ChecksumMD5",       HASH_MD5_BYTES   },
    [CHECKSUM_XXHASH64] = {"XXHASH64",  "x-amz-checksum-xxhash64",  "ChecksumXXHASH64",
                       XXHASH64_BYTES                                                                 },
    [CHECKSUM_XXHASH3] = {"XXHASH3",   "x-amz-checksum-xxhash3",   "ChecksumXXHASH3",   XXHASH3_BYTES    },
    [CHECKSUM_XXHASH128] = {"XXHASH128", "x-amz-checksum-xxhash128", "ChecksumXXHASH128",
                       XXHASH128_BYTES                                                                },
};

const char *checksum_name(enum checksum_algorithm algorithm)
{
    ASSERT(algorithm < CHECKSUM_ALGORITHMS);
    return checksum_rows[algorithm].name;
}

const char *checksum_header(enum checksum_algorithm algorithm)
{
    ASSERT(algorithm < CHECKSUM_ALGORITHMS);
    return checksum_rows[algorithm].header;
}

const char *checksum_element(enum checksum_algorithm algorithm)
{
    ASSERT(algorithm < CHECKSUM_ALGORITHMS);
    return checksum_rows[algorithm].element;
}

size_t checksum_bytes(enum checksum_algorithm algorithm)
{
    ASSERT(algorithm < CHECKSUM_ALGORITHMS);
    return checksum_rows[algorithm].bytes;
}

bool checksum_combines(enum checksum_algorithm algorithm)
{
    return algorithm == CHECKSUM_CRC32 || algorithm == CHECKSUM_CRC32C ||
           algorithm == CHECKSUM_CRC64NVME;
}

enum checksum_algorithm checksum_by_name(struct slice name)
{
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        if (slice_eq_nocase(name, slice_str(checksum_rows[i].name))) {
            return (enum checksum_algorithm)i;
        }
    }
    return CHECKSUM_NONE;
}

enum checksum_algorithm checksum_by_header(struct slice lower_case_name)
{
    if (!slice_starts(lower_case_name, SLICE("x-amz-checksum-"))) {
        return CHECKSUM_NONE;
    }
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        if (slice_eq_str(lower_case_name, checksum_rows[i].header)) {
            return (enum checksum_algorithm)i;
        }
    }
    return CHECKSUM_NONE;
}

bool checksum_parse(enum checksum_algorithm algorithm, struct slice base64,
                    struct checksum_value *out)
{
    size_t len = 0;

    ASSERT(algorithm != CHECKSUM_NONE);
    memset(out, 0, sizeof(*out));
    if (!base64_decode(base64, out->bytes, sizeof(out->bytes), &len) ||
        len != checksum_bytes(algorithm)) {
        return false;
    }
    out->algorithm = algorithm;
    return true;
}

struct slice checksum_text(struct arena *arena, enum checksum_algorithm algorithm, struct slice raw)
{
    ASSERT(raw.len == checksum_bytes(algorithm));
    char *text = arena_alloc_raw(arena, base64_encoded_len(raw.len) + 1);
    size_t len = base64_encode(text, raw.data, raw.len);

    text[len] = '\0';
    return slice_of(text, len);
}

/* ---- Digest set ---- */

static bool digest_set_has(const struct digest_set *set, enum checksum_algorithm algorithm)
{
    return (set->mask >> algorithm & 1) != 0;
}

static void digest_set_init_hashes(struct digest_set *set)
{
    if (digest_set_has(set, CHECKSUM_SHA1)) {
        sha1_init(&set->sha1_state);
    }
    if (digest_set_has(set, CHECKSUM_SHA256)) {
        sha256_init(&set->sha256_state);
    }
    if (digest_set_has(set, CHECKSUM_SHA512)) {
        sha512_init(&set->sha512_state);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH64)) {
        xxhash64_init(&set->xxhash64_state);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH3)) {
        xxhash3_init(&set->xxhash3_state);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH128)) {
        xxhash128_init(&set->xxhash128_state);
    }
}

void digest_set_init(struct digest_set *set, uint32_t mask, bool md5)
{
    memset(set, 0, sizeof(*set));
    set->mask = mask;
    set->md5 = md5 || digest_set_has(set, CHECKSUM_MD5);
    if (set->md5) {
        md5_init(&set->md5_state);
    }
    digest_set_init_hashes(set);
}

void digest_set_deinit(struct digest_set *set)
{
    set->mask = 0;
    set->md5 = false;
}

static void digest_set_update_hashes(struct digest_set *set, const char *data, size_t len)
{
    if (digest_set_has(set, CHECKSUM_SHA1)) {
        sha1_update(&set->sha1_state, data, len);
    }
    if (digest_set_has(set, CHECKSUM_SHA256)) {
        sha256_update(&set->sha256_state, data, len);
    }
    if (digest_set_has(set, CHECKSUM_SHA512)) {
        sha512_update(&set->sha512_state, data, len);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH64)) {
        xxhash64_update(&set->xxhash64_state, data, len);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH3)) {
        xxhash3_update(&set->xxhash3_state, data, len);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH128)) {
        xxhash128_update(&set->xxhash128_state, data, len);
    }
}

static void digest_set_update_part(struct digest_set *set, const char *data, size_t len)
{
    if (digest_set_has(set, CHECKSUM_CRC32)) {
        set->crc32 = crc32(set->crc32, data, len);
    }
    if (digest_set_has(set, CHECKSUM_CRC32C)) {
        set->crc32c = crc32c(set->crc32c, data, len);
    }
    if (digest_set_has(set, CHECKSUM_CRC64NVME)) {
        set->crc64nvme = crc64nvme(set->crc64nvme, data, len);
    }
    if (set->md5) {
        md5_update(&set->md5_state, data, len);
    }
    digest_set_update_hashes(set, data, len);
}

/* Each algorithm goes over the same 32 KiB in turn, so that the bytes come from memory once. */
void digest_set_update(struct digest_set *set, struct slice bytes)
{
    enum { PART_BYTES = 32 * 1024 };

    while (bytes.len > 0) {
        size_t len = bytes.len < PART_BYTES ? bytes.len : PART_BYTES;

        digest_set_update_part(set, bytes.data, len);
        bytes = slice_after(bytes, len);
    }
}

static void digest_set_finish_hashes(struct digest_set *set, struct checksum_value *values)
{
    if (digest_set_has(set, CHECKSUM_SHA1)) {
        sha1_final(&set->sha1_state, values[CHECKSUM_SHA1].bytes);
    }
    if (digest_set_has(set, CHECKSUM_SHA256)) {
        sha256_final(&set->sha256_state, values[CHECKSUM_SHA256].bytes);
    }
    if (digest_set_has(set, CHECKSUM_SHA512)) {
        sha512_final(&set->sha512_state, values[CHECKSUM_SHA512].bytes);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH64)) {
        xxhash64_final(&set->xxhash64_state, values[CHECKSUM_XXHASH64].bytes);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH3)) {
        xxhash3_final(&set->xxhash3_state, values[CHECKSUM_XXHASH3].bytes);
    }
    if (digest_set_has(set, CHECKSUM_XXHASH128)) {
        xxhash128_final(&set->xxhash128_state, values[CHECKSUM_XXHASH128].bytes);
    }
}

void digest_set_finish(struct digest_set *set, uint8_t md5[MD5_BYTES],
                       struct checksum_value values[CHECKSUM_ALGORITHMS])
{
    uint8_t digest[MD5_BYTES];

    memset(values, 0, CHECKSUM_ALGORITHMS * sizeof(values[0]));
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        if ((set->mask >> i & 1) != 0) {
            values[i].algorithm = (enum checksum_algorithm)i;
        }
    }
    if (set->md5) {
        md5_final(&set->md5_state, digest);
        memcpy(md5, digest, MD5_BYTES);
        memcpy(values[CHECKSUM_MD5].bytes, digest, MD5_BYTES);
    }
    be32_put(values[CHECKSUM_CRC32].bytes, set->crc32);
    be32_put(values[CHECKSUM_CRC32C].bytes, set->crc32c);
    be64_put(values[CHECKSUM_CRC64NVME].bytes, set->crc64nvme);
    digest_set_finish_hashes(set, values);
}
