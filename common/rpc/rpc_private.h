/*
 * What the files of common/rpc share. Everything is on the loop of its rpc.
 *
 *     rpc.c       open, close, listeners, and the turn: what was put off runs there, once a turn
 *     peer.c      links of a peer: connect, back off, up, down
 *     conn.c      one connection: TLS, hello, timers, end        conn_read.c   bytes to frames
 *     conn_write.c frames to bytes, and what is sent next        hello.c       who is there
 *     call.c      calls        request.c  served ones            stream.c      streams
 */
#ifndef COMMON_RPC_RPC_PRIVATE_H
#define COMMON_RPC_RPC_PRIVATE_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/crypto/tls_session.h"
#include "common/rpc/frame.h"
#include "common/rpc/method.h"
#include "common/rpc/rpc.h"
#include "common/rpc/security_private.h"

enum {
    RPC_SCRATCH_BYTES = 2 * LIMIT_HTTP_READ_BYTES, /* one read, opened, always fits */
    RPC_STEAL_BYTES_MIN = 32 * 1024, /* frames from here on get memory of their own size */
    RPC_WHEEL_SLOTS = 512,
    RPC_WHEEL_TICK_MS = 10,
    RPC_POOL_MAX = 1024,             /* served requests kept for the next ones */
    RPC_POOL_BYTES_MAX = 4096,       /* memory that one of them may keep */
    RPC_KEEP_BYTES_MAX = 512 * 1024, /* memory that an idle buffer of a connection may keep */
    RPC_HELLO_BYTES_MAX = 4096,
    RPC_REFUSALS_PER_MINUTE = 20 /* lines in the log; the rest is counted */
};

#define RPC_NS_PER_MS 1000000ULL
#define RPC_NS_PER_S  1000000000ULL

enum rpc_slot_kind {
    RPC_SLOT_FREE,
    RPC_SLOT_CALL,
    RPC_SLOT_REQUEST,
    RPC_SLOT_STREAM,
    RPC_SLOT_ZOMBIE /* our side is done with it; the other side's last frame is still to come */
};

/* What is open under an id on one connection: id = number << 16 | slot. The side that connected
 * gives ids, and gives a slot again only after the last frame for its old id has come. */
struct rpc_slot {
    uint64_t id;
    void *what;
    size_t bytes; /* of a call: counts in inflight_bytes until the reply */
    uint32_t kind;
    uint32_t next_free;
};

enum rpc_conn_state {
    RPC_CONN_CONNECTING,
    RPC_CONN_SECURING,
    RPC_CONN_GREETING,
    RPC_CONN_UP,
    RPC_CONN_CLOSING
};

struct rpc_conn {
    struct list link;       /* rpc->conns */
    struct list dirty_link; /* rpc->dirty */
    struct rpc *rpc;
    struct rpc_link *out; /* we connected, for this link; NULL: accepted, or closing */
    bool accepted;
    enum rpc_purpose purpose;
    struct env_stream stream;
    struct env_write connect;
    struct env_write write;
    struct env_timer timer;
    enum rpc_conn_state state;
    bool closed;              /* on_close ran */
    bool broken;              /* to be failed in the next turn */
    struct rpc_peer *drained; /* it takes no new calls: ends with the last one under way */
    bool drain_due;           /* ours */
    bool pong_due;
    bool joining;            /* proved the key only */
    bool paused;             /* we do not read */
    struct tls_session *tls; /* NULL: plain */
    struct rpc_identity other;
    char address[ENV_ADDRESS_MAX];
    uint8_t version;
    bool spoke;  /* a byte has come */
    bool logged; /* its refusal */
    uint64_t heard_ns;
    uint64_t up_ns;
    /* In. */
    struct buffer in; /* the beginning of a frame */
    size_t need;      /* bytes until it is whole */
    bool stolen;      /* a request took `in` */
    /* Out: staged (plaintext) -> sealed -> sending (the kernel's). Plain: straight to sealed. */
    struct buffer staged;
    struct buffer sealed;
    struct buffer sending;
    bool writing;
    uint64_t write_ns;
    struct list replies; /* struct rpc_served that wait for room */
    struct list ready;   /* streams with something to send */
    /* Open under ids. */
    struct rpc_slot *slots;
    uint32_t slot_count; /* allocated */
    uint32_t slot_max;   /* as the other side allows, or as we do */
    uint32_t slot_free;  /* first of the free ones, or slot_max */
    uint32_t slots_used;
    uint64_t next_number;
    size_t inflight_bytes; /* of calls sent, or of requests served */
    size_t inflight_bytes_max;
    uint32_t served_count; /* struct rpc_served that point here */
};

