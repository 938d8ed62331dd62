#include "metad/apply/apply.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"

/* A row this entry wrote or deleted. */
struct overlay_row {
    struct slice name; /* family byte, key */
    struct slice value;
    bool deleted;
    struct overlay_row *next; /* of the family `history` */
};

void apply_init(struct apply *apply)
{
    hash_map_init(&apply->overlay);
    kist__reply__init(&apply->reply);
    apply->error = (struct error){.rc = RC_OK};
}

void apply_deinit(struct apply *apply)
{
    hash_map_deinit(&apply->overlay);
}

void apply_fail(struct apply *apply, const char *what)
{
    if (apply->error.rc == RC_OK) {
        (void)error_set(&apply->error, RC_CORRUPT, "%s", what);
    }
}

bool apply_refuse(struct apply *apply, Kist__Outcome outcome)
{
    ASSERT(outcome != KIST__OUTCOME__OUTCOME_OK);
    apply->reply.outcome = outcome;
    return false;
}

bool apply_refuse_text(struct apply *apply, Kist__Outcome outcome, const char *text)
{
    apply->reply.text = message_field(slice_str(text));
    return apply_refuse(apply, outcome);
}

bool apply_check_bucket(struct apply *apply, uint64_t bucket_id, uint64_t generation)
{
    uint64_t known = bucket_table_get(apply->buckets, bucket_id);

    if (known == 0) {
        return apply_refuse(apply, KIST__OUTCOME__NO_SUCH_BUCKET);
    }
    return known == generation || apply_refuse(apply, KIST__OUTCOME__STALE_GENERATION);
}

static const Kist__Bucket *bucket_load(struct apply *apply, uint64_t bucket_id)
{
    const Kist__Bucket *bucket;
    struct row_key row;

    key_range_u64(&row, apply->range_id, KIND_RANGE_BUCKET, bucket_id, SLICE_EMPTY);
    bucket = apply_load(apply, FAMILY_ROWS, &row, &kist__bucket__descriptor);
    if (bucket == NULL) {
        apply_fail(apply, "a bucket has no row");
    }
    return bucket;
}

const Kist__Bucket *apply_bucket(struct apply *apply, uint64_t bucket_id)
{
    uint64_t generation = bucket_table_get(apply->buckets, bucket_id);
    const Kist__Bucket *bucket =
        bucket_cache_get(apply->bucket_cache, bucket_id, generation, apply->stamp);
    struct slice value;
    struct row_key row;

    if (apply->bucket_changed == bucket_id) {
        return bucket_load(apply, bucket_id); /* this entry's own, which may yet be refused */
    }
    if (bucket != NULL) {
        return bucket;
    }
    key_range_u64(&row, apply->range_id, KIND_RANGE_BUCKET, bucket_id, SLICE_EMPTY);
    if (apply_get(apply, FAMILY_ROWS, &row, &value)) {
        bucket = bucket_cache_put(apply->bucket_cache, value, bucket_id, apply->stamp);
    }
    return bucket != NULL ? bucket : bucket_load(apply, bucket_id);
}

bool apply_check_key(struct apply *apply, ProtobufCBinaryData key)
{
    if (key.len >= 1 && key.len <= LIMIT_KEY_BYTES) {
        return true;
    }
    return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "length of the key");
}

bool apply_check_id(struct apply *apply, ProtobufCBinaryData id)
{
    return id.len == ID_BYTES ||
           apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "length of an id");
}

/* ---- Rows ---- */

enum { OVERLAY_NAME_BYTES_MAX = ROW_KEY_BYTES_MAX + 1 };

static struct slice overlay_name(enum family family, struct slice key,
                                 char name[OVERLAY_NAME_BYTES_MAX])
{
    ASSERT(key.len < OVERLAY_NAME_BYTES_MAX);
    name[0] = (char)family;
    memcpy(name + 1, key.data, key.len);
    return slice_of(name, key.len + 1);
}

/* NULL: this entry did not touch the row. */
static struct overlay_row *overlay_get(const struct apply *apply, enum family family,
                                       struct slice key)
{
    char name[OVERLAY_NAME_BYTES_MAX];

    if (apply->overlay.count == 0) {
        return NULL;
    }
    return hash_map_get(&apply->overlay, overlay_name(family, key, name));
}

