/* Bodies to durable extents: every size at the edges of the layouts, and every way it can go wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "common/ec/ec.h"
#include "common/ec/stripe.h"
#include "gateway/object/memory.h"
#include "gateway/object/write_path.h"
#include "tests/unit/gateway/object_world.h"

struct fixture {
    struct object_world world;
    struct sigv4_result auth;
    struct payload payload;
    struct write_path path;
    struct http_header headers[4];
    const char *bytes;
    size_t len;
};

static const struct world_group two_and_two[] = {
    {2, 2, 0}
};
static const struct world_group one_and_one[] = {
    {1, 1, 0}
};
static const struct world_group single[] = {
    {1, 0, 0}
};
static const struct world_group with_fallback[] = {
    {4, 2, 0 },
    {2, 2, 2 },
    {2, 2, 6 },
    {1, 0, 10}
};

static struct fixture *begin(const struct world_group *groups, size_t count, size_t len)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    world_init(&f->world, 7, groups, count);
    f->len = len;
    f->bytes = world_bytes(&f->world, len);
    f->world.http.body = slice_of(f->bytes, len);
    f->world.http.later = true;
    f->world.http.step = 50000;
    f->path = (struct write_path){.gateway = &f->world.gateway,
                                  .view = f->world.view,
                                  .payload = &f->payload,
                                  .arena = &f->world.arena,
                                  .bucket_id = 9,
                                  .key = SLICE("some/key"),
                                  .allow_inline = true};
    memset(f->path.layout.bytes, 0x5a, EXTENT_ID_BYTES);
    return f;
}

static void end(struct fixture *f)
{
    world_settle(&f->world);
    assert_int_equal(f->world.gateway.memory.used_bytes, 0);
    assert_int_equal(f->world.gateway.memory.waiting_count, 0);
    payload_deinit(&f->payload);
    world_deinit(&f->world);
    mem_free(f);
}

static enum step_result step_store(struct task *task)
{
    struct object_world *world = CONTAINER_OF(task, struct object_world, task);
    struct fixture *f = CONTAINER_OF(world, struct fixture, world);

    return write_path_start(&f->path, task);
}

static void task_ended(struct task *task)
{
    CONTAINER_OF(task, struct object_world, task)->done = true;
}

static const struct step steps[] = {
    {"store", step_store},
    {0}
};

static void start(struct fixture *f, bool known_length)
{
    struct http_request *request = &f->world.http.exchange.request;
    struct payload_options options = {.auth = &f->auth, .length_max = 1ULL << 40};
    const char *text;

    request->headers = f->headers;
    request->has_length = known_length;
    request->content_length = f->world.http.repeat ? f->world.http.body_bytes : f->len;
    request->chunked = !known_length;
    assert_int_equal(payload_init(&f->payload, &f->world.http.exchange, &options, &text), S3_OK);
    task_start(&f->world.task, steps, task_ended);
}

static enum rc run(struct fixture *f, bool known_length)
{
    start(f, known_length);
    assert_true(world_run(&f->world, &f->world.done));
    return f->world.task.error.rc;
}

/* ---- What lies on the disks is what was sent ---- */

static struct fake_shard *shard_of(struct fixture *f, const Kist__Extent *extent, uint32_t index)
{
    const Kist__PlacementGroup *group = view_group(f->world.view, extent->pg);
    struct shard_id id = {.index = index};

    assert_non_null(group);
    assert_int_equal(extent->pg_epoch, group->epoch);
    memcpy(id.extent.bytes, extent->id.data, EXTENT_ID_BYTES);
    return fake_data_find(&f->world.data, group->disks[index], &id);
}

static void check_origin(const struct fake_shard *shard)
{
    assert_non_null(shard);
    assert_true(shard->sealed);
    assert_int_equal(shard->origin.home_bucket, 9);
    assert_true(slice_eq_str(shard->origin.home_key, "some/key"));
    assert_int_equal(shard->origin.layout.bytes[0], 0x5a);
    assert_int_equal(shard->origin.group_epoch, 5);
}

