/* The meta client over RPC against a real metad: same answers as without, writes exactly once
 * whatever breaks, views in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* After the four above. */
#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "tests/lib/fixture_meta_rpc.h"

static struct meta_rpc_fixture fixture;

static ProtobufCBinaryData text_of(const char *text)
{
    return message_field(slice_str(text));
}

/* ---- The same answers ---- */

static union {
    struct meta_get get;
    struct meta_list list;
    struct meta_list_versions versions;
    struct meta_changes changes;
    struct meta_pieces pieces;
    struct meta_list_parts parts;
    struct meta_list_uploads uploads;
    struct meta_scan scan;
    struct meta_repairs repairs;
    struct meta_jobs jobs;
} call;

#define START(name)                                                                                \
    static enum step_result start_##name(struct task *task)                                        \
    {                                                                                              \
        return fixture.f.meta->name(fixture.f.meta, &call.name, task);                             \
    }
#define START_AS(name, field)                                                                      \
    static enum step_result start_##name(struct task *task)                                        \
    {                                                                                              \
        return fixture.f.meta->name(fixture.f.meta, &call.field, task);                            \
    }
START(get)
START(list)
START_AS(list_versions, versions)
START(changes)
START(pieces)
START_AS(list_parts, parts)
START_AS(list_uploads, uploads)
START(scan)
START(repairs)
START(jobs)
#undef START
#undef START_AS

static struct slice packed(const void *message)
{
    return message == NULL ? SLICE("none") : message_pack(&fixture.f.arena, message);
}

/* What a page says, as one text. */
static void note(struct buffer *to, struct slice name, const void *message)
{
    buffer_printf(to, "%zu:", name.len);
    buffer_append(to, name);
    buffer_append(to, packed(message));
    buffer_append_byte(to, '\n');
}

static void ask_list(struct buffer *to, bool whole, struct slice delimiter)
{
    struct meta_rpc_fixture *r = &fixture;

    call.list = (struct meta_list){.bucket_id = r->f.bucket_id,
                                   .generation = r->f.generation,
                                   .delimiter = delimiter,
                                   .after = SLICE("a0"),
                                   .limit = 7,
                                   .whole = whole,
                                   .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_list), RC_OK);
    for (uint32_t i = 0; i < call.list.entry_count; i++) {
        note(to, call.list.entries[i].name, call.list.entries[i].record);
    }
    buffer_printf(to, "%d\n", call.list.truncated);
}

static void ask_versions(struct buffer *to)
{
    struct meta_rpc_fixture *r = &fixture;

    call.versions = (struct meta_list_versions){.bucket_id = r->f.bucket_id,
                                                .generation = r->f.generation,
                                                .limit = 1000,
                                                .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_list_versions), RC_OK);
    for (uint32_t i = 0; i < call.versions.entry_count; i++) {
        note(to, call.versions.entries[i].name, call.versions.entries[i].record);
        buffer_printf(to, "%d\n", call.versions.entries[i].is_latest);
    }
}

static void ask_uploads(struct buffer *to)
{
    struct meta_rpc_fixture *r = &fixture;

    call.uploads = (struct meta_list_uploads){.bucket_id = r->f.bucket_id,
                                              .generation = r->f.generation,
                                              .limit = 1000,
                                              .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_list_uploads), RC_OK);
    assert_int_equal(call.uploads.entry_count, 1);
    note(to, call.uploads.entries[0].name, call.uploads.entries[0].upload);
    struct slice id = message_bytes(call.uploads.entries[0].upload->upload_id);

    call.parts = (struct meta_list_parts){.bucket_id = r->f.bucket_id,
                                          .generation = r->f.generation,
                                          .key = SLICE("upload"),
                                          .upload_id = id,
                                          .limit = 10,
                                          .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_list_parts), RC_OK);
    note(to, SLICE("parts"), call.parts.upload);
    buffer_printf(to, "%zu %d\n", call.parts.part_count, call.parts.truncated);
}

