/*
 * A reserve of space, so that a full disk never stops a replica: below it commands that need space
 * are refused and those that free some still go through log, state and compaction.
 */
#include "common/log/log.h"
#include "metad/server_private.h"

enum { SPACE_RESERVE_BYTES = 128 * 1024 * 1024, SPACE_SHARE = 16, SPACE_EVERY_MS = 1000 };

static const uint64_t NS_PER_MS = 1000000ULL;

static bool slot_full(struct slot *slot)
{
    struct env *env = slot->metad->env;
    uint64_t free_bytes;
    uint64_t total_bytes;
    uint64_t reserve;

    if (slot->state != SLOT_OPEN ||
        env->file->space(env, slot->directory, &free_bytes, &total_bytes) != RC_OK) {
        return false;
    }
    reserve = total_bytes / SPACE_SHARE;
    if (reserve > SPACE_RESERVE_BYTES) {
        reserve = SPACE_RESERVE_BYTES;
    }
    return free_bytes < reserve;
}

void space_look(struct metad *metad)
{
    uint64_t now_ns = metad->env->clock->mono_ns(metad->env);
    bool full = false;

    if (now_ns < metad->space_after_ns) {
        return;
    }
    metad->space_after_ns = now_ns + SPACE_EVERY_MS * NS_PER_MS;
    for (uint32_t i = 0; !full && i < metad->slot_count; i++) {
        full = slot_full(&metad->slots[i]);
        if (full && !metad->full) {
            LOG_WARN("metad_full", "directory=%s", metad->slots[i].directory);
        }
    }
    if (!full && metad->full) {
        LOG_INFO("metad_not_full", "replicas=%u", metad->slot_count);
    }
    metad->full = full;
    service_set_full(metad->service, full);
}
