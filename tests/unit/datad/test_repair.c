/*
 * Repair, against a scripted metad: a disk that came back empty is filled, a short write is
 * completed, a rotten block is replaced, and what nobody owns is left alone.
 */
#include "tests/unit/datad/fixture.h"

#include "common/ec/ec.h"
#include "common/ec/stripe.h"
#include <stdlib.h>

#include "common/base/limits.h"
#include "datad/repair/rebuild.h"
#include "datad/repair/repair.h"

enum { EXTENTS_MAX = 40, DISKS = 4, UNIT = 128 * KIB };

struct extent {
    Kist__Piece piece;
    Kist__Extent extent;
    struct extent_id id;
    bool owned;
    uint8_t *shards[LIMIT_SHARDS];
    size_t shard_length;
};

/* metad: every extent is its own layout at key "k". */
struct meta {
    struct meta_client base;
    struct fixture f;
    struct view *view;
    struct repair *repair;
    struct extent extents[EXTENTS_MAX];
    uint32_t count;
    bool queued[EXTENTS_MAX];
    uint32_t writes;
    struct env_timer timer; /* completions come later */
    struct task *waiting;
};

static struct meta *meta_of(struct meta_client *client)
{
    return CONTAINER_OF(client, struct meta, base);
}

static void meta_fire(struct env_timer *timer)
{
    struct meta *meta = CONTAINER_OF(timer, struct meta, timer);
    struct task *task = meta->waiting;

    meta->waiting = NULL;
    task_resume(task, RC_OK);
}

static enum step_result meta_scan(struct meta_client *client, struct meta_scan *call,
                                  struct task *task)
{
    struct meta *meta = meta_of(client);
    uint32_t at = call->cursor.len > 0 ? (uint32_t)(unsigned char)call->cursor.data[0] : 0;
    uint32_t end = at + 7 < meta->count ? at + 7 : meta->count; /* small pages: cursors matter */
    uint8_t *cursor = arena_alloc(call->arena, 1);

    call->items = arena_alloc(call->arena, 8 * sizeof(call->items[0]));
    for (; at < end; at++) {
        if (meta->extents[at].owned) {
            call->items[call->item_count] = (struct meta_scan_item){
                .bucket_id = 7,
                .key = SLICE("k"),
                .layout_id = slice_of(&meta->extents[at].id, EXTENT_ID_BYTES),
                .piece = &meta->extents[at].piece};
            call->item_count += 1;
        }
    }
    *cursor = (uint8_t)end;
    call->next_cursor = end < meta->count ? slice_of(cursor, 1) : SLICE_EMPTY;
    assert_null(meta->waiting);
    meta->waiting = task;
    meta->timer.fire = meta_fire;
    meta->f.env->clock->timer_start(meta->f.env, &meta->timer, 1000);
    return STEP_WAIT;
}

static enum step_result meta_repairs(struct meta_client *client, struct meta_repairs *call,
                                     struct task *task)
{
    struct meta *meta = meta_of(client);

    (void)task;
    call->repairs = arena_alloc(call->arena, EXTENTS_MAX * sizeof(call->repairs[0]));
    call->queue_keys = arena_alloc(call->arena, EXTENTS_MAX * sizeof(call->queue_keys[0]));
    for (uint32_t i = 0; i < meta->count; i++) {
        if (meta->queued[i]) {
            Kist__Repair *row = arena_alloc(call->arena, sizeof(*row));
            kist__repair__init(row);
            row->bucket_id = 7;
            row->key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)"k", .len = 1};
            row->layout_id = meta->extents[i].extent.id;
            row->extent_id = meta->extents[i].extent.id;
            call->repairs[call->repair_count] = row;
            call->queue_keys[call->repair_count] = slice_of(&meta->extents[i].id, EXTENT_ID_BYTES);
            call->repair_count += 1;
        }
    }
    return STEP_NEXT;
}

static enum step_result meta_pieces(struct meta_client *client, struct meta_pieces *call,
                                    struct task *task)
{
    struct meta *meta = meta_of(client);

    for (uint32_t i = 0; i < meta->count; i++) {
        struct extent *extent = &meta->extents[i];
        if (extent->owned && slice_eq(call->layout_id, slice_of(&extent->id, EXTENT_ID_BYTES))) {
            assert_int_equal(call->bucket_id, 7);
            assert_true(slice_eq_str(call->key, "k"));
            call->pieces = arena_alloc(call->arena, sizeof(call->pieces[0]));
            call->pieces[0] = &extent->piece;
            call->piece_count = call->offset == 0 ? 1 : 0;
            return STEP_NEXT;
        }
    }
    return task_fail(task, RC_NOT_FOUND, "no such layout");
}

