/*
 * A document becomes rules: each element is read by its own function, which refuses what AWS
 * refuses. Then each rule is looked at as a whole (lifecycle_check_rule), then the rules together.
 */
#include "gateway/s3/lifecycle_xml.h"

#include "common/base/limits.h"
#include "common/codec/time_format.h"
#include "common/crypto/random.h"
#include "common/lifecycle/lifecycle.h"
#include "gateway/s3/setting.h"

enum {
    TAG_KEY_BYTES_MAX = 128 * 4, /* characters of up to four bytes */
    TAG_VALUE_BYTES_MAX = 256 * 4,
    FILTER_TAGS_MAX = 10,
    RULE_ID_RANDOM_BYTES = 32
};

static const uint64_t NS_PER_DAY = 86400ULL * 1000000000ULL;

static enum step_result malformed(struct s3_request *req)
{
    return s3_fail(req, S3_MalformedXML, NULL);
}

/* ---- Numbers ---- */

/* A positive number of days; *found false when the element is absent. */
static enum step_result read_days(struct s3_request *req, const struct xml_node *node,
                                  const char *name, const char *action, uint32_t *days, bool *found)
{
    struct slice text = slice_trim(xml_child_text(node, name));
    uint64_t value;

    *found = xml_child(node, name) != NULL;
    if (!*found) {
        return STEP_NEXT;
    }
    if (text.len > 1 && text.data[0] == '-' &&
        slice_to_u64(slice_after(text, 1), UINT64_MAX, &value)) {
        value = 0;
    } else if (!slice_to_u64(text, INT32_MAX, &value)) {
        return malformed(req);
    }
    if (value == 0) {
        return s3_failf(req, S3_InvalidArgument, "'%s' for %s action must be a positive integer",
                        name, action);
    }
    *days = (uint32_t)value;
    return STEP_NEXT;
}

static enum step_result read_size(struct s3_request *req, const struct xml_node *node,
                                  const char *name, protobuf_c_boolean *has, uint64_t *size)
{
    struct slice text = slice_trim(xml_child_text(node, name));

    *has = xml_child(node, name) != NULL;
    if (*has && !slice_to_u64(text, INT64_MAX, size)) {
        return malformed(req);
    }
    return STEP_NEXT;
}

/* ---- Filters ---- */

static enum step_result read_tag(struct s3_request *req, const struct xml_node *node,
                                 Kist__LifecycleFilter *filter)
{
    static const char *const known[] = {"Key", "Value", NULL};
    Kist__Header *tag = arena_alloc(req->arena, sizeof(*tag));
    struct slice key = xml_child_text(node, "Key");
    struct slice value = xml_child_text(node, "Value");

    if (!setting_children_known(node, known) || key.data == NULL || value.data == NULL) {
        return malformed(req);
    }
    if (key.len == 0 || key.len > TAG_KEY_BYTES_MAX) {
        return s3_fail(req, S3_InvalidTag, "The TagKey you have provided is invalid");
    }
    if (value.len > TAG_VALUE_BYTES_MAX) {
        return s3_fail(req, S3_InvalidTag, "The TagValue you have provided is invalid");
    }
    for (size_t i = 0; i < filter->n_tags; i++) {
        if (slice_eq(s3_slice(filter->tags[i]->name), key)) {
            return s3_fail(req, S3_InvalidRequest, "Duplicate Tag Keys are not allowed.");
        }
    }
    if (filter->n_tags == FILTER_TAGS_MAX) {
        return malformed(req);
    }
    if (filter->tags == NULL) {
        filter->tags = arena_alloc(req->arena, FILTER_TAGS_MAX * sizeof(*filter->tags));
    }
    kist__header__init(tag);
    tag->name = s3_bytes(key);
    tag->value = s3_bytes(value);
    filter->tags[filter->n_tags++] = tag;
    return STEP_NEXT;
}

