#include "gateway/s3/part_pieces.h"

#include "common/base/limits.h"

enum {
    PIECE_PACKED_BYTES =
        160, /* of a piece in a command besides the owner's key: ids, numbers, tags */
    PIECES_PACKED_MAX = LIMIT_PART_COMMAND_BYTES - 4096,
    PIECES_PAGE = 256
};

static Kist__Reference *part_pieces_owner(struct s3_request *req, const struct part_pieces *op,
                                          const Kist__Piece *from)
{
    Kist__Reference *owner = arena_alloc_raw(req->arena, sizeof(*owner));

    /* A piece that the source borrows itself is borrowed from where it lives: chains do not grow.
     */
    *owner = from->owner != NULL ? *from->owner : *op->home;
    owner->reference_id = op->home->reference_id;
    return owner;
}

static enum step_result part_pieces_add(struct s3_request *req, struct part_pieces *op,
                                        const Kist__Piece *from, uint64_t skip, uint64_t length)
{
    Kist__Piece *piece = arena_alloc_raw(req->arena, sizeof(*piece));

    kist__piece__init(piece);
    piece->length = length;
    piece->extent_offset = from->extent_offset + skip;
    piece->extent = from->extent;
    piece->owner = part_pieces_owner(req, op, from);
    piece->part = op->part;
    op->packed_bytes += PIECE_PACKED_BYTES + piece->owner->home_key.len;
    if (op->packed_bytes > PIECES_PACKED_MAX) {
        return s3_fail(
            req, S3_InvalidRequest,
            "The range to copy is made of too many pieces for one part. Copy it in smaller "
            "parts.");
    }
    if (op->count == op->capacity) {
        size_t capacity = op->capacity == 0 ? 16 : op->capacity * 2;
        Kist__Piece **more = arena_alloc_raw(req->arena, capacity * sizeof(*more));

        if (op->count > 0) {
            memcpy(more, op->pieces, op->count * sizeof(*more));
        }
        op->pieces = more;
        op->capacity = capacity;
    }
    op->pieces[op->count++] = piece;
    op->done += length;
    return STEP_NEXT;
}

/* Takes what of `from` lies in the range; `at`: offset of from[0] within the object. */
static enum step_result part_pieces_take(struct s3_request *req, struct part_pieces *op,
                                         Kist__Piece *const *from, size_t count, uint64_t at)
{
    for (size_t i = 0; i < count && op->done < op->length; i++) {
        uint64_t want = op->offset + op->done;
        uint64_t end = at + from[i]->length;

        if (want >= at && want < end) {
            uint64_t skip = want - at;
            uint64_t rest = op->length - op->done;
            uint64_t length = end - want < rest ? end - want : rest;

            if (part_pieces_add(req, op, from[i], skip, length) == STEP_FAIL) {
                return STEP_FAIL;
            }
        }
        at = end;
    }
    return STEP_NEXT;
}

enum step_result part_pieces_step(struct s3_request *req, struct part_pieces *op)
{
    struct meta_client *meta = req->gateway->meta;
    uint64_t before = op->done;
    enum step_result result;

    if (op->record->n_pieces == op->record->piece_count) {
        result = part_pieces_take(req, op, op->record->pieces, op->record->n_pieces, 0);
    } else if (op->asked) {
        result =
            part_pieces_take(req, op, op->call.pieces, op->call.piece_count, op->call.first_offset);
    } else {
        result = STEP_NEXT;
        before = UINT64_MAX; /* nothing was asked yet */
    }
    if (result == STEP_FAIL || op->done == op->length) {
        return result;
    }
    if (op->done == before || op->record->n_pieces == op->record->piece_count) {
        return task_fail(&req->task, RC_CORRUPT, "the source's layout ends before its size");
    }
    op->call = (struct meta_pieces){
        .bucket_id = op->home->home_bucket,
        .key = s3_slice(op->home->home_key),
        .layout_id = s3_slice(op->home->layout_id),
        .offset = op->offset + op->done,
        .limit = PIECES_PAGE,
        .arena = req->arena,
    };
    op->asked = true;
    result = meta->pieces(meta, &op->call, &req->task);
    return result == STEP_NEXT ? STEP_REPEAT : result == STEP_WAIT ? STEP_AGAIN : result;
}
