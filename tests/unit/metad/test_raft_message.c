/* Frames between replicas: what was written is read, what is damaged or strange is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/bytes.h"
#include "common/codec/crc.h"
#include "common/codec/hex.h"
#include "metad/raft/message.h"

#define GOLDEN "tests/golden/raft_frames_v1.txt"

static struct log_entry decoded[FRAME_ENTRIES_MAX];

static struct frame_header header_of(enum message_kind kind)
{
    return (struct frame_header){
        .kind = kind, .group = 7, .from = 11, .to = 12, .term = 5, .round = 33};
}

/* Two entries, one of them a configuration. */
static void make_append(struct buffer *out)
{
    static const struct log_entry entries[2] = {
        {.term = 4, .type = ENTRY_COMMAND, .data = "put",              .len = 3},
        {.term = 5, .type = ENTRY_CHANGE,  .data = "\x01\x00\x00\x00", .len = 4},
    };
    const struct frame_header header = header_of(FRAME_APPEND);
    const struct consensus_message message = {
        .kind = MESSAGE_APPEND,
        .append = {.prev_index = 40, .prev_term = 4, .commit = 39, .count = 2},
    };

    buffer_clear(out);
    frame_begin(out, &header);
    frame_message(out, &message);
    frame_entry(out, &entries[0]);
    frame_entry(out, &entries[1]);
    frame_end(out);
}

static void make_small(struct buffer *out, enum message_kind kind)
{
    struct consensus_message message = {.kind = MESSAGE_VOTE};
    const struct frame_header header = header_of(kind);

    if (kind == FRAME_APPEND_RESULT) {
        message.kind = MESSAGE_APPEND_RESULT;
        message.append_result.rejected = 41;
        message.append_result.last_index = 40;
    } else if (kind == FRAME_VOTE) {
        message.vote.last_index = 40;
        message.vote.last_term = 4;
        message.vote.disrupt = true;
    } else if (kind == FRAME_VOTE_RESULT) {
        message.kind = MESSAGE_VOTE_RESULT;
        message.vote_result.granted = true;
        message.vote_result.pre_vote = true;
    } else {
        message.kind = MESSAGE_TIMEOUT_NOW;
        message.timeout_now.last_index = 40;
        message.timeout_now.last_term = 4;
    }
    buffer_clear(out);
    frame_begin(out, &header);
    frame_message(out, &message);
    frame_end(out);
}

static void make_snapshot(struct buffer *out, enum message_kind kind)
{
    const struct frame_header header = header_of(kind);
    struct log_snapshot snapshot = {
        .index = 40, .term = 4, .configuration_index = 1, .configuration_len = 4};

    memcpy(snapshot.configuration, "\x01\x00\x00\x00", 4);
    buffer_clear(out);
    frame_begin(out, &header);
    if (kind == FRAME_SNAPSHOT_BEGIN) {
        frame_snapshot_begin(out, 77, &snapshot);
    } else if (kind == FRAME_SNAPSHOT_CHUNK) {
        frame_snapshot_chunk(out, 77, 3, true, SLICE("rows"));
    } else if (kind == FRAME_SNAPSHOT_RESULT) {
        frame_snapshot_result(out, 77, 3, false);
    }
    frame_end(out);
}

static void make(struct buffer *out, enum message_kind kind)
{
    if (kind == FRAME_APPEND) {
        make_append(out);
    } else if (kind <= FRAME_TIMEOUT_NOW) {
        make_small(out, kind);
    } else {
        make_snapshot(out, kind);
    }
}

/* Every kind comes back as it was sent. */
static void every_kind_is_read_back(void **state)
{
    struct buffer bytes;
    struct frame frame;

    (void)state;
    buffer_init(&bytes);
    for (int kind = FRAME_APPEND; kind <= FRAME_SNAPSHOT_RESULT; kind++) {
        make(&bytes, (enum message_kind)kind);
        assert_int_equal(frame_decode(buffer_slice(&bytes), &frame, decoded, NULL), RC_OK);
        assert_int_equal(frame.header.kind, kind);
        assert_int_equal(frame.header.from, 11);
        assert_int_equal(frame.header.round, 33);
    }
    make(&bytes, FRAME_APPEND);
    assert_int_equal(frame_decode(buffer_slice(&bytes), &frame, decoded, NULL), RC_OK);
    assert_int_equal(frame.message.append.count, 2);
    assert_int_equal(frame.message.append.prev_index, 40);
    assert_memory_equal(decoded[0].data, "put", 3);
    assert_int_equal(decoded[1].type, ENTRY_CHANGE);
    make(&bytes, FRAME_SNAPSHOT_CHUNK);
    assert_int_equal(frame_decode(buffer_slice(&bytes), &frame, decoded, NULL), RC_OK);
    assert_true(slice_eq(frame.chunk.bytes, SLICE("rows")));
    assert_true(frame.chunk.last);
    buffer_deinit(&bytes);
}

/* A peer's disk or memory may be bad: no flipped bit and no cut passes. */
static void damage_and_cuts_are_refused(void **state)
{
    struct buffer bytes;
    struct frame frame;

    (void)state;
    buffer_init(&bytes);
    for (int kind = FRAME_APPEND; kind <= FRAME_SNAPSHOT_RESULT; kind++) {
        make(&bytes, (enum message_kind)kind);
        for (size_t bit = 0; bit < bytes.len * 8; bit++) {
            bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
            assert_int_not_equal(frame_decode(buffer_slice(&bytes), &frame, decoded, NULL), RC_OK);
            bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
        }
        for (size_t len = 0; len < bytes.len; len++) {
            assert_int_not_equal(frame_decode(slice_of(bytes.data, len), &frame, decoded, NULL),
                                 RC_OK);
        }
    }
    buffer_deinit(&bytes);
}

