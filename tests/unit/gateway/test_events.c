/* Delivery from the change feed of a real metad, in the simulated world, to a sink that can die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/events/event_json.h"
#include "gateway/events/events.h"
#include "tests/lib/fixture_metad.h"

enum { SETTING_NOTIFICATION = 11, TAKEN_MAX = 4096 };

/* Takes up to `takes` messages of each batch; remembers the sequencers. */
struct fake_sink {
    struct sink base;
    struct env *env;
    uint32_t takes;
    bool dead;
    struct env_timer timer;
    struct sink_batch *batch;
    uint32_t batches;
    char taken[TAKEN_MAX][EVENT_SEQUENCER_BYTES + 1];
    char keys[TAKEN_MAX][32];
    uint32_t taken_count;
    bool closed;
};

static struct metad_fixture fixture;
static struct fake_sink sink;
static struct events *events;

/* ---- The sink ---- */

static void take(struct fake_sink *fake, const struct sink_message *message)
{
    const char *found = memmem(message->body.data, message->body.len, "\"sequencer\":\"",
                               strlen("\"sequencer\":\""));

    if (found == NULL) {
        return; /* the test event */
    }
    assert_true(fake->taken_count < TAKEN_MAX);
    memcpy(fake->taken[fake->taken_count], found + strlen("\"sequencer\":\""),
           EVENT_SEQUENCER_BYTES);
    (void)snprintf(fake->keys[fake->taken_count], sizeof(fake->keys[0]), "%.*s",
                   (int)message->key.len, message->key.data);
    fake->taken_count += 1;
}

static void fake_answer(struct env_timer *timer)
{
    struct fake_sink *fake = CONTAINER_OF(timer, struct fake_sink, timer);
    struct sink_batch *batch = fake->batch;

    fake->batch = NULL;
    while (!fake->dead && batch->delivered < batch->count && batch->delivered < fake->takes) {
        take(fake, &batch->messages[batch->delivered]);
        batch->delivered += 1;
    }
    if (batch->delivered < batch->count) {
        (void)error_set(&batch->error, RC_IO, "dead");
    }
    batch->done(batch);
}

static void fake_send(struct sink *base, struct sink_batch *batch)
{
    struct fake_sink *fake = CONTAINER_OF(base, struct fake_sink, base);

    fake->batch = batch;
    fake->batches += 1;
    fake->timer.fire = fake_answer;
    fake->env->clock->timer_start(fake->env, &fake->timer, SIM_MS);
}

static void fake_stop(struct sink *base)
{
    (void)base;
}

static void fake_close(struct sink *base, void (*done)(void *owner), void *owner)
{
    struct fake_sink *fake = CONTAINER_OF(base, struct fake_sink, base);

    assert_null(fake->batch);
    fake->closed = true;
    done(owner);
}

static const struct sink_ops fake_ops = {fake_send, fake_stop, fake_close};

/* ---- The world ---- */

static void open_events(struct metad_fixture *f, uint64_t feed_bytes)
{
    struct events_options options = {.env = f->env,
                                     .meta = f->meta,
                                     .region = SLICE("us-east-1"),
                                     .feed_bytes_max = feed_bytes,
                                     .feed_age_ms = 86400000};

    sink.base.ops = &fake_ops;
    sink.env = f->env;
    sink.batch = NULL;
    sink.closed = false;
    options.sinks[0] = &sink.base;
    options.names[0] = SLICE("fake:webhook");
    options.sink_count = 1;
    events = events_open(&options);
}

static void put_notification(struct metad_fixture *f)
{
    Kist__PutSetting call = KIST__PUT_SETTING__INIT;
    Kist__Settings value = KIST__SETTINGS__INIT;
    Kist__Notification notification = KIST__NOTIFICATION__INIT;
    Kist__NotificationTarget target = KIST__NOTIFICATION_TARGET__INIT;
    Kist__NotificationTarget *targets = &target;
    ProtobufCBinaryData event = message_field(SLICE("s3:ObjectCreated:*"));
    Kist__Reply *reply;

    target.id = message_field(SLICE("id"));
    target.arn = message_field(SLICE("arn:kist:sqs::fake:webhook"));
    target.kind = 2;
    target.events = &event;
    target.n_events = 1;
    notification.targets = &targets;
    notification.n_targets = 1;
    value.notification = &notification;
    call.name = message_field(SLICE("box"));
    call.bucket_id = f->bucket_id;
    call.setting = SETTING_NOTIFICATION;
    call.value = &value;
    assert_int_equal(metad_fixture_write(f, META_PUT_SETTING, &call.base, SLICE_EMPTY, &reply),
                     RC_OK);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    f->generation += 1;
}

static struct metad_fixture *begin(uint64_t feed_bytes)
{
    struct metad_fixture *f = &fixture;

    sink = (struct fake_sink){.takes = UINT32_MAX};
    metad_fixture_init(f, 1);
    assert_int_equal(metad_fixture_open(f, true), RC_OK);
    metad_fixture_bucket(f);
    put_notification(f);
    open_events(f, feed_bytes);
    return f;
}

static void on_closed(void *owner)
{
    *(bool *)owner = true;
}

static bool is_true(void *arg)
{
    return *(bool *)arg;
}

static void close_events(struct metad_fixture *f)
{
    bool done = false;

    events_close(events, on_closed, &done);
    assert_true(sim_run_until(f->sim, is_true, &done, 60 * SIM_S));
    assert_true(sink.closed);
}

static void put(struct metad_fixture *f, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(metad_fixture_put_inline(f, key, "x"), RC_OK);
    }
}

static uint32_t wanted;

