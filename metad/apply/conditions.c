#include "metad/apply/conditions.h"

#include <stdio.h>

#include "common/client/version_id.h"

enum { ETAG_BYTES_MAX = 32, ETAG_TEXT_MAX = 2 * ETAG_BYTES_MAX + 16 };

static const uint64_t NS_PER_S = 1000000000ULL;

static size_t etag_text(const Kist__Record *record, char text[ETAG_TEXT_MAX])
{
    static const char digits[] = "0123456789abcdef";
    size_t count = record->etag.len < ETAG_BYTES_MAX ? record->etag.len : ETAG_BYTES_MAX;
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        text[len++] = digits[record->etag.data[i] >> 4];
        text[len++] = digits[record->etag.data[i] & 15];
    }
    if (record->part_count > 0 || record->segments > 1) {
        int more = snprintf(text + len, ETAG_TEXT_MAX - len, "-%u",
                            record->part_count > 0 ? record->part_count : record->segments);

        len += more > 0 ? (size_t)more : 0;
    }
    return len;
}

bool conditions_etag_is(const Kist__Record *record, struct slice text)
{
    char own[ETAG_TEXT_MAX];
    size_t len = etag_text(record, own);

    return slice_eq_str(text, "*") || slice_eq_nocase(text, slice_of(own, len));
}

static bool wants_match(const Kist__Conditions *conditions)
{
    return conditions->if_match.len > 0 || conditions->has_if_match_size ||
           conditions->if_match_last_modified != 0 || conditions->if_match_version.len > 0;
}

static bool version_is(const Kist__Record *record, struct slice name)
{
    uint64_t stamp;
    uint32_t tie;

    if (version_id_is_null(name)) {
        return record->null_version;
    }
    return version_id_unpack(name, &stamp, &tie) && record->stamp == stamp && record->tie == tie;
}

static bool matches(const Kist__Conditions *conditions, const Kist__Record *current)
{
    if (conditions->if_match.len > 0 &&
        !conditions_etag_is(current, message_bytes(conditions->if_match))) {
        return false;
    }
    if (conditions->has_if_match_size && conditions->if_match_size != current->size) {
        return false;
    }
    if (conditions->if_match_version.len > 0 &&
        !version_is(current, message_bytes(conditions->if_match_version))) {
        return false;
    }
    return conditions->if_match_last_modified == 0 ||
           conditions->if_match_last_modified == current->stamp / NS_PER_S;
}

Kist__Outcome conditions_write(const Kist__Conditions *conditions, const Kist__Record *current)
{
    uint64_t modified_s = current != NULL ? current->stamp / NS_PER_S : 0;

    if (conditions == NULL) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    if (current == NULL) {
        return wants_match(conditions) ? KIST__OUTCOME__NO_SUCH_KEY : KIST__OUTCOME__OUTCOME_OK;
    }
    if (!matches(conditions, current)) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (conditions->if_none_match.len > 0 &&
        conditions_etag_is(current, message_bytes(conditions->if_none_match))) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (conditions->if_match.len == 0 && conditions->if_unmodified_since != 0 &&
        modified_s > conditions->if_unmodified_since) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (conditions->if_none_match.len == 0 && conditions->if_modified_since != 0 &&
        modified_s <= conditions->if_modified_since) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    return KIST__OUTCOME__OUTCOME_OK;
}

/* RFC 9110 13.2.2: a date counts only where the ETag form of the same condition is absent. */
Kist__Outcome conditions_read(const Kist__Conditions *conditions, const Kist__Record *source)
{
    uint64_t modified_s = source->stamp / NS_PER_S;

    if (conditions == NULL) {
        return KIST__OUTCOME__OUTCOME_OK;
    }
    if (!matches(conditions, source)) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (conditions->if_match.len == 0 && conditions->if_unmodified_since != 0 &&
        modified_s > conditions->if_unmodified_since) {
        return KIST__OUTCOME__PRECONDITION_FAILED;
    }
    if (conditions->if_none_match.len > 0) {
        return conditions_etag_is(source, message_bytes(conditions->if_none_match))
                   ? KIST__OUTCOME__NOT_MODIFIED
                   : KIST__OUTCOME__OUTCOME_OK;
    }
    if (conditions->if_modified_since != 0 && modified_s <= conditions->if_modified_since) {
        return KIST__OUTCOME__NOT_MODIFIED;
    }
    return KIST__OUTCOME__OUTCOME_OK;
}
