#include "gateway/auth/aws_chunked.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/codec/hex.h"
#include "common/crypto/hmac.h"

enum {
    SIGNATURE_CHARACTERS = 64,
    SIZE_DIGITS_MAX = 15,
    CHUNK_BYTES_MIN = 8192 /* but for the last (AWS: "Transferring payload in multiple chunks") */
};

static enum s3_error chunked_broken(struct aws_chunked *chunked)
{
    chunked->error_text = "The request body terminated unexpectedly";
    return S3_IncompleteBody;
}

static bool chunked_signed(const struct aws_chunked *chunked)
{
    return chunked->auth->mode != PAYLOAD_UNSIGNED_TRAILER;
}

static bool chunked_trailed(const struct aws_chunked *chunked)
{
    return chunked->auth->mode != PAYLOAD_SIGNED_CHUNKS;
}

void aws_chunked_init(struct aws_chunked *chunked, const struct sigv4_result *auth,
                      uint64_t decoded_length, struct slice trailer_name)
{
    memset(chunked, 0, sizeof(*chunked));
    chunked->auth = auth;
    chunked->total_left = decoded_length;
    chunked->trailer_name = trailer_name;
    memcpy(chunked->previous, auth->seed_signature, sizeof(chunked->previous));
    sha256_init(&chunked->hash);
}

/* ---- Signatures ---- */

/* The chunk is complete: its signature becomes the previous one of the next. */
static enum s3_error chunked_verify(struct aws_chunked *chunked)
{
    uint8_t sha256[HASH_SHA256_BYTES];
    char expected[SIGNATURE_CHARACTERS];

    if (!chunked_signed(chunked)) {
        return S3_OK;
    }
    sha256_final(&chunked->hash, sha256);
    sha256_init(&chunked->hash);
    sigv4_chunk_signature(chunked->auth, chunked->previous, sha256, expected);
    if (!crypto_equal(expected, chunked->claimed, SIGNATURE_CHARACTERS)) {
        return S3_SignatureDoesNotMatch;
    }
    memcpy(chunked->previous, expected, sizeof(chunked->previous));
    return S3_OK;
}

/* The hash has seen every trailer line as "name:value\n". */
static enum s3_error chunked_verify_trailers(struct aws_chunked *chunked)
{
    uint8_t sha256[HASH_SHA256_BYTES];
    char expected[SIGNATURE_CHARACTERS];

    if (chunked->auth->mode != PAYLOAD_SIGNED_TRAILER) {
        return S3_OK;
    }
    if (!chunked->trailer_signed) {
        return S3_MalformedTrailerError;
    }
    sha256_final(&chunked->hash, sha256);
    sigv4_trailer_signature(chunked->auth, chunked->previous, sha256, expected);
    return crypto_equal(expected, chunked->claimed, SIGNATURE_CHARACTERS)
               ? S3_OK
               : S3_SignatureDoesNotMatch;
}

/* ---- Lines ---- */

static bool chunked_size(struct slice digits, uint64_t *size)
{
    *size = 0;
    if (digits.len == 0 || digits.len > SIZE_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < digits.len; i++) {
        int value = hex_digit(digits.data[i]);

        if (value < 0) {
            return false;
        }
        *size = *size * 16 + (uint64_t)value;
    }
    return true;
}

/* "10000;chunk-signature=<64 digits>", or "10000" alone when unsigned. */
static enum s3_error chunked_size_line(struct aws_chunked *chunked, struct slice line)
{
    static const struct slice label = {.data = "chunk-signature=", .len = 16};
    size_t semicolon = slice_find(line, ';');
    struct slice extension = slice_after(line, semicolon + 1);
    uint64_t size;

    if (!chunked_size(slice_of(line.data, semicolon), &size)) {
        return chunked_broken(chunked);
    }
    if (size > chunked->total_left) {
        return S3_IncompleteBody;
    }
    if (size > 0 && chunked->small_chunk) {
        return S3_InvalidChunkSizeError;
    }
    chunked->small_chunk = size < CHUNK_BYTES_MIN;
    if (chunked_signed(chunked)) {
        if (!slice_starts(extension, label) || extension.len != label.len + SIGNATURE_CHARACTERS) {
            return chunked_broken(chunked);
        }
        memcpy(chunked->claimed, extension.data + label.len, SIGNATURE_CHARACTERS);
    } else if (semicolon != line.len) {
        return chunked_broken(chunked);
    }
    chunked->total_left -= size;
    chunked->data_left = size;
    if (size > 0) {
        chunked->state = AWS_CHUNKED_DATA;
        return S3_OK;
    }
    /* The last chunk: everything announced must have come. */
    if (chunked->total_left > 0) {
        return S3_IncompleteBody;
    }
    chunked->state = AWS_CHUNKED_TRAILER;
    return chunked_verify(chunked);
}

static enum s3_error chunked_trailer_signature(struct aws_chunked *chunked, struct slice value)
{
    if (chunked->auth->mode != PAYLOAD_SIGNED_TRAILER || chunked->trailer_signed ||
        value.len != SIGNATURE_CHARACTERS) {
        return chunked_signed(chunked) ? chunked_broken(chunked) : S3_MalformedTrailerError;
    }
    memcpy(chunked->claimed, value.data, SIGNATURE_CHARACTERS);
    chunked->trailer_signed = true;
    return S3_OK;
}

