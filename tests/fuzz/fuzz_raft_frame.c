/*
 * Frames between replicas. The checksum is made right first, or a fuzzer would never get behind it;
 * then every field is wild. What decodes stays inside the frame.
 */
#include "tests/fuzz/fuzz.h"

#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "metad/raft/message.h"

static void frame_check(struct slice bytes)
{
    static struct log_entry entries[FRAME_ENTRIES_MAX];
    struct frame frame;
    struct error error;

    if (frame_decode(bytes, &frame, entries, &error) != RC_OK) {
        return;
    }
    if (frame.header.kind == FRAME_APPEND) {
        ASSERT(frame.message.append.count <= FRAME_ENTRIES_MAX);
        for (uint32_t i = 0; i < frame.message.append.count; i++) {
            ASSERT(entries[i].len <= LOG_ENTRY_BYTES_MAX);
            ASSERT(entries[i].len == 0 ||
                   (entries[i].data >= bytes.data &&
                    entries[i].data + entries[i].len <= bytes.data + bytes.len));
        }
    }
    if (frame.header.kind == FRAME_SNAPSHOT_CHUNK) {
        ASSERT(frame.chunk.bytes.len <= bytes.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer sealed;
    char *copy = mem_copy(data, size);

    frame_check(slice_of(copy, size));
    mem_free(copy);
    buffer_init(&sealed);
    if (size >= FRAME_HEADER_BYTES && size - FRAME_HEADER_BYTES <= FRAME_BODY_BYTES_MAX) {
        buffer_append(&sealed, slice_of(data, size));
        frame_end(&sealed);
        frame_check(buffer_slice(&sealed));
    }
    buffer_deinit(&sealed);
    return 0;
}
