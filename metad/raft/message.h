/*
 * Frames between replicas: one message each, versioned and checksummed (FORMAT.md). The transport
 * moves them without looking inside. What comes from a peer is checked here before anything
 * believes it.
 */
#ifndef METAD_RAFT_MESSAGE_H
#define METAD_RAFT_MESSAGE_H

#include "common/base/buffer.h"
#include "metad/raft/consensus.h"

enum message_kind {
    FRAME_APPEND = 1,
    FRAME_APPEND_RESULT = 2,
    FRAME_VOTE = 3,
    FRAME_VOTE_RESULT = 4,
    FRAME_TIMEOUT_NOW = 5,
    FRAME_ROUND = 6, /* leader: do you still follow me? */
    FRAME_ROUND_RESULT = 7,
    FRAME_SNAPSHOT_BEGIN = 8, /* leader: a copy of the state follows */
    FRAME_SNAPSHOT_CHUNK = 9,
    FRAME_SNAPSHOT_RESULT = 10
};

enum {
    FRAME_HEADER_BYTES = 64,
    FRAME_BODY_BYTES_MAX = 4 * 1024 * 1024,
    FRAME_APPEND_BYTES = 1024 * 1024, /* entries of one frame, unless one alone is larger */
    FRAME_ENTRIES_MAX = 4096
};

struct frame_header {
    enum message_kind kind;
    uint64_t group;
    uint64_t from;
    uint64_t to;
    uint64_t term;
    uint64_t
        round; /* of a leader's message, or echoed: the newest accepted in this term; 0: none */
};

struct frame {
    struct frame_header header;
    union {
        struct consensus_message message; /* APPEND .. TIMEOUT_NOW; peer and term filled in */
        struct {
            uint64_t session;
            struct log_snapshot snapshot;
        } begin;
        struct {
            uint64_t session;
            uint64_t sequence; /* 1, 2, ... */
            bool last;
            struct slice bytes; /* into the frame */
        } chunk;
        struct {
            uint64_t session;
            uint64_t sequence; /* taken up to here; 0 with `refused` */
            bool refused;
        } snapshot_result;
    };
};

/* Begins a frame in `out` (cleared before). */
void frame_begin(struct buffer *out, const struct frame_header *header);
void frame_message(struct buffer *out, const struct consensus_message *message);
void frame_entry(struct buffer *out,
                 const struct log_entry *entry); /* after frame_message() of an APPEND */
void frame_snapshot_begin(struct buffer *out, uint64_t session,
                          const struct log_snapshot *snapshot);
void frame_snapshot_chunk(struct buffer *out, uint64_t session, uint64_t sequence, bool last,
                          struct slice bytes);
void frame_snapshot_result(struct buffer *out, uint64_t session, uint64_t sequence, bool refused);
/* Fills in length and checksum. */
void frame_end(struct buffer *out);

/* Checks everything. Entries of an APPEND are in `entries` (room for FRAME_ENTRIES_MAX) with data
 * in `bytes`. */
enum rc frame_decode(struct slice bytes, struct frame *out, struct log_entry *entries,
                     struct error *error);

#endif