enum rpc_link_state { RPC_LINK_IDLE, RPC_LINK_CONNECTING, RPC_LINK_UP, RPC_LINK_BACKOFF };

struct rpc_link {
    struct list event_link; /* rpc->link_events */
    struct rpc_peer *peer;
    enum rpc_purpose purpose;
    enum rpc_link_state state;
    struct rpc_conn *conn;
    struct env_timer timer;
    uint32_t attempt;
    bool failed; /* the last attempt */
    bool told_up;
    struct error why;
    struct list calls; /* not sent yet */
    uint32_t call_count;
    struct list streams;    /* not opened yet */
    struct buffer messages; /* frames, from messages_at */
    size_t messages_at;
    uint32_t message_count;
};

struct rpc_peer {
    struct list link; /* rpc->peers */
    struct rpc *rpc;
    void *owner;
    void (*on_state)(struct rpc_peer *peer, enum rpc_purpose purpose, bool up,
                     const struct error *why);
    uint64_t node_id;
    char address[ENV_ADDRESS_MAX];
    bool lazy;
    bool known;
    struct rpc_identity identity;
    struct rpc_link links[RPC_PURPOSE_COUNT];
    uint32_t calls;   /* not completed */
    uint32_t streams; /* not closed */
    bool closing;
    void (*close_done)(void *owner);
};

struct rpc_listener {
    struct list link;
    struct rpc *rpc;
    struct env_listener listener;
};

struct rpc_served {
    struct rpc_request base;
    struct list link;        /* conn->replies, rpc->pool */
    struct list cancel_link; /* rpc->cancelled */
    struct rpc_conn *conn;
    uint64_t id;
    size_t bytes;
    bool told;            /* on_cancel ran, or will */
    struct buffer memory; /* head and body of the request */
    struct rpc_frame answer;
    struct buffer kept; /* of the reply, while it waits: head, and body unless borrowed */
    struct slice body[RPC_SLICES_MAX];
    uint32_t body_count;
    struct rpc_reply *reply; /* with `sent` */
};

struct rpc {
    struct rpc_options options;
    struct env *env;
    struct list conns;
    uint32_t conn_count;
    struct list peers;
    struct list listeners;
    struct rpc_service *services[RPC_METHOD_NUMBER_END];
    struct env_post post;
    bool posted;
    bool reap;      /* something ended: look whether it can be freed */
    uint32_t depth; /* inside a callback of ours: the turn comes at its end */
    uint64_t now_ns;
    struct list taken; /* of the lists below: what the turn is about to do */
    /* What the next turn does. */
    struct list completed;     /* rpc_call.link */
    struct list stream_events; /* rpc_stream.link */
    struct list cancelled;     /* rpc_served.cancel_link */
    struct list sent;          /* rpc_reply.link */
    struct list link_events;
    struct list dirty;
    /* Deadlines: a wheel of lists. */
    struct list wheel[RPC_WHEEL_SLOTS];
    uint64_t wheel_tick; /* last one done */
    uint32_t wheel_count;
    bool wheel_running;
    struct env_timer wheel_timer;
    struct list pool;
    uint32_t pool_count;
    uint32_t served_count;
    uint32_t stream_count; /* attached to connections here, or with events to come */
    char *scratch;
    struct rpc_stats stats;
    uint64_t refusals_from_ns;
    uint32_t refusals;
    bool draining;
    bool listeners_closed;
    bool closing;
    void (*close_done)(void *owner);
};

/* rpc.c */
void rpc_turn_soon(struct rpc *rpc);
void rpc_enter(struct rpc *rpc);
void rpc_leave(struct rpc *rpc); /* the turn, at the outermost; may free the rpc */
void rpc_log_refused(struct rpc *rpc, const char *address, enum rc rc, const char *text);

