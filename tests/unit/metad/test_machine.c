/* The state machine around the commands: repeats, deadlines, stamps, restarts, copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_machine.h"
#include "tests/lib/sim_kv_paths.h"

static struct machine_fixture fixture;

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

static struct slice mint_entry(struct machine_fixture *f)
{
    Kist__Mint call = KIST__MINT__INIT;

    call.name = field_of("n");
    call.count = 1;
    return machine_fixture_entry(f, META_MINT, &call.base, SLICE_EMPTY);
}

/* A retry after a lost reply gets the first answer and changes nothing. */
static void a_repeat_gets_the_first_answer(void **state)
{
    struct machine_fixture *f = *state;
    struct slice entry;
    const Kist__Reply *first;
    const Kist__Reply *again;

    f->deadline_ns = f->now_ns + 30 * SIM_S;
    entry = mint_entry(f);
    first = machine_fixture_apply_raw(f, entry);
    again = machine_fixture_apply_raw(f, entry);
    assert_int_equal(again->first, first->first);
    assert_int_equal(again->stamp, first->stamp);
    assert_int_equal(machine_fixture_apply_raw(f, mint_entry(f))->first, first->first + 1);
}

/* A write whose caller was told "unknown" must not come true minutes later. */
static void nothing_is_applied_past_its_deadline(void **state)
{
    struct machine_fixture *f = *state;

    f->deadline_ns = f->now_ns + 30 * SIM_S;
    f->now_ns += 31 * SIM_S;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__EXPIRED);
    assert_null(machine_fixture_current(f, "a"));
}

/* Stamps order versions: they rise also when a leader's clock stands still or goes back. */
static void stamps_rise_whatever_the_clock_says(void **state)
{
    struct machine_fixture *f = *state;
    uint64_t before;

    (void)machine_fixture_put_inline(f, "a", "1");
    before = machine_fixture_current(f, "a")->stamp;
    f->now_ns -= 3600 * SIM_S;
    (void)machine_fixture_put_inline(f, "a", "2");
    assert_int_equal(machine_fixture_current(f, "a")->stamp, before + 1);
}

/* What this release does not understand it must not skip: it would diverge from its peers. */
static void unknown_commands_stop_the_replica(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Mint call = KIST__MINT__INIT;
    char *bytes;
    struct slice entry;

    call.name = field_of("n");
    call.count = 1;
    assert_null(machine_fixture_apply(f, (enum meta_command)1000, &call.base, SLICE_EMPTY));
    assert_int_equal(f->error.rc, RC_UNSUPPORTED);
    entry = mint_entry(f);
    bytes = arena_alloc(&f->arena, entry.len);
    memcpy(bytes, entry.data, entry.len);
    bytes[entry.len - 1] ^= 1;
    assert_null(machine_fixture_apply_raw(f, slice_of(bytes, entry.len)));
    assert_int_equal(f->error.rc, RC_CORRUPT);
    assert_null(machine_fixture_apply_raw(f, slice_of(entry.data, entry.len - 1)));
    assert_int_equal(f->error.rc, RC_CORRUPT);
}

/* A field of a later release, also deep inside, is a command of a later release. */
static void unknown_fields_stop_the_replica(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutUser call = KIST__PUT_USER__INIT;
    Kist__User user = KIST__USER__INIT;
    uint8_t bytes[] = {7};
    ProtobufCMessageUnknownField unknown = {
        .tag = 99, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = bytes};

    user.name = field_of("eve");
    user.base.n_unknown_fields = 1;
    user.base.unknown_fields = &unknown;
    call.user = &user;
    assert_null(machine_fixture_apply(f, META_PUT_USER, &call.base, SLICE_EMPTY));
    assert_int_equal(f->error.rc, RC_UNSUPPORTED);
}

/* After a power cut the state is that of some index, and the log goes on from there to the same
 * state. */
