/*
 * metad in other processes as a struct meta_client (common/client/meta_client.h): calls over
 * common/rpc, to the node that leads.
 *
 *     call -> the leader, else one after the other until one leads or says who does
 *               |  moved, gone, silent: again, until the deadline
 *               '- a write under the same request id: never twice, and RC_AMBIGUOUS only when the
 *                  deadline passed with the outcome unknown
 *     view <- long poll at the leader, which also tells that it leads (ready)
 *
 * One per loop, on the loop of its rpc. No locks.
 */
#ifndef COMMON_META_RPC_META_REMOTE_H
#define COMMON_META_RPC_META_REMOTE_H

#include "common/client/meta_client.h"
#include "common/rpc/rpc.h"

enum { META_REMOTE_NODES_MAX = 16 }; /* metads that are known at a time */

struct meta_remote;

struct meta_remote_options {
    struct rpc *rpc;              /* outlives it */
    const char *const *addresses; /* of some metads, copied: the others are heard of */
    uint32_t address_count;       /* 1 .. META_REMOTE_NODES_MAX */
    void *owner;
    /* The first view is there: the client may be used. Not called when it is closed before. */
    void (*on_open)(struct meta_remote *remote, void *owner);
};

struct meta_remote *meta_remote_open(const struct meta_remote_options *options);
/* Its view() is not NULL from on_open on; every other call may be made at once. */
struct meta_client *meta_remote_client(struct meta_remote *remote);
/* Calls under way end (RC_CANCELLED, writes that may have been taken RC_AMBIGUOUS) before `done`.
 */
void meta_remote_close(struct meta_remote *remote, void (*done)(void *owner));

struct meta_remote_stats {
    uint64_t attempts;  /* calls over the wire */
    uint64_t repeats;   /* of them not the first of their call */
    uint64_t redirects; /* answers that named another leader */
    uint64_t views;     /* received */
};
void meta_remote_stats(const struct meta_remote *remote, struct meta_remote_stats *out);

#endif
