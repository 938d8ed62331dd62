/*
 * Calls, messages and byte streams between kist processes (DESIGN 8), over env_net: the same code
 * in the real world and in the simulator. Always authenticated and encrypted (security.h).
 *
 *     struct rpc ──── listens; serves what comes in through struct rpc_service, one per method
 *        └── struct rpc_peer ── another process: connections kept up, one per purpose
 *               ├── struct rpc_call    request and reply; completes exactly once
 *               ├── rpc_send()         one way, FIFO, may be lost
 *               └── struct rpc_stream  bytes both ways, a credit window each way
 *
 * One struct rpc per loop; everything below is called, and calls back, on that loop. A completion
 * never runs inside the call that started it. Only the side that connected starts calls, messages
 * and streams. Structs that callers embed are zeroed by them before the first use.
 */
#ifndef COMMON_RPC_RPC_H
#define COMMON_RPC_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/list.h"
#include "common/base/slice.h"
#include "common/env/env.h"

struct rpc;
struct rpc_conn;
struct rpc_peer;
struct rpc_security; /* security.h: shared by all loops */
/* NOLINTNEXTLINE(readability-identifier-naming): what protobuf-c's structs begin with (`base`) */
struct ProtobufCMessage;

enum rpc_method {
#define RPC_METHOD(number, name, kind, join, text) RPC_##name = (number),
#include "common/rpc/rpc.def"
#undef RPC_METHOD
    RPC_METHOD_NONE = 0
};

/* Connections of their own, so that bulk data never delays a heartbeat. */
enum rpc_purpose { RPC_CONTROL, RPC_BULK, RPC_PURPOSE_COUNT };

enum rpc_role { /* on the wire: never renumbered */
                RPC_ROLE_NONE = 0,
                RPC_ROLE_GATEWAY = 1,
                RPC_ROLE_METAD = 2,
                RPC_ROLE_DATAD = 3,
                RPC_ROLE_LB = 4,
                RPC_ROLE_SERVE = 5,
                RPC_ROLE_ADMIN = 6
};

enum { RPC_CLUSTER_ID_BYTES = 16, RPC_RELEASE_MAX = 32, RPC_SLICES_MAX = 7 };

/* Who is at one end: exchanged in the hello, before anything else. */
struct rpc_identity {
    uint8_t cluster_id[RPC_CLUSTER_ID_BYTES]; /* all zero: joins, knows no cluster yet */
    uint64_t cluster_epoch;
    uint64_t node_id;
    uint64_t incarnation; /* of the process */
    enum rpc_role role;
    char release[RPC_RELEASE_MAX]; /* "0.1.0" */
};

/* ---- One process's end ---- */

struct rpc_options {
    struct env *env;
    struct rpc_security *security; /* borrowed until the rpc is closed */
    struct rpc_identity identity;
    void *owner;
    /* May refuse the other end, after the cluster id was found right: old cluster epoch, a node
     * that was removed. `error` goes to the other side and into the log. NULL: everyone may. */
    enum rc (*judge)(struct rpc *rpc, const struct rpc_identity *other, struct error *error);
    uint64_t connect_timeout_ms; /* TCP, TLS and hello together; 0: 1000 */
    uint64_t backoff_max_ms;     /* between attempts, doubled from 50 ms; 0: 2000 */
    uint64_t idle_ping_ms; /* nothing heard for so long: ping; for three times: closed; 0: 3000 */
    uint32_t stream_window_bytes; /* what one stream may have sent ahead of its reader; 0: 1 MiB */
};

struct rpc *rpc_open(const struct rpc_options *options); /* does not wait; never NULL */
/* A further address; any number of them. Port 0: the kernel picks, rpc_address() tells. */
enum rc rpc_listen(struct rpc *rpc, const char *address, struct error *error);
bool rpc_address(const struct rpc *rpc, char out[ENV_ADDRESS_MAX]); /* of the first; false: none */
/* No new calls are taken: the other ends hear of it, finish what is under way and call elsewhere.
 * Before a close, for a restart without failed requests. */
void rpc_drain(struct rpc *rpc);
/* All peers must be closed. Ends connections; waits until every rpc_request was replied to and
 * every stream's on_close has run, then `done`, and all memory is free. */
void rpc_close(struct rpc *rpc, void (*done)(void *owner));

void *rpc_owner(const struct rpc *rpc);
struct env *rpc_env(const struct rpc *rpc);
const struct rpc_identity *rpc_self(const struct rpc *rpc);
void rpc_set_epoch(struct rpc *rpc, uint64_t cluster_epoch); /* for hellos from now on */

struct rpc_stats { /* of this rpc; gauges are now, the others since open */
    uint32_t connections;
    uint32_t requests; /* being served */
    uint32_t handshakes_failed;
    uint32_t frames_refused;
    uint64_t messages_dropped;
    uint64_t queued_bytes; /* sealed or staged, not yet taken by the kernel */
    uint64_t writes;       /* system calls, to judge coalescing */
    uint64_t frames_sent;
};
void rpc_stats(const struct rpc *rpc, struct rpc_stats *out);