/* With a right checksum, too: any bytes are refused or read within bounds (run under ASan). */
static void strange_bodies_with_good_checksums_are_safe(void **state)
{
    struct buffer bytes;
    struct frame frame;
    uint32_t random = 12345;
    uint32_t passed = 0;

    (void)state;
    buffer_init(&bytes);
    for (uint32_t round = 0; round < 50000; round++) {
        make(&bytes, (enum message_kind)(FRAME_APPEND + round % FRAME_SNAPSHOT_RESULT));
        for (uint32_t i = 0; i < 1 + round % 3; i++) {
            random = random * 1664525U + 1013904223U;
            bytes.data[16 + (random >> 8) % (bytes.len - 16)] = (char)(random >> 24);
        }
        bytes.len -= random % 5 == 0 ? 1 : 0;
        le32_put(bytes.data + 8, (uint32_t)(bytes.len - FRAME_HEADER_BYTES));
        le32_put(bytes.data + 12,
                 crc32c(crc32c(0, bytes.data, 12), bytes.data + 16, bytes.len - 16));
        passed += frame_decode(buffer_slice(&bytes), &frame, decoded, NULL) == RC_OK ? 1U : 0U;
    }
    assert_true(passed > 0 && passed < 50000);
    buffer_deinit(&bytes);
}

/* Entries of a term above the leader's, or of falling terms, cannot come from a leader. */
static void impossible_terms_are_refused(void **state)
{
    struct buffer bytes;
    struct frame frame;
    struct log_entry entry = {.term = 6, .type = ENTRY_COMMAND, .data = "x", .len = 1};
    const struct frame_header header = header_of(FRAME_APPEND);
    const struct consensus_message message = {
        .kind = MESSAGE_APPEND,
        .append = {.prev_index = 40, .prev_term = 4, .commit = 39, .count = 1},
    };

    (void)state;
    buffer_init(&bytes);
    for (entry.term = 3; entry.term <= 6; entry.term++) {
        buffer_clear(&bytes);
        frame_begin(&bytes, &header);
        frame_message(&bytes, &message);
        frame_entry(&bytes, &entry);
        frame_end(&bytes);
        assert_int_equal(frame_decode(buffer_slice(&bytes), &frame, decoded, NULL),
                         entry.term == 4 || entry.term == 5 ? RC_OK : RC_CORRUPT);
    }
    buffer_deinit(&bytes);
}

/* False: the file ended. */
static bool golden_line(FILE *file, bool renew, const char *line)
{
    char want[1024] = "";

    if (renew) {
        return fputs(line, file) >= 0;
    }
    if (fgets(want, sizeof(want), file) == NULL) {
        return false;
    }
    assert_string_equal(line, want);
    return true;
}

/* Peers of the first release understand us, and we them. */
static void golden_frames_are_unchanged(void **state)
{
    const char *renew = getenv("GOLDEN_WRITE"); /* NOLINT(concurrency-mt-unsafe): one thread */
    FILE *file = fopen(GOLDEN, renew != NULL ? "w" : "r");
    struct buffer bytes;
    char line[1024];
    bool same = true;

    (void)state;
    if (file == NULL) {
        fail_msg("%s: cannot be opened", GOLDEN);
        return;
    }
    buffer_init(&bytes);
    for (int kind = FRAME_APPEND; same && kind <= FRAME_SNAPSHOT_RESULT; kind++) {
        make(&bytes, (enum message_kind)kind);
        hex_encode(line, bytes.data, bytes.len);
        line[2 * bytes.len] = '\n';
        line[2 * bytes.len + 1] = '\0';
        same = golden_line(file, renew != NULL, line);
    }
    buffer_deinit(&bytes);
    assert_true(same);
    assert_int_equal(fclose(file), 0);
}

/* Configurations are on disk for ever; what is not one is refused. */
static void configurations_are_checked(void **state)
{
    struct consensus_configuration members = {.count = 2};
    struct consensus_configuration back;
    char bytes[LOG_CONFIGURATION_BYTES_MAX];
    size_t len = 0;

    (void)state;
    members.members[0] = (struct consensus_member){.id = 1, .voter = true};
    members.members[1] = (struct consensus_member){.id = 900, .voter = false};
    len = consensus_configuration_encode(&members, bytes);
    assert_int_equal(len, 22);
    assert_int_equal(consensus_configuration_decode(slice_of(bytes, len), &back, NULL), RC_OK);
    assert_int_equal(back.members[1].id, 900);
    assert_false(back.members[1].voter);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(consensus_configuration_decode(slice_of(bytes, cut), &back, NULL),
                         RC_CORRUPT);
    }
    memcpy(bytes + 13, bytes + 4, 9); /* the same member twice */
    assert_int_equal(consensus_configuration_decode(slice_of(bytes, len), &back, NULL), RC_CORRUPT);
    bytes[1] = 17;
    assert_int_equal(consensus_configuration_decode(slice_of(bytes, len), &back, NULL), RC_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read_back),
        cmocka_unit_test(damage_and_cuts_are_refused),
        cmocka_unit_test(strange_bodies_with_good_checksums_are_safe),
        cmocka_unit_test(impossible_terms_are_refused),
        cmocka_unit_test(golden_frames_are_unchanged),
        cmocka_unit_test(configurations_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
