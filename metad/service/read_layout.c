/* Layouts: which pieces hold a byte, which bytes a part covers. One seek each. */
#include "common/base/bytes.h"
#include "metad/service/read.h"
#include "metad/store/message.h"

enum { HOME_CONDEMNED_STATE = 2 };

struct piece_sink {
    struct meta_pieces *call;
    uint64_t at; /* offset of the next piece within the object */
};

/* False when the page is full. */
static bool sink_add(struct piece_sink *sink, Kist__Piece *piece)
{
    struct meta_pieces *call = sink->call;
    uint64_t at = sink->at;

    sink->at += piece->length;
    if (sink->at <= call->offset) {
        return true;
    }
    if (call->piece_count == 0) {
        call->first_offset = at;
    }
    call->pieces[call->piece_count++] = piece;
    return call->piece_count < call->limit;
}

static void sink_list(struct piece_sink *sink, Kist__Piece *const *pieces, size_t count)
{
    for (size_t i = 0; i < count && sink_add(sink, pieces[i]); i++) {
    }
}

/* The row that holds `number` (a big-endian suffix), or the first one: `walk` stands there. */
static void seek_row(struct read_walk *walk, const struct row_key *at)
{
    const struct kv_ops *ops = walk->read->store->kv->ops;

    ops->iter_seek_prev(walk->iter, row_key_slice(at));
}

/* RC_NOT_FOUND when the layout has no rows of its own. */
static enum rc pieces_from_rows(struct read_context *read, struct meta_pieces *call)
{
    struct piece_sink sink = {.call = call};
    struct row_key prefix;
    struct row_key at;
    struct read_walk walk;
    enum rc rc;
    bool found;

    key_object(&prefix, call->bucket_id, call->key, KIND_LAYOUT, call->layout_id);
    key_object_u64(&at, call->bucket_id, call->key, KIND_LAYOUT, call->layout_id, call->offset);
    read_walk_open(&walk, read, FAMILY_ROWS, &prefix, &prefix, false);
    seek_row(&walk, &at);
    found = read_walk_valid(&walk);
    while (read_walk_valid(&walk) && call->piece_count < call->limit) {
        const Kist__LayoutChunk *chunk =
            message_unpack(call->arena, &kist__layout_chunk__descriptor, read_walk_value(&walk));

        if (chunk == NULL) {
            read_walk_close(&walk);
            return read_corrupt(read, "a layout row");
        }
        sink.at = chunk->offset;
        sink_list(&sink, chunk->pieces, chunk->n_pieces);
        if (!read_walk_next(&walk)) {
            read_walk_close(&walk);
            return RC_AGAIN;
        }
    }
    rc = read_walk_valid(&walk) ? RC_OK : read_walk_rc(&walk);
    read_walk_close(&walk);
    return rc == RC_OK && !found ? RC_NOT_FOUND : rc;
}

/* The version that owns the layout: the current one, or the one of history that its row names. */
static enum rc load_owner(struct read_context *read, const struct meta_pieces *call,
                          const Kist__Record **out)
{
    const Kist__VersionName *name;
    struct row_key key;
    void *found = NULL;
    enum rc rc;

    key_current(&key, call->bucket_id, call->key);
    rc = read_load(read, FAMILY_CURRENT, &key, &kist__record__descriptor, call->arena, &found);
    *out = found;
    if (rc == RC_OK && (*out)->shared == NULL &&
        slice_eq(message_bytes((*out)->layout_id), call->layout_id)) {
        return RC_OK;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return rc;
    }
    key_object(&key, call->bucket_id, call->key, KIND_OWNER, call->layout_id);
    rc = read_load(read, FAMILY_ROWS, &key, &kist__version_name__descriptor, call->arena, &found);
    if (rc != RC_OK) {
        return rc;
    }
    name = found;
    key_history(&key, call->bucket_id, call->key, name->stamp, name->tie);
    rc = read_load(read, FAMILY_HISTORY, &key, &kist__record__descriptor, call->arena, &found);
    *out = found;
    return rc;
}

/* Short lists stand in the owner's record, which may move between the looks. */
static enum rc pieces_from_record(struct read_context *read, struct meta_pieces *call)
{
    struct piece_sink sink = {.call = call};
    const Kist__Record *record = NULL;
    struct read_looks looks;
    enum rc rc;

    read_looks_begin(&looks, read);
    do {
        rc = load_owner(read, call, &record);
    } while (rc == RC_NOT_FOUND && read_looks_again(&looks));
    read_looks_end(&looks);
    if (rc == RC_OK) {
        sink_list(&sink, record->pieces, record->n_pieces);
    }
    return rc;
}

enum rc read_pieces(struct read_context *read, void *arg)
{
    struct meta_pieces *call = arg;
    struct piece_sink sink = {.call = call};
    struct row_key key;
    void *found = NULL;
    const Kist__Home *home;
    enum rc rc;

    call->piece_count = 0;
    call->first_offset = 0;
    if (call->bucket_id == 0 || call->layout_id.len != ID_BYTES || call->limit == 0) {
        return RC_NOT_FOUND;
    }
    if (!read->again) {
        call->pieces = arena_alloc_raw(call->arena, call->limit * sizeof(*call->pieces));
    }
    key_object(&key, call->bucket_id, call->key, KIND_HOME, call->layout_id);
    rc = read_load(read, FAMILY_ROWS, &key, &kist__home__descriptor, call->arena, &found);
    home = found;
    if (rc == RC_OK && home->state == HOME_CONDEMNED_STATE) {
        return RC_NOT_FOUND;
    }
    if (rc == RC_OK && home->n_pieces > 0) {
        sink_list(&sink, home->pieces, home->n_pieces);
        return RC_OK;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        return rc;
    }
    rc = pieces_from_rows(read, call);
    return rc == RC_NOT_FOUND ? pieces_from_record(read, call) : rc;
}

/* ---- Parts ---- */

enum rc read_part_range(struct read_context *read, void *arg)
{
    struct meta_part_range *call = arg;
    uint32_t position = call->number - 1;
    const Kist__LayoutChunk *chunk;
    struct row_key prefix;
    struct row_key at;
    struct read_walk walk;
    uint32_t first;
    enum rc rc;

    if (call->bucket_id == 0 || call->layout_id.len != ID_BYTES || call->number == 0) {
        return RC_NOT_FOUND;
    }
    key_object(&prefix, call->bucket_id, call->key, KIND_LAYOUT_PARTS, call->layout_id);
    key_object_u32(&at, call->bucket_id, call->key, KIND_LAYOUT_PARTS, call->layout_id, position);
    read_walk_open(&walk, read, FAMILY_ROWS, &prefix, &prefix, false);
    seek_row(&walk, &at);
    if (!read_walk_valid(&walk)) {
        rc = read_walk_rc(&walk);
        read_walk_close(&walk);
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    }
    if (read_walk_key(&walk).len != prefix.len + 4) {
        read_walk_close(&walk);
        return read_corrupt(read, "a key of part summaries");
    }
    first = be32_get(read_walk_key(&walk).data + prefix.len);
    chunk = message_unpack(call->arena, &kist__layout_chunk__descriptor, read_walk_value(&walk));
    read_walk_close(&walk);
    if (chunk == NULL) {
        return read_corrupt(read, "a row of part summaries");
    }
    if (position - first >= chunk->n_parts) {
        return RC_NOT_FOUND;
    }
    call->offset = chunk->offset;
    for (uint32_t i = 0; i < position - first; i++) {
        call->offset += chunk->parts[i]->size;
    }
    call->part = chunk->parts[position - first];
    call->size = call->part->size;
    return RC_OK;
}