static bool has_wanted(void *arg)
{
    (void)arg;
    return sink.taken_count >= wanted;
}

static void wait_for(struct metad_fixture *f, uint32_t count)
{
    wanted = count;
    assert_true(sim_run_until(f->sim, has_wanted, NULL, 120 * SIM_S));
}

/* Distinct events that came, when repeats are left out; they must be in order. */
static uint32_t distinct_in_order(void)
{
    const char *last = "";
    uint32_t count = 0;

    for (uint32_t i = 0; i < sink.taken_count; i++) {
        if (strcmp(sink.taken[i], last) > 0) {
            last = sink.taken[i];
            count += 1;
        }
    }
    return count;
}

/* ---- Tests ---- */

/* Each event once and in order, when nothing dies. */
static void delivers_in_order(void **state)
{
    struct metad_fixture *f = begin(1 << 20);

    (void)state;
    put(f, 0, 200);
    wait_for(f, 200);
    sim_run_for(f->sim, 5 * SIM_S);
    assert_int_equal(sink.taken_count, 200);
    assert_int_equal(distinct_in_order(), 200);
    assert_string_equal(sink.keys[0], "box/k0");
    assert_string_equal(sink.keys[199], "box/k199");
    close_events(f);
    metad_fixture_deinit(f);
}

/* A sink that takes one message of every batch gets all, none twice. */
static void partial_batches(void **state)
{
    struct metad_fixture *f = begin(1 << 20);

    (void)state;
    sink.takes = 3;
    put(f, 0, 30);
    wait_for(f, 30);
    assert_int_equal(sink.taken_count, 30);
    assert_int_equal(distinct_in_order(), 30);
    close_events(f);
    metad_fixture_deinit(f);
}

/* A dead sink is asked less and less often, seen in the status, and served when it is back. */
static void a_dead_sink_is_waited_for(void **state)
{
    struct metad_fixture *f = begin(1 << 20);
    struct events_sink_status status;

    (void)state;
    sink.dead = true;
    put(f, 0, 100);
    sim_run_for(f->sim, 600 * SIM_S);
    assert_int_equal(sink.taken_count, 0);
    assert_in_range(sink.batches, 10, 40);
    events_sink_status(events, 0, &status);
    assert_string_equal(status.error, "dead");
    assert_int_equal(status.failures, sink.batches);
    assert_true(status.lag_ms > 500000);
    sink.dead = false;
    wait_for(f, 100);
    sim_run_for(f->sim, 2 * SIM_S);
    events_sink_status(events, 0, &status);
    assert_int_equal(status.lag_ms, 0);
    assert_int_equal(status.error[0], 0);
    assert_int_equal(status.lost, 0);
    assert_int_equal(distinct_in_order(), 100);
    close_events(f);
    metad_fixture_deinit(f);
}

/* An orderly stop saves the cursor: afterwards nothing comes again. */
static void a_restart_repeats_nothing(void **state)
{
    struct metad_fixture *f = begin(1 << 20);

    (void)state;
    put(f, 0, 10);
    wait_for(f, 10);
    close_events(f);
    metad_fixture_close(f);
    assert_int_equal(metad_fixture_open(f, false), RC_OK);
    open_events(f, 1 << 20);
    put(f, 10, 20);
    wait_for(f, 20);
    sim_run_for(f->sim, 5 * SIM_S);
    assert_int_equal(sink.taken_count, 20);
    assert_int_equal(distinct_in_order(), 20);
    close_events(f);
    metad_fixture_deinit(f);
}

/* A power cut may repeat what was delivered last, and loses nothing. */
static void a_power_cut_loses_nothing(void **state)
{
    struct metad_fixture *f = begin(1 << 20);

    (void)state;
    for (int round = 0; round < 5; round++) {
        put(f, round * 40, round * 40 + 40);
        sim_run_for(f->sim, (uint64_t)round * 30 * SIM_MS);
        metad_fixture_crash(f, SIM_POWER);
        assert_int_equal(metad_fixture_open(f, false), RC_OK);
        open_events(f, 1 << 20);
    }
    sim_run_for(f->sim, 30 * SIM_S);
    for (int i = 0; i < 200; i++) {
        char key[16];
        bool found = false;

        (void)snprintf(key, sizeof(key), "box/k%d", i);
        for (uint32_t j = 0; j < sink.taken_count; j++) {
            found = found || strcmp(sink.keys[j], key) == 0;
        }
        assert_true(found);
    }
    close_events(f);
    metad_fixture_deinit(f);
}

/* The feed stays within its bound though nobody takes it; what went is counted to the last event.
 */
static void bounds_hold_and_losses_are_known(void **state)
{
    struct metad_fixture *f = begin(20000);
    struct events_sink_status status;

    (void)state;
    sink.dead = true;
    put(f, 0, 400);
    sim_run_for(f->sim, 60 * SIM_S);
    assert_true(events_feed_bytes(events) <= 20000);
    sink.dead = false;
    sim_run_for(f->sim, 120 * SIM_S);
    events_sink_status(events, 0, &status);
    assert_true(status.lost > 0);
    assert_int_equal(status.lost + sink.taken_count, 400 + 1); /* and the test event */
    assert_string_equal(sink.keys[sink.taken_count - 1], "box/k399");
    close_events(f);
    metad_fixture_deinit(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delivers_in_order),
        cmocka_unit_test(partial_batches),
        cmocka_unit_test(a_dead_sink_is_waited_for),
        cmocka_unit_test(a_restart_repeats_nothing),
        cmocka_unit_test(a_power_cut_loses_nothing),
        cmocka_unit_test(bounds_hold_and_losses_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