static void check_stripe(struct fixture *f, const Kist__Extent *extent, const struct stripe *stripe,
                         const char *want)
{
    uint32_t k = extent->data_shards;
    uint32_t m = extent->parity_shards;
    uint8_t *data[LIMIT_DATA_SHARDS];
    uint8_t *parity[LIMIT_PARITY_SHARDS];
    uint64_t at = 0;

    for (uint32_t i = 0; i < k; i++) {
        struct fake_shard *shard = shard_of(f, extent, i);
        uint64_t len = stripe->data_len > at ? stripe->data_len - at : 0;

        data[i] = (uint8_t *)shard->bytes.data + stripe->shard_at;
        len = len < stripe->unit ? len : stripe->unit;
        assert_memory_equal(data[i], want + at, len);
        for (uint64_t j = len; j < stripe->unit; j++) {
            assert_int_equal(data[i][j], 0);
        }
        at += len;
    }
    for (uint32_t i = 0; i < m; i++) {
        parity[i] = arena_alloc_raw(&f->world.arena, stripe->unit);
    }
    ec_encode(ec_get(k, m), stripe->unit, data, parity);
    for (uint32_t i = 0; i < m; i++) {
        struct fake_shard *shard = shard_of(f, extent, k + i);

        if ((extent->durable >> (k + i) & 1) != 0) {
            assert_memory_equal(shard->bytes.data + stripe->shard_at, parity[i], stripe->unit);
        }
    }
}

static void check_extent(struct fixture *f, const Kist__Extent *extent, const char *want)
{
    struct stripe_geometry geometry = {
        .k = extent->data_shards, .unit = extent->stripe_unit, .length = extent->length};

    for (uint32_t i = 0; i < extent->data_shards + extent->parity_shards; i++) {
        if ((extent->durable >> i & 1) != 0) {
            struct fake_shard *shard = shard_of(f, extent, i);

            check_origin(shard);
            assert_int_equal(shard->bytes.len, stripe_shard_length(&geometry));
            if (f->payload.has_length) {
                assert_int_equal(shard->reserved_bytes, shard->bytes.len);
            }
            if (extent->kind == 1) {
                assert_memory_equal(shard->bytes.data, want, extent->length);
            }
        }
    }
    for (uint64_t i = 0; extent->kind == 2 && i < stripe_count(&geometry); i++) {
        struct stripe stripe = stripe_at(&geometry, i);

        check_stripe(f, extent, &stripe, want + stripe.extent_at);
    }
}

static void check_pieces(struct fixture *f)
{
    uint64_t at = 0;

    assert_int_equal(f->path.size, f->len);
    if (f->path.is_inline) {
        assert_int_equal(f->path.body.len, f->len);
        assert_memory_equal(f->path.body.data, f->bytes, f->len);
        assert_int_equal(f->world.data.shard_count, 0);
        return;
    }
    for (size_t i = 0; i < f->path.piece_count; i++) {
        const Kist__Piece *piece = f->path.pieces[i];

        assert_int_equal(piece->length, piece->extent->length);
        assert_int_equal(piece->extent_offset, 0);
        assert_null(piece->owner);
        check_extent(f, piece->extent, f->bytes + at);
        at += piece->length;
    }
    assert_int_equal(at, f->len);
}

#define KIB    1024ULL
#define STRIPE (256 * KIB)

/* Every edge of the layouts, with and without a length, through one disk, two and four. */
static void sizes(void **state)
{
    static const size_t lengths[] = {0,          1,       16384,      16385,   128 * KIB,
                                     131073,     200000,  STRIPE - 1, STRIPE,  STRIPE + 1,
                                     3 * STRIPE, 1048575, 1048576,    1048577, 3 * 1048576 + 4097};
    static const struct {
        const struct world_group *groups;
        uint32_t k;
        uint32_t shards;
    } rows[] = {
        {single,      1, 1},
        {one_and_one, 1, 2},
        {two_and_two, 2, 4}
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths) * ARRAY_LEN(rows) * 4; i++) {
        size_t len = lengths[i / 4 % ARRAY_LEN(lengths)];
        size_t row = i / 4 / ARRAY_LEN(lengths);
        struct fixture *f = begin(rows[row].groups, 1, len);

        f->world.config.extent_bytes_max = 1048576;
        f->world.http.later = (i & 2) != 0;
        assert_int_equal(run(f, (i & 1) != 0), RC_OK);
        check_pieces(f);
        assert_int_equal(f->path.is_inline, len <= 16384);
        if (len > 16384) {
            const Kist__Extent *extent = f->path.pieces[0]->extent;

            assert_int_equal(extent->kind, len <= 131072 ? 1 : 2);
            assert_int_equal(extent->data_shards, len <= 131072 ? 1 : rows[row].k);
            assert_int_equal(f->path.piece_count, (len + 1048575) / 1048576);
        }
        end(f);
    }
}

