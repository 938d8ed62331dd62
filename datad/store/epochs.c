/* The file: magic, version, CRC32C, count, then (group, epoch) pairs in order of group. See
 * FORMAT.md. */
#include "datad/store/epochs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"

enum { HEADER_BYTES = 24, ROW_BYTES = 16, PATH_BYTES = 4200, FILE_VERSION = 1 };

static const char magic[8] = {'k', 'i', 's', 't', 'E', 'P', 'O', '1'};

static_assert(sizeof(struct epoch) == ROW_BYTES, "rows are copied as they are");

static void epochs_path(const struct epochs *epochs, const char *name, char path[PATH_BYTES])
{
    int len = snprintf(path, PATH_BYTES, "%s/%s", epochs->directory, name);

    ASSERT(len > 0 && len < PATH_BYTES);
}

static enum rc epochs_parse(struct epochs *epochs, const uint8_t *bytes, size_t len,
                            struct error *error)
{
    uint32_t count;

    if (len < HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0 ||
        le32_get(bytes + 8) != FILE_VERSION) {
        return error_set(error, RC_CORRUPT, "epochs: not a file of this version");
    }
    count = le32_get(bytes + 16);
    if (count > EPOCHS_MAX || len != HEADER_BYTES + (size_t)count * ROW_BYTES ||
        le32_get(bytes + 12) != crc32c(0, bytes + 16, len - 16)) {
        return error_set(error, RC_CORRUPT, "epochs: checksum mismatch");
    }
    epochs->rows = mem_alloc((size_t)(count + 16) * ROW_BYTES);
    memcpy(epochs->rows, bytes + HEADER_BYTES, (size_t)count * ROW_BYTES);
    epochs->count = count;
    epochs->capacity = count + 16;
    return RC_OK;
}

enum rc epochs_load(struct epochs *epochs, struct env *env, const char *directory,
                    struct error *error)
{
    size_t len_max = HEADER_BYTES + (size_t)EPOCHS_MAX * ROW_BYTES + 1;
    char path[PATH_BYTES];
    uint8_t *bytes;
    size_t got = 0;
    int file;
    enum rc rc;

    *epochs = (struct epochs){.env = env, .directory = directory};
    epochs_path(epochs, "epochs", path);
    rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);
    if (rc != RC_OK) {
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    bytes = mem_alloc_raw(len_max);
    rc = env->file->read(env, file, bytes, len_max, 0, &got);
    env->file->close(env, file);
    rc = rc == RC_OK ? epochs_parse(epochs, bytes, got, error)
                     : error_set(error, rc, "epochs: %s", rc_text(rc));
    mem_free(bytes);
    return rc;
}

void epochs_deinit(struct epochs *epochs)
{
    mem_free(epochs->rows);
    epochs->rows = NULL;
    epochs->count = 0;
}

/* The first row whose group is not lower. */
static uint32_t epochs_find(const struct epochs *epochs, uint64_t group)
{
    uint32_t low = 0;
    uint32_t high = epochs->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (epochs->rows[middle].group < group) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t epochs_get(const struct epochs *epochs, uint64_t group)
{
    uint32_t at = epochs_find(epochs, group);

    return at < epochs->count && epochs->rows[at].group == group ? epochs->rows[at].epoch : 0;
}

bool epochs_raise(struct epochs *epochs, uint64_t group, uint64_t epoch)
{
    uint32_t at = epochs_find(epochs, group);

    if (at < epochs->count && epochs->rows[at].group == group) {
        ASSERT(epoch >= epochs->rows[at].epoch);
        epochs->rows[at].epoch = epoch;
        epochs->changed = true;
        return true;
    }
    if (epochs->count == EPOCHS_MAX) {
        return false;
    }
    if (epochs->count == epochs->capacity) {
        epochs->capacity = epochs->capacity * 2 + 16;
        epochs->rows = mem_realloc(epochs->rows, (size_t)epochs->capacity * ROW_BYTES);
    }
    memmove(epochs->rows + at + 1, epochs->rows + at, (size_t)(epochs->count - at) * ROW_BYTES);
    epochs->rows[at] = (struct epoch){.group = group, .epoch = epoch};
    epochs->count += 1;
    epochs->changed = true;
    return true;
}

static enum rc epochs_write(struct epochs *epochs, const char *path, struct error *error)
{
    struct env *env = epochs->env;
    uint8_t header[HEADER_BYTES] = {0};
    struct slice parts[2];
    int file;
    enum rc rc = env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, error);

    if (rc != RC_OK) {
        return rc;
    }
    parts[0] = slice_of(header, sizeof(header));
    parts[1] = slice_of(epochs->rows, (size_t)epochs->count * ROW_BYTES);
    memcpy(header, magic, sizeof(magic));
    le32_put(header + 8, FILE_VERSION);
    le32_put(header + 16, epochs->count);
    le32_put(header + 12,
             crc32c(crc32c(0, header + 16, HEADER_BYTES - 16), parts[1].data, parts[1].len));
    rc = env->file->truncate(env, file, 0);
    rc = rc == RC_OK ? env->file->write(env, file, parts, ARRAY_LEN(parts), 0) : rc;
    rc = rc == RC_OK ? env->file->sync(env, file) : rc;
    env->file->close(env, file);
    return rc == RC_OK ? RC_OK : error_set(error, rc, "epochs: %s", rc_text(rc));
}

enum rc epochs_save(struct epochs *epochs, struct error *error)
{
    struct env *env = epochs->env;
    char path[PATH_BYTES];
    char path_new[PATH_BYTES];
    enum rc rc;

    if (!epochs->changed) {
        return RC_OK;
    }
    epochs_path(epochs, "epochs", path);
    epochs_path(epochs, "epochs.new", path_new);
    rc = epochs_write(epochs, path_new, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->rename(env, path_new, path);
    rc = rc == RC_OK ? env->file->sync_directory(env, epochs->directory) : rc;
    if (rc != RC_OK) {
        return error_set(error, rc, "epochs: %s", rc_text(rc));
    }
    epochs->changed = false;
    return RC_OK;
}
