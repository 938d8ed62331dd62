/*
 * The snapshot of root's rows. Made once with its indexes, then only read; the last reference frees
 * the messages with it. References are dropped with release order and the freeing thread acquires,
 * so what any thread read is read before the memory goes.
 */
#include "common/client/view.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/hash_map.h"
#include "common/base/mem.h"

enum { ID_KEY_BYTES = 8 };

struct view {
    atomic_uint_fast64_t references;
    uint64_t version;
    Kist__Bucket **buckets; /* sorted by name */
    size_t bucket_count;
    Kist__User **users; /* sorted by name */
    size_t user_count;
    struct view_key *keys; /* sorted by access key */
    size_t key_count;
    Kist__PlacementGroup **groups; /* sorted by id */
    size_t group_count;
    struct view_disk *disks; /* sorted by id */
    size_t disk_count;
    struct hash_map bucket_by_name;
    struct hash_map bucket_by_id; /* keys in bucket_ids */
    struct hash_map key_by_name;
    uint8_t (*bucket_ids)[ID_KEY_BYTES];
};

static struct slice slice_of_field(const ProtobufCBinaryData *field)
{
    return slice_of(field->data, field->len);
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int order_buckets(const void *a, const void *b)
{
    const Kist__Bucket *const *left = a;
    const Kist__Bucket *const *right = b;

    return slice_cmp(slice_of_field(&(*left)->name), slice_of_field(&(*right)->name));
}

static int order_users(const void *a, const void *b)
{
    const Kist__User *const *left = a;
    const Kist__User *const *right = b;

    return slice_cmp(slice_of_field(&(*left)->name), slice_of_field(&(*right)->name));
}

static int order_keys(const void *a, const void *b)
{
    const struct view_key *left = a;
    const struct view_key *right = b;

    return slice_cmp(slice_of_field(&left->key->access_key),
                     slice_of_field(&right->key->access_key));
}

static int order_groups(const void *a, const void *b)
{
    const Kist__PlacementGroup *const *left = a;
    const Kist__PlacementGroup *const *right = b;

    return order_u64((*left)->id, (*right)->id);
}

static int order_disks(const void *a, const void *b)
{
    const struct view_disk *left = a;
    const struct view_disk *right = b;

    return order_u64(left->id, right->id);
}

/* A sorted copy; NULL for none. */
static void *view_sorted(const void *items, size_t count, size_t size,
                         int (*order)(const void *, const void *))
{
    void *copy;

    if (count == 0) {
        return NULL;
    }
    copy = mem_alloc_raw(count * size);
    memcpy(copy, items, count * size);
    qsort(copy, count, size, order);
    return copy;
}

static const Kist__User *view_find_user(const struct view *view, struct slice name)
{
    size_t low = 0;
    size_t high = view->user_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_cmp(slice_of_field(&view->users[middle]->name), name);

        if (order == 0) {
            return view->users[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

static void view_index_buckets(struct view *view)
{
    hash_map_init(&view->bucket_by_name);
    hash_map_init(&view->bucket_by_id);
    view->bucket_ids = mem_alloc(view->bucket_count * sizeof(*view->bucket_ids));
    for (size_t i = 0; i < view->bucket_count; i++) {
        Kist__Bucket *bucket = view->buckets[i];

        be64_put(view->bucket_ids[i], bucket->id);
        (void)hash_map_put(&view->bucket_by_name, slice_of_field(&bucket->name), bucket);
        (void)hash_map_put(&view->bucket_by_id, slice_of(view->bucket_ids[i], ID_KEY_BYTES),
                           bucket);
    }
}

static void view_index_keys(struct view *view, const struct view_parts *parts)
{
    struct view_key *keys = mem_alloc(parts->key_count * sizeof(*keys));

    for (size_t i = 0; i < parts->key_count; i++) {
        const Kist__User *user = view_find_user(view, slice_of_field(&parts->keys[i]->user));

        keys[i].key = parts->keys[i];
        keys[i].user = user != NULL && !user->disabled ? user : NULL;
    }
    view->key_count = parts->key_count;
    view->keys = view_sorted(keys, parts->key_count, sizeof(*keys), order_keys);
    mem_free(keys);
    hash_map_init(&view->key_by_name);
    for (size_t i = 0; i < view->key_count; i++) {
        struct view_key *key = &view->keys[i];

        (void)hash_map_put(&view->key_by_name, slice_of_field(&key->key->access_key), key);
    }
}

struct view *view_new(const struct view_parts *parts)
{
    struct view *view = mem_alloc(sizeof(*view));

    atomic_init(&view->references, 1);
    view->version = parts->version;
    view->bucket_count = parts->bucket_count;
    view->buckets =
        view_sorted(parts->buckets, parts->bucket_count, sizeof(Kist__Bucket *), order_buckets);
    view->user_count = parts->user_count;
    view->users = view_sorted(parts->users, parts->user_count, sizeof(Kist__User *), order_users);
    view->group_count = parts->group_count;
    view->groups = view_sorted(parts->groups, parts->group_count, sizeof(Kist__PlacementGroup *),
                               order_groups);
    view->disk_count = parts->disk_count;
    view->disks = view_sorted(parts->disks, parts->disk_count, sizeof(*parts->disks), order_disks);
    view_index_buckets(view);
    view_index_keys(view, parts);
    return view;
}

struct view *view_ref(struct view *view)
{
    uint_fast64_t before = atomic_fetch_add_explicit(&view->references, 1, memory_order_relaxed);

    ASSERT(before > 0);
    return view;
}

static void view_free(struct view *view)
{
    for (size_t i = 0; i < view->bucket_count; i++) {
        kist__bucket__free_unpacked(view->buckets[i], NULL);
    }
    for (size_t i = 0; i < view->user_count; i++) {
        kist__user__free_unpacked(view->users[i], NULL);
    }
    for (size_t i = 0; i < view->key_count; i++) {
        kist__access_key__free_unpacked((Kist__AccessKey *)(uintptr_t)view->keys[i].key, NULL);
    }
    for (size_t i = 0; i < view->group_count; i++) {
        kist__placement_group__free_unpacked(view->groups[i], NULL);
    }
    hash_map_deinit(&view->bucket_by_name);
    hash_map_deinit(&view->bucket_by_id);
    hash_map_deinit(&view->key_by_name);
    mem_free(view->bucket_ids);
    mem_free(view->buckets);
    mem_free(view->users);
    mem_free(view->keys);
    mem_free(view->groups);
    mem_free(view->disks);
    mem_free(view);
}

void view_unref(struct view *view)
{
    uint_fast64_t before;

    if (view == NULL) {
        return;
    }
    before = atomic_fetch_sub_explicit(&view->references, 1, memory_order_release);
    ASSERT(before > 0);
    if (before == 1) {
        atomic_thread_fence(memory_order_acquire);
        view_free(view);
    }
}

uint64_t view_version(const struct view *view)
{
    return view->version;
}

const Kist__Bucket *view_bucket(const struct view *view, struct slice name)
{
    return hash_map_get(&view->bucket_by_name, name);
}

const Kist__Bucket *view_bucket_by_id(const struct view *view, uint64_t id)
{
    uint8_t key[ID_KEY_BYTES];

    be64_put(key, id);
    return hash_map_get(&view->bucket_by_id, slice_of(key, sizeof(key)));
}

size_t view_bucket_count(const struct view *view)
{
    return view->bucket_count;
}

const Kist__Bucket *view_bucket_at(const struct view *view, size_t index)
{
    ASSERT(index < view->bucket_count);
    return view->buckets[index];
}

const struct view_key *view_access_key(const struct view *view, struct slice access_key)
{
    return hash_map_get(&view->key_by_name, access_key);
}

size_t view_user_count(const struct view *view)
{
    return view->user_count;
}

const Kist__User *view_user_at(const struct view *view, size_t index)
{
    ASSERT(index < view->user_count);
    return view->users[index];
}

size_t view_key_count(const struct view *view)
{
    return view->key_count;
}

const Kist__AccessKey *view_key_at(const struct view *view, size_t index)
{
    ASSERT(index < view->key_count);
    return view->keys[index].key;
}

const Kist__PlacementGroup *view_group(const struct view *view, uint64_t id)
{
    size_t low = 0;
    size_t high = view->group_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (view->groups[middle]->id == id) {
            return view->groups[middle];
        }
        if (view->groups[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

size_t view_group_count(const struct view *view)
{
    return view->group_count;
}

const Kist__PlacementGroup *view_group_at(const struct view *view, size_t index)
{
    ASSERT(index < view->group_count);
    return view->groups[index];
}

const struct view_disk *view_disk(const struct view *view, uint64_t id)
{
    for (size_t i = 0; i < view->disk_count; i++) {
        if (view->disks[i].id == id) {
            return &view->disks[i];
        }
    }
    return NULL;
}

size_t view_disk_count(const struct view *view)
{
    return view->disk_count;
}

const struct view_disk *view_disk_at(const struct view *view, size_t index)
{
    ASSERT(index < view->disk_count);
    return &view->disks[index];
}
