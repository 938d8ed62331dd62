#include "common/lifecycle/lifecycle.h"

#include "common/base/assert.h"

static const uint64_t NS_PER_MS = 1000000ULL;

static struct slice bytes_of(ProtobufCBinaryData field)
{
    return slice_of(field.data, field.len);
}

/* ---- Time ---- */

static uint64_t day_ns(const Kist__Lifecycle *lifecycle)
{
    uint64_t ms = lifecycle->day_ms;

    return (ms > 0 && ms <= LIFECYCLE_DAY_MS ? ms : LIFECYCLE_DAY_MS) * NS_PER_MS;
}

uint64_t lifecycle_midnight(const Kist__Lifecycle *lifecycle, uint64_t from)
{
    uint64_t day = day_ns(lifecycle);
    uint64_t past = from % day;

    if (past == 0) {
        return from;
    }
    return from > LIFECYCLE_NEVER - day ? LIFECYCLE_NEVER : from - past + day;
}

uint64_t lifecycle_days_after(const Kist__Lifecycle *lifecycle, uint64_t from, uint32_t days)
{
    uint64_t day = day_ns(lifecycle);

    if (days > (LIFECYCLE_NEVER - from) / day) {
        return LIFECYCLE_NEVER; /* centuries from now */
    }
    return lifecycle_midnight(lifecycle, from + days * day);
}

/* ---- Filters ---- */

static bool filter_has_tag(const Kist__Record *record, const Kist__Header *wanted)
{
    for (size_t i = 0; i < record->n_tags; i++) {
        const Kist__Header *tag = record->tags[i];

        if (slice_eq(bytes_of(tag->name), bytes_of(wanted->name)) &&
            slice_eq(bytes_of(tag->value), bytes_of(wanted->value))) {
            return true;
        }
    }
    return false;
}

bool lifecycle_matches(const Kist__LifecycleRule *rule, struct slice key,
                       const Kist__Record *record)
{
    const Kist__LifecycleFilter *filter = rule->filter;

    if (!rule->enabled) {
        return false;
    }
    if (filter == NULL) {
        return true;
    }
    if (!slice_starts(key, bytes_of(filter->prefix)) ||
        (filter->has_size_greater && record->size <= filter->size_greater) ||
        (filter->has_size_less && record->size >= filter->size_less)) {
        return false;
    }
    for (size_t i = 0; i < filter->n_tags; i++) {
        if (!filter_has_tag(record, filter->tags[i])) {
            return false;
        }
    }
    return true;
}

/* Markers and uploads have neither tags nor size: rules that ask for these pass them over. */
static bool matches_plain(const Kist__LifecycleRule *rule, struct slice key)
{
    const Kist__LifecycleFilter *filter = rule->filter;

    return rule->enabled &&
           (filter == NULL || (slice_starts(key, bytes_of(filter->prefix)) && filter->n_tags == 0 &&
                               !filter->has_size_greater && !filter->has_size_less));
}

/* ---- Rules ---- */

/* The earlier wins; of two at once the first rule, as it stands in the configuration. */
static void when_earlier(struct lifecycle_when *when, uint64_t due, const Kist__LifecycleRule *rule)
{
    if (due < when->due) {
        *when = (struct lifecycle_when){.due = due, .rule = rule};
    }
}

static const struct lifecycle_when when_never = {.due = LIFECYCLE_NEVER, .rule = NULL};

static uint64_t rule_expires(const Kist__Lifecycle *lifecycle, const Kist__LifecycleRule *rule,
                             uint64_t stamp)
{
    if (rule->expire_days > 0) {
        return lifecycle_days_after(lifecycle, stamp, rule->expire_days);
    }
    return rule->expire_date > 0 ? rule->expire_date : LIFECYCLE_NEVER;
}

struct lifecycle_when lifecycle_current(const Kist__Lifecycle *lifecycle, struct slice key,
                                        const Kist__Record *record)
{
    struct lifecycle_when when = when_never;

    ASSERT(!record->delete_marker);
    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        const Kist__LifecycleRule *rule = lifecycle->rules[i];

        if (lifecycle_matches(rule, key, record)) {
            when_earlier(&when, rule_expires(lifecycle, rule, record->stamp), rule);
        }
    }
    return when;
}

struct lifecycle_when lifecycle_noncurrent(const Kist__Lifecycle *lifecycle, struct slice key,
                                           const Kist__Record *record, uint32_t newer)
{
    struct lifecycle_when when = when_never;
    uint64_t since = record->noncurrent_since != 0 ? record->noncurrent_since : record->stamp;

    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        const Kist__LifecycleRule *rule = lifecycle->rules[i];

        if (rule->noncurrent_days > 0 && newer >= rule->noncurrent_keep &&
            lifecycle_matches(rule, key, record)) {
            when_earlier(&when, lifecycle_days_after(lifecycle, since, rule->noncurrent_days),
                         rule);
        }
    }
    return when;
}

struct lifecycle_when lifecycle_marker(const Kist__Lifecycle *lifecycle, struct slice key,
                                       const Kist__Record *record, uint64_t alone_since)
{
    struct lifecycle_when when = when_never;

    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        const Kist__LifecycleRule *rule = lifecycle->rules[i];

        if (!matches_plain(rule, key)) {
            continue;
        }
        if (rule->expire_marker) {
            when_earlier(&when, lifecycle_midnight(lifecycle, alone_since), rule);
        }
        when_earlier(&when, rule_expires(lifecycle, rule, record->stamp), rule);
    }
    return when;
}

struct lifecycle_when lifecycle_upload(const Kist__Lifecycle *lifecycle, struct slice key,
                                       const Kist__Upload *upload)
{
    struct lifecycle_when when = when_never;

    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        const Kist__LifecycleRule *rule = lifecycle->rules[i];

        if (rule->abort_days > 0 && matches_plain(rule, key)) {
            when_earlier(&when, lifecycle_days_after(lifecycle, upload->stamp, rule->abort_days),
                         rule);
        }
    }
    return when;
}

uint32_t lifecycle_keep(const Kist__Lifecycle *lifecycle)
{
    uint32_t keep = 0;

    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        const Kist__LifecycleRule *rule = lifecycle->rules[i];

        if (rule->enabled && rule->noncurrent_days > 0 && rule->noncurrent_keep > keep) {
            keep = rule->noncurrent_keep;
        }
    }
    return keep;
}
