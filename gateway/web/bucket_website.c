/*
 * GetBucketWebsite, PutBucketWebsite, DeleteBucketWebsite. Codes and texts are those of AWS where
 * we know them.
 */
#include "common/base/limits.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

/* ---- Get ---- */

static void website_xml_optional(struct xml_writer *xml, const char *name, bool present,
                                 ProtobufCBinaryData value)
{
    if (present) {
        xml_writer_text(xml, name, s3_slice(value));
    }
}

static void website_xml_rule(struct xml_writer *xml, const Kist__RoutingRule *rule)
{
    xml_writer_open(xml, "RoutingRule");
    if (rule->prefix.len > 0 || rule->error_code != 0) {
        xml_writer_open(xml, "Condition");
        website_xml_optional(xml, "KeyPrefixEquals", rule->prefix.len > 0, rule->prefix);
        if (rule->error_code != 0) {
            xml_writer_u64(xml, "HttpErrorCodeReturnedEquals", rule->error_code);
        }
        xml_writer_close(xml);
    }
    xml_writer_open(xml, "Redirect");
    website_xml_optional(xml, "Protocol", rule->protocol.len > 0, rule->protocol);
    website_xml_optional(xml, "HostName", rule->host.len > 0, rule->host);
    website_xml_optional(xml, "ReplaceKeyPrefixWith", rule->has_replace_prefix,
                         rule->replace_prefix);
    website_xml_optional(xml, "ReplaceKeyWith", rule->has_replace_key, rule->replace_key);
    if (rule->status != 0) {
        xml_writer_u64(xml, "HttpRedirectCode", rule->status);
    }
    xml_writer_close(xml);
    xml_writer_close(xml);
}

static enum step_result get_website_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__Website *website = s3_settings(req->bucket)->website;
    struct xml_writer xml;

    if (website == NULL) {
        (void)s3_fail(req, S3_NoSuchWebsiteConfiguration, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "WebsiteConfiguration", XML_NS_S3);
    if (website->redirect_host.len > 0) {
        xml_writer_open(&xml, "RedirectAllRequestsTo");
        xml_writer_text(&xml, "HostName", s3_slice(website->redirect_host));
        website_xml_optional(&xml, "Protocol", website->redirect_protocol.len > 0,
                             website->redirect_protocol);
        xml_writer_close(&xml);
    }
    if (website->index_suffix.len > 0) {
        xml_writer_open(&xml, "IndexDocument");
        xml_writer_text(&xml, "Suffix", s3_slice(website->index_suffix));
        xml_writer_close(&xml);
    }
    if (website->error_key.len > 0) {
        xml_writer_open(&xml, "ErrorDocument");
        xml_writer_text(&xml, "Key", s3_slice(website->error_key));
        xml_writer_close(&xml);
    }
    if (website->n_rules > 0) {
        xml_writer_open(&xml, "RoutingRules");
        for (size_t i = 0; i < website->n_rules; i++) {
            website_xml_rule(&xml, website->rules[i]);
        }
        xml_writer_close(&xml);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

/* ---- Put ---- */

static enum step_result website_malformed(struct s3_request *req)
{
    return s3_fail(req, S3_MalformedXML, NULL);
}

static enum step_result website_bad_argument(struct s3_request *req, const char *name,
                                             struct slice value, const char *text)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return STEP_FAIL;
}

static enum step_result website_read_protocol(struct s3_request *req, const struct xml_node *node,
                                              ProtobufCBinaryData *out)
{
    struct slice text = xml_child_text(node, "Protocol");

    if (text.len > 0 && !slice_eq(text, SLICE("http")) && !slice_eq(text, SLICE("https"))) {
        return s3_fail(req, S3_InvalidRequest,
                       "Invalid protocol, protocol can be http or https. If not defined the "
                       "protocol will be selected automatically.");
    }
    *out = s3_bytes(text);
    return STEP_NEXT;
}

/* It becomes part of a Location header: no blanks, no controls, no path. */
static bool website_host_valid(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        unsigned char c = (unsigned char)host.data[i];

        if (c <= 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '?' || c == '#' || c == '@') {
            return false;
        }
    }
    return host.len <= 255;
}

