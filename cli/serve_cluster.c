/*
 * What a start says to root: a new incarnation, ids for new disks, placement groups. A directory
 * that came back empty gets a new disk id and takes the old one's place in every group, under a
 * higher epoch; datad then refills it.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"

enum { DISK_HEALTHY = 1, DISK_MISSING = 2, DISK_LOST = 3 };

enum step_result serve_write(struct serve *serve, enum meta_command command,
                             const ProtobufCMessage *message)
{
    serve->write =
        (struct meta_write){.command = command, .message = message, .arena = &serve->arena};
    return serve->meta->write(serve->meta, &serve->write, &serve->start);
}

enum step_result serve_expect(struct serve *serve, Kist__Outcome also, const char *what)
{
    const Kist__Reply *reply = serve->write.reply;

    ASSERT(reply != NULL);
    if (reply->outcome == KIST__OUTCOME__OUTCOME_OK || reply->outcome == also) {
        return STEP_NEXT;
    }
    return task_fail(&serve->start, RC_INVALID, "%s: refused by the metadata (outcome %d)", what,
                     (int)reply->outcome);
}

enum step_result serve_mint_incarnation(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    Kist__Mint *mint = &serve->message.mint;

    serve->read_only = !serve->meta->ready(serve->meta);
    if (serve->read_only) {
        LOG_WARN("metadata_read_only", "reason=\"too few metadata replicas; writes are refused\"");
        return STEP_NEXT;
    }
    kist__mint__init(mint);
    mint->name = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)"incarnation", .len = 11};
    mint->count = 1;
    return serve_write(serve, META_MINT, &mint->base);
}

enum step_result serve_note_incarnation(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    if (serve->read_only) {
        serve->incarnation = UINT32_MAX; /* nothing written under it can be committed */
        return STEP_NEXT;
    }
    serve->incarnation = (uint32_t)serve->write.reply->first;
    return serve_expect(serve, KIST__OUTCOME__OUTCOME_OK, "mint an incarnation");
}

static uint32_t new_disks(const struct serve *serve)
{
    return serve->directories.first_start ? serve->directories.count
                                          : serve->directories.empty_count;
}

enum step_result serve_mint_disks(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    Kist__Mint *mint = &serve->message.mint;

    if (new_disks(serve) == 0) {
        return STEP_NEXT;
    }
    if (serve->read_only) {
        return task_fail(
            task, RC_NO_QUORUM,
            "too few metadata replicas to take a new directory in; bring the old one back");
    }
    kist__mint__init(mint);
    mint->name = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)"disk", .len = 4};
    mint->count = new_disks(serve);
    return serve_write(serve, META_MINT, &mint->base);
}

enum step_result serve_note_disks(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    uint64_t next;

    if (new_disks(serve) == 0) {
        return STEP_NEXT;
    }
    next = serve->write.reply->first;
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        struct directory *directory = &serve->directories.items[i];

        if (directory->state == DIRECTORY_EMPTY) {
            directory->disk_id = next;
            next += 1;
            if (!serve->directories.first_start) {
                LOG_WARN("disk_replaced", "path=%s old=%llu new=%llu", directory->path,
                         (unsigned long long)directory->replaced_id,
                         (unsigned long long)directory->disk_id);
            }
        }
    }
    return serve_expect(serve, KIST__OUTCOME__OUTCOME_OK, "mint disk ids");
}

enum step_result serve_refresh(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    return serve->read_only ? STEP_NEXT : serve->meta->refresh(serve->meta, &serve->refresh, task);
}

/* ---- Placement ---- */

static void disk_row(struct serve *serve, Kist__Disk *row, const struct directory *directory,
                     uint32_t slot)
{
    uint64_t free_bytes = 0;

    kist__disk__init(row);
    row->id = directory->disk_id;
    row->uuid.data = (uint8_t *)(uintptr_t)directory->uuid;
    row->uuid.len = IDENTITY_ID_BYTES;
    row->path.data = (uint8_t *)(uintptr_t)directory->path;
    row->path.len = strlen(directory->path);
    row->state = directory->state == DIRECTORY_MISSING ? DISK_MISSING : DISK_HEALTHY;
    row->domain = slot + 1;
    row->device = directory->device;
    if (directory->state != DIRECTORY_MISSING) {
        (void)serve->env->file->space(serve->env, directory->path, &free_bytes, &row->size_bytes);
    }
}

/* Rows of all directories, and of the disks that are replaced. */
static void place_disks(struct serve *serve, Kist__PutPlacement *placement)
{
    struct directories *directories = &serve->directories;
    size_t count = 2 * (size_t)directories->count;
    Kist__Disk *rows = arena_alloc(&serve->arena, count * sizeof(*rows));

    placement->disks = (Kist__Disk **)arena_alloc(&serve->arena, count * sizeof(Kist__Disk *));
    for (uint32_t i = 0; i < directories->count; i++) {
        const struct directory *directory = &directories->items[i];

        placement->disks[placement->n_disks] = &rows[placement->n_disks];
        disk_row(serve, &rows[placement->n_disks], directory, i);
        placement->n_disks += 1;
        if (directory->replaced_id != 0) {
            Kist__Disk *lost = &rows[placement->n_disks];

            kist__disk__init(lost);
            lost->id = directory->replaced_id;
            lost->state = DISK_LOST;
            lost->domain = i + 1;
            placement->disks[placement->n_disks] = lost;
            placement->n_disks += 1;
        }
    }
}

