/* What a start prints, and what can be lost without losing data: counted in directories for
 * placement, in block devices for the promise (DESIGN 1.2). */
#include <stdio.h>
#include <string.h>

#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/base/mem.h"

/* Losses that the metadata survives: its replicas lie on the first directories. Two voters: an
 * entry is on both before it is answered, so one may go. */
static uint32_t losses_metadata(const struct serve *serve, const uint64_t *domains)
{
    uint32_t count = serve->directories.count;
    uint32_t replicas = directories_replicas(count);
    struct place_group group = {.parity_shards = replicas == 2 ? 1 : (replicas - 1) / 2};

    group.data_shards = replicas - group.parity_shards;
    for (uint32_t i = 0; i < replicas; i++) {
        group.disks[i] = i;
    }
    return place_losses_tolerated(&group, 1, domains, count);
}

/* The slot of a disk; 0 for one that is no directory's any more. */
static uint32_t slot_of_disk(const struct serve *serve, uint64_t disk_id)
{
    for (uint32_t slot = 0; slot < serve->directories.count; slot++) {
        if (serve->directories.items[slot].disk_id == disk_id) {
            return slot;
        }
    }
    return 0;
}

/* A stored group of the scheme, its disks as slots; false: a fallback group. */
static bool group_of_scheme(const struct serve *serve, const Kist__PlacementGroup *row,
                            struct place_group *out)
{
    struct place_scheme scheme = place_scheme_for(serve->directories.count);

    if (row->data_shards != scheme.data_shards || row->parity_shards != scheme.parity_shards ||
        row->n_disks != scheme.data_shards + scheme.parity_shards) {
        return false;
    }
    out->data_shards = row->data_shards;
    out->parity_shards = row->parity_shards;
    for (size_t i = 0; i < row->n_disks; i++) {
        out->disks[i] = slot_of_disk(serve, row->disks[i]);
    }
    return true;
}

/* min(what the data survives, what the metadata survives), by domains[i] of directory i. */
static uint32_t losses_by(const struct serve *serve, const uint64_t *domains)
{
    const struct view *view = serve->meta->view(serve->meta);
    size_t count = view_group_count(view);
    struct place_group *groups = mem_alloc((count + 1) * sizeof(*groups));
    uint32_t used = 0;
    uint32_t data;
    uint32_t metadata = losses_metadata(serve, domains);

    for (size_t i = 0; i < count; i++) {
        used += group_of_scheme(serve, view_group_at(view, i), &groups[used]) ? 1 : 0;
    }
    data = place_losses_tolerated(groups, used, domains, serve->directories.count);
    mem_free(groups);
    return data < metadata ? data : metadata;
}

/* Directories that hold nothing now: missing, or empty and not refilled yet. */
static uint32_t directories_gone(const struct serve *serve)
{
    bool filling = serve->datad != NULL && datad_needs_refill(serve->datad);

    return serve->directories.missing_count + (filling ? serve->directories.empty_count : 0);
}

/* What is gone already has used up its part. */
static uint32_t losses_left(const struct serve *serve, uint32_t tolerated)
{
    uint32_t gone = directories_gone(serve);

    return gone < tolerated ? tolerated - gone : 0;
}

uint32_t serve_losses_directories(const struct serve *serve)
{
    uint64_t domains[LIMIT_DISKS] = {0};

    for (uint32_t i = 0; i < serve->directories.count; i++) {
        domains[i] = i;
    }
    return losses_left(serve, losses_by(serve, domains));
}

uint32_t serve_losses_devices(const struct serve *serve)
{
    uint64_t domains[LIMIT_DISKS] = {0};

    for (uint32_t i = 0; i < serve->directories.count; i++) {
        /* One that is missing now had a device of its own, as far as anybody knows. */
        domains[i] = serve->directories.items[i].device != 0 ? serve->directories.items[i].device
                                                             : UINT64_MAX - i;
    }
    return losses_left(serve, losses_by(serve, domains));
}

static uint32_t devices(const struct serve *serve)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < serve->directories.count; i++) {
        bool seen = false;

        for (uint32_t j = 0; j < i; j++) {
            seen = seen || serve->directories.items[i].device == serve->directories.items[j].device;
        }
        count += seen ? 0 : 1;
    }
    return count;
}

