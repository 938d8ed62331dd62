/* What the files of metad/service share. Everything on the loop of metad, except where said. */
#ifndef METAD_SERVICE_SERVICE_PRIVATE_H
#define METAD_SERVICE_SERVICE_PRIVATE_H

#include <stdatomic.h>

#include "metad/apply/entry.h"
#include "metad/service/read.h"
#include "metad/service/service.h"

enum {
    SERVICE_TICK_MS = 100,
    SERVICE_WAIT_MS = 10000, /* reads and refreshes wait this long for a leader */
    SERVICE_WRITE_MS = 30000,
    SERVICE_WAITING_MAX = 20000 /* of each kind: beyond, RC_BUSY */
};

static const uint64_t SERVICE_NS_PER_MS = 1000000ULL;

/* On the loop of its env. */
struct local_client {
    struct meta_client base;
    struct service *service;
    struct env *env;
    struct view *view;
    bool remote; /* does not wait for a leader */
    void (*on_view)(void *owner);
    void *on_view_owner;
    struct local_client *next;
    /* A newer view on its way. Any thread. */
    struct view *_Atomic next_view;
    _Atomic bool view_posted;
    struct env_post view_post;
    struct env_post fence_post;
};

/* A read that has left the fast path, or a refresh. */
struct read_request {
    struct env_post post; /* to metad's loop and back */
    struct list link;
    struct local_client *client;
    struct task *task;
    uint64_t expires_ns; /* monotonic */
    struct replica_read index;
    read_cb read; /* NULL: a refresh */
    void *call;
    struct leader *asked; /* whose read index is awaited */
    struct env_work work;
    struct read_context context;
    struct view *view; /* of a refresh that succeeded */
    enum rc rc;
};

struct write_request {
    struct env_post post;
    struct list link;
    struct local_client *client;
    struct meta_write *call; /* one of both, or none: the caller has its answer already */
    struct service_write *raw;
    uint64_t expires_ns;
    struct proposal proposal;
    struct slice part;
    struct entry entry; /* message and body lie in `bytes` */
    bool proposed;      /* under way */
    bool ambiguous;     /* an attempt may yet be applied */
    enum rc rc;
    struct machine_result *result; /* owned */
    size_t len;
    char bytes[];
};

struct service {
    struct env *env;
    struct leader *_Atomic leader;
    struct leader **leaders; /* all that were published */
    size_t leader_count;
    struct local_client *clients;
    struct list reads;  /* wait for a leader */
    struct list writes; /* wait for a leader */
    struct list flying; /* proposed */
    bool full;
    enum service_clock clock;
    uint64_t clock_mono_ns; /* when that was said, by both clocks */
    uint64_t clock_wall_ns;
    _Atomic bool damage; /* any thread sets it */
    uint32_t read_count;
    uint32_t write_count; /* in both lists */
    struct env_timer tick;
    bool ticking;
    /* Views. */
    struct view *view;
    struct list refreshes; /* asked; wait for the round under way to end */
    struct list refreshing;
    struct replica_read refresh_index;
    bool refresh_asking;
    bool building;
    struct env_work build;
    struct store *build_store;
    uint64_t build_version;
    struct view *built;
    struct error build_error;
    struct env_post root_post;
    _Atomic bool root_posted;
    /* Fence. */
    uint32_t fence_pending;
    void (*fence_done)(void *owner);
    void *fence_owner;
    /* Close. */
    bool closing;
    void (*close_done)(void *owner);
    void *close_owner;
};

static inline struct leader *leader_load(const struct service *service)
{
    return atomic_load_explicit(&service->leader, memory_order_acquire);
}

void service_tick_start(struct service *service);
void service_close_go_on(struct service *service);

/* clock.c */
bool service_clock_allows(const struct service *service, const struct leader *leader,
                          uint64_t wall_ns);

/* meta_local.c */
void client_free(struct local_client *client);
void client_offer_view(struct local_client *client, struct view *view);
/* Takes the reference; an older one is dropped. On the client's loop. */
void client_set_view(struct local_client *client, struct view *view);
void read_arrive(struct service *service, struct read_request *request);
void read_expire(struct service *service, uint64_t now_ns, bool all);
void read_leader_changed(struct service *service);

/* write.c */
enum step_result write_start(struct meta_client *meta, struct meta_write *call, struct task *task);
void write_expire(struct service *service, uint64_t now_ns, bool all);
void write_leader_changed(struct service *service);

/* view_build.c */
void refresh_arrive(struct service *service, struct read_request *request);
void refresh_expire(struct service *service, uint64_t now_ns, bool all);
void view_leader_changed(struct service *service);
void view_root_post(struct env_post *post);

#endif
