/*
 * One version of a key.
 *
 *     the current one      one lookup; a miss looks at history only in a bucket that was ever
 *                          versioned: there the newest version may be a delete marker
 *     a version by its id  current, history; "null" goes by the pointer row
 *     an inline body       one lookup more
 *
 * A version moves between `current` and `history`, so what was found in neither, and what a missing
 * current version says, is looked at again at one point in time.
 */
#include <assert.h>

#include "common/client/version_id.h"
#include "metad/service/read.h"
#include "metad/store/message.h"

struct get_private {
    struct store *store; /* with a reference while a body is lent */
    struct kv_pin pin;
};

static_assert(sizeof(struct get_private) <= sizeof(((struct meta_get *)NULL)->reserved),
              "the private part of the call holds it");

static struct get_private *private_of(struct meta_get *call)
{
    return (struct get_private *)(void *)call->reserved;
}

static enum rc get_body(struct read_context *read, struct meta_get *call)
{
    struct get_private *private = private_of(call);
    struct row_key key;
    enum rc rc;

    key_inline(&key, call->bucket_id, call->key, call->record->stamp);
    rc = read->store->kv->ops->get(read->store->kv, FAMILY_INLINE, row_key_slice(&key),
                                   read->cached_only ? KV_CACHED_ONLY : KV_ANY, read->snapshot,
                                   &private->pin, &read->error);
    if (rc == RC_NOT_FOUND) {
        /* Gone between the two lookups: the record is of before, so look again. */
        return RC_AGAIN;
    }
    if (rc != RC_OK) {
        return rc;
    }
    if (private->pin.value.len != call->record->size) {
        kv_release(read->store->kv, &private->pin);
        return read_corrupt(read, "an inline body");
    }
    (void)store_try_ref(read->store); /* the caller holds one: this succeeds */
    private->store = read->store;
    call->body = private->pin.value;
    return RC_OK;
}

/* ---- Lookups ---- */

static enum rc load_current(struct read_context *read, struct meta_get *call, Kist__Record **out)
{
    struct row_key key;
    void *record = NULL;
    enum rc rc;

