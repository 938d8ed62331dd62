/*
 * The bytes of a segment. tests/golden/datad/segment-v1.seg was written by the first release: it
 * must be read for ever, and what is written today must be the same bytes. KIST_GOLDEN_WRITE=1
 * writes it anew (a new version gets a new file instead).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "datad/store/inspect.h"
#include "datad/store/scan.h"

#define GOLDEN "tests/golden/datad/segment-v1.seg"

enum { PAYLOAD = 5000, GOLDEN_BYTES = 9 * 4096 };

static struct segment_identity golden_identity(void)
{
    struct segment_identity identity = {.generation = 5};

    for (size_t i = 0; i < sizeof(identity.uuid); i++) {
        identity.uuid[i] = (uint8_t)(0xa0 + i);
    }
    return identity;
}

static struct shard_id golden_shard(uint32_t index)
{
    struct shard_id id = {.index = index};

    for (size_t i = 0; i < EXTENT_ID_BYTES; i++) {
        id.extent.bytes[i] = (uint8_t)i;
    }
    return id;
}

static void golden_put_shard(uint8_t *file, uint64_t at, uint32_t index, bool sealed)
{
    struct segment_identity identity = golden_identity();
    struct shard_id id = golden_shard(index);
    struct shard_header header = {.index = index,
                                  .attempt = 2,
                                  .home_bucket = 7,
                                  .group = 3,
                                  .group_epoch = 4,
                                  .reserved_bytes = PAYLOAD,
                                  .begun_ms = 1000,
                                  .cluster_epoch = 1};
    struct shard_footer footer = {
        .index = index, .attempt = 2, .payload_bytes = PAYLOAD, .block_count = 1};
    uint8_t *payload = file + at + SEGMENT_ALIGN;
    uint64_t end = at + segment_region_bytes(PAYLOAD);
    uint32_t crc;

    memcpy(header.extent, id.extent.bytes, EXTENT_ID_BYTES);
    memcpy(footer.extent, id.extent.bytes, EXTENT_ID_BYTES);
    memset(header.layout, 0x11, EXTENT_ID_BYTES);
    shard_header_encode(file + at, &identity, at, &header, SLICE("photos/cat.jpg"));
    for (size_t i = 0; i < PAYLOAD; i++) {
        payload[i] = (uint8_t)(i * 31 + index);
    }
    if (sealed) {
        crc = segment_block_crc(&identity, &id, at + SEGMENT_ALIGN, 0, slice_of(payload, PAYLOAD));
        shard_footer_encode(file + end - segment_footer_bytes(PAYLOAD), &identity, at, &footer,
                            &crc);
    }
}

/* Header, a sealed shard, an unfinished one, a delete record, a second sealed one... all of 4 KiB
 * blocks. */
static void golden_make(uint8_t *file)
{
    struct segment_identity identity = golden_identity();
    struct segment_header header = {
        .allocated_bytes = 64 * 4096, .disk = 9, .created_ms = 999, .cluster_epoch = 1};
    struct delete_entry entry = {.index = 0, .attempt = 2, .segment = 5, .deleted_ms = 2000};

    memset(file, 0, GOLDEN_BYTES);
    segment_header_encode(file, &identity, &header);
    golden_put_shard(file, 1 * 4096, 0, true);
    golden_put_shard(file, 4 * 4096, 1, false);
    memcpy(entry.extent, golden_shard(0).extent.bytes, EXTENT_ID_BYTES);
    delete_record_encode(file + 5 * 4096, &identity, 5 * 4096, &entry, 1);
    golden_put_shard(file, 6 * 4096, 2, true);
}

/* Disks outlive releases: bytes that are written must not drift without a new version number. */
static void written_bytes_are_the_golden_ones(void **state)
{
    uint8_t *made = mem_alloc_pages(GOLDEN_BYTES);
    uint8_t *golden = mem_alloc_pages(GOLDEN_BYTES + 1);
    FILE *file;

    (void)state;
    golden_make(made);
    if (getenv("KIST_GOLDEN_WRITE") != NULL) {
        file = fopen(GOLDEN, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(made, 1, GOLDEN_BYTES, file), GOLDEN_BYTES);
        assert_int_equal(fclose(file), 0);
    }
    file = fopen(GOLDEN, "rb");
    assert_non_null(file);
    assert_int_equal(fread(golden, 1, GOLDEN_BYTES + 1, file), GOLDEN_BYTES);
    assert_int_equal(fclose(file), 0);
    assert_memory_equal(made, golden, GOLDEN_BYTES);
    mem_free(made);
    mem_free(golden);
}

static void count_line(struct inspect *inspect, const char *text)
{
    (void)inspect;
    assert_true(strlen(text) > 0);
}

/* A segment of the first release is read: two shards whole, one unfinished that hides nothing, one
 * delete. */
static void golden_segment_is_read(void **state)
{
    struct env_uv *world = env_uv_open(&(struct env_uv_options){.loop_count = 1}, NULL);
    struct inspect inspect = {
        .env = env_uv_env(world, 0), .verify = true, .dump = true, .line = count_line};

    (void)state;
    assert_int_equal(inspect_file(&inspect, GOLDEN, NULL), RC_OK);
    assert_int_equal(inspect.result.shards, 2);
    assert_int_equal(inspect.result.shard_bytes, 2 * PAYLOAD);
    assert_int_equal(inspect.result.deletes, 1);
    assert_int_equal(inspect.result.unfinished, 1);
    assert_int_equal(inspect.result.bad_shards, 0);
    assert_int_equal(inspect_file(&inspect, "tests/unit/datad/fixture.h", NULL), RC_CORRUPT);
    env_uv_close(world);
}

/* A block's checksum names its place: the right bytes at another block, shard or file are wrong. */
static void block_crc_covers_its_place(void **state)
{
    struct segment_identity identity = golden_identity();
    struct segment_identity other = identity;
    struct shard_id id = golden_shard(0);
    struct shard_id id_other = golden_shard(1);
    struct slice bytes = SLICE("the same bytes");
    uint32_t crc = segment_block_crc(&identity, &id, 8192, 3, bytes);

    (void)state;
    other.generation += 1;
    assert_int_equal(segment_block_crc(&identity, &id, 8192, 3, bytes), crc);
    assert_int_not_equal(segment_block_crc(&identity, &id, 8192, 4, bytes), crc);
    assert_int_not_equal(segment_block_crc(&identity, &id, 12288, 3, bytes), crc);
    assert_int_not_equal(segment_block_crc(&identity, &id_other, 8192, 3, bytes), crc);
    assert_int_not_equal(segment_block_crc(&other, &id, 8192, 3, bytes), crc);
    other = identity;
    other.uuid[0] ^= 1;
    assert_int_not_equal(segment_block_crc(&other, &id, 8192, 3, bytes), crc);
}

/* Small shards: a replica copy of 16 KiB and a byte takes six blocks, the footer none of its own.
 */
static void small_shards_waste_little(void **state)
{
    (void)state;
    assert_int_equal(segment_region_bytes(16385), 6 * 4096);
    assert_int_equal(segment_region_bytes(128 * 1024), 34 * 4096);
    assert_int_equal(segment_region_bytes(100000), 26 * 4096);
    assert_int_equal(segment_region_bytes(0), 2 * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_bytes_are_the_golden_ones),
        cmocka_unit_test(golden_segment_is_read),
        cmocka_unit_test(block_crc_covers_its_place),
        cmocka_unit_test(small_shards_waste_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
