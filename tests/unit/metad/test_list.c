/* Listings and the other reads over rows: pages, prefixes, delimiters, layouts, uploads, scans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "metad/service/read.h"
#include "metad/store/record_peek.h"
#include "tests/lib/fixture_machine.h"

#define MIB 1048576ULL

static struct machine_fixture fixture;
static struct store *store;

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    store = machine_store(fixture.machine);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    store_unref(store);
    machine_fixture_deinit(*state);
    return 0;
}

static void put_keys(struct machine_fixture *f, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(machine_fixture_put_inline(f, keys[i], "x"), KIST__OUTCOME__OUTCOME_OK);
    }
}

static struct meta_list list(struct machine_fixture *f, const char *prefix, const char *delimiter,
                             const char *after, uint32_t limit)
{
    struct read_context read = {.store = store};
    struct meta_list call = {.bucket_id = f->bucket_id,
                             .generation = f->generation,
                             .prefix = slice_str(prefix),
                             .delimiter = slice_str(delimiter),
                             .after = slice_str(after),
                             .limit = limit,
                             .arena = &f->arena};

    assert_int_equal(read_list(&read, &call), RC_OK);
    return call;
}

/* The names of a page, with a blank between, "..." when more follow. */
static const char *names(struct machine_fixture *f, const struct meta_list *call)
{
    struct buffer text;
    const char *copy;

    buffer_init(&text);
    for (uint32_t i = 0; i < call->entry_count; i++) {
        buffer_printf(&text, "%s%.*s%s", i > 0 ? " " : "", (int)call->entries[i].name.len,
                      call->entries[i].name.data, call->entries[i].record == NULL ? "*" : "");
    }
    buffer_printf(&text, "%s", call->truncated ? " ..." : "");
    copy = arena_copy(&f->arena, buffer_slice(&text)).data;
    buffer_deinit(&text);
    return copy;
}

struct list_row {
    const char *prefix, *delimiter, *after;
    uint32_t limit;
    const char *expected;
};

/* Every prefix once, in order, never over two pages; clients walk buckets by these rules. */
static void pages(void **state)
{
    static const char *const keys[] = {"a",   "b/",   "b/1",   "b/2",   "b0",       "c/1",
                                       "c/2", "c//3", "d%d/x", "d%d/y", "\xff\xffz"};
    static const struct list_row rows[] = {
        {"",    "",   "",          100, "a b/ b/1 b/2 b0 c//3 c/1 c/2 d%d/x d%d/y \xff\xffz"},
        {"",    "/",  "",          100, "a b/* b0 c/* d%d/* \xff\xffz"                      },
        {"",    "/",  "",          1,   "a ..."                                             },
        {"",    "/",  "a",         1,   "b/* ..."                                           },
        {"",    "/",  "b/",        100, "b/* b0 c/* d%d/* \xff\xffz"                        },
        {"",    "/",  "b/1",       1,   "b/* ..."                                           },
        {"",    "/",  "b/2",       1,   "b0 ..."                                            },
        {"b/",  "/",  "",          100, "b/ b/1 b/2"                                        },
        {"b",   "/",  "",          100, "b/* b0"                                            },
        {"c/",  "/",  "",          100, "c//* c/1 c/2"                                      },
        {"",    "%d", "",          100, "a b/ b/1 b/2 b0 c//3 c/1 c/2 d%d* \xff\xffz"       },
        {"d%d", "",   "",          1,   "d%d/x ..."                                         },
        {"zz",  "/",  "",          10,  ""                                                  },
        {"",    "",   "d",         2,   "d%d/x d%d/y ..."                                   },
        {"",    "",   "\xff\xffz", 2,   ""                                                  },
        {"b",   "",   "a",         2,   "b/ b/1 ..."                                        },
        {"a",   "",   "b",         2,   ""                                                  },
    };
    struct machine_fixture *f = *state;

    put_keys(f, keys, ARRAY_LEN(keys));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct meta_list call =
            list(f, rows[i].prefix, rows[i].delimiter, rows[i].after, rows[i].limit);

        assert_string_equal(names(f, &call), rows[i].expected);
    }
}

/* A token that ended on a common prefix goes on behind all its keys. */
static void after_a_prefix(void **state)
{
    static const char *const keys[] = {"b/1", "b/2", "b0", "\xff\xff/1", "\xff\xff/2"};
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    struct meta_list call = {.bucket_id = f->bucket_id,
                             .generation = f->generation,
                             .delimiter = SLICE("/"),
                             .after = SLICE("b/"),
                             .after_prefix = true,
                             .limit = 10,
                             .arena = &f->arena};

    put_keys(f, keys, ARRAY_LEN(keys));
    assert_int_equal(read_list(&read, &call), RC_OK);
    assert_string_equal(names(f, &call), "b0 \xff\xff/*");
    call.after = SLICE("\xff\xff");
    assert_int_equal(read_list(&read, &call), RC_OK);
    assert_int_equal(call.entry_count, 0);
}

