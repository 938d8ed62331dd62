#include "gateway/web/form.h"

#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"
#include "gateway/xml/xml_reader.h"

/* ---- The key ---- */

static enum step_result form_bad_key(struct s3_request *req, struct slice key, const char *text)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", SLICE("key"));
    s3_error_detail(req, "ArgumentValue", key);
    return STEP_FAIL;
}

/* "user/${filename}" with the name that the browser gave the file. */
static enum step_result form_make_key(struct s3_request *req)
{
    const struct slice mark = SLICE("${filename}");
    struct form *form = req->form;
    struct slice from = form_field(&form->parser, "key");
    struct buffer key;

    if (from.len == 0) {
        return form_bad_key(req, from,
                            from.data == NULL
                                ? "Bucket POST must contain a field named 'key'.  If it is "
                                  "specified, please check the order of the fields."
                                : "User key must have a length greater than 0.");
    }
    buffer_init(&key);
    while (from.len > 0 && key.len <= LIMIT_KEY_BYTES) {
        if (slice_starts(from, mark)) {
            buffer_append(&key, form->parser.file_name);
            from = slice_after(from, mark.len);
        } else {
            buffer_append_byte(&key, from.data[0]);
            from = slice_after(from, 1);
        }
    }
    form->key = arena_copy(req->arena, buffer_slice(&key));
    buffer_deinit(&key);
    req->key = form->key;
    if (form->key.len > LIMIT_KEY_BYTES) {
        return s3_fail(req, S3_KeyTooLongError, NULL);
    }
    if (form->key.len == 0) {
        return form_bad_key(req, form->key, "User key must have a length greater than 0.");
    }
    if (!utf8_valid(form->key)) {
        return form_bad_key(req, SLICE(""), "The key is not UTF-8.");
    }
    return STEP_NEXT;
}

/* ---- Tags: an XML document in the form, a query string in the header ---- */

static enum step_result form_tags(struct s3_request *req, struct slice document, struct slice *out)
{
    const struct xml_node *root;
    const struct xml_node *set;
    struct buffer text;

