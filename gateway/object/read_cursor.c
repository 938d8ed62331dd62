#include "gateway/object/read_cursor.h"

#include <string.h>

#include "common/base/assert.h"

enum { EXTENT_KIND_STRIPED_NUMBER = 2 };

void read_cursor_init(struct read_cursor *cursor)
{
    arena_init(&cursor->arena);
    cursor->pieces = cursor->record->pieces;
    cursor->count = cursor->record->n_pieces;
    cursor->index = 0;
    cursor->piece_start = 0;
}

void read_cursor_deinit(struct read_cursor *cursor)
{
    arena_deinit(&cursor->arena);
}

/* Numbers that geometry and buffers are made of: from another process, so they are checked. */
static bool cursor_extent_ok(const Kist__Piece *piece)
{
    const Kist__Extent *extent = piece->extent;

    if (extent == NULL || extent->id.len != EXTENT_ID_BYTES || extent->length == 0 ||
        extent->length > LIMIT_EXTENT_BYTES || piece->length == 0) {
        return false;
    }
    if (extent->data_shards < 1 || extent->data_shards > LIMIT_DATA_SHARDS ||
        extent->parity_shards > LIMIT_PARITY_SHARDS) {
        return false;
    }
    if (extent->kind == EXTENT_KIND_STRIPED_NUMBER) {
        if (extent->stripe_unit == 0 || extent->stripe_unit > LIMIT_STRIPE_UNIT_BYTES ||
            extent->stripe_unit % LIMIT_DISK_ALIGN_BYTES != 0) {
            return false;
        }
    } else if (extent->data_shards != 1 || extent->length > LIMIT_STRIPE_UNIT_BYTES) {
        return false;
    }
    return piece->extent_offset <= extent->length &&
           piece->length <= extent->length - piece->extent_offset;
}

static bool cursor_copy(const struct read_cursor *cursor, const Kist__Extent *extent,
                        struct read_extent *out)
{
    const Kist__PlacementGroup *group = view_group(cursor->view, extent->pg);
    uint32_t count = extent->data_shards + extent->parity_shards;

    if (group == NULL || group->n_disks < count) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->id.bytes, extent->id.data, EXTENT_ID_BYTES);
    out->replica = extent->kind != EXTENT_KIND_STRIPED_NUMBER;
    out->k = extent->data_shards;
    out->m = extent->parity_shards;
    out->unit = extent->stripe_unit;
    out->length = extent->length;
    out->durable = extent->durable;
    memcpy(out->disks, group->disks, count * sizeof(out->disks[0]));
    return true;
}

enum read_cursor_next read_cursor_find(struct read_cursor *cursor, struct read_extent *extent,
                                       uint64_t *extent_at, uint64_t *length)
{
    const Kist__Piece *piece;
    uint64_t inside;

    while (cursor->index < cursor->count &&
           cursor->at - cursor->piece_start >= cursor->pieces[cursor->index]->length) {
        cursor->piece_start += cursor->pieces[cursor->index]->length;
        cursor->index += 1;
    }
    if (cursor->index == cursor->count) {
        return CURSOR_LOAD;
    }
    piece = cursor->pieces[cursor->index];
    inside = cursor->at - cursor->piece_start;
    if (!cursor_extent_ok(piece) || !cursor_copy(cursor, piece->extent, extent)) {
        return CURSOR_BROKEN;
    }
    *extent_at = piece->extent_offset + inside;
    *length = piece->length - inside;
    return CURSOR_FOUND;
}

/* ---- Pages ---- */

static struct read_cursor *cursor_of(struct task *task)
{
    return CONTAINER_OF(task, struct read_cursor, task);
}

static enum step_result cursor_ask(struct task *task)
{
    struct read_cursor *cursor = cursor_of(task);
    struct meta_client *meta = cursor->gateway->meta;

    return meta->pieces(meta, &cursor->call, task);
}

static const struct step cursor_steps[] = {
    {"pieces", cursor_ask},
    {0}
};

static void cursor_loaded(struct task *task)
{
    struct read_cursor *cursor = cursor_of(task);
    enum rc rc = task->error.rc;

    if (rc == RC_OK) {
        cursor->pieces = cursor->call.pieces;
        cursor->count = cursor->call.piece_count;
        cursor->index = 0;
        cursor->piece_start = cursor->call.first_offset;
        if (cursor->count == 0 || cursor->piece_start > cursor->at) {
            rc = RC_CORRUPT; /* the record promised more bytes */
        }
    }
    cursor->done(cursor, rc);
}

void read_cursor_load(struct read_cursor *cursor,
                      void (*done)(struct read_cursor *cursor, enum rc rc))
{
    const Kist__Record *record = cursor->record;
    const Kist__Reference *shared = record->shared;

    arena_reset(&cursor->arena);
    cursor->count = 0;
    cursor->pieces = NULL;
    cursor->done = done;
    memset(&cursor->call, 0, sizeof(cursor->call));
    cursor->call.bucket_id = shared != NULL ? shared->home_bucket : cursor->bucket_id;
    cursor->call.key =
        shared != NULL ? slice_of(shared->home_key.data, shared->home_key.len) : cursor->key;
    cursor->call.layout_id = shared != NULL
                                 ? slice_of(shared->layout_id.data, shared->layout_id.len)
                                 : slice_of(record->layout_id.data, record->layout_id.len);
    cursor->call.offset = cursor->at;
    cursor->call.limit = LIMIT_LAYOUT_CHUNK_PIECES;
    cursor->call.arena = &cursor->arena;
    task_start(&cursor->task, cursor_steps, cursor_loaded);
}
