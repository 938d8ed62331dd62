/*
 * What a gateway may believe without asking (DESIGN 4.5): an immutable snapshot of root's buckets,
 * access keys and placement groups. It may only say yes; a no that rests on it is confirmed by
 * meta_refresh().
 *
 * Shared: a view is reference counted (any thread) and never changes. A request takes one reference
 * when it begins and drops it at its end, so what it looked up stays valid for its whole life.
 */
#ifndef COMMON_CLIENT_VIEW_H
#define COMMON_CLIENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"
#include "proto/record.pb-c.h"

struct view_key {
    const Kist__AccessKey *key; /* access key, secret, user name */
    const Kist__User *user;     /* not disabled, or NULL when the user is gone */
};

struct view_disk {
    uint64_t id;
    bool healthy; /* present and writable, as far as this process knows */
};

struct view;

struct view *view_ref(struct view *view);
void view_unref(struct view *view);

uint64_t view_version(const struct view *view); /* rises with every change */
/* NULL when absent. The results live as long as the view. */
const Kist__Bucket *view_bucket(const struct view *view, struct slice name);
const Kist__Bucket *view_bucket_by_id(const struct view *view, uint64_t id);
/* Buckets in order of their names: index 0 .. count - 1. */
size_t view_bucket_count(const struct view *view);
const Kist__Bucket *view_bucket_at(const struct view *view, size_t index);
const struct view_key *view_access_key(const struct view *view, struct slice access_key);
size_t view_user_count(const struct view *view);
const Kist__User *view_user_at(const struct view *view, size_t index);
size_t view_key_count(const struct view *view);
const Kist__AccessKey *view_key_at(const struct view *view, size_t index);
const Kist__PlacementGroup *view_group(const struct view *view, uint64_t id); /* NULL when absent */
size_t view_group_count(const struct view *view);
const Kist__PlacementGroup *view_group_at(const struct view *view, size_t index);
const struct view_disk *view_disk(const struct view *view, uint64_t id);
size_t view_disk_count(const struct view *view);
const struct view_disk *view_disk_at(const struct view *view, size_t index);

/* The builder's side (metad/service, tests): takes all messages given, which must have been
 * unpacked or made with the default allocator; returns owned with one reference. Arrays may be
 * freed at once. */
struct view_parts {
    uint64_t version;
    Kist__Bucket **buckets;
    size_t bucket_count;
    Kist__User **users;
    size_t user_count;
    Kist__AccessKey **keys;
    size_t key_count;
    Kist__PlacementGroup **groups;
    size_t group_count;
    struct view_disk *disks;
    size_t disk_count;
};
struct view *view_new(const struct view_parts *parts);

#endif
