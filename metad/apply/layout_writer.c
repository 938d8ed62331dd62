#include "metad/apply/layout_writer.h"

#include "common/base/assert.h"

void layout_writer_init(struct layout_writer *writer, struct apply *apply,
                        const struct layout_name *layout, bool rows)
{
    *writer = (struct layout_writer){.apply = apply, .layout = *layout, .rows = rows};
    kist__layout_chunk__init(&writer->chunk);
    kist__layout_chunk__init(&writer->part_chunk);
    writer->chunk.pieces = writer->pieces;
    writer->part_chunk.parts = writer->parts;
}

void layout_writer_resume(struct layout_writer *writer, const Kist__LayoutChunk *last)
{
    ASSERT(writer->rows && writer->piece_count == 0);
    ASSERT(last->n_pieces <= LIMIT_LAYOUT_CHUNK_PIECES);
    writer->offset = last->offset;
    for (size_t i = 0; i < last->n_pieces; i++) {
        layout_writer_add(writer, last->pieces[i]);
    }
}

static void put_row(struct layout_writer *writer, const struct row_key *row,
                    const Kist__LayoutChunk *chunk)
{
    struct arena arena;

    arena_init(&arena);
    apply_put_unread(writer->apply, FAMILY_ROWS, row, message_pack(&arena, &chunk->base));
    arena_deinit(&arena);
}

static void flush_pieces(struct layout_writer *writer)
{
    struct row_key row;

    if (writer->chunk.n_pieces > 0) {
        key_object_u64(&row, writer->layout.bucket_id, writer->layout.key, KIND_LAYOUT,
                       writer->layout.id, writer->chunk.offset);
        put_row(writer, &row, &writer->chunk);
    }
    writer->chunk.n_pieces = 0;
    writer->flush_count += 1;
}

static void flush_parts(struct layout_writer *writer)
{
    struct row_key row;
    uint32_t count = (uint32_t)writer->part_chunk.n_parts;

    if (count > 0) {
        key_object_u32(&row, writer->layout.bucket_id, writer->layout.key, KIND_LAYOUT_PARTS,
                       writer->layout.id, writer->part_at - count);
        put_row(writer, &row, &writer->part_chunk);
    }
    writer->part_chunk.n_parts = 0;
}

void layout_writer_add(struct layout_writer *writer, Kist__Piece *piece)
{
    if (writer->rows && writer->chunk.n_pieces == LIMIT_LAYOUT_CHUNK_PIECES) {
        flush_pieces(writer);
    }
    if (writer->rows) {
        if (writer->chunk.n_pieces == 0) {
            writer->chunk.offset = writer->offset;
        }
        writer->pieces[writer->chunk.n_pieces++] = piece;
    }
    writer->offset += piece->length;
    writer->piece_count += 1;
}

void layout_writer_part(struct layout_writer *writer, const Kist__Part *part)
{
    Kist__PartSummary summary = KIST__PART_SUMMARY__INIT;
    struct slice packed;

    if (writer->part_chunk.n_parts == LIMIT_LAYOUT_CHUNK_PIECES) {
        flush_parts(writer);
    }
    if (writer->part_chunk.n_parts == 0) {
        writer->part_chunk.offset = writer->offset;
    }
    summary.number = part->number;
    summary.size = part->size;
    summary.checksums = part->checksums;
    summary.n_checksums = part->n_checksums;
    packed = message_pack(writer->apply->arena, &summary.base);
    writer->parts[writer->part_chunk.n_parts] =
        message_unpack(writer->apply->arena, &kist__part_summary__descriptor, packed);
    ASSERT(writer->parts[writer->part_chunk.n_parts] != NULL);
    writer->part_chunk.n_parts += 1;
    writer->part_at += 1;
}

void layout_writer_finish(struct layout_writer *writer)
{
    flush_pieces(writer);
    flush_parts(writer);
}
