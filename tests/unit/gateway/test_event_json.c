/* Events as JSON, and the options that name sinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/events/event_json.h"
#include "gateway/events/sink.h"

struct text_row {
    struct slice text;
    const char *json;
};

/* Keys are any bytes, JSON is UTF-8: a reader must never choke on an event. */
static void strings(void **state)
{
    static const struct text_row rows[] = {
        {{"", 0},                 "\"\""                            },
        {{"a\"b\\c", 5},          "\"a\\\"b\\\\c\""                 },
        {{"\x00\x1f\n\x7f", 4},   "\"\\u0000\\u001f\\u000a\\u007f\""},
        {{"\xc3\xbc", 2},         "\"\xc3\xbc\""                    },
        {{"\xff\xc3", 2},         "\"\xef\xbf\xbd\xef\xbf\xbd\""    },
        {{"\xf0\x9f\x98\x80", 4}, "\"\xf0\x9f\x98\x80\""            },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buffer out;

        buffer_init(&out);
        json_string_append(&out, rows[i].text);
        assert_true(slice_eq_str(buffer_slice(&out), rows[i].json));
        buffer_deinit(&out);
    }
}

/* Sequencers sort as the changes happened, and are cursors: what goes out comes back. */
static void sequencers(void **state)
{
    char first[EVENT_SEQUENCER_BYTES + 1];
    char second[EVENT_SEQUENCER_BYTES + 1];
    uint64_t stamp;
    uint32_t number;

    (void)state;
    event_sequencer(0x18fae27693b40001, 9, first);
    event_sequencer(0x18fae27693b40001, 10, second);
    assert_string_equal(first, "18fae27693b4000100000009");
    assert_true(strcmp(first, second) < 0);
    assert_true(event_sequencer_parse(slice_str(second), &stamp, &number));
    assert_true(stamp == 0x18fae27693b40001 && number == 10);
    assert_false(event_sequencer_parse(SLICE("18fae27693b400010000000g"), &stamp, &number));
    assert_false(event_sequencer_parse(SLICE("18"), &stamp, &number));
}

/* A wrong option is refused with what is wrong, before anything starts. */
static void options(void **state)
{
    static const char *const wrong[] = {"",
                                        "name",
                                        "na.me url=http://h",
                                        "name url=ftp://h",
                                        "name url=",
                                        "name url=http://h x=y",
                                        "name topic=t"};
    struct sink_options out;
    struct error error;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(sink_options_parse(SINK_WEBHOOK, slice_str(wrong[i]), &out, &error),
                         RC_INVALID);
    }
    assert_int_equal(sink_options_parse(SINK_WEBHOOK, SLICE(" a  url=https://h/x?a=b  ca=/ca.pem "),
                                        &out, &error),
                     RC_OK);
    assert_string_equal(out.arn_name, "a:webhook");
    assert_string_equal(out.url, "https://h/x?a=b");
    assert_string_equal(out.ca, "/ca.pem");
    assert_int_equal(
        sink_options_parse(SINK_KAFKA, SLICE("k brokers=a:1;b:2 topic=t tls=on"), &out, &error),
        RC_OK);
    assert_string_equal(out.brokers, "a:1,b:2");
    assert_true(out.tls);
    assert_int_equal(sink_options_parse(SINK_KAFKA, SLICE("k brokers=a:1"), &out, &error),
                     RC_INVALID);
    assert_int_equal(
        sink_options_parse(SINK_KAFKA, SLICE("k brokers=a:1 topic=t user=u"), &out, &error),
        RC_INVALID);
    assert_int_equal(
        sink_options_parse(SINK_KAFKA, SLICE("k brokers=a:1 topic=t tls=maybe"), &out, &error),
        RC_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings),
        cmocka_unit_test(sequencers),
        cmocka_unit_test(options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
