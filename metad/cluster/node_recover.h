/*
 * A majority of the voters is lost for good: the survivor goes on alone, as a new epoch of the
 * cluster. Offline, on the directory of one that is stopped; what it does not hold is lost, so the
 * one with the newest log is to be chosen by who asks.
 *
 *     log loaded -> a configuration {survivor} behind it, in a new term -> identity: epoch + 1
 *
 * The others are of the old epoch and are refused from then on: emptied, they join again.
 */
#ifndef METAD_CLUSTER_NODE_RECOVER_H
#define METAD_CLUSTER_NODE_RECOVER_H

#include "common/base/error.h"
#include "common/env/env.h"

struct node_recover {
    struct env *env;
    const char *directory;                      /* locked by the caller */
    bool write;                                 /* false: only looks */
    void (*done)(struct node_recover *recover); /* from the loop; never within the call */
    /* Valid in `done`. */
    struct error error;
    uint64_t node_id;
    uint64_t replica_id;
    uint64_t term;
    uint64_t last_index;
    uint64_t cluster_epoch;
};

void node_recover(struct node_recover *recover);

#endif
