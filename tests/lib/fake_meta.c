/* Calls and the view; rows are in fake_meta_rows.c, listings in fake_meta_list.c, what commands do
 * in fake_meta_write.c. */
#include "tests/lib/fake_meta.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "metad/store/message.h"
#include "tests/lib/fake_meta_store.h"

/* ---- The view ---- */

static ProtobufCBinaryData owned_bytes(struct slice from)
{
    uint8_t *data = malloc(from.len + 1);

    ASSERT(data != NULL);
    memcpy(data, from.data, from.len);
    return (ProtobufCBinaryData){.len = from.len, .data = data};
}

static Kist__Bucket *view_row_bucket(const struct fake_bucket *from)
{
    Kist__Bucket *bucket = malloc(sizeof(*bucket));

    ASSERT(bucket != NULL);
    kist__bucket__init(bucket);
    bucket->name = owned_bytes(from->name);
    bucket->owner = owned_bytes(from->owner);
    bucket->id = from->id;
    bucket->generation = from->generation;
    bucket->created = from->created;
    if (from->settings.len > 0) {
        bucket->settings =
            kist__settings__unpack(NULL, from->settings.len, (const uint8_t *)from->settings.data);
        ASSERT(bucket->settings != NULL);
    }
    return bucket;
}

static Kist__PlacementGroup *view_row_group(void)
{
    Kist__PlacementGroup *group = malloc(sizeof(*group));

    ASSERT(group != NULL);
    kist__placement_group__init(group);
    group->id = 1;
    group->epoch = 1;
    group->data_shards = 2;
    group->parity_shards = 1;
    group->n_disks = 3;
    group->disks = malloc(3 * sizeof(*group->disks));
    ASSERT(group->disks != NULL);
    for (uint64_t i = 0; i < 3; i++) {
        group->disks[i] = i;
    }
    return group;
}

void fake_meta_publish(struct fake_meta *meta)
{
    Kist__Bucket *buckets[FAKE_META_BUCKETS_MAX];
    Kist__User *users[8];
    Kist__AccessKey *keys[8];
    Kist__PlacementGroup *groups[1];
    struct view_disk disks[3] = {
        {0, true},
        {1, true},
        {2, true}
    };
    struct view_parts parts = {.version = ++meta->version,
                               .buckets = buckets,
                               .bucket_count = meta->bucket_count,
                               .users = users,
                               .user_count = meta->user_count,
                               .keys = keys,
                               .key_count = meta->user_count,
                               .groups = groups,
                               .group_count = meta->placed ? 1 : 0,
                               .disks = disks,
                               .disk_count = 3};

    ASSERT(meta->user_count <= 8);
    for (size_t i = 0; i < meta->bucket_count; i++) {
        buckets[i] = view_row_bucket(&meta->buckets[i]);
    }
    for (size_t i = 0; i < meta->user_count; i++) {
        users[i] = malloc(sizeof(*users[i]));
        keys[i] = malloc(sizeof(*keys[i]));
        ASSERT(users[i] != NULL && keys[i] != NULL);
        kist__user__init(users[i]);
        kist__access_key__init(keys[i]);
        users[i]->name = owned_bytes(slice_str(meta->users[i].user));
        keys[i]->access_key = owned_bytes(slice_str(meta->users[i].access_key));
        keys[i]->secret_key = owned_bytes(slice_str(meta->users[i].secret_key));
        keys[i]->user = owned_bytes(slice_str(meta->users[i].user));
    }
    groups[0] = meta->placed ? view_row_group() : NULL;
    if (meta->view != NULL) {
        view_unref(meta->view);
    }
    meta->view = view_new(&parts);
}

/* ---- Answers, at once or later ---- */

struct later {
    struct env_timer timer;
    struct task *task;
    enum rc rc;
};

static void later_fire(struct env_timer *timer)
{
    struct later *later = CONTAINER_OF(timer, struct later, timer);
    struct task *task = later->task;
    enum rc rc = later->rc;

    mem_free(later);
    task_resume(task, rc);
}

enum step_result fake_meta_answer(struct fake_meta *meta, struct task *task, enum rc rc)
{
    struct later *later;

    if (!meta->later) {
        return rc == RC_OK ? STEP_NEXT : task_fail(task, rc, "%s", rc_text(rc));
    }
    later = mem_alloc(sizeof(*later));
    later->task = task;
    later->rc = rc;
    later->timer.fire = later_fire;
    meta->env->clock->timer_start(meta->env, &later->timer, 1000000);
    return STEP_WAIT;
}

/* ---- Reads ---- */

static struct fake_meta *meta_of(struct meta_client *client)
{
    return CONTAINER_OF(client, struct fake_meta, base);
}

static enum step_result fake_get(struct meta_client *client, struct meta_get *call,
                                 struct task *task)
{
    struct fake_meta *meta = meta_of(client);
    const struct fake_object *object;

    if (meta->stale_reads > 0) {
        meta->stale_reads -= 1;
        return fake_meta_answer(meta, task, RC_STALE);
    }
    meta->gets += 1;
    object = fake_version_find(meta, call->bucket_id, call->key, call->version);
    call->record = NULL;
    call->marker = NULL;
    call->is_current = object != NULL && fake_object_newest(meta, object);
    call->body = SLICE_EMPTY;
    if (object != NULL && object->marker) {
        call->marker = fake_object_record(object, call->arena, 0);
    } else if (object != NULL) {
        call->record = fake_object_record(object, call->arena, LIMIT_RECORD_PIECES);
        if (call->want_body) {
            call->body = object->body;
        }
    }
    return fake_meta_answer(meta, task, RC_OK);
}

