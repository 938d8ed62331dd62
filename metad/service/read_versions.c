/*
 * A page of versions, at one point in time: two walks over the same state, merged by key.
 *
 *     current   k1        k3 k4            the newest version of its key
 *     history   k1 k1 k2     k4 k4         older ones, newest first; the first of a key without a
 *                                          current row is the delete marker that hides it
 *
 * A common prefix costs one seek in each family, whatever it holds. A bucket that was never
 * versioned has one walk.
 */
#include "common/base/assert.h"
#include "common/client/version_id.h"
#include "metad/service/read.h"
#include "metad/store/message.h"
#include "metad/store/record_peek.h"

struct versions {
    struct read_context *read;
    struct meta_list_versions *call;
    struct read_walk current;
    struct read_walk history;
    bool has_history;         /* that walk is open */
    struct slice current_key; /* empty: at the end */
    struct row_name row;      /* of `history`; key empty: at the end */
    struct slice newest;      /* key whose newest version lies behind us; empty: none */
};

/* Where to go on within the key `after`. */
struct versions_resume {
    bool within; /* versions of `after` older than this one come too */
    struct version_at at;
};

/* ---- Where both walks stand ---- */

static enum rc current_look(struct versions *versions)
{
    uint64_t bucket_id;

    versions->current_key = SLICE_EMPTY;
    if (!read_walk_valid(&versions->current)) {
        return RC_OK;
    }
    if (!current_parse(read_walk_key(&versions->current), &bucket_id, &versions->current_key) ||
        versions->current_key.len == 0) {
        return read_corrupt(versions->read, "a key of the current family");
    }
    return RC_OK;
}

static enum rc history_look(struct versions *versions)
{
    versions->row.key = SLICE_EMPTY;
    if (!versions->has_history || !read_walk_valid(&versions->history)) {
        return RC_OK;
    }
    if (!row_name_parse(versions->call->arena, read_walk_key(&versions->history), &versions->row) ||
        versions->row.kind != KIND_HISTORY || versions->row.key.len == 0) {
        return read_corrupt(versions->read, "a key of the history family");
    }
    return RC_OK;
}

static enum rc current_next(struct versions *versions)
{
    return read_walk_next(&versions->current) ? current_look(versions) : RC_AGAIN;
}

static enum rc history_next(struct versions *versions)
{
    return read_walk_next(&versions->history) ? history_look(versions) : RC_AGAIN;
}

/* ---- Entries ---- */

static enum rc add_prefix(struct versions *versions, struct slice name)
{
    struct meta_list_versions *call = versions->call;
    struct slice copy = arena_copy(call->arena, name);
    struct row_key next;
    enum rc rc = RC_OK;

    call->entries[call->entry_count++] = (struct meta_version_entry){.name = copy};
    if (slice_starts(versions->current_key, copy)) {
        key_bucket(&next, call->bucket_id);
        row_key_append(&next, copy);
        if (!row_key_after_prefix(&next)) {
            return read_corrupt(versions->read, "a key without successor");
        }
        rc = read_walk_seek(&versions->current, &next) ? current_look(versions) : RC_AGAIN;
    }
    if (rc == RC_OK && slice_starts(versions->row.key, copy)) {
        key_object_prefix(&next, call->bucket_id, copy);
        if (!row_key_after_prefix(&next)) {
            return read_corrupt(versions->read, "a key without successor");
        }
        rc = read_walk_seek(&versions->history, &next) ? history_look(versions) : RC_AGAIN;
    }
    return rc;
}

static enum rc add_version(struct versions *versions, struct slice name, struct slice value)
{
    struct meta_list_versions *call = versions->call;
    const Kist__Record *record = record_listed(call->arena, value, call->whole);
    bool is_latest = !slice_eq(versions->newest, name);

    if (record == NULL) {
        return read_corrupt(versions->read, "a version");
    }
    if (is_latest) {
        versions->newest = arena_copy(call->arena, name);
    }
    call->entries[call->entry_count++] = (struct meta_version_entry){
        .name = versions->newest, .record = record, .is_latest = is_latest};
    return RC_OK;
}

