#include "tests/lib/sim_kv_paths.h"

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/base/mem.h"

struct kv_place {
    struct list link;
    char *path;
    struct sim_kv_disk *disk;
};

enum { PATHS_BINDS_MAX = 64 };

static struct {
    struct sim *sim;
    struct list places;
    bool open;
    struct {
        char *directory;
        const struct sim_node *node;
    } binds[PATHS_BINDS_MAX];
    size_t bind_count;
} paths;

void sim_kv_paths_open(struct sim *sim)
{
    ASSERT(!paths.open);
    paths.sim = sim;
    paths.open = true;
    list_init(&paths.places);
}

static void place_free(struct kv_place *place)
{
    list_remove(&place->link);
    sim_kv_disk_free(place->disk);
    mem_free(place->path);
    mem_free(place);
}

void sim_kv_paths_close(void)
{
    ASSERT(paths.open);
    while (!list_empty(&paths.places)) {
        place_free(CONTAINER_OF(paths.places.next, struct kv_place, link));
    }
    for (size_t i = 0; i < paths.bind_count; i++) {
        mem_free(paths.binds[i].directory);
    }
    paths.bind_count = 0;
    paths.open = false;
}

void sim_kv_paths_bind(const char *directory, const struct sim_node *node)
{
    ASSERT(paths.open && paths.bind_count < PATHS_BINDS_MAX);
    paths.binds[paths.bind_count].directory = mem_copy(directory, strlen(directory));
    paths.binds[paths.bind_count].node = node;
    paths.bind_count += 1;
}

static bool path_below(const char *path, const char *directory)
{
    size_t len = strlen(directory);

    return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static const struct sim_node *node_of(const char *path)
{
    for (size_t i = 0; i < paths.bind_count; i++) {
        if (path_below(path, paths.binds[i].directory)) {
            return paths.binds[i].node;
        }
    }
    return NULL;
}

struct sim_kv_disk *sim_kv_paths_at(const char *path)
{
    ASSERT(paths.open);
    for (struct list *at = paths.places.next; at != &paths.places; at = at->next) {
        const struct kv_place *place = CONTAINER_OF(at, struct kv_place, link);

        if (strcmp(place->path, path) == 0) {
            return place->disk;
        }
    }
    return NULL;
}

enum rc sim_kv_paths_kv_open(struct kv **out, const struct kv_options *options, struct error *error)
{
    struct sim_kv_disk *disk = sim_kv_paths_at(options->path);

    if (disk == NULL) {
        struct kv_place *place;

        if (options->must_exist) {
            return error_set(error, RC_NOT_FOUND, "open %s: there is no store", options->path);
        }
        place = mem_alloc(sizeof(*place));
        place->path = mem_copy(options->path, strlen(options->path));
        place->disk = sim_kv_disk_new(paths.sim);
        sim_kv_set_node(place->disk, node_of(options->path));
        list_push_back(&paths.places, &place->link);
        disk = place->disk;
    }
    return sim_kv_open(out, disk, options, error);
}

static bool place_below(const struct kv_place *place, const char *directory)
{
    return path_below(place->path, directory);
}

void sim_kv_paths_crash(const char *directory, enum sim_crash how)
{
    for (struct list *at = paths.places.next; at != &paths.places; at = at->next) {
        const struct kv_place *place = CONTAINER_OF(at, struct kv_place, link);

        if (place_below(place, directory)) {
            sim_kv_crash(place->disk, how);
        }
    }
}

void sim_kv_paths_cache_misses(const char *directory, uint32_t per_mille)
{
    for (struct list *at = paths.places.next; at != &paths.places; at = at->next) {
        const struct kv_place *place = CONTAINER_OF(at, struct kv_place, link);

        if (place_below(place, directory)) {
            sim_kv_cache_misses(place->disk, per_mille);
        }
    }
}

void sim_kv_paths_wipe(const char *directory)
{
    for (struct list *at = paths.places.next; at != &paths.places;) {
        struct kv_place *place = CONTAINER_OF(at, struct kv_place, link);

        at = at->next;
        if (place_below(place, directory)) {
            place_free(place);
        }
    }
}
