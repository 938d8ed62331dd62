/*
 * Keeps the group whole, one operation at a time, whenever something changed and every
 * METAD_MANAGE_MS:
 *
 *     replica corrupt, or removed  closed, wiped: an empty directory
 *     empty directory              id minted by root -> learner -> filled -> voter, then the dead
 *                                  member is removed
 *     no majority                  the survivor of two whose peer was wiped or replaced goes on
 *                                  alone; otherwise reads only
 *
 * Changes of the membership are made while the group is whole enough to commit them, and tried
 * again when not.
 *
 * A replica is wiped only while the others can do without it: with a leader that is not itself, or
 * as the one of two whose peer lives, was found whole, and holds everything answered. So an error
 * that all replicas run into wipes nothing.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/server_private.h"

/* ---- Stopped replicas ---- */

static bool wipe_helps(enum rc rc)
{
    return rc == RC_CORRUPT || rc == RC_STALE;
}

static bool is_member(struct metad *metad, uint64_t id, bool *voter)
{
    struct replica_peer members[METAD_SLOTS_MAX * 3];
    uint32_t count = metad_members(metad, members, ARRAY_LEN(members));

    for (uint32_t i = 0; i < count; i++) {
        if (members[i].replica_id == id) {
            *voter = members[i].voter;
            return true;
        }
    }
    return false;
}

/* The one that holds most of the log. */
static struct slot *survivor(struct metad *metad)
{
    struct slot *best = NULL;

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct slot *slot = &metad->slots[i];

        if (slot->state == SLOT_OPEN && replica_state(slot->replica) != REPLICA_STOPPED &&
            (best == NULL ||
             replica_last_index(slot->replica) > replica_last_index(best->replica))) {
            best = slot;
        }
    }
    return best;
}

/* Can the group go on without this one? Of two, when the other lives and was found whole. */
static bool spare(struct metad *metad, const struct slot *slot)
{
    struct slot *other = survivor(metad);
    uint32_t voters;
    uint32_t here;

    if (metad->leader != NULL) {
        return metad->leader != slot;
    }
    metad_voters(metad, &voters, &here);
    if (voters != 2 || here != 1 || other == NULL || other == slot) {
        return false;
    }
    if (!other->verified) {
        verify_slot(metad, other);
    }
    return other->verified;
}

static void stopped_for_good(struct slot *slot)
{
    struct metad *metad = slot->metad;

    metad->busy = false;
    slot->state = SLOT_STOPPED;
    metad_look(metad);
}

static bool manage_failed_slot(struct metad *metad, struct slot *slot)
{
    if (slot->state == SLOT_OPEN && replica_state(slot->replica) == REPLICA_STOPPED &&
        !slot->verifying) {
        slot->error = *replica_error(slot->replica);
        LOG_ERROR("metad_replica_stopped", "directory=%s replica=%llu error=\"%s\"",
                  slot->directory, (unsigned long long)slot->id, slot->error.text);
        metad->busy = true;
        slot_stop(slot, stopped_for_good);
        return true;
    }
    if (slot->state == SLOT_STOPPED && wipe_helps(slot->error.rc) && spare(metad, slot)) {
        LOG_WARN("metad_refill", "directory=%s replica=%llu", slot->directory,
                 (unsigned long long)slot->id);
        slot_wipe(slot);
        metad_look(metad);
        return true;
    }
    return false;
}

/* ---- Verification found damage, or the group no longer knows it ---- */

static bool manage_unwanted_slot(struct metad *metad, struct slot *slot)
{
    bool voter = false;

    if (slot->state != SLOT_OPEN || slot->verifying || !spare(metad, slot)) {
        return false;
    }
    if (slot->corrupt) {
        slot->corrupt = false;
        metad->busy = true;
        slot_stop(slot, stopped_for_good);
        return true;
    }
    if (metad->leader != NULL && replica_last_index(slot->replica) > 0 &&
        !is_member(metad, slot->id, &voter)) {
        (void)error_set(&slot->error, RC_STALE, "replica %llu was removed from the group",
                        (unsigned long long)slot->id);
        metad->busy = true;
        slot_stop(slot, stopped_for_good);
        return true;
    }
    return false;
}

