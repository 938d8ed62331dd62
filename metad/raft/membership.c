/*
 * Changes of the members: one at a time, by the leader, after an entry of its own term is applied.
 *
 *     asked -> (serving? nothing pending? caught up?) -> ENTRY_CHANGE in the log -> committed ->
 * done
 *
 * A learner is sent the log (or a copy of the state) like a voter, but is not counted; it is
 * promoted when it holds all but the last few entries.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "metad/raft/replica_internal.h"

enum { CAUGHT_UP_ENTRIES = 64 }; /* a learner this close will be level after one more message */

static void change_end(struct replica *r, enum rc rc)
{
    struct membership_change *change = r->change;

    r->change = NULL;
    change->rc = rc;
    list_push_back(&r->changes_done, &change->link);
}

void replica_change_membership(struct replica *r, struct membership_change *change)
{
    ASSERT(change->done != NULL && change->replica_id != 0);
    list_init(&change->link);
    change->index = 0;
    if (r->change != NULL) {
        change->rc = RC_BUSY;
        list_push_back(&r->changes_done, &change->link);
    } else if (r->closing || atomic_load(&r->shared_state) != REPLICA_SERVING) {
        change->rc = RC_NOT_LEADER;
        list_push_back(&r->changes_done, &change->link);
    } else {
        r->change = change;
    }
    propose_post_soon(r);
}

static struct consensus_member *member_find(struct consensus_configuration *members, uint64_t id)
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (members->members[i].id == id) {
            return &members->members[i];
        }
    }
    return NULL;
}

static uint32_t voters_of(const struct consensus_configuration *members)
{
    uint32_t voters = 0;

    for (uint32_t i = 0; i < members->count; i++) {
        voters += members->members[i].voter ? 1U : 0U;
    }
    return voters;
}

static enum rc edit_add(struct consensus_configuration *members, uint64_t id)
{
    if (member_find(members, id) != NULL) {
        return RC_EXISTS;
    }
    if (members->count == CONSENSUS_MEMBERS_MAX) {
        return RC_LIMIT;
    }
    members->members[members->count++] = (struct consensus_member){.id = id};
    return RC_OK;
}

static enum rc edit_promote(struct replica *r, struct consensus_configuration *members, uint64_t id)
{
    struct consensus_member *member = member_find(members, id);
    uint64_t match = 0;

    if (member == NULL) {
        return RC_NOT_FOUND;
    }
    if (member->voter) {
        return RC_EXISTS;
    }
    /* It answered in this term, lags by little, and knows that it is a member: a voter that cannot
     * vote would only count against us. */
    match = consensus_match(r->core, id);
    if (match < r->own_index || match < r->configured ||
        match + CAUGHT_UP_ENTRIES < r->entries.last_index || snapshot_send_active(r, id)) {
        return RC_BUSY;
    }
    member->voter = true;
    return RC_OK;
}

static enum rc edit_remove(struct consensus_configuration *members, uint64_t id)
{
    struct consensus_member *member = member_find(members, id);

    if (member == NULL) {
        return RC_NOT_FOUND;
    }
    if (member->voter && voters_of(members) == 1) {
        return RC_INVALID;
    }
    /* The order of the others stays: the library finds peers by position. */
    memmove(member, member + 1,
            (size_t)(&members->members[members->count] - (member + 1)) * sizeof(*member));
    members->count--;
    return RC_OK;
}

static enum rc change_edit(struct replica *r, struct consensus_configuration *members)
{
    const struct membership_change *change = r->change;

    switch (change->kind) {
    case MEMBER_ADD_LEARNER:
        return edit_add(members, change->replica_id);
    case MEMBER_PROMOTE:
        return edit_promote(r, members, change->replica_id);
    case MEMBER_REMOVE:
        return edit_remove(members, change->replica_id);
    default:
        return RC_INVALID;
    }
}

static void change_submit(struct replica *r)
{
    struct consensus_configuration members;
    char bytes[LOG_CONFIGURATION_BYTES_MAX];
    struct log_entry entry = {.type = ENTRY_CHANGE};
    struct consensus_submission what = {.type = ENTRY_CHANGE, .count = 1};
    enum rc rc = RC_OK;

    if (consensus_members(r->core, &members, NULL)) {
        change_end(r, RC_BUSY);
        return;
    }
    rc = change_edit(r, &members);
    if (rc != RC_OK) {
        change_end(r, rc);
        return;
    }
    entry.term = consensus_term(r->core);
    entry.len = (uint32_t)consensus_configuration_encode(&members, bytes);
    entry.block = mem_alloc_raw(sizeof(*entry.block) + entry.len);
    entry.block->refs = 1;
    entry.block->len = entry.len;
    memcpy(entry.block->bytes, bytes, entry.len);
    entry.data = entry.block->bytes;
    what.configuration = slice_of(entry.data, entry.len);
    rc = consensus_submit(r->core, replica_now_ms(r), &what, &r->update, &r->step_error);
    if (rc == RC_OK) {
        r->change->index = r->update.entries_index;
        driver_carry_out(r, RC_OK, &entry);
    } else {
        change_end(r, rc == RC_NOT_LEADER ? RC_NOT_LEADER : RC_BUSY);
    }
    entry_block_unref(entry.block);
}

void membership_progress(struct replica *r)
{
    if (r->change == NULL) {
        return;
    }
    if (r->change->index == 0) {
        if (atomic_load(&r->shared_state) == REPLICA_SERVING) {
            change_submit(r);
        } else {
            change_end(r, RC_NOT_LEADER);
        }
    } else if (r->commit >= r->change->index) {
        change_end(r, RC_OK);
    }
}

void membership_lost(struct replica *r)
{
    if (r->change == NULL) {
        return;
    }
    if (r->change->index == 0) {
        change_end(r, RC_NOT_LEADER);
    } else {
        change_end(r, !r->stopped && r->commit >= r->change->index ? RC_OK : RC_AMBIGUOUS);
    }
}

void membership_finish(struct replica *r)
{
    while (!list_empty(&r->changes_done)) {
        struct membership_change *change =
            CONTAINER_OF(list_pop_front(&r->changes_done), struct membership_change, link);

        change->done(change);
    }
}

uint32_t replica_members(const struct replica *r, struct replica_peer *out, uint32_t max)
{
    struct consensus_configuration members;

    if (r->core == NULL) {
        return 0;
    }
    (void)consensus_members(r->core, &members, NULL);
    for (uint32_t i = 0; i < members.count && i < max; i++) {
        out[i] = (struct replica_peer){members.members[i].id, members.members[i].voter};
    }
    return members.count < max ? members.count : max;
}
