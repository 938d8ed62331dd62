#include "common/meta_rpc/view_wire.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/meta_rpc/wire.h"

enum view_row_kind { /* on the wire: never renumbered */
                     VIEW_ROW_BUCKET = 1,
                     VIEW_ROW_USER = 2,
                     VIEW_ROW_KEY = 3,
                     VIEW_ROW_GROUP = 4,
                     VIEW_ROW_DISK =
                         5, /* no message: number is the id, the kind or-ed with healthy */
                     VIEW_ROW_KINDS
};

enum { VIEW_DISK_HEALTHY = 0x100, VIEW_KIND_MASK = 0xff };

/* ---- Packing ---- */

/* Views are longer than pages: the bound of a page is not theirs. */
static void pack_row(struct buffer *to, const struct wire_row *row, const ProtobufCMessage *message)
{
    struct buffer one;

    buffer_init(&one);
    bool fits = wire_row_put(&one, row, message);

    ASSERT(fits); /* a bucket holds LIMIT_SETTINGS_BYTES at most */
    buffer_append(to, buffer_slice(&one));
    buffer_deinit(&one);
}

static void pack_message(struct buffer *to, enum view_row_kind kind,
                         const ProtobufCMessage *message)
{
    struct wire_row row = {.flags = kind};

    pack_row(to, &row, message);
}

void view_wire_pack(const struct view *view, struct buffer *to)
{
    for (size_t i = 0; i < view_bucket_count(view); i++) {
        pack_message(to, VIEW_ROW_BUCKET, &view_bucket_at(view, i)->base);
    }
    for (size_t i = 0; i < view_user_count(view); i++) {
        pack_message(to, VIEW_ROW_USER, &view_user_at(view, i)->base);
    }
    for (size_t i = 0; i < view_key_count(view); i++) {
        pack_message(to, VIEW_ROW_KEY, &view_key_at(view, i)->base);
    }
    for (size_t i = 0; i < view_group_count(view); i++) {
        pack_message(to, VIEW_ROW_GROUP, &view_group_at(view, i)->base);
    }
    for (size_t i = 0; i < view_disk_count(view); i++) {
        const struct view_disk *disk = view_disk_at(view, i);
        struct wire_row row = {.number = disk->id,
                               .flags = VIEW_ROW_DISK |
                                        (disk->healthy ? (uint32_t)VIEW_DISK_HEALTHY : 0)};

        pack_row(to, &row, NULL);
    }
}

/* ---- Unpacking ---- */

struct unpacked {
    void **rows[VIEW_ROW_KINDS]; /* of disks: struct view_disk */
    size_t count[VIEW_ROW_KINDS];
    size_t max[VIEW_ROW_KINDS];
    struct view_disk *disks;
};

static const ProtobufCMessageDescriptor *row_type(uint32_t kind)
{
    switch (kind) {
    case VIEW_ROW_BUCKET:
        return &kist__bucket__descriptor;
    case VIEW_ROW_USER:
        return &kist__user__descriptor;
    case VIEW_ROW_KEY:
        return &kist__access_key__descriptor;
    case VIEW_ROW_GROUP:
        return &kist__placement_group__descriptor;
    default:
        return NULL;
    }
}

static void take_disk(struct unpacked *view, const struct wire_row *row)
{
    size_t count = view->count[VIEW_ROW_DISK];

    if (count == view->max[VIEW_ROW_DISK]) {
        view->max[VIEW_ROW_DISK] = count == 0 ? 16 : count * 2;
        view->disks = mem_realloc(view->disks, view->max[VIEW_ROW_DISK] * sizeof(*view->disks));
    }
    view->disks[count] =
        (struct view_disk){.id = row->number, .healthy = (row->flags & VIEW_DISK_HEALTHY) != 0};
    view->count[VIEW_ROW_DISK] += 1;
}

/* Rows of a kind that a later release sends are passed over. */
static bool take_row(struct unpacked *view, const struct wire_row *row)
{
    uint32_t kind = row->flags & VIEW_KIND_MASK;
    const ProtobufCMessageDescriptor *type = row_type(kind);
    void *message;

    if (kind == VIEW_ROW_DISK) {
        take_disk(view, row);
        return true;
    }
    if (type == NULL) {
        return true;
    }
    /* From the default allocator, as view_new() wants it. */
    message =
        protobuf_c_message_unpack(type, NULL, row->message.len, (const uint8_t *)row->message.data);
    if (message == NULL) {
        return false;
    }
    if (view->count[kind] == view->max[kind]) {
        view->max[kind] = view->max[kind] == 0 ? 64 : view->max[kind] * 2;
        view->rows[kind] = mem_realloc(view->rows[kind], view->max[kind] * sizeof(void *));
    }
    view->rows[kind][view->count[kind]++] = message;
    return true;
}

static void unpacked_free(struct unpacked *view, bool messages)
{
    for (uint32_t kind = 0; kind < VIEW_ROW_KINDS; kind++) {
        for (size_t i = 0; messages && kind != VIEW_ROW_DISK && i < view->count[kind]; i++) {
            protobuf_c_message_free_unpacked(view->rows[kind][i], NULL);
        }
        mem_free(view->rows[kind]);
    }
    mem_free(view->disks);
}

struct view *view_wire_unpack(struct slice from, uint64_t version, struct error *error)
{
    struct unpacked unpacked = {.disks = NULL};
    struct wire_row row;
    struct view *view;

    while (from.len > 0) {
        if (!wire_row_take(&from, &row) || !take_row(&unpacked, &row)) {
            unpacked_free(&unpacked, true);
            (void)error_set(error, RC_CORRUPT, "a view's row does not decode");
            return NULL;
        }
    }
    view = view_new(&(struct view_parts){
        .version = version,
        .buckets = (Kist__Bucket **)unpacked.rows[VIEW_ROW_BUCKET],
        .bucket_count = unpacked.count[VIEW_ROW_BUCKET],
        .users = (Kist__User **)unpacked.rows[VIEW_ROW_USER],
        .user_count = unpacked.count[VIEW_ROW_USER],
        .keys = (Kist__AccessKey **)unpacked.rows[VIEW_ROW_KEY],
        .key_count = unpacked.count[VIEW_ROW_KEY],
        .groups = (Kist__PlacementGroup **)unpacked.rows[VIEW_ROW_GROUP],
        .group_count = unpacked.count[VIEW_ROW_GROUP],
        .disks = unpacked.disks,
        .disk_count = unpacked.count[VIEW_ROW_DISK],
    });
    unpacked_free(&unpacked, false);
    return view;
}
