/*
 * Clients of the raft world, and the checks of what they were told.
 *
 *   - an entry is the same at its index on every replica;
 *   - an operation is applied at one index at most; never when it was refused; always when it was
 * answered;
 *   - a read sees every write that was answered, and everything another read had seen, before it
 * began.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "tests/sim/raft_world.h"

enum { OP_HEADER = 20 };

/* A read by lease: commit index, wait for apply, state, lease; with pauses between. The replica
 * must have been serving in the same term when the commit index was taken: a follower's is old, and
 * it may be a leader with a lease by the time the lease is looked at. */
struct raft_read {
    struct sim_call call;
    struct replica_read index_read;
    struct raft_world *world;
    struct raft_node *node;
    uint64_t start;
    uint32_t target;
    uint64_t floor;
    uint64_t commit;
    uint64_t term;
    uint64_t seen;
    bool looked;
    bool by_index;
};

static uint64_t hash_of(struct slice data, uint64_t term)
{
    uint64_t hash = 0xcbf29ce484222325ULL ^ term;

    for (size_t i = 0; i < data.len; i++) {
        hash = (hash ^ (uint8_t)data.data[i]) * 0x100000001b3ULL;
    }
    return hash | 1;
}

void client_applied(struct raft_world *world, struct slice data, uint64_t index, uint64_t term)
{
    uint64_t hash = hash_of(data, term);

    ASSERT(index < RAFT_INDEX_MAX);
    if (world->applied_hash[index] == 0) {
        world->applied_hash[index] = hash;
        world->applied_max = index > world->applied_max ? index : world->applied_max;
        if (data.len > 0) {
            uint64_t number = le64_get(data.data);
            struct raft_op *op;

            CHECK(data.len >= OP_HEADER && number < world->op_count, "a strange entry at %llu",
                  (unsigned long long)index);
            op = world->ops[number];
            CHECK(op->index == 0, "operation %llu applied twice, at %llu and %llu",
                  (unsigned long long)number, (unsigned long long)op->index,
                  (unsigned long long)index);
            CHECK(op->fate != OP_REFUSED, "operation %llu was refused but applied at %llu",
                  (unsigned long long)number, (unsigned long long)index);
            op->index = index;
        }
    }
    CHECK(world->applied_hash[index] == hash, "replicas differ at index %llu",
          (unsigned long long)index);
}

static void op_answered(struct raft_op *op)
{
    struct raft_world *world = op->world;
    struct proposal *proposal = &op->proposal;

    op->fate = OP_DONE;
    CHECK(op->index != 0 && op->index == proposal->index,
          "operation %llu answered at index %llu, applied at %llu", (unsigned long long)op->number,
          (unsigned long long)proposal->index, (unsigned long long)op->index);
    CHECK(proposal->result != NULL && le64_get(proposal->result) == op->index,
          "operation %llu got another's result", (unsigned long long)op->number);
    op->node->toy.machine.result_free(&op->node->toy.machine, proposal->result);
    world->acked += 1;
    world_count_up("writes answered", 1);
    if (op->index > world->floor[op->target]) {
        world->floor[op->target] = op->index;
    }
}

static void op_done(struct proposal *proposal)
{
    struct raft_op *op = CONTAINER_OF(proposal, struct raft_op, proposal);

    CHECK(op->fate == OP_PENDING, "operation %llu completed twice", (unsigned long long)op->number);
    if (proposal->rc == RC_OK) {
        op_answered(op);
    } else if (proposal->rc == RC_AMBIGUOUS) {
        op->fate = OP_UNKNOWN;
        world_count_up("writes unknown", 1);
    } else {
        op->fate = OP_REFUSED;
        CHECK(op->index == 0, "operation %llu: %s, but applied at %llu",
              (unsigned long long)op->number, rc_name(proposal->rc), (unsigned long long)op->index);
        world_count_up("writes refused", 1);
    }
    mem_free(op->data);
    op->data = NULL;
}

struct raft_op *client_propose(struct raft_world *world, struct raft_node *node)
{
    struct raft_op *op = mem_alloc(sizeof(*op));
    size_t len = OP_HEADER + (size_t)sim_below(world->sim, sim_chance(world->sim, 50) ? 3000 : 100);

    if (world->op_count == world->op_capacity) {
        world->op_capacity = world->op_capacity == 0 ? 1024 : world->op_capacity * 2;
        world->ops = mem_realloc(world->ops, world->op_capacity * sizeof(struct raft_op *));
    }
    op->world = world;
    op->node = node;
    op->number = world->op_count;
    op->target = (uint32_t)sim_below(world->sim, RAFT_REGISTERS);
    op->value = sim_random(world->sim);
    op->data = mem_alloc(len);
    le64_put(op->data, op->number);
    le32_put(op->data + 8, op->target);
    le64_put(op->data + 12, op->value);
    op->part = slice_of(op->data, len);
    op->proposal.parts = &op->part;
    op->proposal.part_count = 1;
    op->proposal.done = op_done;
    world->ops[world->op_count++] = op;
    replica_propose(node->replica, &op->proposal);
    return op;
}