/* "x-amz-checksum-crc32c:sOO8/Q==", once, and announced by x-amz-trailer; then the signature. */
static enum s3_error chunked_trailer_line(struct aws_chunked *chunked, struct slice line)
{
    /* minio-go ends the line with LF and CR LF, and AWS takes it. */
    if (line.data[line.len - 1] == '\n') {
        line.len -= 1;
    }
    size_t colon = slice_find(line, ':');
    struct slice name = slice_trim(slice_of(line.data, colon));
    struct slice value = slice_trim(slice_after(line, colon + 1));

    if (colon == line.len || chunked->trailer_signed || slice_find(line, '\n') != line.len) {
        return S3_MalformedTrailerError;
    }
    if (slice_eq_nocase(name, SLICE("x-amz-trailer-signature"))) {
        return chunked_trailer_signature(chunked, value);
    }
    if (chunked->trailer_seen && chunked_signed(chunked)) {
        return chunked_broken(chunked); /* AWS: the signature must be next */
    }
    if (chunked->trailer_name.len == 0 || !slice_eq_nocase(name, chunked->trailer_name) ||
        chunked->trailer_seen || value.len > sizeof(chunked->trailer_value)) {
        return S3_MalformedTrailerError;
    }
    chunked->trailer_seen = true;
    chunked->trailer_value_len = value.len;
    if (value.len > 0) {
        memcpy(chunked->trailer_value, value.data, value.len);
    }
    sha256_update(&chunked->hash, chunked->trailer_name.data, chunked->trailer_name.len);
    sha256_update(&chunked->hash, ":", 1);
    sha256_update(&chunked->hash, value.data, value.len);
    sha256_update(&chunked->hash, "\n", 1);
    return S3_OK;
}

static enum s3_error chunked_trailer_end(struct aws_chunked *chunked)
{
    chunked->state = AWS_CHUNKED_END;
    if (chunked->trailer_name.len > 0 && !chunked->trailer_seen) {
        return S3_MalformedTrailerError;
    }
    return chunked_verify_trailers(chunked);
}

/* A whole line, without its CRLF. */
static enum s3_error chunked_line(struct aws_chunked *chunked, struct slice line)
{
    switch (chunked->state) {
    case AWS_CHUNKED_SIZE:
        return chunked_size_line(chunked, line);
    case AWS_CHUNKED_DATA_END:
        chunked->state = AWS_CHUNKED_SIZE;
        return line.len == 0 ? S3_OK : chunked_broken(chunked);
    case AWS_CHUNKED_TRAILER:
        if (line.len == 0) {
            return chunked_trailer_end(chunked);
        }
        return chunked_trailed(chunked) ? chunked_trailer_line(chunked, line)
                                        : chunked_broken(chunked);
    case AWS_CHUNKED_DATA:
    case AWS_CHUNKED_END:
        break;
    }
    assert_fail("no line belongs here", __FILE__, __LINE__);
}

/* Adds one byte to the line; at its end the line is judged. */
static enum s3_error chunked_byte(struct aws_chunked *chunked, char byte)
{
    if (chunked->line_len > 0 && chunked->line[chunked->line_len - 1] == '\r') {
        struct slice line = slice_of(chunked->line, chunked->line_len - 1);

        chunked->line_len = 0;
        return byte == '\n' ? chunked_line(chunked, line) : chunked_broken(chunked);
    }
    if (chunked->line_len == sizeof(chunked->line) ||
        (byte == '\n' && chunked->state != AWS_CHUNKED_TRAILER)) {
        return chunked_broken(chunked);
    }
    /* The empty line behind data can only begin with CR: nothing else is collected there. */
    if (chunked->state == AWS_CHUNKED_DATA_END && byte != '\r') {
        return chunked_broken(chunked);
    }
    chunked->line[chunked->line_len++] = byte;
    if (chunked->state == AWS_CHUNKED_TRAILER) {
        chunked->trailer_bytes += 1;
        if (chunked->trailer_bytes > LIMIT_TRAILER_BYTES) {
            return S3_MalformedTrailerError;
        }
    }
    return S3_OK;
}

enum s3_error aws_chunked_frame(struct aws_chunked *chunked, struct slice bytes, size_t *used)
{
    enum s3_error error = S3_OK;
    size_t at = 0;

    ASSERT(chunked->state != AWS_CHUNKED_DATA);
    while (at < bytes.len && error == S3_OK && chunked->state != AWS_CHUNKED_DATA &&
           chunked->state != AWS_CHUNKED_END) {
        error = chunked_byte(chunked, bytes.data[at]);
        at += 1;
    }
    *used = at;
    return error;
}

enum s3_error aws_chunked_data(struct aws_chunked *chunked, struct slice bytes)
{
    ASSERT(chunked->state == AWS_CHUNKED_DATA);
    ASSERT(bytes.len <= chunked->data_left);
    if (chunked_signed(chunked)) {
        sha256_update(&chunked->hash, bytes.data, bytes.len);
    }
    chunked->data_left -= bytes.len;
    if (chunked->data_left > 0) {
        return S3_OK;
    }
    chunked->state = AWS_CHUNKED_DATA_END;
    return chunked_verify(chunked);
}
