/*
 * Which directories may be served together. Three steps: look at each (what is there), arrange them
 * by slot, judge the whole. See README.md for the table of cases and what each line tells the
 * operator.
 */
#include "cli/directories.h"

#include <stdio.h>
#include <string.h>

#include "cli/directory_files.h"
#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/placement/place.h"

/* Opening the stores writes: logs become tables. RocksDB aborts the process when that meets the end
 * of the disk, so it is refused before. Less than the reserve that a running server leaves, so that
 * a full one may be restarted and emptied. */
enum { MIB = 1024 * 1024, RESTART_FREE_BYTES_MAX = 64 * MIB, RESTART_FREE_BYTES_MIN = 16 * MIB };
enum { RESTART_FREE_SHARE = 32 };

uint32_t directories_replicas(uint32_t count)
{
    return count >= 5 ? 5 : count >= 3 ? 3 : count;
}

/* ---- Look ---- */

/* `alone`: the only directory named, so that nothing can be refilled from others. */
static enum rc identity_unusable(const char *path, bool alone, enum rc rc, struct error *error)
{
    char reason[sizeof(error->text)];

    (void)snprintf(reason, sizeof(reason), "%s", error->text);
    return error_set(
        error, rc, "data directory %s: its identity cannot be used (%s); %s%s", path, reason,
        rc == RC_UNSUPPORTED ? "run the kist that wrote it" : "bring that file back from a backup",
        alone ? ", or name another directory"
              : ", or empty the directory to have it refilled from the others");
}

static enum rc directory_look_files(struct env *env, struct directory *directory, bool alone,
                                    struct error *error)
{
    bool foreign = false;
    enum rc rc = directory_files_foreign(env, directory->path, &foreign);

    if (rc != RC_OK) {
        return error_set(error, rc, "data directory %s: %s; fix its owner or mode", directory->path,
                         rc_text(rc));
    }
    if (foreign && (directory_files_has(env, directory->path, "meta") ||
                    directory_files_has(env, directory->path, "data"))) {
        return error_set(
            error, RC_CORRUPT,
            "data directory %s: its file identity is missing though data was here; bring it back, "
            "or %s",
            directory->path,
            alone ? "name another directory"
                  : "empty the directory to have it refilled from the others");
    }
    if (foreign) {
        return error_set(
            error, RC_UNSUPPORTED,
            "data directory %s: holds files but no kist identity; name an empty directory",
            directory->path);
    }
    directory->state = DIRECTORY_EMPTY;
    return RC_OK;
}

static enum rc directory_look_identity(struct env *env, struct directory *directory, bool alone,
                                       struct error *error)
{
    enum rc rc = identity_read(env, directory->path, &directory->identity, error);

    if (rc == RC_OK) {
        directory->has_identity = true;
        directory->state =
            directory->identity.state == IDENTITY_FORMING ? DIRECTORY_EMPTY : DIRECTORY_MEMBER;
        return RC_OK;
    }
    if (rc == RC_IO) {
        directory->unreadable = true;
        directory->state = DIRECTORY_MISSING;
        return RC_OK;
    }
    if (rc == RC_CORRUPT || rc == RC_UNSUPPORTED) {
        return identity_unusable(directory->path, alone, rc, error);
    }
    if (rc != RC_NOT_FOUND) {
        return error_set(error, rc,
                         "data directory %s: not readable by this user; fix its owner or mode",
                         directory->path);
    }
    return directory_look_files(env, directory, alone, error);
}

static enum rc directory_look(struct env *env, const char *path, bool alone, struct directory *out,
                              struct error *error)
{
    struct env_stat stat;
    enum rc rc = env->file->stat(env, path, &stat);

    memset(out, 0, sizeof(*out));
    out->path = path;
    out->lock_file = -1;
    out->state = DIRECTORY_MISSING;
    if (strlen(path) > DIRECTORY_PATH_BYTES_MAX) {
        return error_set(error, RC_INVALID, "--data: a path of more than %d bytes",
                         DIRECTORY_PATH_BYTES_MAX);
    }
    if (rc == RC_NOT_FOUND || rc == RC_IO) {
        return RC_OK;
    }
    if (rc != RC_OK) {
        return error_set(error, rc, "data directory %s: %s; fix its owner or mode", path,
                         rc_text(rc));
    }
    if (!stat.is_directory) {
        return error_set(error, RC_INVALID, "--data %s is not a directory", path);
    }
    out->exists = true;
    out->device = stat.device;
    return directory_look_identity(env, out, alone, error);
}

