/* A real state against the model: every row that clients can see, and what keeps data alive. */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/kv/kv.h"
#include "metad/apply/liveness.h"
#include "metad/store/message.h"
#include "metad/store/store.h"
#include "tests/sim/metad_model.h"

static bool row_get(struct kv *kv, struct arena *arena, enum family family,
                    const struct row_key *key, struct slice *value)
{
    struct kv_pin pin;
    struct error error;
    enum rc rc = kv_get(kv, family, row_key_slice(key), KV_ANY, &pin, &error);

    if (rc == RC_NOT_FOUND) {
        return false;
    }
    CHECK(rc == RC_OK, "read a row: %s", error.text);
    *value = arena_copy(arena, pin.value);
    kv_release(kv, &pin);
    return true;
}

static void *row_load(struct kv *kv, struct arena *arena, enum family family,
                      const struct row_key *key, const ProtobufCMessageDescriptor *type)
{
    struct slice value;
    void *message;

    if (!row_get(kv, arena, family, key, &value)) {
        return NULL;
    }
    message = message_unpack(arena, type, value);
    CHECK(message != NULL, "a %s row does not decode", type->short_name);
    return message;
}

/* Calls `each` for every row that begins with `prefix`. */
typedef void (*row_cb)(void *arg, struct slice key, struct slice value);

static void rows_each(struct kv *kv, enum family family, const struct row_key *prefix, row_cb each,
                      void *arg)
{
    struct row_key upper = *prefix;
    struct kv_iter_options options = {.family = family, .lower = row_key_slice(prefix)};
    struct kv_iter *iter;

    if (prefix->len > 0 && row_key_after_prefix(&upper)) {
        options.upper = row_key_slice(&upper);
    }
    iter = kv->ops->iter_open(kv, &options);
    for (kv->ops->iter_seek(iter, options.lower); kv->ops->iter_valid(iter);
         kv->ops->iter_next(iter)) {
        each(arg, kv->ops->iter_key(iter), kv->ops->iter_value(iter));
    }
    CHECK(kv->ops->iter_rc(iter, NULL) == RC_OK, "scan rows");
    kv->ops->iter_close(iter);
}

static void row_count(void *arg, struct slice key, struct slice value)
{
    (void)key;
    (void)value;
    *(size_t *)arg += 1;
}

/* ---- Objects ---- */

struct piece_list {
    struct arena *arena;
    Kist__Piece **pieces;
    size_t count;
    size_t capacity;
};

static void pieces_add(void *arg, struct slice key, struct slice value)
{
    struct piece_list *list = arg;
    const Kist__LayoutChunk *chunk =
        message_unpack(list->arena, &kist__layout_chunk__descriptor, value);

    (void)key;
    CHECK(chunk != NULL, "a layout row does not decode");
    CHECK(list->count + chunk->n_pieces <= list->capacity, "a layout has too many pieces");
    for (size_t i = 0; i < chunk->n_pieces; i++) {
        list->pieces[list->count++] = chunk->pieces[i];
    }
}

/* `copied`: a copy's, which repair does not keep up to date. */
static void check_pieces(const struct model_layout *layout, Kist__Piece *const *pieces,
                         size_t count, bool copied)
{
    CHECK(count == layout->piece_count, "a layout has %zu pieces, not %zu", count,
          layout->piece_count);
    for (size_t i = 0; i < count; i++) {
        const struct model_piece *want = &layout->pieces[i];
        const Kist__Piece *have = pieces[i];

        CHECK(have->length == want->length && have->extent_offset == want->offset &&
                  slice_eq(message_bytes(have->extent->id), slice_of(want->extent, ID_BYTES)),
              "piece %zu of a layout is another", i);
        CHECK((have->owner != NULL) == (want->owner != NULL), "piece %zu: owner", i);
        CHECK(copied || want->owner != NULL || have->extent->durable == want->durable,
              "piece %zu of a layout: durable %u, not %u", i, have->extent->durable, want->durable);
    }
}

