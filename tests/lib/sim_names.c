#include "tests/lib/sim_names.h"

char *names_clean(const char *path)
{
    char *out = mem_copy(path, strlen(path));
    size_t len = 0;

    ASSERT(path[0] == '/');
    for (size_t i = 0; path[i] != '\0'; i++) {
        if (path[i] == '/' && path[i + 1] == '/') {
            continue;
        }
        out[len++] = path[i];
    }
    if (len > 1 && out[len - 1] == '/') {
        len -= 1;
    }
    out[len] = '\0';
    return out;
}

/* The entry for a path, seen or not; NULL when it never was. */
static struct sim_name *name_entry(struct sim_node *node, const char *path)
{
    for (struct list *at = node->names.next; at != &node->names; at = at->next) {
        struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

        if (strcmp(name->path, path) == 0) {
            return name;
        }
    }
    return NULL;
}

static struct sim_name *name_make(struct sim_node *node, const char *path)
{
    struct sim_name *name = name_entry(node, path);

    if (name == NULL) {
        name = mem_alloc(sizeof(*name));
        name->path = mem_copy(path, strlen(path));
        list_push_back(&node->names, &name->link);
    }
    return name;
}

static void name_drop_if_unused(struct sim_name *name)
{
    if (name->now == NULL && name->disk == NULL) {
        list_remove(&name->link);
        mem_free(name->path);
        mem_free(name);
    }
}

static void slot_set(struct sim_inode **slot, struct sim_inode *inode)
{
    if (inode != NULL) {
        inode_ref(inode);
    }
    if (*slot != NULL) {
        inode_unref(*slot);
    }
    *slot = inode;
}

struct sim_name *names_find(struct sim_node *node, const char *path)
{
    struct sim_name *name = name_entry(node, path);

    return name != NULL && name->now != NULL ? name : NULL;
}

bool names_in(const char *path, const char *directory)
{
    size_t len = strcmp(directory, "/") == 0 ? 0 : strlen(directory);

    return strncmp(path, directory, len) == 0 && path[len] == '/' && path[len + 1] != '\0' &&
           strchr(path + len + 1, '/') == NULL;
}

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == path ? mem_copy("/", 1) : mem_copy(path, (size_t)(slash - path));
}

bool names_parent_exists(struct sim_node *node, const char *path)
{
    char *parent = parent_of(path);
    const struct sim_name *name = names_find(node, parent);

    mem_free(parent);
    return name != NULL && name->now->is_directory;
}

bool names_directory_empty(struct sim_node *node, const char *directory)
{
    for (struct list *at = node->names.next; at != &node->names; at = at->next) {
        const struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

        if (name->now != NULL && names_in(name->path, directory)) {
            return false;
        }
    }
    return true;
}

struct sim_device *names_device(struct sim_node *node, const char *path)
{
    struct sim_device *best = NULL;
    size_t best_len = 0;

    for (struct list *at = node->disks.next; at != &node->disks; at = at->next) {
        struct sim_device *device = CONTAINER_OF(at, struct sim_device, link);
        size_t len = strcmp(device->path, "/") == 0 ? 0 : strlen(device->path);

        if (strncmp(path, device->path, len) == 0 && (path[len] == '/' || path[len] == '\0') &&
            (best == NULL || len > best_len)) {
            best = device;
            best_len = len;
        }
    }
    ASSERT(best != NULL);
    return best;
}

void names_change(struct sim_node *node, const char *from, const char *to, struct sim_inode *inode)
{
    struct sim_change *change = mem_alloc(sizeof(*change));

    ASSERT((to == NULL) == (inode == NULL));
    if (inode != NULL) {
        inode_ref(inode);
        change->inode = inode;
        change->to = mem_copy(to, strlen(to));
        slot_set(&name_make(node, to)->now, inode);
    }
    if (from != NULL) {
        change->from = mem_copy(from, strlen(from));
        slot_set(&name_make(node, from)->now, NULL);
    }
    list_push_back(&node->pending, &change->link);
}