/* ---- Arrange ---- */

/* The identity with the highest revision among those that are in use; NULL: a first start. */
static const struct identity *newest_identity(const struct directory *looked, uint32_t count)
{
    const struct identity *newest = NULL;
    bool ready = false;

    for (uint32_t i = 0; i < count; i++) {
        ready = ready ||
                (looked[i].state == DIRECTORY_MEMBER && looked[i].identity.state == IDENTITY_READY);
    }
    for (uint32_t i = 0; i < count && ready; i++) {
        if (looked[i].state == DIRECTORY_MEMBER &&
            (newest == NULL || looked[i].identity.revision > newest->revision)) {
            newest = &looked[i].identity;
        }
    }
    return newest;
}

static enum rc member_fits(const struct directory *directory, const struct identity *newest,
                           const struct directory *held, struct error *error)
{
    const struct identity *own = &directory->identity;

    if (memcmp(own->cluster_id, newest->cluster_id, IDENTITY_ID_BYTES) != 0) {
        return error_set(
            error, RC_INVALID,
            "data directory %s belongs to another cluster than the others; name the directories "
            "of one cluster",
            directory->path);
    }
    if (own->cluster_epoch != newest->cluster_epoch) {
        return error_set(
            error, RC_STALE,
            "data directory %s is of cluster epoch %u, the others of %u: it was left behind by a "
            "recovery; empty it to have it refilled",
            directory->path, own->cluster_epoch, newest->cluster_epoch);
    }
    if (own->slot >= newest->member_count || own->disk_id != newest->members[own->slot].disk_id) {
        return error_set(
            error, RC_STALE,
            "data directory %s: its disk %llu has been replaced; empty the directory if it "
            "shall be used again",
            directory->path, (unsigned long long)own->disk_id);
    }
    if (held->path != NULL) {
        return error_set(error, RC_INVALID,
                         "--data %s and %s are the same disk %llu; a copy or a link?", held->path,
                         directory->path, (unsigned long long)own->disk_id);
    }
    return RC_OK;
}

/* Members to their slots, the others to what is left: to the slot of their place on the command
 * line when it is free. */
static enum rc directories_arrange(struct directories *out, const struct directory *looked,
                                   const struct identity *newest, struct error *error)
{
    bool placed[LIMIT_DISKS] = {false};
    enum rc rc;

    for (uint32_t i = 0; i < out->count; i++) {
        if (looked[i].state == DIRECTORY_MEMBER) {
            uint32_t slot = looked[i].identity.slot;

            ASSERT(newest != NULL); /* without one nothing is a member */
            rc = member_fits(&looked[i], newest, &out->items[slot < out->count ? slot : 0], error);
            if (rc != RC_OK) {
                return rc;
            }
            out->items[slot] = looked[i];
            placed[i] = true;
        }
    }
    for (uint32_t i = 0; i < out->count; i++) {
        if (!placed[i] && out->items[i].path == NULL) {
            out->items[i] = looked[i];
            placed[i] = true;
        }
    }
    for (uint32_t i = 0, slot = 0; i < out->count; i++) {
        while (!placed[i] && out->items[slot].path != NULL) {
            slot += 1;
        }
        if (!placed[i]) {
            out->items[slot] = looked[i];
        }
    }
    return RC_OK;
}

/* ---- Judge ---- */

/* What must be there in a member; NULL: all is. Of several, an emptied part is refilled by metad or
 * datad; of one, nobody has it and a start would hide the loss. */
static const char *member_lost(struct env *env, const struct directories *directories,
                               uint32_t slot)
{
    static const char *const meta[] = {"meta", "meta/log", "meta/state"};
    static const char *const data[] = {"data", "data/segments"};
    const char *path = directories->items[slot].path;
    bool alone = directories->count == 1;

    for (size_t i = 0; i < (alone ? ARRAY_LEN(meta) : 1); i++) {
        if (slot < directories_replicas(directories->count) &&
            !directory_files_has(env, path, meta[i])) {
            return meta[i];
        }
    }
    for (size_t i = 0; i < (alone ? ARRAY_LEN(data) : 1); i++) {
        if (!directory_files_has(env, path, data[i])) {
            return data[i];
        }
    }
    return NULL;
}