static void check_layout(struct kv *kv, struct arena *arena, const struct model_layout *layout,
                         const Kist__Record *record)
{
    struct piece_list list = {.arena = arena, .capacity = 10000};
    struct row_key prefix;

    CHECK(slice_eq(message_bytes(record->layout_id), slice_of(layout->id, ID_BYTES)),
          "a record names another layout");
    CHECK(layout->state == LAYOUT_LIVE, "a record names a layout that is not alive");
    CHECK(record->piece_count == layout->piece_count, "piece_count %u, not %zu",
          record->piece_count, layout->piece_count);
    if (record->piece_count <= LIMIT_RECORD_PIECES) {
        check_pieces(layout, record->pieces, record->n_pieces, record->shared != NULL);
        return;
    }
    list.pieces = arena_alloc(arena, list.capacity * sizeof(Kist__Piece *));
    key_object(&prefix, layout->bucket_id, model_keys[layout->key], KIND_LAYOUT,
               slice_of(layout->id, ID_BYTES));
    rows_each(kv, FAMILY_ROWS, &prefix, pieces_add, &list);
    check_pieces(layout, list.pieces, list.count, false);
}

static void check_body(struct kv *kv, struct arena *arena, uint64_t bucket_id, unsigned key,
                       const struct model_version *version)
{
    struct row_key row;
    struct slice body = SLICE_EMPTY;

    key_inline(&row, bucket_id, model_keys[key], version->stamp);
    CHECK(row_get(kv, arena, FAMILY_INLINE, &row, &body) == (version->body.len > 0),
          "an inline body is missing");
    CHECK(slice_eq(body, buffer_slice(&version->body)), "an inline body is another");
}

static void check_marks(const struct model_version *version, const Kist__Record *record)
{
    CHECK(record->n_metadata == 1 && slice_eq(message_bytes(record->metadata[0]->value),
                                              slice_of(&version->mark, sizeof(version->mark))),
          "metadata of another");
    CHECK((record->n_tags == 1) == (version->tag != 0), "tags: there or not");
    CHECK(version->tag == 0 || slice_eq(message_bytes(record->tags[0]->value),
                                        slice_of(&version->tag, sizeof(version->tag))),
          "tags of another");
    CHECK((record->lock != NULL ? record->lock->mode : 0) == version->lock_mode &&
              (record->lock != NULL && record->lock->legal_hold) == version->legal_hold &&
              (version->lock_mode == 0 || record->lock->until == version->lock_until),
          "a lock of another");
}

static void check_version(struct kv *kv, struct arena *arena, const struct model_bucket *bucket,
                          unsigned key, const struct model_version *version,
                          const Kist__Record *record)
{
    CHECK(record->stamp == version->stamp && record->tie == version->tie, "key %u: stamp", key);
    CHECK(record->null_version == version->null_version, "key %u: null version or not", key);
    CHECK(record->delete_marker == version->marker, "key %u: marker or not", key);
    CHECK(record->noncurrent_since == version->since, "key %u: noncurrent since %llu, not %llu",
          key, (unsigned long long)record->noncurrent_since, (unsigned long long)version->since);
    if (version->marker) {
        return;
    }
    CHECK(record->size == version->size, "key %u: size %llu, not %llu", key,
          (unsigned long long)record->size, (unsigned long long)version->size);
    CHECK(slice_eq(message_bytes(record->etag), slice_of(version->etag, 16)), "key %u: etag", key);
    CHECK(record->part_count == version->part_count, "key %u: parts", key);
    check_marks(version, record);
    CHECK((record->shared != NULL) == version->shared, "key %u: shared", key);
    if (version->layout != NULL) {
        check_layout(kv, arena, version->layout, record);
    } else {
        CHECK(record->layout_id.len == 0, "key %u: a layout of nothing", key);
        check_body(kv, arena, bucket->id, key, version);
    }
}

