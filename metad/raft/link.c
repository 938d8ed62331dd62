/*
 * What goes to each peer, in order.
 *
 *     core's message -> queue of the peer -> (terms durable? entries at hand?) -> frame ->
 * transport
 *
 * A message waits while a term or vote is being written, and while the entries of an APPEND before
 * it are read from the disk. A queue that is full drops the newest: the core sends again. Frames of
 * an APPEND are cut at about 1 MiB.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/replica_internal.h"

enum { READ_ENTRIES_MAX = 1024 };

static void link_pump(struct link *link);

void link_init(struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        r->links[i].replica = r;
        list_init(&r->links[i].queue);
    }
    buffer_init(&r->frame);
}

static void link_clear(struct link *link)
{
    while (!list_empty(&link->queue)) {
        mem_free(CONTAINER_OF(list_pop_front(&link->queue), struct link_item, link));
    }
    link->queued = 0;
}

void link_deinit(struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        ASSERT(!r->links[i].reading);
        link_clear(&r->links[i]);
        mem_free(r->links[i].read_entries);
    }
    buffer_deinit(&r->frame);
}

bool link_idle(const struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        if (r->links[i].reading) {
            return false;
        }
    }
    return true;
}

struct link *link_find(struct replica *r, uint64_t peer)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        if (r->links[i].peer == peer) {
            return &r->links[i];
        }
    }
    return NULL;
}

/* Makes one; takes the place of an idle one when all are in use. */
struct link *link_reserve(struct replica *r, uint64_t peer)
{
    struct link *link = link_find(r, peer);

    if (link == NULL) {
        link = link_find(r, 0);
    }
    for (uint32_t i = 0; link == NULL && i < REPLICA_LINKS_MAX; i++) {
        struct link *other = &r->links[i];

        if (list_empty(&other->queue) && !other->reading && other->sending == NULL) {
            link = other;
        }
    }
    if (link != NULL) {
        link->peer = peer;
    }
    return link;
}

struct frame_header link_header(const struct replica *r, uint64_t peer, enum message_kind kind)
{
    return (struct frame_header){
        .kind = kind,
        .group = r->group,
        .from = r->id,
        .to = peer,
        .term = consensus_term(r->core),
    };
}

static void frame_leave(struct replica *r, uint64_t peer)
{
    frame_end(&r->frame);
    r->transport->send(r->transport, r->group, r->id, peer, buffer_slice(&r->frame));
}

/* The round that goes with a message: a leader's own, or the newest that was accepted. */
static uint64_t round_of(struct replica *r, const struct consensus_message *message)
{
    if (message->kind == MESSAGE_APPEND && consensus_role(r->core) == CONSENSUS_LEADER &&
        message->term == consensus_term(r->core)) {
        if (r->lease.term != message->term) {
            lease_begin(&r->lease, message->term); /* the first of its term */
        }
        return lease_round(&r->lease, replica_now_ns(r), false);
    }
    if (message->kind == MESSAGE_APPEND_RESULT && message->term == r->heard_term) {
        return r->heard_round;
    }
    return 0;
}

static void frame_open(struct replica *r, const struct consensus_message *message,
                       enum message_kind kind)
{
    struct frame_header header = link_header(r, message->peer, kind);

    header.term = message->term;
    header.round = round_of(r, message);
    buffer_clear(&r->frame);
    frame_begin(&r->frame, &header);
}

static enum message_kind frame_kind(enum consensus_message_kind kind)
{
    switch (kind) {
    case MESSAGE_APPEND:
        return FRAME_APPEND;
    case MESSAGE_APPEND_RESULT:
        return FRAME_APPEND_RESULT;
    case MESSAGE_VOTE:
        return FRAME_VOTE;
    case MESSAGE_VOTE_RESULT:
        return FRAME_VOTE_RESULT;
    case MESSAGE_TIMEOUT_NOW:
        return FRAME_TIMEOUT_NOW;
    case MESSAGE_INSTALL:
    default:
        ASSERT(kind == MESSAGE_TIMEOUT_NOW); /* a copy is streamed instead */
        return FRAME_TIMEOUT_NOW;
    }
}

static void send_small(struct replica *r, const struct consensus_message *message)
{
    struct consensus_message copy = *message;

    /* Only the election that a TimeoutNow asked for may disrupt: its leader has given up its lease.
     */
    if (copy.kind == MESSAGE_VOTE && copy.vote.disrupt && copy.term != r->timeout_now_term + 1) {
        copy.vote.disrupt = false;
    }
    if (copy.kind == MESSAGE_TIMEOUT_NOW) {
        r->lease.ended = true;
        atomic_store(&r->shared_lease_until_ns, 0);
    }
    frame_open(r, &copy, frame_kind(copy.kind));
    frame_message(&r->frame, &copy);
    frame_leave(r, copy.peer);
}

/* Sends a run of entries as one frame; the message moves behind them. */
static void send_run(struct replica *r, struct consensus_message *message,
                     const struct log_entry *const *entries, uint32_t count)
{
    struct consensus_message part = *message;

    ASSERT(count > 0 && count <= message->append.count);
    part.append.count = count;
    frame_open(r, &part, FRAME_APPEND);
    frame_message(&r->frame, &part);
    for (uint32_t i = 0; i < count; i++) {
        frame_entry(&r->frame, entries[i]);
    }
    frame_leave(r, part.peer);
    message->append.prev_index += count;
    message->append.prev_term = entries[count - 1]->term;
    message->append.count -= count;
}

