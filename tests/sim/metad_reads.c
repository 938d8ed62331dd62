/*
 * What readers get of a real state, against the model: every version by its name, and whole
 * listings of versions and of keys, put together from pages of any size.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/client/version_id.h"
#include "metad/service/read.h"
#include "metad/store/message.h"
#include "tests/sim/metad_model.h"

enum { READS_PAGE_MAX = 7, READS_KEYS = 4 };

/* ---- By name ---- */

static void get_check(struct read_context *read, const struct model_bucket *bucket, unsigned key,
                      struct slice name, const struct model_version *want)
{
    struct arena arena;
    struct meta_get call = {.bucket_id = bucket->id,
                            .generation = bucket->generation,
                            .key = model_keys[key],
                            .version = name,
                            .want_body = true,
                            .arena = &arena};
    const Kist__Record *have;

    arena_init(&arena);
    CHECK(read_get(read, &call) == RC_OK, "get: %s", read->error.text);
    have = call.record != NULL ? call.record : call.marker;
    CHECK((have != NULL) == (want != NULL), "key %u: a version named by %zu bytes %s", key,
          name.len, want != NULL ? "is not found" : "should not be there");
    if (want != NULL) {
        CHECK((call.marker != NULL) == want->marker, "key %u: marker or not", key);
        CHECK(have->stamp == want->stamp && have->tie == want->tie, "key %u: another version", key);
        CHECK(call.is_current == (want == bucket->keys[key].versions[0]),
              "key %u: is it the newest", key);
        CHECK(slice_eq(call.body, buffer_slice(&want->body)), "key %u: another body", key);
    }
    read_get_release(&call);
    arena_deinit(&arena);
}

static void check_key(struct read_context *read, const struct model_bucket *bucket, unsigned key)
{
    const struct model_key *it = &bucket->keys[key];
    uint8_t name[VERSION_ID_BYTES];

    get_check(read, bucket, key, SLICE_EMPTY, it->count > 0 ? it->versions[0] : NULL);
    get_check(read, bucket, key, SLICE("null"), model_null(it));
    for (size_t i = 0; i < it->count; i++) {
        version_id_pack(name, it->versions[i]->stamp, it->versions[i]->tie);
        get_check(read, bucket, key, slice_of(name, sizeof(name)), it->versions[i]);
    }
    version_id_pack(name, 1, 1);
    get_check(read, bucket, key, slice_of(name, sizeof(name)), NULL);
}

/* ---- Listings ---- */

/* An entry that a page must have. */
struct wanted {
    struct slice name;
    const struct model_version *version; /* NULL: a common prefix */
    bool is_latest;
};

struct listing {
    struct arena arena;
    const struct model_bucket *bucket;
    struct slice prefix;
    struct slice delimiter;
    bool current_only;
    struct wanted *wanted;
    size_t count;
};

static int key_order(const void *a, const void *b)
{
    return slice_cmp(model_keys[*(const unsigned *)a], model_keys[*(const unsigned *)b]);
}

static void want(struct listing *listing, struct slice name, const struct model_version *version,
                 bool is_latest)
{
    listing->wanted[listing->count++] =
        (struct wanted){.name = name, .version = version, .is_latest = is_latest};
}