/* ---- Calling ---- */

struct rpc_peer_options {
    const char *address; /* copied */
    uint64_t node_id;    /* who must answer there; 0: anyone of the cluster */
    bool lazy;           /* connects with the first use, not at once */
    void *owner;
    /* A connection came up, or went down (`why` is then set). May be NULL. */
    void (*on_state)(struct rpc_peer *peer, enum rpc_purpose purpose, bool up,
                     const struct error *why);
};

struct rpc_peer *rpc_peer_open(struct rpc *rpc, const struct rpc_peer_options *options);
/* Calls under way complete first (RC_CLOSED or RC_AMBIGUOUS), streams end; then `done`. */
void rpc_peer_close(struct rpc_peer *peer, void (*done)(void *owner));
void *rpc_peer_owner(const struct rpc_peer *peer);
bool rpc_peer_up(const struct rpc_peer *peer, enum rpc_purpose purpose);
/* Why it is not up: of the last attempt, or the last end. RC_OK: nothing is wrong. */
const struct error *rpc_peer_why(const struct rpc_peer *peer, enum rpc_purpose purpose);
/* NULL before the first hello. */
const struct rpc_identity *rpc_peer_identity(const struct rpc_peer *peer);
/* It moved (a pod's new address): connections are made anew; copies. */
void rpc_peer_move(struct rpc_peer *peer, const char *address);

/*
 * One request and its reply. Embedded by its owner; head, message and body are borrowed until
 * `done`.
 *
 *   RC_OK          answered; reply_* are valid during `done`
 *   RC_CLOSED      never left this process: no connection, or it broke before
 *   RC_AMBIGUOUS   the connection broke after the peer may have taken it
 *   RC_TIMEOUT     past its deadline; `taken` says whether the peer may have it
 *   RC_CANCELLED   by rpc_cancel(); `taken` likewise
 *   RC_BUSY        too many wait here, or the peer has too much under way: not taken
 *   RC_UNSUPPORTED the peer does not know the method (it is of another release), or it has no
 * service RC_DENIED      the peer does not allow the method on this connection RC_CORRUPT     the
 * reply's body failed its checksum any other      as the service answered; reply_* are valid here
 * too
 */
struct rpc_call {
    enum rpc_method method;
    enum rpc_purpose purpose;
    const struct ProtobufCMessage *message; /* packed straight into the frame; NULL: head is used */
    struct slice head;
    struct slice body[RPC_SLICES_MAX];
    uint32_t body_count;
    uint32_t timeout_ms; /* from now; 0: none. Travels with the request */
    /* False: when the last attempt to connect failed, fails at once with RC_CLOSED, so that the
     * caller may ask another. True: waits for a connection until its deadline. */
    bool wait_connected;
    void (*done)(struct rpc_call *call);
    /* Valid in `done`. */
    enum rc rc;
    bool taken;              /* the peer may have begun with it */
    bool answered;           /* `rc` is the service's own */
    struct slice reply_head; /* borrowed until `done` returns */
    struct slice reply_body;
    /* Private. */
    struct list link;
    struct list deadline_link;
    struct rpc_peer *peer;
    struct rpc_conn *conn;
    uint64_t id;
    uint64_t deadline_ns;
    uint64_t started_ns;
    size_t size;
    uint32_t state;
};

void rpc_call(struct rpc_peer *peer, struct rpc_call *call);
/* Completes it soon with RC_CANCELLED, unless it is completing already; the peer is told. */
void rpc_cancel(struct rpc_call *call);

/* One way; copied at once. False: dropped (not connected, or the queue of this link is full: the
 * newest goes) and counted. What was queued when a connection breaks is lost. */
bool rpc_send(struct rpc_peer *peer, enum rpc_purpose purpose, enum rpc_method method,
              struct slice head, const struct slice *body, size_t body_count);

/* ---- Serving ---- */

/* A request being served. Belongs to the rpc until on_request, then to the service until
 * rpc_reply(), which it owes exactly once, also when the other side is gone. */
struct rpc_request {
    enum rpc_method method;
    const struct rpc_identity *from; /* who asks; stays valid until the reply */
    struct slice head;               /* both stay valid until the reply */
    struct slice body;
    uint64_t deadline_ns; /* mono_ns of this process; 0: none. Past it nobody waits */
    struct list link;     /* free for the service's own queues */
    /* Set by the service if it wants to hear that nobody waits any more: cancelled, or the
     * connection broke. The reply is still owed. Not called after rpc_reply(). */
    void (*on_cancel)(struct rpc_request *request);
    void *owner; /* the service's */
    /* Private: the rest is in request.c. */
};

/* What goes back. `message` or `head`; both are copied before rpc_reply() returns. `body` is copied
 * too unless `sent` is set: then it is borrowed until sent() runs, which happens once in any case.
 */
