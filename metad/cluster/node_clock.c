/*
 * The leader compares its clock with those of the other voters, twice a second, and tells the
 * service what it may stamp. What another clock said is carried on by the monotonic clock, so a
 * jump of one's own shows at the next look. A leader whose clock is off hands over.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/log/log.h"
#include "metad/cluster/clock.h"
#include "metad/cluster/node_private.h"

enum { CLOCK_ASK_MS = 500, CLOCK_CALL_MS = 1000, CLOCK_LIVES_MS = 3000, CLOCK_HAND_OVER_MS = 5000 };

static const uint64_t ROUND_TRIP_NS_MAX = 400ULL * 1000000ULL; /* a slower answer says too little */
static const uint64_t CLOCK_SAY_NS = 30ULL * 1000000000ULL;

static_assert((int)CLOCKS_MAX >= (int)NODE_PEERS_MAX, "all of them fit");

void node_clock_serve(struct rpc_service *service, struct rpc_request *request)
{
    const struct node *node = CONTAINER_OF(service, struct node, services.clock);
    struct rpc_reply reply = {.rc = RC_OK};
    char head[8];

    le64_put(head, node->env->clock->wall_ns(node->env));
    reply.head = slice_of(head, sizeof(head));
    rpc_reply(request, &reply);
}

static void clock_done(struct rpc_call *call)
{
    struct node_clock *clock = CONTAINER_OF(call, struct node_clock, call);
    uint64_t now_ns = clock->node->env->clock->mono_ns(clock->node->env);
    uint64_t round_ns = now_ns - clock->asked_ns;

    clock->busy = false;
    if (call->rc == RC_OK && call->reply_head.len == 8 && round_ns <= ROUND_TRIP_NS_MAX) {
        clock->wall_ns = le64_get(call->reply_head.data) + round_ns / 2;
        clock->mono_ns = now_ns;
        if (!clock->node->down_busy) {
            node_clock_tick(clock->node);
        }
    }
}

static void clock_ask(struct node *node, struct node_clock *clock, struct node_peer *peer,
                      uint64_t now_ns)
{
    if (clock->busy || !rpc_peer_up(peer->rpc, RPC_CONTROL) ||
        (clock->id == peer->id && now_ns - clock->asked_ns < CLOCK_ASK_MS * NODE_NS_PER_MS)) {
        return;
    }
    if (clock->id != peer->id) {
        clock->wall_ns = 0;
    }
    clock->id = peer->id;
    clock->node = node;
    clock->asked_ns = now_ns;
    clock->busy = true;
    clock->call = (struct rpc_call){.method = RPC_CLUSTER_CLOCK,
                                    .purpose = RPC_CONTROL,
                                    .timeout_ms = CLOCK_CALL_MS,
                                    .done = clock_done};
    rpc_call(peer->rpc, &clock->call);
}

static struct node_peer *voter_peer(struct node *node, uint64_t replica_id)
{
    const struct node_entry *entry = node_table_find_replica(&node->table, replica_id);

    return entry != NULL && entry->id != node->identity.node_id ? peers_of(node, entry->id) : NULL;
}

static void clock_off(struct node *node, uint64_t now_ns)
{
    if (now_ns - node->clock_said_ns >= CLOCK_SAY_NS || node->clock_said_ns == 0) {
        node->clock_said_ns = now_ns;
        LOG_ERROR("node_clock_off", "node=%llu does=\"hands leadership over; set the clock\"",
                  (unsigned long long)node->identity.node_id);
    }
    if (now_ns - node->clock_handed_ns >= CLOCK_HAND_OVER_MS * NODE_NS_PER_MS) {
        node->clock_handed_ns = now_ns;
        replica_transfer(node_replica(node));
    }
}

void node_clock_tick(struct node *node)
{
    static const enum service_clock says[] = {[CLOCK_UNKNOWN] = SERVICE_CLOCK_UNKNOWN,
                                              [CLOCK_GOOD] = SERVICE_CLOCK_GOOD,
                                              [CLOCK_OFF] = SERVICE_CLOCK_OFF};
    const uint64_t now_ns = node->env->clock->mono_ns(node->env);
    const uint64_t wall_ns = node->env->clock->wall_ns(node->env);
    struct replica_peer members[NODE_TABLE_MAX];
    int64_t offsets[NODE_PEERS_MAX] = {0};
    enum clock_verdict verdict;
    uint32_t known = 0;
    uint32_t voters = 0;
    uint32_t count;

    if (!node_serving(node)) {
        return;
    }
    count = replica_members(node_replica(node), members, NODE_TABLE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct node_peer *peer = members[i].voter ? voter_peer(node, members[i].replica_id) : NULL;
        struct node_clock *clock = peer != NULL ? &node->clocks[peer - node->peers] : NULL;

        voters += members[i].voter ? 1 : 0;
        if (clock == NULL) {
            continue;
        }
        clock_ask(node, clock, peer, now_ns);
        if (clock->wall_ns != 0 && now_ns - clock->mono_ns < CLOCK_LIVES_MS * NODE_NS_PER_MS) {
            offsets[known++] = (int64_t)(clock->wall_ns + (now_ns - clock->mono_ns) - wall_ns);
        }
    }
    verdict = clock_judge(offsets, known, voters > 0 ? voters : 1);
    service_set_clock(node->metad->service, says[verdict]);
    if (verdict == CLOCK_OFF) {
        clock_off(node, now_ns);
    }
}
