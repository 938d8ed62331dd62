#include "gateway/s3/veeam.h"

#include "common/base/limits.h"

#define VEEAM_FOLDER ".system-d26a9498-cb7c-4a87-a44a-8ae204f5ba6c/"

enum {
    VEEAM_TASKS = 64,      /* requests at once that one process serves well */
    VEEAM_BLOCK_KIB = 1024 /* of its objects: several stripes */
};

static const struct slice veeam_system = {VEEAM_FOLDER "system.xml",
                                          sizeof(VEEAM_FOLDER "system.xml") - 1};
static const struct slice veeam_capacity = {VEEAM_FOLDER "capacity.xml",
                                            sizeof(VEEAM_FOLDER "capacity.xml") - 1};

bool veeam_is_document(struct slice key)
{
    return slice_eq(key, veeam_system) || slice_eq(key, veeam_capacity);
}

/* The quotes are part of these two values. */
static void veeam_write_system(struct xml_writer *xml)
{
    xml_writer_open(xml, "SystemInfo");
    xml_writer_quoted(xml, "ProtocolVersion", SLICE("1.0"));
    xml_writer_quoted(xml, "ModelName", SLICE("kist"));
    xml_writer_open(xml, "ProtocolCapabilities");
    xml_writer_bool(xml, "CapacityInfo", true);
    xml_writer_bool(xml, "UploadSessions", false);
    xml_writer_bool(xml, "IAMSTS", false);
    xml_writer_close(xml);
    xml_writer_open(xml, "SystemRecommendations");
    xml_writer_u64(xml, "S3ConcurrentTaskLimit", VEEAM_TASKS);
    xml_writer_u64(xml, "S3MultiObjectDeleteLimit", LIMIT_DELETE_KEYS);
    xml_writer_u64(xml, "StorageConcurrentTaskLimit", 0);
    xml_writer_u64(xml, "KbBlockSize", VEEAM_BLOCK_KIB);
    xml_writer_close(xml);
    xml_writer_close(xml);
}

struct veeam_space {
    uint64_t disks[LIMIT_DISKS];
    uint32_t count;
    uint64_t total_bytes;
    uint64_t free_bytes;
};

static void veeam_add_disk(const struct gateway *gateway, struct veeam_space *space, uint64_t disk)
{
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;

    for (uint32_t i = 0; i < space->count; i++) {
        if (space->disks[i] == disk) {
            return;
        }
    }
    if (space->count == LIMIT_DISKS) {
        return;
    }
    space->disks[space->count++] = disk;
    if (gateway->data->space(gateway->data, disk, &total_bytes, &free_bytes)) {
        space->total_bytes += total_bytes;
        space->free_bytes += free_bytes;
    }
}

/* Bytes of objects, not of disks: without what the widest groups spend on parity. */
static void veeam_write_capacity(const struct s3_request *req, struct xml_writer *xml)
{
    const struct gateway *gateway = req->gateway;
    struct veeam_space space = {.count = 0};
    uint32_t data = 1;
    uint32_t all = 1;

    for (size_t i = 0; gateway->data->space != NULL && i < view_group_count(req->view); i++) {
        const Kist__PlacementGroup *group = view_group_at(req->view, i);

        for (size_t j = 0; j < group->n_disks; j++) {
            veeam_add_disk(gateway, &space, group->disks[j]);
        }
        if (group->data_shards + group->parity_shards > all) {
            data = group->data_shards;
            all = group->data_shards + group->parity_shards;
        }
    }
    space.total_bytes = space.total_bytes / all * data;
    space.free_bytes = space.free_bytes / all * data;
    xml_writer_open(xml, "CapacityInfo");
    xml_writer_u64(xml, "Capacity", space.total_bytes);
    xml_writer_u64(xml, "Available", space.free_bytes);
    xml_writer_u64(xml, "Used", space.total_bytes - space.free_bytes);
    xml_writer_close(xml);
}

enum step_result veeam_reply(struct s3_request *req)
{
    struct xml_writer xml;

    ASSERT(veeam_is_document(req->key));
    s3_xml_begin(req, &xml);
    if (slice_eq(req->key, veeam_system)) {
        veeam_write_system(&xml);
    } else {
        veeam_write_capacity(req, &xml);
    }
    return s3_reply_xml(req, 200);
}
