/*
 * Where a replica's state lies: PATH/CURRENT holds the number of the store that counts,
 * PATH/<number>/ is that store. A copy is installed into the next number; writing CURRENT (a new
 * file, synced, renamed, directory synced) is the one instant at which it becomes the state. What
 * is left of other numbers is removed at the next open.
 */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "metad/apply/machine_private.h"

enum { MARK_MAGIC = 0x7473636b, MARK_BYTES = 16, REMOVE_DEPTH_MAX = 4 };

/* A mark: magic u32, number u64, CRC32C u32 of what precedes it. */
static void mark_path(const struct machine *machine, const char *name, const char *ending,
                      char out[MACHINE_PATH_MAX])
{
    (void)snprintf(out, MACHINE_PATH_MAX, "%s/%s%s", machine->path, name, ending);
}

void machine_store_path(const struct machine *machine, uint64_t number, char out[MACHINE_PATH_MAX])
{
    (void)snprintf(out, MACHINE_PATH_MAX, "%s/%llu", machine->path, (unsigned long long)number);
}

enum rc machine_mark_read(struct machine *machine, const char *name, uint64_t *number,
                          struct error *error)
{
    struct env *env = machine->options.env;
    char path[MACHINE_PATH_MAX];
    char bytes[MARK_BYTES + 1];
    size_t got = 0;
    int file = -1;
    enum rc rc;

    mark_path(machine, name, "", path);
    rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->read(env, file, bytes, sizeof(bytes), 0, &got);
    env->file->close(env, file);
    if (rc != RC_OK) {
        return error_set(error, rc, "read %s: %s", path, rc_text(rc));
    }
    if (got != MARK_BYTES || le32_get(bytes) != MARK_MAGIC ||
        le32_get(bytes + 12) != crc32c(0, bytes, 12)) {
        return error_set(error, RC_CORRUPT, "%s: checksum or format mismatch", path);
    }
    *number = le64_get(bytes + 4);
    return RC_OK;
}

static enum rc write_file(struct env *env, const char *path, struct slice bytes)
{
    int file = -1;
    enum rc rc = env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, NULL);

    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->truncate(env, file, 0);
    if (rc == RC_OK) {
        rc = env->file->write(env, file, &bytes, 1, 0);
    }
    if (rc == RC_OK) {
        rc = env->file->sync(env, file);
    }
    env->file->close(env, file);
    return rc;
}

enum rc machine_mark_write(struct machine *machine, const char *name, uint64_t number,
                           struct error *error)
{
    struct env *env = machine->options.env;
    char from[MACHINE_PATH_MAX];
    char to[MACHINE_PATH_MAX];
    char bytes[MARK_BYTES];
    enum rc rc;

    mark_path(machine, name, ".new", from);
    mark_path(machine, name, "", to);
    le32_put(bytes, MARK_MAGIC);
    le64_put(bytes + 4, number);
    le32_put(bytes + 12, crc32c(0, bytes, 12));
    rc = write_file(env, from, slice_of(bytes, sizeof(bytes)));
    if (rc == RC_OK) {
        rc = env->file->rename(env, from, to);
    }
    if (rc == RC_OK) {
        rc = env->file->sync_directory(env, machine->path);
    }
    return rc == RC_OK ? RC_OK : error_set(error, rc, "write %s: %s", to, rc_text(rc));
}

void machine_mark_remove(struct machine *machine, const char *name)
{
    struct env *env = machine->options.env;
    char path[MACHINE_PATH_MAX];

    mark_path(machine, name, "", path);
    (void)env->file->unlink(env, path);
}

/* ---- Removal ---- */

struct name_list {
    char (*names)[256];
    size_t count;
    size_t capacity;
};

static void name_add(void *list, const char *name)
{
    struct name_list *names = list;

    if (names->count == names->capacity) {
        names->capacity = names->capacity == 0 ? 32 : names->capacity * 2;
        names->names = mem_realloc(names->names, names->capacity * sizeof(names->names[0]));
    }
    (void)snprintf(names->names[names->count++], sizeof(names->names[0]), "%s", name);
}

/* NOLINTNEXTLINE(misc-no-recursion): at most REMOVE_DEPTH_MAX deep */
static void remove_below(struct env *env, const char *path, int depth)
{
    struct name_list names = {.count = 0};

    if (depth == 0 || env->file->list(env, path, name_add, &names) != RC_OK) {
        mem_free(names.names);
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char child[MACHINE_PATH_MAX];
        struct env_stat stat;

        if (snprintf(child, sizeof(child), "%s/%s", path, names.names[i]) >= (int)sizeof(child)) {
            continue;
        }
        if (env->file->stat(env, child, &stat) == RC_OK && stat.is_directory) {
            remove_below(env, child, depth - 1);
        } else {
            (void)env->file->unlink(env, child);
        }
    }
    mem_free(names.names);
    (void)env->file->rmdir(env, path);
}

void machine_remove_directory(struct env *env, const char *path)
{
    remove_below(env, path, REMOVE_DEPTH_MAX);
}

void machine_remove_others(struct machine *machine, uint64_t keep, uint64_t keep_too)
{
    struct env *env = machine->options.env;
    struct name_list names = {.count = 0};

    if (env->file->list(env, machine->path, name_add, &names) == RC_OK) {
        for (size_t i = 0; i < names.count; i++) {
            uint64_t number;
            char path[MACHINE_PATH_MAX];

            if (slice_to_u64(slice_str(names.names[i]), UINT64_MAX, &number) && number != keep &&
                number != keep_too) {
                machine_store_path(machine, number, path);
                machine_remove_directory(env, path);
            }
        }
    }
    mem_free(names.names);
}
