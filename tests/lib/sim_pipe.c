/*
 * Byte streams of the simulated world.
 *
 *     write -> pending -> (window) -> flight -> arrival -> inbox -> on_read, in pieces
 *
 * A connection is two ends. Each end sends into a FIFO flight towards its peer; an entry is bytes,
 * FIN or RST, and arrives after a latency, or later while the link is cut. Window: what is in
 * flight and in the peer's inbox together.
 */
#include "tests/lib/sim_pipe.h"

#include <string.h>

enum { PIPE_ALIVE_S = 10, PIPE_RETRY_MS = 50 };

struct sim_end *end_of(struct env_stream *stream)
{
    struct sim_end *end;

    memcpy(&end, stream->reserved, sizeof(end));
    ASSERT(end != NULL);
    return end;
}

void end_bind(struct env_stream *stream, struct sim_end *end)
{
    memcpy(stream->reserved, &end, sizeof(end));
    end->stream = stream;
}

uint64_t end_latency(struct sim *sim)
{
    return sim_between(sim, sim->net.latency_min_ns, sim->net.latency_max_ns);
}

struct sim_end *end_new(struct sim_node *node)
{
    struct sim_end *end = mem_alloc(sizeof(*end));

    end->sim = node->sim;
    end->node = node;
    list_init(&end->writes);
    list_init(&end->flight);
    buffer_init(&end->inbox);
    list_push_back(&node->sim->ends, &end->link);
    return end;
}

void end_event_stop(struct sim *sim, struct sim_event **event)
{
    if (*event != NULL) {
        sim_event_cancel(sim, *event);
        *event = NULL;
    }
}

static void flight_clear(struct sim_end *end)
{
    while (!list_empty(&end->flight)) {
        struct flight *flight = CONTAINER_OF(list_pop_front(&end->flight), struct flight, link);

        buffer_deinit(&flight->bytes);
        mem_free(flight);
    }
    end->flight_bytes = 0;
}

void end_free(struct sim_end *end)
{
    if (!end->sim->ending) {
        end_event_stop(end->sim, &end->arrival);
        end_event_stop(end->sim, &end->deliver);
        end_event_stop(end->sim, &end->pump);
    }
    flight_clear(end);
    buffer_deinit(&end->inbox);
    while (!list_empty(&end->writes)) {
        mem_free(CONTAINER_OF(list_pop_front(&end->writes), struct net_write, link));
    }
    list_remove(&end->link);
    mem_free(end);
}

/* Both sides are closed and all that was sent has arrived or does not matter any more. */
void ends_release(struct sim_end *end)
{
    struct sim_end *peer = end->peer;

    if (end->closed && end->stream == NULL && (peer == NULL || peer->closed) &&
        (peer == NULL || peer->stream == NULL)) {
        end_free(end);
        if (peer != NULL) {
            end_free(peer);
        }
    }
}

/* ---- Completions ---- */

static void write_done_run(struct sim_event *event)
{
    struct env_write *write = event->subject;

    write->done(write);
}

void end_write_complete(struct sim_node *node, struct env_write *write, enum rc rc)
{
    write->rc = rc;
    (void)sim_event_new(node->sim, node, sim_between(node->sim, 1, 5 * SIM_US), write_done_run,
                        write);
}

void end_writes_fail(struct sim_end *end, enum rc rc)
{
    while (!list_empty(&end->writes)) {
        struct net_write *item = CONTAINER_OF(list_pop_front(&end->writes), struct net_write, link);

        end_write_complete(end->node, item->write, rc);
        mem_free(item);
    }
}

/* ---- Delivery: inbox -> on_read ---- */

static size_t piece_len(struct sim_end *end)
{
    size_t len = end->inbox.len;

    switch (end->sim->net.pieces) {
    case SIM_PIECES_BYTES:
        return 1;
    case SIM_PIECES_RANDOM:
        return (size_t)sim_between(end->sim, 1, len);
    case SIM_PIECES_WHOLE:
        break;
    }
    return len < 65536 ? len : 65536;
}

static void deliver_drop(struct sim_event *event)
{
    struct sim_end *end = event->subject;

    end->deliver = NULL;
}

static void deliver_run(struct sim_event *event)
{
    struct sim_end *end = event->subject;
    struct env_stream *stream = end->stream;

    end->deliver = NULL;
    if (!end->reading || stream == NULL || end->end_told) {
        return;
    }
    if (end->reset) {
        end->end_told = true;
        stream->on_read(stream, SLICE_EMPTY, RC_IO);
        return;
    }
    if (end->inbox.len > 0) {
        size_t len = piece_len(end);
        char *piece = mem_copy(end->inbox.data, len); /* a borrow that ends: ASan sees a late use */

        buffer_consume(&end->inbox, len);
        if (end->peer != NULL) {
            end_pump_soon(end->peer);
        }
        end_deliver_soon(end);
        stream->on_read(stream, slice_of(piece, len), RC_OK);
        mem_free(piece);
        return;
    }
    if (end->fin_got) {
        end->end_told = true;
        stream->on_read(stream, SLICE_EMPTY, RC_CLOSED);
    }
}

void end_deliver_soon(struct sim_end *end)
{
    if (end->deliver == NULL && end->reading && !end->closed && !end->end_told &&
        (end->inbox.len > 0 || end->fin_got || end->reset)) {
        end->deliver = sim_event_new(end->sim, end->node, sim_between(end->sim, 1, 10 * SIM_US),
                                     deliver_run, end);
        end->deliver->drop = deliver_drop;
    }
}

/* ---- Arrival: flight -> the peer's inbox ---- */