static uint64_t restart_free_min(uint64_t total_bytes)
{
    uint64_t share = total_bytes / RESTART_FREE_SHARE;

    return share > RESTART_FREE_BYTES_MAX   ? RESTART_FREE_BYTES_MAX
           : share < RESTART_FREE_BYTES_MIN ? RESTART_FREE_BYTES_MIN
                                            : share;
}

static enum rc judge_member(struct env *env, const struct directories *directories, uint32_t slot,
                            struct error *error)
{
    const struct directory *directory = &directories->items[slot];
    const char *lost = member_lost(env, directories, slot);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;

    if (lost != NULL) {
        return error_set(
            error, RC_CORRUPT,
            "data directory %s: its %s/ is missing though data was here; bring it back, or %s",
            directory->path, lost,
            directories->count > 1 ? "empty the directory to have it refilled from the others"
                                   : "start with another directory");
    }
    if (env->file->space(env, directory->path, &free_bytes, &total_bytes) == RC_OK &&
        free_bytes < restart_free_min(total_bytes)) {
        return error_set(error, RC_FULL,
                         "data directory %s: the disk is full: %llu MiB are free, a start wants "
                         "%llu; free some, then start again",
                         directory->path, (unsigned long long)(free_bytes / MIB),
                         (unsigned long long)(restart_free_min(total_bytes) / MIB));
    }
    return RC_OK;
}

static enum rc judge_first_start(struct env *env, const struct directories *directories,
                                 uint64_t space_min, struct error *error)
{
    for (uint32_t i = 0; i < directories->count; i++) {
        const struct directory *directory = &directories->items[i];
        char parent[DIRECTORY_PATH_BYTES_MAX + 1];
        uint64_t free_bytes = 0;
        uint64_t total_bytes = 0;
        struct env_stat stat;

        directory_files_parent(directory->path, parent);
        if (!directory->exists &&
            (env->file->stat(env, parent, &stat) != RC_OK || !stat.is_directory)) {
            return error_set(error, RC_INVALID,
                             "--data %s: neither it nor the directory %s exists; make the parent, "
                             "or mount the disk",
                             directory->path, parent);
        }
        if (env->file->space(env, directory->exists ? directory->path : parent, &free_bytes,
                             &total_bytes) == RC_OK &&
            total_bytes > 0 && free_bytes < space_min) {
            return error_set(error, RC_FULL,
                             "data directory %s: the disk is full: %llu MiB are free, a first "
                             "start wants %llu; free "
                             "some, or name a directory on another disk",
                             directory->path, (unsigned long long)(free_bytes / MIB),
                             (unsigned long long)(space_min / MIB));
        }
    }
    return RC_OK;
}

/* Are there enough directories left that everything answered can still be read and the rest
 * refilled? */
static enum rc judge_losses(const struct directories *directories, struct error *error)
{
    struct place_scheme scheme = place_scheme_for(directories->count);
    uint32_t replicas = directories_replicas(directories->count);
    uint32_t replicas_may_go = replicas == 2 ? 1 : (replicas - 1) / 2;
    uint32_t gone = directories->empty_count + directories->missing_count;
    uint32_t replicas_gone = 0;
    char names[160] = "";

    for (uint32_t i = 0; i < directories->count; i++) {
        if (directories->items[i].state != DIRECTORY_MEMBER) {
            size_t len = strlen(names);

            replicas_gone += i < replicas ? 1 : 0;
            (void)snprintf(names + len, sizeof(names) - len, "%s%s", len > 0 ? ", " : "",
                           directories->items[i].path);
        }
    }
    if (gone > scheme.parity_shards || replicas_gone > replicas_may_go) {
        return error_set(error, RC_NO_QUORUM,
                         "%u of %u data directories are empty or missing, more than can be "
                         "refilled: %s; bring them "
                         "back (are the disks mounted?)",
                         gone, directories->count, names);
    }
    return RC_OK;
}

static enum rc directories_judge(struct env *env, struct directories *directories,
                                 uint64_t space_min, struct error *error)
{
    if (directories->first_start) {
        return judge_first_start(env, directories, space_min, error);
    }
    for (uint32_t i = 0; i < directories->count; i++) {
        enum rc rc;

        switch (directories->items[i].state) {
        case DIRECTORY_MEMBER:
            rc = judge_member(env, directories, i, error);
            if (rc != RC_OK) {
                return rc;
            }
            break;
        case DIRECTORY_EMPTY:
            directories->empty_count += 1;
            break;
        case DIRECTORY_MISSING:
            directories->missing_count += 1;
            break;
        }
    }
    return judge_losses(directories, error);
}

