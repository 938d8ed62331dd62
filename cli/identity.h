/*
 * The identity file of a data directory: which cluster it belongs to, which disk it is (FORMAT.md).
 * Read at start before anything else is touched, replaced whole (write aside, sync, rename, sync
 * the directory).
 */
#ifndef CLI_IDENTITY_H
#define CLI_IDENTITY_H

#include "common/base/limits.h"
#include "common/env/env.h"

enum { IDENTITY_ID_BYTES = 16, IDENTITY_BYTES_MAX = 24 + 64 + LIMIT_DISKS * 24 };

enum identity_state {
    IDENTITY_FORMING = 1,  /* made, but nothing in the directory is of value yet */
    IDENTITY_PREPARED = 2, /* complete; a member as soon as any other directory is READY */
    IDENTITY_READY = 3
};

struct identity_member {
    uint64_t disk_id;
    uint8_t uuid[IDENTITY_ID_BYTES];
};

struct identity {
    uint8_t cluster_id[IDENTITY_ID_BYTES];
    uint32_t cluster_epoch;
    enum identity_state state;
    uint64_t revision; /* rises with every change of the members: the highest is right */
    uint64_t disk_id;  /* minted by root; 0 while FORMING */
    uint8_t disk_uuid[IDENTITY_ID_BYTES];
    uint32_t slot; /* place of this directory in `members` */
    uint32_t member_count;
    struct identity_member members[LIMIT_DISKS];
};

/* Returns the number of bytes. */
size_t identity_encode(const struct identity *identity, uint8_t out[IDENTITY_BYTES_MAX]);
/* RC_CORRUPT: checksum, length or a value; RC_UNSUPPORTED: not ours, or a version of later. */
enum rc identity_decode(struct slice bytes, struct identity *out, struct error *error);

/* DIR/identity. RC_NOT_FOUND when there is none. */
enum rc identity_read(struct env *env, const char *directory, struct identity *out,
                      struct error *error);
/* Durable on return. */
enum rc identity_write(struct env *env, const char *directory, const struct identity *identity,
                       struct error *error);

#endif
