/* The view answers every request's "which bucket, whose key": it must find what is there and
 * nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/client/view.h"

static ProtobufCBinaryData bytes_of(const char *text)
{
    ProtobufCBinaryData data;

    data.len = strlen(text);
    data.data = malloc(data.len);
    memcpy(data.data, text, data.len);
    return data;
}

static Kist__Bucket *bucket_new(const char *name, uint64_t id)
{
    Kist__Bucket *bucket = malloc(sizeof(*bucket));

    kist__bucket__init(bucket);
    bucket->name = bytes_of(name);
    bucket->id = id;
    return bucket;
}

static Kist__User *user_new(const char *name, bool disabled)
{
    Kist__User *user = malloc(sizeof(*user));

    kist__user__init(user);
    user->name = bytes_of(name);
    user->disabled = disabled;
    return user;
}

static Kist__AccessKey *key_new(const char *access_key, const char *user)
{
    Kist__AccessKey *key = malloc(sizeof(*key));

    kist__access_key__init(key);
    key->access_key = bytes_of(access_key);
    key->secret_key = bytes_of("secret");
    key->user = bytes_of(user);
    return key;
}

static Kist__PlacementGroup *group_new(uint64_t id)
{
    Kist__PlacementGroup *group = malloc(sizeof(*group));

    kist__placement_group__init(group);
    group->id = id;
    return group;
}

static struct view *view_small(void)
{
    Kist__Bucket *buckets[] = {bucket_new("music", 7), bucket_new("a", 900), bucket_new("b", 2)};
    Kist__User *users[] = {user_new("zoe", true), user_new("root", false)};
    Kist__AccessKey *keys[] = {key_new("AK3", "gone"), key_new("AK1", "root"),
                               key_new("AK2", "zoe")};
    Kist__PlacementGroup *groups[] = {group_new(5), group_new(1), group_new(3)};
    struct view_disk disks[] = {
        {.id = 2, .healthy = true },
        {.id = 1, .healthy = false}
    };
    const struct view_parts parts = {.version = 42,
                                     .buckets = buckets,
                                     .bucket_count = 3,
                                     .users = users,
                                     .user_count = 2,
                                     .keys = keys,
                                     .key_count = 3,
                                     .groups = groups,
                                     .group_count = 3,
                                     .disks = disks,
                                     .disk_count = 2};

    return view_new(&parts);
}

/* A request must reach the bucket it names, and no other. */
static void finds_buckets_by_name_and_id(void **state)
{
    struct view *view = view_small();

    (void)state;
    assert_int_equal(view_bucket(view, SLICE("music"))->id, 7);
    assert_null(view_bucket(view, SLICE("musi")));
    assert_null(view_bucket(view, SLICE_EMPTY));
    assert_ptr_equal(view_bucket_by_id(view, 2), view_bucket(view, SLICE("b")));
    assert_null(view_bucket_by_id(view, 3));
    assert_int_equal(view_version(view), 42);
    view_unref(view);
}

/* ListBuckets answers in the order of names. */
static void buckets_are_sorted(void **state)
{
    struct view *view = view_small();

    (void)state;
    assert_int_equal(view_bucket_count(view), 3);
    assert_int_equal(view_bucket_at(view, 0)->id, 900);
    assert_int_equal(view_bucket_at(view, 1)->id, 2);
    assert_int_equal(view_bucket_at(view, 2)->id, 7);
    view_unref(view);
}

/* A key of a disabled or removed user must not act for anybody. */
static void keys_know_their_user(void **state)
{
    struct view *view = view_small();

    (void)state;
    assert_non_null(view_access_key(view, SLICE("AK1"))->user);
    assert_null(view_access_key(view, SLICE("AK2"))->user);
    assert_null(view_access_key(view, SLICE("AK3"))->user);
    assert_null(view_access_key(view, SLICE("AK4")));
    assert_int_equal(view_key_count(view), 3);
    assert_memory_equal(view_key_at(view, 0)->access_key.data, "AK1", 3);
    assert_int_equal(view_user_count(view), 2);
    view_unref(view);
}

/* A read finds its disks through the group's id. */
static void finds_groups_and_disks(void **state)
{
    struct view *view = view_small();

    (void)state;
    assert_int_equal(view_group(view, 3)->id, 3);
    assert_null(view_group(view, 2));
    assert_int_equal(view_group_at(view, 0)->id, 1);
    assert_int_equal(view_group_count(view), 3);
    assert_true(view_disk(view, 2)->healthy);
    assert_false(view_disk(view, 1)->healthy);
    assert_null(view_disk(view, 3));
    view_unref(view);
}

/* A request keeps its view while newer ones are published: the last reference frees (ASan checks).
 */
static void reference_keeps_it(void **state)
{
    struct view *view = view_small();
    struct view *mine = view_ref(view);

    (void)state;
    view_unref(view);
    assert_int_equal(view_bucket(mine, SLICE("a"))->id, 900);
    view_unref(mine);
    view_unref(NULL);
}

/* A fresh cluster has nothing at all. */
static void empty_view_answers_no(void **state)
{
    const struct view_parts parts = {.version = 1};
    struct view *view = view_new(&parts);

    (void)state;
    assert_null(view_bucket(view, SLICE("a")));
    assert_null(view_access_key(view, SLICE("a")));
    assert_null(view_group(view, 1));
    assert_int_equal(view_bucket_count(view), 0);
    view_unref(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_buckets_by_name_and_id), cmocka_unit_test(buckets_are_sorted),
        cmocka_unit_test(keys_know_their_user),         cmocka_unit_test(finds_groups_and_disks),
        cmocka_unit_test(reference_keeps_it),           cmocka_unit_test(empty_view_answers_no),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
