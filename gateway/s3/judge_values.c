/* What the condition keys of policies hold in a request (AWS: "AWS global condition context keys",
 * "Amazon S3 policy keys"). A key that AWS knows and a request here never has is absent. */
#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/time_format.h"
#include "gateway/s3/judge.h"
#include "gateway/xml/xml_reader.h"

/* All users are in one account. */
static const struct slice values_account = {.data = "000000000000", .len = 12};

enum { VALUES_TAGS_MAX = 50, VALUES_DAY_S = 86400 };

static const struct judge *values_judge(const struct policy_request *policy)
{
    return CONTAINER_OF((struct policy_request *)(uintptr_t)policy, struct judge, access.policy);
}

static bool values_one(const struct s3_request *req, struct slice value, struct policy_values *out)
{
    struct slice *item;

    if (value.data == NULL) {
        return false;
    }
    item = arena_alloc_raw(req->arena, sizeof(*item));
    *item = value;
    *out = (struct policy_values){.items = item, .count = 1};
    return true;
}

/* ---- Who, when, from where ---- */

/* "10.0.0.1:4711", "[::1]:4711". */
static struct slice values_peer(const struct s3_request *req)
{
    struct slice peer = slice_str(req->http->peer);
    size_t end;

    if (peer.len > 0 && peer.data[0] == '[') {
        end = slice_find(peer, ']');
        return slice_of(peer.data + 1, end - 1);
    }
    return slice_of(peer.data, slice_find(peer, ':'));
}

static struct slice values_arn(const struct judge *judge)
{
    const struct policy_request *policy = &judge->access.policy;

    if (policy->user.len == 0) {
        return SLICE_EMPTY;
    }
    if (policy->is_root) {
        return SLICE("arn:aws:iam::000000000000:root");
    }
    return arena_printf(policy->arena, "arn:aws:iam::%.*s:user/%.*s", (int)values_account.len,
                        values_account.data, (int)policy->user.len, policy->user.data);
}

static uint64_t values_now_ns(const struct s3_request *req)
{
    return req->gateway->env->clock->wall_ns(req->gateway->env);
}

static struct slice values_time(const struct s3_request *req)
{
    char text[TIME_ISO8601_BYTES + 1];

    time_format_iso8601(values_now_ns(req), text);
    return arena_copy(req->arena, slice_of(text, TIME_ISO8601_BYTES));
}

static bool values_caller(const struct judge *judge, enum policy_key_id key, struct slice *out)
{
    const struct policy_request *policy = &judge->access.policy;
    const struct s3_request *req = judge->req;
    bool anonymous = policy->user.len == 0;

    switch ((int)key) {
    case POLICY_KEY_SOURCE_IP:
        *out = values_peer(req);
        return true;
    case POLICY_KEY_SECURE_TRANSPORT:
        *out = req->http->is_tls ? SLICE("true") : SLICE("false");
        return true;
    case POLICY_KEY_CURRENT_TIME:
        *out = values_time(req);
        return true;
    case POLICY_KEY_EPOCH_TIME:
        *out = arena_printf(req->arena, "%llu",
                            (unsigned long long)(values_now_ns(req) / 1000000000U));
        return true;
    case POLICY_KEY_USERNAME:
        *out = anonymous ? SLICE_EMPTY : policy->user;
        return true;
    case POLICY_KEY_USERID:
        *out = anonymous ? SLICE("anonymous") : policy->user;
        return true;
    case POLICY_KEY_PRINCIPAL_ARN:
        *out = values_arn(judge);
        return true;
    case POLICY_KEY_PRINCIPAL_TYPE:
        *out = anonymous ? SLICE("Anonymous") : policy->is_root ? SLICE("Account") : SLICE("User");
        return true;
    case POLICY_KEY_PRINCIPAL_ACCOUNT:
        *out = anonymous ? SLICE_EMPTY : values_account;
        return true;
    case POLICY_KEY_RESOURCE_ACCOUNT:
        *out = values_account;
        return true;
    case POLICY_KEY_VIA_SERVICE:
    case POLICY_KEY_PRINCIPAL_SERVICE:
        *out = SLICE("false");
        return true;
    default:
        return false;
    }
}

/* ---- The signature ---- */

static bool values_signature(const struct s3_request *req, enum policy_key_id key,
                             struct slice *out)
{
    uint64_t signed_s = 0;
    uint64_t now_ms = values_now_ns(req) / 1000000U;
    bool version_2 = req->auth.presigned && s3_has_param(req, "Signature");

