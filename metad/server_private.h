/* What the files of metad's server share. Everything on the loop of metad. */
#ifndef METAD_SERVER_PRIVATE_H
#define METAD_SERVER_PRIVATE_H

#include <stdatomic.h>

#include "common/task/task.h"
#include "metad/apply/machine.h"
#include "metad/log/log_store.h"
#include "metad/metad.h"
#include "metad/raft/rpc_transport.h"
#include "metad/raft/transport.h"
#include "metad/service/service.h"

enum {
    METAD_GROUP = 1,          /* the one group of this issue: root and the first range */
    METAD_SLOTS_MAX = 5,      /* replicas of one process */
    METAD_BOOTSTRAP_IDS = 64, /* ids 1 .. 64 are of first members; minted ones follow */
    METAD_PATH_MAX = 900,
    METAD_MANAGE_MS = 200
};

enum slot_state {
    SLOT_MISSING, /* the directory is not there */
    SLOT_EMPTY,   /* it is, without a replica: joins as a new one */
    SLOT_OPEN,
    SLOT_STOPPED, /* its replica failed; the directory is left alone until the next start */
    SLOT_BUSY     /* being closed, wiped, recovered */
};

/* One directory that holds, or may hold, a replica. */
struct slot {
    struct metad *metad;
    char directory[METAD_PATH_MAX];
    enum slot_state state;
    uint64_t id; /* of the replica, 0: none */
    struct log_store *log;
    struct kv *log_kv; /* the log's: for verification only */
    struct machine *machine;
    struct replica *replica;
    struct error error; /* why it stopped */
    /* The operation under way. */
    void (*stopped)(struct slot *slot);
    struct env_work work;
    struct machine *closing;
    bool verifying;
    bool corrupt;  /* verification found it so */
    bool verified; /* and since it was opened, found it whole */
};

struct reclaim;
struct lifecycle;
struct shadow;
struct recover;
struct join;

struct metad {
    struct metad_options options;
    struct env *env;
    struct service *service;
    struct meta_client *client;        /* for its own writes */
    struct local_transport *transport; /* NULL with `cluster` */
    struct metad_cluster cluster;      /* transport NULL: all in this process */
    bool told_stopped;
    struct kv_cache *cache;
    struct slot slots[METAD_SLOTS_MAX];
    uint32_t slot_count;
    struct slot *leader; /* serving; published */
    bool reads_only;
    bool busy; /* one operation on slots at a time */
    struct shadow *shadow;
    uint64_t shadow_after_ns; /* not before: the last attempt failed */
    struct recover *recover;
    struct join *join;
    uint64_t join_after_ns; /* likewise */
    struct membership_change change;
    bool changing;
    struct reclaim *reclaim;
    struct lifecycle *lifecycle;
    struct env_timer timer;
    struct env_timer verify_timer;
    uint32_t verifying;      /* jobs under way */
    uint64_t space_after_ns; /* looked at again */
    bool full;
    struct env_post post;
    bool posted;
    struct metad_open *open; /* until it is answered */
    uint64_t open_until_ns;
    bool closing;
    void (*close_done)(void *arg);
    void *close_arg;
    uint32_t close_pending;
    atomic_flag status_lock;
    struct metad_status status;
};

/* ---- slot.c ---- */

/* How many of the first directories hold replicas. */
uint32_t slots_for(uint32_t directory_count);
/* Opens what is there. RC_NOT_FOUND: nothing (SLOT_EMPTY or SLOT_MISSING is set). Blocking. */
enum rc slot_open(struct slot *slot, struct error *error);
/* A new replica in an empty directory; `peers` only for the first members of the group. Blocking.
 */
enum rc slot_create(struct slot *slot, uint64_t id, const struct replica_peer *peers,
                    uint32_t peer_count, struct error *error);
/* Closes replica, state and log; then calls slot->stopped with the state SLOT_BUSY. */
void slot_stop(struct slot *slot, void (*stopped)(struct slot *slot));
/* Removes what the replica kept. Closed. Blocking. */
void slot_wipe(struct slot *slot);
void slot_path(const struct slot *slot, const char *name, char out[METAD_PATH_MAX]);

/* ---- server.c ---- */

struct raft_transport *metad_transport(struct metad *metad);
void metad_transport_add(struct slot *slot);
void metad_transport_remove(struct slot *slot);

/* Looks again at roles, soon. */
void metad_look(struct metad *metad);
/* Members of the group as any replica here knows them; returns their number. */
uint32_t metad_members(const struct metad *metad, struct replica_peer *out, uint32_t max);
struct slot *metad_slot_of(struct metad *metad, uint64_t id);
/* Voters of the group, and how many of them are open here. */
void metad_voters(struct metad *metad, uint32_t *voters, uint32_t *here);

/* ---- manage.c: joins, promotions, removals, refills ---- */

void manage(struct metad *metad);
void manage_close(struct metad *metad);

/* ---- recover.c: the survivor of two goes on alone ---- */

void recover_start(struct metad *metad, struct slot *slot);

/* ---- shadow.c: reads without a majority ---- */

void shadow_start(struct metad *metad, struct slot *slot);
void shadow_close(struct metad *metad); /* blocking; nobody reads from it any more */

/* ---- verify.c ---- */

void verify_start(struct metad *metad);
/* Now, because a read met damage. Harmless when it is under way. */
void verify_slot(struct metad *metad, struct slot *slot);

/* ---- space.c ---- */

/* Tells the service whether every replica's directory has room. */
void space_look(struct metad *metad);

/* ---- reclaim.c ---- */

struct reclaim *reclaim_open(struct metad *metad);
void reclaim_set_data(struct reclaim *reclaim, struct data_client *data);
/* The leader is here, or no longer. */
void reclaim_leader(struct reclaim *reclaim, struct machine *machine);
void reclaim_close(struct reclaim *reclaim, void (*done)(void *owner), void *owner);

/* ---- lifecycle.c: what is due, jobs ---- */

struct lifecycle *lifecycle_open(struct metad *metad);
/* The leader is here, or no longer. */
void lifecycle_leader(struct lifecycle *lifecycle, struct machine *machine);
void lifecycle_close(struct lifecycle *lifecycle, void (*done)(void *owner), void *owner);

#endif
