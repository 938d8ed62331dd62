/*
 * `kist admin segment dump|verify`: reads segment files of a directory that no process serves (or
 * one that is served: segments only grow), without index or cluster. Blocking.
 */
#ifndef DATAD_STORE_INSPECT_H
#define DATAD_STORE_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env/env.h"

struct inspect_result {
    uint64_t segments;
    uint64_t shards;
    uint64_t shard_bytes;
    uint64_t deletes;
    uint64_t unfinished;   /* headers without a footer: open at a crash, or aborted */
    uint64_t bad_shards;   /* verify: at least one block failed its checksum */
    uint64_t read_errors;  /* blocks that could not be read */
    uint64_t bad_segments; /* no valid header */
};

struct inspect {
    struct env *env;
    bool verify; /* read every payload and check it */
    /* One line of text for each header, shard, delete and bad shard; NULL: none. With `verify` and
     * no dump only what is bad is told. */
    void (*line)(struct inspect *inspect, const char *text);
    bool dump;
    struct inspect_result result; /* sums over all calls */
};

/* `path`: one segment file. RC_CORRUPT: no valid segment header. */
enum rc inspect_file(struct inspect *inspect, const char *path, struct error *error);
/* `path`: a data directory (DIR) or DIR/data/segments: all segment files in it, in order. Goes on
 * after bad ones; RC_CORRUPT at the end when anything was bad. */
enum rc inspect_directory(struct inspect *inspect, const char *path, struct error *error);

#endif
