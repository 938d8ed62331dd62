/* Pieces to the client: every range of every layout, with disks that fail, lie and dawdle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>

#include "gateway/object/read_path.h"
#include "gateway/object/write_path.h"
#include "tests/unit/gateway/object_world.h"

#define KIB    1024ULL
#define STRIPE (256 * KIB)

struct fixture {
    struct object_world world;
    struct sigv4_result auth;
    struct payload payload;
    struct write_path write;
    struct read_path read;
    Kist__Record record;
    const char *bytes;
    size_t len;
    unsigned begun;
    /* A scripted metad: the home's pieces. */
    struct meta_client meta;
    Kist__Piece **home;
    size_t home_count;
    struct meta_pieces asked;
    unsigned asked_count;
    enum rc meta_rc;
    bool meta_later;
    struct task *meta_task;
};

static const struct world_group two_and_two[] = {
    {2, 2, 0}
};
static const struct world_group four_and_two[] = {
    {4, 2, 0}
};
static const struct world_group one_and_one[] = {
    {1, 1, 0}
};
static const struct world_group single[] = {
    {1, 0, 0}
};

static void task_ended(struct task *task)
{
    CONTAINER_OF(task, struct object_world, task)->done = true;
}

static struct fixture *fixture_of(struct task *task)
{
    struct object_world *world = CONTAINER_OF(task, struct object_world, task);

    return CONTAINER_OF(world, struct fixture, world);
}

static enum step_result step_store(struct task *task)
{
    return write_path_start(&fixture_of(task)->write, task);
}

static enum step_result step_read(struct task *task)
{
    return read_path_start(&fixture_of(task)->read, task);
}

static const struct step store_steps[] = {
    {"store", step_store},
    {0}
};
static const struct step read_steps[] = {
    {"read", step_read},
    {0}
};

static enum step_result meta_answer_pieces(struct meta_client *meta, struct meta_pieces *call,
                                           struct task *task)
{
    struct fixture *f = CONTAINER_OF(meta, struct fixture, meta);
    uint64_t at = 0;
    size_t i = 0;

    f->asked = *call;
    f->asked_count += 1;
    while (i < f->home_count && call->offset >= at + f->home[i]->length) {
        at += f->home[i]->length;
        i += 1;
    }
    call->first_offset = at;
    call->piece_count = f->home_count - i < 2 ? f->home_count - i : 2; /* short pages */
    call->pieces = arena_alloc(call->arena, 2 * sizeof(*call->pieces));
    for (size_t j = 0; j < call->piece_count; j++) {
        call->pieces[j] = f->home[i + j];
    }
    if (f->meta_later) {
        f->meta_task = task;
        return STEP_WAIT;
    }
    return f->meta_rc == RC_OK ? STEP_NEXT : task_fail(task, f->meta_rc, "home");
}

/* Stores `len` bytes through write_path and makes the record that metad would hold. */
static struct fixture *stored(const struct world_group *groups, size_t len,
                              uint64_t extent_bytes_max)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    struct payload_options options = {.auth = &f->auth, .length_max = 1ULL << 40};
    struct http_request *request = &f->world.http.exchange.request;
    const char *text;

    world_init(&f->world, 3, groups, 1);
    f->world.config.extent_bytes_max = extent_bytes_max;
    f->len = len;
    f->bytes = world_bytes(&f->world, len);
    f->world.http.body = slice_of(f->bytes, len);
    request->has_length = true;
    request->content_length = len;
    f->write = (struct write_path){.gateway = &f->world.gateway,
                                   .view = f->world.view,
                                   .payload = &f->payload,
                                   .arena = &f->world.arena,
                                   .bucket_id = 9,
                                   .key = SLICE("k")};
    assert_int_equal(payload_init(&f->payload, &f->world.http.exchange, &options, &text), S3_OK);
    task_start(&f->world.task, store_steps, task_ended);
    assert_true(world_run(&f->world, &f->world.done));
    assert_int_equal(f->world.task.error.rc, RC_OK);
    kist__record__init(&f->record);
    f->record.size = len;
    f->record.pieces = f->write.pieces;
    f->record.n_pieces = f->write.piece_count;
    f->record.piece_count = (uint32_t)f->write.piece_count;
    f->home = f->write.pieces;
    f->home_count = f->write.piece_count;
    f->meta.pieces = meta_answer_pieces;
    f->world.gateway.meta = &f->meta;
    return f;
}

