/* The identity file: encode, decode, read, replace. */
#include "cli/identity.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"

enum {
    IDENTITY_VERSION = 1,
    HEADER_BYTES = 24,
    BODY_FIXED_BYTES = 64,
    MEMBER_BYTES = 24,
    PATH_BYTES_MAX = 4096
};

static const char magic[8] = {'K', 'I', 'S', 'T', 'I', 'D', 'N', 'T'};

static_assert(IDENTITY_BYTES_MAX == HEADER_BYTES + BODY_FIXED_BYTES + LIMIT_DISKS * MEMBER_BYTES,
              "the largest identity");

size_t identity_encode(const struct identity *identity, uint8_t out[IDENTITY_BYTES_MAX])
{
    uint8_t *body = out + HEADER_BYTES;
    uint32_t len = BODY_FIXED_BYTES + identity->member_count * MEMBER_BYTES;

    ASSERT(identity->member_count >= 1 && identity->member_count <= LIMIT_DISKS);
    ASSERT(identity->slot < identity->member_count);
    memcpy(body, identity->cluster_id, IDENTITY_ID_BYTES);
    le32_put(body + 16, identity->cluster_epoch);
    le32_put(body + 20, (uint32_t)identity->state);
    le64_put(body + 24, identity->revision);
    le64_put(body + 32, identity->disk_id);
    memcpy(body + 40, identity->disk_uuid, IDENTITY_ID_BYTES);
    le32_put(body + 56, identity->slot);
    le32_put(body + 60, identity->member_count);
    for (uint32_t i = 0; i < identity->member_count; i++) {
        le64_put(body + BODY_FIXED_BYTES + (size_t)i * MEMBER_BYTES, identity->members[i].disk_id);
        memcpy(body + BODY_FIXED_BYTES + (size_t)i * MEMBER_BYTES + 8, identity->members[i].uuid,
               IDENTITY_ID_BYTES);
    }
    memcpy(out, magic, sizeof(magic));
    le32_put(out + 8, IDENTITY_VERSION);
    le32_put(out + 12, len);
    le32_put(out + 16, crc32c(0, body, len));
    le32_put(out + 20, crc32c(0, out, 20));
    return HEADER_BYTES + len;
}

static enum rc identity_decode_body(const uint8_t *body, uint32_t len, struct identity *out,
                                    struct error *error)
{
    uint32_t state = le32_get(body + 20);

    memset(out, 0, sizeof(*out));
    memcpy(out->cluster_id, body, IDENTITY_ID_BYTES);
    out->cluster_epoch = le32_get(body + 16);
    out->revision = le64_get(body + 24);
    out->disk_id = le64_get(body + 32);
    memcpy(out->disk_uuid, body + 40, IDENTITY_ID_BYTES);
    out->slot = le32_get(body + 56);
    out->member_count = le32_get(body + 60);
    if (state < IDENTITY_FORMING || state > IDENTITY_READY) {
        return error_set(error, RC_UNSUPPORTED, "state %u is of a newer kist", state);
    }
    out->state = (enum identity_state)state;
    if (out->member_count < 1 || out->member_count > LIMIT_DISKS ||
        out->slot >= out->member_count ||
        len != BODY_FIXED_BYTES + out->member_count * MEMBER_BYTES) {
        return error_set(error, RC_CORRUPT, "members do not fit its length");
    }
    for (uint32_t i = 0; i < out->member_count; i++) {
        out->members[i].disk_id = le64_get(body + BODY_FIXED_BYTES + (size_t)i * MEMBER_BYTES);
        memcpy(out->members[i].uuid, body + BODY_FIXED_BYTES + (size_t)i * MEMBER_BYTES + 8,
               IDENTITY_ID_BYTES);
    }
    if (out->state != IDENTITY_FORMING && out->disk_id == 0) {
        return error_set(error, RC_CORRUPT, "no disk id");
    }
    return RC_OK;
}

enum rc identity_decode(struct slice bytes, struct identity *out, struct error *error)
{
    const uint8_t *data = (const uint8_t *)bytes.data;
    uint32_t len;

    if (bytes.len < HEADER_BYTES + BODY_FIXED_BYTES || memcmp(data, magic, sizeof(magic)) != 0) {
        return error_set(error, RC_UNSUPPORTED, "not an identity file of kist");
    }
    if (le32_get(data + 20) != crc32c(0, data, 20)) {
        return error_set(error, RC_CORRUPT, "header checksum mismatch");
    }
    if (le32_get(data + 8) != IDENTITY_VERSION) {
        return error_set(error, RC_UNSUPPORTED, "format version %u, this kist reads %d",
                         le32_get(data + 8), IDENTITY_VERSION);
    }
    len = le32_get(data + 12);
    if (len != bytes.len - HEADER_BYTES) {
        return error_set(error, RC_CORRUPT, "length mismatch");
    }
    if (le32_get(data + 16) != crc32c(0, data + HEADER_BYTES, len)) {
        return error_set(error, RC_CORRUPT, "checksum mismatch");
    }
    return identity_decode_body(data + HEADER_BYTES, len, out, error);
}

enum rc identity_read(struct env *env, const char *directory, struct identity *out,
                      struct error *error)
{
    uint8_t bytes[IDENTITY_BYTES_MAX + 1] = {0};
    char path[PATH_BYTES_MAX];
    size_t got = 0;
    int file;
    enum rc rc;

    (void)snprintf(path, sizeof(path), "%s/identity", directory);
    rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->read(env, file, bytes, sizeof(bytes), 0, &got);
    env->file->close(env, file);
    if (rc != RC_OK) {
        return error_set(error, rc, "read %s: %s", path, rc_text(rc));
    }
    rc = identity_decode(slice_of(bytes, got), out, error);
    return rc == RC_OK || error == NULL ? rc : error_prefix(error, "%s", path);
}

enum rc identity_write(struct env *env, const char *directory, const struct identity *identity,
                       struct error *error)
{
    uint8_t bytes[IDENTITY_BYTES_MAX] = {0};
    struct slice slice = slice_of(bytes, identity_encode(identity, bytes));
    char aside[PATH_BYTES_MAX];
    char path[PATH_BYTES_MAX];
    int file;
    enum rc rc;

    (void)snprintf(path, sizeof(path), "%s/identity", directory);
    (void)snprintf(aside, sizeof(aside), "%s/identity.new", directory);
    rc = env->file->open(env, aside, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->truncate(env, file, 0);
    rc = rc == RC_OK ? env->file->write(env, file, &slice, 1, 0) : rc;
    rc = rc == RC_OK ? env->file->sync(env, file) : rc;
    env->file->close(env, file);
    rc = rc == RC_OK ? env->file->rename(env, aside, path) : rc;
    rc = rc == RC_OK ? env->file->sync_directory(env, directory) : rc;
    if (rc != RC_OK) {
        return error_set(error, rc, "write %s: %s", path, rc_text(rc));
    }
    return RC_OK;
}