/* Rows of a neighbour bucket must never show. */
static void a_bucket_ends_where_the_next_begins(void **state)
{
    struct machine_fixture *f = *state;
    Kist__CreateBucket create = KIST__CREATE_BUCKET__INIT;
    uint64_t first = f->bucket_id;
    struct meta_list call;

    (void)machine_fixture_put_inline(f, "\xff\xff\xff", "x");
    create.name = field_of("next");
    create.owner = field_of("root");
    f->bucket_id =
        machine_fixture_apply(f, META_CREATE_BUCKET, &create.base, SLICE_EMPTY)->bucket->id;
    assert_int_equal(f->bucket_id, first + 1);
    (void)machine_fixture_put_inline(f, "\x01", "x");
    call = list(f, "", "", "", 10);
    assert_int_equal(call.entry_count, 1);
    f->bucket_id = first;
    call = list(f, "\xff\xff\xff", "", "", 10);
    assert_int_equal(call.entry_count, 1);
    assert_false(call.truncated);
}

/* A loop is not held up: what costs too much, or needs the disk, says so. */
static void a_long_page_leaves_the_loop(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store, .cached_only = true, .budget = 50};
    struct meta_list call = {
        .bucket_id = f->bucket_id, .generation = f->generation, .limit = 100, .arena = &f->arena};

    for (int i = 0; i < 60; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "k%d", i);
        (void)machine_fixture_put_inline(f, key, "x");
    }
    assert_int_equal(read_list(&read, &call), RC_AGAIN);
    read.cached_only = false;
    assert_int_equal(read_list(&read, &call), RC_OK);
    assert_int_equal(call.entry_count, 60);
}

/* Judged by an old generation, or after the bucket went: judge again. */
static void stale_judgements_are_sent_back(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    struct meta_list call = {
        .bucket_id = f->bucket_id, .generation = f->generation + 1, .limit = 1, .arena = &f->arena};

    assert_int_equal(read_list(&read, &call), RC_STALE);
    call.bucket_id += 1;
    assert_int_equal(read_list(&read, &call), RC_STALE);
}

/* What a listing shows is what unpacking the whole record would show. */
static void peek_agrees_with_unpack(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Record *record = machine_fixture_record(f, 12345678901234ULL);
    Kist__Checksum checksum = KIST__CHECKSUM__INIT;
    Kist__Checksum *checksums = &checksum;
    Kist__Header header = KIST__HEADER__INIT;
    Kist__Header *headers = &header;
    struct slice packed;
    const Kist__Record *peeked;

    record->stamp = 1800000000000000001ULL;
    record->part_count = 10000;
    record->storage_class = field_of("STANDARD_IA");
    record->layout_id = machine_fixture_id(f);
    checksum.algorithm = 3;
    checksum.type = 1;
    checksum.value = field_of("12345678");
    record->checksums = &checksums;
    record->n_checksums = 1;
    header.name = field_of("x");
    header.value = field_of("y");
    record->metadata = &headers;
    record->n_metadata = 1;
    packed = message_pack(&f->arena, &record->base);
    peeked = record_peek(&f->arena, packed);
    assert_non_null(peeked);
    assert_int_equal(peeked->stamp, record->stamp);
    assert_int_equal(peeked->size, record->size);
    assert_int_equal(peeked->part_count, 10000);
    assert_true(slice_eq(message_bytes(peeked->etag), message_bytes(record->etag)));
    assert_true(slice_eq(message_bytes(peeked->owner), SLICE("root")));
    assert_true(slice_eq(message_bytes(peeked->storage_class), SLICE("STANDARD_IA")));
    assert_int_equal(peeked->n_checksums, 1);
    assert_int_equal(peeked->checksums[0]->algorithm, 3);
    assert_int_equal(peeked->n_metadata, 0);
    /* Damaged bytes are refused or read, never past their end. */
    for (size_t i = 0; i < packed.len; i++) {
        struct slice copy = arena_copy(&f->arena, slice_of(packed.data, i));

        (void)record_peek(&f->arena, copy);
    }
}

/* ---- Layouts ---- */

static ProtobufCBinaryData put_long(struct machine_fixture *f, size_t count)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece **pieces = arena_alloc(&f->arena, count * sizeof(*pieces));

    for (size_t i = 0; i < count; i++) {
        pieces[i] = machine_fixture_piece(f, 100 + i);
    }
    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of("long");
    put.record = machine_fixture_record(f, 100 * count + count * (count - 1) / 2);
    put.record->layout_id = machine_fixture_id(f);
    put.pieces = pieces;
    put.n_pieces = count;
    assert_int_equal(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    return put.record->layout_id;
}

