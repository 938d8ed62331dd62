/* What the files of the remote client share. Everything on the loop of its rpc. */
#ifndef COMMON_META_RPC_REMOTE_PRIVATE_H
#define COMMON_META_RPC_REMOTE_PRIVATE_H

#include "common/base/buffer.h"
#include "common/meta_rpc/meta_remote.h"
#include "common/meta_rpc/wire.h"
#include "proto/meta.pb-c.h"

enum {
    REMOTE_READ_MS = 10000, /* reads and refreshes look for a leader so long */
    REMOTE_WRITE_MS = 30000,
    REMOTE_ATTEMPT_MS = 1000, /* the first attempt; doubled each time it was too short */
    REMOTE_PAGE_MS = 4000,    /* of a page, which may come from disks */
    REMOTE_PAUSE_MIN_MS = 20, /* between rounds over all nodes, doubled */
    REMOTE_PAUSE_MAX_MS = 400,
    REMOTE_HOPS_MAX = 4,    /* redirects in a row without a pause */
    REMOTE_SHUN_MS = 100,   /* a node that was not reached: nobody is sent there */
    REMOTE_WATCH_MS = 1000, /* one long poll */
    REMOTE_READY_MS = 3000  /* heard of the leader within this: ready */
};

static const uint64_t REMOTE_NS_PER_MS = 1000000ULL;

/* One call, over as many attempts as it takes. Embedded; zeroed before the first start. */
struct remote_op {
    struct list link; /* all that are under way */
    struct meta_remote *remote;
    /* Before each attempt; `left_ms` until the deadline. May be NULL. */
    void (*prepare)(struct remote_op *op, uint32_t left_ms);
    /* An answer RC_OK, borrowed. RC_CORRUPT: not what it should be. */
    enum rc (*decode)(struct remote_op *op, struct slice head, struct slice body);
    /* The end, once. op->text says more when it is not empty. May free it, or start it again. */
    void (*finish)(struct remote_op *op, enum rc rc);
    bool write;           /* an attempt of unknown outcome counts */
    uint32_t attempt_ms;  /* set by the owner: of one attempt */
    uint64_t deadline_ns; /* set by the owner */
    struct rpc_call call; /* method, purpose, head, message, body: set by the owner */
    char text[ERROR_TEXT_MAX];
    /* Private to remote_op.c. */
    struct env_timer timer;
    uint32_t node;     /* asked */
    uint32_t attempts; /* of all */
    uint32_t tried;    /* nodes since the last pause */
    uint32_t pauses;
    uint32_t hops;
    uint32_t refusals; /* answers "no quorum" in a row */
    bool ambiguous;
    bool pausing;
};

struct remote_node {
    struct rpc_peer *peer;
    uint64_t node_id; /* as somebody named it; 0: not known */
    uint64_t shunned_until_ns;
    char address[ENV_ADDRESS_MAX];
};

/* A view on its way, in one or more parts. */
struct remote_round {
    struct remote_op op;
    Kist__MetaView head;
    struct buffer bytes;
    uint64_t version;
    uint64_t total;
    bool news; /* a view comes */
    bool more; /* parts are missing */
    bool running;
};

struct meta_remote {
    struct meta_client base;
    struct rpc *rpc;
    struct env *env;
    void *owner;
    void (*on_open)(struct meta_remote *remote, void *owner);
    struct remote_node nodes[META_REMOTE_NODES_MAX];
    uint32_t node_count;
    uint32_t next;           /* node to ask when nobody is known to lead */
    int leader;              /* node; -1: unknown */
    bool leader_sure;        /* it answered as such; else it was only named */
    uint64_t leader_seen_ns; /* answered as leader */
    struct list ops;
    struct meta_remote_stats stats;
    /* Views. */
    struct view *view;
    uint64_t change_stamp;
    uint64_t leader_wall_ns; /* its clock, at mono time leader_wall_at_ns; 0: not known */
    uint64_t leader_wall_at_ns;
    struct remote_round watch;
    struct env_timer watch_timer;
    struct remote_round fresh;
    struct list refreshing; /* struct remote_refresh: of the round under way */
    struct list refreshes;  /* for the next one */
    /* Close. */
    bool closing;
    uint32_t closing_peers;
    void (*close_done)(void *owner);
};

static inline struct meta_remote *remote_of(struct meta_client *meta)
{
    return CONTAINER_OF(meta, struct meta_remote, base);
}

static inline uint64_t remote_now(const struct meta_remote *remote)
{
    return remote->env->clock->mono_ns(remote->env);
}

/* remote_op.c */
void remote_op_start(struct meta_remote *remote, struct remote_op *op);
void remote_op_cancel_all(struct meta_remote *remote);

/* meta_remote.c: the node with this id or address, made when it is new; -1: no room. */
int remote_node_named(struct meta_remote *remote, uint64_t node_id, const char *address);
void remote_close_go_on(struct meta_remote *remote);

/* remote_read.c, remote_write.c, remote_view.c */
void remote_read_calls(struct meta_client *base);
enum step_result remote_write(struct meta_client *meta, struct meta_write *call, struct task *task);
enum step_result remote_refresh(struct meta_client *meta, struct meta_refresh *call,
                                struct task *task);
struct view *remote_view(struct meta_client *meta);
uint64_t remote_change_stamp(struct meta_client *meta);
bool remote_ready(struct meta_client *meta);
void remote_view_open(struct meta_remote *remote);
void remote_view_close(struct meta_remote *remote);
void remote_view_free(struct meta_remote *remote);

#endif
