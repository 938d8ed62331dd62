#include "metad/apply/object_checksum.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"

static size_t checksum_len(uint32_t algorithm)
{
    static const uint8_t lengths[] = {[OBJECT_CHECKSUM_NONE] = 0,
                                      [OBJECT_CHECKSUM_CRC32] = 4,
                                      [OBJECT_CHECKSUM_CRC32C] = 4,
                                      [OBJECT_CHECKSUM_CRC64NVME] = 8,
                                      [OBJECT_CHECKSUM_SHA1] = HASH_SHA1_BYTES,
                                      [OBJECT_CHECKSUM_SHA256] = HASH_SHA256_BYTES,
                                      [OBJECT_CHECKSUM_SHA512] = HASH_SHA512_BYTES,
                                      [OBJECT_CHECKSUM_MD5] = HASH_MD5_BYTES,
                                      [OBJECT_CHECKSUM_XXHASH64] = XXHASH64_BYTES,
                                      [OBJECT_CHECKSUM_XXHASH3] = XXHASH3_BYTES,
                                      [OBJECT_CHECKSUM_XXHASH128] = XXHASH128_BYTES};

    return algorithm < ARRAY_LEN(lengths) ? lengths[algorithm] : 0;
}

static void hash_init(struct object_checksum *sum)
{
    switch (sum->algorithm) {
    case OBJECT_CHECKSUM_SHA1:
        sha1_init(&sum->hash.sha1);
        break;
    case OBJECT_CHECKSUM_SHA256:
        sha256_init(&sum->hash.sha256);
        break;
    case OBJECT_CHECKSUM_SHA512:
        sha512_init(&sum->hash.sha512);
        break;
    case OBJECT_CHECKSUM_MD5:
        md5_init(&sum->hash.md5);
        break;
    case OBJECT_CHECKSUM_XXHASH64:
        xxhash64_init(&sum->hash.xxhash64);
        break;
    case OBJECT_CHECKSUM_XXHASH3:
        xxhash3_init(&sum->hash.xxhash3);
        break;
    case OBJECT_CHECKSUM_XXHASH128:
        xxhash128_init(&sum->hash.xxhash3);
        break;
    default:
        break; /* a CRC */
    }
}

bool object_checksum_init(struct object_checksum *sum, uint32_t algorithm, uint32_t type)
{
    bool is_crc = algorithm <= OBJECT_CHECKSUM_CRC64NVME;

    *sum = (struct object_checksum){.algorithm = algorithm, .type = type};
    if (checksum_len(algorithm) == 0) {
        return false;
    }
    hash_init(sum);
    if (type == OBJECT_CHECKSUM_FULL) {
        return is_crc;
    }
    return type == OBJECT_CHECKSUM_COMPOSITE && algorithm != OBJECT_CHECKSUM_CRC64NVME;
}

static const uint8_t *part_digest(const struct object_checksum *sum, const Kist__Part *part)
{
    for (size_t i = 0; i < part->n_checksums; i++) {
        const Kist__Checksum *checksum = part->checksums[i];

        if (checksum->algorithm == sum->algorithm &&
            checksum->value.len == checksum_len(sum->algorithm)) {
            return checksum->value.data;
        }
    }
    return NULL;
}

static void add_full(struct object_checksum *sum, const uint8_t *digest, uint64_t size)
{
    switch (sum->algorithm) {
    case OBJECT_CHECKSUM_CRC32:
        sum->crc = crc32_combine_lengths((uint32_t)sum->crc, be32_get(digest), size);
        break;
    case OBJECT_CHECKSUM_CRC32C:
        sum->crc = crc32c_combine((uint32_t)sum->crc, be32_get(digest), size);
        break;
    default:
        ASSERT(sum->algorithm == OBJECT_CHECKSUM_CRC64NVME);
        sum->crc = crc64nvme_combine(sum->crc, be64_get(digest), size);
        break;
    }
}

static void add_composite(struct object_checksum *sum, const uint8_t *digest)
{
    size_t len = checksum_len(sum->algorithm);

    switch (sum->algorithm) {
    case OBJECT_CHECKSUM_CRC32:
        sum->crc = crc32((uint32_t)sum->crc, digest, len);
        break;
    case OBJECT_CHECKSUM_CRC32C:
        sum->crc = crc32c((uint32_t)sum->crc, digest, len);
        break;
    case OBJECT_CHECKSUM_SHA1:
        sha1_update(&sum->hash.sha1, digest, len);
        break;
    case OBJECT_CHECKSUM_SHA256:
        sha256_update(&sum->hash.sha256, digest, len);
        break;
    case OBJECT_CHECKSUM_SHA512:
        sha512_update(&sum->hash.sha512, digest, len);
        break;
    case OBJECT_CHECKSUM_MD5:
        md5_update(&sum->hash.md5, digest, len);
        break;
    case OBJECT_CHECKSUM_XXHASH64:
        xxhash64_update(&sum->hash.xxhash64, digest, len);
        break;
    case OBJECT_CHECKSUM_XXHASH3:
        xxhash3_update(&sum->hash.xxhash3, digest, len);
        break;
    default:
        ASSERT(sum->algorithm == OBJECT_CHECKSUM_XXHASH128);
        xxhash128_update(&sum->hash.xxhash3, digest, len);
        break;
    }
}

bool object_checksum_add(struct object_checksum *sum, const Kist__Part *part)
{
    const uint8_t *digest = part_digest(sum, part);

    if (digest == NULL) {
        return false;
    }
    if (sum->type == OBJECT_CHECKSUM_FULL) {
        add_full(sum, digest, part->size);
    } else {
        add_composite(sum, digest);
    }
    return true;
}

size_t object_checksum_final(struct object_checksum *sum, uint8_t out[OBJECT_CHECKSUM_BYTES_MAX])
{
    switch (sum->algorithm) {
    case OBJECT_CHECKSUM_SHA1:
        sha1_final(&sum->hash.sha1, out);
        break;
    case OBJECT_CHECKSUM_SHA256:
        sha256_final(&sum->hash.sha256, out);
        break;
    case OBJECT_CHECKSUM_SHA512:
        sha512_final(&sum->hash.sha512, out);
        break;
    case OBJECT_CHECKSUM_MD5:
        md5_final(&sum->hash.md5, out);
        break;
    case OBJECT_CHECKSUM_XXHASH64:
        xxhash64_final(&sum->hash.xxhash64, out);
        break;
    case OBJECT_CHECKSUM_XXHASH3:
        xxhash3_final(&sum->hash.xxhash3, out);
        break;
    case OBJECT_CHECKSUM_XXHASH128:
        xxhash128_final(&sum->hash.xxhash3, out);
        break;
    case OBJECT_CHECKSUM_CRC64NVME:
        be64_put(out, sum->crc);
        break;
    default:
        be32_put(out, (uint32_t)sum->crc);
        break;
    }
    return checksum_len(sum->algorithm);
}
