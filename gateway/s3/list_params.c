#include "gateway/s3/list_params.h"

#include "common/codec/percent.h"

enum step_result list_params_read(struct s3_request *req, const char *limit_name,
                                  uint32_t limit_max, struct list_params *params)
{
    struct slice limit = s3_param(req, limit_name);
    struct slice encoding = s3_param(req, "encoding-type");
    uint64_t number = limit_max;

    params->prefix = s3_param(req, "prefix");
    params->delimiter = s3_param(req, "delimiter");
    if (limit.len > 0 && !slice_to_u64(limit, INT32_MAX, &number)) {
        (void)s3_failf(req, S3_InvalidArgument,
                       "Argument %s must be an integer between 0 and 2147483647", limit_name);
        s3_error_detail(req, "ArgumentName", slice_str(limit_name));
        s3_error_detail(req, "ArgumentValue", limit);
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