/* Parts of an upload have no inline form; an empty one has no bytes at all. */
static void parts_are_never_inline(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 1);

    (void)state;
    f->path.allow_inline = false;
    assert_int_equal(run(f, true), RC_OK);
    assert_false(f->path.is_inline);
    assert_int_equal(f->path.pieces[0]->extent->kind, 1);
    assert_int_equal(f->path.pieces[0]->extent->durable, 7);
    check_pieces(f);
    end(f);
    f = begin(two_and_two, 1, 0);
    f->path.allow_inline = false;
    assert_int_equal(run(f, false), RC_OK);
    assert_true(f->path.is_inline);
    end(f);
}

/* A small PUT that is at hand at once costs no trip through the loop. */
static void inline_is_synchronous(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 8000);

    (void)state;
    f->world.http.later = false;
    start(f, true);
    assert_true(f->world.done);
    check_pieces(f);
    end(f);
}

/* One disk of four may fail at any call: the object is whole, and the record knows what is missing.
 */
static void one_failed_disk(void **state)
{
    (void)state;
    for (uint32_t writes = 0; writes < 6; writes++) {
        struct fixture *f = begin(two_and_two, 1, 3 * STRIPE + 5);

        f->world.data.disks[3].write_rc = RC_IO;
        f->world.data.disks[3].writes_before = writes;
        assert_int_equal(run(f, true), RC_OK);
        check_pieces(f);
        assert_int_equal(f->path.pieces[0]->extent->durable, 7);
        assert_int_equal(f->world.data.shard_count, 3);
        end(f);
    }
}

/* Beyond the policy nothing is answered, and nothing is left behind. */
static void too_many_failed_disks(void **state)
{
    (void)state;
    for (uint32_t writes = 0; writes < 6; writes++) {
        struct fixture *f = begin(two_and_two, 1, 3 * STRIPE + 5);

        f->world.data.disks[0].write_rc = RC_IO;
        f->world.data.disks[0].writes_before = writes;
        f->world.data.disks[2].write_rc = RC_FULL;
        f->world.data.disks[2].writes_before = writes;
        assert_true(run(f, true) == RC_FULL || f->world.task.error.rc == RC_IO);
        write_path_discard(&f->path);
        world_settle(&f->world);
        assert_int_equal(f->world.data.shard_count, 0);
        end(f);
    }
}

/* With one parity shard a lost copy is all the redundancy there was. */
static void mirror_needs_both(void **state)
{
    struct fixture *f = begin(one_and_one, 1, 20000);

    (void)state;
    f->world.data.disks[1].write_rc = RC_IO;
    assert_int_equal(run(f, true), RC_IO);
    write_path_discard(&f->path);
    world_settle(&f->world);
    assert_int_equal(f->world.data.shard_count, 0);
    end(f);
}

/* A body that is not what its digest says, or that ends early, is not stored, whatever was sent
 * already. */
static void refused_bodies(void **state)
{
    static const struct slice name = {.data = "content-md5", .len = 11};

    (void)state;
    for (int i = 0; i < 4; i++) {
        size_t len = i % 2 == 0 ? 5000 : 5 * STRIPE;
        struct fixture *f = begin(two_and_two, 1, len);

        f->world.config.extent_bytes_max = 2 * STRIPE;
        if (i < 2) {
            f->headers[0] = (struct http_header){name, SLICE("XUFAKrxLKna5cZ2REBfFkg==")};
            f->world.http.exchange.request.header_count = 1;
        } else {
            f->world.http.body.len -= 1;
            f->world.http.cut = true;
        }
        assert_int_equal(run(f, true), RC_INVALID);
        assert_int_equal(f->path.error, i < 2 ? S3_BadDigest : S3_IncompleteBody);
        write_path_discard(&f->path);
        world_settle(&f->world);
        assert_int_equal(f->world.data.shard_count, 0);
        end(f);
    }
}