/* The leader itself is damaged: another one leads first. */
static bool manage_damaged_leader(struct metad *metad)
{
    uint32_t voters;
    uint32_t here;

    metad_voters(metad, &voters, &here);
    if (metad->leader == NULL || !metad->leader->corrupt || metad->leader->verifying ||
        (here <= voters / 2 + 1 && !(voters == 2 && here == 2))) {
        return false;
    }
    metad->leader->corrupt = false;
    metad->busy = true;
    slot_stop(metad->leader, stopped_for_good);
    return true;
}

/* ---- Joining ---- */

enum { JOIN_WRITE_MS = 5000 };

static const uint64_t JOIN_RETRY_NS = 10ULL * 1000000000ULL;

struct join {
    struct task task;
    struct metad *metad;
    struct slot *slot;
    struct arena arena;
    struct meta_write write;
    Kist__Mint mint;
};

static enum step_result join_mint(struct task *task)
{
    struct join *join = CONTAINER_OF(task, struct join, task);
    struct meta_client *client = join->metad->client;
    static uint8_t name[] = "replica";

    kist__mint__init(&join->mint);
    join->mint.name = (ProtobufCBinaryData){.len = sizeof(name) - 1, .data = name};
    join->mint.count = 1;
    join->write = (struct meta_write){.command = META_MINT,
                                      .message = &join->mint.base,
                                      .deadline_ms = JOIN_WRITE_MS,
                                      .arena = &join->arena};
    return client->write(client, &join->write, task);
}

static enum step_result join_make(struct task *task)
{
    struct join *join = CONTAINER_OF(task, struct join, task);
    const Kist__Reply *reply = join->write.reply;

    if (reply->outcome != KIST__OUTCOME__OUTCOME_OK) {
        return task_fail(task, RC_INVALID, "no replica id was minted");
    }
    if (slot_create(join->slot, METAD_BOOTSTRAP_IDS + reply->first, NULL, 0, &task->error) !=
        RC_OK) {
        return STEP_FAIL;
    }
    LOG_INFO("metad_join", "directory=%s replica=%llu", join->slot->directory,
             (unsigned long long)join->slot->id);
    return STEP_NEXT;
}

static const struct step join_steps[] = {
    {"mint", join_mint},
    {"make", join_make},
    {NULL,   NULL     }
};

static void join_done(struct task *task)
{
    struct join *join = CONTAINER_OF(task, struct join, task);
    struct metad *metad = join->metad;

    if (task->error.rc != RC_OK) {
        LOG_WARN("metad_join_failed", "directory=%s error=\"%s\"", join->slot->directory,
                 task->error.text);
        metad->join_after_ns = metad->env->clock->mono_ns(metad->env) + JOIN_RETRY_NS;
    }
    metad->join = NULL;
    metad->busy = false;
    arena_deinit(&join->arena);
    mem_free(join);
    metad_look(metad);
}

static void join_start(struct metad *metad, struct slot *slot)
{
    struct join *join = mem_alloc(sizeof(*join));

    join->metad = metad;
    join->slot = slot;
    arena_init(&join->arena);
    metad->busy = true;
    metad->join = join;
    task_start(&join->task, join_steps, join_done);
}

/* ---- Membership ---- */

static void change_done(struct membership_change *change)
{
    struct metad *metad = CONTAINER_OF(change, struct metad, change);

    metad->changing = false;
    if (change->rc == RC_OK) {
        LOG_INFO("metad_member", "change=%d replica=%llu", (int)change->kind,
                 (unsigned long long)change->replica_id);
        metad_look(metad);
    }
}

enum change { CHANGE_ADD, CHANGE_PROMOTE, CHANGE_REMOVE };

static void change_start(struct metad *metad, enum change kind, uint64_t id)
{
    metad->change = (struct membership_change){.replica_id = id, .done = change_done};
    metad->change.kind = MEMBER_ADD_LEARNER;
    if (kind != CHANGE_ADD) {
        metad->change.kind = kind == CHANGE_PROMOTE ? MEMBER_PROMOTE : MEMBER_REMOVE;
    }
    metad->changing = true;
    replica_change_membership(metad->leader->replica, &metad->change);
}

