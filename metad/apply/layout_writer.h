/*
 * Writes the rows of a layout too long for its record, in one pass, in bounded memory:
 *
 *     layout         64 pieces a row, by the byte offset of the first: a range read is one seek
 *     layout_parts   64 part summaries a row, by the position of the first: partNumber is one seek
 *
 * The first LIMIT_RECORD_PIECES pieces go into the record as well. A list that fits the record gets
 * no `layout` row; a multipart layout always gets its `layout_parts`.
 */
#ifndef METAD_APPLY_LAYOUT_WRITER_H
#define METAD_APPLY_LAYOUT_WRITER_H

#include "metad/apply/liveness.h"

struct layout_writer {
    struct apply *apply;
    struct layout_name layout;
    bool rows;            /* more pieces than a record holds are to come */
    uint64_t offset;      /* bytes added so far */
    uint32_t piece_count; /* pieces added so far */
    uint32_t flush_count; /* rows written: what was added before may go */
    /* Private. */
    Kist__LayoutChunk chunk;
    Kist__Piece *pieces[LIMIT_LAYOUT_CHUNK_PIECES];
    Kist__LayoutChunk part_chunk;
    Kist__PartSummary *parts[LIMIT_LAYOUT_CHUNK_PIECES];
    uint32_t part_at; /* position of the next part */
};

void layout_writer_init(struct layout_writer *writer, struct apply *apply,
                        const struct layout_name *layout, bool rows);
/* Goes on behind the last row of the layout: its pieces are written again with what is added. */
void layout_writer_resume(struct layout_writer *writer, const Kist__LayoutChunk *last);
/* Borrows the piece until the next flush (flush_count rose and further pieces were added). */
void layout_writer_add(struct layout_writer *writer, Kist__Piece *piece);
/* A part that begins at the present offset: call before its pieces are added. Copied. */
void layout_writer_part(struct layout_writer *writer, const Kist__Part *part);
void layout_writer_finish(struct layout_writer *writer);

#endif
