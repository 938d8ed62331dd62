/* Short forms for tests of operations over s3_fixture. */
#ifndef TESTS_UNIT_GATEWAY_S3_CASES_H
#define TESTS_UNIT_GATEWAY_S3_CASES_H

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "gateway/object/checksum.h"
#include "tests/lib/s3_fixture.h"

static inline int cases_setup(void **state)
{
    struct s3_fixture *f = mem_alloc(sizeof(*f));

    s3_fixture_init(f);
    *state = f;
    return s3_send(f, "PUT", "/bucket", "", SLICE_EMPTY) == 200 ? 0 : -1;
}

/* The same with a metad that never answers at once. */
static inline int cases_setup_later(void **state)
{
    int rc = cases_setup(state);

    ((struct s3_fixture *)*state)->meta.later = true;
    return rc;
}

static inline int cases_teardown(void **state)
{
    s3_fixture_deinit(*state);
    mem_free(*state);
    return 0;
}

/* Sends and demands a status; prints the reply when it is another. */
static inline void want(struct s3_fixture *f, int status, const char *method, const char *target,
                        const char *headers, struct slice body)
{
    s3_send(f, method, target, headers, body);
    if (f->status != status) {
        print_error("%s %s -> %d, want %d\n%s\n%s\n", method, target, f->status, status,
                    f->head.data, f->body.len > 0 ? f->body.data : "");
    }
    assert_int_equal(f->status, status);
}

static inline void want_error(struct s3_fixture *f, const char *code, const char *method,
                              const char *target, const char *headers, struct slice body)
{
    const char *got;

    s3_send(f, method, target, headers, body);
    got = s3_error_of(f);
    if (got == NULL || strcmp(got, code) != 0) {
        print_error("%s %s -> %d %s, want %s\n", method, target, f->status,
                    got != NULL ? got : "(none)", code);
    }
    assert_non_null(got);
    assert_string_equal(got, code);
}

static inline void put(struct s3_fixture *f, const char *key, const char *body)
{
    want(f, 200, "PUT", arena_printf(&f->arena, "/bucket/%s", key).data, "", slice_str(body));
}

static inline void assert_header(struct s3_fixture *f, const char *name, const char *value)
{
    const char *got = s3_reply_value(f, name);

    if (value == NULL) {
        assert_null(got);
        return;
    }
    if (got == NULL) {
        print_error("no header %s\n", name);
    }
    assert_non_null(got);
    assert_string_equal(got, value);
}

/* "x-amz-checksum-crc32: <of the body>\r\n" */
static inline const char *crc32_header(struct s3_fixture *f, struct slice body)
{
    char raw[4];
    struct slice text;

    be32_put(raw, crc32(0, body.data, body.len));
    text = checksum_text(&f->arena, CHECKSUM_CRC32, slice_of(raw, sizeof(raw)));
    return arena_printf(&f->arena, "x-amz-checksum-crc32: %.*s\r\n", (int)text.len, text.data).data;
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, cases_setup, cases_teardown),                            \
        cmocka_unit_test_setup_teardown(test, cases_setup_later, cases_teardown)

#endif