/* A member that lives nowhere here goes once there are more members than places and all places
 * vote. */
static void manage_dead_member(struct metad *metad)
{
    struct replica_peer members[METAD_SLOTS_MAX * 3];
    uint32_t count = metad_members(metad, members, ARRAY_LEN(members));

    if (count <= metad->slot_count) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (metad_slot_of(metad, members[i].replica_id) == NULL) {
            change_start(metad, CHANGE_REMOVE, members[i].replica_id);
            return;
        }
    }
}

static void manage_members(struct metad *metad)
{
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct slot *slot = &metad->slots[i];
        bool voter = false;

        if (slot->state != SLOT_OPEN || replica_state(slot->replica) == REPLICA_STOPPED) {
            continue;
        }
        if (!is_member(metad, slot->id, &voter)) {
            change_start(metad, CHANGE_ADD, slot->id);
            return;
        }
        if (!voter) {
            change_start(metad, CHANGE_PROMOTE, slot->id);
            return;
        }
    }
    manage_dead_member(metad);
}

/* ---- Without a majority ---- */

static bool any_empty(const struct metad *metad)
{
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        if (metad->slots[i].state == SLOT_EMPTY) {
            return true;
        }
    }
    return false;
}

static void manage_no_majority(struct metad *metad)
{
    struct slot *slot = survivor(metad);
    uint32_t voters;
    uint32_t here;

    metad_voters(metad, &voters, &here);
    if (slot == NULL || voters == 0 || here > voters / 2 || (voters == 2 && slot->verifying)) {
        return; /* of two the other may be about to be wiped */
    }
    if (voters == 2 && here == 1 && any_empty(metad)) {
        recover_start(metad, slot);
    } else if (!metad->reads_only &&
               metad->env->clock->mono_ns(metad->env) >= metad->shadow_after_ns) {
        LOG_ERROR("metad_reads_only", "voters=%u present=%u", voters, here);
        shadow_start(metad, slot);
    }
}

/* One of several processes: others decide about its membership (metad/cluster). */
static void manage_member(struct metad *metad)
{
    struct slot *slot = &metad->slots[0];

    space_look(metad);
    if (slot->state == SLOT_OPEN && replica_state(slot->replica) == REPLICA_STOPPED) {
        slot->error = *replica_error(slot->replica);
    } else if (slot->corrupt && !slot->verifying) {
        (void)error_set(&slot->error, RC_CORRUPT, "%s: a checksum is wrong", slot->directory);
    } else {
        return;
    }
    if (!metad->told_stopped) {
        metad->told_stopped = true;
        LOG_ERROR("metad_replica_stopped", "directory=%s replica=%llu error=\"%s\"",
                  slot->directory, (unsigned long long)slot->id, slot->error.text);
        metad->cluster.on_stopped(metad->cluster.owner, &slot->error);
    }
}

void manage(struct metad *metad)
{
    if (metad->cluster.transport != NULL) {
        if (service_met_damage(metad->service) && metad->leader != NULL) {
            verify_slot(metad, metad->leader);
        }
        manage_member(metad);
        return;
    }
    if (service_met_damage(metad->service) && metad->leader != NULL) {
        verify_slot(metad, metad->leader);
    }
    space_look(metad);
    for (uint32_t i = 0; i < metad->slot_count && !metad->busy; i++) {
        if (!manage_failed_slot(metad, &metad->slots[i])) {
            (void)manage_unwanted_slot(metad, &metad->slots[i]);
        }
    }
    if (metad->busy || metad->changing || manage_damaged_leader(metad)) {
        return;
    }
    if (metad->leader == NULL) {
        manage_no_majority(metad);
        return;
    }
    if (metad->client == NULL) {
        return;
    }
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        if (metad->slots[i].state == SLOT_EMPTY &&
            metad->env->clock->mono_ns(metad->env) >= metad->join_after_ns) {
            join_start(metad, &metad->slots[i]);
            return;
        }
    }
    manage_members(metad);
}
