/*
 * File calls of the simulated world. They take effect at once; what they would have cost is added
 * to node->cost_ns and delays the end of the running job. Every call that changes something counts
 * as one step at which sim_stop_after() can stop the program.
 */
#include "tests/lib/sim_file.h"

#include <string.h>

enum { FILE_FIRST = 3 }; /* so that a forgotten, zeroed descriptor is caught */

struct sim_open_file *file_of(struct sim_node *node, int file)
{
    ASSERT(file >= FILE_FIRST && (size_t)file < node->file_capacity);
    ASSERT(node->files[file] != NULL);
    return node->files[file];
}

enum rc file_step(struct sim_node *node, bool *torn)
{
    *torn = false;
    if (node->stopped) {
        return RC_IO;
    }
    node->changes += 1;
    if (node->stop_at != 0 && node->changes >= node->stop_at) {
        node->stopped = true;
        *torn = sim_chance(node->sim, 500);
        return *torn ? RC_OK : RC_IO;
    }
    return RC_OK;
}

enum rc file_fault(struct sim_node *node, struct sim_device *device, uint32_t ppm, uint64_t cost_ns)
{
    node->cost_ns += cost_ns + device->faults.slow_ns;
    if (device->faults.failed) {
        return RC_IO;
    }
    if (ppm > 0 && sim_below(node->sim, 1000000) < ppm) {
        return RC_IO;
    }
    return RC_OK;
}

enum rc file_read_now(struct sim_node *node, struct sim_open_file *open, struct sim_span span,
                      size_t *got)
{
    struct sim_device *device = open->inode->device;
    bool direct = (open->flags & ENV_OPEN_DIRECT) != 0;
    enum rc rc;

    ASSERT((open->flags & ENV_OPEN_READ) != 0);
    if (direct) {
        ASSERT(span.at % SIM_PAGE == 0 && span.len % SIM_PAGE == 0);
        ASSERT((uintptr_t)span.to % SIM_PAGE == 0);
    }
    *got = 0;
    if (node->stopped) {
        return RC_IO;
    }
    rc = file_fault(node, device, device->faults.read_error_ppm, 20 * SIM_US);
    return rc != RC_OK ? rc : inode_read(open->inode, span.to, span.len, span.at, direct, got);
}

enum rc file_write_now(struct sim_node *node, struct sim_open_file *open, struct slice from,
                       uint64_t at)
{
    struct sim_device *device = open->inode->device;
    bool torn;
    enum rc rc;

    ASSERT((open->flags & ENV_OPEN_WRITE) != 0);
    if ((open->flags & ENV_OPEN_DIRECT) != 0) {
        ASSERT(at % SIM_PAGE == 0 && from.len % SIM_PAGE == 0);
        ASSERT((uintptr_t)from.data % SIM_PAGE == 0);
    }
    rc = file_step(node, &torn);
    if (torn) {
        from.len = (size_t)sim_below(node->sim, from.len + 1);
        (void)inode_write(open->inode, from, at);
        return RC_IO;
    }
    if (rc == RC_OK) {
        rc = file_fault(node, device, device->faults.write_error_ppm, 10 * SIM_US);
    }
    return rc != RC_OK ? rc : inode_write(open->inode, from, at);
}

/* ---- The calls ---- */

static enum rc file_close_rc(struct error *error, const char *path, enum rc rc)
{
    return error_set(error, rc, "%s: %s", path, rc_text(rc));
}

static int file_add(struct sim_node *node, struct sim_inode *inode, unsigned flags)
{
    struct sim_open_file *open = mem_alloc(sizeof(*open));
    size_t file = FILE_FIRST;

    while (file < node->file_capacity && node->files[file] != NULL) {
        file += 1;
    }
    if (file >= node->file_capacity) {
        size_t capacity = file * 2 + 16;

        node->files = mem_realloc(node->files, capacity * sizeof(struct sim_open_file *));
        memset(node->files + node->file_capacity, 0,
               (capacity - node->file_capacity) * sizeof(struct sim_open_file *));
        node->file_capacity = capacity;
    }
    inode_ref(inode);
    open->inode = inode;
    open->flags = flags;
    node->files[file] = open;
    return (int)file;
}

