/* Buckets, users, access keys, numbers, placement: the rows of root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_machine.h"

static struct machine_fixture fixture;

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

static Kist__Reply *create_bucket(struct machine_fixture *f, const char *name, const char *owner)
{
    Kist__CreateBucket call = KIST__CREATE_BUCKET__INIT;

    call.name = field_of(name);
    call.owner = field_of(owner);
    return machine_fixture_apply(f, META_CREATE_BUCKET, &call.base, SLICE_EMPTY);
}

static Kist__Outcome delete_bucket(struct machine_fixture *f, const char *name, uint64_t id)
{
    Kist__DeleteBucket call = KIST__DELETE_BUCKET__INIT;

    call.name = field_of(name);
    call.bucket_id = id;
    return machine_fixture_apply(f, META_DELETE_BUCKET, &call.base, SLICE_EMPTY)->outcome;
}

static Kist__Outcome put_user(struct machine_fixture *f, const char *name, bool must_be_new)
{
    Kist__PutUser call = KIST__PUT_USER__INIT;
    Kist__User user = KIST__USER__INIT;

    user.name = field_of(name);
    call.user = &user;
    call.must_be_new = must_be_new;
    return machine_fixture_apply(f, META_PUT_USER, &call.base, SLICE_EMPTY)->outcome;
}

static Kist__Outcome delete_user(struct machine_fixture *f, const char *name)
{
    Kist__DeleteUser call = KIST__DELETE_USER__INIT;

    call.name = field_of(name);
    return machine_fixture_apply(f, META_DELETE_USER, &call.base, SLICE_EMPTY)->outcome;
}

static Kist__Outcome put_key(struct machine_fixture *f, const char *name, const char *user,
                             bool must_be_new)
{
    Kist__PutAccessKey call = KIST__PUT_ACCESS_KEY__INIT;
    Kist__AccessKey key = KIST__ACCESS_KEY__INIT;

    key.access_key = field_of(name);
    key.secret_key = field_of("secret");
    key.user = field_of(user);
    call.key = &key;
    call.must_be_new = must_be_new;
    return machine_fixture_apply(f, META_PUT_ACCESS_KEY, &call.base, SLICE_EMPTY)->outcome;
}

/* A name belongs to one bucket; its owner and others are told apart. */
static void a_name_is_taken_once(void **state)
{
    struct machine_fixture *f = *state;

    assert_int_equal(put_user(f, "eve", true), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(create_bucket(f, "box", "root")->outcome, KIST__OUTCOME__BUCKET_OWNED);
    assert_int_equal(create_bucket(f, "box", "eve")->outcome, KIST__OUTCOME__BUCKET_EXISTS);
    assert_int_equal(create_bucket(f, "other", "nobody")->outcome, KIST__OUTCOME__NO_SUCH_USER);
    assert_int_equal(create_bucket(f, "ab", "root")->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
}

/* The id of a deleted bucket never comes back: old records cannot show up in a new bucket of that
 * name. */
static void bucket_ids_are_never_reused(void **state)
{
    struct machine_fixture *f = *state;
    const Kist__Reply *reply;

    assert_int_equal(delete_bucket(f, "box", f->bucket_id), KIST__OUTCOME__OUTCOME_OK);
    reply = create_bucket(f, "box", "root");
    assert_true(reply->bucket->id > f->bucket_id);
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__NO_SUCH_BUCKET);
}

/* Only an empty bucket may go, and only the one that the caller meant. */
static void delete_bucket_is_checked(void **state)
{
    struct machine_fixture *f = *state;

    (void)machine_fixture_put_inline(f, "a", "x");
    assert_int_equal(delete_bucket(f, "box", f->bucket_id), KIST__OUTCOME__BUCKET_NOT_EMPTY);
    assert_int_equal(delete_bucket(f, "box", f->bucket_id + 7), KIST__OUTCOME__STALE_GENERATION);
    assert_int_equal(delete_bucket(f, "none", 1), KIST__OUTCOME__NO_SUCH_BUCKET);
    (void)machine_fixture_delete(f, "a");
    assert_int_equal(delete_bucket(f, "box", f->bucket_id), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_USAGE), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RANGE_BUCKET), 0);
}

