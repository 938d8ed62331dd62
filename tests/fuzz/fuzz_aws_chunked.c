/* aws-chunked: the same bytes, all at once and in pieces, give the same data and the same end;
 * never more than announced.
 */
#include "tests/fuzz/fuzz.h"

#include "common/base/buffer.h"
#include "gateway/auth/aws_chunked.h"

struct decoded {
    enum s3_error error;
    enum aws_chunked_state state;
    struct buffer data;
};

static void decode(struct decoded *out, const struct sigv4_result *auth, uint64_t length,
                   struct slice bytes, size_t piece)
{
    struct aws_chunked chunked;

    *out = (struct decoded){.error = S3_OK};
    buffer_init(&out->data);
    aws_chunked_init(&chunked, auth, length, SLICE("x-amz-checksum-crc32c"));
    while (bytes.len > 0 && out->error == S3_OK && chunked.state != AWS_CHUNKED_END) {
        struct slice next = slice_of(bytes.data, bytes.len < piece ? bytes.len : piece);
        size_t used = 0;

        if (chunked.state == AWS_CHUNKED_DATA) {
            used = next.len < chunked.data_left ? next.len : (size_t)chunked.data_left;
            ASSERT(used > 0);
            out->error = aws_chunked_data(&chunked, slice_of(next.data, used));
            buffer_append(&out->data, slice_of(next.data, used));
        } else {
            out->error = aws_chunked_frame(&chunked, next, &used);
            ASSERT(used <= next.len);
            ASSERT(used > 0 || out->error != S3_OK || chunked.state == AWS_CHUNKED_DATA);
        }
        bytes = slice_after(bytes, used);
    }
    ASSERT(out->data.len <= length);
    ASSERT(out->error != S3_OK || chunked.state != AWS_CHUNKED_END || out->data.len == length);
    out->state = chunked.state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum payload_mode modes[] = {PAYLOAD_SIGNED_CHUNKS, PAYLOAD_SIGNED_TRAILER,
                                              PAYLOAD_UNSIGNED_TRAILER, PAYLOAD_UNSIGNED_TRAILER};
    struct fuzz_input input = {.rest = slice_of(data, size)};
    struct sigv4_result auth = {
        .mode = modes[fuzz_u8(&input) % 4],
        .date = SLICE("20130524T000000Z"),
        .scope = SLICE("20130524/us-east-1/s3/aws4_request"),
    };
    uint64_t length = fuzz_number(&input, 2);
    struct decoded whole;
    struct decoded pieces;

    memset(auth.seed_signature, '0', sizeof(auth.seed_signature));
    decode(&whole, &auth, length, input.rest, SIZE_MAX);
    decode(&pieces, &auth, length, input.rest, 1);
    ASSERT(whole.error == pieces.error);
    ASSERT(whole.error != S3_OK || whole.state == pieces.state);
    ASSERT(whole.error != S3_OK || slice_eq(buffer_slice(&whole.data), buffer_slice(&pieces.data)));
    buffer_deinit(&whole.data);
    buffer_deinit(&pieces.data);
    return 0;
}