static enum rc open_clean(struct sim_node *node, const char *path, unsigned flags, int *file)
{
    struct sim_name *name = names_find(node, path);
    bool torn;
    enum rc rc = RC_OK;

    if (name != NULL) {
        if ((flags & ENV_OPEN_EXCLUSIVE) != 0) {
            return RC_EXISTS;
        }
        if (name->now->is_directory) {
            return RC_INVALID;
        }
    } else {
        if ((flags & ENV_OPEN_CREATE) == 0 || !names_parent_exists(node, path)) {
            return RC_NOT_FOUND;
        }
        rc = file_step(node, &torn);
        if (rc == RC_OK) {
            struct sim_inode *inode = inode_new(names_device(node, path), false);

            names_change(node, NULL, path, inode);
            inode_unref(inode);
        }
        rc = torn ? RC_IO : rc;
        name = names_find(node, path);
    }
    if (rc == RC_OK) {
        ASSERT(name != NULL);
        *file = file_add(node, name->now, flags);
    }
    return rc;
}

static enum rc file_open(struct env *env, const char *path, unsigned flags, int *file,
                         struct error *error)
{
    struct sim_node *node = sim_node_of(env);
    char *clean = names_clean(path);
    enum rc rc = node->stopped ? RC_IO : RC_OK;

    ASSERT((flags & (ENV_OPEN_READ | ENV_OPEN_WRITE)) != 0);
    if (rc == RC_OK) {
        rc = file_fault(node, names_device(node, clean), 0, 20 * SIM_US);
    }
    if (rc == RC_OK) {
        rc = open_clean(node, clean, flags, file);
    }
    mem_free(clean);
    return rc == RC_OK ? RC_OK : file_close_rc(error, path, rc);
}

static void file_close(struct env *env, int file)
{
    struct sim_node *node = sim_node_of(env);
    struct sim_open_file *open = file_of(node, file);

    if (open->inode->locked_by == file) {
        open->inode->locked_by = -1;
    }
    inode_unref(open->inode);
    mem_free(open);
    node->files[file] = NULL;
}

static enum rc file_read(struct env *env, int file, void *to, size_t len, uint64_t at, size_t *got)
{
    struct sim_node *node = sim_node_of(env);

    return file_read_now(node, file_of(node, file),
                         (struct sim_span){.to = to, .len = len, .at = at}, got);
}

static enum rc file_write(struct env *env, int file, const struct slice *from, size_t count,
                          uint64_t at)
{
    struct sim_node *node = sim_node_of(env);

    for (size_t i = 0; i < count; i++) {
        enum rc rc = file_write_now(node, file_of(node, file), from[i], at);

        if (rc != RC_OK) {
            return rc;
        }
        at += from[i].len;
    }
    return RC_OK;
}

static enum rc file_sync(struct env *env, int file)
{
    struct sim_node *node = sim_node_of(env);
    struct sim_inode *inode = file_of(node, file)->inode;
    bool torn;
    enum rc rc = file_step(node, &torn);

    if (rc == RC_OK) {
        rc = file_fault(node, inode->device, inode->device->faults.sync_error_ppm, 1 * SIM_MS);
        inode_sync_end(inode_sync_begin(inode), rc == RC_OK);
    }
    return torn ? RC_IO : rc;
}

enum file_resize { FILE_ALLOCATE, FILE_PUNCH, FILE_TRUNCATE };

static enum rc file_resize(struct env *env, int file, enum file_resize how, uint64_t at,
                           uint64_t len)
{
    struct sim_node *node = sim_node_of(env);
    struct sim_open_file *open = file_of(node, file);
    bool torn;
    enum rc rc = file_step(node, &torn);

    ASSERT((open->flags & ENV_OPEN_WRITE) != 0);
    if (rc == RC_OK) {
        rc = file_fault(node, open->inode->device, 0, 50 * SIM_US);
    }
    if (rc == RC_OK && how == FILE_ALLOCATE) {
        rc = inode_allocate(open->inode, len);
    } else if (rc == RC_OK && how == FILE_PUNCH) {
        inode_punch(open->inode, at, len);
    } else if (rc == RC_OK) {
        inode_truncate(open->inode, len);
    }
    return torn ? RC_IO : rc;
}

