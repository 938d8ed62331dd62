/*
 * Proposals: gathered over one turn of the loop, put into the log in one step, matched to what was
 * applied by (index, term).
 *
 *     replica_propose -> waiting --post--> core, log -> pending --applied--> finished -> done
 *
 * Promise: RC_OK only for what was applied here as this entry; RC_AMBIGUOUS only for what is in the
 * log and may yet be applied; every other rc means that it never will be. `done` never runs inside
 * replica_propose().
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/replica_internal.h"

static struct proposal *proposal_of(struct list *link)
{
    return CONTAINER_OF(link, struct proposal, link);
}

static size_t proposal_len(const struct proposal *proposal)
{
    size_t len = 0;

    for (uint32_t i = 0; i < proposal->part_count; i++) {
        len += proposal->parts[i].len;
    }
    return len;
}

void propose_post_soon(struct replica *r)
{
    if (!r->posted) {
        r->posted = true;
        r->env->post(r->env, &r->post);
    }
}

static void propose_end(struct replica *r, struct proposal *proposal, enum rc rc)
{
    list_remove(&proposal->link);
    proposal->rc = rc;
    list_push_back(&r->finished, &proposal->link);
}

void replica_propose(struct replica *r, struct proposal *proposal)
{
    const size_t len = proposal_len(proposal);
    enum rc rc = RC_OK;

    ASSERT(proposal->done != NULL);
    proposal->result = NULL;
    proposal->index = 0;
    proposal->term = 0;
    list_init(&proposal->link);
    if (len > LOG_ENTRY_BYTES_MAX) {
        rc = RC_LIMIT;
    } else if (r->stopped || r->closing || r->role != CONSENSUS_LEADER) {
        rc = RC_NOT_LEADER;
    } else if (r->proposal_count >= REPLICA_PROPOSALS_MAX ||
               r->proposal_bytes + len > REPLICA_PROPOSAL_BYTES) {
        rc = RC_BUSY;
    } else if (log_store_full(r->log)) {
        rc = RC_FULL;
    }
    r->proposal_count++;
    r->proposal_bytes += len;
    if (rc == RC_OK) {
        list_push_back(&r->waiting, &proposal->link);
    } else {
        propose_end(r, proposal, rc);
    }
    propose_post_soon(r);
}

void propose_finish(struct replica *r)
{
    while (!list_empty(&r->finished)) {
        struct proposal *proposal = proposal_of(list_pop_front(&r->finished));

        r->proposal_count--;
        r->proposal_bytes -= proposal_len(proposal);
        proposal->done(proposal);
    }
}

/* Copies the parts of the first `count` waiting proposals into one block. */
static struct entry_block *gather(struct replica *r, uint32_t count, size_t bytes,
                                  struct log_entry *entries)
{
    struct entry_block *block = mem_alloc_raw(sizeof(*block) + bytes);
    struct list *at = r->waiting.next;
    char *to = block->bytes;

    block->refs = 1;
    block->len = bytes;
    for (uint32_t i = 0; i < count; i++, at = at->next) {
        const struct proposal *proposal = proposal_of(at);

        entries[i] = (struct log_entry){
            .term = consensus_term(r->core), .type = ENTRY_COMMAND, .block = block, .data = to};
        for (uint32_t part = 0; part < proposal->part_count; part++) {
            if (proposal->parts[part].len > 0) {
                memcpy(to, proposal->parts[part].data, proposal->parts[part].len);
                to += proposal->parts[part].len;
            }
        }
        entries[i].len = (uint32_t)(to - entries[i].data);
    }
    return block;
}

static void submitted(struct replica *r, uint32_t count, uint64_t index, uint64_t term)
{
    for (uint32_t i = 0; i < count; i++) {
        struct proposal *proposal = proposal_of(list_pop_front(&r->waiting));

        proposal->index = index + i;
        proposal->term = term;
        list_push_back(&r->pending, &proposal->link);
    }
}

static void refuse_waiting(struct replica *r, enum rc rc)
{
    while (!list_empty(&r->waiting)) {
        propose_end(r, proposal_of(r->waiting.next), rc);
    }
}

/* One step for as many as fit; false: no more. */
static bool submit(struct replica *r)
{
    struct consensus_submission what = {.type = ENTRY_COMMAND};
    struct log_entry *entries = NULL;
    struct entry_block *block = NULL;
    uint32_t count = 0;
    size_t bytes = 0;
    enum rc rc = RC_OK;

    for (struct list *at = r->waiting.next; at != &r->waiting; at = at->next) {
        const size_t len = proposal_len(proposal_of(at));

        if (count == REPLICA_SUBMIT_ENTRIES || (count > 0 && bytes + len > REPLICA_SUBMIT_BYTES)) {
            break;
        }
        bytes += len;
        count++;
    }
    if (count == 0 || r->stopped) {
        return false;
    }
    entries = mem_alloc(count * sizeof(*entries));
    block = gather(r, count, bytes, entries);
    what.count = count;
    rc = consensus_submit(r->core, replica_now_ms(r), &what, &r->update, &r->step_error);
    if (rc == RC_OK) {
        submitted(r, count, r->update.entries_index, consensus_term(r->core));
        driver_carry_out(r, RC_OK, entries);
    } else {
        refuse_waiting(r, rc == RC_FULL ? RC_FULL : RC_NOT_LEADER);
    }
    entry_block_unref(block);
    mem_free(entries);
    return rc == RC_OK;
}

void propose_post(struct env_post *post)
{
    struct replica *r = CONTAINER_OF(post, struct replica, post);

    r->posted = false;
    while (submit(r)) {
    }
    driver_settle(r);
}

void propose_applied(struct replica *r, uint64_t index, uint64_t term, void *result)
{
    while (!list_empty(&r->pending)) {
        struct proposal *proposal = proposal_of(r->pending.next);

        if (proposal->index > index) {
            break;
        }
        if (proposal->index == index && proposal->term == term) {
            proposal->result = result;
            propose_end(r, proposal, RC_OK);
            return;
        }
        propose_end(r, proposal, RC_NOT_LEADER); /* another entry stands where it would be */
    }
    if (result != NULL) {
        r->machine->result_free(r->machine, result);
    }
}

void propose_lost(struct replica *r)
{
    struct list *at = r->pending.next;

    refuse_waiting(r, RC_NOT_LEADER);
    while (at != &r->pending) {
        struct proposal *proposal = proposal_of(at);

        at = at->next;
        /* What is committed will be applied here, unless the replica has stopped. */
        if (r->stopped || proposal->index > r->commit) {
            propose_end(r, proposal, RC_AMBIGUOUS);
        }
    }
}
