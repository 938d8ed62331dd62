#include "metad/cluster/node_identity.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "metad/store/message.h"

enum {
    IDENTITY_VERSION = 1,
    HEADER_BYTES = 24,
    FILE_BYTES_MAX = 16384, /* 16 nodes of at most 300 bytes */
    PATH_BYTES_MAX = 4096
};

static const char magic[8] = {'K', 'I', 'S', 'T', 'N', 'O', 'D', 'E'};

bool node_identity_from_form(const Kist__ClusterForm *form, struct node_identity *out)
{
    memset(out, 0, sizeof(*out));
    if (form->cluster_id.len != RPC_CLUSTER_ID_BYTES || form->node_id == 0 ||
        form->replica_id == 0) {
        return false;
    }
    memcpy(out->cluster_id, form->cluster_id.data, RPC_CLUSTER_ID_BYTES);
    out->cluster_epoch = form->cluster_epoch;
    out->node_id = form->node_id;
    out->replica_id = form->replica_id;
    for (size_t i = 0; i < form->n_nodes; i++) {
        if (!node_table_add(&out->table, form->nodes[i], false)) {
            return false;
        }
    }
    return node_table_find(&out->table, out->node_id) != NULL;
}

static enum rc identity_decode(struct slice bytes, struct arena *arena, struct node_identity *out,
                               struct error *error)
{
    const Kist__NodeIdentity *found;

    if (bytes.len < HEADER_BYTES || memcmp(bytes.data, magic, sizeof(magic)) != 0) {
        return error_set(error, RC_UNSUPPORTED, "not a node file of kist");
    }
    if (le32_get(bytes.data + 20) != crc32c(0, bytes.data, 20)) {
        return error_set(error, RC_CORRUPT, "header checksum mismatch");
    }
    if (le32_get(bytes.data + 8) != IDENTITY_VERSION) {
        return error_set(error, RC_UNSUPPORTED, "format version %u, this kist reads %d",
                         le32_get(bytes.data + 8), IDENTITY_VERSION);
    }
    bytes = slice_of(bytes.data, bytes.len);
    if (le32_get(bytes.data + 12) != bytes.len - HEADER_BYTES ||
        le32_get(bytes.data + 16) !=
            crc32c(0, bytes.data + HEADER_BYTES, bytes.len - HEADER_BYTES)) {
        return error_set(error, RC_CORRUPT, "checksum mismatch");
    }
    found =
        message_unpack(arena, &kist__node_identity__descriptor, slice_after(bytes, HEADER_BYTES));
    if (found == NULL || found->form == NULL || !message_known(&found->base) ||
        !node_identity_from_form(found->form, out)) {
        return error_set(error, RC_CORRUPT, "not an identity, or of a later release");
    }
    out->founder = found->founder;
    out->ready = found->ready;
    out->incarnation = found->incarnation;
    out->recovered_ns = found->recovered_ns;
    if (found->uuid.len == NODE_UUID_BYTES) {
        memcpy(out->uuid, found->uuid.data, NODE_UUID_BYTES);
    }
    return RC_OK;
}

enum rc node_identity_read(struct env *env, const char *directory, struct node_identity *out,
                           struct error *error)
{
    char path[PATH_BYTES_MAX];
    char *bytes;
    struct arena arena;
    size_t got = 0;
    int file;
    enum rc rc;

    (void)snprintf(path, sizeof(path), "%s/node", directory);
    rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    bytes = mem_alloc(FILE_BYTES_MAX + 1);
    rc = env->file->read(env, file, bytes, FILE_BYTES_MAX + 1, 0, &got);
    env->file->close(env, file);
    if (rc != RC_OK) {
        (void)error_set(error, rc, "%s", rc_text(rc));
    } else {
        arena_init(&arena);
        rc = identity_decode(slice_of(bytes, got), &arena, out, error);
        arena_deinit(&arena);
    }
    mem_free(bytes);
    return rc == RC_OK ? RC_OK : error_prefix(error, "%s", path);
}

static struct slice identity_encode(const struct node_identity *identity, struct arena *arena)
{
    Kist__NodeIdentity message = KIST__NODE_IDENTITY__INIT;
    Kist__ClusterForm form = KIST__CLUSTER_FORM__INIT;
    size_t len;
    char *out;

    form.cluster_id = message_field(slice_of(identity->cluster_id, RPC_CLUSTER_ID_BYTES));
    form.cluster_epoch = identity->cluster_epoch;
    form.node_id = identity->node_id;
    form.replica_id = identity->replica_id;
    form.nodes = node_table_messages(&identity->table, arena);
    form.n_nodes = identity->table.count;
    message.form = &form;
    message.founder = identity->founder;
    message.ready = identity->ready;
    message.incarnation = identity->incarnation;
    message.recovered_ns = identity->recovered_ns;
    message.uuid = message_field(slice_of(identity->uuid, NODE_UUID_BYTES));
    len = protobuf_c_message_get_packed_size(&message.base);
    ASSERT(len + HEADER_BYTES <= FILE_BYTES_MAX);
    out = arena_alloc(arena, HEADER_BYTES + len);
    (void)protobuf_c_message_pack(&message.base, (uint8_t *)out + HEADER_BYTES);
    memcpy(out, magic, sizeof(magic));
    le32_put(out + 8, IDENTITY_VERSION);
    le32_put(out + 12, (uint32_t)len);
    le32_put(out + 16, crc32c(0, out + HEADER_BYTES, len));
    le32_put(out + 20, crc32c(0, out, 20));
    return slice_of(out, HEADER_BYTES + len);
}

enum rc node_identity_write(struct env *env, const char *directory,
                            const struct node_identity *identity, struct error *error)
{
    char aside[PATH_BYTES_MAX];
    char path[PATH_BYTES_MAX];
    struct arena arena;
    struct slice bytes;
    int file;
    enum rc rc;

    (void)snprintf(path, sizeof(path), "%s/node", directory);
    (void)snprintf(aside, sizeof(aside), "%s/node.new", directory);
    rc = env->file->open(env, aside, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, error);
    if (rc != RC_OK) {
        return rc;
    }
    arena_init(&arena);
    bytes = identity_encode(identity, &arena);
    rc = env->file->truncate(env, file, 0);
    rc = rc == RC_OK ? env->file->write(env, file, &bytes, 1, 0) : rc;
    rc = rc == RC_OK ? env->file->sync(env, file) : rc;
    env->file->close(env, file);
    rc = rc == RC_OK ? env->file->rename(env, aside, path) : rc;
    rc = rc == RC_OK ? env->file->sync_directory(env, directory) : rc;
    arena_deinit(&arena);
    return rc == RC_OK ? RC_OK : error_set(error, rc, "write %s: %s", path, rc_text(rc));
}