/* Sends what is cached from the front on; false: the next entry is on disk only. */
static bool send_cached(struct replica *r, struct consensus_message *message)
{
    const struct log_entry *run[256];

    while (message->append.count > 0) {
        uint32_t count = 0;
        size_t bytes = 0;

        while (count < message->append.count && count < ARRAY_LEN(run) &&
               bytes < FRAME_APPEND_BYTES) {
            const struct log_entry *entry =
                entry_log_get(&r->entries, message->append.prev_index + 1 + count);

            if (entry == NULL) {
                break;
            }
            bytes += entry->len;
            if (count > 0 && bytes > FRAME_APPEND_BYTES) {
                break;
            }
            run[count++] = entry;
        }
        if (count == 0) {
            return false;
        }
        send_run(r, message, run, count);
    }
    return true;
}

/* Work thread. */
static void read_run(struct env_work *work)
{
    struct link *link = CONTAINER_OF(work, struct link, work);

    link->read_rc = log_store_read(link->replica->log, &link->read, &link->read_error);
}

static void read_send(struct link *link)
{
    struct replica *r = link->replica;
    struct link_item *item = CONTAINER_OF(link->queue.next, struct link_item, link);
    const struct log_entry *run[READ_ENTRIES_MAX];
    uint32_t count = link->read.entry_count;

    if (list_empty(&link->queue) || item->epoch != r->entries.epoch ||
        item->message.append.prev_index + 1 != link->read.from) {
        return;
    }
    if (count > item->message.append.count) {
        count = item->message.append.count;
    }
    for (uint32_t i = 0; i < count; i++) {
        run[i] = &link->read_entries[i];
    }
    send_run(r, &item->message, run, count);
}

static void read_done(struct env_work *work)
{
    struct link *link = CONTAINER_OF(work, struct link, work);
    struct replica *r = link->replica;

    link->reading = false;
    if (link->read_rc == RC_OK && !r->stopped && !r->closing) {
        read_send(link);
    } else {
        link_clear(link); /* trimmed meanwhile, perhaps: the core will see that the peer lags */
    }
    if (link->read_rc == RC_CORRUPT || link->read_rc == RC_IO) {
        driver_fail(r, &link->read_error);
    }
    mem_free(link->read.block);
    link->read.block = NULL;
    if (!r->stopped) {
        link_pump(link);
    }
    driver_settle(r);
}

static void read_start(struct link *link, const struct consensus_message *message)
{
    struct replica *r = link->replica;
    const uint64_t to = message->append.prev_index + message->append.count;

    if (link->read_entries == NULL) {
        link->read_entries = mem_alloc(READ_ENTRIES_MAX * sizeof(*link->read_entries));
    }
    link->reading = true;
    link->read = (struct log_read){
        .group = r->group,
        .from = message->append.prev_index + 1,
        .to = to < r->entries.cache_first ? to : r->entries.cache_first - 1,
        .bytes_max = FRAME_APPEND_BYTES,
        .entries = link->read_entries,
        .entry_max = READ_ENTRIES_MAX,
    };
    link->work.run = read_run;
    link->work.done = read_done;
    r->env->worker->submit(r->env, NULL, &link->work);
}

/* False: it must wait for a read that was started. */
static bool item_send(struct link *link, struct link_item *item)
{
    struct replica *r = link->replica;

    if (item->message.kind != MESSAGE_APPEND || item->message.append.count == 0) {
        send_small(r, &item->message);
        return true;
    }
    if (item->epoch != r->entries.epoch) {
        return true; /* the entries it speaks of are gone: dropped */
    }
    if (item->message.append.prev_index + 1 < r->entries.first_index) {
        return true; /* trimmed */
    }
    if (send_cached(r, &item->message)) {
        return true;
    }
    read_start(link, &item->message);
    return false;
}

static void link_pump(struct link *link)
{
    while (!list_empty(&link->queue) && !link->reading && link->replica->term_writes == 0) {
        struct link_item *item = CONTAINER_OF(link->queue.next, struct link_item, link);

        if (!item_send(link, item)) {
            return;
        }
        list_remove(&item->link);
        link->queued--;
        mem_free(item);
    }
}

void link_send(struct replica *r, const struct consensus_message *message)
{
    struct link *link = NULL;
    struct link_item *item = NULL;
    struct link_item now = {.message = *message, .epoch = r->entries.epoch};

    if (message->kind == MESSAGE_INSTALL) {
        snapshot_send_start(r, message->peer);
        return;
    }
    link = link_reserve(r, message->peer);
    if (link == NULL || link->queued >= REPLICA_LINK_QUEUE_MAX) {
        return;
    }
    if (list_empty(&link->queue) && !link->reading && r->term_writes == 0 &&
        (message->kind != MESSAGE_APPEND || message->append.count == 0)) {
        (void)item_send(link, &now);
        return;
    }
    item = mem_alloc(sizeof(*item));
    *item = now;
    list_push_back(&link->queue, &item->link);
    link->queued++;
    link_pump(link);
}

void link_resume(struct replica *r)
{
    for (uint32_t i = 0; i < REPLICA_LINKS_MAX; i++) {
        link_pump(&r->links[i]);
    }
}

void link_send_round(struct replica *r, uint64_t peer, enum message_kind kind)
{
    struct frame_header header = link_header(r, peer, kind);

    ASSERT(kind == FRAME_ROUND || kind == FRAME_ROUND_RESULT);
    if (r->term_writes > 0) {
        return; /* lost: it may not say a term that is not durable */
    }
    header.round = kind == FRAME_ROUND ? r->lease.round : r->heard_round;
    buffer_clear(&r->frame);
    frame_begin(&r->frame, &header);
    frame_leave(r, peer);
}

void link_send_frame(struct replica *r, uint64_t peer)
{
    if (r->term_writes == 0) {
        frame_leave(r, peer);
    }
}
