/*
 * Recovery: whatever moment the process dies or the power goes, what was answered is there, what
 * was removed stays away, and nothing wrong is given out. Damage to one record hides no other.
 */
#include "tests/unit/datad/fixture.h"

#include "datad/store/inspect.h"
#include "datad/store/segment_format.h"

enum { MODEL_SHARDS = 400, MODEL_PARALLEL = 6 };

enum model_state { MODEL_NONE, MODEL_AMBIGUOUS, MODEL_HELD, MODEL_REMOVED };

struct model_op {
    struct model *model;
    struct shard_writer writer;
    struct shard_delete call;
    uint8_t *bytes;
    uint32_t shard;
    bool busy;
};

/* What the clients know: the oracle of a run. */
struct model {
    struct fixture f;
    enum model_state states[MODEL_SHARDS];
    size_t lengths[MODEL_SHARDS];
    struct model_op ops[MODEL_PARALLEL];
    uint32_t next;
    uint32_t acknowledged;
    bool stop;
};

static void op_start(struct model_op *op);

static void op_write_done(struct shard_writer *writer)
{
    struct model_op *op = CONTAINER_OF(writer, struct model_op, writer);
    struct model *model = op->model;

    if (writer->rc == RC_OK) {
        model->states[op->shard] = MODEL_HELD;
        model->acknowledged += 1;
    }
    mem_free(op->bytes);
    op->bytes = NULL;
    op_start(op);
}

static void op_remove_done(struct shard_delete *call)
{
    struct model_op *op = CONTAINER_OF(call, struct model_op, call);

    if (call->rc == RC_OK) {
        op->model->states[op->shard] = MODEL_REMOVED;
    }
    op_start(op);
}

/* A removal now and then, else a new shard. */
static void op_start(struct model_op *op)
{
    struct model *model = op->model;
    struct fixture *f = &model->f;
    uint32_t victim = (uint32_t)sim_below(f->sim, MODEL_SHARDS);

    op->busy = false;
    if (model->stop || model->next == MODEL_SHARDS) {
        return;
    }
    op->busy = true;
    if (sim_chance(f->sim, 400) && model->states[victim] == MODEL_HELD) {
        op->shard = victim;
        model->states[victim] = MODEL_AMBIGUOUS;
        op->call = (struct shard_delete){
            .disk = 1, .shard = fixture_id(f, victim, 0), .done = op_remove_done};
        f->data->remove(f->data, &op->call);
        return;
    }
    op->shard = model->next;
    model->next += 1;
    model->states[op->shard] = MODEL_AMBIGUOUS;
    model->lengths[op->shard] = sim_below(f->sim, sim_chance(f->sim, 200) ? MIB : 40 * KIB);
    op->writer = fixture_writer(f, 1, fixture_id(f, op->shard, 0), model->lengths[op->shard]);
    op->writer.done = op_write_done;
    op->bytes = mem_alloc_raw(model->lengths[op->shard]);
    fixture_fill(&op->writer.shard, op->bytes, model->lengths[op->shard]);
    f->data->put(f->data, &op->writer, slice_of(op->bytes, model->lengths[op->shard]));
}

static void model_start(struct model *model)
{
    model->stop = false;
    for (uint32_t i = 0; i < MODEL_PARALLEL; i++) {
        model->ops[i].model = model;
        op_start(&model->ops[i]);
    }
}

static bool model_over(void *arg)
{
    const struct model *model = arg;

    if (sim_stopped(model->f.node)) {
        return true;
    }
    for (uint32_t i = 0; i < MODEL_PARALLEL; i++) {
        if (model->ops[i].busy) {
            return false;
        }
    }
    return true;
}

static void model_check(struct model *model, const char *when)
{
    for (uint32_t i = 0; i < model->next; i++) {
        enum rc rc = fixture_read(&model->f, 1, fixture_id(&model->f, i, 0), model->lengths[i]);
        if ((model->states[i] == MODEL_HELD && rc != RC_OK) ||
            (model->states[i] == MODEL_REMOVED && rc != RC_NOT_FOUND)) {
            fail_msg("%s: shard %u (state %d, %zu bytes): %s", when, i, (int)model->states[i],
                     model->lengths[i], rc_name(rc));
        }
        if (rc == RC_OK && model->states[i] == MODEL_AMBIGUOUS) {
            model->states[i] = MODEL_HELD; /* it happened: from now on it must stay so */
        }
    }
}

static void model_run(uint64_t seed, enum sim_crash how, bool lose_index)
{
    struct model *model = mem_alloc(sizeof(*model));
    struct fixture *f = &model->f;

    fixture_init(f, seed, 1);
    for (uint32_t round = 0; round < 6; round++) {
        sim_stop_after(f->node, 1 + sim_below(f->sim, 150));
        model_start(model);
        if (sim_chance(f->sim, 500)) {
            sim_run_for(f->sim, sim_below(f->sim, 3 * SIM_S)); /* house keeping takes part */
        }
        assert_true(sim_run_until(f->sim, model_over, model, 100 * SIM_S));
        sim_stop_after(f->node, 0);
        if (lose_index) {
            sim_crash(f->node, how);
            sim_kv_paths_crash("/d0", how);
            sim_kv_paths_wipe("/d0");
            f->datad = NULL;
            fixture_start(f);
        } else {
            fixture_crash(f, how);
        }
        model_check(model, "after a crash");
        model_check(model, "once more");
    }
    model->stop = true;
    fixture_stop(f);
    fixture_start(f);
    model_check(model, "after an orderly restart");
    fixture_deinit(f);
    mem_free(model);
}

