/*
 * A view (common/client/view.h) as bytes: rows of wire.h, flags say of which kind (FORMAT.md).
 */
#ifndef COMMON_META_RPC_VIEW_WIRE_H
#define COMMON_META_RPC_VIEW_WIRE_H

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/client/view.h"

/* Appends the whole view. */
void view_wire_pack(const struct view *view, struct buffer *to);
/* Returns owned; NULL with the error set when the bytes are not a view. */
struct view *view_wire_unpack(struct slice from, uint64_t version, struct error *error);

#endif
