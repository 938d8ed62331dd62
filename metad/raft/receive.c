/*
 * What comes from peers: checked, judged by the promises that leases rest on, given to the core.
 *
 *     frame -> decode -> (a leader's? -> heard) -> (a vote? -> refused while a leader was heard) ->
 * core
 *
 * Promises: for one election timeout after its start, and after each message accepted from a
 * leader, this replica takes no part in an election (but for one that the leader itself asked for,
 * having given up its lease). Frames that do not pass every check are dropped: losing a message is
 * always safe.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/raft/replica_internal.h"

static void heard(struct replica *r, const struct frame_header *header)
{
    r->heard_ns = replica_now_ns(r);
    if (r->heard_term != header->term) {
        r->heard_term = header->term;
        r->heard_round = 0;
    }
    if (r->heard_round < header->round) {
        r->heard_round = header->round;
    }
}

static void core_receive(struct replica *r, const struct consensus_message *message,
                         const struct log_entry *given)
{
    driver_carry_out(
        r, consensus_receive(r->core, replica_now_ms(r), message, &r->update, &r->step_error),
        given);
}

/* The entries' bytes are borrowed: they move into a block that the log keeps. */
static struct entry_block *adopt(struct log_entry *entries, uint32_t count)
{
    struct entry_block *block = NULL;
    size_t bytes = 0;
    char *to = NULL;

    for (uint32_t i = 0; i < count; i++) {
        bytes += entries[i].len;
    }
    block = mem_alloc_raw(sizeof(*block) + bytes);
    block->refs = 1;
    block->len = bytes;
    to = block->bytes;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].len > 0) {
            memcpy(to, entries[i].data, entries[i].len);
        }
        entries[i].data = to;
        entries[i].block = block;
        to += entries[i].len;
    }
    return block;
}

/*
 * How many of the entries the snapshot covers: a repeat that came late, or a leader that begins
 * from the first entry again. They are committed, so they are the leader's as well; but the core
 * has forgotten the terms of what was trimmed and would take it for new, and with it all that
 * follows.
 */
static uint32_t append_covered(const struct replica *r, const struct consensus_message *message)
{
    const uint64_t begin = r->entries.snapshot.index;
    const uint64_t prev = message->append.prev_index;

    if (prev >= begin) {
        return 0;
    }
    return begin - prev < message->append.count ? (uint32_t)(begin - prev) : message->append.count;
}

static void append_entries(struct replica *r, struct consensus_message *message,
                           struct log_entry *entries)
{
    const uint32_t count = message->append.count;
    struct entry_block *block = adopt(entries, count);
    uint32_t from = append_covered(r, message);

    if (from == count) { /* nothing is new: what we have from there on is answered */
        struct consensus_message part = *message;

        part.append.prev_index = r->entries.snapshot.index;
        part.append.prev_term = r->entries.snapshot.term;
        part.append.count = 0;
        core_receive(r, &part, NULL);
    }
    while (from < count && !r->stopped) {
        const uint32_t n = consensus_fragment(entries, count, from);
        struct consensus_message part = *message;
        const uint64_t last = message->append.prev_index + from + n;

        part.append.prev_index = message->append.prev_index + from;
        part.append.prev_term = from == 0 ? message->append.prev_term : entries[from - 1].term;
        part.append.count = n;
        part.append.entries = &entries[from];
        core_receive(r, &part, &entries[from]);
        from += n;
        if (entry_log_term(&r->entries, last) != entries[from - 1].term) {
            break; /* refused, so the rest would be too */
        }
    }
    entry_block_unref(block);
}

static void receive_append(struct replica *r, struct frame *frame)
{
    struct consensus_message *message = &frame->message;

    if (message->term >= consensus_term(r->core)) {
        if (r->role == CONSENSUS_LEADER && message->term == consensus_term(r->core)) {
            struct error error;

            error_set(&error, RC_CORRUPT, "replica %llu also leads in term %llu",
                      (unsigned long long)message->peer, (unsigned long long)message->term);
            driver_fail(r, &error);
            return;
        }
        heard(r, &frame->header);
    }
    if (message->append.count == 0) {
        core_receive(r, message, NULL);
    } else if (r->unwritten_bytes <= REPLICA_UNWRITTEN_BYTES) {
        append_entries(r, message, r->receive_entries);
    }
}

