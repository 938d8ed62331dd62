/*
 * The data client of one loop, over the disks of this process: common/client/data_client.h without
 * a wire.
 *
 *     begin, seal, abort, remove, small put -> the disk's queue (store/commit.c)     write_shard.c
 *     append                                -> a pool thread writes                  write_shard.c
 *     read                                  -> index on the loop, asynchronous reads read_shard.c
 *
 * One per loop; freed by the owner when data_local_idle().
 */
#ifndef DATAD_SERVICE_DATA_LOCAL_H
#define DATAD_SERVICE_DATA_LOCAL_H

#include "datad/store/store.h"

enum { DATA_LOCAL_DISKS_MAX = 64 };

struct data_local {
    struct data_client base;
    struct env *env;
    struct store *const *stores; /* borrowed; the set never changes */
    uint32_t store_count;
    struct list writers;     /* begun, not finished: struct local_writer */
    _Atomic uint32_t active; /* calls under way */
    _Atomic bool closing;    /* new calls are answered RC_CLOSED */
    _Atomic bool used;       /* a call was ever made */
};

struct data_local *data_local_new(struct env *env, struct store *const *stores,
                                  uint32_t store_count);
void data_local_free(struct data_local *local);

/* Any thread: from now on calls are answered RC_CLOSED. True: none was ever made, so that the loop
 * of the client (which may never have turned) need not be asked to data_local_close(). */
bool data_local_refuse(struct data_local *local);
/* On the loop of the client: begins to abort what was begun and is not under way. */
void data_local_close(struct data_local *local);
/* Any thread: nothing is under way and no writer is open. After data_local_close(). */
bool data_local_idle(const struct data_local *local);

/* ---- Between the files of this folder ---- */

struct store *data_local_store(const struct data_local *local, uint64_t disk);
void data_local_begin(struct data_local *local); /* a call is under way */
void data_local_end(struct data_local *local);

void local_write_begin(struct data_client *data, struct shard_writer *call);
void local_write_append(struct data_client *data, struct shard_writer *call, struct slice bytes);
void local_write_seal(struct data_client *data, struct shard_writer *call);
void local_write_abort(struct data_client *data, struct shard_writer *call);
void local_write_put(struct data_client *data, struct shard_writer *call, struct slice bytes);
void local_writers_drop(struct data_local *local);
void local_read(struct data_client *data, struct shard_read *call);

/* Tells the disk's queue that the shard at header offset `at` failed a check. */
void local_suspect(struct data_local *local, struct store *store, const struct shard_id *shard,
                   uint64_t at);
/* Tells it that the index could not be read. */
void local_index_failed(struct data_local *local, struct store *store, enum rc rc);

#endif