static void ask_walks(struct buffer *to)
{
    struct meta_rpc_fixture *r = &fixture;

    call.scan = (struct meta_scan){.limit = 100, .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_scan), RC_OK);
    assert_true(call.scan.item_count > 0);
    for (uint32_t i = 0; i < call.scan.item_count; i++) {
        note(to, call.scan.items[i].key, call.scan.items[i].piece);
        note(to, call.scan.items[i].layout_id, NULL);
        buffer_append_u64(to, call.scan.items[i].bucket_id);
    }
    note(to, call.scan.next_cursor, NULL);
    call.repairs = (struct meta_repairs){.limit = 100, .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_repairs), RC_OK);
    buffer_append_u64(to, call.repairs.repair_count);
    call.jobs = (struct meta_jobs){.limit = 100, .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_jobs), RC_OK);
    buffer_append_u64(to, call.jobs.job_count);
    call.changes = (struct meta_changes){.limit = 100, .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_changes), RC_OK);
    for (uint32_t i = 0; i < call.changes.change_count; i++) {
        note(to, SLICE_EMPTY, call.changes.changes[i].change);
        buffer_append_u64(to, call.changes.changes[i].stamp + call.changes.changes[i].number);
    }
    buffer_append_u64(to, call.changes.next_stamp);
    buffer_append_u64(to, call.changes.feed_bytes);
}

static void ask_object(struct buffer *to, const char *key)
{
    struct meta_rpc_fixture *r = &fixture;
    const Kist__Record *record;

    call.get = (struct meta_get){.bucket_id = r->f.bucket_id,
                                 .generation = r->f.generation,
                                 .key = slice_str(key),
                                 .want_body = true,
                                 .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_get), RC_OK);
    record = call.get.record;
    note(to, call.get.body, record);
    note(to, SLICE("marker"), call.get.marker);
    buffer_printf(to, "%d\n", call.get.is_current);
    r->f.meta->release(r->f.meta, &call.get);
    if (record == NULL || record->n_pieces == 0) {
        return;
    }
    call.pieces = (struct meta_pieces){.bucket_id = r->f.bucket_id,
                                       .key = slice_str(key),
                                       .layout_id = message_bytes(record->layout_id),
                                       .limit = 4,
                                       .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_pieces), RC_OK);
    for (size_t i = 0; i < call.pieces.piece_count; i++) {
        note(to, SLICE("piece"), call.pieces.pieces[i]);
    }
    buffer_append_u64(to, call.pieces.first_offset);
}

static void ask_all(struct buffer *to)
{
    ask_list(to, true, SLICE_EMPTY);
    ask_list(to, false, SLICE("/"));
    ask_versions(to);
    ask_uploads(to);
    ask_walks(to);
    ask_object(to, "a1");
    ask_object(to, "large");
    ask_object(to, "absent");
}

static void put_upload(void)
{
    struct meta_rpc_fixture *r = &fixture;
    Kist__CreateUpload create = KIST__CREATE_UPLOAD__INIT;
    Kist__Upload upload = KIST__UPLOAD__INIT;
    Kist__Record record = KIST__RECORD__INIT;
    static uint8_t id[24] = {1, 2, 3};
    Kist__Reply *reply;

    upload.upload_id = (ProtobufCBinaryData){.len = sizeof(id), .data = id};
    upload.template_ = &record;
    create.bucket_id = r->f.bucket_id;
    create.generation = r->f.generation;
    create.key = text_of("upload");
    create.upload = &upload;
    assert_int_equal(
        metad_fixture_write(&r->f, META_CREATE_UPLOAD, &create.base, SLICE_EMPTY, &reply), RC_OK);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
}

