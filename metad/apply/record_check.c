#include "metad/apply/record_check.h"

enum {
    RECORD_HEADERS_MAX = 64,
    RECORD_CHECKSUMS_MAX = 8,
    RECORD_ETAG_BYTES_MAX = 32,
    RECORD_OWNER_BYTES_MAX = 256
};

static size_t headers_bytes(Kist__Header *const *headers, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        len += headers[i]->name.len + headers[i]->value.len;
    }
    return len;
}

bool record_check(struct apply *apply, const Kist__Record *record)
{
    size_t len = record->content_type.len + record->storage_class.len + record->owner.len;

    if (record->n_checksums > RECORD_CHECKSUMS_MAX || record->etag.len > RECORD_ETAG_BYTES_MAX ||
        record->owner.len > RECORD_OWNER_BYTES_MAX) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "checksums of the record");
    }
    if (record->n_headers > RECORD_HEADERS_MAX || record->n_metadata > LIMIT_USER_METADATA_BYTES ||
        record->n_tags > RECORD_HEADERS_MAX) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "too many headers");
    }
    len += headers_bytes(record->headers, record->n_headers);
    len += headers_bytes(record->tags, record->n_tags);
    /* Headers come from a request head of bounded size; together they must leave a command room. */
    if (len > LIMIT_HTTP_HEAD_BYTES ||
        headers_bytes(record->metadata, record->n_metadata) > LIMIT_USER_METADATA_BYTES) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "metadata too large");
    }
    return true;
}
