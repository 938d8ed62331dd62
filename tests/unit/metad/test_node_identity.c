/* A node answers for what its identity file says: a damaged or foreign one must be refused,
 * whatever byte of it is wrong, and what a peer sends as a list of members is checked before it is
 * believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/env/env_uv.h"
#include "metad/cluster/node_identity.h"
#include "metad/store/message.h"

struct fixture {
    struct env_uv *world;
    struct env *env;
    char directory[64];
    char path[80];
};

static struct fixture the_fixture;

static int setup(void **state)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct fixture *f = &the_fixture;
    struct error error;

    f->world = env_uv_open(&options, &error);
    assert_non_null(f->world);
    f->env = env_uv_env(f->world, 0);
    (void)snprintf(f->directory, sizeof(f->directory), "/tmp/kist-node-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof(f->path), "%s/node", f->directory);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)f->env->file->unlink(f->env, f->path);
    (void)f->env->file->rmdir(f->env, f->directory);
    env_uv_close(f->world);
    return 0;
}

static struct node_identity sample(void)
{
    struct node_identity identity = {.cluster_epoch = 2,
                                     .node_id = 70,
                                     .replica_id = 70,
                                     .incarnation = 1234567,
                                     .recovered_ns = 99,
                                     .founder = true,
                                     .ready = true};

    memset(identity.cluster_id, 0xc1, sizeof(identity.cluster_id));
    memset(identity.uuid, 0xd2, sizeof(identity.uuid));
    identity.table.count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct node_entry *entry = &identity.table.entries[i];

        entry->id = 69 + i;
        entry->replica_id = 69 + i;
        entry->state = NODE_ROW_MEMBER;
        (void)snprintf(entry->name, sizeof(entry->name), "m%u", i);
        (void)snprintf(entry->address, sizeof(entry->address), "10.0.0.%u:9010", i);
    }
    return identity;
}

static void what_was_written_is_read(void **state)
{
    struct fixture *f = *state;
    struct node_identity before = sample();
    struct node_identity after;
    struct error error = {.rc = RC_OK};

    assert_int_equal(node_identity_read(f->env, f->directory, &after, &error), RC_NOT_FOUND);
    assert_int_equal(node_identity_write(f->env, f->directory, &before, &error), RC_OK);
    assert_int_equal(node_identity_read(f->env, f->directory, &after, &error), RC_OK);
    assert_int_equal(after.node_id, 70);
    assert_int_equal(after.replica_id, 70);
    assert_int_equal(after.cluster_epoch, 2);
    assert_int_equal(after.incarnation, 1234567);
    assert_int_equal(after.recovered_ns, 99);
    assert_true(after.founder && after.ready);
    assert_memory_equal(after.uuid, before.uuid, sizeof(after.uuid));
    assert_int_equal(after.table.count, 2);
    assert_string_equal(after.table.entries[1].address, "10.0.0.1:9010");
}

static void damage_is_refused_wherever_it_is(void **state)
{
    struct fixture *f = *state;
    struct node_identity identity = sample();
    struct error error = {.rc = RC_OK};
    struct env_stat stat;
    int file;

    assert_int_equal(node_identity_write(f->env, f->directory, &identity, &error), RC_OK);
    assert_int_equal(f->env->file->stat(f->env, f->path, &stat), RC_OK);
    assert_int_equal(
        f->env->file->open(f->env, f->path, ENV_OPEN_READ | ENV_OPEN_WRITE, &file, &error), RC_OK);
    for (uint64_t at = 0; at < stat.size_bytes; at++) {
        char byte;
        char other;
        size_t got;
        struct slice slice = slice_of(&other, 1);

        assert_int_equal(f->env->file->read(f->env, file, &byte, 1, at, &got), RC_OK);
        other = (char)(byte ^ 0x10);
        assert_int_equal(f->env->file->write(f->env, file, &slice, 1, at), RC_OK);
        assert_int_not_equal(node_identity_read(f->env, f->directory, &identity, &error), RC_OK);
        other = byte;
        assert_int_equal(f->env->file->write(f->env, file, &slice, 1, at), RC_OK);
    }
    f->env->file->close(f->env, file);
    assert_int_equal(node_identity_read(f->env, f->directory, &identity, &error), RC_OK);
}

static void lists_of_members_are_checked(void **state)
{
    Kist__ClusterForm form = KIST__CLUSTER_FORM__INIT;
    Kist__Node node = KIST__NODE__INIT;
    Kist__Node *nodes[2] = {&node, &node};
    uint8_t id[RPC_CLUSTER_ID_BYTES] = {1};
    struct node_identity out;

    (void)state;
    node.id = 3;
    node.address = message_field(SLICE("10.0.0.1:9010"));
    form.cluster_id = message_field(slice_of(id, sizeof(id)));
    form.node_id = 3;
    form.replica_id = 3;
    form.nodes = nodes;
    form.n_nodes = 1;
    assert_true(node_identity_from_form(&form, &out));
    form.n_nodes = 2; /* one id twice */
    assert_false(node_identity_from_form(&form, &out));
    form.n_nodes = 1;
    form.node_id = 4; /* not among them */
    assert_false(node_identity_from_form(&form, &out));
    form.node_id = 3;
    node.address = message_field(SLICE("10.0.0.1:9010\n"));
    assert_false(node_identity_from_form(&form, &out));
    node.address = message_field(SLICE_EMPTY);
    assert_false(node_identity_from_form(&form, &out));
    node.address = message_field(SLICE("10.0.0.1:9010"));
    form.cluster_id.len = 15;
    assert_false(node_identity_from_form(&form, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_refused_wherever_it_is, setup, teardown),
        cmocka_unit_test(lists_of_members_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