static void arrival_run(struct sim_event *event);

static void arrival_schedule(struct sim_end *end)
{
    struct flight *head;

    if (end->arrival != NULL || list_empty(&end->flight)) {
        return;
    }
    head = CONTAINER_OF(end->flight.next, struct flight, link);
    end->arrival =
        sim_event_new(end->sim, NULL, head->due > end->sim->now ? head->due - end->sim->now : 0,
                      arrival_run, end);
}

static void end_reset(struct sim_end *end)
{
    if (end->reset) {
        return;
    }
    end->reset = true;
    buffer_clear(&end->inbox);
    end_event_stop(end->sim, &end->arrival);
    flight_clear(end);
    end_writes_fail(end, RC_IO);
    end_deliver_soon(end);
}

static void flight_land(struct sim_end *from, struct flight *flight)
{
    struct sim_end *to = from->peer;

    if (flight->kind == FLIGHT_RST) {
        end_reset(to);
    } else if (flight->kind == FLIGHT_FIN) {
        to->fin_got = true;
        end_deliver_soon(to);
    } else if (to->closed) {
        end_reset(from); /* nobody is there: the answer to data is RST */
    } else if (!to->reset) {
        buffer_append(&to->inbox, buffer_slice(&flight->bytes));
        end_deliver_soon(to);
    }
}

static void arrival_run(struct sim_event *event)
{
    struct sim_end *end = event->subject;
    struct flight *head = CONTAINER_OF(end->flight.next, struct flight, link);
    struct sim *sim = end->sim;

    end->arrival = NULL;
    if (sim_is_cut(end->node, end->peer->node)) {
        if (sim->now - head->sent > PIPE_ALIVE_S * SIM_S) {
            struct sim_end *peer = end->peer;

            end_reset(end);
            end_reset(peer);
            return;
        }
        head->due = sim->now + PIPE_RETRY_MS * SIM_MS;
        arrival_schedule(end);
        return;
    }
    list_remove(&head->link);
    end->flight_bytes -= head->bytes.len;
    if (head->kind == FLIGHT_BYTES && sim->net.reset_ppm > 0 &&
        sim_below(sim, 1000000) < sim->net.reset_ppm) {
        end_reset(end);
        end_reset(end->peer);
    } else {
        flight_land(end, head);
    }
    buffer_deinit(&head->bytes);
    mem_free(head);
    arrival_schedule(end);
}

struct flight *end_fly(struct sim_end *end, enum flight_kind kind)
{
    struct flight *flight = mem_alloc(sizeof(*flight));
    uint64_t due = end->sim->now + end_latency(end->sim);

    flight->kind = kind;
    flight->sent = end->sim->now;
    flight->due = due > end->last_due ? due : end->last_due;
    end->last_due = flight->due;
    buffer_init(&flight->bytes);
    list_push_back(&end->flight, &flight->link);
    arrival_schedule(end);
    return flight;
}

/* ---- Sending: writes -> flight ---- */

static size_t end_room(const struct sim_end *end)
{
    size_t used = end->flight_bytes + end->peer->inbox.len;

    return used < end->sim->net.window_bytes ? end->sim->net.window_bytes - used : 0;
}

/* Takes what fits of the slices; returns how much. */
size_t end_send(struct sim_end *end, struct slice *from, size_t count)
{
    size_t room = end_room(end);
    size_t taken = 0;
    struct flight *flight = NULL;

    if (end->sim->net.partial_bytes > 0 && room > end->sim->net.partial_bytes) {
        room = end->sim->net.partial_bytes;
    }
    for (size_t i = 0; i < count && taken < room; i++) {
        size_t n = from[i].len < room - taken ? from[i].len : room - taken;

        if (n == 0) {
            continue;
        }
        if (flight == NULL) {
            flight = end_fly(end, FLIGHT_BYTES);
        }
        buffer_append(&flight->bytes, slice_of(from[i].data, n));
        from[i] = slice_after(from[i], n);
        taken += n;
    }
    end->flight_bytes += taken;
    return taken;
}

static bool write_is_empty(const struct net_write *item)
{
    for (size_t i = 0; i < item->count; i++) {
        if (item->from[i].len > 0) {
            return false;
        }
    }
    return true;
}

static void end_pump(struct sim_end *end)
{
    if (end->reset || end->closed || end->peer == NULL) {
        return;
    }
    while (!list_empty(&end->writes)) {
        struct net_write *item = CONTAINER_OF(end->writes.next, struct net_write, link);
        size_t taken = end_send(end, item->from, item->count);

        if (!write_is_empty(item)) {
            if (taken > 0 && end_room(end) > 0) {
                end_pump_soon(end); /* partial_bytes held it back, not the window */
            }
            return;
        }
        list_remove(&item->link);
        end_write_complete(end->node, item->write, RC_OK);
        mem_free(item);
    }
    if (end->fin_wanted && !end->fin_sent) {
        end->fin_sent = true;
        (void)end_fly(end, FLIGHT_FIN);
    }
}

static void pump_run(struct sim_event *event)
{
    struct sim_end *end = event->subject;

    end->pump = NULL;
    end_pump(end);
}

static void pump_drop(struct sim_event *event)
{
    struct sim_end *end = event->subject;

    end->pump = NULL;
}

void end_pump_soon(struct sim_end *end)
{
    if (end->pump == NULL && !end->closed && !end->reset) {
        end->pump = sim_event_new(end->sim, end->node,
                                  sim_between(end->sim, 1 * SIM_US, 20 * SIM_US), pump_run, end);
        end->pump->drop = pump_drop;
    }
}
