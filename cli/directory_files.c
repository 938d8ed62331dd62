/* Files of one data directory: the lock, what is foreign, making and wiping. */
#include "cli/directory_files.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"

enum { PATH_BYTES_MAX = 4096 };

static void foreign_on_name(void *list, const char *name)
{
    static const char *const ours[] = {"lock", "lost+found", "identity.new"};
    bool *foreign = list;

    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (strcmp(name, ours[i]) == 0) {
            return;
        }
    }
    *foreign = true;
}

enum rc directory_files_foreign(struct env *env, const char *path, bool *foreign)
{
    *foreign = false;
    return env->file->list(env, path, foreign_on_name, foreign);
}

bool directory_files_has(struct env *env, const char *path, const char *name)
{
    char full[PATH_BYTES_MAX];
    struct env_stat stat;

    (void)snprintf(full, sizeof(full), "%s/%s", path, name);
    return env->file->stat(env, full, &stat) == RC_OK && stat.is_directory;
}

void directory_files_parent(const char *path, char out[DIRECTORY_PATH_BYTES_MAX + 1])
{
    size_t len = strlen(path);

    ASSERT(len <= DIRECTORY_PATH_BYTES_MAX);
    while (len > 1 && path[len - 1] == '/') {
        len -= 1;
    }
    while (len > 0 && path[len - 1] != '/') {
        len -= 1;
    }
    while (len > 1 && path[len - 1] == '/') {
        len -= 1;
    }
    if (len == 0) {
        (void)snprintf(out, DIRECTORY_PATH_BYTES_MAX + 1, ".");
        return;
    }
    memcpy(out, path, len);
    out[len] = '\0';
}

static enum rc refused(struct error *error, const char *path, enum rc rc)
{
    if (rc == RC_DENIED) {
        return error_set(
            error, rc,
            "data directory %s: cannot be written: a read-only file system, or another owner; "
            "remount it or fix its owner",
            path);
    }
    if (rc == RC_FULL) {
        return error_set(error, rc, "data directory %s: the disk is full; free some space", path);
    }
    return error_set(error, rc, "data directory %s: %s", path, rc_text(rc));
}

enum rc directory_files_make(struct env *env, const char *path, uint64_t *device,
                             struct error *error)
{
    char parent[DIRECTORY_PATH_BYTES_MAX + 1];
    struct env_stat stat;
    enum rc rc = env->file->mkdir(env, path);

    if (rc != RC_OK && rc != RC_EXISTS) {
        return refused(error, path, rc);
    }
    if (rc == RC_OK) {
        directory_files_parent(path, parent);
        rc = env->file->sync_directory(env, parent);
        if (rc != RC_OK) {
            return refused(error, path, rc);
        }
    }
    rc = env->file->stat(env, path, &stat);
    if (rc != RC_OK) {
        return refused(error, path, rc);
    }
    *device = stat.device;
    return RC_OK;
}

enum rc directory_files_lock(struct env *env, const char *path, int *file, struct error *error)
{
    char full[PATH_BYTES_MAX];
    enum rc rc;

    (void)snprintf(full, sizeof(full), "%s/lock", path);
    rc = env->file->open(env, full, ENV_OPEN_READ | ENV_OPEN_WRITE | ENV_OPEN_CREATE, file, error);
    if (rc != RC_OK) {
        *file = -1;
        return refused(error, path, rc);
    }
    rc = env->file->lock(env, *file);
    if (rc == RC_OK) {
        return RC_OK;
    }
    env->file->close(env, *file);
    *file = -1;
    if (rc == RC_LOCKED) {
        return error_set(
            error, rc,
            "data directory %s is in use by another kist (or named twice); stop that one first",
            path);
    }
    return refused(error, path, rc);
}

/* ---- Removing a tree, without recursion ---- */

struct tree_entry {
    struct env *env;
    const char *path;
    char inner[PATH_BYTES_MAX]; /* a directory inside; empty: none */
};

static void tree_on_name(void *list, const char *name)
{
    struct tree_entry *entry = list;
    char full[PATH_BYTES_MAX];
    int len = snprintf(full, sizeof(full), "%s/%s", entry->path, name);

    if (len < 0 || (size_t)len >= sizeof(full)) {
        return;
    }
    /* A link is removed, never followed: unlink comes first and fails only for a directory. */
    if (entry->env->file->unlink(entry->env, full) != RC_OK) {
        memcpy(entry->inner, full, (size_t)len + 1);
    }
}

/* Goes down to a directory without directories inside, empties and removes it; from the top again.
 */
static enum rc tree_remove(struct env *env, const char *path)
{
    for (;;) {
        char at[PATH_BYTES_MAX];
        struct tree_entry entry = {.env = env};
        enum rc rc;

        (void)snprintf(at, sizeof(at), "%s", path);
        for (;;) {
            entry.path = at;
            entry.inner[0] = '\0';
            rc = env->file->list(env, at, tree_on_name, &entry);
            if (rc != RC_OK || entry.inner[0] == '\0') {
                break;
            }
            memcpy(at, entry.inner, sizeof(at));
        }
        rc = rc == RC_OK ? env->file->rmdir(env, at) : rc;
        if (rc != RC_OK || strcmp(at, path) == 0) {
            return rc == RC_NOT_FOUND ? RC_OK : rc;
        }
    }
}

enum rc directory_files_wipe(struct env *env, const char *path, struct error *error)
{
    static const char *const parts[] = {"meta", "data"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char full[PATH_BYTES_MAX];
        enum rc rc;

        (void)snprintf(full, sizeof(full), "%s/%s", path, parts[i]);
        rc = tree_remove(env, full);
        if (rc != RC_OK) {
            return refused(error, full, rc);
        }
    }
    return RC_OK;
}

void directory_files_random(struct env *env, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = env->random(env);

        memcpy(out + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
    }
}
