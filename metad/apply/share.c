#include "metad/apply/share.h"

#include "metad/apply/liveness.h"

static bool share_inline(const struct version_key *from, const Kist__Record *source,
                         const struct version_key *to)
{
    struct row_key row;
    struct slice body;

    key_inline(&row, from->bucket_id, from->key, source->stamp);
    if (!apply_get(from->apply, FAMILY_INLINE, &row, &body)) {
        apply_fail(from->apply, "an inline body is missing");
        return false;
    }
    apply_put_inline(to->apply, to->bucket_id, to->key, to->apply->stamp, body);
    return true;
}

bool share_bytes(const struct version_key *from, const Kist__Record *source,
                 const struct version_key *to, Kist__Record *record, ProtobufCBinaryData copy_id)
{
    Kist__Reference *reference;

    if (source->inline_body) {
        return share_inline(from, source, to);
    }
    if (source->layout_id.len == 0) {
        return true;
    }
    reference = arena_alloc(from->apply->arena, sizeof(*reference));
    kist__reference__init(reference);
    if (source->shared != NULL) {
        *reference = *source->shared;
    } else {
        reference->layout_id = source->layout_id;
        reference->home_bucket = from->bucket_id;
        reference->home_key = message_field(from->key);
    }
    reference->reference_id = copy_id;
    record->shared = reference;
    return layout_add_reference(to->apply, reference, to->bucket_id, to->key);
}
