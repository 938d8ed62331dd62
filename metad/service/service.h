/*
 * The meta_client of one process, as its replicas see it: who leads, what waits for a leader, which
 * view of root is the newest.
 *
 *     loop of a client                 loop of metad                work pool
 *     ----------------                 -------------                ---------
 *     read, lease holds: the state ----- not cached --------------> the same, blocking
 *           no lease      -- post -->  read index -- post --> the state
 *     write: entry        -- post -->  propose, applied -- post --> reply
 *     view                <-- post --  published  <---------------- scan of root's rows
 *
 * The leader is published as one pointer. A loop that has loaded it may use it until it returns to
 * its loop; service_fence() waits until every loop has done so, and only then a replica may be
 * closed.
 */
#ifndef METAD_SERVICE_SERVICE_H
#define METAD_SERVICE_SERVICE_H

#include "common/client/meta_client.h"
#include "common/env/env.h"
#include "metad/apply/machine.h"
#include "metad/raft/replica.h"

struct service;

/* Who answers: immutable, kept until service_close(). */
struct leader {
    struct replica *replica; /* NULL when reads_only */
    struct machine *machine;
    bool reads_only; /* no majority of the voters is here, and none can be elsewhere: reads without
                        a lease */
};

struct service *service_new(struct env *env);
/* From now on nobody answers: what waits for a leader fails, and what will be asked. */
void service_refuse(struct service *service);
/* After service_refuse(); all calls of others than metad must have completed. */
void service_close(struct service *service, void (*done)(void *owner), void *owner);

/* Takes `leader` (from mem_alloc); NULL: nobody answers. On the loop of metad. */
void service_set_leader(struct service *service, struct leader *leader);
const struct leader *service_leader(const struct service *service);
/* Rows of root changed in some replica. Any thread. */
void service_root_changed(struct service *service);
/* `done` once no loop can hold the leader published before. One at a time. */
void service_fence(struct service *service, void (*done)(void *owner), void *owner);
/* A read met a checksum error since this was asked last. */
bool service_met_damage(struct service *service);
/* Directories are nearly full: commands that need space are refused (RC_FULL), those that free it
 * go on. */
void service_set_full(struct service *service, bool full);
/* What is known of this process's clock; FREE: nobody compares it. What may not be stamped waits.
 */
enum service_clock {
    SERVICE_CLOCK_FREE = 0,
    SERVICE_CLOCK_UNKNOWN,
    SERVICE_CLOCK_GOOD,
    SERVICE_CLOCK_OFF
};
void service_set_clock(struct service *service, enum service_clock clock);
/* The first view was built; clients made before have an empty one. */
bool service_has_view(const struct service *service);

struct meta_client *service_client(struct service *service, struct env *env);

/* ---- For callers in other processes (metad/rpc) ---- */

/* A client that does not wait for a leader of this process: RC_NOT_LEADER, and RC_AMBIGUOUS when
 * one was lost with a write under way, are told at once, because the caller asks another node. */
struct meta_client *service_remote_client(struct service *service, struct env *env);
/* `changed` after the client's view became another one, on its loop; NULL: nobody. */
void service_on_view(struct meta_client *client, void (*changed)(void *owner), void *owner);

/* A write whose message came packed, with the request id of the one who repeats it. */
struct service_write {
    uint16_t command;     /* of the table, and `message` is one of its: checked by the caller */
    struct slice message; /* both are copied by the call */
    struct slice body;
    uint8_t request_id[16];
    uint64_t expires_ns;                       /* mono_ns: nobody waits any more */
    uint64_t deadline_ns;                      /* wall clock: apply refuses it later */
    void (*done)(struct service_write *write); /* on the client's loop, never within the call */
    /* Valid in `done`; as of struct meta_write, and RC_NOT_LEADER. */
    enum rc rc;
    struct slice reply; /* packed Kist__Reply */
};
void service_write(struct meta_client *meta, struct service_write *write);

#endif