/* After a change of owner, requests judged before it must be judged again. */
static void a_new_owner_raises_the_generation(void **state)
{
    struct machine_fixture *f = *state;
    Kist__SetBucketOwner call = KIST__SET_BUCKET_OWNER__INIT;
    const Kist__Reply *reply;

    call.name = field_of("box");
    call.owner = field_of("eve");
    assert_int_equal(
        machine_fixture_apply(f, META_SET_BUCKET_OWNER, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__NO_SUCH_USER);
    (void)put_user(f, "eve", true);
    reply = machine_fixture_apply(f, META_SET_BUCKET_OWNER, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(reply->bucket->generation, f->generation + 1);
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__STALE_GENERATION);
    f->generation += 1;
    assert_int_equal(machine_fixture_put(f, "a", 10), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(delete_user(f, "eve"), KIST__OUTCOME__IN_USE);
}

/* Keys die with their user: a deleted user's requests must stop working. */
static void users_and_keys(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteAccessKey call = KIST__DELETE_ACCESS_KEY__INIT;

    assert_int_equal(put_user(f, "eve", true), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_user(f, "eve", true), KIST__OUTCOME__USER_EXISTS);
    assert_int_equal(put_user(f, "eve", false), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_key(f, "AK1", "eve", true), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_key(f, "AK1", "eve", true), KIST__OUTCOME__ACCESS_KEY_EXISTS);
    assert_int_equal(put_key(f, "AK1", "root", false), KIST__OUTCOME__ACCESS_KEY_EXISTS);
    assert_int_equal(put_key(f, "AK2", "eve", true), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_key(f, "AK3", "nobody", true), KIST__OUTCOME__NO_SUCH_USER);
    assert_int_equal(put_key(f, "AK4", "root", true), KIST__OUTCOME__OUTCOME_OK);
    call.access_key = field_of("AK2");
    assert_int_equal(
        machine_fixture_apply(f, META_DELETE_ACCESS_KEY, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(
        machine_fixture_apply(f, META_DELETE_ACCESS_KEY, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__NO_SUCH_ACCESS_KEY);
    assert_int_equal(delete_user(f, "eve"), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_ACCESS_KEY), 1);
    assert_int_equal(delete_user(f, "eve"), KIST__OUTCOME__NO_SUCH_USER);
}

/* Numbers are given once, whatever happens in between. */
static void minted_numbers_are_never_given_twice(void **state)
{
    struct machine_fixture *f = *state;
    Kist__Mint call = KIST__MINT__INIT;

    call.name = field_of("incarnation");
    call.count = 3;
    assert_int_equal(machine_fixture_apply(f, META_MINT, &call.base, SLICE_EMPTY)->first, 1);
    assert_int_equal(machine_fixture_apply(f, META_MINT, &call.base, SLICE_EMPTY)->first, 4);
    call.name = field_of("disk");
    assert_int_equal(machine_fixture_apply(f, META_MINT, &call.base, SLICE_EMPTY)->first, 1);
    call.count = 0;
    assert_int_equal(machine_fixture_apply(f, META_MINT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

/* A row of an older epoch must not overwrite a newer one: its disks are fenced by that epoch. */
static void placement_epochs_only_rise(void **state)
{
    struct machine_fixture *f = *state;
    Kist__PutPlacement call = KIST__PUT_PLACEMENT__INIT;
    Kist__PlacementGroup group = KIST__PLACEMENT_GROUP__INIT;
    Kist__PlacementGroup *groups = &group;
    uint64_t disks[3] = {1, 2, 3};

    group.id = 5;
    group.epoch = 2;
    group.data_shards = 2;
    group.parity_shards = 1;
    group.disks = disks;
    group.n_disks = 3;
    call.groups = &groups;
    call.n_groups = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_PLACEMENT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    group.epoch = 1;
    assert_int_equal(machine_fixture_apply(f, META_PUT_PLACEMENT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
    group.epoch = 3;
    group.n_disks = 2;
    assert_int_equal(machine_fixture_apply(f, META_PUT_PLACEMENT, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__INVALID_ARGUMENT);
}

static Kist__Outcome put_node(struct machine_fixture *f, uint64_t id, uint64_t incarnation)
{
    Kist__PutNode call = KIST__PUT_NODE__INIT;
    Kist__Node node = KIST__NODE__INIT;

    node.id = id;
    node.address = field_of("10.0.0.1:9010");
    node.incarnation = incarnation;
    call.node = &node;
    return machine_fixture_apply(f, META_PUT_NODE, &call.base, SLICE_EMPTY)->outcome;
}

/* Of two processes with one identity the older must not overwrite where the newer one is. */
static void a_node_never_goes_back(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteNode gone = KIST__DELETE_NODE__INIT;

    assert_int_equal(put_node(f, 0, 1), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_node(f, 7, 5), KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_node(f, 7, 4), KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(put_node(f, 7, 6), KIST__OUTCOME__OUTCOME_OK);
    gone.id = 7;
    assert_int_equal(machine_fixture_apply(f, META_DELETE_NODE, &gone.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(put_node(f, 7, 1), KIST__OUTCOME__OUTCOME_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_is_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(bucket_ids_are_never_reused, setup, teardown),
        cmocka_unit_test_setup_teardown(delete_bucket_is_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_owner_raises_the_generation, setup, teardown),
        cmocka_unit_test_setup_teardown(users_and_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(minted_numbers_are_never_given_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(placement_epochs_only_rise, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_never_goes_back, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
