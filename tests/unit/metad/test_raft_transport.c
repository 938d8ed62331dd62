/* Links inside one process: in order, bounded, and safe while replicas come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/transport.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/raft_world.h"

enum { REPLICAS = 3 };

/* Three replicas on one loop, as `kist serve` has them. */
struct trio {
    struct raft_world world; /* machines and disks; its links are not used */
    struct local_transport *transport;
    struct replica *replicas[REPLICAS];
    uint32_t closed;
    bool gone;
};

static struct trio *the_trio;

static void open_one(struct trio *trio, struct env *env, uint32_t at)
{
    struct raft_world_node *node = &trio->world.nodes[at];
    struct kv_options kv_options = {0};
    struct replica_peer peers[REPLICAS];
    struct error error;
    struct kv *kv = NULL;
    struct replica_options options = {
        .env = env,
        .machine = &node->machine,
        .transport = local_transport_base(trio->transport),
        .group = RAFT_WORLD_GROUP,
        .replica_id = node->id,
        .bootstrap = peers,
        .bootstrap_count = REPLICAS,
    };

    for (uint32_t i = 0; i < REPLICAS; i++) {
        peers[i] = (struct replica_peer){trio->world.nodes[i].id, true};
    }
    log_store_kv_options(&kv_options);
    assert_int_equal(sim_kv_open(&kv, node->disk, &kv_options, &error), RC_OK);
    node->kv = kv;
    assert_int_equal(log_store_open(&node->log, env, kv, &error), RC_OK);
    options.log = node->log;
    assert_int_equal(replica_open(&trio->replicas[at], &options, &error), RC_OK);
    local_transport_add(trio->transport, RAFT_WORLD_GROUP, node->id, trio->replicas[at]);
}

static struct replica *serving(struct trio *trio)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (trio->replicas[i] != NULL && replica_state(trio->replicas[i]) == REPLICA_SERVING) {
            return trio->replicas[i];
        }
    }
    return NULL;
}

static void closed(void *owner)
{
    struct raft_world_node *node = owner;

    local_transport_remove(the_trio->transport, RAFT_WORLD_GROUP, node->id);
    the_trio->replicas[node->number] = NULL;
    the_trio->closed++;
}

static void gone(void *owner)
{
    struct trio *trio = owner;

    trio->gone = true;
}

/* They find a leader among themselves, one is closed while messages to it are under way, the others
 * go on; in the end everything is closed at once and nothing is left. */
static void replicas_of_one_process_talk_and_leave(void **state)
{
    struct trio trio = {.closed = 0};
    struct env *env = NULL;

    (void)state;
    the_trio = &trio;
    raft_world_init(&trio.world, 1);
    env = sim_env_new(trio.world.nodes[0].sim_node);
    trio.transport = local_transport_new(env);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        open_one(&trio, env, i);
    }
    for (uint32_t ms = 0; serving(&trio) == NULL && ms < 10000; ms++) {
        raft_world_run_ms(&trio.world, 1);
    }
    assert_non_null(serving(&trio));
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (trio.replicas[i] == serving(&trio)) {
            replica_close(trio.replicas[i], closed, &trio.world.nodes[i]);
            break;
        }
    }
    raft_world_run_ms(&trio.world, 200); /* handed over: less than an election timeout */
    assert_int_equal(trio.closed, 1);
    assert_non_null(serving(&trio));
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (trio.replicas[i] != NULL) {
            replica_close(trio.replicas[i], closed, &trio.world.nodes[i]);
        }
    }
    for (uint32_t ms = 0; trio.closed < REPLICAS && ms < 10000; ms++) {
        raft_world_run_ms(&trio.world, 1);
    }
    assert_int_equal(trio.closed, REPLICAS);
    local_transport_close(trio.transport, gone, &trio);
    raft_world_run_ms(&trio.world, 1);
    assert_true(trio.gone);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        log_store_close(trio.world.nodes[i].log);
    }
    raft_world_deinit(&trio.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_of_one_process_talk_and_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