static enum step_result website_read_host(struct s3_request *req, const struct xml_node *node,
                                          ProtobufCBinaryData *out)
{
    struct slice text = xml_child_text(node, "HostName");

    if (!website_host_valid(text)) {
        return website_bad_argument(req, "HostName", text, "The host name is not well formed");
    }
    *out = s3_bytes(text);
    return STEP_NEXT;
}

static enum step_result website_read_code(struct s3_request *req, struct slice text,
                                          const char *what, uint32_t *out)
{
    bool redirect = what[0] == 'r';
    uint64_t code = 0;
    bool valid;

    if (text.data == NULL) {
        return STEP_NEXT;
    }
    if (!slice_to_u64(text, 99999, &code)) {
        return website_malformed(req);
    }
    valid = redirect ? (code >= 301 && code <= 308 && code != 306)
                     : ((code >= 400 && code <= 417) || (code >= 500 && code <= 505));
    if (!valid) {
        return s3_failf(req, S3_InvalidRequest,
                        "The provided HTTP %s code (%llu) is not valid. Valid codes are %s.", what,
                        (unsigned long long)code, redirect ? "3XX except 300" : "4XX or 5XX");
    }
    *out = (uint32_t)code;
    return STEP_NEXT;
}

static enum step_result website_read_condition(struct s3_request *req, const struct xml_node *node,
                                               Kist__RoutingRule *rule)
{
    static const char *const names[] = {"KeyPrefixEquals", "HttpErrorCodeReturnedEquals", NULL};
    struct slice code;

    if (node == NULL) {
        return STEP_NEXT;
    }
    code = xml_child_text(node, "HttpErrorCodeReturnedEquals");
    rule->prefix = s3_bytes(xml_child_text(node, "KeyPrefixEquals"));
    if (!setting_children_known(node, names) || (rule->prefix.data == NULL && code.data == NULL)) {
        return website_malformed(req);
    }
    return website_read_code(req, code, "error", &rule->error_code);
}

