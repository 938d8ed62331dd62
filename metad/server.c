/*
 * metad of one process: replicas of the one group on its first directories, joined by an in-process
 * transport.
 *
 *     open   slots -> a leader serves (or reads only) -> the first view -> done
 *     then   who leads is published to the service; what fails is stopped and refilled (manage.c)
 *     close  service refuses -> reclaim, lifecycle -> fence -> replicas hand over and flush ->
 * stores
 */
#include "metad/server_private.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"

enum { OPEN_TIMEOUT_MS = 60000, OPEN_LOOK_MS = 10, METAD_CACHE_BYTES = 16 * 1024 * 1024 };

static const uint64_t NS_PER_MS = 1000000ULL;

/* ---- Links ---- */

struct raft_transport *metad_transport(struct metad *metad)
{
    return metad->transport != NULL ? local_transport_base(metad->transport)
                                    : rpc_transport_base(metad->cluster.transport);
}

void metad_transport_add(struct slot *slot)
{
    struct metad *metad = slot->metad;

    if (metad->transport != NULL) {
        local_transport_add(metad->transport, METAD_GROUP, slot->id, slot->replica);
    } else {
        rpc_transport_add(metad->cluster.transport, METAD_GROUP, slot->id, slot->replica);
    }
}

void metad_transport_remove(struct slot *slot)
{
    struct metad *metad = slot->metad;

    if (metad->transport != NULL) {
        local_transport_remove(metad->transport, METAD_GROUP, slot->id);
    } else {
        rpc_transport_remove(metad->cluster.transport, METAD_GROUP, slot->id);
    }
}

/* ---- What is known of the group ---- */

uint32_t metad_members(const struct metad *metad, struct replica_peer *out, uint32_t max)
{
    if (metad->leader != NULL) {
        return replica_members(metad->leader->replica, out, max);
    }
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        const struct slot *slot = &metad->slots[i];

        if (slot->state == SLOT_OPEN && replica_state(slot->replica) != REPLICA_STOPPED) {
            uint32_t count = replica_members(slot->replica, out, max);

            if (count > 0) {
                return count;
            }
        }
    }
    return 0;
}

struct slot *metad_slot_of(struct metad *metad, uint64_t id)
{
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        if (metad->slots[i].id == id && id != 0) {
            return &metad->slots[i];
        }
    }
    return NULL;
}

static bool slot_lives(const struct slot *slot)
{
    return slot != NULL && slot->state == SLOT_OPEN &&
           replica_state(slot->replica) != REPLICA_STOPPED;
}

void metad_voters(struct metad *metad, uint32_t *voters, uint32_t *here)
{
    struct replica_peer members[METAD_SLOTS_MAX * 3];
    uint32_t count = metad_members(metad, members, ARRAY_LEN(members));

    *voters = 0;
    *here = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter) {
            *voters += 1;
            *here += slot_lives(metad_slot_of(metad, members[i].replica_id)) ? 1 : 0;
        }
    }
}

/* ---- Status ---- */

static const char *slot_word(const struct metad *metad, const struct slot *slot)
{
    switch (slot->state) {
    case SLOT_MISSING:
        return "missing";
    case SLOT_OPEN:
        break;
    case SLOT_STOPPED:
        return "stopped";
    case SLOT_EMPTY:
    case SLOT_BUSY:
    default:
        return "refilling";
    }
    if (replica_state(slot->replica) == REPLICA_STOPPED) {
        return "stopped";
    }
    if (metad->leader == slot) {
        return "serving";
    }
    return replica_applied(slot->replica) == 0 ? "refilling" : "follower";
}

static void status_lock(struct metad *metad)
{
    while (atomic_flag_test_and_set_explicit(&metad->status_lock, memory_order_acquire)) {
    }
}

