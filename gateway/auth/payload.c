/*
 *     plain:        http_body_read() straight into the caller's buffer
 *     aws-chunked:  framing through `frame` (128 bytes at a time), data straight into the caller's
 * buffer
 *
 * One loop, payload_run(), goes on for as long as bytes are at hand; a read that must wait
 * re-enters it.
 */
#include "gateway/auth/payload.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/codec/base64.h"
#include "common/codec/hex.h"
#include "common/crypto/hmac.h"
#include "gateway/auth/payload_state.h"

static void payload_raw_done(struct http_read *raw);

enum s3_error payload_init(struct payload *payload, struct http_exchange *exchange,
                           const struct payload_options *options, const char **text)
{
    struct payload_state *state = arena_alloc(exchange->arena, sizeof(*state));
    enum s3_error error;
    uint32_t mask = options->also;

    memset(payload, 0, sizeof(*payload));
    *text = NULL;
    payload->error = S3_OK;
    payload->http = exchange;
    payload->auth = options->auth;
    payload->state = state;
    state->payload = payload;
    state->raw.done = payload_raw_done;
    state->length_max = options->length_max;
    state->length_min = options->length_min;
    state->source = options->source;
    state->md5 = options->md5;
    error = payload_headers(payload, state, options, text);
    if (error != S3_OK) {
        payload->error = error;
        payload->error_text = *text;
        state->finished = true;
        return error;
    }
    if (payload->algorithm != CHECKSUM_NONE) {
        mask |= 1U << payload->algorithm;
    }
    state->reported = mask;
    if (options->auth->mode == PAYLOAD_SHA256) {
        mask |= 1U << CHECKSUM_SHA256;
    }
    digest_set_init(&state->digests, mask, options->md5 || state->has_content_md5);
    return S3_OK;
}

void payload_init_bytes(struct payload *payload, struct arena *arena, struct slice bytes,
                        const struct payload_options *options)
{
    static const struct sigv4_result unsigned_body = {.mode = PAYLOAD_UNSIGNED};
    struct payload_state *state = arena_alloc(arena, sizeof(*state));

    memset(payload, 0, sizeof(*payload));
    payload->has_length = true;
    payload->length = bytes.len;
    payload->auth = &unsigned_body;
    payload->state = state;
    state->payload = payload;
    state->length_max = bytes.len;
    state->md5 = options->md5;
    state->reported = options->also;
    state->from_memory = true;
    state->memory = bytes;
    digest_set_init(&state->digests, options->also, options->md5);
}

void payload_deinit(struct payload *payload)
{
    struct payload_state *state = payload->state;

    if (state != NULL) {
        digest_set_deinit(&state->digests);
        payload->state = NULL;
    }
}

/* ---- The end ---- */

static bool payload_fail(struct payload_state *state, enum s3_error error, const char *text)
{
    state->payload->error = error;
    state->payload->error_text = text;
    state->finished = true;
    return true;
}

/* The checksum that came behind the body takes the place of one that came in a header. */
static enum s3_error payload_take_trailer(struct payload_state *state)
{
    struct payload *payload = state->payload;
    struct slice value = slice_of(state->chunked.trailer_value, state->chunked.trailer_value_len);

    if (!state->streaming || !state->chunked.trailer_seen) {
        return S3_OK;
    }
    if (!checksum_parse(payload->algorithm, value, &payload->declared)) {
        payload->error_text =
            arena_printf(payload->http->arena, "Value for %s trailing header is invalid.",
                         checksum_header(payload->algorithm))
                .data;
        return S3_InvalidRequest;
    }
    return S3_OK;
}

static struct slice payload_hex(struct arena *arena, const void *data, size_t len)
{
    char *out = arena_alloc_raw(arena, 2 * len);

    hex_encode(out, data, len);
    return slice_of(out, 2 * len);
}

static enum s3_error payload_not_sha256(struct payload *payload, const struct checksum_value *found)
{
    payload->digest_expected = http_header_get(&payload->http->request, "x-amz-content-sha256");
    payload->digest_calculated = payload_hex(payload->http->arena, found->bytes, HASH_SHA256_BYTES);
    return S3_XAmzContentSHA256Mismatch;
}