static void replay_after_a_crash_gives_the_same_state(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *machine = machine_state(f->machine);
    struct slice entries[40];
    struct error error;
    uint64_t index;
    uint64_t from;
    uint64_t first = machine->applied(machine) + 1;
    uint32_t digest;

    assert_int_equal(machine->flush(machine, &index, &error), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
        Kist__PutObject put = KIST__PUT_OBJECT__INIT;
        Kist__Piece *piece = machine_fixture_piece(f, 100);
        char *key = arena_alloc(&f->arena, 8);

        (void)snprintf(key, 8, "k%zu", i % 7);
        put.bucket_id = f->bucket_id;
        put.generation = f->generation;
        put.key = field_of(key);
        put.record = machine_fixture_record(f, 100);
        put.record->layout_id = machine_fixture_id(f);
        put.record->pieces = &piece;
        put.record->n_pieces = 1;
        f->now_ns += 1;
        entries[i] = machine_fixture_entry(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY);
        assert_non_null(machine_fixture_apply_raw(f, entries[i]));
        if (i == 20) {
            assert_int_equal(machine->flush(machine, &index, &error), RC_OK);
        }
    }
    digest = machine_fixture_digest(f->machine);
    from = machine_fixture_crash(f);
    assert_true(from >= index);
    assert_true(from < first + ARRAY_LEN(entries) - 1);
    for (uint64_t at = from + 1; at < first + ARRAY_LEN(entries); at++) {
        assert_non_null(machine_fixture_apply_raw(f, entries[at - first]));
    }
    assert_int_equal(machine_fixture_digest(f->machine), digest);
}

/* Barriers and configurations move the index and nothing else. */
static void empty_entries_only_count(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *machine = machine_state(f->machine);
    struct apply_entry entry = {.index = machine->applied(machine) + 1, .term = 2};
    uint32_t digest = machine_fixture_digest(f->machine);
    struct error error;

    assert_true(machine->apply(machine, &entry, 1, &error));
    assert_null(entry.result);
    assert_int_equal(machine->applied(machine), entry.index);
    assert_int_equal(machine_fixture_digest(f->machine), digest);
}

/* A replica that is filled ends with the rows of the one it was filled from, and goes on. */
static void a_copy_is_the_same_state(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *from = machine_state(f->machine);
    struct machine_options options = {
        .env = f->env, .path = "/copy", .kv_open = sim_kv_paths_kv_open};
    struct machine *copy;
    struct state_machine *to;
    struct buffer chunk;
    struct error error;
    struct store *old;
    struct store *current;
    void *handle;
    uint64_t index;
    bool end = false;
    int chunks = 0;

    for (int i = 0; i < 3000; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        (void)machine_fixture_put_inline(f, key, "some bytes of a small object, and some more");
    }
    buffer_init(&chunk);
    assert_int_equal(machine_open(&copy, &options, &error), RC_OK);
    to = machine_state(copy);
    old = machine_store(copy);
    assert_int_equal(from->export_open(from, &handle, &index, &error), RC_OK);
    (void)machine_fixture_put_inline(f, "later", "not in the copy");
    assert_int_equal(to->install_begin(to, &error), RC_OK);
    while (!end) {
        assert_int_equal(from->export_next(from, handle, &chunk, &end, &error), RC_OK);
        assert_int_equal(to->install_chunk(to, buffer_slice(&chunk), &error), RC_OK);
        chunks += 1;
    }
    from->export_close(from, handle);
    assert_true(chunks > 2);
    assert_int_equal(to->install_finish(to, index, &error), RC_OK);
    assert_int_equal(to->applied(to), index);
    current = machine_store(copy);
    assert_int_equal(bucket_table_get(current->buckets, f->bucket_id), f->generation);
    store_unref(current);
    assert_int_not_equal(machine_fixture_digest(copy), machine_fixture_digest(f->machine));
    store_unref(old); /* a reader that was in the old state when it was replaced */
    machine_close(copy);
    /* The copy is what a restart opens. */
    assert_int_equal(machine_open(&copy, &options, &error), RC_OK);
    assert_int_equal(machine_state(copy)->applied(machine_state(copy)), index);
    (void)machine_fixture_delete(f, "later");
    machine_close(copy);
    buffer_deinit(&chunk);
}

