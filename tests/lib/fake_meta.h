/*
 * metad in memory: a small reference model behind common/client/meta_client.h, for the tests of
 * gateway/s3. It keeps objects and uploads in sorted arrays and decides as simply as can be; what
 * metad really does is tested in tests/unit/metad. Its view lags on purpose: buckets made or
 * deleted show only after a refresh.
 */
#ifndef TESTS_LIB_FAKE_META_H
#define TESTS_LIB_FAKE_META_H

#include "common/client/meta_client.h"
#include "common/env/env.h"

enum { FAKE_META_BUCKETS_MAX = 64 };

struct fake_bucket {
    uint64_t id;
    uint64_t generation;
    struct slice name;
    struct slice owner;
    uint64_t created;
    struct slice settings; /* packed Settings; empty: none was ever set */
    uint32_t versioning;   /* 0 off, 1 enabled, 2 suspended: by PUT_SETTING, or a test sets it */
};

struct fake_user {
    const char *access_key;
    const char *secret_key;
    const char *user;
};

/* One version: of a key, the newest comes first. */
struct fake_object {
    uint64_t bucket_id;
    struct slice key;
    uint64_t stamp;
    bool null_version;
    bool marker;
    struct slice record; /* packed, with all pieces */
    struct slice body;
    struct slice layout; /* packed LayoutChunk: pieces and part summaries */
};

struct fake_upload {
    uint64_t bucket_id;
    struct slice key;
    struct slice id;
    struct slice row;       /* packed Upload */
    struct slice parts[64]; /* packed Part, by number; the model keeps the first 63 numbers */
    bool completed;
    struct slice manifest; /* digest of the Complete that succeeded */
    struct slice reply;    /* packed, for a repeat */
};

struct fake_meta {
    struct meta_client base;
    struct env *env;
    /* Script. */
    bool later;            /* answers come by a timer */
    enum rc write_rc;      /* of the next write: it is not applied (or, for RC_AMBIGUOUS, it is) */
    uint32_t stale_writes; /* so many writes are answered STALE_GENERATION */
    uint32_t stale_reads;  /* so many gets fail with RC_STALE */
    uint64_t part_bytes_min; /* EntityTooSmall below, but for the last part */
    const struct fake_user *users;
    size_t user_count;
    bool placed; /* the view has one placement group, 2+1 on disks 0, 1, 2 */
    /* Log. */
    uint32_t refreshes;
    uint32_t writes;
    uint32_t gets;
    uint32_t releases; /* equals gets when nothing is pinned */
    enum meta_command last_command;
    /* Private. */
    struct arena arena;
    struct view *view;
    uint64_t version;
    uint64_t last_id;
    uint64_t stamp;
    struct fake_bucket buckets[FAKE_META_BUCKETS_MAX];
    size_t bucket_count;
    struct fake_object *objects;
    size_t object_count;
    size_t object_capacity;
    struct fake_upload *uploads;
    size_t upload_count;
    size_t upload_capacity;
};

void fake_meta_init(struct fake_meta *meta, struct env *env);
void fake_meta_deinit(struct fake_meta *meta);
/* Publishes users, buckets and groups as they are now. */
void fake_meta_publish(struct fake_meta *meta);
/* The current version. NULL when absent. */
const struct fake_object *fake_meta_object(const struct fake_meta *meta, const char *bucket,
                                           const char *key);

#endif
