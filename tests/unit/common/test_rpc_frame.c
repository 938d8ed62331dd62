/* Frames of the RPC as bytes: the golden file, limits, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/codec/crc.h"
#include "common/codec/hex.h"
#include "common/rpc/frame.h"
#include "common/rpc/rpc.h"

#define GOLDEN "tests/golden/rpc_frames_v1.txt"

enum { LINE_BYTES = 1024 };

static const struct rpc_frame golden[] = {
    {.kind = RPC_FRAME_HELLO, .head_len = 68},
    {.kind = RPC_FRAME_GOODBYE, .head_len = 6},
    {.kind = RPC_FRAME_REQUEST,
     .flags = RPC_FRAME_FLAG_BODY_CRC,
     .method = RPC_PROBE_ECHO,
     .value = 1500,
     .id = 1 << 16,
     .head_len = 3,
     .body_len = 4,
     .body_crc = 0x263fc950},
    {.kind = RPC_FRAME_REPLY, .method = RPC_PROBE_ECHO, .status = 14, .id = 1 << 16},
    {.kind = RPC_FRAME_REPLY, .status = 20, .value = RPC_REPLY_OF_RPC, .id = 1 << 16},
    {.kind = RPC_FRAME_CANCEL, .id = 1 << 16},
    {.kind = RPC_FRAME_MESSAGE, .method = RPC_PROBE_MESSAGE, .head_len = 1, .body_len = 1},
    {.kind = RPC_FRAME_OPEN,
     .method = RPC_PROBE_STREAM,
     .value = 65536,
     .id = 2 << 16 | 1,
     .head_len = 1},
    {.kind = RPC_FRAME_ACCEPT, .value = 1024, .id = 2 << 16 | 1},
    {.kind = RPC_FRAME_DATA, .id = 2 << 16 | 1, .body_len = 3},
    {.kind = RPC_FRAME_CREDIT, .value = 512, .id = 2 << 16 | 1},
    {.kind = RPC_FRAME_END, .status = 4, .id = 2 << 16 | 1},
    {.kind = RPC_FRAME_PING},
    {.kind = RPC_FRAME_PONG},
    {.kind = RPC_FRAME_DRAIN},
};

static void frames_equal(const struct rpc_frame *a, const struct rpc_frame *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->method, b->method);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->value, b->value);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->head_len, b->head_len);
    assert_int_equal(a->body_len, b->body_len);
    assert_int_equal(a->body_crc, b->body_crc);
}

/* The next line that is no comment, as bytes. */
static size_t golden_next(FILE *file, char *bytes)
{
    char line[LINE_BYTES];

    do {
        assert_non_null(fgets(line, sizeof(line), file));
    } while (line[0] == '#');
    assert_true(hex_decode(slice_of(line, strlen(line) - 1), bytes, (strlen(line) - 1) / 2));
    return (strlen(line) - 1) / 2;
}

/* Another release's frames: every kind reads as it always did, and is written as it was. */
static void golden_frames_are_unchanged(void **state)
{
    FILE *file = fopen(GOLDEN, "r");

    (void)state;
    assert_non_null(file);
    for (size_t i = 0; file != NULL && i < ARRAY_LEN(golden); i++) {
        char bytes[LINE_BYTES];
        char again[LINE_BYTES];
        size_t len = golden_next(file, bytes);
        struct rpc_frame frame;
        size_t need;

        assert_int_equal(rpc_frame_parse(slice_of(bytes, len), &frame, &need, NULL), RC_OK);
        assert_int_equal(need, len);
        assert_int_equal(frame.version, 1);
        frames_equal(&frame, &golden[i]);
        memcpy(again, bytes, len);
        memset(again, 0, RPC_FRAME_HEADER_BYTES);
        rpc_frame_seal(&frame, again);
        assert_memory_equal(again, bytes, len);
    }
    (void)fclose(file);
}

/* Half a frame is not a frame yet; a bit that fell over in header or head is always noticed. */
static void halves_and_flips(void **state)
{
    char bytes[RPC_FRAME_HEADER_BYTES + 20];
    struct rpc_frame frame = {
        .version = 1, .kind = RPC_FRAME_REQUEST, .method = 1, .id = 1 << 16, .head_len = 20};
    size_t need;

    (void)state;
    memset(bytes, 7, sizeof(bytes));
    rpc_frame_seal(&frame, bytes);
    for (size_t len = 0; len < sizeof(bytes); len++) {
        assert_int_equal(rpc_frame_parse(slice_of(bytes, len), &frame, &need, NULL), RC_AGAIN);
        assert_int_equal(need,
                         len < RPC_FRAME_HEADER_BYTES ? RPC_FRAME_HEADER_BYTES : sizeof(bytes));
    }
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        enum rc rc;

        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        rc = rpc_frame_parse(slice_of(bytes, sizeof(bytes)), &frame, &need, NULL);
        assert_int_not_equal(rc, RC_OK);
        /* Only a head that pretends to be longer makes us wait. */
        assert_true(rc != RC_AGAIN || (bit / 8 >= 24 && bit / 8 < 28));
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    assert_int_equal(rpc_frame_parse(slice_of(bytes, sizeof(bytes)), &frame, &need, NULL), RC_OK);
}

/* Lengths are bounded before a byte of memory is taken for them; what is unknown is named so. */
static void limits_and_unknowns(void **state)
{
    char bytes[RPC_FRAME_HEADER_BYTES];
    struct rpc_frame frame = {.version = 1, .kind = RPC_FRAME_PING};
    struct error error;
    size_t need;

    (void)state;
    rpc_frame_seal(&frame, bytes);
    le32_put(bytes + 24, LIMIT_RPC_HEAD_BYTES + 1);
    assert_int_equal(rpc_frame_parse(slice_of(bytes, 40), &frame, &need, &error), RC_LIMIT);
    le32_put(bytes + 24, 0);
    le32_put(bytes + 28, LIMIT_RPC_BODY_BYTES + 1U);
    assert_int_equal(rpc_frame_parse(slice_of(bytes, 40), &frame, &need, &error), RC_LIMIT);
    frame = (struct rpc_frame){.version = 1, .kind = RPC_FRAME_KIND_END};
    rpc_frame_seal(&frame, bytes);
    assert_int_equal(rpc_frame_parse(slice_of(bytes, 40), &frame, &need, &error), RC_UNSUPPORTED);
    frame = (struct rpc_frame){.version = 2, .kind = RPC_FRAME_PING};
    rpc_frame_seal(&frame, bytes);
    assert_int_equal(rpc_frame_parse(slice_of(bytes, 40), &frame, &need, &error), RC_UNSUPPORTED);
    assert_non_null(strstr(error.text, "version 2"));
}

/* Every outcome that a service may answer arrives as itself; one of a later release as an error. */
static void outcomes_arrive(void **state)
{
    (void)state;
    for (enum rc rc = RC_OK; rc <= RC_UNSUPPORTED; rc++) {
        assert_int_equal(rpc_status_rc(rpc_status_of(rc)), rc);
    }
    assert_int_equal(rpc_status_of(RC_OK), 0);
    assert_int_equal(rpc_status_rc(999), RC_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_frames_are_unchanged),
        cmocka_unit_test(halves_and_flips),
        cmocka_unit_test(limits_and_unknowns),
        cmocka_unit_test(outcomes_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
