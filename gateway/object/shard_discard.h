/* Deletes the shards of extents that nobody will name, in the background: nothing waits for it. */
#ifndef GATEWAY_OBJECT_SHARD_DISCARD_H
#define GATEWAY_OBJECT_SHARD_DISCARD_H

#include "gateway/gateway.h"

/* All shards of the pieces' extents; copies what it needs. Failures are left to the audit. */
void shard_discard(struct data_client *data, const struct view *view, Kist__Piece *const *pieces,
                   size_t piece_count);

#endif