/* conn.c */
struct rpc_conn *rpc_conn_new(struct rpc *rpc);
void rpc_conn_connect(struct rpc_link *link);
void rpc_conn_secured(struct rpc_conn *conn);
void rpc_conn_up(struct rpc_conn *conn);
/* Ends it: whatever is open under it learns so. `text` NULL: orderly. */
void rpc_conn_fail(struct rpc_conn *conn, enum rc rc, const char *text);
/* The same, and the other side is told why (if it can be), and the log. */
void rpc_conn_refuse(struct rpc_conn *conn, enum rc rc, const char *text);
bool rpc_conn_reapable(const struct rpc_conn *conn);
void rpc_conn_free(struct rpc_conn *conn);
struct rpc_slot *rpc_slot_take(struct rpc_conn *conn); /* NULL: as many as allowed are open */
struct rpc_slot *rpc_slot_find(struct rpc_conn *conn, uint64_t id); /* NULL: nothing open */
/* Of the accepting side: the slot that a new id from the other side names. NULL: not allowed. */
struct rpc_slot *rpc_slot_claim(struct rpc_conn *conn, uint64_t id);
void rpc_slot_release(struct rpc_conn *conn, struct rpc_slot *slot);

/* hello.c */
void rpc_hello_send(struct rpc_conn *conn);
void rpc_hello_take(struct rpc_conn *conn, struct slice head);
void rpc_goodbye_send(struct rpc_conn *conn, enum rc rc, const char *text);
void rpc_goodbye_take(struct rpc_conn *conn, struct slice head);

/* conn_read.c */
void rpc_conn_on_read(struct env_stream *stream, struct slice bytes, enum rc rc);
void rpc_conn_take(struct rpc_conn *conn, struct slice bytes); /* empty: begins a handshake */

/* conn_write.c */
void rpc_conn_dirty(struct rpc_conn *conn);
size_t rpc_conn_backlog(const struct rpc_conn *conn);
/* Header and head, then the body. `message` NULL: head. Seals long bodies from where they lie. */
void rpc_conn_emit(struct rpc_conn *conn, struct rpc_frame *frame, const ProtobufCMessage *message,
                   struct slice head, const struct slice *body, size_t body_count);
void rpc_conn_emit_bytes(struct rpc_conn *conn, struct slice frames); /* made already */
void rpc_conn_emit_short(struct rpc_conn *conn, enum rpc_frame_kind kind, uint64_t id,
                         uint16_t status, uint32_t value);
void rpc_conn_flush(struct rpc_conn *conn);
void rpc_conn_push(struct rpc_conn *conn); /* only what is staged, and only once: before an end */
/* Appends a whole frame to `to`. */
void rpc_frame_append(struct buffer *to, struct rpc_frame *frame, const ProtobufCMessage *message,
                      struct slice head, const struct slice *body, size_t body_count);

/* peer.c */
void rpc_link_up(struct rpc_link *link);
void rpc_link_down(struct rpc_link *link, struct rpc_conn *conn, enum rc rc, const char *text);
void rpc_link_want(struct rpc_link *link);
void rpc_link_event(struct rpc_link *link);
void rpc_link_told(struct rpc_link *link);
void rpc_link_drained(struct rpc_link *link);
bool rpc_peer_reap(struct rpc_peer *peer); /* closed and nothing left: frees it */
/* Moves whole messages to the connection. True: there were some. */
bool rpc_message_emit(struct rpc_conn *conn);
void rpc_message_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                      struct slice body);

/* call.c */
bool rpc_call_emit(struct rpc_conn *conn); /* the next queued one; false: none, or no room */
void rpc_call_complete_soon(struct rpc_call *call, enum rc rc);
void rpc_call_broken(struct rpc_call *call);
void rpc_call_take_reply(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                         struct slice body);
void rpc_call_finish(struct rpc_call *call); /* runs done */
void rpc_wheel_fire(struct env_timer *timer);

/* request.c */
void rpc_request_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                      struct slice body);
void rpc_request_cancel(struct rpc_served *served); /* soon */
bool rpc_reply_emit(struct rpc_conn *conn);
void rpc_served_release(struct rpc_served *served);
void rpc_reply_sent_soon(struct rpc *rpc, struct rpc_reply *reply);

/* stream.c */
void rpc_stream_take(struct rpc_conn *conn, const struct rpc_frame *frame, struct slice head,
                     struct slice body);
bool rpc_stream_emit(struct rpc_conn *conn);
void rpc_stream_broken(struct rpc_stream *stream, enum rc rc);
void rpc_stream_event_run(struct rpc_stream *stream);

#endif
