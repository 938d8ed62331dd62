#include "common/client/event_match.h"

#include "common/base/assert.h"

struct event_row {
    uint32_t bit;
    const char *name;
    bool configurable;
};

static const struct event_row events[] = {
#define EVENT(bit, name, configurable) {1U << (bit), (name), (configurable)},
#include "common/client/event_name.def"
#undef EVENT
};

bool slice_ends(struct slice text, struct slice end)
{
    return text.len >= end.len &&
           (end.len == 0 || memcmp(text.data + text.len - end.len, end.data, end.len) == 0);
}

uint32_t event_mask(struct slice pattern, bool configurable)
{
    uint32_t mask = 0;
    bool any;

    if (!slice_starts(pattern, SLICE("s3:"))) {
        return 0;
    }
    pattern = slice_after(pattern, 3);
    any = slice_ends(pattern, SLICE(":*"));
    if (any) {
        pattern.len -= 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        struct slice name = slice_str(events[i].name);

        if ((any ? slice_starts(name, pattern) : slice_eq(name, pattern)) &&
            (events[i].configurable || !configurable)) {
            mask |= events[i].bit;
        }
    }
    return mask;
}

static const char *const kind_names[] = {
    [KIST__CHANGE_KIND__CHANGE_NONE] = "",
    [KIST__CHANGE_KIND__CHANGE_PUT] = "ObjectCreated:Put",
    [KIST__CHANGE_KIND__CHANGE_POST] = "ObjectCreated:Post",
    [KIST__CHANGE_KIND__CHANGE_COPY] = "ObjectCreated:Copy",
    [KIST__CHANGE_KIND__CHANGE_COMPLETE] = "ObjectCreated:CompleteMultipartUpload",
    [KIST__CHANGE_KIND__CHANGE_DELETE] = "ObjectRemoved:Delete",
    [KIST__CHANGE_KIND__CHANGE_DELETE_MARKER] = "ObjectRemoved:DeleteMarkerCreated",
    [KIST__CHANGE_KIND__CHANGE_TAGS_PUT] = "ObjectTagging:Put",
    [KIST__CHANGE_KIND__CHANGE_TAGS_DELETE] = "ObjectTagging:Delete",
    [KIST__CHANGE_KIND__CHANGE_ACL] = "ObjectAcl:Put",
    [KIST__CHANGE_KIND__CHANGE_EXPIRE] = "LifecycleExpiration:Delete",
    [KIST__CHANGE_KIND__CHANGE_EXPIRE_MARKER] = "LifecycleExpiration:DeleteMarkerCreated",
    [KIST__CHANGE_KIND__CHANGE_RENAME] = "ObjectCreated:Copy",
    [KIST__CHANGE_KIND__CHANGE_APPEND] = "ObjectCreated:Put",
    [KIST__CHANGE_KIND__CHANGE_LOCK] = "ObjectLock:Put",
    [KIST__CHANGE_KIND__CHANGE_TEST] = "TestEvent",
};

const char *event_name(Kist__ChangeKind kind)
{
    return (size_t)kind < ARRAY_LEN(kind_names) && kind_names[kind] != NULL ? kind_names[kind] : "";
}

uint32_t event_bit(Kist__ChangeKind kind)
{
    const char *name = event_name(kind);

    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        if (strcmp(events[i].name, name) == 0) {
            return events[i].bit;
        }
    }
    return 0;
}

bool event_wanted(const Kist__NotificationTarget *target, uint32_t bit, struct slice key)
{
    struct slice prefix = slice_of(target->prefix.data, target->prefix.len);
    struct slice suffix = slice_of(target->suffix.data, target->suffix.len);
    uint32_t mask = 0;

    if (!slice_starts(key, prefix) || !slice_ends(key, suffix)) {
        return false;
    }
    for (size_t i = 0; i < target->n_events; i++) {
        mask |= event_mask(slice_of(target->events[i].data, target->events[i].len), true);
    }
    return (mask & bit) != 0;
}

bool event_sink_of(struct slice arn, struct slice *region, struct slice *sink)
{
    static const char *const services[] = {"sqs", "sns", "lambda"};
    struct slice field[3]; /* partition, service, region */
    bool known = false;
    size_t colon;

    if (!slice_starts(arn, SLICE("arn:"))) {
        return false;
    }
    arn = slice_after(arn, 4);
    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        size_t len = slice_find(arn, ':');

        field[i] = slice_of(arn.data, len);
        arn = slice_after(arn, len + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        known = known || slice_eq_str(field[1], services[i]);
    }
    colon = slice_find(arn, ':');
    if (!known || (!slice_eq(field[0], SLICE("kist")) && !slice_eq(field[0], SLICE("minio"))) ||
        colon == 0 || colon + 1 >= arn.len ||
        slice_find(slice_after(arn, colon + 1), ':') != arn.len - colon - 1) {
        return false;
    }
    *region = field[2];
    *sink = arn;
    return true;
}
