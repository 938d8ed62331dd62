/*
 * GetBucketCors, PutBucketCors, DeleteBucketCors. What a rule says is checked when it is put, so
 * that matching (cors.c) needs no checks.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"
#include "gateway/web/cors.h"

/* ---- Get ---- */

static void cors_xml_list(struct xml_writer *xml, const char *name, const ProtobufCBinaryData *list,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        xml_writer_text(xml, name, s3_slice(list[i]));
    }
}

static enum step_result get_cors_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Cors *cors = s3_settings(req->bucket)->cors;
    struct xml_writer xml;

    if (cors == NULL) {
        return s3_fail(req, S3_NoSuchCORSConfiguration, NULL);
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "CORSConfiguration", XML_NS_S3);
    for (size_t i = 0; i < cors->n_rules; i++) {
        const Kist__CorsRule *rule = cors->rules[i];

        xml_writer_open(&xml, "CORSRule");
        if (rule->id.len > 0) {
            xml_writer_text(&xml, "ID", s3_slice(rule->id));
        }
        cors_xml_list(&xml, "AllowedMethod", rule->methods, rule->n_methods);
        cors_xml_list(&xml, "AllowedOrigin", rule->origins, rule->n_origins);
        cors_xml_list(&xml, "AllowedHeader", rule->allowed_headers, rule->n_allowed_headers);
        if (rule->has_max_age) {
            xml_writer_raw(&xml, "MaxAgeSeconds",
                           arena_printf(req->arena, "%d", (int32_t)rule->max_age_s));
        }
        cors_xml_list(&xml, "ExposeHeader", rule->exposed_headers, rule->n_exposed_headers);
        xml_writer_close(&xml);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

/* ---- Put ---- */

/* The texts of all children of that name. */
static size_t cors_texts(struct s3_request *req, const struct xml_node *node, const char *name,
                         ProtobufCBinaryData **out)
{
    size_t count = 0;

    for (const struct xml_node *at = xml_child(node, name); at != NULL; at = xml_next(at, name)) {
        count += 1;
    }
    *out = arena_alloc(req->arena, (count > 0 ? count : 1) * sizeof(**out));
    count = 0;
    for (const struct xml_node *at = xml_child(node, name); at != NULL; at = xml_next(at, name)) {
        (*out)[count++] = s3_bytes(at->text);
    }
    return count;
}

static bool cors_one_wildcard(struct slice text)
{
    size_t first = slice_find(text, '*');

    return slice_find(slice_after(text, first + 1), '*') ==
           (first < text.len ? text.len - first - 1 : 0);
}

static enum step_result cors_check_methods(struct s3_request *req, const Kist__CorsRule *rule)
{
    for (size_t i = 0; i < rule->n_methods; i++) {
        struct slice method = s3_slice(rule->methods[i]);

        if (!cors_method_valid(method)) {
            return s3_failf(req, S3_InvalidRequest,
                            "Found unsupported HTTP method in CORS config. Unsupported method is "
                            "%.*s",
                            (int)method.len, method.data);
        }
    }
    return STEP_NEXT;
}

static enum step_result cors_check_wildcards(struct s3_request *req, const char *element,
                                             const ProtobufCBinaryData *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slice text = s3_slice(list[i]);

        if (!cors_one_wildcard(text)) {
            return s3_failf(req, S3_InvalidRequest,
                            "%s \"%.*s\" can not have more than one wildcard.", element,
                            (int)text.len, text.data);
        }
    }
    return STEP_NEXT;
}

static enum step_result cors_check_headers(struct s3_request *req, const ProtobufCBinaryData *list,
                                           size_t count, bool exposed)
{
    for (size_t i = 0; i < count; i++) {
        struct slice text = s3_slice(list[i]);

        if (exposed && slice_find(text, '*') < text.len) {
            return s3_failf(req, S3_InvalidRequest,
                            "ExposeHeader \"%.*s\" contains wildcard. We currently do not support "
                            "wildcard for ExposeHeader.",
                            (int)text.len, text.data);
        }
        if (text.len > 0 && !cors_header_name_valid(text, !exposed)) {
            return s3_failf(req, S3_InvalidRequest,
                            "AllowedHeader \"%.*s\" contains invalid character.", (int)text.len,
                            text.data);
        }
    }
    return STEP_NEXT;
}

