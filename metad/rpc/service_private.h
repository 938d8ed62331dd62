/* What the files of metad/rpc share. Everything on the loop of the rpc. */
#ifndef METAD_RPC_SERVICE_PRIVATE_H
#define METAD_RPC_SERVICE_PRIVATE_H

#include "common/base/arena.h"
#include "common/base/buffer.h"
#include "common/meta_rpc/wire.h"
#include "common/task/task.h"
#include "metad/rpc/meta_service.h"
#include "metad/service/service.h"
#include "proto/meta.pb-c.h"

enum {
    META_SERVICE_PAGES = 64,     /* at a time: each may hold some 10 MiB */
    META_SERVICE_WAITING = 4096, /* for a turn */
    META_SERVICE_WATCHERS = 65536,
    META_SERVICE_TICK_MS = 20, /* how late watchers hear of a change in the feed */
    META_SERVICE_METHODS = RPC_META_VIEW - RPC_META_GET + 1
};

struct read_job;

/* One method that reads: how its head becomes a call, and the call's answer a reply. */
struct read_kind {
    enum rpc_method method;
    bool paged; /* takes a turn */
    const ProtobufCMessageDescriptor *head;
    /* RC_INVALID: refused. Names borrow the request. */
    enum rc (*parse)(struct read_job *job, const void *head);
    enum step_result (*run)(struct read_job *job);
    /* Fills job->page and job->out; RC_LIMIT: does not fit a frame. */
    enum rc (*answer)(struct read_job *job);
};

/* The rows of META_GET .. META_JOBS, in order of their numbers. */
extern const struct read_kind read_kinds[];
const struct read_kind *read_kind_find(enum rpc_method method); /* NULL: it is no read */

union read_call {
    struct meta_get get;
    struct meta_list list;
    struct meta_list_versions versions;
    struct meta_changes changes;
    struct meta_pieces pieces;
    struct meta_part_range part_range;
    struct meta_list_parts parts;
    struct meta_list_uploads uploads;
    struct meta_scan scan;
    struct meta_repairs repairs;
    struct meta_jobs jobs;
};

struct read_job {
    struct list link; /* waits for its turn */
    struct meta_service *service;
    struct rpc_request *request;
    const struct read_kind *kind;
    struct task task;
    struct arena arena;
    union read_call call;
    bool lent; /* call.get holds a body */
    struct buffer out;
    Kist__MetaPage page;
    Kist__MetaGetReply got;
    struct rpc_reply reply;
};

/* A view as bytes, kept while replies borrow it and while it is the newest. */
struct packed_view {
    uint32_t references;
    uint64_t version;
    struct buffer bytes;
};

struct meta_service {
    struct meta_service_options options;
    struct env *env;
    struct meta_client *meta;
    struct rpc_service services[META_SERVICE_METHODS];
    uint32_t open_count; /* requests not yet answered, replies not yet sent */
    /* Reads. */
    struct list waiting;
    uint32_t waiting_count;
    uint32_t page_count; /* that run */
    /* Views. */
    struct packed_view *packed; /* of the newest; NULL: not packed yet */
    struct packed_view *before; /* the one before: somebody may be in the middle of it */
    struct list watchers;
    uint32_t watcher_count;
    struct env_timer tick;
    bool ticking;
    uint64_t told_stamp; /* change stamp at the last tick */
    /* Close. */
    bool closing;
    void (*close_done)(void *owner);
    struct env_post close_post;
    bool close_posted;
};

/* meta_service.c: nothing but a code, with text and (RC_NOT_LEADER) who leads. */
void service_refuse_request(struct meta_service *service, struct rpc_request *request, enum rc rc,
                            const char *text);
void service_opened(struct meta_service *service);
void service_done(struct meta_service *service); /* one less is open */
bool service_late(struct meta_service *service, const struct rpc_request *request);

/* service_read.c */
void service_read(struct meta_service *service, const struct read_kind *kind,
                  struct rpc_request *request);
void service_read_close(struct meta_service *service);
void service_read_tick(struct meta_service *service);

/* service_write.c */
void service_write_request(struct meta_service *service, struct rpc_request *request);

/* service_view.c */
void service_view(struct meta_service *service, struct rpc_request *request);
void service_view_changed(void *owner);
void service_view_close(struct meta_service *service);
void service_view_tick(struct meta_service *service);

#endif
