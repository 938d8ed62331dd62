/*
 * The slow path of linearizable reads.
 *
 *     arrival: index = commit -> (lease, or a round begun since then answered by a majority)
 *              -> applied >= index -> done
 *
 * One round serves all reads that came before it. It costs no disk write.
 */
#include "common/base/assert.h"
#include "metad/raft/replica_internal.h"

#define ROUND_NONE      0          /* not asked yet */
#define ROUND_CONFIRMED UINT64_MAX /* leadership was confirmed after the arrival */

static struct replica_read *read_of(struct list *link)
{
    return CONTAINER_OF(link, struct replica_read, link);
}

static void read_end(struct replica *r, struct replica_read *read, enum rc rc)
{
    list_remove(&read->link);
    read->rc = rc;
    list_push_back(&r->reads_done, &read->link);
}

static uint64_t majority_round(const struct replica *r)
{
    struct consensus_configuration newest;
    struct consensus_configuration committed;
    const bool pending = consensus_members(r->core, &newest, &committed);
    const uint64_t reached = lease_reached(&r->lease, &newest, r->id);
    const uint64_t before = pending ? lease_reached(&r->lease, &committed, r->id) : reached;

    return before < reached ? before : reached;
}

static void round_open(struct replica *r)
{
    struct consensus_configuration newest;
    struct consensus_configuration committed;

    (void)lease_round(&r->lease, replica_now_ns(r), true);
    (void)consensus_members(r->core, &newest, &committed);
    for (uint32_t i = 0; i < newest.count; i++) {
        if (newest.members[i].id != r->id) {
            link_send_round(r, newest.members[i].id, FRAME_ROUND);
        }
    }
    for (uint32_t i = 0; i < committed.count; i++) { /* the one that is being removed */
        bool asked = committed.members[i].id == r->id;

        for (uint32_t k = 0; k < newest.count; k++) {
            asked = asked || newest.members[k].id == committed.members[i].id;
        }
        if (!asked) {
            link_send_round(r, committed.members[i].id, FRAME_ROUND);
        }
    }
}

void replica_read_index(struct replica *r, struct replica_read *read)
{
    ASSERT(read->done != NULL);
    list_init(&read->link);
    read->index = r->commit;
    read->round = ROUND_NONE;
    list_push_back(&r->reads, &read->link);
    r->read_count++;
    if (r->read_count > REPLICA_READS_MAX) {
        read_end(r, read, RC_BUSY);
    } else if (atomic_load(&r->shared_state) != REPLICA_SERVING || r->closing) {
        read_end(r, read, RC_NOT_LEADER);
    }
    propose_post_soon(r);
}

/* Asks once for all reads that have no round yet. */
static void reads_ask(struct replica *r)
{
    const bool lease = replica_lease(r, replica_now_ns(r));
    bool opened = false;

    for (struct list *at = r->reads.next; at != &r->reads; at = at->next) {
        struct replica_read *read = read_of(at);

        if (read->round != ROUND_NONE) {
            continue;
        }
        if (lease) {
            read->round = ROUND_CONFIRMED;
            continue;
        }
        if (!opened) {
            opened = true;
            round_open(r);
        }
        read->round = r->lease.round;
    }
}

void read_progress(struct replica *r)
{
    struct list *at = NULL;
    uint64_t reached = 0;

    if (list_empty(&r->reads) || atomic_load(&r->shared_state) != REPLICA_SERVING) {
        return;
    }
    reads_ask(r);
    reached = majority_round(r);
    at = r->reads.next;
    while (at != &r->reads) {
        struct replica_read *read = read_of(at);

        at = at->next;
        if (read->round <= reached) {
            read->round = ROUND_CONFIRMED;
        }
        if (read->round == ROUND_CONFIRMED && r->applied >= read->index) {
            read_end(r, read, RC_OK);
        }
    }
}

void read_lost(struct replica *r)
{
    while (!list_empty(&r->reads)) {
        read_end(r, read_of(r->reads.next), RC_NOT_LEADER);
    }
}

void read_finish(struct replica *r)
{
    while (!list_empty(&r->reads_done)) {
        struct replica_read *read = read_of(list_pop_front(&r->reads_done));

        r->read_count--;
        read->done(read);
    }
}