    key_current(&key, call->bucket_id, call->key);
    rc = read_load(read, FAMILY_CURRENT, &key, &kist__record__descriptor, call->arena, &record);
    *out = record;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc load_history(struct read_context *read, struct meta_get *call, struct version_at at,
                            Kist__Record **out)
{
    struct row_key key;
    void *record = NULL;
    enum rc rc;

    key_history(&key, call->bucket_id, call->key, at.stamp, at.tie);
    rc = read_load(read, FAMILY_HISTORY, &key, &kist__record__descriptor, call->arena, &record);
    *out = record;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* The first of the key's rows in `history`. */
static enum rc load_newest_history(struct read_context *read, struct meta_get *call,
                                   Kist__Record **out)
{
    struct row_key prefix;
    struct read_walk walk;
    enum rc rc = RC_OK;

    *out = NULL;
    if (!read_spend(read, READ_SEEK_COST)) {
        return RC_AGAIN;
    }
    key_object(&prefix, call->bucket_id, call->key, KIND_HISTORY, SLICE_EMPTY);
    read_walk_open(&walk, read, FAMILY_HISTORY, &prefix, &prefix, false);
    if (read_walk_valid(&walk)) {
        *out = message_unpack(call->arena, &kist__record__descriptor, read_walk_value(&walk));
        rc = *out == NULL ? read_corrupt(read, "a version") : RC_OK;
    } else {
        rc = read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}

static bool get_names(const struct read_context *read, const struct meta_get *call,
                      const Kist__Record *record)
{
    struct version_at at = {.stamp = 0};

    if (version_id_is_null(call->version)) {
        return record->null_version || !read_versioned(read, call->bucket_id);
    }
    return version_id_unpack(call->version, &at.stamp, &at.tie) && record->stamp == at.stamp &&
           record->tie == at.tie;
}

static enum rc load_named_history(struct read_context *read, struct meta_get *call,
                                  Kist__Record **out)
{
    struct version_at at = {.stamp = 0};

    *out = NULL;
    if (version_id_is_null(call->version)) {
        enum rc rc = read_null_version(read, call->bucket_id, call->key, call->arena, &at);

        if (rc != RC_OK) {
            return rc == RC_NOT_FOUND ? RC_OK : rc;
        }
    } else if (!version_id_unpack(call->version, &at.stamp, &at.tie)) {
        return RC_OK;
    }
    return load_history(read, call, at, out);
}

/* ---- The call ---- */

static void get_found(struct meta_get *call, Kist__Record *record, bool is_current)
{
    call->record = record->delete_marker ? NULL : record;
    call->marker = record->delete_marker ? record : NULL;
    call->is_current = is_current;
}

/* Sets record or marker, or neither. A newest row of history that is no marker counts as nothing:
 * the looks do not fit together, or the state is damaged. */
static enum rc get_version(struct read_context *read, struct meta_get *call, bool *found_object)
{
    Kist__Record *current = NULL;
    Kist__Record *found = NULL;
    enum rc rc = load_current(read, call, &current);

    if (rc != RC_OK) {
        return rc;
    }
    if (current != NULL && (call->version.len == 0 || get_names(read, call, current))) {
        get_found(call, current, true);
        return RC_OK;
    }
    if (!read_versioned(read, call->bucket_id)) {
        return RC_OK;
    }
    if (call->version.len == 0) {
        rc = load_newest_history(read, call, &found);
        *found_object = rc == RC_OK && found != NULL && !found->delete_marker;
        if (rc == RC_OK && found != NULL && found->delete_marker) {
            get_found(call, found, true);
        }
        return rc;
    }
    rc = load_named_history(read, call, &found);
    if (rc == RC_OK && found != NULL) {
        get_found(call, found, false);
        if (found->delete_marker && current == NULL) {
            rc = load_newest_history(read, call, &current);
            call->is_current =
                current != NULL && current->stamp == found->stamp && current->tie == found->tie;
        }
    }
    return rc;
}

static void get_clear(struct meta_get *call)
{
    call->record = NULL;
    call->marker = NULL;
    call->is_current = false;
    call->body = SLICE_EMPTY;
}

/* An object was seen, or there is nothing that could have moved between two looks. */
static bool get_settled(const struct read_context *read, const struct meta_get *call)
{
    return call->record != NULL || !read_versioned(read, call->bucket_id);
}

static enum rc get_once(struct read_context *read, struct meta_get *call)
{
    struct read_looks looks;
    bool found_object;
    enum rc rc;

    read_looks_begin(&looks, read);
    do {
        found_object = false;
        get_clear(call);
        rc = get_version(read, call, &found_object);
    } while (rc == RC_OK && !get_settled(read, call) && read_looks_again(&looks));
    if (rc == RC_OK && found_object) {
        rc = read_corrupt(read, "a version of history where a marker should be: it");
    }
    if (rc == RC_OK && call->want_body && call->record != NULL && call->record->inline_body) {
        rc = get_body(read, call);
    }
    read_looks_end(&looks);
    return rc;
}

enum rc read_get(struct read_context *read, void *arg)
{
    enum { GET_TRIES = 16 };
    struct meta_get *call = arg;
    enum rc rc;

    *private_of(call) = (struct get_private){.store = NULL};
    get_clear(call);
    rc = read_check_bucket(read, call->bucket_id, call->generation);
    if (rc != RC_OK) {
        return rc;
    }
    rc = get_once(read, call);
    for (int i = 0; rc == RC_AGAIN && !read->cached_only && i < GET_TRIES; i++) {
        rc = get_once(read, call);
    }
    if (rc == RC_AGAIN && !read->cached_only) {
        return read_corrupt(read, "an inline body is missing: the record");
    }
    return rc;
}

void read_get_release(struct meta_get *call)
{
    struct get_private *private = private_of(call);

    if (private->store != NULL) {
        kv_release(private->store->kv, &private->pin);
        store_unref(private->store);
        private->store = NULL;
        call->body = SLICE_EMPTY;
    }
}