    *out = SLICE_EMPTY;
    switch ((int)key) {
    case POLICY_KEY_SIGNATURE_VERSION:
        if (!req->auth.anonymous) {
            *out = version_2 ? SLICE("AWS") : SLICE("AWS4-HMAC-SHA256");
        }
        return true;
    case POLICY_KEY_AUTH_TYPE:
        if (!req->auth.anonymous) {
            *out = req->form != NULL     ? SLICE("POST")
                   : req->auth.presigned ? SLICE("REST-QUERY-STRING")
                                         : SLICE("REST-HEADER");
        }
        return true;
    case POLICY_KEY_SIGNATURE_AGE:
        if (!req->auth.anonymous && time_parse_amz(req->auth.date, &signed_s)) {
            uint64_t age = now_ms > signed_s * 1000 ? now_ms - signed_s * 1000 : 0;

            *out = arena_printf(req->arena, "%llu", (unsigned long long)age);
        }
        return true;
    default:
        return false;
    }
}

/* ---- Parameters and headers ---- */

static bool values_listing(const struct judge *judge, enum policy_key_id key, struct slice *out)
{
    switch ((int)key) {
    case POLICY_KEY_PREFIX:
        *out = judge->absent_key ? judge->key : s3_param(judge->req, "prefix");
        return true;
    case POLICY_KEY_DELIMITER:
        *out = judge->absent_key ? SLICE_EMPTY : s3_param(judge->req, "delimiter");
        return true;
    case POLICY_KEY_MAX_KEYS:
        *out = judge->absent_key ? SLICE_EMPTY : s3_param(judge->req, "max-keys");
        return true;
    case POLICY_KEY_VERSION_ID:
        *out = s3_param(judge->req, "versionId");
        return true;
    default:
        return false;
    }
}

struct values_header {
    enum policy_key_id key;
    const char *name;
};

static const struct values_header values_headers[] = {
    {POLICY_KEY_USER_AGENT,         "user-agent"                                     },
    {POLICY_KEY_REFERER,            "referer"                                        },
    {POLICY_KEY_ACL,                "x-amz-acl"                                      },
    {POLICY_KEY_GRANT_READ,         "x-amz-grant-read"                               },
    {POLICY_KEY_GRANT_WRITE,        "x-amz-grant-write"                              },
    {POLICY_KEY_GRANT_READ_ACP,     "x-amz-grant-read-acp"                           },
    {POLICY_KEY_GRANT_WRITE_ACP,    "x-amz-grant-write-acp"                          },
    {POLICY_KEY_GRANT_FULL_CONTROL, "x-amz-grant-full-control"                       },
    {POLICY_KEY_METADATA_DIRECTIVE, "x-amz-metadata-directive"                       },
    {POLICY_KEY_STORAGE_CLASS,      "x-amz-storage-class"                            },
    {POLICY_KEY_ENCRYPTION,         "x-amz-server-side-encryption"                   },
    {POLICY_KEY_ENCRYPTION_KEY,     "x-amz-server-side-encryption-aws-kms-key-id"    },
    {POLICY_KEY_CUSTOMER_ALGORITHM, "x-amz-server-side-encryption-customer-algorithm"},
    {POLICY_KEY_WEBSITE_REDIRECT,   "x-amz-website-redirect-location"                },
    {POLICY_KEY_CONTENT_SHA256,     "x-amz-content-sha256"                           },
    {POLICY_KEY_IF_MATCH,           "if-match"                                       },
    {POLICY_KEY_IF_NONE_MATCH,      "if-none-match"                                  },
};

/* "bucket/key", decoded, whatever the client wrote before it. */
static struct slice values_copy_source(const struct s3_request *req)
{
    struct slice header = s3_header(req, "x-amz-copy-source");
    struct slice text;

    if (header.data == NULL || !percent_decode(req->arena, header, false, &text)) {
        return SLICE_EMPTY;
    }
    return slice_starts(text, SLICE("/")) ? slice_after(text, 1) : text;
}

static bool values_from_header(const struct s3_request *req, enum policy_key_id key,
                               struct slice *out)
{
    if (key == POLICY_KEY_COPY_SOURCE) {
        *out = values_copy_source(req);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(values_headers); i++) {
        if (values_headers[i].key == key) {
            *out = s3_header(req, values_headers[i].name);
            return true;
        }
    }
    return false;
}

/* ---- Locks and tags: in headers, or in the document of their own operations ---- */

static const struct xml_node *values_document(const struct s3_request *req)
{
    const struct xml_node *root;

    if (req->document.len == 0 ||
        xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK) {
        return NULL;
    }
    return root;
}

static struct slice values_lock_text(const struct s3_request *req, const char *header,
                                     const char *root, const char *element)
{
    const struct xml_node *node = values_document(req);

    if (node != NULL && xml_is(node, root)) {
        return xml_child_text(node, element);
    }
    return s3_header(req, header);
}

