/*
 * The wire of rpc_pair.h: accepts, connects on, copies bytes both ways. What it holds is bounded by
 * a pause of reading while a write is under way.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "tests/lib/rpc_pair.h"

struct wire_side {
    struct wire_link *link;
    struct env_stream stream;
    struct env_write write;
    struct buffer out; /* under way */
    bool writing;
    bool open;
    bool closing;
    bool fin; /* shut down after what is written */
};

struct wire_link {
    struct list link;
    struct wire *wire;
    struct wire_side side[2]; /* 0: towards the client, 1: towards the server */
    struct env_write connect;
    bool connected;
    struct buffer early; /* from the client, before we are connected */
    struct wire_fault fault;
    uint64_t count[2]; /* bytes that went out on that side */
};

struct wire {
    struct env *env;
    char target[ENV_ADDRESS_MAX];
    struct env_listener listener;
    bool listening;
    struct list links;
    struct wire_fault fault;
    bool hold;
    uint64_t last[2];
    uint32_t connections;
};

static void link_end(struct wire_link *link)
{
    for (int i = 0; i < 2; i++) {
        struct wire_side *side = &link->side[i];

        if (side->open && !side->closing) {
            side->closing = true;
            link->wire->env->net->close(link->wire->env, &side->stream);
        }
    }
}

static void link_free_if_closed(struct wire_link *link)
{
    for (int i = 0; i < 2; i++) {
        if (link->side[i].open) {
            return;
        }
    }
    for (int i = 0; i < 2; i++) {
        buffer_deinit(&link->side[i].out);
    }
    buffer_deinit(&link->early);
    list_remove(&link->link);
    mem_free(link);
}

static void side_on_close(struct env_stream *stream)
{
    struct wire_side *side = CONTAINER_OF(stream, struct wire_side, stream);

    side->open = false;
    link_free_if_closed(side->link);
}

static void side_on_written(struct env_write *write)
{
    struct wire_side *side = CONTAINER_OF(write, struct wire_side, write);
    struct wire_link *link = side->link;
    struct wire *wire = link->wire;
    struct wire_side *other = &link->side[side == &link->side[0] ? 1 : 0];

    side->writing = false;
    buffer_clear(&side->out);
    if (write->rc != RC_OK) {
        link_end(link);
    } else if (side->fin && !side->closing) {
        link_end(link);
    } else if (other->open && !other->closing && !wire->hold) {
        wire->env->net->read_start(wire->env, &other->stream);
    }
}

/* Copies on, with what the fault says. */
static void link_carry(struct wire_link *link, int to, struct slice bytes)
{
    struct wire *wire = link->wire;
    struct wire_side *side = &link->side[to];
    uint64_t at = link->count[to];
    uint64_t cut = to == 1 ? link->fault.cut_to_server_at : link->fault.cut_to_client_at;
    uint64_t flip = to == 1 ? link->fault.flip_to_server_at : link->fault.flip_to_client_at;
    struct slice piece;
    bool ends = false;

    if (at + bytes.len >= cut) {
        bytes.len = cut > at ? (size_t)(cut - at) : 0;
        ends = true;
    }
    if (to == 1 && link->fault.insert_at > at && link->fault.insert_at <= at + bytes.len) {
        size_t before = (size_t)(link->fault.insert_at - at);

        buffer_append(&side->out, slice_of(bytes.data, before));
        buffer_append(&side->out, slice_of(bytes.data, before));
        buffer_append(&side->out, slice_after(bytes, before));
    } else {
        buffer_append(&side->out, bytes);
    }
    if (flip >= at && flip < at + bytes.len) {
        side->out.data[side->out.len - bytes.len + (size_t)(flip - at)] ^= 0x20;
    }
    link->count[to] += bytes.len;
    wire->last[to] = link->count[to];
    side->fin = side->fin || ends;
    if (side->out.len == 0) {
        if (side->fin) {
            link_end(link);
        }
        return;
    }
    side->writing = true;
    side->write.done = side_on_written;
    piece = buffer_slice(&side->out);
    wire->env->net->write(wire->env, &side->write, &side->stream, &piece, 1);
}

static void side_on_read(struct env_stream *stream, struct slice bytes, enum rc rc)
{
    struct wire_side *side = CONTAINER_OF(stream, struct wire_side, stream);
    struct wire_link *link = side->link;
    int to = side == &link->side[0] ? 1 : 0;
    struct wire_side *other = &link->side[to];

    if (bytes.len > 0 && to == 1 && !link->connected) {
        buffer_append(&link->early, bytes);
    } else if (bytes.len > 0 && other->open && !other->closing) {
        link->wire->env->net->read_stop(link->wire->env, stream);
        link_carry(link, to, bytes);
    }
    if (rc != RC_OK) {
        if (other->writing) {
            other->fin = true;
        } else {
            link_end(link);
        }
    }
}