static void check_current(struct kv *kv, struct arena *arena, const struct model_bucket *bucket,
                          unsigned key)
{
    const struct model_version *version = model_current(&bucket->keys[key]);
    const Kist__Record *record;
    struct row_key row;

    key_current(&row, bucket->id, model_keys[key]);
    record = row_load(kv, arena, FAMILY_CURRENT, &row, &kist__record__descriptor);
    CHECK((record != NULL) == (version != NULL), "key %u of bucket %llu %s", key,
          (unsigned long long)bucket->id, version != NULL ? "is lost" : "should not be there");
    if (record != NULL) {
        check_version(kv, arena, bucket, key, version, record);
    }
}

/* What points from elsewhere to a version of history, and to nothing else. */
static void check_names(struct kv *kv, struct arena *arena, const struct model_bucket *bucket,
                        unsigned key, const struct model_version *version)
{
    const Kist__VersionName *name;
    struct row_key row;

    if (version->null_version) {
        key_object(&row, bucket->id, model_keys[key], KIND_NULL_VERSION, SLICE_EMPTY);
        name = row_load(kv, arena, FAMILY_ROWS, &row, &kist__version_name__descriptor);
        CHECK(name != NULL && name->stamp == version->stamp && name->tie == version->tie,
              "key %u: the null version's row", key);
    }
    if (version->layout != NULL && !version->shared) {
        key_object(&row, bucket->id, model_keys[key], KIND_OWNER,
                   slice_of(version->layout->id, ID_BYTES));
        name = row_load(kv, arena, FAMILY_ROWS, &row, &kist__version_name__descriptor);
        CHECK(name != NULL && name->stamp == version->stamp && name->tie == version->tie,
              "key %u: the row of a layout's owner", key);
    }
}

struct history_rows {
    struct kv *kv;
    struct arena *arena;
    const struct model_bucket *bucket;
    unsigned key;
    size_t at; /* version that the next row must be */
};

static void history_check(void *arg, struct slice key, struct slice value)
{
    struct history_rows *rows = arg;
    const struct model_key *it = &rows->bucket->keys[rows->key];
    const Kist__Record *record = message_unpack(rows->arena, &kist__record__descriptor, value);

    (void)key;
    CHECK(record != NULL, "a row of history does not decode");
    CHECK(rows->at < it->count, "key %u has more versions than %zu", rows->key, it->count);
    check_version(rows->kv, rows->arena, rows->bucket, rows->key, it->versions[rows->at], record);
    check_names(rows->kv, rows->arena, rows->bucket, rows->key, it->versions[rows->at]);
    rows->at += 1;
}

static void check_history(struct kv *kv, struct arena *arena, const struct model_bucket *bucket,
                          unsigned key)
{
    const struct model_key *it = &bucket->keys[key];
    struct history_rows rows = {.kv = kv,
                                .arena = arena,
                                .bucket = bucket,
                                .key = key,
                                .at = model_current(it) != NULL ? 1 : 0};
    struct row_key prefix;

    key_object(&prefix, bucket->id, model_keys[key], KIND_HISTORY, SLICE_EMPTY);
    rows_each(kv, FAMILY_HISTORY, &prefix, history_check, &rows);
    CHECK(rows.at == it->count, "key %u has %zu versions, not %zu", key, rows.at, it->count);
}

/* Rows that no version accounts for. */
struct stray {
    struct arena *arena;
    size_t names;
};

static void stray_count(void *arg, struct slice key, struct slice value)
{
    struct stray *stray = arg;
    uint8_t kind = row_kind_of(key);

    (void)value;
    stray->names += kind == KIND_NULL_VERSION || kind == KIND_OWNER;
}

static void check_strays(struct kv *kv, struct arena *arena, const struct model_bucket *bucket)
{
    struct stray stray = {.arena = arena};
    struct row_key prefix;
    size_t wanted = 0;

    for (unsigned k = 0; k < MODEL_KEYS; k++) {
        const struct model_key *key = &bucket->keys[k];

        for (size_t i = model_current(key) != NULL ? 1 : 0; i < key->count; i++) {
            wanted += key->versions[i]->null_version;
            wanted += key->versions[i]->layout != NULL && !key->versions[i]->shared;
        }
    }
    key_bucket(&prefix, bucket->id);
    rows_each(kv, FAMILY_ROWS, &prefix, stray_count, &stray);
    CHECK(stray.names == wanted, "bucket %llu has %zu names of versions, not %zu",
          (unsigned long long)bucket->id, stray.names, wanted);
}

