#define XXH_STATIC_LINKING_ONLY /* the sizes of states */
#include "common/codec/xxhash.h"

#include <assert.h>
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"

enum { XXHASH3_ALIGN = 64 };

static_assert(sizeof(XXH64_state_t) <= sizeof(struct xxhash64), "state fits");
static_assert(sizeof(XXH3_state_t) + XXHASH3_ALIGN <= sizeof(struct xxhash3), "state fits");

static XXH64_state_t *state64(struct xxhash64 *hash)
{
    return (XXH64_state_t *)(void *)hash;
}

static XXH3_state_t *state3(struct xxhash3 *hash)
{
    size_t past = (uintptr_t)hash->state % XXHASH3_ALIGN;

    return (XXH3_state_t *)(void *)(hash->state + (past == 0 ? 0 : XXHASH3_ALIGN - past));
}

void xxhash64_init(struct xxhash64 *hash)
{
    ASSERT(XXH64_reset(state64(hash), 0) == XXH_OK);
}

void xxhash64_update(struct xxhash64 *hash, const void *data, size_t len)
{
    ASSERT(XXH64_update(state64(hash), data, len) == XXH_OK);
}

void xxhash64_final(struct xxhash64 *hash, uint8_t out[XXHASH64_BYTES])
{
    be64_put(out, XXH64_digest(state64(hash)));
}

void xxhash3_init(struct xxhash3 *hash)
{
    XXH3_INITSTATE(state3(hash));
    ASSERT(XXH3_64bits_reset(state3(hash)) == XXH_OK);
}

void xxhash3_update(struct xxhash3 *hash, const void *data, size_t len)
{
    ASSERT(XXH3_64bits_update(state3(hash), data, len) == XXH_OK);
}

void xxhash3_final(struct xxhash3 *hash, uint8_t out[XXHASH3_BYTES])
{
    be64_put(out, XXH3_64bits_digest(state3(hash)));
}

void xxhash128_init(struct xxhash3 *hash)
{
    XXH3_INITSTATE(state3(hash));
    ASSERT(XXH3_128bits_reset(state3(hash)) == XXH_OK);
}

void xxhash128_update(struct xxhash3 *hash, const void *data, size_t len)
{
    ASSERT(XXH3_128bits_update(state3(hash), data, len) == XXH_OK);
}

void xxhash128_final(struct xxhash3 *hash, uint8_t out[XXHASH128_BYTES])
{
    XXH128_hash_t digest = XXH3_128bits_digest(state3(hash));

    be64_put(out, digest.high64);
    be64_put(out + sizeof(uint64_t), digest.low64);
}
