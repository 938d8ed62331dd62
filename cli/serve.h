/*
 * Private to cli/serve*.c: one `kist serve`. Everything here is touched on loop 0 only, apart from
 * what is said to be of a loop.
 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/admin/admin.h"
#include "cli/directories.h"
#include "cli/directory_files.h"
#include "cli/options.h"
#include "common/client/meta_client.h"
#include "common/env/env_uv.h"
#include "common/placement/place.h"
#include "common/task/task.h"
#include "datad/datad.h"
#include "datad/repair/repair.h"
#include "gateway/events/events.h"
#include "gateway/http/tls.h"
#include "gateway/server.h"
#include "metad/metad.h"

enum { ROOT_ACCESS_KEY_BYTES = 20, ROOT_SECRET_KEY_BYTES = 40 };

struct serve;
struct serve_rpc;

/* The gateway of one loop, and the message by which loop 0 asks that loop to open or close it. */
struct serve_gateway {
    struct serve *serve;
    struct env *env;
    uint32_t loop;
    struct gateway_server *server;
    struct error error;
    struct env_post go;   /* to its loop */
    struct env_post back; /* to loop 0 */
};

struct serve {
    struct env_uv *world;
    struct env *env; /* loop 0 */
    const struct serve_options *options;
    struct directories directories;
    struct env_uv_signals signals;

    /* Opened in this order, closed in the reverse one. */
    struct metad_open meta_open;
    struct metad *metad;
    struct meta_client *meta; /* of loop 0 */
    struct meta_client *metas[ENV_UV_LOOPS_MAX];
    struct serve_rpc *rpc; /* NULL: metad is called directly */
    struct datad *datad;
    struct data_client *datas[ENV_UV_LOOPS_MAX];
    struct repair *repair;
    struct events *events; /* NULL without a quorum at start */
    struct sink_options sinks[EVENTS_SINKS_MAX];
    struct slice sink_names[EVENTS_SINKS_MAX];
    uint32_t sink_count;
    struct tls_context *tls;
    struct stream_pool stream_pool;
    struct gateway_config gateway_config;
    struct serve_gateway gateways[ENV_UV_LOOPS_MAX];
    uint32_t gateways_pending;
    char listen[ENV_ADDRESS_MAX];       /* as bound */
    char admin_listen[ENV_ADDRESS_MAX]; /* as bound */
    struct admin_server *admin;

    /* Start and stop. */
    struct task start;
    struct task stop;
    struct env_post resume; /* of the stop task, from callbacks */
    bool started;
    bool stopping;
    bool stop_asked;
    struct error error; /* why the start failed */

    /* What the start says to root. */
    struct arena arena;
    struct meta_write write;
    struct meta_refresh refresh;
    union {
        Kist__Mint mint;
        Kist__PutPlacement placement;
        Kist__PutUser put_user;
        Kist__PutAccessKey put_key;
        Kist__CreateBucket create_bucket;
    } message;
    Kist__User user;
    Kist__AccessKey key;
    uint32_t incarnation;
    uint32_t bucket_at;
    bool read_only; /* no quorum at start: metadata is served for reading */
    bool credentials_made;
    char access_key[LIMIT_ACCESS_KEY_BYTES + 1];
    char secret_key[LIMIT_SECRET_KEY_BYTES + 1];
};

#define SERVE_OF_START(ptr) CONTAINER_OF(ptr, struct serve, start)

/* Steps of the start that talk to root (serve_cluster.c). */
enum step_result serve_mint_incarnation(struct task *task);
enum step_result serve_note_incarnation(struct task *task);
enum step_result serve_mint_disks(struct task *task);
enum step_result serve_note_disks(struct task *task);
enum step_result serve_refresh(struct task *task);
enum step_result serve_place(struct task *task);
enum step_result serve_placed(struct task *task);
/* serve_root.c */
enum step_result serve_root_user(struct task *task);
enum step_result serve_root_key(struct task *task);
enum step_result serve_root_done(struct task *task);
enum step_result serve_buckets(struct task *task);

/* One command to root: the next step reads serve->write.reply. */
enum step_result serve_write(struct serve *serve, enum meta_command command,
                             const ProtobufCMessage *message);
/* STEP_NEXT when the outcome is OK or `also`; otherwise the task fails naming `what`. */
enum step_result serve_expect(struct serve *serve, Kist__Outcome also, const char *what);

/* Writes DIR/root-credentials of every directory. */
enum rc serve_write_credentials(struct serve *serve, struct error *error);

/* serve_gateways.c: opens or closes the gateways of all loops; resumes the task that waits when all
 * are. */
enum step_result serve_gateways_open(struct task *task);
enum step_result serve_gateways_opened(struct task *task);
void serve_gateways_close(struct serve *serve);

/* serve_rpc.c */
enum step_result serve_open_rpc(struct task *task);
enum step_result serve_close_rpc(struct task *task); /* of the stop task */

/* serve_events.c */
enum step_result serve_open_events(struct task *task);

/* serve_stop.c */
void serve_stop(struct serve *serve);

/* serve_banner.c */
void serve_print_banner(struct serve *serve);
/* How many block devices (directories) may be lost, whichever, without losing data. */
uint32_t serve_losses_devices(const struct serve *serve);
uint32_t serve_losses_directories(const struct serve *serve);

int serve_main(int argc, char *const *argv);

#endif
