/*
 * Encoding and checking of frames (FORMAT.md). The decoder reads only what lengths it has compared
 * allow, and refuses anything it does not know: a lost message is harmless, a wrong one is not.
 */
#include "metad/raft/message.h"

#include <assert.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_ZERO = 6,
    AT_BODY_BYTES = 8,
    AT_CRC = 12,
    AT_GROUP = 16,
    AT_FROM = 24,
    AT_TO = 32,
    AT_TERM = 40,
    AT_ROUND = 48,
    AT_RESERVED = 56
};

enum {
    FRAME_MAGIC = 0x5452464b, /* "KFRT" */
    FRAME_VERSION = 1,
    APPEND_FIXED_BYTES = 32,
    ENTRY_FIXED_BYTES = 16,
    SNAPSHOT_FIXED_BYTES = 40,
    CHUNK_FIXED_BYTES = 24,
    FLAG_A = 1,
    FLAG_B = 2
};

static_assert(AT_RESERVED + 8 == FRAME_HEADER_BYTES, "header is whole");

void frame_begin(struct buffer *out, const struct frame_header *header)
{
    char *to = NULL;

    ASSERT(out->len == 0);
    to = buffer_reserve(out, FRAME_HEADER_BYTES);
    memset(to, 0, FRAME_HEADER_BYTES);
    le32_put(to + AT_MAGIC, FRAME_MAGIC);
    to[AT_VERSION] = FRAME_VERSION;
    to[AT_KIND] = (char)header->kind;
    le64_put(to + AT_GROUP, header->group);
    le64_put(to + AT_FROM, header->from);
    le64_put(to + AT_TO, header->to);
    le64_put(to + AT_TERM, header->term);
    le64_put(to + AT_ROUND, header->round);
    out->len += FRAME_HEADER_BYTES;
}

static void put_u64(struct buffer *out, uint64_t value)
{
    le64_put(buffer_reserve(out, 8), value);
    out->len += 8;
}

static void put_u32(struct buffer *out, uint32_t value)
{
    le32_put(buffer_reserve(out, 4), value);
    out->len += 4;
}

void frame_message(struct buffer *out, const struct consensus_message *message)
{
    switch (message->kind) {
    case MESSAGE_APPEND:
        put_u64(out, message->append.prev_index);
        put_u64(out, message->append.prev_term);
        put_u64(out, message->append.commit);
        put_u32(out, message->append.count);
        put_u32(out, 0);
        break;
    case MESSAGE_APPEND_RESULT:
        put_u64(out, message->append_result.rejected);
        put_u64(out, message->append_result.last_index);
        break;
    case MESSAGE_VOTE:
        put_u64(out, message->vote.last_index);
        put_u64(out, message->vote.last_term);
        put_u64(out,
                (message->vote.disrupt ? FLAG_A : 0U) | (message->vote.pre_vote ? FLAG_B : 0U));
        break;
    case MESSAGE_VOTE_RESULT:
        put_u64(out, (message->vote_result.granted ? FLAG_A : 0U) |
                         (message->vote_result.pre_vote ? FLAG_B : 0U));
        break;
    case MESSAGE_TIMEOUT_NOW:
        put_u64(out, message->timeout_now.last_index);
        put_u64(out, message->timeout_now.last_term);
        break;
    case MESSAGE_INSTALL:
    default:
        ASSERT(message->kind != MESSAGE_INSTALL); /* streamed instead */
    }
}

void frame_entry(struct buffer *out, const struct log_entry *entry)
{
    put_u64(out, entry->term);
    put_u32(out, entry->type);
    put_u32(out, entry->len);
    buffer_append(out, slice_of(entry->data, entry->len));
}

void frame_snapshot_begin(struct buffer *out, uint64_t session, const struct log_snapshot *snapshot)
{
    put_u64(out, session);
    put_u64(out, snapshot->index);
    put_u64(out, snapshot->term);
    put_u64(out, snapshot->configuration_index);
    put_u64(out, snapshot->configuration_len);
    buffer_append(out, slice_of(snapshot->configuration, snapshot->configuration_len));
}

void frame_snapshot_chunk(struct buffer *out, uint64_t session, uint64_t sequence, bool last,
                          struct slice bytes)
{
    put_u64(out, session);
    put_u64(out, sequence);
    put_u64(out, last ? FLAG_A : 0U);
    buffer_append(out, bytes);
}

void frame_snapshot_result(struct buffer *out, uint64_t session, uint64_t sequence, bool refused)
{
    put_u64(out, session);
    put_u64(out, sequence);
    put_u64(out, refused ? FLAG_A : 0U);
}