static enum step_result meta_write(struct meta_client *client, struct meta_write *call,
                                   struct task *task)
{
    struct meta *meta = meta_of(client);
    const Kist__SetDurable *message = (const Kist__SetDurable *)(const void *)call->message;

    (void)task;
    assert_int_equal(call->command, META_SET_DURABLE);
    meta->writes += 1;
    for (uint32_t i = 0; i < meta->count; i++) {
        struct extent *extent = &meta->extents[i];
        if (memcmp(extent->id.bytes, message->extent_id.data, EXTENT_ID_BYTES) == 0) {
            uint32_t all = (1U << (extent->extent.data_shards + extent->extent.parity_shards)) - 1;
            extent->extent.durable |= message->durable;
            if (message->queue_key.len > 0 && (!extent->owned || extent->extent.durable == all)) {
                meta->queued[i] = false;
            }
        }
    }
    return STEP_NEXT;
}

static struct view *meta_view(struct meta_client *client)
{
    return meta_of(client)->view;
}

static bool meta_ready(struct meta_client *client)
{
    (void)client;
    return true;
}

static Kist__PlacementGroup *group_new(void)
{
    Kist__PlacementGroup *group = malloc(sizeof(*group));

    kist__placement_group__init(group);
    group->id = 1;
    group->epoch = 2;
    group->data_shards = 2;
    group->parity_shards = 2;
    group->n_disks = DISKS;
    group->disks = calloc(DISKS, sizeof(group->disks[0]));
    for (uint32_t i = 0; i < DISKS; i++) {
        group->disks[i] = i + 1;
    }
    return group;
}

static void world_init(struct meta *meta, uint64_t seed)
{
    Kist__PlacementGroup *group = group_new();

    memset(meta, 0, sizeof(*meta));
    fixture_init(&meta->f, seed, DISKS);
    meta->base = (struct meta_client){.scan = meta_scan,
                                      .repairs = meta_repairs,
                                      .pieces = meta_pieces,
                                      .write = meta_write,
                                      .view = meta_view,
                                      .ready = meta_ready};
    meta->view = view_new(&(struct view_parts){.version = 1, .groups = &group, .group_count = 1});
}

static void world_deinit(struct meta *meta)
{
    for (uint32_t i = 0; i < meta->count; i++) {
        for (uint32_t j = 0; j < DISKS; j++) {
            mem_free(meta->extents[i].shards[j]);
        }
    }
    fixture_deinit(&meta->f);
    view_unref(meta->view);
    mem_free(meta);
}

static void extent_bytes(struct extent *extent, bool replica)
{
    uint32_t k = replica ? 1 : 2;

    for (uint32_t i = 0; i < DISKS; i++) {
        struct shard_id id = {.extent = extent->id, .index = replica ? 0 : i};
        extent->shards[i] = mem_alloc_raw(extent->shard_length);
        if (i < k || replica) {
            fixture_fill(&id, extent->shards[i], extent->shard_length);
        }
    }
    if (!replica) {
        ec_encode(ec_get(2, 2), extent->shard_length, extent->shards, extent->shards + 2);
    }
}

static enum rc shard_put(struct meta *meta, struct extent *extent, uint32_t index)
{
    struct fixture *f = &meta->f;
    struct shard_writer writer =
        fixture_writer(f, index + 1, (struct shard_id){extent->id, index}, extent->shard_length);

    writer.origin.home_key = SLICE("k");
    f->data->put(f->data, &writer, slice_of(extent->shards[index], extent->shard_length));
    assert_true(fixture_wait(f));
    return writer.rc;
}

/* An extent of 2+2 (or 4 copies) with the shards of `durable` written. */
static struct extent *extent_new(struct meta *meta, uint64_t length, bool replica, uint32_t durable)
{
    struct extent *extent = &meta->extents[meta->count];

    kist__extent__init(&extent->extent);
    kist__piece__init(&extent->piece);
    extent->id = fixture_id(&meta->f, meta->count, 0).extent;
    extent->owned = true;
    extent->piece.extent = &extent->extent;
    extent->piece.length = length;
    extent->extent.id = (ProtobufCBinaryData){.data = extent->id.bytes, .len = EXTENT_ID_BYTES};
    extent->extent.pg = 1;
    extent->extent.kind = replica ? 1 : 2;
    extent->extent.data_shards = replica ? 1 : 2;
    extent->extent.parity_shards = replica ? 3 : 2;
    extent->extent.stripe_unit = replica ? 0 : UNIT;
    extent->extent.length = length;
    extent->extent.durable = durable;
    extent->shard_length = (size_t)stripe_shard_length(&(struct stripe_geometry){
        .k = replica ? 1 : 2, .unit = extent->extent.stripe_unit, .length = length});
    extent_bytes(extent, replica);
    meta->count += 1;
    for (uint32_t i = 0; i < DISKS; i++) {
        if ((durable >> i & 1) != 0) {
            assert_int_equal(shard_put(meta, extent, i), RC_OK);
        }
    }
    return extent;
}