/* A gateway must not be able to tell whether its metad is in the same process. */
static void answers_are_the_same(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    struct buffer direct;
    struct buffer remote;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    for (int i = 0; i < 12; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), i % 3 == 0 ? "d%d/x" : "a%d", i);
        assert_int_equal(metad_fixture_put_inline(&r->f, key, key), RC_OK);
    }
    assert_int_equal(metad_fixture_put(&r->f, "large", 1 << 20), RC_OK);
    put_upload();
    buffer_init(&direct);
    buffer_init(&remote);
    ask_all(&remote);
    r->f.meta = r->local;
    ask_all(&direct);
    r->f.meta = meta_remote_client(r->remote);
    assert_true(remote.len > 500);
    assert_true(slice_eq(buffer_slice(&remote), buffer_slice(&direct)));
    buffer_deinit(&direct);
    buffer_deinit(&remote);
    meta_rpc_fixture_deinit(r);
}

/* A refusal means the same over the wire: a gateway judges again only when it is told RC_STALE. */
static void refusals_are_the_same(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    enum rc rc;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    r->f.generation += 5;
    assert_null(metad_fixture_get(&r->f, "k", NULL, &rc));
    assert_int_equal(rc, RC_STALE);
    assert_non_null(strstr(r->f.error.text, "generation"));
    r->f.generation -= 5;
    call.parts = (struct meta_list_parts){.bucket_id = r->f.bucket_id,
                                          .generation = r->f.generation,
                                          .key = SLICE("upload"),
                                          .upload_id = SLICE("012345678901234567890123"),
                                          .limit = 10,
                                          .arena = &r->f.arena};
    assert_int_equal(metad_fixture_call(&r->f, start_list_parts), RC_NOT_FOUND);
    meta_rpc_fixture_deinit(r);
}

/* ---- Exactly once ---- */

static uint64_t minted(struct meta_rpc_fixture *r)
{
    Kist__Mint mint = KIST__MINT__INIT;
    Kist__Reply *reply;

    mint.name = text_of("disk");
    mint.count = 1;
    assert_int_equal(metad_fixture_write(&r->f, META_MINT, &mint.base, SLICE_EMPTY, &reply), RC_OK);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    return reply->first;
}

/* A write of its own, while the fixture does other things. */
struct lone_write {
    struct task task;
    struct meta_write write;
    Kist__Mint mint;
    bool done;
    enum rc rc;
};

static enum step_result lone_step(struct task *task)
{
    struct lone_write *lone = CONTAINER_OF(task, struct lone_write, task);
    struct meta_client *meta = meta_remote_client(fixture.remote);

    return meta->write(meta, &lone->write, task);
}

static const struct step lone_steps[] = {
    {"write", lone_step},
    {NULL,    NULL     }
};

static void lone_done(struct task *task)
{
    struct lone_write *lone = CONTAINER_OF(task, struct lone_write, task);

    lone->rc = task->error.rc;
    lone->done = true;
}

static bool lone_is_done(void *arg)
{
    return ((struct lone_write *)arg)->done;
}

static void lone_start(struct lone_write *lone, uint64_t deadline_ms)
{
    *lone = (struct lone_write){.mint = KIST__MINT__INIT};
    lone->mint.name = text_of("disk");
    lone->mint.count = 1;
    lone->write = (struct meta_write){.command = META_MINT,
                                      .message = &lone->mint.base,
                                      .deadline_ms = deadline_ms,
                                      .arena = &fixture.f.arena};
    task_start(&lone->task, lone_steps, lone_done);
}

static bool one_connected(void *arg)
{
    return wire_connections(fixture.wire) > *(uint32_t *)arg;
}

/* A connection that breaks at any byte, either way, neither loses a write nor does it twice: minted
 * numbers have no gap and no repeat. */
