#include "gateway/s3/notification_xml.h"

#include "common/base/limits.h"
#include "common/client/event_match.h"
#include "common/codec/hex.h"

enum {
    NOTIFICATION_TARGETS_MAX = 100, /* of a bucket (AWS) */
    NOTIFICATION_ID_BYTES = 255,
    NOTIFICATION_EVENTS_MAX = 32,
    NOTIFICATION_ARN_BYTES = 1024
};

struct notification_form {
    const char *element;
    const char *arn;
};

static const struct notification_form forms[] = {
    [NOTIFICATION_TOPIC] = {"TopicConfiguration",         "Topic"        },
    [NOTIFICATION_QUEUE] = {"QueueConfiguration",         "Queue"        },
    [NOTIFICATION_FUNCTION] = {"CloudFunctionConfiguration", "CloudFunction"},
};

static enum step_result notification_refuse(struct s3_request *req, const char *text,
                                            const char *name, struct slice value)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return STEP_FAIL;
}

/* ---- Parts of a target ---- */

static enum step_result read_arn(struct s3_request *req, Kist__NotificationTarget *target,
                                 struct slice arn)
{
    const struct gateway_config *config = req->gateway->config;
    struct slice region;
    struct slice sink;

    if (arn.len > NOTIFICATION_ARN_BYTES || !slice_starts(arn, SLICE("arn:"))) {
        return notification_refuse(req, "The ARN is not well formed", "ARN", arn);
    }
    if (event_sink_of(arn, &region, &sink) &&
        (region.len == 0 || slice_eq(region, config->region))) {
        for (uint32_t i = 0; i < config->sink_count; i++) {
            if (slice_eq(config->sinks[i], sink)) {
                target->arn = s3_bytes(arn);
                return STEP_NEXT;
            }
        }
    }
    return notification_refuse(req, "Unable to validate the following destination configurations",
                               "ARN", arn);
}

static enum step_result read_events(struct s3_request *req, Kist__NotificationTarget *target,
                                    const struct xml_node *node)
{
    const struct xml_node *event = xml_child(node, "Event");

    target->events = arena_alloc(req->arena, NOTIFICATION_EVENTS_MAX * sizeof(*target->events));
    for (; event != NULL; event = xml_next(event, "Event")) {
        if (event_mask(event->text, true) == 0) {
            return notification_refuse(req, "A specified event is not supported for notifications.",
                                       "Event", event->text);
        }
        if (target->n_events == NOTIFICATION_EVENTS_MAX) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        target->events[target->n_events++] = s3_bytes(event->text);
    }
    return target->n_events > 0 ? STEP_NEXT : s3_fail(req, S3_MalformedXML, NULL);
}

