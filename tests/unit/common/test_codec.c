/* Hexadecimal, base64, percent-encoding and UTF-8: what outside bytes may and may not get through.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/codec/base64.h"
#include "common/codec/hex.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"

static void assert_slice(struct slice got, const char *want)
{
    assert_int_equal(got.len, slice_str(want).len);
    assert_memory_equal(got.data, want, got.len);
}

/* Signatures and ETags compare as lower-case text. */
static void hex_both_ways(void **state)
{
    uint8_t back[4];
    char text[8];

    (void)state;
    hex_encode(text, "\x00\x9f\xab\xff", 4);
    assert_memory_equal(text, "009fabff", 8);
    assert_true(hex_decode(SLICE("009FabFF"), back, 4));
    assert_memory_equal(back, "\x00\x9f\xab\xff", 4);
    assert_false(hex_decode(SLICE("009fabf"), back, 4));
    assert_false(hex_decode(SLICE("009fabff00"), back, 4));
    assert_false(hex_decode(SLICE("009fabfg"), back, 4));
}

/* RFC 4648 section 10. */
static void base64_vectors(void **state)
{
    static const struct {
        const char *raw;
        const char *text;
    } rows[] = {
        {"",       ""        },
        {"f",      "Zg=="    },
        {"fo",     "Zm8="    },
        {"foo",    "Zm9v"    },
        {"foob",   "Zm9vYg=="},
        {"fooba",  "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"}
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[16];
        uint8_t raw[16];
        size_t len = 99;

        len = base64_encode(text, rows[i].raw, slice_str(rows[i].raw).len);
        assert_slice(slice_of(text, len), rows[i].text);
        assert_true(base64_decode(slice_str(rows[i].text), raw, sizeof(raw), &len));
        assert_slice(slice_of(raw, len), rows[i].raw);
    }
}

/* One value, one text: otherwise two different headers could carry the same digest. */
static void base64_is_strict(void **state)
{
    static const char *const bad[] = {"Zg",       "Zg=",  "Zg===",    "Z===",    "====",
                                      "Zm8=Zm8=", "Zh==", "Zm9=",     "Zm 8",    "Zm8=\n",
                                      "Zm-_",     "=Zm8", "Zm8=====", "Zm9v\r\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint8_t raw[16];
        size_t len;

        assert_false(base64_decode(slice_str(bad[i]), raw, sizeof(raw), &len));
    }
    uint8_t two[2];
    size_t len;
    assert_false(base64_decode(SLICE("Zm9v"), two, sizeof(two), &len));
}

/* The canonical request depends on exactly this set of plain characters. */
static void percent_encodes_as_aws(void **state)
{
    struct arena arena;
    char all[256];
    size_t plain = 0;

    (void)state;
    arena_init(&arena);
    assert_slice(percent_encode(&arena, SLICE("a b+c/d~e%*"), true), "a%20b%2Bc/d~e%25%2A");
    assert_slice(percent_encode(&arena, SLICE("a/\xc3\xa9"), false), "a%2F%C3%A9");
    for (unsigned i = 0; i < 256; i++) {
        char c = (char)i;

        plain += percent_encode_to(all, slice_of(&c, 1), false) - all == 1 ? 1 : 0;
    }
    assert_int_equal(plain, 26 + 26 + 10 + 4);
    assert_slice(percent_encode(&arena, SLICE("AZaz09-._~"), false), "AZaz09-._~");
    assert_slice(percent_encode_listing(&arena, SLICE("a b+c/d%")), "a+b%2Bc/d%25");
    arena_deinit(&arena);
}

/* A bad escape must be refused, not guessed: a proxy before us may have guessed otherwise. */
static void percent_decodes_once(void **state)
{
    static const char *const bad[] = {"%", "a%4", "%zz", "%4g", "%%41", "abc%"};
    struct arena arena;
    struct slice out;

    (void)state;
    arena_init(&arena);
    assert_true(percent_decode(&arena, SLICE("%61%2561+b%2fc"), false, &out));
    assert_slice(out, "a%61+b/c");
    assert_true(percent_decode(&arena, SLICE("a+b%2B"), true, &out));
    assert_slice(out, "a b+");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(percent_decode(&arena, slice_str(bad[i]), false, &out));
    }
    arena_deinit(&arena);
}

/* Keys are UTF-8; what is not would break XML listings for every client of the bucket. */
static void utf8_bounds(void **state)
{
    static const char *const good[] = {"",
                                       "plain ascii text, long",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "12345678\360\237\230\20012345678"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "12345678\xe2\x82",
                                      "\xe2\x28\xa1"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(utf8_valid(slice_str(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(utf8_valid(slice_str(bad[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_both_ways),        cmocka_unit_test(base64_vectors),
        cmocka_unit_test(base64_is_strict),     cmocka_unit_test(percent_encodes_as_aws),
        cmocka_unit_test(percent_decodes_once), cmocka_unit_test(utf8_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