static enum step_result cors_read_age(struct s3_request *req, const struct xml_node *node,
                                      Kist__CorsRule *rule)
{
    struct slice text = slice_trim(xml_child_text(node, "MaxAgeSeconds"));
    bool negative = text.len > 1 && text.data[0] == '-';
    uint64_t seconds = 0;

    if (xml_child(node, "MaxAgeSeconds") == NULL) {
        return STEP_NEXT;
    }
    if (!slice_to_u64(negative ? slice_after(text, 1) : text, INT32_MAX, &seconds)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    rule->has_max_age = true; /* AWS takes negative ones too; kept as two's complement */
    rule->max_age_s = negative ? 0 - (uint32_t)seconds : (uint32_t)seconds;
    return STEP_NEXT;
}

static enum step_result cors_read_rule(struct s3_request *req, const struct xml_node *node,
                                       Kist__CorsRule *rule)
{
    static const char *const names[] = {
        "ID", "AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader", "MaxAgeSeconds"};

    for (const struct xml_node *at = xml_child(node, NULL); at != NULL; at = xml_next(at, NULL)) {
        bool known = false;

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            known = known || xml_is(at, names[i]);
        }
        if (!known) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
    }
    kist__cors_rule__init(rule);
    rule->id = s3_bytes(xml_child_text(node, "ID"));
    rule->n_origins = cors_texts(req, node, "AllowedOrigin", &rule->origins);
    rule->n_methods = cors_texts(req, node, "AllowedMethod", &rule->methods);
    rule->n_allowed_headers = cors_texts(req, node, "AllowedHeader", &rule->allowed_headers);
    rule->n_exposed_headers = cors_texts(req, node, "ExposeHeader", &rule->exposed_headers);
    if (rule->n_origins == 0 || rule->n_methods == 0) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (rule->id.len > LIMIT_CORS_ID_BYTES) {
        return s3_failf(req, S3_InvalidArgument, "The ID of a rule may have %d characters.",
                        LIMIT_CORS_ID_BYTES);
    }
    if (cors_check_wildcards(req, "AllowedOrigin", rule->origins, rule->n_origins) == STEP_FAIL ||
        cors_check_methods(req, rule) == STEP_FAIL ||
        cors_check_wildcards(req, "AllowedHeader", rule->allowed_headers,
                             rule->n_allowed_headers) == STEP_FAIL ||
        cors_check_headers(req, rule->allowed_headers, rule->n_allowed_headers, false) ==
            STEP_FAIL ||
        cors_check_headers(req, rule->exposed_headers, rule->n_exposed_headers, true) ==
            STEP_FAIL) {
        return STEP_FAIL;
    }
    return cors_read_age(req, node, rule);
}

static enum step_result put_cors_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    Kist__Cors *cors;

    if (req->document.len > LIMIT_CORS_BYTES) {
        (void)s3_fail(req, S3_MaxMessageLengthExceeded, NULL);
        s3_error_detail(req, "MaxMessageLengthBytes",
                        arena_printf(req->arena, "%d", LIMIT_CORS_BYTES));
        return STEP_FAIL;
    }
    root = setting_document(req, "CORSConfiguration");
    if (root == NULL) {
        return STEP_FAIL;
    }
    cors = arena_alloc(req->arena, sizeof(*cors));
    kist__cors__init(cors);
    cors->rules = arena_alloc(req->arena, LIMIT_CORS_RULES * sizeof(Kist__CorsRule *));
    for (const struct xml_node *at = xml_child(root, NULL); at != NULL; at = xml_next(at, NULL)) {
        Kist__CorsRule *rule = arena_alloc(req->arena, sizeof(*rule));

        if (!xml_is(at, "CORSRule") || cors->n_rules == LIMIT_CORS_RULES) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        if (cors_read_rule(req, at, rule) == STEP_FAIL) {
            return STEP_FAIL;
        }
        cors->rules[cors->n_rules++] = rule;
    }
    if (cors->n_rules == 0) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    setting_begin(op, SETTING_CORS)->cors = cors;
    return STEP_NEXT;
}

/* ---- Delete ---- */

static enum step_result delete_cors_check(struct task *task)
{
    (void)setting_begin(setting_op_of(task), SETTING_CORS);
    return STEP_NEXT;
}

const struct s3_handler get_bucket_cors = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_cors_reply},
                },
};

const struct s3_handler put_bucket_cors = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT | NEEDS_CHECKSUM,
    .steps =
        {
                {"check", put_cors_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};

const struct s3_handler delete_bucket_cors = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_cors_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
