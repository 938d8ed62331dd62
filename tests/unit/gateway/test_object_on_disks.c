/*
 * write_path and read_path over real datads in the simulated world: what the fakes of the other
 * tests promise is what the datads do.
 */
#include "tests/unit/datad/fixture.h"

#include "gateway/object/read_path.h"
#include "gateway/object/write_path.h"
#include "tests/unit/gateway/object_world.h"

/* What a crashed program held is not freed.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
 */

struct stand {
    struct fixture datads;
    struct object_world world;
    struct sigv4_result auth;
    struct payload payload;
    struct write_path write;
    struct read_path read;
    Kist__Record record;
    const char *bytes;
};

static struct stand *stand_of(struct task *task)
{
    struct object_world *world = CONTAINER_OF(task, struct object_world, task);

    return CONTAINER_OF(world, struct stand, world);
}

static void task_ended(struct task *task)
{
    stand_of(task)->world.done = true;
}

static enum step_result step_store(struct task *task)
{
    return write_path_start(&stand_of(task)->write, task);
}

static enum step_result step_read(struct task *task)
{
    return read_path_start(&stand_of(task)->read, task);
}

static const struct step store_steps[] = {
    {"store", step_store},
    {0}
};
static const struct step read_steps[] = {
    {"read", step_read},
    {0}
};

static void on_begin(struct read_path *path)
{
    (void)path;
}

static bool is_done(void *arg)
{
    struct stand *s = arg;

    (void)fake_http_run(&s->world.http);
    return s->world.done;
}

static enum rc wait_for(struct stand *s)
{
    assert_true(s->world.done || sim_run_until(s->datads.sim, is_done, s, 600 * SIM_S));
    return s->world.task.error.rc;
}

/* After a start of the datads. */
static void attach(struct stand *s)
{
    s->world.env = s->datads.env;
    s->world.gateway.env = s->datads.env;
    s->world.gateway.data = s->datads.data;
    s->world.http.exchange.env = s->datads.env;
}

static struct stand *stand_new(uint64_t seed)
{
    static const struct world_group groups[] = {
        {2, 2, 1}
    };
    struct stand *s = mem_alloc(sizeof(*s));

    fixture_init(&s->datads, seed, 4);
    fake_http_init(&s->world.http);
    arena_init(&s->world.arena);
    s->world.view = world_view(groups, 1);
    s->world.config = (struct gateway_config){.inline_bytes_max = LIMIT_INLINE_BYTES,
                                              .replica_bytes_max = LIMIT_REPLICA_BYTES,
                                              .extent_bytes_max = 1024ULL * KIB,
                                              .hedge_ms = 500,
                                              .incarnation = 1,
                                              .cluster_epoch = 1};
    s->world.gateway.config = &s->world.config;
    s->world.gateway.memory.budget_bytes = LIMIT_STREAM_MEMORY_BYTES;
    list_init(&s->world.gateway.memory.waiting);
    attach(s);
    return s;
}

static void stand_free(struct stand *s)
{
    assert_int_equal(s->world.gateway.memory.used_bytes, 0);
    view_unref(s->world.view);
    arena_deinit(&s->world.arena);
    fake_http_deinit(&s->world.http);
    fixture_deinit(&s->datads);
    mem_free(s);
}

static enum rc put(struct stand *s, size_t len, bool broken)
{
    struct payload_options options = {.auth = &s->auth, .length_max = 1ULL << 40};
    struct http_request *request = &s->world.http.exchange.request;
    const char *text;

    s->bytes = world_bytes(&s->world, len);
    s->world.http.body = slice_of(s->bytes, broken ? len - 1 : len);
    s->world.http.given = 0;
    s->world.http.body_at = 0;
    s->world.http.cut = broken;
    s->world.done = false;
    request->has_length = true;
    request->content_length = len;
    s->write = (struct write_path){.gateway = &s->world.gateway,
                                   .view = s->world.view,
                                   .payload = &s->payload,
                                   .arena = &s->world.arena,
                                   .bucket_id = 9,
                                   .key = SLICE("some/key"),
                                   .layout = gateway_new_id(&s->world.gateway)};
    assert_int_equal(payload_init(&s->payload, &s->world.http.exchange, &options, &text), S3_OK);
    task_start(&s->world.task, store_steps, task_ended);
    (void)wait_for(s);
    payload_deinit(&s->payload);
    s->world.http.cut = false;
    kist__record__init(&s->record);
    s->record.size = len;
    s->record.pieces = s->write.pieces;
    s->record.n_pieces = s->write.piece_count;
    s->record.piece_count = (uint32_t)s->write.piece_count;
    return s->world.task.error.rc;
}