/* An identity on a disk with errors: the others are served without it. Where nothing else tells
 * what the cluster is, it may be its only trace: never a first start. */
static enum rc judge_unreadable(struct env *env, const struct directory *looked, uint32_t count,
                                bool known, struct error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        struct error reason = {0};
        struct identity ignored;

        if (!looked[i].unreadable) {
            continue;
        }
        (void)identity_read(env, looked[i].path, &ignored, &reason);
        if (!known) {
            return error_set(
                error, RC_IO,
                "data directory %s: its identity cannot be read (%s); mend the disk, or start "
                "again when it answers",
                looked[i].path, reason.text);
        }
        LOG_ERROR("directory_unreadable", "path=%s reason=\"%s\"", looked[i].path, reason.text);
    }
    return RC_OK;
}

/* ---- Open, form, commit, close ---- */

static enum rc directories_lock(struct env *env, struct directories *directories,
                                enum directory_state state, struct error *error)
{
    for (uint32_t i = 0; i < directories->count; i++) {
        struct directory *directory = &directories->items[i];

        if (directory->state == state && directory->lock_file < 0) {
            enum rc rc = directory_files_lock(env, directory->path, &directory->lock_file, error);

            if (rc != RC_OK) {
                return rc;
            }
        }
    }
    return RC_OK;
}

static void directories_found(struct directories *out, const struct identity *newest)
{
    memcpy(out->cluster_id, newest->cluster_id, IDENTITY_ID_BYTES);
    out->cluster_epoch = newest->cluster_epoch;
    out->revision = newest->revision;
    for (uint32_t i = 0; i < out->count; i++) {
        out->items[i].disk_id = newest->members[i].disk_id;
        memcpy(out->items[i].uuid, newest->members[i].uuid, IDENTITY_ID_BYTES);
    }
}

enum rc directories_open(struct env *env, const struct config_list *paths, uint64_t space_min,
                         struct directories *out, struct error *error)
{
    static struct directory looked[LIMIT_DISKS]; /* large; start-up runs on one thread */
    const struct identity *newest;
    enum rc rc;

    ASSERT(paths->count >= 1 && paths->count <= LIMIT_DISKS);
    memset(out, 0, sizeof(*out));
    out->count = paths->count;
    for (uint32_t i = 0; i < paths->count; i++) {
        rc = directory_look(env, paths->items[i], paths->count == 1, &looked[i], error);
        if (rc != RC_OK) {
            return rc;
        }
    }
    newest = newest_identity(looked, paths->count);
    out->first_start = newest == NULL;
    rc = judge_unreadable(env, looked, paths->count, newest != NULL, error);
    if (rc != RC_OK) {
        return rc;
    }
    if (newest != NULL && newest->member_count != paths->count) {
        return error_set(error, RC_INVALID,
                         "the cluster has %u data director%s, %u %s named; name those of its first "
                         "start with --data, also one that is gone (none can be added)",
                         newest->member_count, newest->member_count == 1 ? "y" : "ies",
                         paths->count, paths->count == 1 ? "is" : "are");
    }
    for (uint32_t i = 0; i < paths->count && newest == NULL; i++) {
        looked[i].state = DIRECTORY_EMPTY; /* what an unfinished first start left is of no value */
    }
    rc = directories_arrange(out, looked, newest, error);
    if (rc == RC_OK && newest != NULL) {
        directories_found(out, newest);
        rc = directories_lock(env, out, DIRECTORY_MEMBER, error);
    }
    rc = rc == RC_OK ? directories_judge(env, out, space_min, error) : rc;
    if (rc != RC_OK) {
        directories_close(env, out);
    }
    return rc;
}

static enum rc directory_form(struct env *env, struct directories *directories, uint32_t slot,
                              struct error *error)
{
    struct directory *directory = &directories->items[slot];
    struct identity identity = {.state = IDENTITY_FORMING,
                                .cluster_epoch = directories->cluster_epoch,
                                .slot = slot,
                                .member_count = directories->count};
    enum rc rc = directory_files_wipe(env, directory->path, error);