/* Discarding a finished write (its commit was refused) removes every shard of every extent. */
static void discard_after_success(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 5 * STRIPE);

    (void)state;
    f->world.config.extent_bytes_max = 2 * STRIPE;
    assert_int_equal(run(f, true), RC_OK);
    assert_int_equal(f->world.data.shard_count, 12);
    write_path_discard(&f->path);
    world_settle(&f->world);
    assert_int_equal(f->world.data.shard_count, 0);
    end(f);
}

/* New extents go where all disks are there: narrower if they must, but never without redundancy. */
static void choice_of_the_group(void **state)
{
    struct fixture *f = begin(with_fallback, 4, 3 * STRIPE);

    (void)state;
    assert_int_equal(run(f, true), RC_OK);
    assert_int_equal(f->path.pieces[0]->extent->pg, 1);
    check_pieces(f);
    end(f);
    f = begin(with_fallback, 4, 3 * STRIPE);
    f->world.data.disks[4].unhealthy = true;
    assert_int_equal(run(f, true), RC_OK);
    assert_int_equal(f->path.pieces[0]->extent->pg, 3);
    check_pieces(f);
    end(f);
    f = begin(with_fallback, 4, 3 * STRIPE);
    f->world.data.disks[4].unhealthy = true;
    f->world.data.disks[7].unhealthy = true;
    assert_int_equal(run(f, true), RC_BUSY);
    assert_int_equal(f->world.data.shard_count, 0);
    end(f);
}

/* A disk that goes in the middle of a long body: the extents that follow go to another shape of
 * group. */
static void shape_changes_between_extents(void **state)
{
    struct fixture *f = begin(with_fallback, 4, 4096 * KIB);

    (void)state;
    f->world.config.extent_bytes_max = 1024 * KIB;
    start(f, true);
    while (f->world.data.shard_count < 6) {
        assert_true(fake_http_run(&f->world.http) || sim_step(sim_of(f->world.env)));
    }
    f->world.data.disks[0].unhealthy = true;
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    assert_int_equal(f->path.pieces[0]->extent->data_shards, 4);
    assert_int_equal(f->path.pieces[3]->extent->data_shards, 2);
    assert_int_equal(f->path.pieces[3]->extent->stripe_unit, 256 * KIB);
    check_pieces(f);
    end(f);
}

/* ---- Memory ---- */

/* Memory is asked for when the first bytes have come, not before. */
static void start_and_ask(struct fixture *f)
{
    struct stream_memory *memory = &f->world.gateway.memory;
    uint64_t used_bytes = memory->used_bytes;

    start(f, true);
    assert_int_equal(memory->used_bytes, used_bytes);
    while (memory->used_bytes == used_bytes && memory->waiting_count == 0) {
        assert_true(fake_http_run(&f->world.http) || sim_step(sim_of(f->world.env)));
    }
}

/* When memory is scarce an upload is slower, not refused. */
static void one_buffer_when_scarce(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 9 * STRIPE + 1);

    (void)state;
    f->world.gateway.memory.budget_bytes = 600 * KIB;
    start_and_ask(f);
    assert_int_equal(f->world.gateway.memory.used_bytes, 512 * KIB);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    check_pieces(f);
    end(f);
}

/* What does not fit waits in line, is served when there is room, and is told when there is none. */
static void waits_in_line(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 3 * STRIPE);

    (void)state;
    f->world.gateway.memory.budget_bytes = 600 * KIB;
    f->world.gateway.memory.used_bytes = 400 * KIB;
    start_and_ask(f);
    assert_false(f->world.done);
    assert_int_equal(f->world.gateway.memory.waiting_count, 1);
    sim_run_for(sim_of(f->world.env), SIM_S);
    stream_memory_give(&f->world.gateway, 400 * KIB);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    check_pieces(f);
    end(f);

    f = begin(two_and_two, 1, 3 * STRIPE);
    f->world.gateway.memory.budget_bytes = 600 * KIB;
    f->world.gateway.memory.used_bytes = 400 * KIB;
    start_and_ask(f);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_BUSY);
    stream_memory_give(&f->world.gateway, 400 * KIB);
    end(f);
}

