/* Extract and expand, on our HMAC (RFC 5869 2). */
#include "common/crypto/hkdf.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/crypto/hmac.h"

void hkdf_sha256(struct slice secret, struct slice salt, struct slice info, uint8_t *out,
                 size_t out_len)
{
    static const uint8_t no_salt[HASH_SHA256_BYTES];
    uint8_t key[HASH_SHA256_BYTES];
    uint8_t block[HASH_SHA256_BYTES] = {0};
    uint8_t input[HASH_SHA256_BYTES + HKDF_INFO_BYTES_MAX + 1];
    size_t block_len = 0;
    uint8_t number = 0;

    ASSERT(info.len <= HKDF_INFO_BYTES_MAX && out_len <= HKDF_OUT_BYTES_MAX);
    if (salt.len == 0) {
        salt = slice_of(no_salt, sizeof(no_salt));
    }
    hmac_sha256(salt.data, salt.len, secret.data, secret.len, key);
    while (out_len > 0) {
        size_t take = out_len < sizeof(block) ? out_len : sizeof(block);

        memcpy(input, block, block_len);
        if (info.len > 0) {
            memcpy(input + block_len, info.data, info.len);
        }
        number += 1;
        input[block_len + info.len] = number;
        hmac_sha256(key, sizeof(key), input, block_len + info.len + 1, block);
        block_len = sizeof(block);
        memcpy(out, block, take);
        out += take;
        out_len -= take;
    }
    crypto_wipe(key, sizeof(key));
    crypto_wipe(block, sizeof(block));
    crypto_wipe(input, sizeof(input));
}
