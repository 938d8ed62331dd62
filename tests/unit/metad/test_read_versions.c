/* Versions by name and lists of versions: what S3 clients of versioned buckets see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/client/version_id.h"
#include "metad/service/read.h"
#include "tests/lib/fixture_machine.h"

enum { ENABLED = 1, SUSPENDED = 2 };

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

static void put(struct machine_fixture *f, const char *key, const char *body)
{
    f->now_ns += SIM_S;
    assert_int_equal(machine_fixture_put_inline(f, key, body), KIST__OUTCOME__OUTCOME_OK);
}

static void drop(struct machine_fixture *f, const char *key)
{
    f->now_ns += SIM_S;
    assert_int_equal(machine_fixture_delete(f, key), KIST__OUTCOME__OUTCOME_OK);
}

/* ---- By name ---- */

static struct meta_get get(struct machine_fixture *f, const char *key, struct slice version,
                           bool want_body)
{
    struct read_context read = {.store = store};
    struct meta_get call = {.bucket_id = f->bucket_id,
                            .generation = f->generation,
                            .key = slice_str(key),
                            .version = version,
                            .want_body = want_body,
                            .arena = &f->arena};

    assert_int_equal(read_get(&read, &call), RC_OK);
    return call;
}

static struct slice id_of(struct machine_fixture *f, const Kist__Record *record)
{
    uint8_t id[VERSION_ID_BYTES];

    version_id_pack(id, record->stamp, record->tie);
    return arena_copy(&f->arena, slice_of(id, sizeof(id)));
}

/* "body", "body" and '*' when it is the newest; "-" for a marker; "" for nothing. */
static const char *seen(struct machine_fixture *f, const char *key, struct slice version)
{
    struct meta_get call = get(f, key, version, true);
    struct slice text = SLICE("");

    if (call.record != NULL || call.marker != NULL) {
        text = arena_printf(&f->arena, "%.*s%s%s", (int)call.body.len,
                            call.body.len > 0 ? call.body.data : "", call.marker != NULL ? "-" : "",
                            call.is_current ? "*" : "");
    }
    read_get_release(&call);
    return arena_printf(&f->arena, "%.*s%c", (int)text.len, text.len > 0 ? text.data : "", 0).data;
}

/* A GET must tell apart what never was, what a marker hides, and what lies below it. */
static void versions_by_name(void **state)
{
    struct machine_fixture *f = *state;
    struct slice first;
    struct slice second;
    struct slice marker;

    put(f, "k", "old");
    machine_fixture_versioning(f, ENABLED);
    put(f, "k", "1");
    first = id_of(f, get(f, "k", SLICE_EMPTY, false).record);
    put(f, "k", "2");
    second = id_of(f, get(f, "k", SLICE_EMPTY, false).record);
    assert_string_equal(seen(f, "k", SLICE_EMPTY), "2*");
    assert_string_equal(seen(f, "k", first), "1");
    assert_string_equal(seen(f, "k", second), "2*");
    assert_string_equal(seen(f, "k", SLICE("null")), "old");
    drop(f, "k");
    assert_string_equal(seen(f, "k", SLICE_EMPTY), "-*");
    marker = id_of(f, get(f, "k", SLICE_EMPTY, false).marker);
    assert_string_equal(seen(f, "k", marker), "-*");
    assert_string_equal(seen(f, "k", second), "2");
    put(f, "k", "3");
    assert_string_equal(seen(f, "k", marker), "-");
    assert_string_equal(seen(f, "k", SLICE_EMPTY), "3*");
    assert_string_equal(seen(f, "k", SLICE("twelve bytes")), "");
    assert_string_equal(seen(f, "k", SLICE("x")), "");
    assert_string_equal(seen(f, "nothing", SLICE_EMPTY), "");
    assert_string_equal(seen(f, "nothing", SLICE("null")), "");
}