static enum rc get(struct stand *s, uint64_t offset, uint64_t length)
{
    s->world.done = false;
    buffer_clear(&s->world.http.reply);
    s->read = (struct read_path){.gateway = &s->world.gateway,
                                 .view = s->world.view,
                                 .arena = &s->world.arena,
                                 .bucket_id = 9,
                                 .key = SLICE("some/key"),
                                 .record = &s->record,
                                 .offset = offset,
                                 .length = length,
                                 .http = &s->world.http.exchange,
                                 .begin = on_begin};
    task_start(&s->world.task, read_steps, task_ended);
    if (wait_for(s) == RC_OK) {
        assert_int_equal(s->world.http.reply.len, length);
        assert_memory_equal(s->world.http.reply.data, s->bytes + offset, length);
    }
    return s->world.task.error.rc;
}

static const size_t sizes[] = {1,
                               20000,
                               128ULL * KIB,
                               128ULL * KIB + 1,
                               256ULL * KIB - 1,
                               256ULL * KIB,
                               1048577,
                               3ULL * 1048576 + 4097};

/* Every layout goes to disk and comes back, whole and in part, also after kill -9. */
static void round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct stand *s = stand_new(i + 1);

        assert_int_equal(put(s, sizes[i], false), RC_OK);
        for (int start = 0; start < 2; start++) {
            assert_int_equal(get(s, 0, sizes[i]), RC_OK);
            assert_int_equal(get(s, sizes[i] / 2, sizes[i] - sizes[i] / 2), RC_OK);
            assert_int_equal(get(s, sizes[i] / 3, 1), RC_OK);
            if (start == 0) {
                fixture_crash(&s->datads, SIM_POWER);
                attach(s);
            }
        }
        stand_free(s);
    }
}

/* One directory lost and bits flipped in another: every object still reads correctly. */
static void damaged_disks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct stand *s = stand_new(i + 20);
        uint32_t flipped = 0;

        assert_int_equal(put(s, sizes[i], false), RC_OK);
        for (uint32_t n = 0; n < sim_file_count(s->datads.node, "/d1/data"); n++) {
            const char *path = sim_file_at(s->datads.node, "/d1/data", n);
            uint64_t len = sim_file_size(s->datads.node, path);

            for (uint64_t at = 9000; at < len && at < 2000000; at += 50000) {
                flipped += sim_file_flip(s->datads.node, path, at, 3) ? 1 : 0;
            }
        }
        assert_true(flipped > 0);
        sim_disk_faults(s->datads.node, "/d2")->failed = true;
        assert_int_equal(get(s, 0, sizes[i]), RC_OK);
        assert_int_equal(get(s, sizes[i] / 2, 1), RC_OK);
        sim_disk_faults(s->datads.node, "/d2")->failed = false;
        stand_free(s);
    }
}

/* A disk that fails in the middle of a write costs its shard, not the object. */
static void disk_fails_while_writing(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 12; at++) {
        struct stand *s = stand_new(at + 50);
        size_t len = 3ULL * 1048576;

        sim_disk_faults(s->datads.node, "/d3")->write_error_ppm = (uint32_t)(at * 90000);
        assert_int_equal(put(s, len, false), RC_OK);
        sim_disk_faults(s->datads.node, "/d3")->write_error_ppm = 0;
        assert_int_equal(get(s, 0, len), RC_OK);
        stand_free(s);
    }
}

/* A client that hangs up leaves no shard behind, open or sealed. */
static void broken_body_leaves_nothing(void **state)
{
    struct stand *s = stand_new(70);

    (void)state;
    assert_int_equal(put(s, 3ULL * 1048576 + 5, true), RC_INVALID);
    write_path_discard(&s->write);
    for (uint32_t disk = 1; disk <= 4; disk++) {
        assert_int_equal(fixture_status(&s->datads, disk).live_bytes, 0);
    }
    stand_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damaged_disks),
        cmocka_unit_test(disk_fails_while_writing),
        cmocka_unit_test(broken_body_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