static void end(struct fixture *f)
{
    world_settle(&f->world);
    assert_int_equal(f->world.gateway.memory.used_bytes, 0);
    assert_int_equal(f->world.gateway.active_requests, 0);
    payload_deinit(&f->payload);
    world_deinit(&f->world);
    mem_free(f);
}

static void on_begin(struct read_path *path)
{
    CONTAINER_OF(path, struct fixture, read)->begun += 1;
}

static void start(struct fixture *f, uint64_t offset, uint64_t length)
{
    f->world.done = false;
    f->begun = 0;
    buffer_clear(&f->world.http.reply);
    f->world.http.reply_bytes = 0;
    for (int i = 0; i < FAKE_DISKS_MAX; i++) {
        f->world.data.disks[i].reads = 0;
        f->world.data.disks[i].read_bytes = 0;
    }
    f->read = (struct read_path){.gateway = &f->world.gateway,
                                 .view = f->world.view,
                                 .arena = &f->world.arena,
                                 .bucket_id = 9,
                                 .key = SLICE("k"),
                                 .record = &f->record,
                                 .offset = offset,
                                 .length = length,
                                 .http = &f->world.http.exchange,
                                 .begin = on_begin};
    task_start(&f->world.task, read_steps, task_ended);
}

/* Disks, client and metad go on until the read has ended. */
static enum rc finish(struct fixture *f)
{
    while (!f->world.done) {
        struct task *task = f->meta_task;

        f->meta_task = NULL;
        if (task != NULL) {
            task_resume(task, f->meta_rc);
        } else {
            assert_true(fake_http_run(&f->world.http) || sim_step(sim_of(f->world.env)));
        }
    }
    return f->world.task.error.rc;
}

static enum rc get(struct fixture *f, uint64_t offset, uint64_t length)
{
    start(f, offset, length);
    return finish(f);
}

static void assert_got(struct fixture *f, uint64_t offset, uint64_t length)
{
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->world.http.reply.len, length);
    assert_memory_equal(f->world.http.reply.data, f->bytes + offset, length);
}

static uint32_t reads(const struct fixture *f)
{
    uint32_t count = 0;

    for (int i = 0; i < FAKE_DISKS_MAX; i++) {
        count += f->world.data.disks[i].reads;
    }
    return count;
}

/* ---- All is well ---- */

static void check_ranges(struct fixture *f)
{
    static const uint64_t spots[] = {0,       1,       4095,       65535,  65536,
                                     131071,  131072,  STRIPE - 1, STRIPE, STRIPE + 1,
                                     1048575, 1048576, 1048577,    2000000};

    for (size_t i = 0; i < ARRAY_LEN(spots); i++) {
        for (size_t j = i; j < ARRAY_LEN(spots); j++) {
            uint64_t from = spots[i];
            uint64_t to = j + 1 == ARRAY_LEN(spots) || spots[j] >= f->len ? f->len : spots[j] + 1;

            if (from < f->len && (i + j) % 3 == f->len % 3) {
                assert_int_equal(get(f, from, to - from), RC_OK);
                assert_got(f, from, to - from);
            }
        }
    }
}

/* Any range of any layout, to a client that reads at once and to one that does not. */
static void any_range(void **state)
{
    static const size_t lengths[] = {1, 20000, 131072, 131073, STRIPE + 1, 1048576, 2500001};
    static const struct world_group *const groups[] = {single, one_and_one, two_and_two,
                                                       four_and_two};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths) * ARRAY_LEN(groups); i++) {
        struct fixture *f =
            stored(groups[i % ARRAY_LEN(groups)], lengths[i / ARRAY_LEN(groups)], 1048576);

        f->world.http.reply_later = i % 2 != 0;
        check_ranges(f);
        end(f);
    }
}