struct rpc_reply {
    enum rc rc;
    const struct ProtobufCMessage *message;
    struct slice head;
    struct slice body[RPC_SLICES_MAX];
    uint32_t body_count;
    void (*sent)(struct rpc_reply *reply);
    /* Private. */
    struct list link;
};

/* `reply` itself is only read during the call, unless `sent` is set. */
void rpc_reply(struct rpc_request *request, struct rpc_reply *reply);
void rpc_reply_rc(struct rpc_request *request, enum rc rc); /* nothing but the code */

/* A one-way message that came in; all borrowed during on_message. */
struct rpc_message {
    enum rpc_method method;
    const struct rpc_identity *from;
    struct slice head;
    struct slice body;
};

struct rpc_incoming; /* a stream somebody wants to open; valid during on_stream */

/* Serves one method; embedded by its owner. Only the member of the method's kind is used. */
struct rpc_service {
    void (*on_request)(struct rpc_service *service, struct rpc_request *request);
    void (*on_message)(struct rpc_service *service, const struct rpc_message *message);
    /* Calls rpc_stream_accept() before it returns, or the stream is refused with what it returns
     * (not RC_OK). `head` as the opener gave it. */
    enum rc (*on_stream)(struct rpc_service *service, struct rpc_incoming *incoming,
                         const struct rpc_identity *from, struct slice head);
};

/* Borrowed until the rpc is closed, or another takes its place (NULL: none). */
void rpc_serve(struct rpc *rpc, enum rpc_method method, struct rpc_service *service);

/* ---- Streams ---- */

/*
 * Bytes both ways, each way with a window of its own. Each side ends its own direction once.
 * Embedded by both owners; after on_close the memory is free. on_close is the last callback and
 * always comes, once, for every stream that was opened or accepted.
 */
struct rpc_stream {
    enum rpc_method method;
    enum rpc_purpose purpose; /* bulk data: RPC_BULK */
    uint32_t window_bytes;    /* what the other side may send ahead of rpc_stream_consumed(); 0: as
                                 the rpc's options */
    /* The other side accepted (opener only): writes may begin; they may be given earlier and wait.
     * May be NULL. */
    void (*on_open)(struct rpc_stream *stream);
    /* Bytes have come, borrowed during the call. The reader says rpc_stream_consumed() when it is
     * done with them, now or later: until then they count against the window. */
    void (*on_read)(struct rpc_stream *stream, struct slice bytes);
    /* The bytes of the write under way are no longer needed: the next one may be given. */
    void (*on_written)(struct rpc_stream *stream);
    /* The other side ended its direction: no more on_read. RC_OK: all of it has come. Not RC_OK: it
     * gave up, for this reason, or the connection broke (RC_CLOSED); on_close follows. The latter
     * may come after RC_OK when the other side does not want the rest of ours. */
    void (*on_end)(struct rpc_stream *stream, enum rc rc, struct slice head);
    void (*on_close)(struct rpc_stream *stream);
    /* Valid in on_close. RC_OK: both directions ended. That our bytes were taken over there only an
     * end of the other side that comes after them can say. */
    enum rc rc;
    /* Private. */
    struct list link;
    struct list ready_link;
    struct rpc_peer *peer;
    struct rpc_conn *conn;
    uint64_t id;
    struct slice write[RPC_SLICES_MAX];
    uint32_t write_count;
    uint32_t flags;
    uint32_t credit;        /* bytes we may send */
    uint32_t unconsumed;    /* bytes given to on_read, not consumed */
    uint32_t credit_owed;   /* consumed, not yet told */
    struct slice open_head; /* until they are sent; owned */
    struct slice end_head;
    struct rpc *rpc;
};

/* Never fails at once: on_end (with the reason) and on_close tell. `head` is copied. */
void rpc_stream_open(struct rpc_peer *peer, struct rpc_stream *stream, struct slice head);
void rpc_stream_accept(struct rpc_incoming *incoming, struct rpc_stream *stream);
/* One at a time; the slices (not the array) are borrowed until on_written or on_close. */
void rpc_stream_write(struct rpc_stream *stream, const struct slice *bytes, size_t count);
bool rpc_stream_writing(const struct rpc_stream *stream);
void rpc_stream_consumed(struct rpc_stream *stream, size_t len);
/* Our direction ends after the write under way, if one is; `head` (copied) goes to the other
 * on_end. When both directions have ended well: on_close. */
void rpc_stream_end(struct rpc_stream *stream, struct slice head);
/* Gives both directions up, the write under way too; the other side's on_end gets `rc` (not RC_OK).
 * on_close follows, no other callback. Harmless after the end. */
void rpc_stream_reset(struct rpc_stream *stream, enum rc rc);

/* ---- Names ---- */

const char *rpc_method_text(enum rpc_method method); /* "unknown" */
const char *rpc_role_text(enum rpc_role role);

#endif