/* A suspended bucket has one null version a key, wherever it lies, marker or not. */
static void the_null_version(void **state)
{
    struct machine_fixture *f = *state;

    put(f, "k", "plain");
    assert_string_equal(seen(f, "k", SLICE("null")), "plain*");
    machine_fixture_versioning(f, ENABLED);
    put(f, "k", "1");
    machine_fixture_versioning(f, SUSPENDED);
    put(f, "k", "null again");
    assert_string_equal(seen(f, "k", SLICE("null")), "null again*");
    drop(f, "k");
    assert_string_equal(seen(f, "k", SLICE("null")), "-*");
    (void)machine_fixture_delete_version(f, "k", SLICE("null"), false);
    assert_string_equal(seen(f, "k", SLICE("null")), "");
    assert_string_equal(seen(f, "k", SLICE_EMPTY), "1*");
}

/* 404s of unversioned buckets are a hot path of sync tools: they must stay one lookup. */
static void a_plain_miss_needs_no_second_look(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store, .cached_only = true, .budget = 0};
    struct meta_get call = {.bucket_id = f->bucket_id,
                            .generation = f->generation,
                            .key = SLICE("k"),
                            .arena = &f->arena};

    assert_int_equal(read_get(&read, &call), RC_OK);
    assert_null(call.record);
    put(f, "k", "x");
    machine_fixture_versioning(f, ENABLED);
    call.generation = f->generation;
    assert_int_equal(read_get(&read, &call), RC_OK); /* and a hit stays one, in every bucket */
    assert_true(call.is_current);
    call.key = SLICE("other");
    assert_int_equal(read_get(&read, &call), RC_AGAIN);
    read_get_release(&call);
}

/* ---- Lists ---- */

static struct meta_list_versions list(struct machine_fixture *f, const char *prefix,
                                      const char *delimiter, uint32_t limit)
{
    struct read_context read = {.store = store};
    struct meta_list_versions call = {.bucket_id = f->bucket_id,
                                      .generation = f->generation,
                                      .prefix = slice_str(prefix),
                                      .delimiter = slice_str(delimiter),
                                      .limit = limit,
                                      .arena = &f->arena};

    assert_int_equal(read_list_versions(&read, &call), RC_OK);
    return call;
}

static void list_again(struct meta_list_versions *call)
{
    struct read_context read = {.store = store};

    assert_int_equal(read_list_versions(&read, call), RC_OK);
}

/* The page after the last entry, as a gateway asks for it. */
static void list_on(struct machine_fixture *f, struct meta_list_versions *call)
{
    const struct meta_version_entry *last = &call->entries[call->entry_count - 1];

    call->after = last->name;
    call->after_prefix = last->record == NULL;
    call->after_version = SLICE_EMPTY;
    if (last->record != NULL) {
        call->after_version = last->record->null_version ? SLICE("null") : id_of(f, last->record);
    }
    list_again(call);
}

/* "k2 k1 k0": key and size of the body; '-' for a marker, '!' for the latest, '~' for null, '*' for
 * a common prefix. */
static const char *shown(struct machine_fixture *f, const struct meta_list_versions *call)
{
    struct buffer text;
    const char *copy;

    buffer_init(&text);
    for (uint32_t i = 0; i < call->entry_count; i++) {
        const struct meta_version_entry *it = &call->entries[i];

        buffer_printf(&text, "%s%.*s", i > 0 ? " " : "", (int)it->name.len, it->name.data);
        if (it->record == NULL) {
            buffer_printf(&text, "*");
        } else if (it->record->delete_marker) {
            buffer_printf(&text, "-");
        } else {
            buffer_printf(&text, "%u", (unsigned)it->record->size);
        }
        buffer_printf(&text, "%s%s", it->is_latest ? "!" : "",
                      it->record != NULL && it->record->null_version ? "~" : "");
    }
    buffer_printf(&text, "%s%c", call->truncated ? " ..." : "", 0);
    copy = arena_copy(&f->arena, buffer_slice(&text)).data;
    buffer_deinit(&text);
    return copy;
}

