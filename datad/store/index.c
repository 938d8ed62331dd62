/* Rows to and from bytes, and the options of the store. The rows are described in FORMAT.md. */
#include "datad/store/index.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"

enum {
    FAMILY_SHARDS = 0,
    FAMILY_SEGMENTS = 1,
    FAMILY_META = 2,
    FAMILY_COUNT = 3,
    INDEX_VERSION = 1,
    SHARD_ROW_BYTES = 48,
    SEGMENT_ROW_BYTES = 40,
    META_ROW_BYTES = 16,
    FLAG_SUSPECT = 1,
    MEMTABLE_SHARD_BYTES = 4 * 1024 * 1024,
    MEMTABLE_SMALL_BYTES = 256 * 1024
};

static const char meta_key[] = "index";

void index_key(const struct shard_id *shard, uint8_t key[INDEX_KEY_BYTES])
{
    memcpy(key, shard->extent.bytes, EXTENT_ID_BYTES);
    be32_put(key + EXTENT_ID_BYTES, shard->index);
}

uint64_t index_id_ms(const struct extent_id *id)
{
    return be64_get(id->bytes + 8);
}

/* A tombstone whose id no begin may name any more (commit.c: begin_check) is of no use. */
static bool index_drop(void *arg, struct slice key, struct slice value)
{
    struct index *index = arg;
    struct extent_id id;

    if (key.len != INDEX_KEY_BYTES || value.len < SHARD_ROW_BYTES ||
        value.data[0] != (char)INDEX_DEAD) {
        return false;
    }
    memcpy(id.bytes, key.data, EXTENT_ID_BYTES);
    return index_id_ms(&id) < atomic_load_explicit(&index->drop_before_ms, memory_order_relaxed);
}

static enum rc index_check_meta(struct index *index, uint64_t disk, bool *fresh,
                                struct error *error)
{
    struct slice key = slice_of(meta_key, sizeof(meta_key) - 1);
    uint8_t value[META_ROW_BYTES] = {0};
    struct kv_pin pin = {0};
    enum rc rc = kv_get(index->kv, FAMILY_META, key, KV_ANY, &pin, error);

    if (rc == RC_NOT_FOUND) {
        struct kv_batch *batch = kv_batch_new();
        *fresh = true;
        le32_put(value, INDEX_VERSION);
        le64_put(value + 8, disk);
        kv_batch_put(batch, FAMILY_META, key, slice_of(value, sizeof(value)));
        rc = kv_write(index->kv, batch, KV_UNLOGGED, error);
        kv_batch_free(batch);
        return rc;
    }
    if (rc != RC_OK) {
        return rc;
    }
    *fresh = false;
    if (pin.value.len != META_ROW_BYTES || le32_get(pin.value.data) != INDEX_VERSION) {
        rc = error_set(error, RC_UNSUPPORTED, "index: unknown version");
    } else if (le64_get(pin.value.data + 8) != disk) {
        rc = error_set(error, RC_NOT_FOUND, "index: of disk %llu",
                       (unsigned long long)le64_get(pin.value.data + 8));
    }
    kv_release(index->kv, &pin);
    return rc;
}

enum rc index_open(struct index *index, const struct index_options *options, bool *fresh,
                   struct error *error)
{
    struct kv_options kv = {
        .path = options->path,
        .families = {{.name = "shards",
                      .memtable_bytes = MEMTABLE_SHARD_BYTES,
                      .whole_key_filter = true,
                      .drop = index_drop,
                      .drop_arg = index},
                     {.name = "segments", .memtable_bytes = MEMTABLE_SMALL_BYTES},
                     {.name = "meta", .memtable_bytes = MEMTABLE_SMALL_BYTES}},
        .family_count = FAMILY_COUNT,
        .cache = options->cache,
        .write_ahead_log = false,
    };
    enum rc rc;

    index->kv = NULL;
    atomic_store(&index->drop_before_ms, 0);
    rc = options->kv_open(&index->kv, &kv, error);
    if (rc != RC_OK) {
        index->kv = NULL;
        return rc;
    }
    rc = index_check_meta(index, options->disk, fresh, error);
    if (rc != RC_OK) {
        index_close(index);
    }
    return rc;
}

void index_close(struct index *index)
{
    if (index->kv != NULL) {
        kv_close(index->kv);
        index->kv = NULL;
    }
}

static enum rc row_decode(struct slice value, struct index_row *row, struct error *error)
{
    const char *at = value.data;

    *row = (struct index_row){0};
    if (value.len < SHARD_ROW_BYTES) {
        return error_set(error, RC_CORRUPT, "index: short row");
    }
    row->kind = (enum index_kind)(unsigned char)at[0];
    row->suspect = ((unsigned char)at[1] & FLAG_SUSPECT) != 0;
    row->attempt = le32_get(at + 4);
    row->segment = le64_get(at + 8);
    row->at = le64_get(at + 16);
    row->length = le64_get(at + 24);
    row->dead_ms = le64_get(at + 32);
    row->crc_count = le32_get(at + 40);
    bool sane = (row->kind == INDEX_LIVE || row->kind == INDEX_DEAD) &&
                row->crc_count <= INDEX_CRCS_MAX && row->length <= LIMIT_EXTENT_BYTES &&
                value.len == SHARD_ROW_BYTES + (size_t)row->crc_count * SEGMENT_CRC_BYTES;
    if (!sane) {
        return error_set(error, RC_CORRUPT, "index: malformed row");
    }
    memcpy(row->crcs, at + SHARD_ROW_BYTES, (size_t)row->crc_count * SEGMENT_CRC_BYTES);
    return RC_OK;
}