/* The predicates that stand in `node`; `count` of them. */
static enum step_result read_predicates(struct s3_request *req, const struct xml_node *node,
                                        Kist__LifecycleFilter *filter, uint32_t *count)
{
    struct slice prefix = xml_child_text(node, "Prefix");

    *count = 0;
    for (const struct xml_node *child = xml_child(node, NULL); child != NULL;
         child = xml_next(child, NULL)) {
        *count += 1;
        if (xml_is(child, "Tag")) {
            if (read_tag(req, child, filter) == STEP_FAIL) {
                return STEP_FAIL;
            }
        } else if (!xml_is(child, "Prefix") && !xml_is(child, "ObjectSizeGreaterThan") &&
                   !xml_is(child, "ObjectSizeLessThan")) {
            return malformed(req);
        }
    }
    if (prefix.len > LIMIT_KEY_BYTES) {
        return s3_fail(req, S3_InvalidRequest, "The maximum size of a prefix is 1024.");
    }
    filter->prefix = s3_bytes(prefix);
    if (read_size(req, node, "ObjectSizeGreaterThan", &filter->has_size_greater,
                  &filter->size_greater) == STEP_FAIL ||
        read_size(req, node, "ObjectSizeLessThan", &filter->has_size_less, &filter->size_less) ==
            STEP_FAIL) {
        return STEP_FAIL;
    }
    if (filter->has_size_greater && filter->has_size_less &&
        filter->size_less <= filter->size_greater) {
        return s3_fail(
            req, S3_InvalidRequest,
            "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.");
    }
    return STEP_NEXT;
}