static void check_usage(struct kv *kv, struct arena *arena, const struct model_bucket *bucket)
{
    const Kist__Usage *usage;
    struct row_key row;
    uint64_t objects = 0;
    uint64_t bytes = 0;

    for (unsigned k = 0; k < MODEL_KEYS; k++) {
        for (size_t i = 0; i < bucket->keys[k].count; i++) {
            objects += !bucket->keys[k].versions[i]->marker;
            bytes += bucket->keys[k].versions[i]->size;
        }
    }
    key_range_u64(&row, RANGE_FIRST, KIND_USAGE, bucket->id, SLICE_EMPTY);
    usage = row_load(kv, arena, FAMILY_ROWS, &row, &kist__usage__descriptor);
    CHECK((usage != NULL ? (uint64_t)usage->objects : 0) == objects &&
              (usage != NULL ? (uint64_t)usage->bytes : 0) == bytes,
          "usage of bucket %llu is wrong", (unsigned long long)bucket->id);
}

static void check_bucket(struct kv *kv, const struct model_bucket *bucket)
{
    struct row_key prefix;
    struct arena arena;
    size_t rows = 0;
    size_t objects = 0;

    arena_init(&arena);
    for (unsigned k = 0; k < MODEL_KEYS; k++) {
        check_current(kv, &arena, bucket, k);
        check_history(kv, &arena, bucket, k);
        objects += model_current(&bucket->keys[k]) != NULL;
    }
    key_bucket(&prefix, bucket->id);
    rows_each(kv, FAMILY_CURRENT, &prefix, row_count, &rows);
    CHECK(rows == objects, "bucket %llu lists %zu keys, not %zu", (unsigned long long)bucket->id,
          rows, objects);
    check_strays(kv, &arena, bucket);
    check_usage(kv, &arena, bucket);
    arena_deinit(&arena);
}

/* ---- Uploads ---- */

static void check_upload(struct kv *kv, const struct model *model,
                         const struct model_upload *upload)
{
    uint64_t bucket_id = model->buckets[upload->bucket].id;
    struct slice id = slice_of(upload->id, ID_BYTES);
    struct row_key row;
    struct arena arena;
    const Kist__Upload *have;

    arena_init(&arena);
    key_object(&row, bucket_id, model_keys[upload->key], KIND_UPLOAD, id);
    have = row_load(kv, &arena, FAMILY_UPLOADS, &row, &kist__upload__descriptor);
    CHECK(have != NULL && have->stamp == upload->stamp, "an upload is lost");
    for (unsigned i = 0; i < MODEL_PARTS; i++) {
        const struct model_part *want = &upload->parts[i];
        const Kist__Part *part;

        key_object_u32(&row, bucket_id, model_keys[upload->key], KIND_PART, id, i + 1);
        part = row_load(kv, &arena, FAMILY_UPLOADS, &row, &kist__part__descriptor);
        CHECK((part != NULL) == want->exists, "part %u of an upload: there or not", i + 1);
        if (part != NULL) {
            CHECK(part->size == want->size &&
                      slice_eq(message_bytes(part->etag), slice_of(want->etag, 16)),
                  "part %u of an upload is another", i + 1);
            check_pieces(want->layout, part->pieces, part->n_pieces, false);
        }
    }
    arena_deinit(&arena);
}

/* ---- Layouts: nothing that is dead is forgotten ---- */

struct reclaim_find {
    struct arena arena;
    struct model *model;
    bool *queued; /* by layout */
    uint64_t wanted;
    uint64_t seen;
    Kist__Reclaim *found;
    struct slice key;
};

static void reclaim_mark(void *arg, struct slice key, struct slice value)
{
    struct reclaim_find *find = arg;
    const Kist__Reclaim *reclaim = message_unpack(&find->arena, &kist__reclaim__descriptor, value);

    (void)key;
    CHECK(reclaim != NULL, "a reclaim row does not decode");
    for (size_t i = 0; i < find->model->layout_count; i++) {
        if (slice_eq(message_bytes(reclaim->layout_id),
                     slice_of(find->model->layouts[i]->id, ID_BYTES))) {
            find->queued[i] = true;
        }
    }
}

