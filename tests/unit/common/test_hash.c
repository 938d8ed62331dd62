/* Hashes, HMAC and randomness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* After the four above. */
#include <cmocka.h>

#include "common/codec/hex.h"
#include "common/crypto/hash.h"
#include "common/crypto/hmac.h"
#include "common/crypto/random.h"

static void assert_hex(const uint8_t *got, size_t len, const char *want)
{
    char text[2 * HASH_SHA256_BYTES + 1] = {0};

    hex_encode(text, got, len);
    assert_string_equal(text, want);
}

/* RFC 1321, FIPS 180-4. */
static void published_digests(void **state)
{
    uint8_t out[HASH_SHA256_BYTES];

    (void)state;
    md5_of("abc", 3, out);
    assert_hex(out, HASH_MD5_BYTES, "900150983cd24fb0d6963f7d28e17f72");
    sha1_of("abc", 3, out);
    assert_hex(out, HASH_SHA1_BYTES, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha256_of("abc", 3, out);
    assert_hex(out, HASH_SHA256_BYTES,
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_of("", 0, out);
    assert_hex(out, HASH_SHA256_BYTES,
               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* A copied state goes its own way: prepared HMAC keys rest on it. */
static void states_copy(void **state)
{
    struct sha256_hash one;
    uint8_t a[HASH_SHA256_BYTES];
    uint8_t b[HASH_SHA256_BYTES];

    (void)state;
    sha256_init(&one);
    sha256_update(&one, "ab", 2);
    struct sha256_hash two = one;
    sha256_update(&one, "c", 1);
    sha256_final(&one, a);
    sha256_update(&two, "c", 1);
    sha256_final(&two, b);
    assert_memory_equal(a, b, sizeof(a));
    sha256_of("abc", 3, b);
    assert_memory_equal(a, b, sizeof(a));
}

/* RFC 4231, cases 2 and 6 (a key longer than a block). */
static void published_hmacs(void **state)
{
    static const char long_text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    uint8_t long_key[131];
    uint8_t out[HASH_SHA256_BYTES];
    struct hmac_key key;

    (void)state;
    hmac_key_init(&key, "Jefe", 4);
    for (int i = 0; i < 2; i++) { /* a key serves many codes */
        hmac_sign(&key, "what do ya want for nothing?", 28, out);
        assert_hex(out, sizeof(out),
                   "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
    memset(long_key, 0xaa, sizeof(long_key));
    hmac_sha256(long_key, sizeof(long_key), long_text, sizeof(long_text) - 1, out);
    assert_hex(out, sizeof(out),
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    /* RFC 2202, cases 2 and 6 (its long key has 80 bytes). */
    hmac_sha1("Jefe", 4, "what do ya want for nothing?", 28, out);
    assert_hex(out, HASH_SHA1_BYTES, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    hmac_sha1(long_key, 80, long_text, sizeof(long_text) - 1, out);
    assert_hex(out, HASH_SHA1_BYTES, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

/* A comparison that stops early, or misses the last byte, gives signatures away. */
static void comparison_sees_every_byte(void **state)
{
    uint8_t a[32] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(a); i++) {
        uint8_t b[32] = {0};

        b[i] = 1;
        assert_false(crypto_equal(a, b, sizeof(a)));
    }
    assert_true(crypto_equal(a, (uint8_t[32]){0}, sizeof(a)));
}

/* Keys that repeat, or favour a letter, can be guessed. */
static void random_text_is_even(void **state)
{
    static char text[26001];
    unsigned counts[26] = {0};

    (void)state;
    random_text(text, sizeof(text) - 1, "abcdefghijklmnopqrstuvwxyz");
    assert_int_equal(strlen(text), sizeof(text) - 1);
    for (size_t i = 0; i + 1 < sizeof(text); i++) {
        counts[text[i] - 'a'] += 1;
    }
    for (int i = 0; i < 26; i++) {
        assert_in_range(counts[i], 800, 1200); /* 1,000 expected, standard deviation 31 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_digests),   cmocka_unit_test(states_copy),
        cmocka_unit_test(published_hmacs),     cmocka_unit_test(comparison_sees_every_byte),
        cmocka_unit_test(random_text_is_even),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
