/*
 * What metad answers to gateways and datads of other processes: the calls of meta_client.h over
 * common/rpc (common/meta_rpc/FORMAT.md).
 *
 *     rpc request -> head checked -> local meta_client of this process -> reply
 *                                          |  not the leader: RC_NOT_LEADER, and who is
 *
 * One per rpc, on its loop. Answers are as linearizable as the local client's. Bounded: pages and
 * walks run META_SERVICE_PAGES at a time, the others wait for their turn or their deadline.
 */
#ifndef METAD_RPC_META_SERVICE_H
#define METAD_RPC_META_SERVICE_H

#include "common/rpc/rpc.h"
#include "metad/metad.h"

struct meta_service;

struct meta_service_options {
    struct rpc *rpc;
    struct metad *metad;
    void *owner;
    /* Who leads, as far as this process knows; false: unknown. NULL: nobody else ever does. */
    bool (*leader)(void *owner, uint64_t *node_id, char address[ENV_ADDRESS_MAX]);
};

/* On the loop of metad at start-up; serves on the loop of the rpc. */
struct meta_service *meta_service_open(const struct meta_service_options *options);
/* What waits is answered, what runs is waited for; from then on RC_UNSUPPORTED. Before rpc_close()
 * and before metad_close(), on the rpc's loop. */
void meta_service_close(struct meta_service *service, void (*done)(void *owner));

#endif