    if (rc != RC_OK) {
        return rc;
    }
    directory_files_random(env, directory->uuid, IDENTITY_ID_BYTES);
    directory->replaced_id = directory->disk_id;
    directory->disk_id = 0;
    memcpy(identity.cluster_id, directories->cluster_id, IDENTITY_ID_BYTES);
    memcpy(identity.disk_uuid, directory->uuid, IDENTITY_ID_BYTES);
    return identity_write(env, directory->path, &identity, error);
}

/* Somebody else may have formed the directory between the look and the lock. */
static enum rc directory_still_empty(struct env *env, const struct directory *directory,
                                     struct error *error)
{
    struct identity found;

    if (!directory->has_identity &&
        identity_read(env, directory->path, &found, NULL) != RC_NOT_FOUND) {
        return error_set(
            error, RC_LOCKED,
            "data directory %s: another kist has just begun to use it; stop it, or start again",
            directory->path);
    }
    return RC_OK;
}

enum rc directories_form(struct env *env, struct directories *directories, struct error *error)
{
    enum rc rc = RC_OK;

    if (directories->first_start) {
        directory_files_random(env, directories->cluster_id, IDENTITY_ID_BYTES);
        directories->cluster_epoch = 1;
    }
    for (uint32_t i = 0; i < directories->count && rc == RC_OK; i++) {
        struct directory *directory = &directories->items[i];

        if (directory->state == DIRECTORY_EMPTY) {
            rc = directory_files_make(env, directory->path, &directory->device, error);
        }
    }
    rc = rc == RC_OK ? directories_lock(env, directories, DIRECTORY_EMPTY, error) : rc;
    for (uint32_t i = 0; i < directories->count && rc == RC_OK; i++) {
        if (directories->items[i].state == DIRECTORY_EMPTY) {
            rc = directory_still_empty(env, &directories->items[i], error);
            rc = rc == RC_OK ? directory_form(env, directories, i, error) : rc;
        }
    }
    return rc;
}

static enum rc directories_write(struct env *env, const struct directories *directories,
                                 enum identity_state state, struct error *error)
{
    struct identity identity = {.state = state,
                                .cluster_epoch = directories->cluster_epoch,
                                .revision = directories->revision,
                                .member_count = directories->count};

    memcpy(identity.cluster_id, directories->cluster_id, IDENTITY_ID_BYTES);
    for (uint32_t i = 0; i < directories->count; i++) {
        identity.members[i].disk_id = directories->items[i].disk_id;
        memcpy(identity.members[i].uuid, directories->items[i].uuid, IDENTITY_ID_BYTES);
    }
    for (uint32_t i = 0; i < directories->count; i++) {
        const struct directory *directory = &directories->items[i];
        enum rc rc;

        if (directory->state == DIRECTORY_MISSING) {
            continue;
        }
        ASSERT(directory->disk_id != 0 && directory->lock_file >= 0);
        identity.slot = i;
        identity.disk_id = directory->disk_id;
        memcpy(identity.disk_uuid, directory->uuid, IDENTITY_ID_BYTES);
        rc = identity_write(env, directory->path, &identity, error);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

/* Is every member's file the newest already? */
static bool directories_current(const struct directories *directories)
{
    for (uint32_t i = 0; i < directories->count; i++) {
        const struct directory *directory = &directories->items[i];

        if (directory->state == DIRECTORY_EMPTY ||
            (directory->state == DIRECTORY_MEMBER &&
             (directory->identity.revision != directories->revision ||
              directory->identity.state != IDENTITY_READY))) {
            return false;
        }
    }
    return true;
}

enum rc directories_commit(struct env *env, struct directories *directories, struct error *error)
{
    enum rc rc = RC_OK;

    if (directories_current(directories)) {
        return RC_OK;
    }
    directories->revision += 1;
    if (directories->first_start) {
        rc = directories_write(env, directories, IDENTITY_PREPARED, error);
    }
    return rc == RC_OK ? directories_write(env, directories, IDENTITY_READY, error) : rc;
}

void directories_close(struct env *env, struct directories *directories)
{
    for (uint32_t i = 0; i < directories->count; i++) {
        struct directory *directory = &directories->items[i];

        if (directory->path != NULL && directory->lock_file >= 0) {
            env->file->close(env, directory->lock_file);
            directory->lock_file = -1;
        }
    }
}
