/* Open uploads and their parts: the `uploads` family holds nothing else, so both are short scans.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "metad/service/read.h"
#include "metad/store/message.h"

/* ---- Parts of one upload ---- */

static enum rc load_upload(struct read_context *read, struct meta_list_parts *call)
{
    struct row_key key;
    void *upload = NULL;
    enum rc rc;

    if (call->upload_id.len != ID_BYTES) {
        return RC_NOT_FOUND;
    }
    key_object(&key, call->bucket_id, call->key, KIND_UPLOAD, call->upload_id);
    rc = read_load(read, FAMILY_UPLOADS, &key, &kist__upload__descriptor, call->arena, &upload);
    call->upload = upload;
    return rc;
}

static enum rc walk_parts(struct read_context *read, struct meta_list_parts *call)
{
    struct row_key prefix;
    struct row_key start;
    struct read_walk walk;
    enum rc rc = RC_OK;

    key_object(&prefix, call->bucket_id, call->key, KIND_PART, call->upload_id);
    key_object_u32(&start, call->bucket_id, call->key, KIND_PART, call->upload_id, call->after + 1);
    read_walk_open(&walk, read, FAMILY_UPLOADS, &start, &prefix, false);
    while (rc == RC_OK && read_walk_valid(&walk) && call->part_count < call->limit) {
        Kist__Part *part =
            message_unpack(call->arena, &kist__part__descriptor, read_walk_value(&walk));

        if (part == NULL) {
            rc = read_corrupt(read, "a part row");
        } else {
            call->parts[call->part_count++] = part;
            rc = read_walk_next(&walk) ? RC_OK : RC_AGAIN;
        }
    }
    if (rc == RC_OK) {
        call->truncated = read_walk_valid(&walk);
        rc = call->truncated ? RC_OK : read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}

enum rc read_list_parts(struct read_context *read, void *arg)
{
    struct meta_list_parts *call = arg;
    enum rc rc = read_check_bucket(read, call->bucket_id, call->generation);

    call->part_count = 0;
    call->truncated = false;
    if (!read->again) {
        call->parts = NULL;
    }
    if (rc == RC_OK) {
        rc = load_upload(read, call);
    }
    if (rc != RC_OK || call->limit == 0 || call->after >= LIMIT_PARTS) {
        return rc;
    }
    if (call->parts == NULL) {
        uint32_t limit = call->limit < LIMIT_PARTS ? call->limit : LIMIT_PARTS;

        call->limit = limit;
        call->parts = arena_alloc_raw(call->arena, limit * sizeof(*call->parts));
    }
    return walk_parts(read, call);
}

/* ---- Uploads of a bucket ---- */

static bool uploads_start(const struct meta_list_uploads *call, const struct row_key *prefix,
                          struct row_key *start)
{
    *start = *prefix;
    if (call->after_key.len == 0) {
        return true;
    }
    if (call->after_key.len > LIMIT_KEY_BYTES) {
        return false;
    }
    if (call->after_prefix) {
        key_object_prefix(start, call->bucket_id, call->after_key);
        if (!row_key_after_prefix(start)) {
            return false;
        }
    } else if (call->after_upload.len == ID_BYTES) {
        key_object(start, call->bucket_id, call->after_key, KIND_UPLOAD, call->after_upload);
        row_key_append(start, SLICE("\0"));
    } else {
        key_object_end(start, call->bucket_id, call->after_key);
    }
    if (slice_cmp(row_key_slice(start), row_key_slice(prefix)) < 0) {
        *start = *prefix;
    }
    return true;
}

static enum rc add_upload(struct read_walk *walk, struct meta_list_uploads *call,
                          const struct row_name *name)
{
    struct slice prefix =
        slice_of(name->key.data, read_rolled_up(name->key, call->prefix.len, call->delimiter));
    struct row_key next;
    const Kist__Upload *upload;

    if (prefix.len > 0) {
        call->entries[call->entry_count++] =
            (struct meta_upload_entry){.name = arena_copy(call->arena, prefix)};
        key_object_prefix(&next, call->bucket_id, prefix);
        if (!row_key_after_prefix(&next)) {
            return read_corrupt(walk->read, "a key without successor");
        }
        return read_walk_seek(walk, &next) ? RC_OK : RC_AGAIN;
    }
    upload = message_unpack(call->arena, &kist__upload__descriptor, read_walk_value(walk));
    if (upload == NULL) {
        return read_corrupt(walk->read, "an upload row");
    }
    call->entries[call->entry_count++] =
        (struct meta_upload_entry){.name = arena_copy(call->arena, name->key), .upload = upload};
    return read_walk_next(walk) ? RC_OK : RC_AGAIN;
}

/* Parts of a key stand behind its uploads: one seek leaves them all behind. */
static enum rc skip_parts(struct read_walk *walk, const struct meta_list_uploads *call,
                          const struct row_name *name)
{
    struct row_key next;

    key_object_end(&next, call->bucket_id, name->key);
    return read_walk_seek(walk, &next) ? RC_OK : RC_AGAIN;
}

/* Stands on the next upload, or at the end. */
static enum rc next_upload(struct read_walk *walk, const struct meta_list_uploads *call,
                           struct row_name *name)
{
    enum rc rc = RC_OK;

    while (rc == RC_OK && read_walk_valid(walk)) {
        if (!row_name_parse(call->arena, read_walk_key(walk), name)) {
            return read_corrupt(walk->read, "a key of the uploads family");
        }
        if (name->kind == KIND_UPLOAD) {
            return RC_OK;
        }
        rc = skip_parts(walk, call, name);
    }
    return rc;
}

enum rc read_list_uploads(struct read_context *read, void *arg)
{
    struct meta_list_uploads *call = arg;
    struct row_key prefix;
    struct row_key start;
    struct read_walk walk;
    struct row_name name = {.bucket_id = 0};
    enum rc rc = read_check_bucket(read, call->bucket_id, call->generation);

    call->entry_count = 0;
    call->truncated = false;
    if (rc != RC_OK || call->prefix.len > LIMIT_KEY_BYTES) {
        return rc;
    }
    if (!read->again) {
        ASSERT(call->limit >= 1);
        ASSERT(call->limit <= LIMIT_LIST_KEYS);
        call->entries = arena_alloc_raw(call->arena, call->limit * sizeof(*call->entries));
    }
    key_object_prefix(&prefix, call->bucket_id, call->prefix);
    if (!uploads_start(call, &prefix, &start)) {
        return RC_OK;
    }
    read_walk_open(&walk, read, FAMILY_UPLOADS, &start, &prefix, false);
    rc = next_upload(&walk, call, &name);
    while (rc == RC_OK && read_walk_valid(&walk) && call->entry_count < call->limit) {
        rc = add_upload(&walk, call, &name);
        if (rc == RC_OK) {
            rc = next_upload(&walk, call, &name);
        }
    }
    if (rc == RC_OK) {
        call->truncated = read_walk_valid(&walk);
        rc = call->truncated ? RC_OK : read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}
