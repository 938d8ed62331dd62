/*
 * The data directories of one `kist serve`: what each one is, whether together they may be served,
 * their locks.
 *
 *     look (reads only) -> lock members -> [form: first start, or the empty ones that are refilled]
 * ->
 *     ... metad and datad are open ... -> commit
 *
 * Nothing is written before directories_form(), except the lock file of a directory that is a
 * member already. Every refusal is one line that says what and how to mend it.
 */
#ifndef CLI_DIRECTORIES_H
#define CLI_DIRECTORIES_H

#include "cli/identity.h"
#include "common/config/config.h"

enum directory_state {
    DIRECTORY_MEMBER = 0, /* holds a disk of the cluster */
    DIRECTORY_EMPTY,      /* nothing of value: becomes a new disk */
    DIRECTORY_MISSING     /* not there, or unreadable: served without it */
};

struct directory {
    const char *path; /* borrowed from the options */
    enum directory_state state;
    uint64_t device; /* block device it lies on; 0 when missing */
    uint64_t disk_id;
    uint64_t replaced_id; /* an empty one: the disk whose place it takes; 0: none */
    uint8_t uuid[IDENTITY_ID_BYTES];
    /* Private. */
    struct identity identity;
    bool has_identity;
    bool exists;
    bool unreadable; /* its identity: an error of the disk */
    int lock_file;   /* -1: not locked */
};

struct directories {
    struct directory items[LIMIT_DISKS]; /* by slot */
    uint32_t count;
    bool first_start; /* no directory holds anything yet */
    uint32_t empty_count;
    uint32_t missing_count;
    uint8_t cluster_id[IDENTITY_ID_BYTES];
    uint32_t cluster_epoch;
    uint64_t revision;
};

/* How many replicas of the metadata there are: on the first ones of the directories. */
uint32_t directories_replicas(uint32_t count);

/* Looks, judges, locks what is a member. RC_INVALID: the command line is wrong (exit 2); else
 * exit 1. After a failure nothing needs closing. `space_min`: free bytes that a first start wants.
 */
enum rc directories_open(struct env *env, const struct config_list *paths, uint64_t space_min,
                         struct directories *out, struct error *error);
/* Makes and locks what does not exist yet, marks the empty ones FORMING, wipes what an unfinished
 * first start left in them. Durable on return. */
enum rc directories_form(struct env *env, struct directories *directories, struct error *error);
/* All disks have their ids: writes every identity, so that the next start finds members. */
enum rc directories_commit(struct env *env, struct directories *directories, struct error *error);
void directories_close(struct env *env, struct directories *directories);

#endif