static void link_on_connect(struct env_write *write)
{
    struct wire_link *link = CONTAINER_OF(write, struct wire_link, connect);
    struct wire *wire = link->wire;

    if (write->rc != RC_OK || link->side[1].closing) {
        link_end(link);
        return;
    }
    link->connected = true;
    if (!wire->hold) {
        wire->env->net->read_start(wire->env, &link->side[1].stream);
    }
    if (link->early.len > 0) {
        wire->env->net->read_stop(wire->env, &link->side[0].stream);
        link_carry(link, 1, buffer_slice(&link->early));
    }
}

static void wire_on_accept(struct env_listener *listener)
{
    struct wire *wire = CONTAINER_OF(listener, struct wire, listener);
    struct wire_link *link = mem_alloc(sizeof(*link));

    link->wire = wire;
    link->fault = wire->fault;
    buffer_init(&link->early);
    for (int i = 0; i < 2; i++) {
        link->side[i].link = link;
        link->side[i].stream.on_read = side_on_read;
        link->side[i].stream.on_close = side_on_close;
        buffer_init(&link->side[i].out);
    }
    list_push_back(&wire->links, &link->link);
    if (wire->env->net->accept(wire->env, listener, &link->side[0].stream) != RC_OK) {
        list_remove(&link->link);
        mem_free(link);
        return;
    }
    wire->connections += 1;
    wire->last[0] = 0;
    wire->last[1] = 0;
    link->side[0].open = true;
    link->side[1].open = true;
    link->connect.done = link_on_connect;
    wire->env->net->connect(wire->env, &link->connect, &link->side[1].stream, wire->target);
    if (!wire->hold) {
        wire->env->net->read_start(wire->env, &link->side[0].stream);
    }
}

static void wire_on_close(struct env_listener *listener)
{
    CONTAINER_OF(listener, struct wire, listener)->listening = false;
}

void wire_fault_none(struct wire_fault *fault)
{
    memset(fault, 0xff, sizeof(*fault));
}

struct wire *wire_open(struct env *env, const char *listen, const char *target)
{
    struct wire *wire = mem_alloc(sizeof(*wire));
    enum rc rc;

    wire->env = env;
    wire->listener.on_accept = wire_on_accept;
    wire->listener.on_close = wire_on_close;
    list_init(&wire->links);
    wire_fault_none(&wire->fault);
    memcpy(wire->target, target, strlen(target) + 1);
    rc = env->net->listen(env, &wire->listener, listen, NULL);
    ASSERT(rc == RC_OK);
    wire->listening = true;
    return wire;
}

void wire_address(struct wire *wire, char out[ENV_ADDRESS_MAX])
{
    wire->env->net->listener_address(wire->env, &wire->listener, out);
}

void wire_set(struct wire *wire, const struct wire_fault *fault)
{
    wire->fault = *fault;
}

void wire_hold(struct wire *wire, bool hold)
{
    wire->hold = hold;
    for (struct list *at = wire->links.next; at != &wire->links; at = at->next) {
        struct wire_link *link = CONTAINER_OF(at, struct wire_link, link);

        for (int i = 0; i < 2; i++) {
            struct wire_side *side = &link->side[i];

            if (!side->open || side->closing || (i == 1 && !link->connected)) {
                continue;
            }
            if (hold) {
                wire->env->net->read_stop(wire->env, &side->stream);
            } else if (!link->side[1 - i].writing) {
                wire->env->net->read_start(wire->env, &side->stream);
            }
        }
    }
}

uint64_t wire_to_server(const struct wire *wire)
{
    return wire->last[1];
}

uint64_t wire_to_client(const struct wire *wire)
{
    return wire->last[0];
}

uint32_t wire_connections(const struct wire *wire)
{
    return wire->connections;
}

void wire_end(struct wire *wire)
{
    wire->env->net->listener_close(wire->env, &wire->listener);
    for (struct list *at = wire->links.next; at != &wire->links; at = at->next) {
        link_end(CONTAINER_OF(at, struct wire_link, link));
    }
}

bool wire_closed(const struct wire *wire)
{
    return !wire->listening && list_empty(&wire->links);
}

void wire_free(struct wire *wire)
{
    ASSERT(wire_closed(wire));
    mem_free(wire);
}