static enum step_result website_read_redirect(struct s3_request *req, const struct xml_node *node,
                                              Kist__RoutingRule *rule)
{
    static const char *const names[] = {
        "Protocol", "HostName", "ReplaceKeyPrefixWith", "ReplaceKeyWith", "HttpRedirectCode", NULL};
    struct slice prefix;
    struct slice key;

    if (node == NULL || xml_child(node, NULL) == NULL || !setting_children_known(node, names)) {
        return website_malformed(req);
    }
    prefix = xml_child_text(node, "ReplaceKeyPrefixWith");
    key = xml_child_text(node, "ReplaceKeyWith");
    rule->has_replace_prefix = prefix.data != NULL;
    rule->replace_prefix = s3_bytes(prefix);
    rule->has_replace_key = key.data != NULL;
    rule->replace_key = s3_bytes(key);
    if (rule->has_replace_prefix && rule->has_replace_key) {
        return s3_fail(req, S3_InvalidRequest,
                       "You can only define ReplaceKeyPrefix or ReplaceKey but not both.");
    }
    if (website_read_protocol(req, node, &rule->protocol) == STEP_FAIL ||
        website_read_host(req, node, &rule->host) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return website_read_code(req, xml_child_text(node, "HttpRedirectCode"), "redirect",
                             &rule->status);
}

static enum step_result website_read_rules(struct s3_request *req, const struct xml_node *node,
                                           Kist__Website *website)
{
    static const char *const names[] = {"Condition", "Redirect", NULL};
    size_t count = 0;

    if (node == NULL) {
        return STEP_NEXT;
    }
    for (const struct xml_node *at = xml_child(node, NULL); at != NULL; at = xml_next(at, NULL)) {
        count += 1;
        if (!xml_is(at, "RoutingRule") || !setting_children_known(at, names)) {
            return website_malformed(req);
        }
    }
    if (count == 0) {
        return STEP_NEXT;
    }
    if (count > LIMIT_ROUTING_RULES) {
        return s3_failf(req, S3_InvalidRequest,
                        "%zu routing rules provided, the number of routing rules in a website "
                        "configuration is limited to %d.",
                        count, LIMIT_ROUTING_RULES);
    }
    website->rules = arena_alloc(req->arena, count * sizeof(Kist__RoutingRule *));
    for (const struct xml_node *at = xml_child(node, NULL); at != NULL; at = xml_next(at, NULL)) {
        Kist__RoutingRule *rule = arena_alloc(req->arena, sizeof(*rule));

        kist__routing_rule__init(rule);
        if (website_read_redirect(req, xml_child(at, "Redirect"), rule) == STEP_FAIL ||
            website_read_condition(req, xml_child(at, "Condition"), rule) == STEP_FAIL) {
            return STEP_FAIL;
        }
        website->rules[website->n_rules++] = rule;
    }
    return STEP_NEXT;
}

static enum step_result website_read_all(struct s3_request *req, const struct xml_node *root,
                                         const struct xml_node *node, Kist__Website *website)
{
    static const char *const names[] = {"HostName", "Protocol", NULL};

    if (xml_next(xml_child(root, NULL), NULL) != NULL || !setting_children_known(node, names) ||
        xml_child_text(node, "HostName").len == 0) {
        return website_malformed(req);
    }
    if (website_read_protocol(req, node, &website->redirect_protocol) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return website_read_host(req, node, &website->redirect_host);
}

static enum step_result website_read_documents(struct s3_request *req, const struct xml_node *root,
                                               Kist__Website *website)
{
    const struct xml_node *index = xml_child(root, "IndexDocument");
    const struct xml_node *error = xml_child(root, "ErrorDocument");
    struct slice suffix;
    struct slice key;

    if (index == NULL) {
        return website_malformed(req);
    }
    suffix = xml_child_text(index, "Suffix");
    if (suffix.len == 0 || slice_find(suffix, '/') < suffix.len || suffix.len > LIMIT_KEY_BYTES) {
        return website_bad_argument(req, "IndexDocument", suffix,
                                    "The IndexDocument Suffix is not well formed");
    }
    website->index_suffix = s3_bytes(suffix);
    if (error == NULL) {
        return STEP_NEXT;
    }
    key = xml_child_text(error, "Key");
    if (key.len == 0 || key.len > LIMIT_KEY_BYTES) {
        return website_bad_argument(req, "ErrorDocument", key,
                                    "The ErrorDocument Key is not well formed");
    }
    website->error_key = s3_bytes(key);
    return STEP_NEXT;
}

static enum step_result put_website_check(struct task *task)
{
    static const char *const names[] = {"IndexDocument", "ErrorDocument", "RedirectAllRequestsTo",
                                        "RoutingRules", NULL};
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root;
    const struct xml_node *all;
    Kist__Website *website;

    if (req->document.len > LIMIT_WEBSITE_BYTES) {
        (void)s3_fail(req, S3_MaxMessageLengthExceeded, NULL);
        s3_error_detail(req, "MaxMessageLengthBytes",
                        arena_printf(req->arena, "%d", LIMIT_WEBSITE_BYTES));
        return STEP_FAIL;
    }
    root = setting_document(req, "WebsiteConfiguration");
    if (root == NULL) {
        return STEP_FAIL;
    }
    if (!setting_children_known(root, names)) {
        return website_malformed(req);
    }
    website = arena_alloc(req->arena, sizeof(*website));
    kist__website__init(website);
    all = xml_child(root, "RedirectAllRequestsTo");
    if (all != NULL) {
        if (website_read_all(req, root, all, website) == STEP_FAIL) {
            return STEP_FAIL;
        }
    } else if (website_read_documents(req, root, website) == STEP_FAIL ||
               website_read_rules(req, xml_child(root, "RoutingRules"), website) == STEP_FAIL) {
        return STEP_FAIL;
    }
    setting_begin(op, SETTING_WEBSITE)->website = website;
    return STEP_NEXT;
}

static enum step_result delete_website_check(struct task *task)
{
    (void)setting_begin(setting_op_of(task), SETTING_WEBSITE);
    return STEP_NEXT;
}

const struct s3_handler get_bucket_website = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_website_reply},
                },
};

const struct s3_handler put_bucket_website = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_website_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};

const struct s3_handler delete_bucket_website = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"check", delete_website_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