static uint32_t frame_crc(const char *frame, size_t len)
{
    const uint32_t crc = crc32c(0, frame, AT_CRC);

    return crc32c(crc, frame + AT_CRC + 4, len - AT_CRC - 4);
}

void frame_end(struct buffer *out)
{
    ASSERT(out->len >= FRAME_HEADER_BYTES);
    ASSERT(out->len - FRAME_HEADER_BYTES <= FRAME_BODY_BYTES_MAX);
    le32_put(out->data + AT_BODY_BYTES, (uint32_t)(out->len - FRAME_HEADER_BYTES));
    le32_put(out->data + AT_CRC, frame_crc(out->data, out->len));
}

/* A cursor over the body; `good` turns false when bytes are missing. */
struct reader {
    struct slice rest;
    bool good;
};

static uint64_t get_u64(struct reader *reader)
{
    uint64_t value = 0;

    if (reader->rest.len < 8) {
        reader->good = false;
        return 0;
    }
    value = le64_get(reader->rest.data);
    reader->rest = slice_after(reader->rest, 8);
    return value;
}

static uint64_t get_flags(struct reader *reader)
{
    const uint64_t flags = get_u64(reader);

    if (flags > (FLAG_A | FLAG_B)) {
        reader->good = false;
    }
    return flags;
}

static struct slice get_bytes(struct reader *reader, uint64_t len)
{
    struct slice bytes = reader->rest;

    if (reader->rest.len < len) {
        reader->good = false;
        return SLICE_EMPTY;
    }
    bytes.len = (size_t)len;
    reader->rest = slice_after(reader->rest, bytes.len);
    return bytes;
}

static void decode_entries(struct reader *reader, struct consensus_message *message,
                           struct log_entry *entries)
{
    uint64_t term = message->append.prev_term;

    message->append.entries = entries;
    for (uint32_t i = 0; i < message->append.count && reader->good; i++) {
        struct log_entry *entry = &entries[i];
        uint64_t type_len = 0;

        *entry = (struct log_entry){.term = get_u64(reader)};
        type_len = get_u64(reader);
        entry->type = (uint32_t)type_len;
        entry->len = (uint32_t)(type_len >> 32);
        /* Terms never fall along a log, and none is above the leader's. */
        if (entry->type < ENTRY_COMMAND || entry->type > ENTRY_CHANGE || entry->term < term ||
            entry->term > message->term || entry->len > LOG_ENTRY_BYTES_MAX ||
            (entry->type == ENTRY_CHANGE && entry->len > LOG_CONFIGURATION_BYTES_MAX)) {
            reader->good = false;
            return;
        }
        term = entry->term;
        entry->data = get_bytes(reader, entry->len).data;
    }
}

static void decode_append(struct reader *reader, struct consensus_message *message,
                          struct log_entry *entries)
{
    uint64_t count = 0;

    message->kind = MESSAGE_APPEND;
    message->append.prev_index = get_u64(reader);
    message->append.prev_term = get_u64(reader);
    message->append.commit = get_u64(reader);
    count = get_u64(reader);
    if (!reader->good || count > FRAME_ENTRIES_MAX ||
        (message->append.prev_index == 0) != (message->append.prev_term == 0) ||
        message->append.prev_term > message->term ||
        message->append.prev_index > UINT64_MAX - 2 * (uint64_t)FRAME_ENTRIES_MAX) {
        reader->good = false;
        return;
    }
    message->append.count = (uint32_t)count;
    decode_entries(reader, message, entries);
}

static void decode_snapshot_begin(struct reader *reader, struct frame *out)
{
    struct log_snapshot *snapshot = &out->begin.snapshot;
    uint64_t len = 0;
    struct slice bytes = SLICE_EMPTY;

    out->begin.session = get_u64(reader);
    *snapshot = (struct log_snapshot){0};
    snapshot->index = get_u64(reader);
    snapshot->term = get_u64(reader);
    snapshot->configuration_index = get_u64(reader);
    len = get_u64(reader);
    bytes = get_bytes(reader, len);
    if (!reader->good || len > LOG_CONFIGURATION_BYTES_MAX || snapshot->index == 0 ||
        snapshot->term == 0 || snapshot->term > out->header.term ||
        snapshot->configuration_index > snapshot->index) {
        reader->good = false;
        return;
    }
    snapshot->configuration_len = (uint32_t)len;
    if (bytes.len > 0) {
        memcpy(snapshot->configuration, bytes.data, bytes.len);
    }
}

