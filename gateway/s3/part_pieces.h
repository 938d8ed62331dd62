/*
 * A range of an object as pieces that refer to it: slices of its extents, each with the layout that
 * owns them and one reference id for all. Nothing is read from a datad.
 */
#ifndef GATEWAY_S3_PART_PIECES_H
#define GATEWAY_S3_PART_PIECES_H

#include "gateway/s3/op.h"

struct part_pieces {
    /* In. */
    const Kist__Record *record;  /* not inline */
    const Kist__Reference *home; /* of the record's layout, with the new reference's id */
    uint64_t offset;
    uint64_t length; /* at least 1, within the record's size */
    uint32_t part;
    /* Out, after STEP_NEXT. */
    Kist__Piece **pieces;
    size_t count;
    /* Private. */
    struct meta_pieces call;
    bool asked;
    uint64_t done; /* bytes of the range that have pieces */
    size_t capacity;
    size_t packed_bytes; /* what they take in the command, about */
};

/* A step: STEP_NEXT when all are there; STEP_AGAIN, STEP_REPEAT; STEP_FAIL: too many for one part.
 */
enum step_result part_pieces_step(struct s3_request *req, struct part_pieces *op);

#endif