static void status_update(struct metad *metad)
{
    struct metad_status status = {.replica_count = metad->slot_count};
    uint32_t voters;
    uint32_t here;

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        const struct slot *slot = &metad->slots[i];
        const struct error *error = &slot->error;

        if (slot->state == SLOT_OPEN && replica_state(slot->replica) == REPLICA_STOPPED) {
            error = replica_error(slot->replica);
        }
        status.replicas[i].directory = slot->directory;
        status.replicas[i].id = slot->id;
        status.replicas[i].applied = slot->state == SLOT_OPEN ? replica_applied(slot->replica) : 0;
        (void)snprintf(status.replicas[i].state, sizeof(status.replicas[i].state), "%s",
                       slot_word(metad, slot));
        if (error->rc != RC_OK) {
            (void)snprintf(status.replicas[i].error, sizeof(status.replicas[i].error), "%s",
                           error->text);
        }
    }
    metad_voters(metad, &voters, &here);
    status.writable = metad->leader != NULL;
    status.losses_tolerated = here > voters / 2 ? here - voters / 2 - 1 : 0;
    status_lock(metad);
    metad->status = status;
    atomic_flag_clear_explicit(&metad->status_lock, memory_order_release);
}

void metad_status(struct metad *metad, struct metad_status *out)
{
    status_lock(metad);
    *out = metad->status;
    atomic_flag_clear_explicit(&metad->status_lock, memory_order_release);
}

/* ---- Who leads ---- */

static struct leader *leader_new(struct slot *slot)
{
    struct leader *leader = mem_alloc(sizeof(*leader));

    leader->replica = slot->replica;
    leader->machine = slot->machine;
    return leader;
}

static void look_leader(struct metad *metad)
{
    struct slot *serving = NULL;

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct slot *slot = &metad->slots[i];

        if (slot->state == SLOT_OPEN && replica_state(slot->replica) == REPLICA_SERVING) {
            serving = slot;
        }
    }
    if (serving == metad->leader) {
        return;
    }
    metad->leader = serving;
    if (serving == NULL) {
        LOG_INFO("metad_no_leader", "replicas=%u", metad->slot_count);
        reclaim_leader(metad->reclaim, NULL);
        lifecycle_leader(metad->lifecycle, NULL);
        service_set_leader(metad->service, NULL);
        return;
    }
    LOG_INFO("metad_leader", "replica=%llu directory=%s term=%llu", (unsigned long long)serving->id,
             serving->directory, (unsigned long long)replica_term(serving->replica));
    metad->reads_only = false;
    service_set_leader(metad->service, leader_new(serving));
    reclaim_leader(metad->reclaim, serving->machine);
    lifecycle_leader(metad->lifecycle, serving->machine);
}

static void open_answer(struct metad *metad)
{
    struct metad_open *open = metad->open;

    if (metad->client == NULL && service_has_view(metad->service)) {
        metad->client = service_client(metad->service, metad->env);
    }
    if (open == NULL || (metad->client == NULL && metad->cluster.transport == NULL)) {
        return;
    }
    metad->open = NULL;
    verify_start(metad);
    open->metad = metad;
    open->error = (struct error){.rc = RC_OK};
    open->done(open);
}

static void open_failed(void *arg)
{
    struct metad_open *open = arg;

    open->metad = NULL;
    open->done(open);
}

static void open_expire(struct metad *metad)
{
    struct metad_open *open = metad->open;

    if (open == NULL || metad->env->clock->mono_ns(metad->env) < metad->open_until_ns) {
        return;
    }
    metad->open = NULL;
    (void)error_set(&open->error, RC_NO_QUORUM, "no replica of the metadata could be elected");
    metad_close(metad, open_failed, open);
}

static void look(struct metad *metad)
{
    if (metad->closing) {
        return;
    }
    look_leader(metad);
    manage(metad);
    status_update(metad);
    open_answer(metad);
    open_expire(metad);
    if (metad->cluster.on_look != NULL && metad->open == NULL) {
        metad->cluster.on_look(metad->cluster.owner);
    }
}

static void look_post(struct env_post *post)
{
    struct metad *metad = CONTAINER_OF(post, struct metad, post);

    metad->posted = false;
    look(metad);
}

void metad_look(struct metad *metad)
{
    if (!metad->posted && !metad->closing) {
        metad->posted = true;
        metad->env->post(metad->env, &metad->post);
    }
}