/* A power cut between the last chunk and the swap: the next start repeats the swap. */
static void a_staged_copy_survives_a_crash(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *from = machine_state(f->machine);
    struct machine_options options = {
        .env = f->env, .path = "/copy", .kv_open = sim_kv_paths_kv_open};
    struct machine *copy;
    struct state_machine *to;
    struct buffer chunk;
    struct error error;
    void *handle;
    uint64_t index;
    bool end = false;

    (void)machine_fixture_put_inline(f, "a", "bytes");
    buffer_init(&chunk);
    assert_int_equal(machine_open(&copy, &options, &error), RC_OK);
    to = machine_state(copy);
    assert_int_equal(from->export_open(from, &handle, &index, &error), RC_OK);
    assert_int_equal(to->install_begin(to, &error), RC_OK);
    while (!end) {
        assert_int_equal(from->export_next(from, handle, &chunk, &end, &error), RC_OK);
        assert_int_equal(to->install_chunk(to, buffer_slice(&chunk), &error), RC_OK);
    }
    from->export_close(from, handle);
    sim_kv_paths_crash("/copy", SIM_POWER);
    assert_int_equal(machine_open(&copy, &options, &error), RC_OK);
    to = machine_state(copy);
    assert_int_equal(to->applied(to), 0);
    assert_int_equal(to->install_finish(to, index, &error), RC_OK);
    assert_int_equal(to->applied(to), index);
    assert_int_equal(machine_fixture_digest(copy), machine_fixture_digest(f->machine));
    machine_close(copy);
    buffer_deinit(&chunk);
}

/* A damaged chunk must not become state. */
static void a_damaged_chunk_is_refused(void **state)
{
    struct machine_fixture *f = *state;
    struct state_machine *machine = machine_state(f->machine);
    struct buffer chunk;
    struct error error;
    void *handle;
    uint64_t index;
    bool end;
    uint32_t digest = machine_fixture_digest(f->machine);

    buffer_init(&chunk);
    assert_int_equal(machine->export_open(machine, &handle, &index, &error), RC_OK);
    assert_int_equal(machine->export_next(machine, handle, &chunk, &end, &error), RC_OK);
    machine->export_close(machine, handle);
    assert_int_equal(machine->install_begin(machine, &error), RC_OK);
    for (size_t i = 0; i < chunk.len; i += i < 20 ? 1 : 37) {
        chunk.data[i] = (char)(chunk.data[i] ^ 0x10);
        assert_int_equal(machine->install_chunk(machine, buffer_slice(&chunk), &error), RC_CORRUPT);
        chunk.data[i] = (char)(chunk.data[i] ^ 0x10);
    }
    assert_int_equal(machine_fixture_digest(f->machine), digest);
    buffer_deinit(&chunk);
}

/* An error of the store stops the replica; it must not go on with a guess. */
static void a_failing_store_stops_the_replica(void **state)
{
    struct machine_fixture *f = *state;

    sim_kv_fail(sim_kv_paths_at(FIXTURE_PATH "/1"), RC_CORRUPT, 1);
    assert_null(machine_fixture_apply_raw(f, mint_entry(f)));
    assert_int_equal(f->error.rc, RC_CORRUPT);
    sim_kv_fail(sim_kv_paths_at(FIXTURE_PATH "/1"), RC_OK, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_repeat_gets_the_first_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_applied_past_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(stamps_rise_whatever_the_clock_says, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_commands_stop_the_replica, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_fields_stop_the_replica, setup, teardown),
        cmocka_unit_test_setup_teardown(replay_after_a_crash_gives_the_same_state, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_entries_only_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_is_the_same_state, setup, teardown),
        cmocka_unit_test_setup_teardown(a_staged_copy_survives_a_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_chunk_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failing_store_stops_the_replica, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