static void change_free(struct sim_change *change)
{
    list_remove(&change->link);
    if (change->inode != NULL) {
        inode_unref(change->inode);
    }
    mem_free(change->from);
    mem_free(change->to);
    mem_free(change);
}

static void change_commit(struct sim_node *node, struct sim_change *change)
{
    if (change->to != NULL) {
        slot_set(&name_make(node, change->to)->disk, change->inode);
    }
    if (change->from != NULL) {
        struct sim_name *name = name_make(node, change->from);

        slot_set(&name->disk, NULL);
        name_drop_if_unused(name);
    }
    change_free(change);
}

static bool same_path(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool changes_touch(const struct sim_change *a, const struct sim_change *b)
{
    return same_path(a->from, b->from) || same_path(a->from, b->to) || same_path(a->to, b->from) ||
           same_path(a->to, b->to);
}

/* A change is wanted if it is in the directory, or if a wanted one came after it at the same name.
 */
static bool change_is_needed(struct sim_node *node, struct sim_change *change,
                             const char *directory)
{
    if ((change->from != NULL && names_in(change->from, directory)) ||
        (change->to != NULL && names_in(change->to, directory))) {
        return true;
    }
    for (struct list *at = change->link.next; at != &node->pending; at = at->next) {
        const struct sim_change *later = CONTAINER_OF(at, struct sim_change, link);

        if (later->wanted && changes_touch(change, later)) {
            return true;
        }
    }
    return false;
}

void names_sync(struct sim_node *node, const char *directory)
{
    for (struct list *at = node->pending.prev; at != &node->pending; at = at->prev) {
        struct sim_change *change = CONTAINER_OF(at, struct sim_change, link);

        change->wanted = change_is_needed(node, change, directory);
    }
    for (struct list *at = node->pending.next; at != &node->pending;) {
        struct sim_change *change = CONTAINER_OF(at, struct sim_change, link);

        at = at->next;
        if (change->wanted) {
            change_commit(node, change);
        }
    }
}

static bool durable_parent(struct sim_node *node, const char *path)
{
    char *parent = parent_of(path);
    const struct sim_name *name = name_entry(node, parent);

    mem_free(parent);
    return name != NULL && name->disk != NULL;
}

/* Drops durable names whose directory did not become durable, until none is left. */
static void orphans_drop(struct sim_node *node)
{
    bool again = true;

    while (again) {
        again = false;
        for (struct list *at = node->names.next; at != &node->names; at = at->next) {
            struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

            if (name->disk != NULL && strcmp(name->path, "/") != 0 &&
                !durable_parent(node, name->path)) {
                slot_set(&name->disk, NULL);
                again = true;
            }
        }
    }
}

void names_power_cut(struct sim_node *node)
{
    size_t count = 0;
    size_t kept;

    for (struct list *at = node->pending.next; at != &node->pending; at = at->next) {
        count += 1;
    }
    kept = (size_t)sim_below(node->sim, count + 1);
    while (!list_empty(&node->pending)) {
        struct sim_change *change = CONTAINER_OF(node->pending.next, struct sim_change, link);

        if (kept > 0) {
            kept -= 1;
            change_commit(node, change);
        } else {
            change_free(change);
        }
    }
    orphans_drop(node);
    for (struct list *at = node->names.next; at != &node->names;) {
        struct sim_name *name = CONTAINER_OF(at, struct sim_name, link);

        at = at->next;
        slot_set(&name->now, name->disk);
        name_drop_if_unused(name);
    }
}

void names_deinit(struct sim_node *node)
{
    while (!list_empty(&node->pending)) {
        change_free(CONTAINER_OF(node->pending.next, struct sim_change, link));
    }
    while (!list_empty(&node->names)) {
        struct sim_name *name = CONTAINER_OF(node->names.next, struct sim_name, link);

        slot_set(&name->now, NULL);
        slot_set(&name->disk, NULL);
        name_drop_if_unused(name);
    }
}
