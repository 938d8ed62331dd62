#include "metad/service/read.h"

#include "common/base/assert.h"
#include "metad/store/message.h"

enum rc read_corrupt(struct read_context *read, const char *what)
{
    return error_set(&read->error, RC_CORRUPT, "%s does not decode", what);
}

bool read_spend(struct read_context *read, uint32_t cost)
{
    if (!read->cached_only) {
        return true;
    }
    if (read->budget < cost) {
        return false;
    }
    read->budget -= cost;
    return true;
}

enum rc read_check_bucket(struct read_context *read, uint64_t bucket_id, uint64_t generation)
{
    uint64_t known = bucket_table_get(read->store->buckets, bucket_id);

    if (known == 0) {
        return error_set(&read->error, RC_STALE, "no such bucket");
    }
    if (known != generation) {
        return error_set(&read->error, RC_STALE, "judged by generation %llu of %llu",
                         (unsigned long long)generation, (unsigned long long)known);
    }
    return RC_OK;
}

bool read_versioned(const struct read_context *read, uint64_t bucket_id)
{
    return bucket_table_versioned(read->store->buckets, bucket_id);
}

static unsigned get_flags(const struct read_context *read)
{
    return read->cached_only ? KV_CACHED_ONLY : KV_ANY;
}

enum rc read_load(struct read_context *read, enum family family, const struct row_key *key,
                  const ProtobufCMessageDescriptor *type, struct arena *arena, void **out)
{
    struct kv *kv = read->store->kv;
    struct kv_pin pin;
    enum rc rc = kv->ops->get(kv, family, row_key_slice(key), get_flags(read), read->snapshot, &pin,
                              &read->error);

    if (rc != RC_OK) {
        return rc;
    }
    *out = message_unpack(arena, type, pin.value);
    kv_release(kv, &pin);
    return *out != NULL ? RC_OK : read_corrupt(read, "a row of the state");
}

/* ---- Looks at one point in time ---- */

void read_looks_begin(struct read_looks *looks, struct read_context *read)
{
    ASSERT(read->snapshot == NULL);
    *looks = (struct read_looks){.read = read,
                                 .sequence = read->store->kv->ops->sequence(read->store->kv)};
}

bool read_looks_fit(const struct read_looks *looks)
{
    struct kv *kv = looks->read->store->kv;

    return looks->read->snapshot != NULL || kv->ops->sequence(kv) == looks->sequence;
}

bool read_looks_again(struct read_looks *looks)
{
    struct kv *kv = looks->read->store->kv;

    if (read_looks_fit(looks)) {
        return false;
    }
    looks->attempts += 1;
    if (looks->attempts >= READ_LOOKS_MAX) {
        looks->read->snapshot = kv->ops->snapshot(kv);
    }
    looks->sequence = kv->ops->sequence(kv);
    return true;
}

void read_looks_end(struct read_looks *looks)
{
    struct kv *kv = looks->read->store->kv;

    if (looks->read->snapshot != NULL) {
        kv->ops->snapshot_free(kv, looks->read->snapshot);
        looks->read->snapshot = NULL;
    }
}

size_t read_rolled_up(struct slice name, size_t from, struct slice delimiter)
{
    const char *found;

    if (delimiter.len == 0 || name.len <= from) {
        return 0;
    }
    found = memmem(name.data + from, name.len - from, delimiter.data, delimiter.len);
    return found == NULL ? 0 : (size_t)(found - name.data) + delimiter.len;
}

enum rc read_null_version(struct read_context *read, uint64_t bucket_id, struct slice key,
                          struct arena *arena, struct version_at *at)
{
    const Kist__VersionName *name;
    struct row_key row;
    void *found = NULL;
    enum rc rc;

    key_object(&row, bucket_id, key, KIND_NULL_VERSION, SLICE_EMPTY);
    rc = read_load(read, FAMILY_ROWS, &row, &kist__version_name__descriptor, arena, &found);
    if (rc == RC_OK) {
        name = found;
        *at = (struct version_at){.stamp = name->stamp, .tie = name->tie};
    }
    return rc;
}

/* ---- Walks ---- */

void read_walk_open(struct read_walk *walk, struct read_context *read, enum family family,
                    const struct row_key *lower, const struct row_key *prefix, bool bulk)
{
    struct kv_iter_options options = {.family = family,
                                      .snapshot = read->snapshot,
                                      .cached_only = read->cached_only,
                                      .bulk = bulk};

    walk->read = read;
    walk->lower = *lower;
    walk->upper = *prefix;
    walk->bounded = row_key_after_prefix(&walk->upper);
    options.lower = row_key_slice(&walk->lower);
    options.upper = walk->bounded ? row_key_slice(&walk->upper) : SLICE_EMPTY;
    walk->iter = read->store->kv->ops->iter_open(read->store->kv, &options);
    read->store->kv->ops->iter_seek(walk->iter, options.lower);
}

void read_walk_close(struct read_walk *walk)
{
    walk->read->store->kv->ops->iter_close(walk->iter);
}

bool read_walk_valid(const struct read_walk *walk)
{
    return walk->read->store->kv->ops->iter_valid(walk->iter);
}

struct slice read_walk_key(const struct read_walk *walk)
{
    return walk->read->store->kv->ops->iter_key(walk->iter);
}

struct slice read_walk_value(const struct read_walk *walk)
{
    return walk->read->store->kv->ops->iter_value(walk->iter);
}

bool read_walk_next(struct read_walk *walk)
{
    if (!read_spend(walk->read, 1)) {
        return false;
    }
    walk->read->store->kv->ops->iter_next(walk->iter);
    return true;
}

bool read_walk_seek(struct read_walk *walk, const struct row_key *key)
{
    if (!read_spend(walk->read, READ_SEEK_COST)) {
        return false;
    }
    walk->read->store->kv->ops->iter_seek(walk->iter, row_key_slice(key));
    return true;
}

enum rc read_walk_rc(struct read_walk *walk)
{
    return walk->read->store->kv->ops->iter_rc(walk->iter, &walk->read->error);
}
