/*
 * Reads every table of the logs and states, some time after the start and then daily, so that
 * damage that no request has met is found while the peers are whole. A damaged replica is refilled
 * (manage.c); where there is no peer it stays, and is reported.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "metad/server_private.h"

enum { VERIFY_AFTER_MS = 30 * 1000, VERIFY_EVERY_MS = 24 * 3600 * 1000 };

static const uint64_t NS_PER_MS = 1000000ULL;

struct verify {
    struct metad *metad;
    struct slot *slot;
    struct store *store;
    struct kv *log;
    struct env_work work;
    struct error error;
    enum rc rc;
};

static void verify_run(struct env_work *work)
{
    struct verify *verify = CONTAINER_OF(work, struct verify, work);
    struct kv *kv = verify->store->kv;

    verify->rc = kv->ops->verify(kv, &verify->error);
    if (verify->rc == RC_OK) {
        verify->rc = verify->log->ops->verify(verify->log, &verify->error);
    }
}

static void verify_done(struct env_work *work)
{
    struct verify *verify = CONTAINER_OF(work, struct verify, work);
    struct slot *slot = verify->slot;

    store_unref(verify->store);
    slot->verifying = false;
    verify->metad->verifying -= 1;
    slot->verified = verify->rc == RC_OK;
    if (verify->rc == RC_CORRUPT) {
        LOG_ERROR("metad_damaged", "directory=%s replica=%llu error=\"%s\"", slot->directory,
                  (unsigned long long)slot->id, verify->error.text);
        slot->error = verify->error;
        slot->error.rc = RC_CORRUPT;
        slot->corrupt = true;
    }
    metad_look(verify->metad);
    mem_free(verify);
}

void verify_slot(struct metad *metad, struct slot *slot)
{
    struct verify *verify;

    if (slot->verifying || slot->state != SLOT_OPEN) {
        return;
    }
    verify = mem_alloc(sizeof(*verify));
    verify->metad = metad;
    verify->slot = slot;
    verify->store = machine_store(slot->machine);
    verify->log = slot->log_kv;
    verify->work.run = verify_run;
    verify->work.done = verify_done;
    slot->verifying = true;
    metad->verifying += 1;
    metad->env->worker->submit(metad->env, NULL, &verify->work);
}

static void verify_timer(struct env_timer *timer)
{
    struct metad *metad = CONTAINER_OF(timer, struct metad, verify_timer);

    for (uint32_t i = 0; i < metad->slot_count; i++) {
        struct slot *slot = &metad->slots[i];

        if (slot->state == SLOT_OPEN && replica_state(slot->replica) != REPLICA_STOPPED) {
            verify_slot(metad, slot);
        }
    }
    metad->env->clock->timer_start(metad->env, timer, VERIFY_EVERY_MS * NS_PER_MS);
}

void verify_start(struct metad *metad)
{
    uint64_t after_ms = metad->options.verify_after_ms;

    metad->verify_timer.fire = verify_timer;
    metad->env->clock->timer_start(metad->env, &metad->verify_timer,
                                   (after_ms != 0 ? after_ms : (uint64_t)VERIFY_AFTER_MS) *
                                       NS_PER_MS);
}
