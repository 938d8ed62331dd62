/*
 * The datad world: real disks' stores (datad/store, datad/service) on simulated files.
 * datad_client.c writes, reads and deletes shards and knows what it was told; datad_disk.c opens,
 * crashes and checks the disks; world_datad.c runs it.
 */
#ifndef TESTS_SIM_DATAD_WORLD_H
#define TESTS_SIM_DATAD_WORLD_H

#include "common/client/data_client.h"
#include "datad/service/data_local.h"
#include "datad/store/compact.h"
#include "tests/lib/sim_kv_paths.h"
#include "tests/sim/world.h"

enum { DATAD_DISKS = 2, DATAD_SHARDS_MAX = 4000, DATAD_SHARD_BYTES_MAX = 400 * 1024 };

/* What is known of a shard. */
enum datad_fate {
    SHARD_NEVER,    /* must not be seen: begun, not sealed; or refused */
    SHARD_MAYBE,    /* a seal was under way or failed: whole, or not there */
    SHARD_SEALED,   /* was answered: must be there, whole */
    SHARD_DELETING, /* a delete was under way or failed: whole, or not there */
    SHARD_DELETED   /* must not be there */
};

struct datad_shard {
    struct shard_id id;
    unsigned disk;
    uint64_t size;
    uint64_t seed; /* of its bytes */
    enum datad_fate fate;
    bool busy;    /* a writer or delete is under way */
    bool unsure;  /* its seal or delete was answered with an error: it may come and go */
    bool damaged; /* bits of it were found flipped: it may fail, never lie */
};

struct datad_disk {
    char path[16];
    uint64_t id;
    struct store *store;
    struct compact *compact;
    uint64_t flips;   /* bits flipped in its files */
    uint64_t damaged; /* shards that fail for it */
    bool lies; /* syncs failed since the last power cut: the cache shows what the platter lacks */
};

struct datad_world {
    struct sim *sim;
    struct sim_node *host;
    struct env *env; /* NULL: down */
    struct datad_disk disks[DATAD_DISKS];
    struct store *stores[DATAD_DISKS];
    struct data_local *local;
    struct datad_shard *shards;
    unsigned shard_count;
    uint64_t next_number;
    uint64_t starts;
    unsigned writers; /* under way */
    uint64_t sealed;
    struct sim_call client;
    struct sim_call tick; /* of compaction */
};

/* datad_client.c */
void client_bytes(const struct datad_shard *shard, uint64_t at, char *to, size_t len);
void datad_client_start(struct datad_world *world);
void datad_client_stop(struct datad_world *world);
/* What was under way when the program died is now uncertain. */
void datad_client_crashed(struct datad_world *world);

/* datad_disk.c */
void disks_open(struct datad_world *world);
void disks_crash(struct datad_world *world, enum sim_crash how);
void disks_close(struct datad_world *world); /* orderly, waits */
/* Reads every shard that may be there and settles what was uncertain. */
void disks_verify(struct datad_world *world);
/* The index as it is, and as made again from the segments alone, are the same. Down before and
 * after. */
void disks_check_rebuild(struct datad_world *world);

#endif
