/*
 * Datads in memory behind common/client/data_client.h: keeps shards, answers later (on the env's
 * timers), fails as told, and asserts what data_client.h demands of its caller.
 */
#ifndef TESTS_LIB_FAKE_DATA_H
#define TESTS_LIB_FAKE_DATA_H

#include "common/base/buffer.h"
#include "common/base/list.h"
#include "common/client/data_client.h"
#include "common/env/env.h"

enum { FAKE_DISKS_MAX = 32 };

struct fake_disk {
    bool unhealthy;         /* what healthy() says */
    enum rc write_rc;       /* of begin, append, seal, put; RC_OK: works */
    uint32_t writes_before; /* that many of these calls still work */
    enum rc read_rc;        /* of reads; RC_OK: works */
    uint64_t delay_ns;      /* of every answer, besides a little */
    uint32_t reads;         /* asked so far */
    uint64_t read_bytes;
    uint32_t writes;
};

struct fake_shard {
    struct list link;
    uint64_t disk;
    struct shard_id id;
    struct shard_origin origin;
    char key[1024]; /* origin.home_key's bytes */
    uint64_t reserved_bytes;
    struct buffer bytes;
    bool sealed;
    bool corrupt; /* reads say RC_CORRUPT */
};

struct fake_data {
    struct data_client base;
    struct env *env;
    struct fake_disk disks[FAKE_DISKS_MAX]; /* by disk id */
    struct list shards;
    uint32_t shard_count;
    uint32_t pending; /* calls not answered yet */
    uint32_t aborted;
    uint32_t removed;
};

void fake_data_init(struct fake_data *fake, struct env *env);
void fake_data_deinit(struct fake_data *fake);
/* NULL when there is none. */
struct fake_shard *fake_data_find(struct fake_data *fake, uint64_t disk, const struct shard_id *id);

#endif