/* ---- Reads ---- */

static void read_judge(struct raft_read *read)
{
    struct raft_world *world = read->world;

    CHECK(read->seen >= read->floor,
          "a read of register %u saw index %llu, but %llu was known (%s)", read->target,
          (unsigned long long)read->seen, (unsigned long long)read->floor,
          read->by_index ? "read index" : "lease");
    if (read->seen > world->floor[read->target]) {
        world->floor[read->target] = read->seen;
    }
    world->reads_done += 1;
    world_count_up(read->by_index ? "reads by index" : "reads by lease", 1);
}

static bool read_alive(const struct raft_read *read)
{
    return read->node->replica != NULL && read->node->starts == read->start &&
           !read->node->closing && !sim_stopped(read->node->host);
}

static void read_step(struct sim_call *call)
{
    struct raft_read *read = CONTAINER_OF(call, struct raft_read, call);
    const struct raft_node *node = read->node;
    struct sim *sim = read->world->sim;

    if (!read_alive(read)) {
        mem_free(read);
        return;
    }
    if (!read->looked) {
        if (replica_applied(node->replica) >= read->commit) {
            read->seen = node->toy.now.registers[read->target].index;
            read->looked = true;
        }
        sim_call_at(sim, NULL, &read->call,
                    sim_below(sim, sim_chance(sim, 100) ? 200 * SIM_MS : 1 * SIM_MS));
        return;
    }
    if (replica_lease(node->replica, node->env->clock->mono_ns(node->env)) &&
        replica_term(node->replica) == read->term) {
        read_judge(read);
    }
    mem_free(read);
}

static void read_index_done(struct replica_read *index_read)
{
    struct raft_read *read = CONTAINER_OF(index_read, struct raft_read, index_read);

    if (index_read->rc == RC_OK) {
        read->seen = read->node->toy.now.registers[read->target].index;
        read_judge(read);
    } else {
        world_count_up("reads refused", 1);
    }
    mem_free(read);
}

static void client_read(struct raft_world *world, struct raft_node *node)
{
    struct raft_read *read = mem_alloc(sizeof(*read));

    read->world = world;
    read->node = node;
    read->start = node->starts;
    read->target = (uint32_t)sim_below(world->sim, RAFT_REGISTERS);
    read->floor = world->floor[read->target];
    read->by_index = sim_chance(world->sim, 300);
    if (read->by_index) {
        read->index_read.done = read_index_done;
        replica_read_index(node->replica, &read->index_read);
        return;
    }
    if (replica_state(node->replica) != REPLICA_SERVING) {
        mem_free(read);
        return;
    }
    read->term = replica_term(node->replica);
    read->commit = replica_commit(node->replica);
    read->call.run = read_step;
    sim_call_at(world->sim, NULL, &read->call, sim_below(world->sim, 100 * SIM_US));
}

/* ---- The stream of both ---- */

static void client_run(struct sim_call *call)
{
    struct raft_world *world = CONTAINER_OF(call, struct raft_world, client);
    unsigned burst = (unsigned)sim_below(world->sim, sim_chance(world->sim, 20) ? 64 : 4);

    for (unsigned i = 0; i < world->node_count; i++) {
        node_watch(&world->nodes[i]);
    }
    for (unsigned i = 0; i < burst && world->op_count < RAFT_INDEX_MAX / 4; i++) {
        struct raft_node *node = &world->nodes[sim_below(world->sim, world->node_count)];
        struct raft_node *serving = node_serving(world);

        if (serving != NULL && sim_chance(world->sim, 700)) {
            node = serving;
        }
        if (node->replica == NULL || node->closing || sim_stopped(node->host)) {
            continue;
        }
        if (sim_chance(world->sim, 500)) {
            (void)client_propose(world, node);
        } else {
            client_read(world, node);
        }
    }
    sim_call_at(world->sim, NULL, &world->client, sim_below(world->sim, 20 * SIM_MS));
}

void client_start(struct raft_world *world)
{
    world->client.run = client_run;
    sim_call_at(world->sim, NULL, &world->client, 1);
}

void client_stop(struct raft_world *world)
{
    sim_call_stop(world->sim, &world->client);
}

void client_check_end(struct raft_world *world)
{
    for (uint64_t i = 0; i < world->op_count; i++) {
        const struct raft_op *op = world->ops[i];

        if (op->fate == OP_DONE) {
            CHECK(op->index != 0 && op->index <= world->applied_max,
                  "operation %llu was answered but is nowhere", (unsigned long long)i);
        }
        if (op->fate == OP_REFUSED) {
            CHECK(op->index == 0, "operation %llu was refused but applied", (unsigned long long)i);
        }
    }
}
