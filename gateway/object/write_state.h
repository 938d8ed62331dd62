/* State of one write_path, and what write_extent.c does to it. Private to gateway/object. */
#ifndef GATEWAY_OBJECT_WRITE_STATE_H
#define GATEWAY_OBJECT_WRITE_STATE_H

#include "gateway/object/extent_writer.h"
#include "gateway/object/memory.h"
#include "gateway/object/memory_hold.h"
#include "gateway/object/write_path.h"
#include "gateway/object/write_plan.h"

struct write_buffer {
    char *data;
    size_t len;
    bool filled;
};

struct write_state {
    struct write_path *path;
    struct write_plan plan;
    struct memory_wait wait;
    struct memory_hold hold;
    uint64_t admitted_bytes;
    struct write_buffer buffers[WRITE_BUFFERS_MAX];
    char *parity;
    size_t parity_size;
    uint32_t fill; /* the buffer that is or will be filled */
    uint32_t send; /* the buffer that is or will be sent */
    uint64_t sent_bytes;
    struct payload_read read;
    bool reading;
    /* The first bytes of the body: read before memory is admitted. */
    char *first;
    size_t first_len;
    bool first_ended;   /* they are all there is */
    bool front_due;     /* prefix and first bytes are still to be put into the first buffer */
    size_t front_bytes; /* of them, in the buffer that is being filled */
    bool ended;         /* the payload gave its last byte, and all is well with it */
    /* The extent under way. */
    void (*extent_done)(struct extent_writer *extent);
    struct extent_writer extent;
    struct extent_shard *shards;
    uint32_t shard_capacity;
    bool open;    /* begun, not sealed */
    bool calling; /* a call to its shards is under way */
    uint64_t extent_len;
    /* Sealed so far. */
    Kist__Piece **pieces;
    size_t piece_count;
    size_t piece_capacity;
    enum rc failed;
    const char *failed_text;
    /* The outcome, when known before write_path_start() returns. */
    bool starting;
    bool finished;
};

/* The first failure counts. `text` is a literal. */
void write_fail(struct write_state *state, enum rc rc, const char *text);

/* A new id, a group that is healthy now, writers for its shards: state->extent. Nothing is asked
 * yet. False: the write has failed. */
bool write_extent_prepare(struct write_state *state, enum extent_kind kind);
/* Cuts the filled stripe into units, zeros behind its last byte, parity behind them. */
void write_encode(struct write_state *state, struct slice units[LIMIT_SHARDS]);
/* The extent is sealed: it becomes a piece. */
void write_add_piece(struct write_state *state);

#endif