/* A small range costs one read of one block, not a stripe from every disk. */
static void small_ranges_read_little(void **state)
{
    struct fixture *f = stored(four_and_two, 8 * STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    assert_int_equal(get(f, 2 * 131072 + 70000, 100), RC_OK);
    assert_got(f, 2 * 131072 + 70000, 100);
    assert_int_equal(reads(f), 1);
    assert_int_equal(f->world.data.disks[2].reads, 1);
    assert_int_equal(f->world.data.disks[2].read_bytes, 65536);
    assert_int_equal(get(f, 0, 8 * STRIPE), RC_OK);
    assert_int_equal(reads(f), 16); /* data shards only */
    end(f);
}

/* Copies of small objects share the load. */
static void replicas_are_drawn(void **state)
{
    struct fixture *f = stored(two_and_two, 30000, LIMIT_EXTENT_BYTES);
    uint32_t seen[3] = {0};

    (void)state;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(get(f, 0, 30000), RC_OK);
        assert_int_equal(reads(f), 1);
        for (int disk = 0; disk < 3; disk++) {
            seen[disk] += f->world.data.disks[disk].reads;
        }
    }
    for (int disk = 0; disk < 3; disk++) {
        assert_in_range(seen[disk], 5, 50);
    }
    end(f);
}

/* ---- Disks that fail ---- */

/* Whichever two of four disks are lost, and however they say so, every byte is served. */
static void two_lost_of_four(void **state)
{
    static const enum rc losses[] = {RC_IO, RC_NOT_FOUND, RC_CORRUPT};
    static const size_t lengths[] = {30000, 3 * STRIPE + 77};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(losses) * ARRAY_LEN(lengths); i++) {
        struct fixture *f = stored(two_and_two, lengths[i / ARRAY_LEN(losses)], LIMIT_EXTENT_BYTES);

        for (int a = 0; a < 4; a++) {
            for (int b = 0; b < 4; b++) {
                f->world.data.disks[a].read_rc = losses[i % ARRAY_LEN(losses)];
                f->world.data.disks[b].read_rc = losses[i % ARRAY_LEN(losses)];
                assert_int_equal(get(f, 1000, f->len - 1000), RC_OK);
                assert_got(f, 1000, f->len - 1000);
                assert_int_equal(get(f, f->len / 2, 10), RC_OK);
                assert_got(f, f->len / 2, 10);
                f->world.data.disks[a].read_rc = RC_OK;
                f->world.data.disks[b].read_rc = RC_OK;
            }
        }
        end(f);
    }
}