/* A range read asks for the piece that holds a byte: it must be the right one at every edge. */
static void pieces_from_any_offset(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = put_long(f, 150);
    uint64_t at = 0;

    for (size_t i = 0; i < 150; i++) {
        uint64_t offsets[2] = {at, at + 99 + i};

        for (size_t k = 0; k < 2; k++) {
            struct read_context read = {.store = store};
            struct meta_pieces call = {.bucket_id = f->bucket_id,
                                       .key = SLICE("long"),
                                       .layout_id = message_bytes(id),
                                       .offset = offsets[k],
                                       .limit = 3,
                                       .arena = &f->arena};

            assert_int_equal(read_pieces(&read, &call), RC_OK);
            assert_int_equal(call.piece_count, i < 148 ? 3 : 150 - i);
            assert_int_equal(call.first_offset, at);
            assert_int_equal(call.pieces[0]->length, 100 + i);
        }
        at += 100 + i;
    }
}

/* Past the end there is nothing, of an unknown layout even less; a short list comes from the
 * record. */
static void pieces_at_the_edges(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    ProtobufCBinaryData id = put_long(f, 10);
    struct meta_pieces call = {.bucket_id = f->bucket_id,
                               .key = SLICE("long"),
                               .layout_id = message_bytes(id),
                               .offset = 1000000,
                               .limit = 3,
                               .arena = &f->arena};

    assert_int_equal(read_pieces(&read, &call), RC_OK);
    assert_int_equal(call.piece_count, 0);
    call.layout_id = message_bytes(machine_fixture_id(f));
    assert_int_equal(read_pieces(&read, &call), RC_NOT_FOUND);
    (void)machine_fixture_put(f, "short", 1000);
    call.key = SLICE("short");
    call.layout_id = message_bytes(machine_fixture_current(f, "short")->layout_id);
    call.offset = 0;
    assert_int_equal(read_pieces(&read, &call), RC_OK);
    assert_int_equal(call.piece_count, 1);
    (void)machine_fixture_copy(f, "short", "copy");
    (void)machine_fixture_delete(f, "short");
    call.pieces = NULL;
    assert_int_equal(read_pieces(&read, &call), RC_OK); /* the home row answers */
    assert_int_equal(call.piece_count, 1);
}

/* ---- Uploads ---- */

static void make_parts(struct machine_fixture *f, const char *key, ProtobufCBinaryData id,
                       uint32_t from, uint32_t to)
{
    for (uint32_t number = from; number <= to; number++) {
        assert_int_equal(machine_fixture_part(f, key, id, number, 5 * MIB)->outcome,
                         KIST__OUTCOME__OUTCOME_OK);
    }
}

/* Pages of parts by number, and the upload itself. */
static void list_parts(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    struct meta_list_parts call = {.bucket_id = f->bucket_id,
                                   .generation = f->generation,
                                   .key = SLICE("a"),
                                   .upload_id = message_bytes(id),
                                   .limit = 3,
                                   .arena = &f->arena};

    make_parts(f, "a", id, 2, 6);
    assert_int_equal(read_list_parts(&read, &call), RC_OK);
    assert_int_equal(call.part_count, 3);
    assert_int_equal(call.parts[0]->number, 2);
    assert_true(call.truncated);
    call.after = 4;
    assert_int_equal(read_list_parts(&read, &call), RC_OK);
    assert_int_equal(call.part_count, 2);
    assert_false(call.truncated);
    call.limit = 0;
    assert_int_equal(read_list_parts(&read, &call), RC_OK);
    assert_non_null(call.upload);
    call.upload_id = message_bytes(machine_fixture_id(f));
    assert_int_equal(read_list_parts(&read, &call), RC_NOT_FOUND);
}

static struct meta_list_uploads uploads(struct machine_fixture *f, const char *prefix,
                                        const char *delimiter, const char *after, uint32_t limit)
{
    struct read_context read = {.store = store};
    struct meta_list_uploads call = {.bucket_id = f->bucket_id,
                                     .generation = f->generation,
                                     .prefix = slice_str(prefix),
                                     .delimiter = slice_str(delimiter),
                                     .after_key = slice_str(after),
                                     .limit = limit,
                                     .arena = &f->arena};

    assert_int_equal(read_list_uploads(&read, &call), RC_OK);
    return call;
}