static enum step_result read_filter(struct s3_request *req, const struct xml_node *rule,
                                    Kist__LifecycleRule *out)
{
    const struct xml_node *filter = xml_child(rule, "Filter");
    const struct xml_node *prefix = xml_child(rule, "Prefix");
    const struct xml_node *all = filter != NULL ? xml_child(filter, "And") : NULL;
    uint32_t count;

    if ((filter == NULL) == (prefix == NULL)) {
        return malformed(req);
    }
    out->filter = arena_alloc(req->arena, sizeof(*out->filter));
    kist__lifecycle_filter__init(out->filter);
    if (prefix != NULL) {
        if (prefix->text.len > LIMIT_KEY_BYTES) {
            return s3_fail(req, S3_InvalidRequest, "The maximum size of a prefix is 1024.");
        }
        out->form = LIFECYCLE_FORM_PREFIX;
        out->filter->prefix = s3_bytes(prefix->text);
        return STEP_NEXT;
    }
    if (all == NULL) {
        out->form = LIFECYCLE_FORM_FILTER;
        if (read_predicates(req, filter, out->filter, &count) == STEP_FAIL) {
            return STEP_FAIL;
        }
        return count > 1 ? malformed(req) : STEP_NEXT;
    }
    out->form = LIFECYCLE_FORM_AND;
    if (xml_next(xml_child(filter, NULL), NULL) != NULL) {
        return malformed(req);
    }
    if (read_predicates(req, all, out->filter, &count) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return count < 2 ? malformed(req) : STEP_NEXT;
}

/* ---- Actions ---- */

static enum step_result read_date(struct s3_request *req, struct slice text, uint64_t *date)
{
    if (!time_parse_iso8601(slice_trim(text), date)) {
        return malformed(req);
    }
    if (*date % NS_PER_DAY != 0 || *date == 0) {
        return s3_fail(req, S3_InvalidArgument, "'Date' must be at midnight GMT");
    }
    return STEP_NEXT;
}

static enum step_result read_expiration(struct s3_request *req, const struct xml_node *rule,
                                        Kist__LifecycleRule *out)
{
    static const char *const known[] = {"Date", "Days", "ExpiredObjectDeleteMarker", NULL};
    const struct xml_node *node = xml_child(rule, "Expiration");
    struct slice date;
    bool has_marker;
    bool has_days;
    bool marker;

    if (node == NULL) {
        return STEP_NEXT;
    }
    date = xml_child_text(node, "Date");
    has_marker = xml_child(node, "ExpiredObjectDeleteMarker") != NULL;
    if (!setting_children_known(node, known) ||
        !setting_bool(node, "ExpiredObjectDeleteMarker", &marker) ||
        read_days(req, node, "Days", "Expiration", &out->expire_days, &has_days) == STEP_FAIL) {
        return req->error != S3_OK ? STEP_FAIL : malformed(req);
    }
    out->expire_marker = marker;
    if ((has_days ? 1 : 0) + (date.data != NULL ? 1 : 0) + (has_marker ? 1 : 0) != 1) {
        return malformed(req);
    }
    return date.data != NULL ? read_date(req, date, &out->expire_date) : STEP_NEXT;
}

static enum step_result read_noncurrent(struct s3_request *req, const struct xml_node *rule,
                                        Kist__LifecycleRule *out)
{
    static const char *const known[] = {"NoncurrentDays", "NewerNoncurrentVersions", NULL};
    static const char *const action = "NoncurrentVersionExpiration";
    const struct xml_node *node = xml_child(rule, "NoncurrentVersionExpiration");
    bool found;

    if (node == NULL) {
        return STEP_NEXT;
    }
    if (!setting_children_known(node, known)) {
        return malformed(req);
    }
    if (read_days(req, node, "NoncurrentDays", action, &out->noncurrent_days, &found) ==
        STEP_FAIL) {
        return STEP_FAIL;
    }
    if (!found) {
        return malformed(req);
    }
    if (read_days(req, node, "NewerNoncurrentVersions", action, &out->noncurrent_keep, &found) ==
        STEP_FAIL) {
        return STEP_FAIL;
    }
    if (out->noncurrent_keep > LIFECYCLE_KEEP_MAX) {
        return s3_failf(req, S3_InvalidArgument,
                        "'NewerNoncurrentVersions' for %s action must be at most %d", action,
                        LIFECYCLE_KEEP_MAX);
    }
    return STEP_NEXT;
}

static enum step_result read_abort(struct s3_request *req, const struct xml_node *rule,
                                   Kist__LifecycleRule *out)
{
    static const char *const known[] = {"DaysAfterInitiation", NULL};
    const struct xml_node *node = xml_child(rule, "AbortIncompleteMultipartUpload");
    bool found;

    if (node == NULL) {
        return STEP_NEXT;
    }
    if (!setting_children_known(node, known)) {
        return malformed(req);
    }
    if (read_days(req, node, "DaysAfterInitiation", "AbortIncompleteMultipartUpload",
                  &out->abort_days, &found) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return found ? STEP_NEXT : malformed(req);
}

/* Not implemented, but a date that is none is the client's fault first. */
static enum step_result refuse_transitions(struct s3_request *req, const struct xml_node *rule)
{
    const struct xml_node *node = xml_child(rule, "Transition");

    if (node == NULL && xml_child(rule, "NoncurrentVersionTransition") == NULL) {
        return STEP_NEXT;
    }
    for (; node != NULL; node = xml_next(node, "Transition")) {
        struct slice date = xml_child_text(node, "Date");
        uint64_t ignored;

        if (date.data != NULL && read_date(req, date, &ignored) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return s3_fail(req, S3_NotImplemented,
                   "Transitions to other storage classes are not implemented.");
}

/* ---- Rules ---- */

/* Names of its own for rules without one, as AWS makes them. */
static struct slice rule_id(struct s3_request *req)
{
    char *text = arena_alloc(req->arena, RULE_ID_RANDOM_BYTES + 1);

    random_text(text, RULE_ID_RANDOM_BYTES, "abcdefghijklmnopqrstuvwxyz0123456789");
    return slice_of(text, RULE_ID_RANDOM_BYTES);
}

/* What no element refuses by itself. */
static enum step_result check_rule(struct s3_request *req, const Kist__LifecycleRule *rule,
                                   bool has_expiration)
{
    const Kist__LifecycleFilter *filter = rule->filter;
    bool sized = filter->has_size_greater || filter->has_size_less;

    if (!has_expiration && rule->noncurrent_days == 0 && rule->abort_days == 0) {
        return s3_fail(req, S3_InvalidRequest,
                       "At least one action needs to be specified in a rule.");
    }
    if (filter->n_tags > 0 && rule->abort_days > 0) {
        return s3_fail(req, S3_InvalidRequest,
                       "AbortIncompleteMultipartUpload cannot be specified with Tags.");
    }
    if (filter->n_tags > 0 && rule->expire_marker) {
        return s3_fail(req, S3_InvalidRequest,
                       "ExpiredObjectDeleteMarker cannot be specified with Tags.");
    }
    if (sized && rule->abort_days > 0) {
        return s3_fail(req, S3_InvalidRequest,
                       "AbortIncompleteMultipartUpload cannot be specified with Object Size.");
    }
    if (sized && rule->expire_marker) {
        return s3_fail(req, S3_InvalidRequest,
                       "ExpiredObjectDeleteMarker cannot be specified with Object Size.");
    }
    return STEP_NEXT;
}

static enum step_result read_rule(struct s3_request *req, const struct xml_node *node,
                                  Kist__LifecycleRule *out)
{
    static const char *const known[] = {"ID",
                                        "Prefix",
                                        "Filter",
                                        "Status",
                                        "Expiration",
                                        "NoncurrentVersionExpiration",
                                        "AbortIncompleteMultipartUpload",
                                        NULL};
    struct slice id = xml_child_text(node, "ID");
    struct slice status = xml_child_text(node, "Status");

    if (refuse_transitions(req, node) == STEP_FAIL) {
        return STEP_FAIL;
    }
    out->enabled = slice_eq(status, SLICE("Enabled"));
    if (!setting_children_known(node, known) ||
        (!out->enabled && !slice_eq(status, SLICE("Disabled")))) {
        return malformed(req);
    }
    if (id.len > LIFECYCLE_ID_BYTES_MAX) {
        return s3_failf(req, S3_InvalidArgument, "ID length should not exceed allowed limit of %d",
                        LIFECYCLE_ID_BYTES_MAX);
    }
    out->id = s3_bytes(id.len > 0 ? id : rule_id(req));
    if (read_filter(req, node, out) == STEP_FAIL || read_expiration(req, node, out) == STEP_FAIL ||
        read_noncurrent(req, node, out) == STEP_FAIL || read_abort(req, node, out) == STEP_FAIL) {
        return STEP_FAIL;
    }
    return check_rule(req, out, xml_child(node, "Expiration") != NULL);
}

static enum step_result check_ids(struct s3_request *req, const Kist__Lifecycle *lifecycle)
{
    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        for (size_t j = i + 1; j < lifecycle->n_rules; j++) {
            struct slice id = s3_slice(lifecycle->rules[i]->id);

            if (slice_eq(id, s3_slice(lifecycle->rules[j]->id))) {
                return s3_failf(req, S3_InvalidArgument,
                                "Rule ID must be unique. Found same ID for more than one rule");
            }
        }
    }
    return STEP_NEXT;
}

enum step_result lifecycle_xml_read(struct s3_request *req, const struct xml_node *root,
                                    Kist__Lifecycle *out)
{
    size_t count = 0;

    for (const struct xml_node *node = xml_child(root, NULL); node != NULL;
         node = xml_next(node, NULL)) {
        count += 1;
        if (!xml_is(node, "Rule") || count > LIFECYCLE_RULES_MAX) {
            return malformed(req);
        }
    }
    if (count == 0) {
        return malformed(req);
    }
    out->rules = arena_alloc(req->arena, count * sizeof(*out->rules));
    for (const struct xml_node *node = xml_child(root, "Rule"); node != NULL;
         node = xml_next(node, "Rule")) {
        Kist__LifecycleRule *rule = arena_alloc(req->arena, sizeof(*rule));

        kist__lifecycle_rule__init(rule);
        if (read_rule(req, node, rule) == STEP_FAIL) {
            return STEP_FAIL;
        }
        out->rules[out->n_rules++] = rule;
    }
    return check_ids(req, out);
}