static enum s3_error payload_not_md5(struct payload *payload, const uint8_t found[MD5_BYTES],
                                     const uint8_t expected[MD5_BYTES])
{
    struct arena *arena = payload->http->arena;
    char *text = arena_alloc_raw(arena, base64_encoded_len(MD5_BYTES));

    payload->digest_calculated = slice_of(text, base64_encode(text, found, MD5_BYTES));
    payload->digest_expected = payload_hex(arena, expected, MD5_BYTES); /* AWS: one of each form */
    payload->error_text = "The Content-MD5 you specified did not match what we received.";
    return S3_BadDigest;
}

static enum s3_error payload_compare(struct payload_state *state, const uint8_t md5[MD5_BYTES],
                                     const struct checksum_value values[CHECKSUM_ALGORITHMS])
{
    struct payload *payload = state->payload;
    enum checksum_algorithm algorithm = payload->declared.algorithm;

    if (payload->auth->mode == PAYLOAD_SHA256 &&
        memcmp(values[CHECKSUM_SHA256].bytes, payload->auth->payload_sha256, HASH_SHA256_BYTES) !=
            0) {
        return payload_not_sha256(payload, &values[CHECKSUM_SHA256]);
    }
    if (state->has_content_md5 && memcmp(md5, state->content_md5, MD5_BYTES) != 0) {
        return payload_not_md5(payload, md5, state->content_md5);
    }
    if (algorithm != CHECKSUM_NONE &&
        memcmp(values[algorithm].bytes, payload->declared.bytes, checksum_bytes(algorithm)) != 0) {
        payload->error_text = arena_printf(payload->http->arena,
                                           "The %s you specified did not match the calculated "
                                           "checksum.",
                                           checksum_name(algorithm))
                                  .data;
        return S3_BadDigest;
    }
    return S3_OK;
}

/* Every byte has come. Always returns true: the read is complete. */
static bool payload_finish(struct payload_state *state)
{
    struct payload *payload = state->payload;
    struct checksum_value values[CHECKSUM_ALGORITHMS];
    uint8_t md5[MD5_BYTES] = {0};

    state->finished = true;
    if (payload->has_length && payload->received != payload->length) {
        return payload_fail(state, S3_IncompleteBody, NULL);
    }
    if (payload->received < state->length_min) {
        return payload_fail(state, S3_EntityTooSmall,
                            "Your proposed upload is smaller than the minimum allowed size");
    }
    payload->error = payload_take_trailer(state);
    if (payload->error != S3_OK) {
        return true;
    }
    digest_set_finish(&state->digests, md5, values);
    payload->error = payload_compare(state, md5, values);
    if (state->md5) {
        memcpy(payload->md5, md5, sizeof(payload->md5));
    }
    for (unsigned i = CHECKSUM_CRC32; i < CHECKSUM_ALGORITHMS; i++) {
        if ((state->reported >> i & 1) != 0) {
            payload->checksums[i] = values[i];
        }
    }
    return true;
}

/* ---- Reading ---- */

/* `len` decoded bytes now stand behind those of the read. */
static bool payload_took(struct payload_state *state, size_t len)
{
    struct payload *payload = state->payload;
    struct slice bytes = slice_of(state->to + state->read->len, len);
    enum s3_error error = S3_OK;

    payload->received += len;
    state->read->len += len;
    if (payload->received > state->length_max) {
        return !payload_fail(state, S3_EntityTooLarge, NULL);
    }
    if (state->streaming) {
        error = aws_chunked_data(&state->chunked, bytes);
    }
    digest_set_update(&state->digests, bytes);
    if (error != S3_OK) {
        return !payload_fail(state, error, NULL);
    }
    return true;
}

static void payload_frame(struct payload_state *state, struct slice bytes)
{
    size_t used = 0;
    enum s3_error error = aws_chunked_frame(&state->chunked, bytes, &used);

    state->frame_at += used;
    if (error != S3_OK) {
        (void)payload_fail(state, error, state->chunked.error_text);
    } else if (state->chunked.state == AWS_CHUNKED_END && state->frame_at < state->frame_len) {
        (void)payload_fail(state, S3_IncompleteBody, "Bytes follow the last chunk.");
    }
}

