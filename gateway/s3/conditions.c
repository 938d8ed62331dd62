#include "gateway/s3/conditions.h"

#include "common/codec/time_format.h"
#include "gateway/s3/object_lookup.h"

/* ---- Entity tags ---- */

/* Takes the first tag off a list; false at its end. Quotes are optional, as clients leave them out.
 */
static bool condition_next_tag(struct slice *list, struct slice *tag, bool *is_weak)
{
    struct slice rest = *list;
    size_t end;

    while (rest.len > 0 && (rest.data[0] == ',' || rest.data[0] == ' ' || rest.data[0] == '\t')) {
        rest = slice_after(rest, 1);
    }
    if (rest.len == 0) {
        return false;
    }
    *is_weak = slice_starts(rest, SLICE("W/"));
    if (*is_weak) {
        rest = slice_after(rest, 2);
    }
    if (rest.len > 0 && rest.data[0] == '"') {
        rest = slice_after(rest, 1);
        end = slice_find(rest, '"');
        *tag = slice_of(rest.data, end);
        *list = slice_after(rest, end + 1);
        return true;
    }
    end = slice_find(rest, ',');
    *tag = slice_trim(slice_of(rest.data, end));
    *list = slice_after(rest, end);
    return true;
}

bool condition_etag_listed(struct slice list, struct slice etag, bool weak)
{
    struct slice tag;
    bool is_weak;

    if (slice_eq(slice_trim(list), SLICE("*"))) {
        return true;
    }
    while (condition_next_tag(&list, &tag, &is_weak)) {
        if ((weak || !is_weak) && slice_eq(tag, etag)) {
            return true;
        }
    }
    return false;
}

/* ---- Reads ---- */

enum condition_result read_conditions_check(const struct read_conditions *conditions,
                                            const struct condition_target *target, uint64_t now_s)
{
    uint64_t date;

    if (conditions->if_match.data != NULL) {
        if (!condition_etag_listed(conditions->if_match, target->etag, false)) {
            return CONDITION_FAILED;
        }
    } else if (conditions->if_unmodified_since.data != NULL &&
               time_parse_http(conditions->if_unmodified_since, now_s, &date) &&
               target->modified_s > date) {
        return CONDITION_FAILED;
    }
    if (conditions->if_none_match.data != NULL) {
        return condition_etag_listed(conditions->if_none_match, target->etag, true)
                   ? CONDITION_NOT_MODIFIED
                   : CONDITION_TRUE;
    }
    if (conditions->if_modified_since.data != NULL &&
        time_parse_http(conditions->if_modified_since, now_s, &date) &&
        target->modified_s <= date) {
        return CONDITION_NOT_MODIFIED;
    }
    return CONDITION_TRUE;
}

bool condition_if_range(struct slice if_range, const struct condition_target *target,
                        uint64_t now_s)
{
    uint64_t date;

    if (if_range.data == NULL) {
        return true;
    }
    if (time_parse_http(if_range, now_s, &date)) {
        return date == target->modified_s;
    }
    return condition_etag_listed(if_range, target->etag, false);
}

/* ---- Writes ---- */

static enum step_result condition_not_implemented(struct s3_request *req, const char *header)
{
    (void)s3_fail(req, S3_NotImplemented,
                  "A header you provided implies functionality that is not implemented");
    s3_error_detail(req, "Header", slice_str(header));
    return STEP_FAIL;
}

/* One tag without its quotes, or "*"; false for a list. */
static bool condition_single_tag(struct slice header, ProtobufCBinaryData *out)
{
    struct slice tag = SLICE("*");
    bool is_weak = false;
    struct slice list = header;

    if (!slice_eq(slice_trim(header), SLICE("*"))) {
        struct slice second;

        if (!condition_next_tag(&list, &tag, &is_weak) || is_weak || tag.len == 0 ||
            condition_next_tag(&list, &second, &is_weak)) {
            return false;
        }
    }
    *out = s3_bytes(tag);
    return true;
}

/* x-amz-if-match-version-id, which is ours: the newest version must be this one. */
static enum step_result condition_version(struct s3_request *req, Kist__Conditions *out, bool *any)
{
    struct slice text = s3_header(req, "x-amz-if-match-version-id");
    struct slice version;

    if (text.data == NULL) {
        return STEP_NEXT;
    }
    if (s3_version_read(req, "x-amz-if-match-version-id", text, &version) == STEP_FAIL) {
        return STEP_FAIL;
    }
    out->if_match_version = s3_bytes(version);
    *any = true;
    return STEP_NEXT;
}