/* By key, then by initiation; parts in between never show. */
static void list_uploads(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    ProtobufCBinaryData first = machine_fixture_upload(f, "b");
    ProtobufCBinaryData second = machine_fixture_upload(f, "b");
    struct meta_list_uploads call;

    (void)machine_fixture_upload(f, "a/1");
    (void)machine_fixture_upload(f, "a/2");
    (void)machine_fixture_upload(f, "c");
    make_parts(f, "b", first, 1, 5);
    call = uploads(f, "", "", "", 10);
    assert_int_equal(call.entry_count, 5);
    assert_true(slice_eq(call.entries[0].name, SLICE("a/1")));
    assert_true(slice_eq(message_bytes(call.entries[2].upload->upload_id), message_bytes(first)));
    assert_true(slice_eq(message_bytes(call.entries[3].upload->upload_id), message_bytes(second)));
    call = uploads(f, "", "/", "", 2);
    assert_int_equal(call.entry_count, 2);
    assert_null(call.entries[0].upload);
    assert_true(slice_eq(call.entries[0].name, SLICE("a/")));
    assert_true(call.truncated);
    call = uploads(f, "", "", "b", 10);
    assert_int_equal(call.entry_count, 1);
    call.after_upload = message_bytes(first);
    assert_int_equal(read_list_uploads(&read, &call), RC_OK);
    assert_int_equal(call.entry_count, 2);
    assert_true(slice_eq(message_bytes(call.entries[0].upload->upload_id), message_bytes(second)));
    call = uploads(f, "b", "", "", 10);
    assert_int_equal(call.entry_count, 2);
    assert_false(call.truncated);
}

/* partNumber of a finished object: bytes by position, also where numbers have gaps. */
static void part_ranges(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    Kist__CompleteUpload call = KIST__COMPLETE_UPLOAD__INIT;
    struct read_context read = {.store = store};
    struct md5_hash md5;
    uint8_t digest[16];
    uint32_t ranges[2] = {101, 300};

    md5_init(&md5);
    for (uint32_t number = 101; number <= 300; number++) {
        const Kist__Part *part = machine_fixture_part(f, "a", id, number, 5 * MIB + number)->part;
        uint8_t be[4];

        be32_put(be, number);
        md5_update(&md5, be, 4);
        md5_update(&md5, part->etag.data, 16);
    }
    md5_final(&md5, digest);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload_id = id;
    call.ranges = ranges;
    call.n_ranges = 2;
    call.digest = (ProtobufCBinaryData){.len = 16, .data = digest};
    assert_int_equal(
        machine_fixture_apply(f, META_COMPLETE_UPLOAD, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__OUTCOME_OK);
    for (uint32_t i = 1; i <= 201; i++) {
        struct meta_part_range range = {.bucket_id = f->bucket_id,
                                        .key = SLICE("a"),
                                        .layout_id = message_bytes(id),
                                        .number = i,
                                        .arena = &f->arena};
        uint64_t before = i - 1;

        assert_int_equal(read_part_range(&read, &range), i <= 200 ? RC_OK : RC_NOT_FOUND);
        if (i <= 200) {
            assert_int_equal(range.size, 5 * MIB + 100 + i);
            assert_int_equal(range.offset, before * (5 * MIB + 100) + before * (before + 1) / 2);
        }
    }
}

/* ---- Scans ---- */

/* Repair and audit must see every extent exactly once, whatever holds it, over pages of any size.
 */
static void scan_finds_every_extent_once(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id;
    uint32_t limits[3] = {1, 7, 1000};

    (void)machine_fixture_put(f, "a", 1000);
    (void)machine_fixture_put(f, "b", 1000);
    (void)machine_fixture_copy(f, "a", "a-copy");
    (void)machine_fixture_copy(f, "b", "b-copy");
    (void)machine_fixture_delete(f, "b"); /* its home row holds the extent now */
    (void)put_long(f, 70);
    id = machine_fixture_upload(f, "u");
    make_parts(f, "u", id, 1, 3);
    for (size_t l = 0; l < 3; l++) {
        struct slice cursor = SLICE_EMPTY;
        uint32_t found = 0;
        int pages_read = 0;

        do {
            struct read_context read = {.store = store};
            struct meta_scan call = {.cursor = cursor, .limit = limits[l], .arena = &f->arena};

            assert_int_equal(read_scan(&read, &call), RC_OK);
            found += call.item_count;
            cursor = call.next_cursor;
            pages_read += 1;
            assert_true(pages_read < 500);
        } while (cursor.len > 0);
        assert_int_equal(found, 1 + 1 + 70 + 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bucket_ends_where_the_next_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_page_leaves_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_judgements_are_sent_back, setup, teardown),
        cmocka_unit_test_setup_teardown(peek_agrees_with_unpack, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_from_any_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_at_the_edges, setup, teardown),
        cmocka_unit_test_setup_teardown(list_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(list_uploads, setup, teardown),
        cmocka_unit_test_setup_teardown(part_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(scan_finds_every_extent_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