static void look_timer(struct env_timer *timer)
{
    struct metad *metad = CONTAINER_OF(timer, struct metad, timer);
    uint64_t wait_ms = metad->open != NULL ? OPEN_LOOK_MS : METAD_MANAGE_MS;

    look(metad);
    if (!metad->closing) {
        metad->env->clock->timer_start(metad->env, &metad->timer, wait_ms * NS_PER_MS);
    }
}

/* ---- Open ---- */

static struct metad *metad_new(const struct metad_options *options)
{
    struct metad *metad = mem_alloc(sizeof(*metad));
    enum service_clock clock = SERVICE_CLOCK_FREE;

    metad->options = *options;
    metad->env = options->env;
    metad->slot_count = options->cluster != NULL ? 1 : slots_for(options->directory_count);
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        metad->slots[i].metad = metad;
        (void)snprintf(metad->slots[i].directory, METAD_PATH_MAX, "%s", options->directories[i]);
    }
    metad->cache =
        kv_cache_new(options->cache_bytes > 0 ? options->cache_bytes : METAD_CACHE_BYTES);
    if (options->cluster != NULL) {
        metad->cluster = *options->cluster;
        clock = SERVICE_CLOCK_UNKNOWN;
    } else {
        metad->transport = local_transport_new(metad->env);
    }
    metad->service = service_new(metad->env);
    service_set_clock(metad->service, clock);
    metad->reclaim = reclaim_open(metad);
    metad->lifecycle = lifecycle_open(metad);
    reclaim_set_data(metad->reclaim, options->data);
    metad->post.run = look_post;
    metad->timer.fire = look_timer;
    atomic_flag_clear(&metad->status_lock);
    return metad;
}

/* The group is made: replica i + 1 in directory i. */
static enum rc open_first(struct metad *metad, struct error *error)
{
    struct replica_peer peers[METAD_SLOTS_MAX];
    enum rc rc = RC_OK;

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        peers[i] = (struct replica_peer){.replica_id = i + 1, .voter = true};
    }
    for (uint32_t i = 0; rc == RC_OK && i < metad->slot_count; i++) {
        rc = slot_create(&metad->slots[i], i + 1, peers, metad->slot_count, error);
    }
    return rc;
}

/* Whatever can be opened; fails when nothing can. */
static enum rc open_again(struct metad *metad, struct error *error)
{
    struct error first = {.rc = RC_OK};
    uint32_t open = 0;

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct error why = {.rc = RC_OK};
        enum rc rc = slot_open(&metad->slots[i], &why);

        if (rc == RC_OK) {
            open += 1;
            continue;
        }
        LOG_WARN("metad_replica_not_open", "directory=%s error=\"%s\"", metad->slots[i].directory,
                 why.text);
        if (first.rc == RC_OK || first.rc == RC_NOT_FOUND) {
            first = why;
            first.rc = rc;
        }
    }
    if (open == 0) {
        *error = first;
        return error_prefix(error, "no replica of the metadata can be opened");
    }
    return RC_OK;
}

/* The one replica of this process. */
static enum rc open_member(struct metad *metad, struct error *error)
{
    const struct metad_cluster *cluster = &metad->cluster;
    struct slot *slot = &metad->slots[0];
    enum rc rc;

    rc = slot_open(slot, error);
    if (rc == RC_NOT_FOUND && slot->state == SLOT_EMPTY && cluster->create) {
        return slot_create(slot, cluster->replica_id, cluster->bootstrap, cluster->bootstrap_count,
                           error);
    }
    if (rc == RC_OK && slot->id != cluster->replica_id) {
        return error_set(error, RC_STALE, "%s holds replica %llu, not %llu", slot->directory,
                         (unsigned long long)slot->id, (unsigned long long)cluster->replica_id);
    }
    return rc;
}