static void check_layouts(struct model *model, struct kv *kv)
{
    struct reclaim_find find = {.model = model};
    struct row_key prefix;

    arena_init(&find.arena);
    find.queued = arena_alloc(&find.arena, model->layout_count + 1);
    key_range(&prefix, RANGE_FIRST, KIND_RECLAIM, SLICE_EMPTY);
    rows_each(kv, FAMILY_ROWS, &prefix, reclaim_mark, &find);
    for (size_t i = 0; i < model->layout_count; i++) {
        const struct model_layout *layout = model->layouts[i];
        const Kist__Home *home;

        CHECK(layout->state != LAYOUT_DEAD || find.queued[i],
              "layout %zu is referenced by nothing and not queued: a leak", i);
        if (layout->state == LAYOUT_GONE) {
            continue;
        }
        key_object(&prefix, layout->bucket_id, model_keys[layout->key], KIND_HOME,
                   slice_of(layout->id, ID_BYTES));
        home = row_load(kv, &find.arena, FAMILY_ROWS, &prefix, &kist__home__descriptor);
        CHECK((home != NULL && home->state == HOME_CONDEMNED) ==
                  (layout->state == LAYOUT_CONDEMNED),
              "layout %zu: condemned or not", i);
        if (home != NULL && layout->state == LAYOUT_LIVE) {
            CHECK(home->reference_count == layout->references,
                  "layout %zu has %llu references, not %u", i,
                  (unsigned long long)home->reference_count, layout->references);
            if (home->n_pieces > 0) {
                check_pieces(layout, home->pieces, home->n_pieces, false);
            }
        }
    }
    arena_deinit(&find.arena);
}

void check_state(struct model *model, struct kv *kv)
{
    for (unsigned b = 0; b < MODEL_BUCKETS; b++) {
        if (model->buckets[b].id != 0) {
            check_bucket(kv, &model->buckets[b]);
        }
    }
    for (unsigned u = 0; u < MODEL_UPLOADS; u++) {
        if (model->uploads[u].exists) {
            check_upload(kv, model, &model->uploads[u]);
        }
    }
    check_layouts(model, kv);
}

/* ---- Reclaim queue, checksums ---- */

static void reclaim_pick(void *arg, struct slice key, struct slice value)
{
    struct reclaim_find *find = arg;

    if (find->seen++ == find->wanted) {
        find->key = arena_copy(&find->arena, key);
        find->found = message_unpack(&find->arena, &kist__reclaim__descriptor, value);
    }
}

Kist__Reclaim *check_reclaim_row(struct kv *kv, struct arena *arena, uint64_t n, struct slice *key)
{
    struct reclaim_find find = {.wanted = n, .arena = *arena};
    struct row_key prefix;

    key_range(&prefix, RANGE_FIRST, KIND_RECLAIM, SLICE_EMPTY);
    rows_each(kv, FAMILY_ROWS, &prefix, reclaim_pick, &find);
    *arena = find.arena;
    *key = find.key;
    return find.found;
}

static void hash_row(void *arg, struct slice key, struct slice value)
{
    uint64_t *hash = arg;

    for (size_t i = 0; i < key.len; i++) {
        *hash = (*hash ^ (uint8_t)key.data[i]) * 0x100000001b3ULL;
    }
    *hash = (*hash ^ key.len) * 0x100000001b3ULL;
    for (size_t i = 0; i < value.len; i++) {
        *hash = (*hash ^ (uint8_t)value.data[i]) * 0x100000001b3ULL;
    }
}

uint64_t check_hash(struct kv *kv)
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    const struct row_key all = {.len = 0};

    for (unsigned family = 0; family < FAMILY_COUNT; family++) {
        if (family != FAMILY_LOCAL) {
            rows_each(kv, (enum family)family, &all, hash_row, &hash);
        }
    }
    return hash;
}
