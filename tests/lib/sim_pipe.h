/* Connections of the simulated world: two ends and what flies between them. See sim_pipe.c. */
#ifndef TESTS_LIB_SIM_PIPE_H
#define TESTS_LIB_SIM_PIPE_H

#include "tests/lib/sim_world.h"

enum flight_kind { FLIGHT_BYTES, FLIGHT_FIN, FLIGHT_RST };

struct flight {
    struct list link;
    enum flight_kind kind;
    uint64_t due;
    uint64_t sent;
    struct buffer bytes;
};

/* One side of a connection. Lives until both sides are closed and nothing refers to it. */
struct sim_end {
    struct list link; /* sim->ends */
    struct sim *sim;
    struct sim_node *node;
    struct sim_end *peer;
    struct env_stream *stream; /* NULL: not accepted yet, or closed */
    struct list writes;        /* struct net_write */
    struct list flight;        /* towards the peer */
    size_t flight_bytes;
    uint64_t last_due;
    struct buffer inbox;
    struct sim_event *arrival; /* of the head of our flight */
    struct sim_event *deliver; /* of our inbox */
    struct sim_event *pump;
    struct sim_event *connect;     /* under way */
    char address[ENV_ADDRESS_MAX]; /* of the peer */
    bool reading;
    bool fin_wanted; /* shutdown: after the writes */
    bool fin_sent;
    bool fin_got;
    bool end_told; /* on_read had its last call */
    bool reset;
    bool closed;
};

/* Behind env_write.reserved while it waits. */
struct net_write {
    struct list link;
    struct env_write *write;
    struct slice from[ENV_WRITE_SLICES_MAX];
    size_t count;
};

struct sim_end *end_of(struct env_stream *stream); /* asserts that it is open */
struct sim_end *end_new(struct sim_node *node);
void end_bind(struct env_stream *stream, struct sim_end *end);
uint64_t end_latency(struct sim *sim);
void end_event_stop(struct sim *sim, struct sim_event **event);
void end_free(struct sim_end *end);
void ends_release(struct sim_end *end); /* frees both ends when nothing needs them any more */
void end_write_complete(struct sim_node *node, struct env_write *write, enum rc rc);
void end_writes_fail(struct sim_end *end, enum rc rc);
void end_deliver_soon(struct sim_end *end);
void end_pump_soon(struct sim_end *end);
struct flight *end_fly(struct sim_end *end, enum flight_kind kind);
/* Takes what fits of the slices and moves them on; returns how much. */
size_t end_send(struct sim_end *end, struct slice *from, size_t count);

#endif
