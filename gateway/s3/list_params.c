#include "gateway/s3/list_params.h"

#include <string.h>

#include "common/codec/percent.h"

/* AWS parses, then looks at the range, and writes the name of max-keys in another way each time. */
static enum step_result list_number_negative(struct s3_request *req, const char *name,
                                             uint64_t magnitude)
{
    bool keys = strcmp(name, "max-keys") == 0;
    struct slice value = arena_printf(req->arena, "-%llu", (unsigned long long)magnitude);
    const char *shown = keys ? "maxKeys" : name;

    if (keys && strcmp(req->op->name, "ListObjectVersions") == 0) {
        return s3_fail_argument(req, shown, value, "max-keys cannot be negative");
    }
    return s3_fail_argument(
        req, shown, value,
        arena_printf(req->arena, "Argument %s must be an integer between 0 and 2147483647", shown)
            .data);
}

enum step_result list_number(struct s3_request *req, const char *name, uint64_t *number)
{
    struct slice text = s3_param(req, name);
    bool negative = text.len > 0 && text.data[0] == '-';
    uint64_t value;

    if (text.len == 0) {
        return STEP_NEXT;
    }
    if (!slice_to_u64(slice_after(text, negative ? 1 : 0), INT32_MAX + (negative ? 1ULL : 0),
                      &value)) {
        return s3_fail_argument(
            req, name, text,
            arena_printf(req->arena, "Provided %s not an integer or within integer range", name)
                .data);
    }
    if (negative && value > 0) {
        return list_number_negative(req, name, value);
    }
    *number = value;
    return STEP_NEXT;
}

enum step_result list_params_read(struct s3_request *req, const char *limit_name,
                                  uint32_t limit_max, struct list_params *params)
{
    struct slice encoding = s3_param(req, "encoding-type");
    uint64_t number = limit_max;

    params->prefix = s3_param(req, "prefix");
    params->delimiter = s3_param(req, "delimiter");
    if (list_number(req, limit_name, &number) == STEP_FAIL) {
        return STEP_FAIL;
    }
    params->limit = number < limit_max ? (uint32_t)number : limit_max;
    if (encoding.data != NULL && !slice_eq(encoding, SLICE("url"))) {
        return s3_fail_argument(req, "encoding-type", encoding,
                                "Invalid Encoding Method specified in Request");
    }
    params->encode = encoding.data != NULL;
    return STEP_NEXT;
}

struct slice list_name(struct s3_request *req, const struct list_params *params, struct slice name)
{
    return params->encode ? percent_encode_listing(req->arena, name) : name;
}

void list_write_prefix(struct s3_request *req, struct xml_writer *xml,
                       const struct list_params *params, struct slice prefix)
{
    xml_writer_open(xml, "CommonPrefixes");
    xml_writer_text(xml, "Prefix", list_name(req, params, prefix));
    xml_writer_close(xml);
}

/* Offset of `needle` in `hay` from `from` on, or hay.len. */
static size_t list_find(struct slice hay, size_t from, struct slice needle)
{
    for (size_t i = from; needle.len <= hay.len && i <= hay.len - needle.len; i++) {
        if (memcmp(hay.data + i, needle.data, needle.len) == 0) {
            return i;
        }
    }
    return hay.len;
}

struct list_position list_position_of(const struct list_params *params, struct slice marker)
{
    struct list_position position = {.after = marker};
    size_t at;

    if (params->delimiter.len == 0 || !slice_starts(marker, params->prefix)) {
        return position;
    }
    at = list_find(marker, params->prefix.len, params->delimiter);
    if (at < marker.len) {
        position.after = slice_of(marker.data, at + params->delimiter.len);
        position.after_prefix = true;
    }
    return position;
}