/* A power cut at any file change loses nothing that was answered. */
static void power_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        model_run(seed, SIM_POWER, false);
    }
}

static void kill_anywhere_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed <= 106; seed++) {
        model_run(seed, SIM_KILL, false);
    }
}

/* The index is a table of contents: without it the segments alone tell the same. */
static void index_is_rebuilt_from_segments_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed <= 206; seed++) {
        model_run(seed, SIM_POWER, true);
    }
}

/* A repair whose seal was cut may leave a footer over a torn payload: it must not hide the good,
 * lower attempt that was acknowledged; with the index and without. */
static void torn_higher_attempt_hides_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fixture f;
        struct shard_id id;
        struct shard_writer repair;
        uint8_t *bytes = mem_alloc(100 * KIB);
        fixture_init(&f, 400 + seed, 1);
        id = fixture_id(&f, 1, 0);
        assert_int_equal(fixture_put(&f, 1, id, 100 * KIB), RC_OK);
        repair = fixture_writer(&f, 1, id, 100 * KIB);
        repair.attempt = 1;
        fixture_fill(&id, bytes, 100 * KIB);
        f.data->put(f.data, &repair, slice_of(bytes, 100 * KIB));
        sim_stop_after(f.node, 5); /* four writes, and the power goes during the sync */
        sim_run_for(f.sim, SIM_S);
        assert_true(sim_stopped(f.node));
        fixture_crash(&f, SIM_POWER);
        mem_free(bytes);
        assert_int_equal(fixture_read(&f, 1, id, 100 * KIB), RC_OK);
        fixture_stop(&f);
        sim_kv_paths_wipe("/d0");
        fixture_start(&f);
        assert_int_equal(fixture_read(&f, 1, id, 100 * KIB), RC_OK);
        fixture_deinit(&f);
    }
}

/* An index that fails its checksums is made again instead of being believed or given up on. */
static void corrupt_index_is_made_again(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 11, 1);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 30000), RC_OK);
    }
    assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, 3, 0)), RC_OK);
    fixture_stop(&f);
    sim_kv_fail(sim_kv_paths_at("/d0/data/index"), RC_CORRUPT, 1);
    f.env = sim_env_new(f.node);
    f.options.env = f.env;
    assert_int_equal(datad_open(&f.datad, &f.options, NULL), RC_OK);
    f.data = datad_client(f.datad, f.env);
    assert_string_equal(fixture_status(&f, 1).state, "failed"); /* the damage persists: isolated */
    fixture_stop(&f);
    sim_kv_fail(sim_kv_paths_at("/d0/data/index"), RC_OK, 1);
    fixture_start(&f);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, i, 0), 30000),
                         i == 3 ? RC_NOT_FOUND : RC_OK);
    }
    fixture_deinit(&f);
}

static const char *first_segment(struct fixture *f)
{
    return sim_file_at(f->node, "/d0/data/segments", 0);
}

/* Without the index, a flipped bit in one header or footer costs that shard and no other. */
static void damage_hides_no_neighbour(void **state)
{
    static const uint64_t places[] = {4096 + 20, 4096 + 3000};
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[128];
        fixture_init(&f, 20 + i, 1);
        for (uint32_t n = 0; n < 5; n++) {
            assert_int_equal(fixture_put(&f, 1, fixture_id(&f, n, 0), 20000), RC_OK);
        }
        (void)snprintf(path, sizeof(path), "%s", first_segment(&f));
        assert_true(sim_file_flip(f.node, path, places[i], 3));
        sim_crash(f.node, SIM_POWER);
        sim_kv_paths_crash("/d0", SIM_POWER);
        sim_kv_paths_wipe("/d0");
        f.datad = NULL;
        fixture_start(&f);
        assert_int_equal(fixture_read(&f, 1, fixture_id(&f, 0, 0), 20000), RC_NOT_FOUND);
        for (uint32_t n = 1; n < 5; n++) {
            assert_int_equal(fixture_read(&f, 1, fixture_id(&f, n, 0), 20000), RC_OK);
        }
        fixture_deinit(&f);
    }
}