static void receive_append_result(struct replica *r, struct frame *frame)
{
    struct consensus_message *message = &frame->message;

    if (r->role == CONSENSUS_LEADER && message->term == consensus_term(r->core)) {
        if (r->lease.term == message->term && frame->header.round > 0) {
            lease_answered(&r->lease, message->peer, frame->header.round);
        }
        if (message->append_result.rejected == 0) {
            snapshot_send_reached(r, message->peer, message->append_result.last_index);
        } else if (snapshot_send_active(r, message->peer)) {
            /* A copy is on its way: the core need not begin another for each refusal. */
            message->append_result.rejected = 0;
            message->append_result.last_index = 0;
        }
    }
    core_receive(r, message, NULL);
}

static void receive_vote(struct replica *r, struct frame *frame)
{
    const struct consensus_message *message = &frame->message;

    if (!message->vote.disrupt && replica_now_ns(r) < r->heard_ns + r->election_ns) {
        return; /* not even the term is looked at */
    }
    core_receive(r, message, NULL);
}

static void receive_round(struct replica *r, const struct frame *frame)
{
    const struct frame_header *header = &frame->header;

    if (header->term != consensus_term(r->core) || consensus_role(r->core) != CONSENSUS_FOLLOWER ||
        consensus_leader(r->core) != header->from) {
        return;
    }
    heard(r, header);
    link_send_round(r, header->from, FRAME_ROUND_RESULT);
}

static void receive_dispatch(struct replica *r, struct frame *frame)
{
    const struct frame_header *header = &frame->header;

    switch (header->kind) {
    case FRAME_APPEND:
        receive_append(r, frame);
        break;
    case FRAME_APPEND_RESULT:
        receive_append_result(r, frame);
        break;
    case FRAME_VOTE:
        receive_vote(r, frame);
        break;
    case FRAME_VOTE_RESULT:
        /* The core looks at its candidate's state before it checks that it is one: RAFT.md. */
        if (consensus_role(r->core) == CONSENSUS_CANDIDATE) {
            core_receive(r, &frame->message, NULL);
        }
        break;
    case FRAME_TIMEOUT_NOW:
        if (header->term == consensus_term(r->core)) {
            r->timeout_now_term = header->term;
            core_receive(r, &frame->message, NULL);
        }
        break;
    case FRAME_ROUND:
        receive_round(r, frame);
        break;
    case FRAME_ROUND_RESULT:
        if (r->role == CONSENSUS_LEADER && header->term == r->lease.term) {
            lease_answered(&r->lease, header->from, header->round);
        }
        break;
    case FRAME_SNAPSHOT_BEGIN:
        snapshot_receive_begin(r, frame);
        break;
    case FRAME_SNAPSHOT_CHUNK:
        snapshot_receive_chunk(r, frame);
        break;
    case FRAME_SNAPSHOT_RESULT:
        snapshot_send_result(r, frame);
        break;
    default:
        ASSERT(header->kind == FRAME_APPEND); /* the decoder lets no others through */
    }
}

void replica_receive(struct replica *r, uint64_t from, struct slice bytes)
{
    struct frame frame;
    struct error error = {.rc = RC_OK};

    if (r->stopped) {
        return;
    }
    if (frame_decode(bytes, &frame, r->receive_entries, &error) != RC_OK) {
        LOG_WARN("raft_frame_refused", "group=%llu replica=%llu from=%llu error=\"%s\"",
                 (unsigned long long)r->group, (unsigned long long)r->id, (unsigned long long)from,
                 error.text);
        return;
    }
    if (frame.header.group != r->group || frame.header.to != r->id || frame.header.from != from) {
        return; /* of an earlier incarnation, or strayed */
    }
    receive_dispatch(r, &frame);
    driver_settle(r);
}