static void a_write_is_done_once_wherever_the_wire_breaks(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    uint64_t repeats = 0;
    uint64_t last;

    (void)state;
    meta_rpc_fixture_init(r);
    last = minted(r);
    for (uint64_t at = 1; at < 700; at += 1) {
        for (int way = 0; way < 2; way++) {
            struct meta_remote_stats stats;
            struct wire_fault fault;
            struct lone_write lone;
            uint32_t connections;

            wire_fault_none(&fault);
            *(way == 0 ? &fault.cut_to_server_at : &fault.cut_to_client_at) = at;
            wire_set(r->wire, &fault);
            connections = wire_connections(r->wire);
            meta_rpc_fixture_connect(r, false);
            lone_start(&lone, 0);
            assert_true(sim_run_until(r->f.sim, one_connected, &connections, SIM_S));
            wire_fault_none(&fault); /* of the next ones */
            wire_set(r->wire, &fault);
            assert_true(sim_run_until(r->f.sim, lone_is_done, &lone, 40 * SIM_S));
            assert_int_equal(lone.rc, RC_OK);
            assert_int_equal(lone.write.reply->first, last + 1);
            last += 1;
            meta_remote_stats(r->remote, &stats);
            repeats += stats.repeats;
            meta_rpc_fixture_disconnect(r);
        }
    }
    assert_true(repeats > 200);
    meta_rpc_fixture_deinit(r);
}

static void crash_and_restart(struct meta_rpc_fixture *r, enum sim_crash how)
{
    metad_fixture_crash(&r->f, how);
    assert_int_equal(metad_fixture_open(&r->f, false), RC_OK);
    r->local = r->f.meta;
    meta_rpc_fixture_serve(r);
    r->f.meta = meta_remote_client(r->remote);
}

/* Nor does a metad that dies at any moment of its work and comes back. */
static void a_write_is_done_once_when_metad_dies(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    uint64_t last;

    (void)state;
    meta_rpc_fixture_init(r);
    last = minted(r);
    meta_rpc_fixture_connect(r, true);
    for (uint64_t i = 0; i < 60; i++) {
        struct lone_write lone;

        lone_start(&lone, 0);
        sim_run_for(r->f.sim, i * 40 * SIM_US);
        crash_and_restart(r, i % 2 == 0 ? SIM_KILL : SIM_POWER);
        assert_true(sim_run_until(r->f.sim, lone_is_done, &lone, 40 * SIM_S));
        assert_int_equal(lone.rc, RC_OK);
        assert_int_equal(lone.write.reply->outcome, KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(lone.write.reply->first, last + 1);
        last += 1;
    }
    meta_rpc_fixture_deinit(r);
}

/* Past its deadline a write that may have been taken is ambiguous, one that cannot have been is
 * not: a caller may do the latter again by other means. And what was given up does not come true
 * later. */
static void a_deadline_says_what_is_known(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    struct lone_write lone;
    struct wire_fault fault;
    uint64_t last;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    last = minted(r);
    wire_hold(r->wire, true); /* it goes, and nothing comes back */
    lone_start(&lone, 3000);
    assert_true(sim_run_until(r->f.sim, lone_is_done, &lone, 4 * SIM_S));
    assert_int_equal(lone.rc, RC_AMBIGUOUS);
    wire_hold(r->wire, false);
    sim_run_for(r->f.sim, 10 * SIM_S);
    assert_int_equal(minted(r), last + 1);
    meta_rpc_fixture_disconnect(r);
    wire_fault_none(&fault);
    fault.cut_to_server_at = 1;
    meta_rpc_fixture_unserve(r); /* nobody listens */
    meta_rpc_fixture_connect(r, false);
    lone_start(&lone, 3000);
    assert_true(sim_run_until(r->f.sim, lone_is_done, &lone, 4 * SIM_S));
    assert_int_equal(lone.rc, RC_NO_QUORUM);
    meta_rpc_fixture_serve(r);
    meta_rpc_fixture_deinit(r);
}

/* ---- Views ---- */

static void make_bucket(struct meta_rpc_fixture *r, const char *name)
{
    Kist__CreateBucket create = KIST__CREATE_BUCKET__INIT;
    Kist__Reply *reply;

    create.name = text_of(name);
    create.owner = text_of("root");
    assert_int_equal(
        metad_fixture_write(&r->f, META_CREATE_BUCKET, &create.base, SLICE_EMPTY, &reply), RC_OK);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
}

/* A refresh sees what was answered before it began: a gateway's "no such bucket" rests on that. */
static void a_refresh_sees_what_was_answered(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    uint64_t version = 0;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    for (int i = 0; i < 40; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "bucket-%d", i);
        make_bucket(r, name);
        assert_int_equal(metad_fixture_refresh(&r->f), RC_OK);
        assert_non_null(view_bucket(r->f.meta->view(r->f.meta), slice_str(name)));
        assert_true(view_version(r->f.meta->view(r->f.meta)) > version);
        version = view_version(r->f.meta->view(r->f.meta));
    }
    meta_rpc_fixture_deinit(r);
}