static enum rc file_allocate(struct env *env, int file, uint64_t len)
{
    return file_resize(env, file, FILE_ALLOCATE, 0, len);
}

static enum rc file_punch(struct env *env, int file, uint64_t at, uint64_t len)
{
    return file_resize(env, file, FILE_PUNCH, at, len);
}

static enum rc file_truncate(struct env *env, int file, uint64_t len)
{
    return file_resize(env, file, FILE_TRUNCATE, 0, len);
}

static enum rc file_data_range(struct env *env, int file, uint64_t at, uint64_t *from, uint64_t *to)
{
    struct sim_node *node = sim_node_of(env);
    struct sim_inode *inode = file_of(node, file)->inode;
    enum rc rc = node->stopped ? RC_IO : file_fault(node, inode->device, 0, 1 * SIM_US);

    if (rc != RC_OK) {
        return rc;
    }
    return inode_data_range(inode, at, from, to) ? RC_OK : RC_NOT_FOUND;
}

static enum rc file_stat(struct env *env, const char *path, struct env_stat *out)
{
    struct sim_node *node = sim_node_of(env);
    char *clean = names_clean(path);
    const struct sim_name *name = names_find(node, clean);
    enum rc rc = node->stopped ? RC_IO : RC_OK;

    if (rc == RC_OK) {
        rc = file_fault(node, names_device(node, clean), 0, 1 * SIM_US);
    }
    if (rc == RC_OK && name == NULL) {
        rc = RC_NOT_FOUND;
    }
    if (rc == RC_OK) {
        *out = (struct env_stat){
            .size_bytes = name->now->size,
            .device = name->now->device->number,
            .is_directory = name->now->is_directory,
        };
    }
    mem_free(clean);
    return rc;
}

static enum rc rename_clean(struct sim_node *node, const char *from, const char *to)
{
    const struct sim_name *name = names_find(node, from);

    if (name == NULL || !names_parent_exists(node, to)) {
        return RC_NOT_FOUND;
    }
    if (names_find(node, to) != NULL &&
        (names_find(node, to)->now->is_directory || name->now->is_directory)) {
        return RC_EXISTS;
    }
    if (strcmp(from, to) == 0) {
        return RC_OK;
    }
    if (name->now->is_directory) {
        ASSERT(names_directory_empty(node, from)); /* not simulated: moving a full directory */
    }
    struct sim_inode *inode = name->now;

    inode_ref(inode);
    names_change(node, from, to, inode);
    inode_unref(inode);
    return RC_OK;
}

static enum rc remove_clean(struct sim_node *node, const char *path, bool directory)
{
    const struct sim_name *name = names_find(node, path);

    if (name == NULL) {
        return RC_NOT_FOUND;
    }
    if (name->now->is_directory != directory) {
        return RC_INVALID;
    }
    if (directory && !names_directory_empty(node, path)) {
        return RC_EXISTS;
    }
    names_change(node, path, NULL, NULL);
    return RC_OK;
}

static enum rc mkdir_clean(struct sim_node *node, const char *path)
{
    struct sim_inode *inode;

    if (names_find(node, path) != NULL) {
        return RC_EXISTS;
    }
    if (!names_parent_exists(node, path)) {
        return RC_NOT_FOUND;
    }
    inode = inode_new(names_device(node, path), true);
    names_change(node, NULL, path, inode);
    inode_unref(inode);
    return RC_OK;
}

static enum rc sync_directory_clean(struct sim_node *node, const char *path)
{
    const struct sim_name *name = names_find(node, path);

    if (name == NULL || !name->now->is_directory) {
        return RC_NOT_FOUND;
    }
    names_sync(node, path);
    return RC_OK;
}

enum file_name_op { NAME_RENAME, NAME_UNLINK, NAME_MKDIR, NAME_RMDIR, NAME_SYNC };