/* With three of four lost nothing is sent at all: the client gets an error, not a torn object. */
static void three_lost_of_four(void **state)
{
    struct fixture *f = stored(two_and_two, 3 * STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    for (int i = 0; i < 3; i++) {
        f->world.data.disks[i].read_rc = RC_IO;
    }
    assert_int_equal(get(f, 0, f->len), RC_IO);
    assert_int_equal(f->begun, 0);
    assert_false(f->read.begun);
    f->world.data.disks[0].read_rc = RC_CORRUPT;
    assert_int_equal(get(f, 0, f->len), RC_CORRUPT);
    end(f);
}

/* A shard that was never durable is not asked while others can answer; it may have been repaired
 * since. */
static void undurable_shards_come_last(void **state)
{
    struct fixture *f = stored(two_and_two, STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    f->record.pieces[0]->extent->durable = 0xe;
    assert_int_equal(get(f, 0, f->len), RC_OK);
    assert_got(f, 0, f->len);
    assert_int_equal(f->world.data.disks[0].reads, 0);
    f->world.data.disks[2].read_rc = RC_IO;
    f->world.data.disks[3].read_rc = RC_IO;
    assert_int_equal(get(f, 0, f->len), RC_OK);
    assert_got(f, 0, f->len);
    assert_int_equal(f->world.data.disks[0].reads, 1);
    end(f);
}

/* A disk that hangs delays a GET by the hedge time, not for ever, and its late answer harms nobody.
 */
static void slow_disk_is_hedged(void **state)
{
    struct fixture *f = stored(two_and_two, 2 * STRIPE, LIMIT_EXTENT_BYTES);
    uint64_t before = sim_now(sim_of(f->world.env));

    (void)state;
    f->world.data.disks[1].delay_ns = 30 * SIM_S;
    assert_int_equal(get(f, 0, f->len), RC_OK);
    assert_got(f, 0, f->len);
    assert_in_range((sim_now(sim_of(f->world.env)) - before) / SIM_MS, 50, 200);
    assert_int_equal(f->world.data.pending, 2);
    assert_int_equal(f->world.gateway.active_requests, 2);
    assert_int_equal(f->world.gateway.memory.used_bytes, 2 * 131072);
    end(f);
}

/* When even the substitutes are slow, or fail, the slow shard is still good when it comes. */
static void slow_is_better_than_none(void **state)
{
    struct fixture *f = stored(two_and_two, STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    f->world.data.disks[1].delay_ns = SIM_S;
    f->world.data.disks[2].read_rc = RC_IO;
    f->world.data.disks[3].read_rc = RC_IO;
    assert_int_equal(get(f, 0, f->len), RC_OK);
    assert_got(f, 0, f->len);
    end(f);
}

/* ---- Clients ---- */

/* A client that hangs up ends the reading. */
static void client_gone(void **state)
{
    struct fixture *f = stored(two_and_two, 20 * STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    f->world.http.cut = true;
    f->world.http.reply_later = true;
    assert_int_equal(get(f, 0, f->len), RC_CLOSED);
    assert_true(f->read.begun);
    assert_in_range(reads(f), 1, 4);
    end(f);
}

/* A client that does not read holds two stripes, however large the object. */
static void client_that_stalls(void **state)
{
    struct fixture *f = stored(two_and_two, 20 * STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    f->world.http.reply_later = true;
    start(f, 0, f->len);
    sim_run_for(sim_of(f->world.env), 10 * SIM_S);
    assert_int_equal(reads(f), 4);
    assert_int_equal(f->world.gateway.memory.used_bytes, 2 * STRIPE);
    assert_int_equal(finish(f), RC_OK);
    assert_got(f, 0, f->len);
    end(f);
}

/* ---- Memory ---- */

/* When memory is scarce nothing is read ahead; when there is none the reply waits, then is refused.
 */
static void scarce_memory(void **state)
{
    struct fixture *f = stored(two_and_two, 4 * STRIPE, LIMIT_EXTENT_BYTES);

    (void)state;
    f->world.gateway.memory.budget_bytes = 400 * KIB;
    f->world.http.reply_later = true;
    start(f, 0, f->len);
    sim_run_for(sim_of(f->world.env), 10 * SIM_S);
    assert_int_equal(reads(f), 2);
    assert_int_equal(f->world.gateway.memory.used_bytes, STRIPE);
    assert_int_equal(finish(f), RC_OK);
    assert_got(f, 0, f->len);
    f->world.gateway.memory.used_bytes = 300 * KIB;
    assert_int_equal(get(f, 0, f->len), RC_BUSY);
    f->world.gateway.memory.used_bytes = 0;
    end(f);
}

/* ---- Pieces beyond the record ---- */

/* A record carries four pieces; the others come from metad in pages, at once or later. */
static void pages_of_pieces(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct fixture *f = stored(two_and_two, 9 * STRIPE + 5, STRIPE);

        f->record.n_pieces = 4;
        f->record.layout_id = (ProtobufCBinaryData){
            .len = 3, .data = (uint8_t[]){1, 2, 3}
        };
        f->meta_later = later != 0;
        assert_int_equal(get(f, 100, f->len - 100), RC_OK);
        assert_got(f, 100, f->len - 100);
        assert_int_equal(f->asked_count, 3);
        assert_int_equal(f->asked.bucket_id, 9);
        assert_int_equal(f->asked.layout_id.len, 3);
        assert_int_equal(get(f, 9 * STRIPE + 2, 3), RC_OK);
        assert_got(f, 9 * STRIPE + 2, 3);
        end(f);
    }
}

/* A metad that cannot say where the rest lies cuts the reply; it never makes one up. */
static void pages_that_fail(void **state)
{
    struct fixture *f = stored(two_and_two, 9 * STRIPE + 5, STRIPE);

    (void)state;
    f->record.n_pieces = 4;
    f->meta_rc = RC_NO_QUORUM;
    assert_int_equal(get(f, 0, f->len), RC_NO_QUORUM);
    f->meta_rc = RC_OK;
    f->home_count = 6;
    assert_int_equal(get(f, 0, f->len), RC_CORRUPT);
    end(f);
}

/* The pieces in a copy's record are a cache: when the home has rewritten the extents, the home is
 * asked. */
static void stale_copy_asks_the_home(void **state)
{
    struct fixture *f = stored(two_and_two, 3 * STRIPE, LIMIT_EXTENT_BYTES);
    Kist__Piece piece = *f->record.pieces[0];
    Kist__Extent extent = *piece.extent;
    Kist__Piece *stale = &piece;
    Kist__Reference home;
    uint8_t id[EXTENT_ID_BYTES] = {9};

    (void)state;
    extent.id.data = id;
    piece.extent = &extent;
    kist__reference__init(&home);
    home.home_bucket = 77;
    home.home_key = (ProtobufCBinaryData){
        .len = 2, .data = (uint8_t[]){'h', 'k'}
    };
    f->record.pieces = &stale;
    f->record.shared = &home;
    assert_int_equal(get(f, 5, f->len - 5), RC_OK);
    assert_got(f, 5, f->len - 5);
    assert_int_equal(f->asked_count, 1);
    assert_int_equal(f->asked.bucket_id, 77);
    assert_true(slice_eq_str(f->asked.key, "hk"));
    f->home = &stale; /* the home knows no better: the answer is no, not a loop */
    f->home_count = 1;
    assert_int_equal(get(f, 5, f->len - 5), RC_NOT_FOUND);
    assert_int_equal(f->asked_count, 2);
    end(f);
}

/* Numbers that make no sense are refused before they become an allocation. */
static void broken_records(void **state)
{
    struct fixture *f = stored(two_and_two, STRIPE, LIMIT_EXTENT_BYTES);
    Kist__Extent good = *f->record.pieces[0]->extent;
    Kist__Extent *extent = f->record.pieces[0]->extent;

    (void)state;
    for (int i = 0; i < 7; i++) {
        *extent = good;
        extent->stripe_unit = i == 0 ? 1000 : i == 1 ? 0 : good.stripe_unit;
        extent->data_shards = i == 2 ? 0 : i == 3 ? 17 : good.data_shards;
        extent->length = i == 4 ? 5 : good.length;
        extent->pg = i == 5 ? 99 : good.pg;
        extent->id.len = i == 6 ? 3 : EXTENT_ID_BYTES;
        assert_int_equal(get(f, 0, f->len), RC_CORRUPT);
        assert_int_equal(f->begun, 0);
    }
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range),           cmocka_unit_test(small_ranges_read_little),
        cmocka_unit_test(replicas_are_drawn),  cmocka_unit_test(two_lost_of_four),
        cmocka_unit_test(three_lost_of_four),  cmocka_unit_test(undurable_shards_come_last),
        cmocka_unit_test(slow_disk_is_hedged), cmocka_unit_test(slow_is_better_than_none),
        cmocka_unit_test(client_gone),         cmocka_unit_test(client_that_stalls),
        cmocka_unit_test(scarce_memory),       cmocka_unit_test(pages_of_pieces),
        cmocka_unit_test(pages_that_fail),     cmocka_unit_test(stale_copy_asks_the_home),
        cmocka_unit_test(broken_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