    if (xml_reader_parse(document, req->arena, &root, NULL) != RC_OK || !xml_is(root, "Tagging")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    set = xml_child(root, "TagSet");
    if (set == NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    buffer_init(&text);
    for (const struct xml_node *tag = xml_child(set, NULL); tag != NULL;
         tag = xml_next(tag, NULL)) {
        struct slice name = xml_child_text(tag, "Key");
        struct slice value = xml_child_text(tag, "Value");

        if (!xml_is(tag, "Tag") || name.data == NULL || value.data == NULL) {
            buffer_deinit(&text);
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        if (text.len > 0) {
            buffer_append_byte(&text, '&');
        }
        buffer_append(&text, percent_encode(req->arena, name, false));
        buffer_append_byte(&text, '=');
        buffer_append(&text, percent_encode(req->arena, value, false));
    }
    *out = arena_copy(req->arena, buffer_slice(&text));
    buffer_deinit(&text);
    return STEP_NEXT;
}

/* ---- Headers ---- */

/* What speaks of the transfer or of the whole request, not of the object, stays. */
static bool form_keeps_header(struct slice name)
{
    static const char *const prefixes[] = {"x-amz-", "content-", "if-"};
    static const char *const names[] = {"authorization", "cache-control", "expect",
                                        "expires",       "range",         "transfer-encoding"};

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (slice_starts(name, slice_str(prefixes[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (slice_eq_str(name, names[i])) {
            return false;
        }
    }
    return true;
}

/* Fields that are headers of PutObject under the same name. */
static bool form_is_header(struct slice name)
{
    static const char *const names[] = {
        "cache-control", "content-disposition", "content-encoding", "content-language",
        "content-md5",   "content-type",        "expires"};
    static const char *const signature[] = {"x-amz-algorithm", "x-amz-credential", "x-amz-date",
                                            "x-amz-security-token", "x-amz-signature"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (slice_eq_str(name, names[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(signature); i++) {
        if (slice_eq_str(name, signature[i])) {
            return false;
        }
    }
    return slice_starts(name, SLICE("x-amz-"));
}

static bool form_value_fits(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum step_result form_add_header(struct s3_request *req, struct http_header *headers,
                                        uint32_t *count, const struct form_field *field)
{
    struct http_header header = {.name = field->name, .value = field->value};

    if (slice_eq(field->name, SLICE("acl"))) {
        header.name = SLICE("x-amz-acl");
    } else if (slice_eq(field->name, SLICE("tagging"))) {
        header.name = SLICE("x-amz-tagging");
        if (form_tags(req, field->value, &header.value) == STEP_FAIL) {
            return STEP_FAIL;
        }
    } else if (!form_is_header(field->name)) {
        return STEP_NEXT;
    }
    if (!form_value_fits(header.value)) {
        (void)s3_fail(req, S3_InvalidArgument, "The value of a field holds control characters.");
        s3_error_detail(req, "ArgumentName", field->name);
        return STEP_FAIL;
    }
    header.value = slice_trim(header.value);
    headers[(*count)++] = header;
    return STEP_NEXT;
}

enum step_result form_apply(struct s3_request *req)
{
    const struct form_parser *form = &req->form->parser;
    struct http_request *request = &req->http->request;
    struct http_header *headers;
    uint32_t count = 0;

    if (form_make_key(req) == STEP_FAIL) {
        return STEP_FAIL;
    }
    headers =
        arena_alloc_raw(req->arena, (request->header_count + form->count + 1) * sizeof(*headers));
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (form_keeps_header(request->headers[i].name)) {
            headers[count++] = request->headers[i];
        }
    }
    for (uint32_t i = 0; i < form->count; i++) {
        if (form_add_header(req, headers, &count, &form->fields[i]) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    request->headers = headers;
    request->header_count = count;
    request->has_length = false; /* the file's length is not known */
    request->chunked = true;
    return STEP_NEXT;
}

/* ---- The reply ---- */

/* Where the object is found, as AWS writes it: the key's slashes are encoded. */
static struct slice form_location(struct s3_request *req)
{
    struct slice host = s3_header(req, "host");
    struct slice path = slice_trim(req->resource);
    struct slice key = percent_encode(req->arena, req->key, false);
    const char *scheme = req->http->is_tls ? "https" : "http";
    bool slash = path.len > 0 && path.data[path.len - 1] == '/';

    return arena_printf(req->arena, "%s://%.*s%.*s%s%.*s", scheme, (int)host.len,
                        host.len > 0 ? host.data : "", (int)path.len, path.len > 0 ? path.data : "",
                        slash ? "" : "/", (int)key.len, key.data);
}

static struct slice form_redirect(struct s3_request *req, struct slice etag)
{
    const struct form_parser *form = &req->form->parser;
    struct slice url = form_field(form, "success_action_redirect");
    struct slice bucket = req->bucket_name;
    struct slice key = percent_encode(req->arena, req->key, true);
    struct slice tag = percent_encode(req->arena, etag, false);
    bool queried;

    if (url.len == 0) {
        url = form_field(form, "redirect"); /* its old name */
    }
    url = slice_trim(url);
    if ((!slice_starts(url, SLICE("http://")) && !slice_starts(url, SLICE("https://"))) ||
        !form_value_fits(url)) {
        return SLICE_EMPTY;
    }
    queried = slice_find(url, '?') < url.len;
    return arena_printf(req->arena, "%.*s%sbucket=%.*s&key=%.*s&etag=%.*s", (int)url.len, url.data,
                        queried ? "&" : "?", (int)bucket.len, bucket.data, (int)key.len, key.data,
                        (int)tag.len, tag.data);
}

enum step_result form_reply(struct s3_request *req, struct slice etag)
{
    struct slice status = form_field(&req->form->parser, "success_action_status");
    struct slice redirect = form_redirect(req, etag);
    struct slice location = form_location(req);
    struct xml_writer xml;

    if (redirect.len > 0) {
        s3_reply_header(req, "Location", redirect);
        return s3_reply_empty(req, 303);
    }
    s3_reply_header(req, "Location", location);
    if (!slice_eq(status, SLICE("201"))) {
        return s3_reply_empty(req, slice_eq(status, SLICE("200")) ? 200 : 204);
    }
    s3_xml_begin(req, &xml);
    xml_writer_open(&xml, "PostResponse");
    xml_writer_text(&xml, "Location", location);
    xml_writer_text(&xml, "Bucket", req->bucket_name);
    xml_writer_text(&xml, "Key", req->key);
    xml_writer_text(&xml, "ETag", etag);
    xml_writer_close(&xml);
    return s3_reply_xml(req, 201);
}

void form_error_size(const struct s3_request *req, struct xml_writer *xml)
{
    const struct form_limits *limits = &req->form->limits;
    uint64_t received = req->payload.received;

    if (received == 0 && limits->length_min == 0 && limits->length_max == UINT64_MAX) {
        return;
    }
    xml_writer_u64(xml, "ProposedSize", received);
    if (req->error == S3_EntityTooSmall) {
        xml_writer_u64(xml, "MinSizeAllowed", limits->length_min);
    } else {
        xml_writer_u64(xml, "MaxSizeAllowed",
                       limits->length_max < LIMIT_PUT_BYTES ? limits->length_max : LIMIT_PUT_BYTES);
    }
}