static void print_redundancy(const struct serve *serve)
{
    const struct directories *directories = &serve->directories;
    struct place_scheme scheme = place_scheme_for(directories->count);
    uint32_t lost = serve_losses_devices(serve);
    uint32_t directories_left = serve_losses_directories(serve);
    const char *more = directories_gone(serve) > 0 ? "more " : "";

    (void)printf(
        "  redundancy  %u+%u over %u director%s on %u block device%s, %u metadata replica%s\n",
        scheme.data_shards, scheme.parity_shards, directories->count,
        directories->count == 1 ? "y" : "ies", devices(serve), devices(serve) == 1 ? "" : "s",
        directories_replicas(directories->count),
        directories_replicas(directories->count) == 1 ? "" : "s");
    if (directories->count == 1) {
        (void)printf(
            "              *** NONE: one directory, one copy. When this disk is lost, everything "
            "is lost.\n"
            "              *** For redundancy start a new one with several directories (--data A "
            "--data B ...), best on other disks.\n");
    } else {
        (void)printf("              survives the loss of any %u %sdirector%s", directories_left,
                     more, directories_left == 1 ? "y" : "ies");
        if (lost == 0) {
            (void)printf(", but of NO %sblock device\n", more);
        } else {
            (void)printf(", of any %u %sblock device%s\n", lost, more, lost == 1 ? "" : "s");
        }
    }
    for (uint32_t i = 0; i < directories->count; i++) {
        const struct directory *directory = &directories->items[i];

        if (directory->state == DIRECTORY_MISSING) {
            (void)printf("              *** MISSING: %s: served without it; bring it back, or put "
                         "an empty directory "
                         "there to have it refilled\n",
                         directory->path);
        } else if (directory->state == DIRECTORY_EMPTY && !directories->first_start) {
            (void)printf(
                "              *** EMPTY: %s is being refilled; until then less can be lost\n",
                directory->path);
        }
    }
    if (serve->read_only) {
        (void)printf("              *** READ ONLY: too few metadata replicas; writes are refused "
                     "until the missing "
                     "directory is back\n");
    }
}

enum { CREDENTIALS_PATH_MAX = DIRECTORY_PATH_BYTES_MAX + 32 };

/* The file of made keys; NULL: there is none. */
static const char *credentials_path(const struct serve *serve, char path[CREDENTIALS_PATH_MAX])
{
    struct env_stat stat;

    for (uint32_t i = 0; i < serve->directories.count; i++) {
        (void)snprintf(path, CREDENTIALS_PATH_MAX, "%s/root-credentials",
                       serve->directories.items[i].path);
        if (serve->env->file->stat(serve->env, path, &stat) == RC_OK) {
            return path;
        }
    }
    return NULL;
}

static void print_keys(const struct serve *serve)
{
    char path[CREDENTIALS_PATH_MAX];
    const char *first = credentials_path(serve, path);

    if (serve->credentials_made) {
        (void)printf(
            "  access key  %s\n  secret key  %s\n              (made now, kept in %s, mode 0600)\n",
            serve->access_key, serve->secret_key, first);
    } else if (serve->options->root_access_key != NULL) {
        (void)printf("  access key  %s (secret key: KIST_ROOT_SECRET_KEY as set)\n",
                     serve->options->root_access_key);
    } else {
        (void)printf("  keys        %s\n", first != NULL ? first : "those set at the first start");
    }
}

/* Lines to paste as they are: the made keys are read from their file, given ones from where they
 * were given. */
static void print_try(const struct serve *serve, const char *endpoint)
{
    char path[CREDENTIALS_PATH_MAX];
    const char *kept =
        serve->options->root_access_key == NULL ? credentials_path(serve, path) : NULL;

    (void)printf("  try         %s%s%sexport AWS_ACCESS_KEY_ID=$KIST_ROOT_ACCESS_KEY "
                 "AWS_SECRET_ACCESS_KEY=$KIST_ROOT_SECRET_KEY AWS_DEFAULT_REGION=%s\n",
                 kept != NULL ? ". '" : "", kept != NULL ? kept : "", kept != NULL ? "'; " : "",
                 serve->options->region);
    (void)printf("              aws --endpoint-url %s s3 mb s3://photos\n"
                 "              aws --endpoint-url %s s3 cp /etc/hostname s3://photos/\n"
                 "              aws --endpoint-url %s s3 ls s3://photos\n"
                 "  stop        Ctrl-C, or SIGTERM: requests under way finish first\n",
                 endpoint, endpoint, endpoint);
}

void serve_print_banner(struct serve *serve)
{
    const char *scheme = serve->tls != NULL ? "https" : "http";
    const char *colon = strrchr(serve->listen, ':');
    char endpoint[ENV_ADDRESS_MAX + 16];

    /* A wildcard address is no endpoint: say the one that works from here. */
    ASSERT(colon != NULL);
    if (strncmp(serve->listen, "0.0.0.0:", 8) == 0 || strncmp(serve->listen, "[::]:", 5) == 0) {
        (void)snprintf(endpoint, sizeof(endpoint), "%s://127.0.0.1%s", scheme, colon);
    } else {
        (void)snprintf(endpoint, sizeof(endpoint), "%s://%s", scheme, serve->listen);
    }
    (void)printf("kist %s is ready\n  S3          %s (region %s)\n  status      http://%s/\n",
                 KIST_VERSION, endpoint, serve->options->region, serve->admin_listen);
    print_keys(serve);
    print_redundancy(serve);
    print_try(serve, endpoint);
    (void)fflush(stdout);
}
