/* Names of events, and whom they concern: apply decides with these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/client/event_match.h"

/* A wildcard stands for all of its group and for nothing else; what cannot happen here may be asked
 * for, what is not AWS's may not. */
static void patterns(void **state)
{
    uint32_t created = event_mask(SLICE("s3:ObjectCreated:*"), true);

    (void)state;
    assert_int_equal(__builtin_popcount(created), 4);
    assert_int_equal(event_mask(SLICE("s3:ObjectCreated:Put"), true) & ~created, 0);
    assert_int_equal(event_mask(SLICE("s3:ObjectRemoved:*"), true) & created, 0);
    assert_true(event_mask(SLICE("s3:IntelligentTiering"), true) != 0);
    assert_int_equal(event_mask(SLICE("s3:ObjectAccessed:*"), true), 0);
    assert_true(event_mask(SLICE("s3:ObjectAccessed:*"), false) != 0);
    assert_int_equal(event_mask(SLICE("s3:*"), true), 0);
    assert_int_equal(event_mask(SLICE("s3:ObjectCreated"), true), 0);
    assert_int_equal(event_mask(SLICE("ObjectCreated:Put"), true), 0);
    assert_int_equal(event_mask(SLICE(""), true), 0);
}

/* Every kind of change has a name, and the name is an event; a kind without one would vanish. */
static void kinds_have_names(void **state)
{
    (void)state;
    for (int kind = KIST__CHANGE_KIND__CHANGE_PUT; kind <= KIST__CHANGE_KIND__CHANGE_TEST; kind++) {
        assert_true(event_name((Kist__ChangeKind)kind)[0] != '\0');
        assert_true(event_bit((Kist__ChangeKind)kind) != 0);
    }
}

struct arn_row {
    const char *arn;
    const char *sink; /* NULL: not one */
};

/* MinIO's ARNs name our sinks too, so that its configurations can be kept. */
static void arns(void **state)
{
    static const struct arn_row rows[] = {
        {"arn:kist:sqs::a:webhook",           "a:webhook"},
        {"arn:minio:sqs::a:kafka",            "a:kafka"  },
        {"arn:minio:sqs:us-east-1:a:webhook", "a:webhook"},
        {"arn:kist:sns::a:kafka",             "a:kafka"  },
        {"arn:kist:lambda::a:webhook",        "a:webhook"},
        {"arn:aws:sqs:us-east-1:1234:queue",  NULL       },
        {"arn:kist:s3::a:webhook",            NULL       },
        {"arn:kist:sqs::a",                   NULL       },
        {"arn:kist:sqs:::webhook",            NULL       },
        {"arn:kist:sqs::a:",                  NULL       },
        {"arn:kist:sqs::a:webhook:more",      NULL       },
        {"arn:kist",                          NULL       },
        {"",                                  NULL       },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice region;
        struct slice sink;
        bool found = event_sink_of(slice_str(rows[i].arn), &region, &sink);

        assert_int_equal(found, rows[i].sink != NULL);
        if (found) {
            assert_true(slice_eq_str(sink, rows[i].sink));
        }
    }
}

/* Prefix and suffix are of the key's bytes, and both must fit. */
static void filters(void **state)
{
    Kist__NotificationTarget target = KIST__NOTIFICATION_TARGET__INIT;
    uint32_t put = event_bit(KIST__CHANGE_KIND__CHANGE_PUT);
    ProtobufCBinaryData event = {.data = (uint8_t *)(uintptr_t)"s3:ObjectCreated:Put", .len = 20};

    (void)state;
    target.events = &event;
    target.n_events = 1;
    assert_true(event_wanted(&target, put, SLICE("any")));
    target.prefix = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)"ab", .len = 2};
    target.suffix = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)"bc", .len = 2};
    assert_true(event_wanted(&target, put, SLICE("abc")));
    assert_true(event_wanted(&target, put, SLICE("ab/bc")));
    assert_false(event_wanted(&target, put, SLICE("ab")));
    assert_false(event_wanted(&target, put, SLICE("xabc")));
    assert_false(event_wanted(&target, event_bit(KIST__CHANGE_KIND__CHANGE_DELETE), SLICE("abc")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(arns),
        cmocka_unit_test(filters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