/* The line is served in order, and nobody large overtakes it; the small share stays open. */
static void line_is_fair(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 0);
    struct gateway *gateway = &f->world.gateway;

    (void)state;
    gateway->memory.budget_bytes = 800 * KIB;
    assert_true(stream_memory_try(gateway, 500 * KIB));
    f->len = 3 * STRIPE;
    f->bytes = world_bytes(&f->world, f->len);
    f->world.http.body = slice_of(f->bytes, f->len);
    start_and_ask(f);
    assert_int_equal(gateway->memory.waiting_count, 1);
    assert_false(stream_memory_try(gateway, 150 * KIB));
    assert_true(stream_memory_try(gateway, 100 * KIB));
    stream_memory_give(gateway, 100 * KIB);
    stream_memory_give(gateway, 500 * KIB);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    end(f);
}

struct waiter {
    struct memory_wait wait;
    bool done;
};

static void on_memory(struct memory_wait *wait)
{
    CONTAINER_OF(wait, struct waiter, wait)->done = true;
}

/* An upload with two buffers goes on with one when somebody waits for memory, at any moment. */
static void comfort_is_given_back(void **state)
{
    (void)state;
    for (unsigned delay = 0; delay < 120; delay++) {
        struct fixture *f = begin(two_and_two, 1, 9 * STRIPE + 3);
        struct gateway *gateway = &f->world.gateway;
        struct waiter waiter = {.wait.done = on_memory};
        uint64_t large = gateway->memory.budget_bytes / 8 * 7 - 600 * KIB;

        start_and_ask(f);
        assert_int_equal(gateway->memory.used_bytes, 768 * KIB);
        for (unsigned i = 0; i < delay && !f->world.done; i++) {
            (void)(fake_http_run(&f->world.http) || sim_step(sim_of(f->world.env)));
        }
        if (!f->world.done) {
            assert_int_equal(stream_memory_take(gateway, &waiter.wait, large), RC_AGAIN);
            while (!waiter.done) { /* the client is faster than any timer */
                assert_true(fake_http_run(&f->world.http) || sim_step(sim_of(f->world.env)));
            }
            assert_int_equal(waiter.wait.rc, RC_OK);
            stream_memory_give(gateway, large);
        }
        assert_true(world_run(&f->world, &f->world.done));
        assert_int_equal(f->world.task.error.rc, RC_OK);
        check_pieces(f);
        end(f);
    }
}

/* Loops share the budget: what one gives back, the other finds. */
static void pool_of_two_loops(void **state)
{
    struct fixture *f = begin(two_and_two, 1, 3 * STRIPE);
    struct stream_pool pool = {.budget_bytes = 1024 * KIB};
    struct gateway other = f->world.gateway;

    (void)state;
    f->world.config.stream_pool = &pool;
    list_init(&other.memory.waiting);
    assert_true(stream_memory_try(&other, 600 * KIB));
    start_and_ask(f);
    sim_run_for(sim_of(f->world.env), SIM_S);
    assert_int_equal(pool.waiting_count, 1);
    assert_true(stream_memory_wanted(&other));
    assert_false(stream_memory_try(&other, 200 * KIB));
    stream_memory_give(&other, 600 * KIB);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    check_pieces(f);
    assert_int_equal(pool.used_bytes, 0);
    assert_int_equal(pool.waiting_count, 0);
    f->world.config.stream_pool = NULL;
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(parts_are_never_inline),
        cmocka_unit_test(inline_is_synchronous),
        cmocka_unit_test(one_failed_disk),
        cmocka_unit_test(too_many_failed_disks),
        cmocka_unit_test(mirror_needs_both),
        cmocka_unit_test(refused_bodies),
        cmocka_unit_test(discard_after_success),
        cmocka_unit_test(choice_of_the_group),
        cmocka_unit_test(shape_changes_between_extents),
        cmocka_unit_test(one_buffer_when_scarce),
        cmocka_unit_test(waits_in_line),
        cmocka_unit_test(line_is_fair),
        cmocka_unit_test(comfort_is_given_back),
        cmocka_unit_test(pool_of_two_loops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
