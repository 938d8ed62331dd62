/*
 * A segment file: the input is a script that writes raw bytes and structures with valid checksums
 * but wild fields at any place. A scan ends, stays inside the file, and never yields a record that
 * overlaps the one before.
 */
#include "tests/fuzz/fuzz.h"

#include "common/base/mem.h"
#include "datad/store/scan.h"
#include "tests/lib/env_sim.h"

enum { FUZZ_BLOCKS = 64, FUZZ_STEPS_MAX = 40 };

struct segment_script {
    struct env *env;
    int file;
    struct segment_identity identity;
    uint8_t *block;
};

static void script_write(const struct segment_script *script, struct slice bytes, uint64_t at)
{
    uint64_t end = (uint64_t)FUZZ_BLOCKS * SEGMENT_ALIGN;

    if (at < end) {
        bytes.len = bytes.len < end - at ? bytes.len : (size_t)(end - at);
        ASSERT(script->env->file->write(script->env, script->file, &bytes, 1, at) == RC_OK);
    }
}

static void script_shard(const struct segment_script *script, struct fuzz_input *input, uint64_t at)
{
    struct shard_header header = {
        .index = fuzz_u8(input),
        .attempt = fuzz_u8(input) & 3,
        .reserved_bytes = fuzz_number(input, 4),
    };

    memset(header.extent, fuzz_u8(input) & 7, sizeof(header.extent));
    if ((fuzz_u8(input) & 15) == 0) {
        header.reserved_bytes = UINT64_MAX - fuzz_u8(input);
    }
    shard_header_encode(script->block, &script->identity, at, &header, SLICE("key"));
    script_write(script, slice_of(script->block, SEGMENT_ALIGN), at);
}

static void script_footer(const struct segment_script *script, struct fuzz_input *input,
                          uint64_t at)
{
    uint64_t payload = fuzz_number(input, 3);
    uint32_t crcs[256] = {0};
    struct shard_footer footer = {.index = fuzz_u8(input), .attempt = fuzz_u8(input) & 3};
    size_t len;
    uint8_t *bytes;

    payload = payload < 200 * 1024 ? payload : 200 * 1024;
    footer.payload_bytes = payload;
    footer.block_count = segment_block_count(payload);
    memset(footer.extent, fuzz_u8(input) & 7, sizeof(footer.extent));
    len = (size_t)segment_footer_bytes(payload);
    bytes = mem_alloc(len);
    shard_footer_encode(bytes, &script->identity, at, &footer, crcs);
    script_write(script, slice_of(bytes, len), at + segment_region_bytes(payload) - len);
    mem_free(bytes);
}

static void script_deletes(const struct segment_script *script, struct fuzz_input *input,
                           uint64_t at)
{
    struct delete_entry entries[4] = {{.index = 0}};
    uint32_t count = 1 + (fuzz_u8(input) & 3);

    for (uint32_t i = 0; i < count; i++) {
        entries[i].index = fuzz_u8(input);
        entries[i].segment = fuzz_number(input, 2);
    }
    delete_record_encode(script->block, &script->identity, at, entries, count);
    script_write(script, slice_of(script->block, SEGMENT_ALIGN), at);
}

static void script_run(const struct segment_script *script, struct fuzz_input *input)
{
    for (unsigned step = 0; step < FUZZ_STEPS_MAX && input->rest.len > 0; step++) {
        uint8_t what = fuzz_u8(input);
        uint64_t at = (1 + fuzz_u8(input) % (FUZZ_BLOCKS - 1)) * (uint64_t)SEGMENT_ALIGN;

        switch (what & 3) {
        case 0:
            script_shard(script, input, at);
            break;
        case 1:
            script_footer(script, input, at);
            break;
        case 2:
            script_deletes(script, input, at);
            break;
        default:
            script_write(script, fuzz_bytes(input, fuzz_u8(input)), at + what);
            break;
        }
    }
}

static void scan_check(const struct segment_script *script)
{
    uint64_t end = (uint64_t)FUZZ_BLOCKS * SEGMENT_ALIGN;
    uint64_t before = 0;
    unsigned records = 0;
    struct scan scan;

    scan_open(&scan, &(struct scan_options){.env = script->env,
                                            .file = script->file,
                                            .identity = script->identity,
                                            .to = end});
    while (scan_next(&scan) == RC_OK) {
        ASSERT(scan.at < scan.end && scan.end <= end);
        ASSERT(scan.end > before);
        before = scan.end;
        records += 1;
        ASSERT(records <= FUZZ_BLOCKS);
        if (scan.kind == SCAN_SHARD) {
            ASSERT(scan.at + segment_region_bytes(scan.footer.payload_bytes) <= end);
            (void)scan_verify(&scan);
        } else {
            ASSERT(scan.deletes->count <= DELETE_ENTRIES_MAX);
        }
    }
    scan_close(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.rest = slice_of(data, size)};
    struct env *env = sim_env_alone(1);
    struct segment_script script = {.env = env, .file = -1, .identity = {.generation = 1}};

    script.block = mem_alloc_pages(SEGMENT_ALIGN);
    ASSERT(env->file->open(env, "/segment", ENV_OPEN_READ | ENV_OPEN_WRITE | ENV_OPEN_CREATE,
                           &script.file, NULL) == RC_OK);
    ASSERT(env->file->allocate(env, script.file, (uint64_t)FUZZ_BLOCKS * SEGMENT_ALIGN) == RC_OK);
    script_run(&script, &input);
    scan_check(&script);
    mem_free(script.block);
    sim_free(sim_of(env));
    return 0;
}