void metad_open(struct metad_open *open)
{
    struct metad *metad;
    enum rc rc;

    ASSERT(open->options.directory_count >= 1 &&
           open->options.directory_count <= METAD_DIRECTORIES_MAX);
    open->error = (struct error){.rc = RC_OK};
    metad = metad_new(&open->options);
    if (open->options.cluster != NULL) {
        rc = open_member(metad, &open->error);
    } else {
        rc = open->options.first_start ? open_first(metad, &open->error)
                                       : open_again(metad, &open->error);
    }
    if (rc != RC_OK) {
        open->error.rc = rc;
        metad_close(metad, open_failed, open);
        return;
    }
    metad->open = open;
    metad->open_until_ns = metad->env->clock->mono_ns(metad->env) + OPEN_TIMEOUT_MS * NS_PER_MS;
    metad->env->clock->timer_start(metad->env, &metad->timer, OPEN_LOOK_MS * NS_PER_MS);
    metad_look(metad);
}

void metad_set_data(struct metad *metad, struct data_client *data)
{
    reclaim_set_data(metad->reclaim, data);
}

bool metad_serving(const struct metad *metad)
{
    return metad->leader != NULL && metad->client != NULL && !metad->closing;
}

struct meta_client *metad_client(struct metad *metad, struct env *env)
{
    return service_client(metad->service, env);
}

struct meta_client *metad_remote_client(struct metad *metad, struct env *env)
{
    return service_remote_client(metad->service, env);
}

/* ---- Close ---- */

static void close_free(struct metad *metad)
{
    void (*done)(void *arg) = metad->close_done;
    void *arg = metad->close_arg;

    kv_cache_free(metad->cache);
    mem_free(metad);
    done(arg);
}

static void close_transport_done(void *owner)
{
    close_free(owner);
}

static void close_service_done(void *owner)
{
    struct metad *metad = owner;

    shadow_close(metad);
    if (metad->transport != NULL) {
        local_transport_close(metad->transport, close_transport_done, metad);
    } else {
        close_free(metad);
    }
}

static void close_one(struct metad *metad)
{
    metad->close_pending -= 1;
    if (metad->close_pending == 0) {
        service_close(metad->service, close_service_done, metad);
    }
}

static void close_replica_done(void *owner)
{
    struct slot *slot = owner;

    metad_transport_remove(slot);
    machine_close(slot->machine);
    log_store_close(slot->log);
    close_one(slot->metad);
}

static void close_fenced(void *owner)
{
    struct metad *metad = owner;

    metad->close_pending = 1;
    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct slot *slot = &metad->slots[i];

        if (slot->state == SLOT_OPEN) {
            metad->close_pending += 1;
            replica_close(slot->replica, close_replica_done, slot);
        }
    }
    close_one(metad);
}

/* Waits for the operation on slots that is under way. */
static void close_settled(struct env_timer *timer)
{
    struct metad *metad = CONTAINER_OF(timer, struct metad, timer);

    if (metad->busy || metad->verifying > 0 || metad->posted) {
        metad->env->clock->timer_start(metad->env, &metad->timer, OPEN_LOOK_MS * NS_PER_MS);
        return;
    }
    service_fence(metad->service, close_fenced, metad);
}

static void close_lifecycle_done(void *owner)
{
    struct metad *metad = owner;

    metad->env->clock->timer_stop(metad->env, &metad->timer);
    metad->env->clock->timer_stop(metad->env, &metad->verify_timer);
    metad->timer.fire = close_settled;
    metad->env->clock->timer_start(metad->env, &metad->timer, 0);
}

static void close_reclaim_done(void *owner)
{
    struct metad *metad = owner;

    lifecycle_close(metad->lifecycle, close_lifecycle_done, metad);
}

void metad_close(struct metad *metad, void (*done)(void *arg), void *arg)
{
    ASSERT(!metad->closing);
    metad->closing = true;
    metad->close_done = done;
    metad->close_arg = arg;
    metad->leader = NULL;
    reclaim_leader(metad->reclaim, NULL);
    lifecycle_leader(metad->lifecycle, NULL);
    service_refuse(metad->service);
    reclaim_close(metad->reclaim, close_reclaim_done, metad);
}
