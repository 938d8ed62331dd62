/* Disks and files as the test sees them from outside the program: mounts, faults, bit rot, crashes.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim_file.h"

static struct sim_device *device_new(struct sim_node *node, const char *path)
{
    struct sim_device *device = mem_alloc(sizeof(*device));

    device->path = mem_copy(path, strlen(path));
    device->number = ++node->next_device;
    device->faults.capacity_bytes = 1ULL << 40;
    list_push_back(&node->disks, &device->link);
    return device;
}

/* A directory that was always there. */
static void directory_new(struct sim_node *node, const char *path)
{
    struct sim_inode *inode = inode_new(names_device(node, path), true);
    struct sim_name *name = mem_alloc(sizeof(*name));

    ASSERT(names_find(node, path) == NULL);
    name->path = mem_copy(path, strlen(path));
    name->now = inode;
    name->disk = inode;
    inode_ref(inode);
    list_push_back(&node->names, &name->link);
}

void sim_files_init(struct sim_node *node)
{
    list_init(&node->disks);
    list_init(&node->names);
    list_init(&node->pending);
    (void)device_new(node, "/");
    directory_new(node, "/");
}

static void files_close(struct sim_node *node)
{
    for (size_t i = 0; i < node->file_capacity; i++) {
        if (node->files[i] != NULL) {
            node->files[i]->inode->locked_by = -1;
            inode_unref(node->files[i]->inode);
            mem_free(node->files[i]);
            node->files[i] = NULL;
        }
    }
}

void sim_files_deinit(struct sim_node *node)
{
    files_close(node);
    names_deinit(node);
    mem_free(node->files);
    while (!list_empty(&node->disks)) {
        struct sim_device *device =
            CONTAINER_OF(list_pop_front(&node->disks), struct sim_device, link);

        mem_free(device->path);
        mem_free(device);
    }
}

void sim_files_crash(struct sim_node *node, enum sim_crash how)
{
    files_close(node);
    node->cost_ns = 0;
    if (how == SIM_KILL) {
        return;
    }
    names_power_cut(node);
    for (struct list *at = node->names.next; at != &node->names; at = at->next) {
        inode_power_cut(CONTAINER_OF(at, struct sim_name, link)->now, node->sim);
    }
}

void sim_mount(struct sim_node *node, const char *path)
{
    char *clean = names_clean(path);

    (void)device_new(node, clean);
    directory_new(node, clean);
    mem_free(clean);
}

struct sim_disk_faults *sim_disk_faults(struct sim_node *node, const char *path)
{
    char *clean = names_clean(path);
    struct sim_device *device = names_device(node, clean);

    mem_free(clean);
    return &device->faults;
}

uint64_t sim_disk_used(struct sim_node *node, const char *path)
{
    char *clean = names_clean(path);
    const struct sim_device *device = names_device(node, clean);

    mem_free(clean);
    return device->used_bytes;
}

static struct sim_inode *inode_at(struct sim_node *node, const char *path)
{
    char *clean = names_clean(path);
    const struct sim_name *name = names_find(node, clean);

    mem_free(clean);
    return name != NULL && !name->now->is_directory ? name->now : NULL;
}

bool sim_file_flip(struct sim_node *node, const char *path, uint64_t at, unsigned bit)
{
    struct sim_inode *inode = inode_at(node, path);

    return inode != NULL && inode_flip(inode, at, bit);
}

bool sim_file_bad(struct sim_node *node, const char *path, uint64_t at, uint64_t len)
{
    struct sim_inode *inode = inode_at(node, path);

    if (inode == NULL || inode->bad_count == SIM_BAD_MAX) {
        return false;
    }
    inode->bad[inode->bad_count].at = at;
    inode->bad[inode->bad_count].len = len;
    inode->bad_count += 1;
    return true;
}

static bool path_below(const char *path, const char *top)
{
    size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

void sim_file_wipe(struct sim_node *node, const char *path)
{
    char *clean = names_clean(path);
    bool found = true;

    while (found) {
        const struct sim_name *longest = NULL;

        for (struct list *at = node->names.next; at != &node->names; at = at->next) {
            const struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

            if (name->now != NULL && path_below(name->path, clean) &&
                (longest == NULL || strlen(name->path) > strlen(longest->path))) {
                longest = name;
            }
        }
        found = longest != NULL;
        if (found) {
            char *victim = mem_copy(longest->path, strlen(longest->path));
            char *slash;

            names_change(node, victim, NULL, NULL);
            slash = strrchr(victim, '/');
            slash[slash == victim ? 1 : 0] = '\0';
            names_sync(node, victim);
            mem_free(victim);
        }
    }
    mem_free(clean);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t files_below(struct sim_node *node, const char *directory, const char ***out)
{
    char *clean = names_clean(directory);
    const char **paths = NULL;
    uint32_t count = 0;

    for (struct list *at = node->names.next; at != &node->names; at = at->next) {
        const struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

        if (name->now != NULL && !name->now->is_directory && path_below(name->path, clean)) {
            paths = mem_realloc(paths, (count + 1) * sizeof(const char *));
            paths[count++] = name->path;
        }
    }
    if (count > 0) {
        qsort(paths, count, sizeof(const char *), compare_paths);
    }
    mem_free(clean);
    *out = paths;
    return count;
}

uint32_t sim_file_count(struct sim_node *node, const char *directory)
{
    const char **paths;
    uint32_t count = files_below(node, directory, &paths);

    mem_free(paths);
    return count;
}

const char *sim_file_at(struct sim_node *node, const char *directory, uint32_t n)
{
    const char **paths;
    uint32_t count = files_below(node, directory, &paths);
    const char *path = n < count ? paths[n] : NULL;

    mem_free(paths);
    ASSERT(path != NULL);
    return path;
}

uint64_t sim_file_size(struct sim_node *node, const char *path)
{
    const struct sim_inode *inode = inode_at(node, path);

    return inode != NULL ? inode->size : 0;
}

uint32_t sim_open_files(const struct sim_node *node)
{
    uint32_t count = 0;

    for (size_t i = 0; i < node->file_capacity; i++) {
        count += node->files[i] != NULL;
    }
    return count;
}