static enum step_result read_rule(struct s3_request *req, Kist__NotificationTarget *target,
                                  const struct xml_node *rule)
{
    struct slice name = xml_child_text(rule, "Name");
    struct slice value = xml_child_text(rule, "Value");
    bool prefix = slice_eq_nocase(name, SLICE("prefix"));

    if (name.data == NULL || value.data == NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (!prefix && !slice_eq_nocase(name, SLICE("suffix"))) {
        return notification_refuse(req, "filter rule name must be either prefix or suffix",
                                   "FilterRule.Name", name);
    }
    if (value.len > LIMIT_KEY_BYTES) {
        return notification_refuse(
            req, "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation",
            "FilterRule.Value", SLICE("null"));
    }
    if (prefix ? target->has_prefix : target->has_suffix) {
        return notification_refuse(req,
                                   prefix ? "Cannot specify more than one prefix rule in a filter."
                                          : "Cannot specify more than one suffix rule in a filter.",
                                   "FilterRule.Name", name);
    }
    if (prefix) {
        target->has_prefix = true;
        target->prefix = s3_bytes(value);
    } else {
        target->has_suffix = true;
        target->suffix = s3_bytes(value);
    }
    return STEP_NEXT;
}

static enum step_result read_filter(struct s3_request *req, Kist__NotificationTarget *target,
                                    const struct xml_node *node)
{
    const struct xml_node *filter = xml_child(node, "Filter");
    const struct xml_node *key = filter != NULL ? xml_child(filter, "S3Key") : NULL;
    const struct xml_node *rule = key != NULL ? xml_child(key, NULL) : NULL;

    for (; rule != NULL; rule = xml_next(rule, NULL)) {
        if (!xml_is(rule, "FilterRule")) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        if (read_rule(req, target, rule) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

static void make_id(struct s3_request *req, Kist__NotificationTarget *target)
{
    struct extent_id id = gateway_new_id(req->gateway);
    char *text = arena_alloc(req->arena, 2 * sizeof(id.bytes) + 1);

    hex_encode(text, id.bytes, sizeof(id.bytes));
    target->id = s3_bytes(slice_of(text, 2 * sizeof(id.bytes)));
}

/* ---- A target among the others ---- */

static uint32_t mask_of(const Kist__NotificationTarget *target)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < target->n_events; i++) {
        mask |= event_mask(s3_slice(target->events[i]), true);
    }
    return mask;
}

/* Is there a key that both would tell of for the same event? */
static bool overlap(const Kist__NotificationTarget *a, const Kist__NotificationTarget *b)
{
    struct slice prefix[2] = {s3_slice(a->prefix), s3_slice(b->prefix)};
    struct slice suffix[2] = {s3_slice(a->suffix), s3_slice(b->suffix)};

    return (mask_of(a) & mask_of(b)) != 0 &&
           (slice_starts(prefix[0], prefix[1]) || slice_starts(prefix[1], prefix[0])) &&
           (slice_ends(suffix[0], suffix[1]) || slice_ends(suffix[1], suffix[0]));
}

static enum step_result check_others(struct s3_request *req, const Kist__Notification *notification,
                                     const Kist__NotificationTarget *target)
{
    for (size_t i = 0; i < notification->n_targets; i++) {
        const Kist__NotificationTarget *other = notification->targets[i];

        if (slice_eq(s3_slice(other->id), s3_slice(target->id))) {
            return notification_refuse(
                req, "Same ID used for multiple configurations. IDs must be unique", "Id",
                s3_slice(target->id));
        }
        if (overlap(other, target)) {
            return notification_refuse(
                req,
                "Configurations overlap. Configurations on the same bucket cannot share a common "
                "event type.",
                "Event", s3_slice(target->events[0]));
        }
    }
    return STEP_NEXT;
}

static enum step_result read_target(struct s3_request *req, enum notification_kind kind,
                                    const struct xml_node *node, Kist__Notification *notification)
{
    Kist__NotificationTarget *target = arena_alloc(req->arena, sizeof(*target));
    struct slice id = xml_child_text(node, "Id");
    struct slice arn = xml_child_text(node, forms[kind].arn);

    kist__notification_target__init(target);
    target->kind = kind;
    if (arn.data == NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (id.len > NOTIFICATION_ID_BYTES) {
        return notification_refuse(req, "ID length should not exceed allowed limit of 255", "Id",
                                   id);
    }
    target->id = s3_bytes(id);
    if (id.len == 0) {
        make_id(req, target);
    }
    if (read_events(req, target, node) == STEP_FAIL || read_arn(req, target, arn) == STEP_FAIL ||
        read_filter(req, target, node) == STEP_FAIL ||
        check_others(req, notification, target) == STEP_FAIL) {
        return STEP_FAIL;
    }
    notification->targets[notification->n_targets++] = target;
    return STEP_NEXT;
}

static enum notification_kind kind_of(const struct xml_node *node)
{
    for (size_t kind = NOTIFICATION_TOPIC; kind < ARRAY_LEN(forms); kind++) {
        if (xml_is(node, forms[kind].element)) {
            return (enum notification_kind)kind;
        }
    }
    return (enum notification_kind)0;
}

enum step_result notification_xml_read(struct s3_request *req, const struct xml_node *root,
                                       Kist__Notification *notification)
{
    const struct xml_node *node = xml_child(root, NULL);

    kist__notification__init(notification);
    notification->targets =
        arena_alloc(req->arena, NOTIFICATION_TARGETS_MAX * sizeof(*notification->targets));
    for (; node != NULL; node = xml_next(node, NULL)) {
        enum notification_kind kind = kind_of(node);

        if (xml_is(node, "EventBridgeConfiguration")) {
            return s3_fail(req, S3_NotImplemented, "EventBridgeConfiguration is not implemented.");
        }
        if (kind == 0 || notification->n_targets == NOTIFICATION_TARGETS_MAX) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        if (read_target(req, kind, node, notification) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

/* ---- Out ---- */

static void write_rule(struct xml_writer *xml, const char *name, ProtobufCBinaryData value)
{
    xml_writer_open(xml, "FilterRule");
    xml_writer_str(xml, "Name", name);
    xml_writer_text(xml, "Value", s3_slice(value));
    xml_writer_close(xml);
}

static void write_target(struct xml_writer *xml, const Kist__NotificationTarget *target)
{
    const struct notification_form *form = &forms[target->kind];

    xml_writer_open(xml, form->element);
    xml_writer_text(xml, "Id", s3_slice(target->id));
    xml_writer_text(xml, form->arn, s3_slice(target->arn));
    for (size_t i = 0; i < target->n_events; i++) {
        xml_writer_text(xml, "Event", s3_slice(target->events[i]));
    }
    if (target->has_prefix || target->has_suffix) {
        xml_writer_open(xml, "Filter");
        xml_writer_open(xml, "S3Key");
        if (target->has_prefix) {
            write_rule(xml, "Prefix", target->prefix);
        }
        if (target->has_suffix) {
            write_rule(xml, "Suffix", target->suffix);
        }
        xml_writer_close(xml);
        xml_writer_close(xml);
    }
    xml_writer_close(xml);
}

void notification_xml_write(struct xml_writer *xml, const Kist__Notification *notification)
{
    xml_writer_open_ns(xml, "NotificationConfiguration", XML_NS_S3);
    for (uint32_t kind = NOTIFICATION_TOPIC; kind < ARRAY_LEN(forms); kind++) {
        for (size_t i = 0; notification != NULL && i < notification->n_targets; i++) {
            if (notification->targets[i]->kind == kind) {
                write_target(xml, notification->targets[i]);
            }
        }
    }
    xml_writer_close(xml);
}