static void several_keys(struct machine_fixture *f)
{
    put(f, "a", "x");
    machine_fixture_versioning(f, ENABLED);
    put(f, "a", "xx");
    put(f, "b/1", "xxx");
    put(f, "b/2", "xx");
    drop(f, "b/2");
    put(f, "c", "x");
    put(f, "c", "xx");
    drop(f, "c");
    drop(f, "d");
    put(f, "e", "x");
}

struct page_row {
    const char *prefix, *delimiter;
    uint32_t limit;
    const char *pages[8];
};

/* ListObjectVersions: newest first, exact pages, prefixes once, markers among the rest. */
static void pages(void **state)
{
    static const struct page_row rows[] = {
        {"",   "",  100, {"a2! a1~ b/13! b/2-! b/22 c-! c2 c1 d-! e1!"}                     },
        {"",   "/", 100, {"a2! a1~ b/* c-! c2 c1 d-! e1!"}                                  },
        {"",   "",  3,   {"a2! a1~ b/13! ...", "b/2-! b/22 c-! ...", "c2 c1 d-! ...", "e1!"}},
        {"",   "",  5,   {"a2! a1~ b/13! b/2-! b/22 ...", "c-! c2 c1 d-! e1!"}              },
        {"",   "/", 2,   {"a2! a1~ ...", "b/* c-! ...", "c2 c1 ...", "d-! e1!"}             },
        {"",
         "/",       1,
         {"a2! ...", "a1~ ...", "b/* ...", "c-! ...", "c2 ...", "c1 ...", "d-! ...", "e1!"} },
        {"b/", "/", 100, {"b/13! b/2-! b/22"}                                               },
        {"b",  "/", 100, {"b/*"}                                                            },
        {"c",  "",  2,   {"c-! c2 ...", "c1"}                                               },
        {"zz", "",  2,   {""}                                                               },
    };
    struct machine_fixture *f = *state;

    several_keys(f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct meta_list_versions call = list(f, rows[i].prefix, rows[i].delimiter, rows[i].limit);

        for (size_t page = 0; page < 8 && rows[i].pages[page] != NULL; page++) {
            assert_string_equal(shown(f, &call), rows[i].pages[page]);
            if (call.truncated) {
                list_on(f, &call);
            }
        }
        assert_false(call.truncated);
    }
}

/* Clients that empty a bucket delete between two pages: nothing may be left out, and what became
 * the latest meanwhile says so. */
static void versions_go_between_pages(void **state)
{
    struct machine_fixture *f = *state;
    struct meta_list_versions call;

    put(f, "k", "x");
    machine_fixture_versioning(f, ENABLED);
    put(f, "k", "xx");
    put(f, "k", "xxx");
    put(f, "k", "xxxx");
    call = list(f, "", "", 2);
    assert_string_equal(shown(f, &call), "k4! k3 ...");
    (void)machine_fixture_delete_version(f, "k", id_of(f, call.entries[0].record), false);
    list_on(f, &call); /* after k3, which is there and newer */
    assert_string_equal(shown(f, &call), "k2 k1~");
    call = list(f, "", "", 1);
    assert_string_equal(shown(f, &call), "k3! ...");
    (void)machine_fixture_delete_version(f, "k", id_of(f, call.entries[0].record), false);
    list_on(f, &call); /* after k3, which is gone: k2 is the current version now */
    assert_string_equal(shown(f, &call), "k2! ...");
    machine_fixture_versioning(f, SUSPENDED);
    put(f, "k", "xxxxx");
    call = list(f, "", "", 1);
    assert_string_equal(shown(f, &call), "k5!~ ...");
    (void)machine_fixture_delete_version(f, "k", SLICE("null"), false);
    list_on(f, &call); /* "null" is nowhere: the key begins again */
    assert_string_equal(shown(f, &call), "k2!");
}