/* Every row that an entry touches belongs to the range, or to root beside it. */
static void check_span(const struct apply *apply, enum family family, const struct row_key *key)
{
#ifndef NDEBUG
    ASSERT(family != FAMILY_LOCAL);
    ASSERT(key->len >= 8);
    if (be64_get(key->bytes) == 0) {
        uint64_t range_id = be64_get(key->bytes + 8);

        ASSERT(family == FAMILY_ROWS);
        ASSERT(range_id == RANGE_ROOT || range_id == apply->range_id);
    }
#else
    (void)apply;
    (void)family;
    (void)key;
#endif
}

static void overlay_set(struct apply *apply, enum family family, const struct row_key *key,
                        struct slice value, bool deleted)
{
    struct overlay_row *row = overlay_get(apply, family, row_key_slice(key));
    char name[OVERLAY_NAME_BYTES_MAX];

    check_span(apply, family, key);
    if (row == NULL) {
        row = arena_alloc(apply->arena, sizeof(*row));
        row->name = arena_copy(apply->arena, overlay_name(family, row_key_slice(key), name));
        (void)hash_map_put(&apply->overlay, row->name, row);
        if (family == FAMILY_HISTORY) {
            row->next = apply->history;
            apply->history = row;
        }
    }
    row->value = value;
    row->deleted = deleted;
}

bool apply_get(struct apply *apply, enum family family, const struct row_key *key,
               struct slice *value)
{
    const struct overlay_row *row = overlay_get(apply, family, row_key_slice(key));
    struct kv_pin pin;
    enum rc rc;

    check_span(apply, family, key);
    if (row != NULL) {
        *value = row->value;
        return !row->deleted;
    }
    if (apply->error.rc != RC_OK) {
        return false;
    }
    rc = kv_get(apply->kv, family, row_key_slice(key), KV_ANY, &pin, &apply->error);
    if (rc == RC_NOT_FOUND) {
        apply->error = (struct error){.rc = RC_OK};
        return false;
    }
    if (rc != RC_OK) {
        apply->error.rc = rc;
        return false;
    }
    *value = arena_copy(apply->arena, pin.value);
    kv_release(apply->kv, &pin);
    return true;
}

void *apply_load(struct apply *apply, enum family family, const struct row_key *key,
                 const ProtobufCMessageDescriptor *type)
{
    struct slice value;
    void *message;

    if (!apply_get(apply, family, key, &value)) {
        return NULL;
    }
    message = message_unpack(apply->arena, type, value);
    if (message == NULL) {
        apply_fail(apply, "a row of the state does not decode");
    }
    return message;
}

void apply_put(struct apply *apply, enum family family, const struct row_key *key,
               struct slice value)
{
    kv_batch_put(apply->batch, family, row_key_slice(key), value);
    overlay_set(apply, family, key, value, false);
}

void apply_put_message(struct apply *apply, enum family family, const struct row_key *key,
                       const ProtobufCMessage *message)
{
    apply_put(apply, family, key, message_pack(apply->arena, message));
}

void apply_delete(struct apply *apply, enum family family, const struct row_key *key)
{
    kv_batch_delete(apply->batch, family, row_key_slice(key));
    overlay_set(apply, family, key, SLICE_EMPTY, true);
}

Kist__Record *apply_current(struct apply *apply, uint64_t bucket_id, struct slice key)
{
    struct row_key row;

    key_current(&row, bucket_id, key);
    return apply_load(apply, FAMILY_CURRENT, &row, &kist__record__descriptor);
}

void apply_put_current(struct apply *apply, uint64_t bucket_id, struct slice key,
                       const Kist__Record *record)
{
    struct row_key row;

    ASSERT(record->stamp != 0 && record->stamp <= apply->stamp);
    key_current(&row, bucket_id, key);
    apply_put_message(apply, FAMILY_CURRENT, &row, &record->base);
}

void apply_put_unread(struct apply *apply, enum family family, const struct row_key *key,
                      struct slice value)
{
    check_span(apply, family, key);
    kv_batch_put(apply->batch, family, row_key_slice(key), value);
}

void apply_put_inline(struct apply *apply, uint64_t bucket_id, struct slice key, uint64_t stamp,
                      struct slice body)
{
    struct row_key row;

    ASSERT(body.len <= LIMIT_INLINE_BYTES);
    key_inline(&row, bucket_id, key, stamp);
    apply_put_unread(apply, FAMILY_INLINE, &row, body);
}

/* ---- Walks ---- */