static enum rc file_name_op(struct env *env, enum file_name_op op, const char *path, const char *to)
{
    struct sim_node *node = sim_node_of(env);
    char *clean = names_clean(path);
    char *clean_to = to != NULL ? names_clean(to) : NULL;
    struct sim_device *device = names_device(node, clean);
    bool torn;
    enum rc rc = file_step(node, &torn);

    if (rc == RC_OK) {
        rc = file_fault(node, device, op == NAME_SYNC ? device->faults.sync_error_ppm : 0,
                        op == NAME_SYNC ? 1 * SIM_MS : 10 * SIM_US);
    }
    if (rc == RC_OK) {
        switch (op) {
        case NAME_RENAME:
            rc = rename_clean(node, clean, clean_to);
            break;
        case NAME_UNLINK:
            rc = remove_clean(node, clean, false);
            break;
        case NAME_MKDIR:
            rc = mkdir_clean(node, clean);
            break;
        case NAME_RMDIR:
            rc = remove_clean(node, clean, true);
            break;
        case NAME_SYNC:
            rc = sync_directory_clean(node, clean);
            break;
        }
    }
    mem_free(clean);
    mem_free(clean_to);
    return torn ? RC_IO : rc;
}

static enum rc file_rename(struct env *env, const char *from, const char *to)
{
    return file_name_op(env, NAME_RENAME, from, to);
}

static enum rc file_unlink(struct env *env, const char *path)
{
    return file_name_op(env, NAME_UNLINK, path, NULL);
}

static enum rc file_mkdir(struct env *env, const char *path)
{
    return file_name_op(env, NAME_MKDIR, path, NULL);
}

static enum rc file_rmdir(struct env *env, const char *path)
{
    return file_name_op(env, NAME_RMDIR, path, NULL);
}

static enum rc file_sync_directory(struct env *env, const char *path)
{
    return file_name_op(env, NAME_SYNC, path, NULL);
}

static enum rc file_list(struct env *env, const char *path, env_name_cb each, void *list)
{
    struct sim_node *node = sim_node_of(env);
    char *clean = names_clean(path);
    const struct sim_name *directory = names_find(node, clean);
    enum rc rc = node->stopped ? RC_IO : file_fault(node, names_device(node, clean), 0, 0);

    if (rc == RC_OK && (directory == NULL || !directory->now->is_directory)) {
        rc = RC_NOT_FOUND;
    }
    for (struct list *at = node->names.next; rc == RC_OK && at != &node->names;) {
        const struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

        at = at->next;
        if (name->now != NULL && names_in(name->path, clean)) {
            each(list, strrchr(name->path, '/') + 1);
        }
    }
    mem_free(clean);
    return rc;
}

static enum rc file_space(struct env *env, const char *path, uint64_t *free_bytes,
                          uint64_t *total_bytes)
{
    struct sim_node *node = sim_node_of(env);
    char *clean = names_clean(path);
    const struct sim_device *device = names_device(node, clean);
    uint64_t total = device->faults.capacity_bytes;

    mem_free(clean);
    if (node->stopped || device->faults.failed) {
        return RC_IO;
    }
    *total_bytes = total;
    *free_bytes = device->used_bytes < total ? total - device->used_bytes : 0;
    return RC_OK;
}

static enum rc file_lock(struct env *env, int file)
{
    struct sim_inode *inode = file_of(sim_node_of(env), file)->inode;

    if (inode->locked_by != -1 && inode->locked_by != file) {
        return RC_LOCKED;
    }
    inode->locked_by = file;
    return RC_OK;
}

const struct env_file sim_file = {
    .open = file_open,
    .close = file_close,
    .read = file_read,
    .write = file_write,
    .sync = file_sync,
    .allocate = file_allocate,
    .punch = file_punch,
    .truncate = file_truncate,
    .data_range = file_data_range,
    .stat = file_stat,
    .rename = file_rename,
    .unlink = file_unlink,
    .mkdir = file_mkdir,
    .rmdir = file_rmdir,
    .sync_directory = file_sync_directory,
    .list = file_list,
    .space = file_space,
    .lock = file_lock,
};