/* At least one of the walks stands on a row. */
static enum rc add_entry(struct versions *versions)
{
    const struct meta_list_versions *call = versions->call;
    bool current =
        versions->row.key.len == 0 ||
        (versions->current_key.len > 0 && slice_cmp(versions->current_key, versions->row.key) <= 0);
    struct slice name = current ? versions->current_key : versions->row.key;
    size_t rolled_up = read_rolled_up(name, call->prefix.len, call->delimiter);
    enum rc rc;

    if (rolled_up > 0) {
        return add_prefix(versions, slice_of(name.data, rolled_up));
    }
    if (current) {
        rc = add_version(versions, name, read_walk_value(&versions->current));
        return rc == RC_OK ? current_next(versions) : rc;
    }
    rc = add_version(versions, name, read_walk_value(&versions->history));
    return rc == RC_OK ? history_next(versions) : rc;
}

/* ---- Where a page begins ---- */

/* The null version of `after`, if it is the current one. */
static enum rc current_null(struct versions *versions, struct version_at *at)
{
    const struct meta_list_versions *call = versions->call;
    const Kist__Record *record;
    struct row_key key;
    void *found = NULL;
    enum rc rc;

    key_current(&key, call->bucket_id, call->after);
    rc = read_load(versions->read, FAMILY_CURRENT, &key, &kist__record__descriptor, call->arena,
                   &found);
    if (rc != RC_OK) {
        return rc;
    }
    record = found;
    *at = (struct version_at){.stamp = record->stamp, .tie = record->tie};
    return record->null_version || !versions->has_history ? RC_OK : RC_NOT_FOUND;
}

/* A null version that is gone meanwhile has no place any more: its key begins again, so that
 * nothing is left out. */
static enum rc resume_find(struct versions *versions, struct versions_resume *resume)
{
    const struct meta_list_versions *call = versions->call;
    enum rc rc;

    *resume = (struct versions_resume){.within = false};
    if (call->after.len == 0 || call->after.len > LIMIT_KEY_BYTES || call->after_prefix ||
        call->after_version.len == 0) {
        return RC_OK;
    }
    resume->within = true;
    if (!version_id_is_null(call->after_version)) {
        resume->within = version_id_unpack(call->after_version, &resume->at.stamp, &resume->at.tie);
        return RC_OK;
    }
    rc = current_null(versions, &resume->at);
    if (rc == RC_NOT_FOUND && versions->has_history) {
        rc = read_null_version(versions->read, call->bucket_id, call->after, call->arena,
                               &resume->at);
    }
    if (rc == RC_NOT_FOUND) {
        resume->at = (struct version_at){.stamp = UINT64_MAX, .tie = UINT32_MAX};
        return RC_OK;
    }
    return rc;
}

/* The first row of either family that may belong to the page; false when nothing can follow. */
static bool start_keys(const struct meta_list_versions *call, bool within, struct row_key *current,
                       struct row_key *history)
{
    key_bucket(current, call->bucket_id);
    if (call->after.len == 0) {
        *history = *current;
        return true;
    }
    if (call->after.len > LIMIT_KEY_BYTES) {
        return false;
    }
    row_key_append(current, call->after);
    if (call->after_prefix) {
        key_object_prefix(history, call->bucket_id, call->after);
        return row_key_after_prefix(current) && row_key_after_prefix(history);
    }
    if (within) {
        key_object(history, call->bucket_id, call->after, KIND_HISTORY, SLICE_EMPTY);
    } else {
        row_key_append(current, SLICE("\0")); /* the least key that is greater */
        key_object_end(history, call->bucket_id, call->after);
    }
    return true;
}

static bool version_older(struct version_at at, struct version_at than)
{
    return at.stamp < than.stamp || (at.stamp == than.stamp && at.tie < than.tie);
}

/* Both walks stand at the key `after` or behind it: past its versions down to the named one. What
 * is passed says whether the next one is the newest of its key. */
static enum rc resume_skip(struct versions *versions, const struct versions_resume *resume)
{
    struct meta_list_versions *call = versions->call;
    struct row_key next;
    struct version_at at;
    enum rc rc = RC_OK;

