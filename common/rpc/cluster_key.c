/* See cluster_key.h. */
#include "common/rpc/cluster_key.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"
#include "common/codec/hex.h"
#include "common/crypto/hkdf.h"
#include "common/crypto/hmac.h"
#include "common/crypto/random.h"

static const char key_prefix[] = "kist1-";

enum { PREFIX_BYTES = sizeof(key_prefix) - 1, CHECK_BYTES = 4, FILE_BYTES_MAX = 4096 };

void cluster_key_generate(struct cluster_key *key)
{
    random_bytes(key->bytes, sizeof(key->bytes));
}

static void key_check(const struct cluster_key *key, uint8_t out[CHECK_BYTES])
{
    be32_put(out, crc32c(0, key->bytes, sizeof(key->bytes)));
}

void cluster_key_format(const struct cluster_key *key, char out[CLUSTER_KEY_TEXT_BYTES + 1])
{
    uint8_t check[CHECK_BYTES];

    key_check(key, check);
    memcpy(out, key_prefix, PREFIX_BYTES);
    hex_encode(out + PREFIX_BYTES, key->bytes, sizeof(key->bytes));
    hex_encode(out + PREFIX_BYTES + (size_t)2 * CLUSTER_KEY_BYTES, check, sizeof(check));
    out[CLUSTER_KEY_TEXT_BYTES] = '\0';
}

static struct slice key_trim(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL) {
        text.len -= 1;
    }
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]) != NULL) {
        text = slice_after(text, 1);
    }
    return text;
}

/* A key that somebody made up, like 32 zeros: it is as good as none. */
static bool key_is_even(const struct cluster_key *key)
{
    for (size_t i = 1; i < sizeof(key->bytes); i++) {
        if (key->bytes[i] != key->bytes[0]) {
            return false;
        }
    }
    return true;
}

enum rc cluster_key_parse(struct slice text, struct cluster_key *key, struct error *error)
{
    uint8_t want[CHECK_BYTES];
    uint8_t check[CHECK_BYTES];
    struct slice digits;

    text = key_trim(text);
    if (text.len != CLUSTER_KEY_TEXT_BYTES || !slice_starts(text, slice_str(key_prefix))) {
        return error_set(error, RC_INVALID, "cluster key: not %s and %d hexadecimal digits",
                         key_prefix, CLUSTER_KEY_TEXT_BYTES - PREFIX_BYTES);
    }
    digits = slice_after(text, PREFIX_BYTES);
    if (!hex_decode(slice_of(digits.data, (size_t)2 * CLUSTER_KEY_BYTES), key->bytes,
                    sizeof(key->bytes)) ||
        !hex_decode(slice_after(digits, (size_t)2 * CLUSTER_KEY_BYTES), check, sizeof(check))) {
        cluster_key_wipe(key);
        return error_set(error, RC_INVALID, "cluster key: not hexadecimal");
    }
    key_check(key, want);
    if (!crypto_equal(want, check, sizeof(want)) || key_is_even(key)) {
        bool even = key_is_even(key);

        cluster_key_wipe(key);
        return error_set(error, RC_INVALID, "cluster key: %s",
                         even ? "not random" : "its check digits say that it was mistyped");
    }
    return RC_OK;
}

enum rc cluster_key_read(struct env *env, const char *path, struct cluster_key *key,
                         struct error *error)
{
    char text[FILE_BYTES_MAX];
    size_t got = 0;
    int file = -1;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);

    if (rc != RC_OK) {
        return error != NULL ? error_prefix(error, "cluster key") : rc;
    }
    rc = env->file->read(env, file, text, sizeof(text), 0, &got);
    env->file->close(env, file);
    if (rc != RC_OK) {
        return error_set(error, rc, "cluster key: read %s: %s", path, rc_text(rc));
    }
    rc = cluster_key_parse(slice_of(text, got), key, error);
    crypto_wipe(text, sizeof(text));
    return rc != RC_OK && error != NULL ? error_prefix(error, "%s", path) : rc;
}

void cluster_key_psk(const struct cluster_key *key, const uint8_t *cluster_id, size_t id_len,
                     uint8_t out[CLUSTER_KEY_PSK_BYTES])
{
    hkdf_sha256(slice_of(key->bytes, sizeof(key->bytes)),
                cluster_id != NULL ? slice_of(cluster_id, id_len) : SLICE_EMPTY,
                cluster_id != NULL ? SLICE("kist rpc 1") : SLICE("kist rpc 1 join"), out,
                CLUSTER_KEY_PSK_BYTES);
}

void cluster_key_wipe(struct cluster_key *key)
{
    crypto_wipe(key->bytes, sizeof(key->bytes));
}