/* Uses what lies in `frame`: as framing, or as data that was read with it. */
static void payload_use_frame(struct payload_state *state)
{
    struct slice bytes =
        slice_of(state->frame + state->frame_at, state->frame_len - state->frame_at);

    if (state->chunked.state != AWS_CHUNKED_DATA) {
        payload_frame(state, bytes);
        return;
    }
    size_t room = state->to_len - state->read->len;
    size_t len = bytes.len < room ? bytes.len : room;

    if (len > state->chunked.data_left) {
        len = (size_t)state->chunked.data_left;
    }
    memcpy(state->to + state->read->len, bytes.data, len);
    state->frame_at += len;
    (void)payload_took(state, len);
}

/* The transport gave `len` bytes, or has no more (0), or broke. */
static void payload_raw(struct payload_state *state)
{
    if (state->raw.rc != RC_OK) {
        enum s3_error error = S3_IncompleteBody;

        if (state->raw.rc == RC_TIMEOUT) {
            error = S3_RequestTimeout;
        } else if (state->raw.rc == RC_INVALID) { /* a source's alone */
            error = S3_MalformedPOSTRequest;
        }
        (void)payload_fail(state, error, NULL);
    } else if (state->raw.len == 0) {
        if (state->streaming && state->chunked.state != AWS_CHUNKED_END) {
            (void)payload_fail(state, S3_IncompleteBody,
                               "The request body terminated unexpectedly");
        } else {
            (void)payload_finish(state);
        }
    } else if (state->direct) {
        (void)payload_took(state, state->raw.len);
    } else {
        state->frame_at = 0;
        state->frame_len = state->raw.len;
        if (state->chunked.state == AWS_CHUNKED_END) {
            (void)payload_fail(state, S3_IncompleteBody, "Bytes follow the last chunk.");
        }
    }
}

/* Asks the transport for data or framing. True when the answer is in `raw` already. */
static bool payload_ask(struct payload_state *state)
{
    size_t room = state->to_len - state->read->len;

    state->direct = !state->streaming || state->chunked.state == AWS_CHUNKED_DATA;
    if (state->from_memory) {
        size_t len = state->memory.len < room ? state->memory.len : room;

        if (len > 0) {
            memcpy(state->to + state->read->len, state->memory.data, len);
        }
        state->memory = slice_after(state->memory, len);
        state->raw.rc = RC_OK;
        state->raw.len = len;
        return true;
    }
    if (state->source != NULL) {
        return state->source->read(state->source, &state->raw, state->to + state->read->len, room);
    }
    if (!state->direct) {
        return http_body_read(state->payload->http, &state->raw, state->frame,
                              sizeof(state->frame));
    }
    if (state->streaming && room > state->chunked.data_left) {
        room = (size_t)state->chunked.data_left;
    }
    return http_body_read(state->payload->http, &state->raw, state->to + state->read->len, room);
}

/* Is the read full, with data (not only framing) to come? Then the rest waits for the next read. */
static bool payload_full(const struct payload_state *state)
{
    const struct payload *payload = state->payload;

    if (state->read->len < state->to_len) {
        return false;
    }
    return !payload->has_length || payload->received < payload->length;
}

/* True when the read is complete, false when the transport will call back. */
static bool payload_run(struct payload_state *state)
{
    while (!state->finished && !payload_full(state)) {
        const struct payload *payload = state->payload;

        if (!state->streaming && payload->has_length && payload->received >= payload->length) {
            (void)payload_finish(state);
        } else if (state->streaming && state->frame_at < state->frame_len) {
            payload_use_frame(state);
        } else if (payload_ask(state)) {
            payload_raw(state);
        } else {
            return false;
        }
    }
    state->read->end = state->finished;
    return true;
}

static void payload_raw_done(struct http_read *raw)
{
    struct payload_state *state = CONTAINER_OF(raw, struct payload_state, raw);

    payload_raw(state);
    if (payload_run(state)) {
        struct payload_read *read = state->read;

        state->read = NULL;
        read->done(read);
    }
}

bool payload_read(struct payload *payload, struct payload_read *read, void *to, size_t len)
{
    struct payload_state *state = payload->state;

    ASSERT(state != NULL);
    ASSERT(state->read == NULL);
    ASSERT(!state->finished);
    ASSERT(len > 0);
    read->len = 0;
    read->end = false;
    state->read = read;
    state->to = to;
    state->to_len = len;
    if (!payload_run(state)) {
        return false;
    }
    state->read = NULL;
    return true;
}