static void decode_small(struct reader *reader, struct consensus_message *message,
                         enum message_kind kind)
{
    uint64_t flags = 0;

    if (kind == FRAME_APPEND_RESULT) {
        message->kind = MESSAGE_APPEND_RESULT;
        message->append_result.rejected = get_u64(reader);
        message->append_result.last_index = get_u64(reader);
    } else if (kind == FRAME_VOTE) {
        message->kind = MESSAGE_VOTE;
        message->vote.last_index = get_u64(reader);
        message->vote.last_term = get_u64(reader);
        flags = get_flags(reader);
        message->vote.disrupt = (flags & FLAG_A) != 0;
        message->vote.pre_vote = (flags & FLAG_B) != 0;
    } else if (kind == FRAME_VOTE_RESULT) {
        message->kind = MESSAGE_VOTE_RESULT;
        flags = get_flags(reader);
        message->vote_result.granted = (flags & FLAG_A) != 0;
        message->vote_result.pre_vote = (flags & FLAG_B) != 0;
    } else {
        message->kind = MESSAGE_TIMEOUT_NOW;
        message->timeout_now.last_index = get_u64(reader);
        message->timeout_now.last_term = get_u64(reader);
    }
}

static void decode_body(struct reader *reader, struct frame *out, struct log_entry *entries)
{
    switch (out->header.kind) {
    case FRAME_APPEND:
    case FRAME_APPEND_RESULT:
    case FRAME_VOTE:
    case FRAME_VOTE_RESULT:
    case FRAME_TIMEOUT_NOW:
        out->message = (struct consensus_message){
            .kind = MESSAGE_APPEND, .peer = out->header.from, .term = out->header.term};
        if (out->header.kind == FRAME_APPEND) {
            decode_append(reader, &out->message, entries);
        } else {
            decode_small(reader, &out->message, out->header.kind);
        }
        break;
    case FRAME_ROUND:
    case FRAME_ROUND_RESULT:
        break;
    case FRAME_SNAPSHOT_BEGIN:
        decode_snapshot_begin(reader, out);
        break;
    case FRAME_SNAPSHOT_CHUNK:
        out->chunk.session = get_u64(reader);
        out->chunk.sequence = get_u64(reader);
        out->chunk.last = get_flags(reader) != 0;
        out->chunk.bytes = get_bytes(reader, reader->rest.len);
        break;
    case FRAME_SNAPSHOT_RESULT:
        out->snapshot_result.session = get_u64(reader);
        out->snapshot_result.sequence = get_u64(reader);
        out->snapshot_result.refused = get_flags(reader) != 0;
        break;
    default:
        reader->good = false;
    }
}

enum rc frame_decode(struct slice bytes, struct frame *out, struct log_entry *entries,
                     struct error *error)
{
    const char *from = bytes.data;
    struct reader reader = {.rest = slice_after(bytes, FRAME_HEADER_BYTES), .good = true};

    if (bytes.len < FRAME_HEADER_BYTES || le32_get(from + AT_MAGIC) != FRAME_MAGIC) {
        return error_set(error, RC_CORRUPT, "raft frame: no header");
    }
    if (le32_get(from + AT_BODY_BYTES) != bytes.len - FRAME_HEADER_BYTES ||
        bytes.len - FRAME_HEADER_BYTES > FRAME_BODY_BYTES_MAX) {
        return error_set(error, RC_CORRUPT, "raft frame: wrong length");
    }
    if (le32_get(from + AT_CRC) != frame_crc(from, bytes.len)) {
        return error_set(error, RC_CORRUPT, "raft frame: checksum mismatch");
    }
    if (from[AT_VERSION] != FRAME_VERSION) {
        return error_set(error, RC_UNSUPPORTED, "raft frame: version %d", from[AT_VERSION]);
    }
    out->header = (struct frame_header){
        .kind = (enum message_kind)(unsigned char)from[AT_KIND],
        .group = le64_get(from + AT_GROUP),
        .from = le64_get(from + AT_FROM),
        .to = le64_get(from + AT_TO),
        .term = le64_get(from + AT_TERM),
        .round = le64_get(from + AT_ROUND),
    };
    if (out->header.from == 0 || out->header.to == 0 || out->header.from == out->header.to) {
        return error_set(error, RC_CORRUPT, "raft frame: impossible replica ids");
    }
    decode_body(&reader, out, entries);
    if (!reader.good || reader.rest.len != 0) {
        return error_set(error, RC_CORRUPT, "raft frame: malformed body of kind %d",
                         (int)out->header.kind);
    }
    return RC_OK;
}
