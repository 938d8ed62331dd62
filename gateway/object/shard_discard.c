#include "gateway/object/shard_discard.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"

/* One shard at a time for each extent: a discarded 5 GiB must not fill the queues of the disks. */
struct shard_discard {
    struct data_client *data;
    struct shard_delete call;
    uint32_t count;
    uint64_t disks[LIMIT_SHARDS];
};

static void discard_next(struct shard_discard *discard)
{
    if (discard->call.shard.index == discard->count) {
        mem_free(discard);
        return;
    }
    discard->call.disk = discard->disks[discard->call.shard.index];
    discard->data->remove(discard->data, &discard->call);
}

static void discard_done(struct shard_delete *call)
{
    struct shard_discard *discard = CONTAINER_OF(call, struct shard_discard, call);

    call->shard.index += 1;
    discard_next(discard);
}

void shard_discard(struct data_client *data, const struct view *view, Kist__Piece *const *pieces,
                   size_t piece_count)
{
    for (size_t i = 0; i < piece_count; i++) {
        const Kist__Extent *extent = pieces[i]->extent;
        const Kist__PlacementGroup *group = view_group(view, extent->pg);
        struct shard_discard *discard;

        if (group == NULL || extent->id.len != EXTENT_ID_BYTES) {
            continue;
        }
        discard = mem_alloc(sizeof(*discard));
        discard->data = data;
        discard->count = extent->data_shards + extent->parity_shards;
        ASSERT(discard->count <= LIMIT_SHARDS && discard->count <= group->n_disks);
        memcpy(discard->disks, group->disks, discard->count * sizeof(discard->disks[0]));
        memcpy(discard->call.shard.extent.bytes, extent->id.data, EXTENT_ID_BYTES);
        discard->call.done = discard_done;
        discard_next(discard);
    }
}
