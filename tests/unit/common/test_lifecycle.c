/* Lifecycle rules: whom they take, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/lifecycle/lifecycle.h"

#define S   1000000000ULL
#define DAY (86400 * S)

static ProtobufCBinaryData field_of(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

/* One rule over a prefix, and a record; the tests change what they are about. */
struct world {
    Kist__Lifecycle lifecycle;
    Kist__LifecycleRule rules[2];
    Kist__LifecycleFilter filters[2];
    Kist__LifecycleRule *rule_list[2];
    Kist__Record record;
    Kist__Header tag;
    Kist__Header *tags[1];
    Kist__Header wanted;
    Kist__Header *wanted_list[1];
};

static struct world world;

static int setup(void **state)
{
    world = (struct world){.lifecycle = KIST__LIFECYCLE__INIT, .record = KIST__RECORD__INIT};
    for (size_t i = 0; i < ARRAY_LEN(world.rules); i++) {
        kist__lifecycle_rule__init(&world.rules[i]);
        kist__lifecycle_filter__init(&world.filters[i]);
        world.rules[i].enabled = true;
        world.rules[i].filter = &world.filters[i];
        world.rule_list[i] = &world.rules[i];
    }
    kist__header__init(&world.tag);
    kist__header__init(&world.wanted);
    world.tag.name = world.wanted.name = field_of("k");
    world.tag.value = world.wanted.value = field_of("v");
    world.tags[0] = &world.tag;
    world.wanted_list[0] = &world.wanted;
    world.lifecycle.rules = world.rule_list;
    world.lifecycle.n_rules = 1;
    world.record.stamp = 10 * DAY + 5 * S;
    world.record.size = 100;
    *state = &world;
    return 0;
}

/* "Days after creation, rounded up to midnight" (AWS); on the dot it is that midnight. */
static void days_end_at_midnight(void **state)
{
    static const struct {
        uint64_t day_ms;
        uint64_t from;
        uint32_t days;
        uint64_t due;
    } rows[] = {
        {0,        10 * DAY + 1,     1,          12 * DAY       },
        {0,        10 * DAY,         1,          11 * DAY       },
        {0,        11 * DAY - 1,     3,          14 * DAY       },
        {86400000, 5,                30,         31 * DAY       },
        {2000,     7 * S,            1,          10 * S         },
        {2000,     8 * S,            2,          12 * S         },
        {2000,     8 * S + 1,        2,          14 * S         },
        {0,        10 * DAY,         INT32_MAX,  LIFECYCLE_NEVER},
        {0,        UINT64_MAX - DAY, 1,          LIFECYCLE_NEVER},
        {0,        UINT64_MAX - 2,   UINT32_MAX, LIFECYCLE_NEVER},
        {86400001, 1,                1,          2 * DAY        }, /* not a day: a real one */
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w->lifecycle.day_ms = rows[i].day_ms;
        assert_int_equal(lifecycle_days_after(&w->lifecycle, rows[i].from, rows[i].days),
                         rows[i].due);
    }
}

/* A filter that takes too much deletes what its owner wanted to keep. */
static void filters_are_exact(void **state)
{
    static const struct {
        const char *prefix;
        const char *key;
        uint64_t greater; /* 0: none */
        uint64_t less;
        bool wants_tag;
        bool has_tag;
        bool enabled;
        bool matches;
    } rows[] = {
        {"",    "a",   0,   0,   false, false, true,  true },
        {"a/",  "a/b", 0,   0,   false, false, true,  true },
        {"a/",  "a",   0,   0,   false, false, true,  false},
        {"a/b", "a/",  0,   0,   false, false, true,  false},
        {"",    "a",   99,  0,   false, false, true,  true },
        {"",    "a",   100, 0,   false, false, true,  false},
        {"",    "a",   0,   101, false, false, true,  true },
        {"",    "a",   0,   100, false, false, true,  false},
        {"",    "a",   0,   0,   true,  false, true,  false},
        {"",    "a",   0,   0,   true,  true,  true,  true },
        {"",    "a",   0,   0,   false, true,  true,  true },
        {"",    "a",   0,   0,   false, false, false, false},
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w->filters[0].prefix = field_of(rows[i].prefix);
        w->filters[0].has_size_greater = rows[i].greater > 0;
        w->filters[0].size_greater = rows[i].greater;
        w->filters[0].has_size_less = rows[i].less > 0;
        w->filters[0].size_less = rows[i].less;
        w->filters[0].tags = w->wanted_list;
        w->filters[0].n_tags = rows[i].wants_tag ? 1 : 0;
        w->record.tags = w->tags;
        w->record.n_tags = rows[i].has_tag ? 1 : 0;
        w->rules[0].enabled = rows[i].enabled;
        assert_int_equal(lifecycle_matches(&w->rules[0], slice_str(rows[i].key), &w->record),
                         rows[i].matches);
    }
}