static enum rc shard_check(struct meta *meta, struct extent *extent, uint32_t index)
{
    struct fixture *f = &meta->f;
    uint8_t *got = mem_alloc(extent->shard_length);
    struct shard_read read = {
        .disk = index + 1,
        .shard = {extent->id, index},
        .len = extent->shard_length,
        .to = got,
        .done = fixture_read_done
    };

    read.reserved[79] = (uint64_t)(uintptr_t)f;
    f->data->read(f->data, &read);
    assert_true(fixture_wait(f));
    if (read.rc == RC_OK) {
        assert_memory_equal(got, extent->shards[index], extent->shard_length);
    }
    mem_free(got);
    return read.rc;
}

static void repair_begin(struct meta *meta)
{
    meta->repair = repair_open(&(struct repair_options){.env = meta->f.env,
                                                        .meta = &meta->base,
                                                        .data = meta->f.data,
                                                        .datad = meta->f.datad,
                                                        .poll_ms = 1000});
}

static struct repair_status repair_end(struct meta *meta)
{
    struct repair_status status;

    repair_status(meta->repair, &status);
    repair_close(meta->repair, fixture_closed, &meta->f);
    assert_true(fixture_wait(&meta->f));
    return status;
}

static void fill(struct meta *meta)
{
    for (uint32_t i = 0; i < 25; i++) {
        (void)extent_new(meta, 1 + (uint64_t)i * 37777, i % 3 == 0, 15);
    }
}

/* "Put an empty directory back: it is refilled": every shard, with the right bytes, until nothing
 * is missing, and a restart in the midst goes on. */
static void empty_disk_is_refilled(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct repair_status status;

    (void)state;
    world_init(meta, 1);
    fill(meta);
    fixture_stop(&meta->f);
    sim_file_wipe(meta->f.node, "/d2/data");
    sim_kv_paths_wipe("/d2");
    fixture_start(&meta->f);
    assert_int_equal(shard_check(meta, &meta->extents[5], 2), RC_NOT_FOUND);
    assert_true(datad_needs_refill(meta->f.datad));
    repair_begin(meta);
    sim_run_for(meta->f.sim, 30 * SIM_MS);
    (void)repair_end(meta);
    fixture_crash(&meta->f, SIM_POWER);
    assert_true(datad_needs_refill(meta->f.datad));
    repair_begin(meta);
    sim_run_for(meta->f.sim, 20 * SIM_S);
    status = repair_end(meta);
    assert_true(status.walks >= 1);
    assert_int_equal(status.deficit, 0);
    assert_int_equal(status.failures, 0);
    for (uint32_t i = 0; i < meta->count; i++) {
        for (uint32_t j = 0; j < DISKS; j++) {
            assert_int_equal(shard_check(meta, &meta->extents[i], j), RC_OK);
        }
    }
    assert_int_equal(meta->writes, 0); /* the bitmaps were full all the time */
    sim_run_for(meta->f.sim, 3 * SIM_S);
    assert_false(datad_needs_refill(meta->f.datad));
    world_deinit(meta);
}

/* A write that was committed with a shard short is completed from the queue, and metad is told. */
static void short_write_is_completed(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *striped;
    struct extent *copies;

    (void)state;
    world_init(meta, 2);
    striped = extent_new(meta, 700000, false, 7);
    copies = extent_new(meta, 50000, true, 12);
    meta->queued[0] = true;
    meta->queued[1] = true;
    repair_begin(meta);
    sim_run_for(meta->f.sim, 10 * SIM_S);
    assert_int_equal(repair_end(meta).rebuilt_shards, 3);
    assert_int_equal(striped->extent.durable, 15);
    assert_int_equal(copies->extent.durable, 15);
    assert_false(meta->queued[0]);
    assert_false(meta->queued[1]);
    assert_int_equal(shard_check(meta, striped, 3), RC_OK);
    assert_int_equal(shard_check(meta, copies, 0), RC_OK);
    assert_int_equal(shard_check(meta, copies, 1), RC_OK);
    world_deinit(meta);
}

static void rot_segments(struct meta *meta, const char *directory, uint64_t at)
{
    uint32_t count = sim_file_count(meta->f.node, directory);

    for (uint32_t i = 0; i < count; i++) {
        (void)sim_file_flip(meta->f.node, sim_file_at(meta->f.node, directory, i), at, 5);
    }
}