/* Key markers without a version: S3 goes on behind all versions of that key. */
static void after_a_key(void **state)
{
    struct machine_fixture *f = *state;
    struct meta_list_versions call;

    several_keys(f);
    call = list(f, "", "", 2);
    call.after = SLICE("a");
    list_again(&call);
    assert_string_equal(shown(f, &call), "b/13! b/2-! ...");
    call.after = SLICE("b");
    list_again(&call);
    assert_string_equal(shown(f, &call), "b/13! b/2-! ...");
    call.after = SLICE("c");
    list_again(&call);
    assert_string_equal(shown(f, &call), "d-! e1!");
    call.after = SLICE("e");
    list_again(&call);
    assert_string_equal(shown(f, &call), "");
    call.prefix = SLICE("c");
    call.after = SLICE("a");
    call.after_version = SLICE("null");
    list_again(&call);
    assert_string_equal(shown(f, &call), "c-! c2 ...");
}

/* Most buckets are never versioned: their versions are their objects, all of them null. */
static void an_unversioned_bucket(void **state)
{
    struct machine_fixture *f = *state;
    struct meta_list_versions call;

    put(f, "a", "x");
    put(f, "b", "xx");
    drop(f, "a");
    put(f, "c", "x");
    call = list(f, "", "", 1);
    assert_string_equal(shown(f, &call), "b2!~ ...");
    list_on(f, &call);
    assert_string_equal(shown(f, &call), "c1!~");
}

/* Zero bytes are escaped in one family and not in the other: the merge must not mind. */
static void order_of_strange_keys(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    struct meta_list_versions call = {.limit = 100, .arena = &f->arena};
    static const struct slice keys[] = {
        {.data = "a",        .len = 1},
        {.data = "a\0",      .len = 2},
        {.data = "a\0\x01",  .len = 3},
        {.data = "a\0\xff",  .len = 3},
        {.data = "a\x01",    .len = 2},
        {.data = "\xff\xff", .len = 2},
    };

    machine_fixture_versioning(f, ENABLED);
    for (size_t i = 0; i < ARRAY_LEN(keys) * 2; i++) {
        Kist__PutObject message = KIST__PUT_OBJECT__INIT;

        message.bucket_id = f->bucket_id;
        message.generation = f->generation;
        message.key = message_field(keys[i / 2]);
        message.record = machine_fixture_record(f, 0);
        assert_int_equal(
            machine_fixture_apply(f, META_PUT_OBJECT, &message.base, SLICE_EMPTY)->outcome,
            KIST__OUTCOME__OUTCOME_OK);
    }
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    assert_int_equal(read_list_versions(&read, &call), RC_OK);
    assert_int_equal(call.entry_count, 12);
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(slice_eq(call.entries[i].name, keys[i / 2]));
        assert_int_equal(call.entries[i].is_latest, i % 2 == 0);
    }
    call.delimiter = slice_of("\0", 1);
    assert_int_equal(read_list_versions(&read, &call), RC_OK);
    assert_int_equal(call.entry_count, 2 + 1 + 2 + 2);
}

/* A prefix with many versions costs two seeks: it must not hold up the loop. */
static void a_prefix_costs_the_same_whatever_it_holds(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store, .cached_only = true};
    struct meta_list_versions call = {.delimiter = SLICE("/"), .limit = 10, .arena = &f->arena};

    machine_fixture_versioning(f, ENABLED);
    for (int i = 0; i < 300; i++) {
        put(f, i % 2 == 0 ? "dir/a" : "dir/b", "x");
    }
    put(f, "e", "x");
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    read.budget = 2 * READ_SEEK_COST + 2;
    assert_int_equal(read_list_versions(&read, &call), RC_OK);
    assert_string_equal(shown(f, &call), "dir/* e1!");
    call.delimiter = SLICE_EMPTY;
    call.limit = 200;
    read.budget = 20;
    assert_int_equal(read_list_versions(&read, &call), RC_AGAIN);
    assert_null(read.snapshot);
}

static uint64_t moving_sequence(struct kv *kv)
{
    static uint64_t next;

    (void)kv;
    return ++next;
}

/* Under steady writes no two looks fit together: readers must get on by a snapshot, and give it
 * back. */
