/* What every fuzz target begins with. A target returns 0; what must not be makes it abort. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/assert.h"
#include "common/base/slice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, taken from the front. Past its end everything is 0. */
struct fuzz_input {
    struct slice rest;
};

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
    uint8_t value = 0;

    if (input->rest.len > 0) {
        value = (uint8_t)input->rest.data[0];
        input->rest.data += 1;
        input->rest.len -= 1;
    }
    return value;
}

static inline uint64_t fuzz_number(struct fuzz_input *input, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | fuzz_u8(input);
    }
    return value;
}

static inline struct slice fuzz_bytes(struct fuzz_input *input, size_t max)
{
    struct slice out = {.data = input->rest.data,
                        .len = input->rest.len < max ? input->rest.len : max};

    input->rest.data += out.len; /* never NULL: only the parsers' own slices may be */
    input->rest.len -= out.len;
    return out;
}

#endif