void apply_walk_open(struct apply_walk *walk, struct apply *apply, enum family family,
                     const struct row_key *prefix)
{
    struct kv_iter_options options = {.family = family};

    check_span(apply, family, prefix);
    walk->apply = apply;
    walk->begun = false;
    walk->lower = *prefix;
    walk->upper = *prefix;
    options.lower = row_key_slice(&walk->lower);
    options.upper = row_key_after_prefix(&walk->upper) ? row_key_slice(&walk->upper) : SLICE_EMPTY;
    walk->iter = apply->kv->ops->iter_open(apply->kv, &options);
}

static bool walk_take(struct apply_walk *walk)
{
    const struct kv_ops *ops = walk->apply->kv->ops;
    struct error error = {.rc = RC_OK};

    if (ops->iter_valid(walk->iter)) {
        walk->key = ops->iter_key(walk->iter);
        walk->value = ops->iter_value(walk->iter);
        return true;
    }
    if (ops->iter_rc(walk->iter, &error) != RC_OK) {
        walk->apply->error = error;
    }
    return false;
}

bool apply_walk_last(struct apply_walk *walk)
{
    ASSERT(!walk->begun);
    if (walk->apply->error.rc != RC_OK) {
        return false;
    }
    walk->begun = true;
    walk->apply->kv->ops->iter_seek_prev(walk->iter, row_key_slice(&walk->upper));
    return walk_take(walk);
}

bool apply_walk_next(struct apply_walk *walk)
{
    const struct kv_ops *ops = walk->apply->kv->ops;

    if (walk->apply->error.rc != RC_OK) {
        return false;
    }
    if (walk->begun) {
        ops->iter_next(walk->iter);
    } else {
        ops->iter_seek(walk->iter, row_key_slice(&walk->lower));
        walk->begun = true;
    }
    return walk_take(walk);
}

void apply_walk_close(struct apply_walk *walk)
{
    walk->apply->kv->ops->iter_close(walk->iter);
}

/* ---- History ---- */

/* The lowest row from `from` on among those that this entry wrote. */
static const struct overlay_row *history_written(const struct apply *apply, struct slice from,
                                                 struct slice prefix)
{
    const struct overlay_row *first = NULL;

    for (const struct overlay_row *row = apply->history; row != NULL; row = row->next) {
        struct slice key = slice_after(row->name, 1);

        if (!row->deleted && slice_starts(key, prefix) && slice_cmp(key, from) >= 0 &&
            (first == NULL || slice_cmp(row->name, first->name) < 0)) {
            first = row;
        }
    }
    return first;
}

/* The lowest row from `from` on that the store holds and this entry did not touch. */
static bool history_stored(struct apply *apply, const struct row_key *from,
                           const struct row_key *prefix, struct slice *key, struct slice *value)
{
    struct apply_walk walk;
    bool found = false;

    ASSERT(slice_starts(row_key_slice(from), row_key_slice(prefix)));
    apply_walk_open(&walk, apply, FAMILY_HISTORY, prefix);
    walk.lower = *from; /* begins with the prefix: the bound that the iterator borrows stays */
    while (!found && apply_walk_next(&walk)) {
        if (overlay_get(apply, FAMILY_HISTORY, walk.key) == NULL) {
            *key = arena_copy(apply->arena, walk.key);
            *value = arena_copy(apply->arena, walk.value);
            found = true;
        }
    }
    apply_walk_close(&walk);
    return found;
}

bool apply_history_from(struct apply *apply, const struct row_key *from,
                        const struct row_key *prefix, struct slice *value)
{
    const struct overlay_row *written =
        history_written(apply, row_key_slice(from), row_key_slice(prefix));
    struct slice key;

    if (history_stored(apply, from, prefix, &key, value) &&
        (written == NULL || slice_cmp(key, slice_after(written->name, 1)) < 0)) {
        return true;
    }
    if (written == NULL || apply->error.rc != RC_OK) {
        return false;
    }
    *value = written->value;
    return true;
}

/* ---- Usage ---- */

void apply_usage(struct apply *apply, uint64_t bucket_id, int64_t objects, int64_t bytes,
                 int64_t uploads)
{
    Kist__Usage empty = KIST__USAGE__INIT;
    Kist__Usage *usage;
    struct row_key row;

    if (objects == 0 && bytes == 0 && uploads == 0) {
        return;
    }
    key_range_u64(&row, apply->range_id, KIND_USAGE, bucket_id, SLICE_EMPTY);
    usage = apply_load(apply, FAMILY_ROWS, &row, &kist__usage__descriptor);
    if (usage == NULL) {
        usage = &empty;
    }
    usage->objects += objects;
    usage->bytes += bytes;
    usage->uploads += uploads;
    apply_put_message(apply, FAMILY_ROWS, &row, &usage->base);
}
