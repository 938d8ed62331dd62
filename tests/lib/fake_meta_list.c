/* Listings of fake_meta: one pass over its rows. */
#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/client/version_id.h"
#include "metad/store/message.h"
#include "tests/lib/fake_meta_store.h"

/* Length of the common prefix that `key` rolls up into; 0: none. */
static size_t rolled_up(struct slice key, struct slice prefix, struct slice delimiter)
{
    if (delimiter.len == 0) {
        return 0;
    }
    for (size_t i = prefix.len; i + delimiter.len <= key.len; i++) {
        if (memcmp(key.data + i, delimiter.data, delimiter.len) == 0) {
            return i + delimiter.len;
        }
    }
    return 0;
}

static bool listed_before(const struct meta_list *call, struct slice key)
{
    return call->after_prefix ? slice_cmp(key, call->after) <= 0 || slice_starts(key, call->after)
                              : call->after.len > 0 && slice_cmp(key, call->after) <= 0;
}

enum step_result fake_list(struct meta_client *client, struct meta_list *call, struct task *task)
{
    struct fake_meta *meta = CONTAINER_OF(client, struct fake_meta, base);

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    call->entries = arena_alloc(call->arena, call->limit * sizeof(*call->entries));
    call->entry_count = 0;
    call->truncated = false;
    for (size_t i = 0; i < meta->object_count; i++) {
        const struct fake_object *object = &meta->objects[i];
        struct slice name = object->key;
        size_t rolled = rolled_up(name, call->prefix, call->delimiter);

        if (object->bucket_id != call->bucket_id || !slice_starts(name, call->prefix) ||
            listed_before(call, name) || object->marker || !fake_object_newest(meta, object)) {
            continue;
        }
        if (rolled > 0) {
            name.len = rolled;
            if (call->entry_count > 0 &&
                slice_eq(call->entries[call->entry_count - 1].name, name)) {
                continue;
            }
        }
        if (call->entry_count == call->limit) {
            call->truncated = true;
            break;
        }
        call->entries[call->entry_count].name = arena_copy(call->arena, name);
        call->entries[call->entry_count].record =
            rolled > 0 ? NULL : fake_object_record(object, call->arena, LIMIT_RECORD_PIECES);
        call->entry_count += 1;
    }
    return fake_meta_answer(meta, task, RC_OK);
}

static bool version_before(const struct meta_list_versions *call, const struct fake_object *object)
{
    int order = slice_cmp(object->key, call->after);
    uint64_t stamp = 0;
    uint32_t tie;

    if (call->after_prefix) {
        return order <= 0 || slice_starts(object->key, call->after);
    }
    if (call->after.len == 0 || order != 0) {
        return call->after.len > 0 && order < 0;
    }
    return !version_id_unpack(call->after_version, &stamp, &tie) || object->stamp >= stamp;
}

/* "null" becomes the id of the version that it names now. */
static void after_null(const struct fake_meta *meta, struct meta_list_versions *call)
{
    const struct fake_object *object =
        fake_version_find(meta, call->bucket_id, call->after, SLICE("null"));
    uint8_t *id = arena_alloc(call->arena, VERSION_ID_BYTES);

    if (version_id_is_null(call->after_version)) {
        version_id_pack(id, object != NULL ? object->stamp : UINT64_MAX, 0);
        call->after_version = slice_of(id, VERSION_ID_BYTES);
    }
}

enum step_result fake_list_versions(struct meta_client *client, struct meta_list_versions *call,
                                    struct task *task)
{
    struct fake_meta *meta = CONTAINER_OF(client, struct fake_meta, base);

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    after_null(meta, call);
    call->entries = arena_alloc(call->arena, call->limit * sizeof(*call->entries));
    call->entry_count = 0;
    call->truncated = false;
    for (size_t i = 0; i < meta->object_count; i++) {
        const struct fake_object *object = &meta->objects[i];
        struct slice name = object->key;
        size_t rolled = rolled_up(name, call->prefix, call->delimiter);

        if (object->bucket_id != call->bucket_id || !slice_starts(name, call->prefix) ||
            version_before(call, object)) {
            continue;
        }
        name.len = rolled > 0 ? rolled : name.len;
        if (rolled > 0 && call->entry_count > 0 &&
            slice_eq(call->entries[call->entry_count - 1].name, name)) {
            continue;
        }
        if (call->entry_count == call->limit) {
            call->truncated = true;
            break;
        }
        call->entries[call->entry_count++] = (struct meta_version_entry){
            .name = arena_copy(call->arena, name),
            .record =
                rolled > 0 ? NULL : fake_object_record(object, call->arena, LIMIT_RECORD_PIECES),
            .is_latest = rolled == 0 && fake_object_newest(meta, object)};
    }
    return fake_meta_answer(meta, task, RC_OK);
}

static bool upload_before(const struct meta_list_uploads *call, const struct fake_upload *upload)
{
    int order = slice_cmp(upload->key, call->after_key);

    if (call->after_prefix) {
        return order <= 0 || slice_starts(upload->key, call->after_key);
    }
    if (call->after_key.len == 0 || order > 0) {
        return false;
    }
    return order < 0 || call->after_upload.len == 0 ||
           slice_cmp(upload->id, call->after_upload) <= 0;
}

enum step_result fake_list_uploads(struct meta_client *client, struct meta_list_uploads *call,
                                   struct task *task)
{
    struct fake_meta *meta = CONTAINER_OF(client, struct fake_meta, base);

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    call->entries = arena_alloc(call->arena, call->limit * sizeof(*call->entries));
    call->entry_count = 0;
    call->truncated = false;
    for (size_t i = 0; i < meta->upload_count; i++) {
        const struct fake_upload *upload = &meta->uploads[i];
        struct slice name = upload->key;
        size_t rolled = rolled_up(name, call->prefix, call->delimiter);

        if (upload->bucket_id != call->bucket_id || upload->completed ||
            !slice_starts(name, call->prefix) || upload_before(call, upload)) {
            continue;
        }
        if (rolled > 0) {
            name.len = rolled;
            if (call->entry_count > 0 &&
                slice_eq(call->entries[call->entry_count - 1].name, name)) {
                continue;
            }
        }
        if (call->entry_count == call->limit) {
            call->truncated = true;
            break;
        }
        call->entries[call->entry_count].name = arena_copy(call->arena, name);
        call->entries[call->entry_count].upload =
            rolled > 0 ? NULL : message_unpack(call->arena, &kist__upload__descriptor, upload->row);
        call->entry_count += 1;
    }
    return fake_meta_answer(meta, task, RC_OK);
}