/* A tag of the same name and another value is another tag. */
static void a_tag_counts_with_its_value(void **state)
{
    struct world *w = *state;

    w->filters[0].tags = w->wanted_list;
    w->filters[0].n_tags = 1;
    w->record.tags = w->tags;
    w->record.n_tags = 1;
    w->tag.value = field_of("w");
    assert_false(lifecycle_matches(&w->rules[0], SLICE("a"), &w->record));
}

/* The earliest of all rules acts, and is the one that clients are told. */
static void the_earliest_rule_wins(void **state)
{
    struct world *w = *state;
    struct lifecycle_when when;

    w->lifecycle.n_rules = 2;
    w->rules[0].expire_days = 5;
    w->rules[1].expire_date = 12 * DAY;
    when = lifecycle_current(&w->lifecycle, SLICE("a"), &w->record);
    assert_int_equal(when.due, 12 * DAY);
    assert_ptr_equal(when.rule, &w->rules[1]);
    w->rules[1].enabled = false;
    when = lifecycle_current(&w->lifecycle, SLICE("a"), &w->record);
    assert_int_equal(when.due, 16 * DAY);
    w->rules[0].expire_days = 0;
    when = lifecycle_current(&w->lifecycle, SLICE("a"), &w->record);
    assert_int_equal(when.due, LIFECYCLE_NEVER);
    assert_null(when.rule);
}

/* Age counts from when a version was replaced, not from when it was written. */
static void noncurrent_versions_age_from_their_end(void **state)
{
    struct world *w = *state;

    w->rules[0].noncurrent_days = 2;
    w->rules[0].noncurrent_keep = 3;
    w->record.noncurrent_since = 20 * DAY + 1;
    assert_int_equal(lifecycle_noncurrent(&w->lifecycle, SLICE("a"), &w->record, 3).due, 23 * DAY);
    assert_int_equal(lifecycle_noncurrent(&w->lifecycle, SLICE("a"), &w->record, 2).due,
                     LIFECYCLE_NEVER);
    assert_int_equal(lifecycle_current(&w->lifecycle, SLICE("a"), &w->record).due, LIFECYCLE_NEVER);
    assert_int_equal(lifecycle_keep(&w->lifecycle), 3);
    w->rules[0].enabled = false;
    assert_int_equal(lifecycle_keep(&w->lifecycle), 0);
}

/* A marker has neither tags nor size: rules with these leave it alone. */
static void markers_and_uploads_need_plain_rules(void **state)
{
    struct world *w = *state;
    Kist__Upload upload = KIST__UPLOAD__INIT;

    upload.stamp = 10 * DAY + 1;
    w->record.delete_marker = true;
    w->rules[0].expire_marker = true;
    w->rules[0].abort_days = 1;
    assert_int_equal(lifecycle_marker(&w->lifecycle, SLICE("a"), &w->record, 15 * DAY + 1).due,
                     16 * DAY);
    assert_int_equal(lifecycle_upload(&w->lifecycle, SLICE("a"), &upload).due, 12 * DAY);
    w->filters[0].prefix = field_of("b");
    assert_int_equal(lifecycle_marker(&w->lifecycle, SLICE("a"), &w->record, 1).due,
                     LIFECYCLE_NEVER);
    assert_int_equal(lifecycle_upload(&w->lifecycle, SLICE("a"), &upload).due, LIFECYCLE_NEVER);
    w->filters[0].prefix = field_of("");
    w->filters[0].tags = w->wanted_list;
    w->filters[0].n_tags = 1;
    assert_int_equal(lifecycle_marker(&w->lifecycle, SLICE("a"), &w->record, 1).due,
                     LIFECYCLE_NEVER);
    assert_int_equal(lifecycle_upload(&w->lifecycle, SLICE("a"), &upload).due, LIFECYCLE_NEVER);
}

/* Expiration by days also cleans up a lone marker of that age (AWS: "Removing expired object delete
 * markers"). */
static void days_remove_lone_markers_too(void **state)
{
    struct world *w = *state;

    w->record.delete_marker = true;
    w->rules[0].expire_days = 4;
    assert_int_equal(lifecycle_marker(&w->lifecycle, SLICE("a"), &w->record, 1).due, 15 * DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(days_end_at_midnight, setup),
        cmocka_unit_test_setup(filters_are_exact, setup),
        cmocka_unit_test_setup(a_tag_counts_with_its_value, setup),
        cmocka_unit_test_setup(the_earliest_rule_wins, setup),
        cmocka_unit_test_setup(noncurrent_versions_age_from_their_end, setup),
        cmocka_unit_test_setup(markers_and_uploads_need_plain_rules, setup),
        cmocka_unit_test_setup(days_remove_lone_markers_too, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