    if (slice_eq(versions->current_key, call->after)) {
        const Kist__Record *record = record_peek(call->arena, read_walk_value(&versions->current));

        if (record == NULL) {
            return read_corrupt(versions->read, "a record");
        }
        at = (struct version_at){.stamp = record->stamp, .tie = record->tie};
        if (!version_older(at, resume->at)) {
            versions->newest = arena_copy(call->arena, call->after);
            rc = current_next(versions);
        }
    }
    if (rc != RC_OK || !slice_eq(versions->row.key, call->after)) {
        return rc;
    }
    if (!history_parse(versions->row.suffix, &at.stamp, &at.tie)) {
        return read_corrupt(versions->read, "a key of the history family");
    }
    if (version_older(at, resume->at)) {
        return RC_OK;
    }
    versions->newest = arena_copy(call->arena, call->after);
    key_history(&next, call->bucket_id, call->after, resume->at.stamp, resume->at.tie);
    row_key_append(&next, SLICE("\0"));
    return read_walk_seek(&versions->history, &next) ? history_look(versions) : RC_AGAIN;
}

/* ---- The page ---- */

static void raise_to(struct row_key *key, const struct row_key *least)
{
    if (slice_cmp(row_key_slice(key), row_key_slice(least)) < 0) {
        *key = *least;
    }
}

static enum rc fill_page(struct versions *versions, const struct versions_resume *resume)
{
    struct meta_list_versions *call = versions->call;
    enum rc rc = current_look(versions);

    if (rc == RC_OK) {
        rc = history_look(versions);
    }
    if (rc == RC_OK && resume->within) {
        rc = resume_skip(versions, resume);
    }
    while (rc == RC_OK && (versions->current_key.len > 0 || versions->row.key.len > 0) &&
           call->entry_count < call->limit) {
        rc = add_entry(versions);
    }
    if (rc != RC_OK) {
        return rc;
    }
    call->truncated = versions->current_key.len > 0 || versions->row.key.len > 0;
    /* Each walk that has ended has ended well. */
    if (versions->current_key.len == 0) {
        rc = read_walk_rc(&versions->current);
    }
    if (rc == RC_OK && versions->has_history && versions->row.key.len == 0) {
        rc = read_walk_rc(&versions->history);
    }
    return rc;
}

static void close_walks(struct versions *versions)
{
    read_walk_close(&versions->current);
    if (versions->has_history) {
        read_walk_close(&versions->history);
    }
}

/* Both walks open, at one point in time. False: nothing can follow, or `rc` says why not. */
static bool open_walks(struct versions *versions, struct read_looks *looks,
                       struct versions_resume *resume, enum rc *rc)
{
    const struct meta_list_versions *call = versions->call;
    struct row_key prefix;
    struct row_key rows_prefix;
    struct row_key start;
    struct row_key rows_start;

    for (;;) {
        *rc = resume_find(versions, resume);
        if (*rc != RC_OK || !start_keys(call, resume->within, &start, &rows_start)) {
            return false;
        }
        key_bucket(&prefix, call->bucket_id);
        row_key_append(&prefix, call->prefix);
        key_object_prefix(&rows_prefix, call->bucket_id, call->prefix);
        raise_to(&start, &prefix);
        raise_to(&rows_start, &rows_prefix);
        read_walk_open(&versions->current, versions->read, FAMILY_CURRENT, &start, &prefix, false);
        if (!versions->has_history) {
            return true;
        }
        read_walk_open(&versions->history, versions->read, FAMILY_HISTORY, &rows_start,
                       &rows_prefix, false);
        if (!read_looks_again(looks)) {
            return true;
        }
        close_walks(versions);
    }
}

enum rc read_list_versions(struct read_context *read, void *arg)
{
    struct meta_list_versions *call = arg;
    struct versions versions = {.read = read, .call = call};
    struct versions_resume resume;
    struct read_looks looks;
    enum rc rc = read_check_bucket(read, call->bucket_id, call->generation);

    call->entry_count = 0;
    call->truncated = false;
    if (rc != RC_OK || call->prefix.len > LIMIT_KEY_BYTES) {
        return rc;
    }
    if (!read->again) {
        ASSERT(call->limit >= 1);
        ASSERT(call->limit <= LIMIT_LIST_KEYS);
        call->entries = arena_alloc_raw(call->arena, call->limit * sizeof(*call->entries));
    }
    versions.has_history = read_versioned(read, call->bucket_id);
    read_looks_begin(&looks, read);
    if (open_walks(&versions, &looks, &resume, &rc)) {
        rc = fill_page(&versions, &resume);
        close_walks(&versions);
    }
    read_looks_end(&looks);
    return rc;
}
