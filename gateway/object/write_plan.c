#include "gateway/object/write_plan.h"

#include "common/base/assert.h"

enum {
    /* Large enough that a disk streams, small enough that 64 uploads fit LIMIT_STREAM_MEMORY_BYTES:
     * at 2+2 an upload holds 6 units, 768 KiB, and 4 when memory is scarce. */
    PLAN_UNIT_BYTES = 128 * 1024,
    PLAN_UNIT_BYTES_SINGLE = 256 * 1024, /* k = 1: a stripe is one unit */
    /* Extents of a body whose length nobody knows: what a shard reserves on its disk. */
    PLAN_UNKNOWN_EXTENT_BYTES = 32 * 1024 * 1024
};

static_assert(PLAN_UNIT_BYTES % LIMIT_BLOCK_BYTES == 0, "appends are whole blocks");
static_assert((int)PLAN_UNIT_BYTES <= (int)LIMIT_STRIPE_UNIT_BYTES, "within the format");
static_assert((int)PLAN_UNIT_BYTES_SINGLE >= (int)LIMIT_REPLICA_BYTES,
              "a replica fits one stripe buffer");

static uint64_t plan_round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

void write_plan_make(struct write_plan *plan, const struct gateway_config *config,
                     const Kist__PlacementGroup *group, bool has_length, uint64_t length)
{
    uint32_t k = group->data_shards;
    uint64_t extent_max = config->extent_bytes_max;

    *plan = (struct write_plan){.k = k, .m = group->parity_shards, .buffers = WRITE_BUFFERS_MAX};
    plan->unit = k == 1 ? PLAN_UNIT_BYTES_SINGLE : PLAN_UNIT_BYTES;
    plan->inline_max = config->inline_bytes_max;
    plan->replica_max = config->replica_bytes_max;
    if (!has_length && extent_max > PLAN_UNKNOWN_EXTENT_BYTES) {
        extent_max = PLAN_UNKNOWN_EXTENT_BYTES;
    }
    plan->extent_bytes = extent_max / ((uint64_t)k * plan->unit) * k * plan->unit;
    if (plan->extent_bytes == 0) {
        plan->extent_bytes = (uint64_t)k * plan->unit;
    }
    plan->stripe_bytes = (size_t)k * plan->unit;
    plan->parity_bytes = (size_t)group->parity_shards * plan->unit;
    if (has_length && length <= plan->stripe_bytes) {
        bool replica = length <= plan->replica_max;
        uint64_t unit = plan_round_up((length + k - 1) / k, LIMIT_DISK_ALIGN_BYTES);

        plan->buffers = 1;
        plan->stripe_bytes =
            (size_t)(replica ? plan_round_up(length, LIMIT_DISK_ALIGN_BYTES) : (uint64_t)k * unit);
        plan->parity_bytes = replica ? 0 : (size_t)(group->parity_shards * unit);
    }
    if (plan->replica_max > plan->stripe_bytes) {
        plan->replica_max = plan->stripe_bytes;
    }
    ASSERT(plan->stripe_bytes > 0);
}

bool write_plan_adapt(struct write_plan *plan, const Kist__PlacementGroup *group)
{
    uint32_t k = group->data_shards;
    size_t unit = plan->stripe_bytes / k;
    size_t parity_bytes = group->parity_shards * unit;

    if (k == plan->k && group->parity_shards == plan->m) {
        return true;
    }
    if (plan->stripe_bytes % k != 0 || unit % LIMIT_BLOCK_BYTES != 0 ||
        unit > LIMIT_STRIPE_UNIT_BYTES) {
        return false;
    }
    plan->k = k;
    plan->m = group->parity_shards;
    plan->unit = (uint32_t)unit;
    plan->parity_bytes = parity_bytes > plan->parity_bytes ? parity_bytes : plan->parity_bytes;
    return true;
}

uint64_t write_plan_memory(const struct write_plan *plan)
{
    return plan->buffers * (uint64_t)plan->stripe_bytes + plan->parity_bytes;
}
