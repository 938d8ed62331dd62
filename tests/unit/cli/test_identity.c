/* A directory is trusted by its identity file alone: what was written years ago must load, what is
 * damaged or newer must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/identity.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"

static struct identity sample(void)
{
    struct identity identity = {.cluster_epoch = 3,
                                .state = IDENTITY_READY,
                                .revision = 7,
                                .disk_id = 12,
                                .slot = 1,
                                .member_count = 2};

    memset(identity.cluster_id, 0xc1, IDENTITY_ID_BYTES);
    memset(identity.disk_uuid, 0xd2, IDENTITY_ID_BYTES);
    identity.members[0].disk_id = 11;
    memset(identity.members[0].uuid, 0xd1, IDENTITY_ID_BYTES);
    identity.members[1].disk_id = 12;
    memset(identity.members[1].uuid, 0xd2, IDENTITY_ID_BYTES);
    return identity;
}

static void assert_same(const struct identity *a, const struct identity *b)
{
    assert_memory_equal(a->cluster_id, b->cluster_id, IDENTITY_ID_BYTES);
    assert_memory_equal(a->disk_uuid, b->disk_uuid, IDENTITY_ID_BYTES);
    assert_int_equal(a->cluster_epoch, b->cluster_epoch);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->revision, b->revision);
    assert_int_equal(a->disk_id, b->disk_id);
    assert_int_equal(a->slot, b->slot);
    assert_int_equal(a->member_count, b->member_count);
    for (uint32_t i = 0; i < a->member_count; i++) {
        assert_int_equal(a->members[i].disk_id, b->members[i].disk_id);
        assert_memory_equal(a->members[i].uuid, b->members[i].uuid, IDENTITY_ID_BYTES);
    }
}

/* Every field survives, up to the most members there can be. */
static void comes_back_whole(void **state)
{
    uint8_t bytes[IDENTITY_BYTES_MAX];
    struct identity identity = sample();
    struct identity back;
    struct error error = {0};

    (void)state;
    assert_int_equal(
        identity_decode(slice_of(bytes, identity_encode(&identity, bytes)), &back, &error), RC_OK);
    assert_same(&identity, &back);
    identity.member_count = LIMIT_DISKS;
    assert_int_equal(identity_encode(&identity, bytes), IDENTITY_BYTES_MAX);
    assert_int_equal(identity_decode(slice_of(bytes, IDENTITY_BYTES_MAX), &back, &error), RC_OK);
}

/* The bytes of version 1 (FORMAT.md) load for ever. */
static void golden_file_loads(void **state)
{
    uint8_t bytes[IDENTITY_BYTES_MAX];
    struct identity identity = sample();
    struct identity back;
    struct error error = {0};
    FILE *file = fopen("tests/golden/identity-v1/identity", "rb");
    size_t len;

    (void)state;
    assert_non_null(file);
    len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    assert_int_equal(identity_decode(slice_of(bytes, len), &back, &error), RC_OK);
    assert_same(&identity, &back);
}

/* One flipped bit anywhere, or one byte more or less, is noticed. */
static void damage_is_noticed(void **state)
{
    uint8_t bytes[IDENTITY_BYTES_MAX];
    struct identity identity = sample();
    struct identity back;
    struct error error = {0};
    size_t len = identity_encode(&identity, bytes);

    (void)state;
    for (size_t i = 0; i < len * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1U << (i % 8));
        assert_int_not_equal(identity_decode(slice_of(bytes, len), &back, &error), RC_OK);
        bytes[i / 8] ^= (uint8_t)(1U << (i % 8));
    }
    for (size_t i = 0; i < len; i++) {
        assert_int_not_equal(identity_decode(slice_of(bytes, i), &back, &error), RC_OK);
    }
    assert_int_equal(identity_decode(slice_of(bytes, len + 1), &back, &error), RC_CORRUPT);
}

/* A directory of a later kist is refused as such, not called damaged. */
static void newer_version_is_told_apart(void **state)
{
    uint8_t bytes[IDENTITY_BYTES_MAX];
    struct identity identity = sample();
    struct identity back;
    struct error error = {0};
    size_t len = identity_encode(&identity, bytes);

    (void)state;
    le32_put(bytes + 8, 2);
    le32_put(bytes + 20, crc32c(0, bytes, 20));
    assert_int_equal(identity_decode(slice_of(bytes, len), &back, &error), RC_UNSUPPORTED);
    assert_non_null(strstr(error.text, "version 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_whole),
        cmocka_unit_test(golden_file_loads),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(newer_version_is_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