static void condition_date(struct s3_request *req, const char *header, uint64_t *out, bool *any)
{
    struct slice text = s3_header(req, header);
    struct env *env = req->gateway->env;

    /* An unreadable date is as good as none (RFC 9110 13.1.3). */
    if (text.data != NULL && time_parse_http(text, env->clock->wall_ns(env) / 1000000000U, out)) {
        *any = true;
    }
}

enum step_result s3_write_conditions(struct s3_request *req, Kist__Conditions *out, bool *any)
{
    struct slice match = s3_header(req, "if-match");
    struct slice none_match = s3_header(req, "if-none-match");

    *out = (Kist__Conditions)KIST__CONDITIONS__INIT;
    *any = match.data != NULL || none_match.data != NULL;
    if (match.data != NULL && !condition_single_tag(match, &out->if_match)) {
        return condition_not_implemented(req, "If-Match");
    }
    /* AWS takes "*" alone here; a tag is as easy to decide, and users ask for it. */
    if (none_match.data != NULL && !condition_single_tag(none_match, &out->if_none_match)) {
        return condition_not_implemented(req, "If-None-Match");
    }
    if (condition_version(req, out, any) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (s3_header(req, "if-modified-since").data != NULL) {
        return condition_not_implemented(req, "If-Modified-Since");
    }
    condition_date(req, "if-unmodified-since", &out->if_unmodified_since, any);
    return STEP_NEXT;
}

enum step_result s3_delete_conditions(struct s3_request *req, Kist__Conditions *out, bool *any)
{
    struct slice size = s3_header(req, "x-amz-if-match-size");
    struct slice modified = s3_header(req, "x-amz-if-match-last-modified-time");
    struct env *env = req->gateway->env;
    uint64_t nanoseconds;

    if (s3_write_conditions(req, out, any) == STEP_FAIL) {
        return STEP_FAIL;
    }
    if (size.data != NULL) {
        if (!slice_to_u64(size, UINT64_MAX, &out->if_match_size)) {
            return s3_fail(req, S3_InvalidArgument,
                           "x-amz-if-match-size must be a number of bytes.");
        }
        out->has_if_match_size = true;
        *any = true;
    }
    if (modified.data != NULL) {
        if (!time_parse_http(modified, env->clock->wall_ns(env) / 1000000000U,
                             &out->if_match_last_modified)) {
            if (!time_parse_iso8601(modified, &nanoseconds)) {
                return s3_fail(req, S3_InvalidArgument,
                               "x-amz-if-match-last-modified-time must be a date.");
            }
            out->if_match_last_modified = nanoseconds / 1000000000U;
        }
        *any = true;
    }
    return STEP_NEXT;
}
enum step_result s3_source_conditions(struct s3_request *req, Kist__Conditions *out, bool *any)
{
    struct slice match = s3_header(req, "x-amz-copy-source-if-match");
    struct slice none_match = s3_header(req, "x-amz-copy-source-if-none-match");

    *out = (Kist__Conditions)KIST__CONDITIONS__INIT;
    *any = match.data != NULL || none_match.data != NULL;
    if (match.data != NULL && !condition_single_tag(match, &out->if_match)) {
        return condition_not_implemented(req, "x-amz-copy-source-if-match");
    }
    if (none_match.data != NULL && !condition_single_tag(none_match, &out->if_none_match)) {
        return condition_not_implemented(req, "x-amz-copy-source-if-none-match");
    }
    condition_date(req, "x-amz-copy-source-if-modified-since", &out->if_modified_since, any);
    condition_date(req, "x-amz-copy-source-if-unmodified-since", &out->if_unmodified_since, any);
    return STEP_NEXT;
}

enum step_result s3_rename_conditions(struct s3_request *req, bool of_source, Kist__Conditions *out,
                                      bool *any)
{
    static const char *const own[] = {"if-match", "if-none-match", "if-modified-since",
                                      "if-unmodified-since"};
    static const char *const source[] = {
        "x-amz-rename-source-if-match", "x-amz-rename-source-if-none-match",
        "x-amz-rename-source-if-modified-since", "x-amz-rename-source-if-unmodified-since"};
    const char *const *name = of_source ? source : own;
    struct slice match = s3_header(req, name[0]);
    struct slice none_match = s3_header(req, name[1]);

    *out = (Kist__Conditions)KIST__CONDITIONS__INIT;
    *any = match.data != NULL || none_match.data != NULL;
    if (match.data != NULL && !condition_single_tag(match, &out->if_match)) {
        return condition_not_implemented(req, name[0]);
    }
    if (none_match.data != NULL && !condition_single_tag(none_match, &out->if_none_match)) {
        return condition_not_implemented(req, name[1]);
    }
    condition_date(req, name[2], &out->if_modified_since, any);
    condition_date(req, name[3], &out->if_unmodified_since, any);
    return STEP_NEXT;
}
