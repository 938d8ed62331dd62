/* What every part of the gateway on one loop shares. Set up by gateway/server.c, one per loop. */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/client/data_client.h"
#include "common/client/meta_client.h"
#include "common/env/env.h"

struct sigv4_cache;
struct policy_cache;

/* Stripe and read buffers of the whole process: one, shared by its loops. */
struct stream_pool {
    uint64_t budget_bytes;
    _Atomic uint64_t used_bytes;
    _Atomic uint32_t waiting_count; /* requests in line, of all loops */
};

/* boto3 makes version 2 URLs and forms by default for us-east-1: taken unless told otherwise. */
enum sigv2_use { SIGV2_OFF = 0, SIGV2_URLS = 1, SIGV2_ON = 2 };

/* Settings, the same for all loops; lives as long as the gateways. */
struct gateway_config {
    struct slice region;
    struct slice domain; /* virtual-host style: bucket.domain; several, with commas; empty: none */
    struct slice website_domain; /* likewise, for websites; "*": every host named as a website */
    enum sigv2_use sigv2;        /* where Signature Version 2 is accepted */
    uint32_t default_ownership;  /* enum ownership_rule, of buckets made without a word on it */
    uint64_t copy_bytes_max;     /* LIMIT_COPY_BYTES unless lifted */
    uint64_t inline_bytes_max;   /* LIMIT_INLINE_BYTES */
    uint64_t replica_bytes_max;  /* LIMIT_REPLICA_BYTES */
    uint64_t extent_bytes_max;   /* LIMIT_EXTENT_BYTES */
    uint64_t lifecycle_day_ms;   /* goes into the rules that are put; 0: a real day */
    uint64_t keep_alive_ms;      /* of slow replies; 0: 10 s */
    uint64_t hedge_ms;           /* wait for a shard before a parity read */
    uint32_t incarnation;        /* minted by root at this start: part of every extent id */
    uint32_t cluster_epoch;
    const struct slice *sinks; /* where notifications may go: "NAME:webhook", "NAME:kafka" */
    uint32_t sink_count;
    struct stream_pool *stream_pool; /* NULL: every loop has a budget of its own */
};

/* Stripe and read buffers of all requests of one loop. A request that finds none waits in line; a
 * line that is too long is refused (SlowDown). */
struct stream_memory {
    uint64_t budget_bytes;
    uint64_t used_bytes;
    struct list waiting;
    uint32_t waiting_count;
    struct list holders;    /* memory_hold.h */
    struct env_timer sweep; /* while there are any */
};

struct gateway {
    struct env *env;
    struct meta_client *meta;
    struct data_client *data;
    const struct gateway_config *config;
    struct sigv4_cache *signing_keys;
    struct policy_cache *policies; /* made by s3_service_init() */
    struct stream_memory memory;
    uint32_t loop;       /* number of this loop: part of every id */
    uint64_t id_counter; /* of extent ids made here */
    uint64_t active_requests;
    bool draining; /* the server closes: what only waits ends */
    void *metrics;
};

/* A new unique id for an extent, layout, upload or copy. */
struct extent_id gateway_new_id(struct gateway *gateway);

#endif