static bool knows_late(void *arg)
{
    struct meta_rpc_fixture *r = arg;

    return view_bucket(r->f.meta->view(r->f.meta), SLICE("late")) != NULL;
}

/* Without a refresh a change arrives by itself, soon: keys that were taken away stop working. */
static void a_change_arrives_by_itself(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    uint64_t stamp;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    sim_run_for(r->f.sim, 3 * SIM_S);
    assert_true(r->f.meta->ready(r->f.meta));
    make_bucket(r, "late");
    assert_true(sim_run_until(r->f.sim, knows_late, r, 50 * SIM_MS));
    stamp = r->f.meta->change_stamp(r->f.meta);
    assert_true(stamp == r->local->change_stamp(r->local));
    meta_rpc_fixture_unserve(r);
    sim_run_for(r->f.sim, 10 * SIM_S);
    assert_false(r->f.meta->ready(r->f.meta));
    meta_rpc_fixture_serve(r);
    sim_run_for(r->f.sim, 3 * SIM_S);
    assert_true(r->f.meta->ready(r->f.meta));
    meta_rpc_fixture_deinit(r);
}

/* Views larger than a frame come in parts, also while they are replaced. */
static void a_large_view_comes_whole(void **state)
{
    struct meta_rpc_fixture *r = &fixture;
    Kist__PutSetting put = KIST__PUT_SETTING__INIT;
    Kist__Settings settings = KIST__SETTINGS__INIT;
    Kist__Policy json = KIST__POLICY__INIT;
    static char policy[20000];
    uint64_t seen = 0;

    (void)state;
    meta_rpc_fixture_init(r);
    meta_rpc_fixture_connect(r, true);
    memset(policy, ' ', sizeof(policy));
    for (int i = 0; i < 120; i++) {
        char name[32];
        Kist__Reply *reply;
        const Kist__Bucket *bucket;

        (void)snprintf(name, sizeof(name), "bucket-%d", i);
        make_bucket(r, name);
        assert_int_equal(metad_fixture_refresh(&r->f), RC_OK);
        bucket = view_bucket(r->f.meta->view(r->f.meta), slice_str(name));
        assert_non_null(bucket);
        put.name = text_of(name);
        put.bucket_id = bucket->id;
        put.setting = 7; /* POLICY */
        json.json = (ProtobufCBinaryData){.len = sizeof(policy), .data = (uint8_t *)policy};
        settings.policy = &json;
        put.value = &settings;
        assert_int_equal(
            metad_fixture_write(&r->f, META_PUT_SETTING, &put.base, SLICE_EMPTY, &reply), RC_OK);
        assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
        if (i > 100 && i % 5 == 0) {
            meta_rpc_fixture_disconnect(r);
            meta_rpc_fixture_connect(r, false); /* its first view is replaced while it comes */
            sim_run_for(r->f.sim, 700 * SIM_US);
        }
        seen += sizeof(policy);
    }
    assert_int_equal(metad_fixture_refresh(&r->f), RC_OK);
    assert_int_equal(view_bucket_count(r->f.meta->view(r->f.meta)), 121);
    assert_true(seen > 2 * 1024 * 1024);
    meta_rpc_fixture_deinit(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same),
        cmocka_unit_test(refusals_are_the_same),
        cmocka_unit_test(a_write_is_done_once_wherever_the_wire_breaks),
        cmocka_unit_test(a_write_is_done_once_when_metad_dies),
        cmocka_unit_test(a_deadline_says_what_is_known),
        cmocka_unit_test(a_refresh_sees_what_was_answered),
        cmocka_unit_test(a_change_arrives_by_itself),
        cmocka_unit_test(a_large_view_comes_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