enum rc index_get(struct index *index, const struct shard_id *shard, unsigned flags,
                  struct index_row *out, struct error *error)
{
    uint8_t key[INDEX_KEY_BYTES];
    struct kv_pin pin = {0};
    enum rc rc;

    index_key(shard, key);
    rc = kv_get(index->kv, FAMILY_SHARDS, slice_of(key, sizeof(key)), flags, &pin, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = row_decode(pin.value, out, error);
    kv_release(index->kv, &pin);
    return rc;
}

void index_put(struct kv_batch *batch, const struct shard_id *shard, const struct index_row *row)
{
    uint8_t key[INDEX_KEY_BYTES];
    uint8_t value[SHARD_ROW_BYTES] = {0};
    struct slice parts[2];

    ASSERT(row->crc_count <= INDEX_CRCS_MAX);
    index_key(shard, key);
    value[0] = (uint8_t)row->kind;
    value[1] = row->suspect ? FLAG_SUSPECT : 0;
    le32_put(value + 4, row->attempt);
    le64_put(value + 8, row->segment);
    le64_put(value + 16, row->at);
    le64_put(value + 24, row->length);
    le64_put(value + 32, row->dead_ms);
    le32_put(value + 40, row->crc_count);
    parts[0] = slice_of(value, sizeof(value));
    parts[1] = slice_of(row->crcs, (size_t)row->crc_count * SEGMENT_CRC_BYTES);
    kv_batch_put_parts(batch, FAMILY_SHARDS, slice_of(key, sizeof(key)), parts, ARRAY_LEN(parts));
}

void index_put_segment(struct kv_batch *batch, const struct index_segment *segment)
{
    uint8_t key[8];
    uint8_t value[SEGMENT_ROW_BYTES] = {0};

    be64_put(key, segment->generation);
    memcpy(value, segment->uuid, SEGMENT_UUID_BYTES);
    le32_put(value + 16, (uint32_t)segment->state);
    le64_put(value + 24, segment->covered);
    le64_put(value + 32, segment->live_bytes);
    kv_batch_put(batch, FAMILY_SEGMENTS, slice_of(key, sizeof(key)),
                 slice_of(value, sizeof(value)));
}

void index_remove_segment(struct kv_batch *batch, uint64_t generation)
{
    uint8_t key[8];

    be64_put(key, generation);
    kv_batch_delete(batch, FAMILY_SEGMENTS, slice_of(key, sizeof(key)));
}

static bool segment_decode(struct slice key, struct slice value, struct index_segment *out)
{
    uint32_t state;

    if (key.len != 8 || value.len != SEGMENT_ROW_BYTES) {
        return false;
    }
    state = le32_get(value.data + 16);
    *out = (struct index_segment){.generation = be64_get(key.data),
                                  .state = (enum index_segment_state)state,
                                  .covered = le64_get(value.data + 24),
                                  .live_bytes = le64_get(value.data + 32)};
    memcpy(out->uuid, value.data, SEGMENT_UUID_BYTES);
    return state >= INDEX_SEGMENT_OPEN && state <= INDEX_SEGMENT_RETIRED;
}

enum rc index_each_segment(struct index *index, index_segment_cb each, void *list,
                           struct error *error)
{
    const struct kv_ops *ops = index->kv->ops;
    struct kv_iter *iter =
        ops->iter_open(index->kv, &(struct kv_iter_options){.family = FAMILY_SEGMENTS});
    enum rc rc = RC_OK;

    for (ops->iter_seek(iter, SLICE_EMPTY); ops->iter_valid(iter); ops->iter_next(iter)) {
        struct index_segment segment;
        if (!segment_decode(ops->iter_key(iter), ops->iter_value(iter), &segment)) {
            rc = error_set(error, RC_CORRUPT, "index: malformed segment row");
            break;
        }
        each(list, &segment);
    }
    if (rc == RC_OK) {
        rc = ops->iter_rc(iter, error);
    }
    ops->iter_close(iter);
    return rc;
}

enum rc index_each_shard(struct index *index, index_shard_cb each, void *list, struct error *error)
{
    const struct kv_ops *ops = index->kv->ops;
    struct kv_iter *iter =
        ops->iter_open(index->kv, &(struct kv_iter_options){.family = FAMILY_SHARDS, .bulk = true});
    enum rc rc = RC_OK;
    bool more = true;

    for (ops->iter_seek(iter, SLICE_EMPTY); more && ops->iter_valid(iter); ops->iter_next(iter)) {
        struct slice key = ops->iter_key(iter);
        struct index_row row;
        struct shard_id shard;
        rc = key.len != INDEX_KEY_BYTES ? error_set(error, RC_CORRUPT, "index: malformed key")
                                        : row_decode(ops->iter_value(iter), &row, error);
        if (rc != RC_OK) {
            break;
        }
        memcpy(shard.extent.bytes, key.data, EXTENT_ID_BYTES);
        shard.index = be32_get(key.data + EXTENT_ID_BYTES);
        more = each(list, &shard, &row);
    }
    if (rc == RC_OK) {
        rc = ops->iter_rc(iter, error);
    }
    ops->iter_close(iter);
    return rc;
}

enum rc index_wipe(struct index *index, struct error *error)
{
    static const char last[INDEX_KEY_BYTES + 1] = {
        '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff',
        '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff',
        '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'};
    struct kv_batch *batch = kv_batch_new();
    enum rc rc;

    kv_batch_delete_range(batch, FAMILY_SHARDS, SLICE_EMPTY, slice_of(last, sizeof(last)));
    kv_batch_delete_range(batch, FAMILY_SEGMENTS, SLICE_EMPTY, slice_of(last, sizeof(last)));
    rc = kv_write(index->kv, batch, KV_UNLOGGED, error);
    kv_batch_free(batch);
    return rc;
}
