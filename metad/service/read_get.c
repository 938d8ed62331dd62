/* The current version of a key: one lookup, and one more for an inline body. */
#include <assert.h>

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
    rc = kv_get(read->store->kv, FAMILY_INLINE, row_key_slice(&key),
                read->cached_only ? KV_CACHED_ONLY : KV_ANY, &private->pin, &read->error);
    if (rc == RC_NOT_FOUND) {
        /* Overwritten between the two lookups: the record is of before, so look again. */
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

static enum rc get_once(struct read_context *read, struct meta_get *call)
{
    struct row_key key;
    void *record = NULL;
    enum rc rc;

    key_current(&key, call->bucket_id, call->key);
    rc = read_load(read, FAMILY_CURRENT, &key, &kist__record__descriptor, call->arena, &record);
    call->record = record;
    if (rc == RC_NOT_FOUND) {
        return RC_OK;
    }
    if (rc == RC_OK && call->want_body && call->record->inline_body) {
        rc = get_body(read, call);
    }
    return rc;
}

enum rc read_get(struct read_context *read, void *arg)
{
    enum { GET_TRIES = 16 };
    struct meta_get *call = arg;
    enum rc rc;

    *private_of(call) = (struct get_private){.store = NULL};
    call->record = NULL;
    call->body = SLICE_EMPTY;
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