static void looks_that_never_fit_together(void **state)
{
    struct machine_fixture *f = *state;
    const struct kv_ops *ops = store->kv->ops;
    struct kv_ops moving = *ops;
    struct meta_list_versions call;

    several_keys(f);
    moving.sequence = moving_sequence;
    store->kv->ops = &moving;
    call = list(f, "", "/", 100);
    assert_string_equal(shown(f, &call), "a2! a1~ b/* c-! c2 c1 d-! e1!");
    assert_string_equal(seen(f, "c", SLICE_EMPTY), "-*");
    assert_string_equal(seen(f, "nothing", SLICE_EMPTY), "");
    assert_string_equal(seen(f, "a", SLICE("null")), "x");
    assert_string_equal(seen(f, "b/1", SLICE("null")), "");
    store->kv->ops = ops;
}

/* Judged by an old generation: versioning may be on since. */
static void stale_judgements_are_sent_back(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    struct meta_list_versions call = {
        .bucket_id = f->bucket_id, .generation = f->generation, .limit = 1, .arena = &f->arena};

    machine_fixture_versioning(f, ENABLED);
    assert_int_equal(read_list_versions(&read, &call), RC_STALE);
}

/* ---- What keeps older versions readable and repaired ---- */

/* Repair and audit must see the extents of older versions exactly once; datads delete the rest. */
static void scan_sees_history(void **state)
{
    struct machine_fixture *f = *state;
    struct slice cursor = SLICE_EMPTY;
    uint32_t found = 0;

    machine_fixture_versioning(f, ENABLED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(machine_fixture_put(f, "k", 1000), KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(machine_fixture_copy(f, "k", "copy"), KIST__OUTCOME__OUTCOME_OK);
    }
    drop(f, "k");
    (void)machine_fixture_delete_version(
        f, "k",
        id_of(f, machine_fixture_first(f, FAMILY_HISTORY, KIND_HISTORY, &kist__record__descriptor,
                                       NULL)),
        false);
    do {
        struct read_context read = {.store = store};
        struct meta_scan call = {.cursor = cursor, .limit = 1, .arena = &f->arena};

        assert_int_equal(read_scan(&read, &call), RC_OK);
        found += call.item_count;
        cursor = call.next_cursor;
    } while (cursor.len > 0);
    assert_int_equal(found, 3);
}

/* A copy's reader asks the home for the pieces, also when the owner is an older version there. */
static void pieces_of_an_older_version(void **state)
{
    struct machine_fixture *f = *state;
    struct read_context read = {.store = store};
    struct meta_pieces call = {.key = SLICE("k"), .limit = 10, .arena = &f->arena};
    const Kist__Record *record;

    machine_fixture_versioning(f, ENABLED);
    assert_int_equal(machine_fixture_put(f, "k", 1000), KIST__OUTCOME__OUTCOME_OK);
    record = machine_fixture_current(f, "k");
    assert_int_equal(machine_fixture_put(f, "k", 2000), KIST__OUTCOME__OUTCOME_OK);
    call.bucket_id = f->bucket_id;
    call.layout_id = message_bytes(record->layout_id);
    assert_int_equal(read_pieces(&read, &call), RC_OK);
    assert_int_equal(call.piece_count, 1);
    assert_int_equal(call.pieces[0]->length, 1000);
    call.layout_id = message_bytes(machine_fixture_id(f));
    assert_int_equal(read_pieces(&read, &call), RC_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(the_null_version, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plain_miss_needs_no_second_look, setup, teardown),
        cmocka_unit_test_setup_teardown(pages, setup, teardown),
        cmocka_unit_test_setup_teardown(versions_go_between_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_key, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unversioned_bucket, setup, teardown),
        cmocka_unit_test_setup_teardown(order_of_strange_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_costs_the_same_whatever_it_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(looks_that_never_fit_together, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_judgements_are_sent_back, setup, teardown),
        cmocka_unit_test_setup_teardown(scan_sees_history, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_of_an_older_version, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