static void fake_release(struct meta_client *client, struct meta_get *call)
{
    (void)call;
    meta_of(client)->releases += 1;
    ASSERT(meta_of(client)->releases <= meta_of(client)->gets);
}

static const struct fake_object *object_of_layout(struct fake_meta *meta, uint64_t bucket_id,
                                                  struct slice key, struct slice layout_id,
                                                  struct arena *arena)
{
    for (size_t i = 0; i < meta->object_count; i++) {
        const struct fake_object *object = &meta->objects[i];

        if (object->bucket_id == bucket_id && slice_eq(object->key, key) &&
            slice_eq(message_bytes(fake_object_record(object, arena, 0)->layout_id), layout_id)) {
            return object;
        }
    }
    return NULL;
}

static enum step_result fake_pieces(struct meta_client *client, struct meta_pieces *call,
                                    struct task *task)
{
    struct fake_meta *meta = meta_of(client);
    const struct fake_object *object =
        object_of_layout(meta, call->bucket_id, call->key, call->layout_id, call->arena);
    Kist__LayoutChunk *chunk;
    uint64_t at = 0;
    size_t first = 0;

    if (object == NULL) {
        return fake_meta_answer(meta, task, RC_NOT_FOUND);
    }
    chunk = message_unpack(call->arena, &kist__layout_chunk__descriptor, object->layout);
    while (first < chunk->n_pieces && at + chunk->pieces[first]->length <= call->offset) {
        at += chunk->pieces[first]->length;
        first += 1;
    }
    call->pieces = chunk->pieces + first;
    call->piece_count = chunk->n_pieces - first;
    if (call->piece_count > call->limit) {
        call->piece_count = call->limit;
    }
    call->first_offset = at;
    return fake_meta_answer(meta, task, RC_OK);
}

static enum step_result fake_part_range(struct meta_client *client, struct meta_part_range *call,
                                        struct task *task)
{
    struct fake_meta *meta = meta_of(client);
    const struct fake_object *object =
        object_of_layout(meta, call->bucket_id, call->key, call->layout_id, call->arena);
    Kist__LayoutChunk *chunk;

    if (object == NULL) {
        return fake_meta_answer(meta, task, RC_NOT_FOUND);
    }
    chunk = message_unpack(call->arena, &kist__layout_chunk__descriptor, object->layout);
    if (call->number == 0 || call->number > chunk->n_parts) {
        return fake_meta_answer(meta, task, RC_NOT_FOUND);
    }
    call->offset = 0;
    for (uint32_t i = 0; i + 1 < call->number; i++) {
        call->offset += chunk->parts[i]->size;
    }
    call->part = chunk->parts[call->number - 1];
    call->size = call->part->size;
    return fake_meta_answer(meta, task, RC_OK);
}

static enum step_result fake_list_parts(struct meta_client *client, struct meta_list_parts *call,
                                        struct task *task)
{
    struct fake_meta *meta = meta_of(client);
    const struct fake_upload *upload =
        fake_upload_find(meta, call->bucket_id, call->key, call->upload_id);

    if (upload == NULL || upload->completed) {
        return fake_meta_answer(meta, task, RC_NOT_FOUND);
    }
    call->upload = message_unpack(call->arena, &kist__upload__descriptor, upload->row);
    call->parts = arena_alloc(call->arena, (call->limit + 1) * sizeof(*call->parts));
    call->part_count = 0;
    call->truncated = false;
    for (uint32_t i = call->after + 1; call->limit > 0 && i < ARRAY_LEN(upload->parts); i++) {
        if (upload->parts[i].len == 0) {
            continue;
        }
        if (call->part_count == call->limit) {
            call->truncated = true;
            break;
        }
        call->parts[call->part_count++] =
            message_unpack(call->arena, &kist__part__descriptor, upload->parts[i]);
    }
    return fake_meta_answer(meta, task, RC_OK);
}

static enum step_result fake_refresh(struct meta_client *client, struct meta_refresh *call,
                                     struct task *task)
{
    struct fake_meta *meta = meta_of(client);

    (void)call;
    meta->refreshes += 1;
    fake_meta_publish(meta);
    return fake_meta_answer(meta, task, RC_OK);
}

static struct view *fake_view(struct meta_client *client)
{
    return meta_of(client)->view;
}

static bool fake_ready(struct meta_client *client)
{
    (void)client;
    return true;
}

void fake_meta_init(struct fake_meta *meta, struct env *env)
{
    *meta = (struct fake_meta){
        .base = {.get = fake_get,
                 .release = fake_release,
                 .list = fake_list,
                 .list_versions = fake_list_versions,
                 .pieces = fake_pieces,
                 .part_range = fake_part_range,
                 .list_parts = fake_list_parts,
                 .list_uploads = fake_list_uploads,
                 .write = fake_meta_write,
                 .refresh = fake_refresh,
                 .view = fake_view,
                 .ready = fake_ready},
        .env = env,
        .stamp = 1700000000ULL * 1000000000ULL,
        .part_bytes_min = LIMIT_PART_BYTES_MIN,
    };
    arena_init(&meta->arena);
}

void fake_meta_deinit(struct fake_meta *meta)
{
    if (meta->view != NULL) {
        view_unref(meta->view);
    }
    mem_free(meta->objects);
    mem_free(meta->uploads);
    arena_deinit(&meta->arena);
}