static void place_first_groups(struct serve *serve, Kist__PutPlacement *placement)
{
    struct place_group *made = mem_alloc(PLACE_GROUPS_MAX * sizeof(*made));
    uint32_t scheme_count = 0;
    uint32_t count = place_groups(serve->directories.count, made, &scheme_count);
    Kist__PlacementGroup *rows = arena_alloc(&serve->arena, count * sizeof(*rows));

    placement->groups =
        (Kist__PlacementGroup **)arena_alloc(&serve->arena, count * sizeof(Kist__PlacementGroup *));
    placement->n_groups = count;
    for (uint32_t i = 0; i < count; i++) {
        Kist__PlacementGroup *row = &rows[i];

        kist__placement_group__init(row);
        row->id = i + 1;
        row->epoch = 1;
        row->data_shards = made[i].data_shards;
        row->parity_shards = made[i].parity_shards;
        row->n_disks = made[i].data_shards + made[i].parity_shards;
        row->disks = arena_alloc(&serve->arena, row->n_disks * sizeof(uint64_t));
        for (size_t j = 0; j < row->n_disks; j++) {
            row->disks[j] = serve->directories.items[made[i].disks[j]].disk_id;
        }
        placement->groups[i] = row;
    }
    mem_free(made);
}

/* Old disk id -> new one. */
struct replacements {
    uint64_t old_ids[LIMIT_DISKS];
    uint64_t new_ids[LIMIT_DISKS];
    uint32_t count;
};

static bool id_kept(const struct serve *serve, uint64_t id)
{
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        const struct directory *directory = &serve->directories.items[i];

        if (directory->state != DIRECTORY_EMPTY && directory->disk_id == id) {
            return true;
        }
    }
    return false;
}

/* The new disk that has no old one yet: for an id of a start that was cut short after it had
 * changed the groups, and before the identities named that id. */
static uint64_t id_unused(const struct serve *serve, const struct replacements *found)
{
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        const struct directory *directory = &serve->directories.items[i];
        bool used = directory->state != DIRECTORY_EMPTY;

        for (uint32_t j = 0; j < found->count; j++) {
            used = used || found->new_ids[j] == directory->disk_id;
        }
        if (!used) {
            return directory->disk_id;
        }
    }
    return 0;
}

static void replacements_add(const struct serve *serve, struct replacements *found, uint64_t id)
{
    uint64_t with = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        if (found->old_ids[i] == id) {
            return;
        }
    }
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        const struct directory *directory = &serve->directories.items[i];

        with = directory->replaced_id == id ? directory->disk_id : with;
    }
    with = with != 0 ? with : id_unused(serve, found);
    if (with != 0 && found->count < LIMIT_DISKS) {
        found->old_ids[found->count] = id;
        found->new_ids[found->count] = with;
        found->count += 1;
    }
}

/* Ids that are named by a group and belong to no directory that is kept. Those with a known
 * successor come first, so that the others take what is left. */
static void replacements_find(const struct serve *serve, const struct view *view,
                              struct replacements *found)
{
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        if (serve->directories.items[i].replaced_id != 0) {
            replacements_add(serve, found, serve->directories.items[i].replaced_id);
        }
    }
    for (size_t i = 0; i < view_group_count(view); i++) {
        const Kist__PlacementGroup *group = view_group_at(view, i);

        for (size_t j = 0; j < group->n_disks; j++) {
            if (!id_kept(serve, group->disks[j])) {
                replacements_add(serve, found, group->disks[j]);
            }
        }
    }
}

static uint64_t replacement_of(const struct replacements *found, uint64_t id)
{
    for (uint32_t i = 0; i < found->count; i++) {
        if (found->old_ids[i] == id) {
            return found->new_ids[i];
        }
    }
    return id;
}

static void place_replace(struct serve *serve, Kist__PutPlacement *placement)
{
    const struct view *view = serve->meta->view(serve->meta);
    size_t count = view_group_count(view);
    struct replacements found = {.count = 0};

    replacements_find(serve, view, &found);
    placement->groups =
        (Kist__PlacementGroup **)arena_alloc(&serve->arena, count * sizeof(Kist__PlacementGroup *));
    for (size_t i = 0; i < count; i++) {
        const Kist__PlacementGroup *old = view_group_at(view, i);
        Kist__PlacementGroup *row = arena_alloc(&serve->arena, sizeof(*row));
        bool changed = false;

        *row = *old;
        row->disks = arena_alloc(&serve->arena, old->n_disks * sizeof(uint64_t));
        for (size_t j = 0; j < old->n_disks; j++) {
            row->disks[j] = replacement_of(&found, old->disks[j]);
            changed = changed || row->disks[j] != old->disks[j];
        }
        if (changed) {
            row->epoch = old->epoch + 1;
            placement->groups[placement->n_groups] = row;
            placement->n_groups += 1;
        }
    }
}

enum step_result serve_place(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    Kist__PutPlacement *placement = &serve->message.placement;

    if (serve->read_only) {
        return STEP_NEXT;
    }
    kist__put_placement__init(placement);
    place_disks(serve, placement); /* also at a plain start: paths and states may have changed */
    if (serve->directories.first_start) {
        place_first_groups(serve, placement);
    } else if (serve->directories.empty_count > 0) {
        place_replace(serve, placement);
    }
    return serve_write(serve, META_PUT_PLACEMENT, &placement->base);
}

enum step_result serve_placed(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);

    return serve->read_only
               ? STEP_NEXT
               : serve_expect(serve, KIST__OUTCOME__OUTCOME_OK, "store the placement groups");
}