/* Bit rot in a payload is an error for its block only, is remembered, and is told to repair. */
static void rotten_block_is_found_and_told(void **state)
{
    struct fixture f;
    struct shard_id id;
    struct datad_bad bad[4];

    (void)state;
    fixture_init(&f, 30, 1);
    id = fixture_id(&f, 1, 4);
    assert_int_equal(fixture_put(&f, 1, id, 200 * KIB), RC_OK);
    assert_true(sim_file_flip(f.node, first_segment(&f), 4096 + 4096 + 70 * KIB, 0));
    assert_int_equal(fixture_read_range(&f, 1, id, 0, 1000), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 128 * KIB, 72 * KIB), RC_OK);
    assert_int_equal(fixture_read_range(&f, 1, id, 100 * KIB, 10), RC_CORRUPT);
    assert_int_equal(fixture_read(&f, 1, id, 200 * KIB), RC_CORRUPT);
    assert_int_equal(fixture_status(&f, 1).bad_blocks, 2);
    assert_int_equal(fixture_stat(&f, 1, id).rc, RC_CORRUPT);
    assert_int_equal(datad_take_bad(f.datad, bad, 4), 1);
    assert_int_equal(bad[0].disk, 1);
    assert_memory_equal(&bad[0].shard, &id, sizeof(id));
    assert_int_equal(datad_take_bad(f.datad, bad, 4), 0);
    fixture_deinit(&f);
}

/* What `kist admin segment verify` says of a directory: nothing wrong, or how much. */
static void inspector_counts_what_is_bad(void **state)
{
    struct fixture f;
    struct inspect inspect;
    struct inspect again;

    (void)state;
    fixture_init(&f, 31, 1);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, 0), 250 * KIB), RC_OK);
    }
    assert_int_equal(fixture_remove(&f, 1, fixture_id(&f, 3, 0)), RC_OK);
    inspect = (struct inspect){.env = f.env, .verify = true};
    again = inspect;
    assert_int_equal(inspect_directory(&inspect, "/d0", NULL), RC_OK);
    assert_int_equal(inspect.result.segments, 2);
    assert_int_equal(inspect.result.shards, 30);
    assert_int_equal(inspect.result.deletes, 1);
    assert_true(sim_file_flip(f.node, first_segment(&f), 8192 + 100, 0));
    assert_int_equal(inspect_directory(&again, "/d0/data/segments", NULL), RC_CORRUPT);
    assert_int_equal(again.result.bad_shards, 1);
    fixture_deinit(&f);
}

/* A segment that starts with a header from another life of the disk has none of our shards. */
static void foreign_segment_never_passes(void **state)
{
    struct segment_identity ours = {.generation = 7};
    struct segment_identity older = {.generation = 6};
    struct shard_header fields = {.reserved_bytes = 100};
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);

    (void)state;
    memset(ours.uuid, 1, sizeof(ours.uuid));
    memset(older.uuid, 1, sizeof(older.uuid));
    shard_header_encode(block, &ours, 8192, &fields, SLICE("k"));
    assert_int_equal(segment_block_check(block, &ours, 8192), BLOCK_SHARD);
    assert_int_equal(segment_block_check(block, &ours, 4096), BLOCK_OTHER);
    assert_int_equal(segment_block_check(block, &older, 8192), BLOCK_OTHER);
    older.generation = 7;
    older.uuid[15] = 2;
    assert_int_equal(segment_block_check(block, &older, 8192), BLOCK_OTHER);
    block[4000] ^= 1;
    assert_int_equal(segment_block_check(block, &ours, 8192), BLOCK_OTHER);
    mem_free(block);
}

/* Any number of flipped bits anywhere, and no index: shards are whole, or absent, or said to be
 * corrupt. */
static void random_damage_gives_no_wrong_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++) {
        struct fixture f;
        uint32_t whole = 0;
        char path[128];
        fixture_init(&f, 300 + seed, 1);
        for (uint32_t i = 0; i < 40; i++) {
            assert_int_equal(fixture_put(&f, 1, fixture_id(&f, i, i % 3), i * 3331), RC_OK);
        }
        fixture_stop(&f);
        (void)snprintf(path, sizeof(path), "%s", first_segment(&f));
        for (uint32_t i = 0; i < seed * 2; i++) {
            uint64_t at = 4096 + sim_below(f.sim, 3 * MIB);
            (void)sim_file_flip(f.node, path, at, (unsigned)sim_below(f.sim, 8));
        }
        sim_kv_paths_wipe("/d0");
        fixture_start(&f);
        for (uint32_t i = 0; i < 40; i++) {
            enum rc rc = fixture_read(&f, 1, fixture_id(&f, i, i % 3), i * 3331);
            assert_true(rc == RC_OK || rc == RC_NOT_FOUND || rc == RC_CORRUPT);
            whole += rc == RC_OK ? 1 : 0;
        }
        assert_true(whole + seed * 2 >= 40); /* a bit costs one shard at most */
        fixture_deinit(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_cut_anywhere_loses_nothing),
        cmocka_unit_test(kill_anywhere_loses_nothing),
        cmocka_unit_test(index_is_rebuilt_from_segments_alone),
        cmocka_unit_test(torn_higher_attempt_hides_nothing),
        cmocka_unit_test(corrupt_index_is_made_again),
        cmocka_unit_test(damage_hides_no_neighbour),
        cmocka_unit_test(rotten_block_is_found_and_told),
        cmocka_unit_test(inspector_counts_what_is_bad),
        cmocka_unit_test(foreign_segment_never_passes),
        cmocka_unit_test(random_damage_gives_no_wrong_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