/* A block that a read found rotten is rebuilt from the others without anybody asking. */
static void rotten_shard_is_replaced(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *extent;

    (void)state;
    world_init(meta, 3);
    extent = extent_new(meta, 900000, false, 15);
    rot_segments(meta, "/d1/data/segments", 8192 + 100 * KIB);
    assert_int_equal(shard_check(meta, extent, 1), RC_CORRUPT);
    repair_begin(meta);
    sim_run_for(meta->f.sim, 10 * SIM_S);
    assert_int_equal(repair_end(meta).rebuilt_shards, 1);
    assert_int_equal(shard_check(meta, extent, 1), RC_OK);
    assert_int_equal(fixture_stat(&meta->f, 2, (struct shard_id){extent->id, 1}).attempt, 1);
    world_deinit(meta);
}

/* Bad blocks in more than m shards at different places: what can be read of each still makes all
 * whole. */
static void rot_in_every_shard_is_survived(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *extent;

    (void)state;
    world_init(meta, 4);
    extent = extent_new(meta, 4 * MIB, false, 15);
    rot_segments(meta, "/d0/data/segments", 8192 + 10 * KIB);
    rot_segments(meta, "/d1/data/segments", 8192 + 600 * KIB);
    rot_segments(meta, "/d2/data/segments", 8192 + 1100 * KIB);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(shard_check(meta, extent, i), RC_CORRUPT);
    }
    repair_begin(meta);
    repair_walk(meta->repair);
    sim_run_for(meta->f.sim, 100 * SIM_S);
    assert_int_equal(repair_end(meta).lost_extents, 0);
    for (uint32_t i = 0; i < DISKS; i++) {
        assert_int_equal(shard_check(meta, extent, i), RC_OK);
    }
    world_deinit(meta);
}

/* Fewer than k survivors: said, counted, not invented. */
static void lost_extent_is_counted(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *extent;
    struct repair_status status;

    (void)state;
    world_init(meta, 5);
    extent = extent_new(meta, 300000, false, 1);
    extent->extent.durable = 15;
    (void)extent_new(meta, 300000, false, 15);
    repair_begin(meta);
    repair_walk(meta->repair);
    sim_run_for(meta->f.sim, 10 * SIM_S);
    status = repair_end(meta);
    assert_int_equal(status.lost_extents, 1);
    assert_int_equal(status.deficit, 3);
    assert_int_equal(shard_check(meta, extent, 1), RC_NOT_FOUND);
    world_deinit(meta);
}

/* A stale queue row must not bring a deleted extent back; its row goes away. */
static void deleted_extent_stays_deleted(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *extent;

    (void)state;
    world_init(meta, 6);
    extent = extent_new(meta, 300000, false, 7);
    extent->owned = false;
    meta->queued[0] = true;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(fixture_remove(&meta->f, i + 1, (struct shard_id){extent->id, i}), RC_OK);
    }
    repair_begin(meta);
    sim_run_for(meta->f.sim, 10 * SIM_S);
    assert_int_equal(repair_end(meta).rebuilt_shards, 0);
    assert_false(meta->queued[0]);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(shard_check(meta, extent, i), RC_NOT_FOUND);
    }
    world_deinit(meta);
}

/* A shard that somebody removed from an extent that is owned is not a reason to let it stay short.
 */
static void removed_shard_of_an_owned_extent_is_rebuilt(void **state)
{
    struct meta *meta = mem_alloc(sizeof(*meta));
    struct extent *extent;

    (void)state;
    world_init(meta, 7);
    extent = extent_new(meta, 300000, false, 15);
    assert_int_equal(fixture_remove(&meta->f, 4, (struct shard_id){extent->id, 3}), RC_OK);
    repair_begin(meta);
    repair_walk(meta->repair);
    sim_run_for(meta->f.sim, 10 * SIM_S);
    assert_int_equal(repair_end(meta).deficit, 0);
    assert_int_equal(shard_check(meta, extent, 3), RC_OK);
    world_deinit(meta);
}

/* Repair must leave the disks to clients: its traffic keeps to the bandwidth that was set. */
static void bandwidth_is_kept(void **state)
{
    struct repair_pace pace = {.bytes_per_s = 1000};
    uint64_t start = 5000000000ULL;

    (void)state;
    assert_int_equal(repair_pace_wait(&pace, start, 500), 0);
    assert_int_equal(repair_pace_wait(&pace, start, 500), 500000000ULL);
    assert_int_equal(repair_pace_wait(&pace, start, 1), 1000000000ULL);
    assert_int_equal(repair_pace_wait(&pace, start + 9000000000ULL, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_disk_is_refilled),
        cmocka_unit_test(short_write_is_completed),
        cmocka_unit_test(rotten_shard_is_replaced),
        cmocka_unit_test(rot_in_every_shard_is_survived),
        cmocka_unit_test(lost_extent_is_counted),
        cmocka_unit_test(deleted_extent_stays_deleted),
        cmocka_unit_test(removed_shard_of_an_owned_extent_is_rebuilt),
        cmocka_unit_test(bandwidth_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