static bool values_lock(const struct s3_request *req, enum policy_key_id key, struct slice *out)
{
    uint64_t until_ns = 0;
    uint64_t now_ns = values_now_ns(req);

    switch ((int)key) {
    case POLICY_KEY_LOCK_MODE:
        *out = values_lock_text(req, "x-amz-object-lock-mode", "Retention", "Mode");
        return true;
    case POLICY_KEY_LOCK_HOLD:
        *out = values_lock_text(req, "x-amz-object-lock-legal-hold", "LegalHold", "Status");
        return true;
    case POLICY_KEY_LOCK_UNTIL:
    case POLICY_KEY_LOCK_DAYS:
        *out = values_lock_text(req, "x-amz-object-lock-retain-until-date", "Retention",
                                "RetainUntilDate");
        if (key == POLICY_KEY_LOCK_DAYS && out->data != NULL) {
            bool fine = time_parse_iso8601(*out, &until_ns);
            uint64_t left_s = until_ns > now_ns ? (until_ns - now_ns) / 1000000000U : 0;

            *out =
                fine
                    ? arena_printf(req->arena, "%llu",
                                   (unsigned long long)((left_s + VALUES_DAY_S - 1) / VALUES_DAY_S))
                    : SLICE_EMPTY;
        }
        return true;
    default:
        return false;
    }
}

struct values_tag {
    struct slice key;
    struct slice value;
};

static size_t values_header_tags(const struct s3_request *req, struct values_tag *tags)
{
    struct slice rest = s3_header(req, "x-amz-tagging");
    size_t count = 0;

    while (rest.len > 0 && count < VALUES_TAGS_MAX) {
        struct slice term = slice_of(rest.data, slice_find(rest, '&'));
        size_t equals = slice_find(term, '=');

        rest = slice_after(rest, term.len + 1);
        if (percent_decode(req->arena, slice_of(term.data, equals), true, &tags[count].key) &&
            percent_decode(req->arena, slice_after(term, equals + 1), true, &tags[count].value)) {
            count += 1;
        }
    }
    return count;
}

static size_t values_document_tags(const struct xml_node *root, struct values_tag *tags)
{
    const struct xml_node *set = xml_child(root, "TagSet");
    size_t count = 0;

    for (const struct xml_node *tag = set != NULL ? xml_child(set, "Tag") : NULL;
         tag != NULL && count < VALUES_TAGS_MAX; tag = xml_next(tag, "Tag")) {
        tags[count].key = xml_child_text(tag, "Key");
        tags[count].value = xml_child_text(tag, "Value");
        count += 1;
    }
    return count;
}

static bool values_request_tags(const struct s3_request *req, bool keys, struct slice name,
                                struct policy_values *out)
{
    const struct xml_node *root = values_document(req);
    struct values_tag *tags = arena_alloc(req->arena, VALUES_TAGS_MAX * sizeof(*tags));
    size_t count = root != NULL && xml_is(root, "Tagging") ? values_document_tags(root, tags)
                                                           : values_header_tags(req, tags);
    struct slice *items;

    if (!keys) {
        for (size_t i = 0; i < count; i++) {
            if (slice_eq(tags[i].key, name)) {
                struct slice value = tags[i].value.data != NULL ? tags[i].value : SLICE("");

                return values_one(req, value, out);
            }
        }
        return false;
    }
    items = arena_alloc_raw(req->arena, (count + 1) * sizeof(*items));
    for (size_t i = 0; i < count; i++) {
        items[i] = tags[i].key;
    }
    *out = (struct policy_values){.items = items, .count = count};
    return count > 0;
}

static bool values_existing_tag(const struct judge *judge, struct slice name,
                                struct policy_values *out)
{
    const Kist__Record *record = judge->access.record;

    for (size_t i = 0; record != NULL && i < record->n_tags; i++) {
        if (slice_eq(s3_slice(record->tags[i]->name), name)) {
            struct slice value = s3_slice(record->tags[i]->value);

            return values_one(judge->req, value.data != NULL ? value : SLICE(""), out);
        }
    }
    return false;
}

bool judge_value(const struct policy_request *policy, enum policy_key_id key, struct slice name,
                 struct policy_values *out)
{
    const struct judge *judge = values_judge(policy);
    const struct s3_request *req = judge->req;
    struct slice value = SLICE_EMPTY;

    switch ((int)key) {
    case POLICY_KEY_EXISTING_TAG:
        return values_existing_tag(judge, name, out);
    case POLICY_KEY_REQUEST_TAG:
    case POLICY_KEY_REQUEST_TAG_KEYS:
        return values_request_tags(req, key == POLICY_KEY_REQUEST_TAG_KEYS, name, out);
    default:
        break;
    }
    if (values_caller(judge, key, &value) || values_signature(req, key, &value) ||
        values_listing(judge, key, &value) || values_from_header(req, key, &value) ||
        values_lock(req, key, &value)) {
        return values_one(req, value, out);
    }
    return false;
}