static void want_key(struct listing *listing, unsigned key)
{
    const struct model_key *it = &listing->bucket->keys[key];
    struct slice name = model_keys[key];
    size_t rolled_up = read_rolled_up(name, listing->prefix.len, listing->delimiter);
    size_t count = listing->current_only ? (model_current(it) != NULL ? 1 : 0) : it->count;

    if (count == 0 || !slice_starts(name, listing->prefix)) {
        return;
    }
    if (rolled_up > 0) {
        name.len = rolled_up;
        if (listing->count == 0 || !slice_eq(listing->wanted[listing->count - 1].name, name) ||
            listing->wanted[listing->count - 1].version != NULL) {
            want(listing, name, NULL, false);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        want(listing, name, it->versions[i], i == 0);
    }
}

static void listing_init(struct listing *listing)
{
    unsigned order[MODEL_KEYS];
    size_t all = 0;

    for (unsigned k = 0; k < MODEL_KEYS; k++) {
        order[k] = k;
        all += listing->bucket->keys[k].count;
    }
    qsort(order, MODEL_KEYS, sizeof(order[0]), key_order);
    arena_init(&listing->arena);
    listing->wanted = arena_alloc(&listing->arena, (all + 1) * sizeof(struct wanted));
    for (unsigned k = 0; k < MODEL_KEYS; k++) {
        want_key(listing, order[k]);
    }
}

static void entry_check(const struct listing *listing, size_t at, struct slice name,
                        const Kist__Record *record, bool is_latest)
{
    const struct wanted *it = &listing->wanted[at];

    CHECK(at < listing->count, "a listing has more than %zu entries", listing->count);
    CHECK(slice_eq(name, it->name), "entry %zu of a listing is another: %.*s, not %.*s", at,
          (int)name.len, name.data, (int)it->name.len, it->name.data);
    CHECK((record == NULL) == (it->version == NULL), "entry %zu: a common prefix or not", at);
    if (record != NULL) {
        CHECK(record->stamp == it->version->stamp && record->tie == it->version->tie &&
                  record->null_version == it->version->null_version &&
                  record->delete_marker == it->version->marker && record->size == it->version->size,
              "entry %zu of a listing is another version", at);
        CHECK(is_latest == it->is_latest, "entry %zu: is it the latest", at);
    }
}

/* The token of the next page, as a gateway makes it. */
static void versions_after(struct meta_list_versions *call)
{
    const struct meta_version_entry *last = &call->entries[call->entry_count - 1];
    uint8_t *name = arena_alloc(call->arena, VERSION_ID_BYTES);

    call->after = last->name;
    call->after_prefix = last->record == NULL;
    call->after_version = SLICE_EMPTY;
    if (last->record != NULL) {
        version_id_pack(name, last->record->stamp, last->record->tie);
        call->after_version =
            last->record->null_version ? SLICE("null") : slice_of(name, VERSION_ID_BYTES);
    }
}

static void check_versions(struct read_context *read, struct listing *listing, struct sim *sim)
{
    struct meta_list_versions call = {.bucket_id = listing->bucket->id,
                                      .generation = listing->bucket->generation,
                                      .prefix = listing->prefix,
                                      .delimiter = listing->delimiter,
                                      .arena = &listing->arena};
    size_t at = 0;

    listing_init(listing);
    do {
        call.limit = 1 + (uint32_t)sim_below(sim, READS_PAGE_MAX);
        CHECK(read_list_versions(read, &call) == RC_OK, "list versions: %s", read->error.text);
        CHECK(call.entry_count == call.limit || !call.truncated, "a short page says truncated");
        for (uint32_t i = 0; i < call.entry_count; i++) {
            entry_check(listing, at++, call.entries[i].name, call.entries[i].record,
                        call.entries[i].is_latest);
        }
        CHECK(call.truncated == (at < listing->count), "truncated at entry %zu of %zu", at,
              listing->count);
        if (call.truncated) {
            versions_after(&call);
        }
    } while (call.truncated);
    arena_deinit(&listing->arena);
}

static void check_keys(struct read_context *read, struct listing *listing, struct sim *sim)
{
    struct meta_list call = {.bucket_id = listing->bucket->id,
                             .generation = listing->bucket->generation,
                             .prefix = listing->prefix,
                             .delimiter = listing->delimiter,
                             .arena = &listing->arena};
    size_t at = 0;

    listing->count = 0;
    listing_init(listing);
    do {
        call.limit = 1 + (uint32_t)sim_below(sim, READS_PAGE_MAX);
        CHECK(read_list(read, &call) == RC_OK, "list: %s", read->error.text);
        for (uint32_t i = 0; i < call.entry_count; i++) {
            entry_check(listing, at++, call.entries[i].name, call.entries[i].record, true);
        }
        CHECK(call.truncated == (at < listing->count), "truncated at key %zu of %zu", at,
              listing->count);
        if (call.truncated) {
            call.after = call.entries[call.entry_count - 1].name;
            call.after_prefix = call.entries[call.entry_count - 1].record == NULL;
        }
    } while (call.truncated);
    arena_deinit(&listing->arena);
}

void check_reads(struct model *model, struct store *store)
{
    static const struct slice prefixes[] = {
        {.data = "",        .len = 0},
        {.data = "a",       .len = 1},
        {.data = "a\0",     .len = 2},
        {.data = "dir/",    .len = 4},
        {.data = "\xff",    .len = 1},
        {.data = "nothing", .len = 7},
    };
    static const struct slice delimiters[] = {
        {.data = "",   .len = 0},
        {.data = "/",  .len = 1},
        {.data = "\0", .len = 1}
    };
    struct read_context read = {.store = store};
    const struct model_bucket *bucket = &model->buckets[sim_below(model->sim, MODEL_BUCKETS)];
    struct listing listing = {.bucket = bucket};

    if (bucket->id == 0) {
        return;
    }
    for (unsigned i = 0; i < READS_KEYS; i++) {
        check_key(&read, bucket, (unsigned)sim_below(model->sim, MODEL_KEYS));
    }
    listing.prefix = prefixes[sim_below(model->sim, ARRAY_LEN(prefixes))];
    listing.delimiter = delimiters[sim_below(model->sim, ARRAY_LEN(delimiters))];
    check_versions(&read, &listing, model->sim);
    listing.current_only = true;
    check_keys(&read, &listing, model->sim);
}
