/* The Kafka sink against the mock brokers of librdkafka: real sockets, real protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "common/base/assert.h"
#include "common/env/env_uv.h"
#include "gateway/events/sink.h"

enum { MESSAGES = 40, PARTITIONS = 4, POLL_MS = 100, POLLS_MAX = 200 };

struct brokers {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster;
};

struct run {
    struct env_uv *world;
    struct env *env;
    struct sink *sink;
    struct sink_batch batch;
    char bodies[MESSAGES][32];
    char keys[MESSAGES][32];
    struct sink_message messages[MESSAGES];
};

static void brokers_open(struct brokers *brokers)
{
    char why[256];

    brokers->owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
    assert_non_null(brokers->owner);
    brokers->cluster = rd_kafka_mock_cluster_new(brokers->owner, 3);
    assert_non_null(brokers->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(brokers->cluster, "events", PARTITIONS, 3), 0);
}

static void brokers_close(struct brokers *brokers)
{
    rd_kafka_mock_cluster_destroy(brokers->cluster);
    rd_kafka_destroy(brokers->owner);
}

static void on_done(struct sink_batch *batch)
{
    env_uv_stop(CONTAINER_OF(batch, struct run, batch)->env);
}

static void on_closed(void *owner)
{
    env_uv_stop(((struct run *)owner)->env);
}

static void run_open(struct run *run, const char *brokers)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct error error = {.rc = RC_OK};
    struct sink_options sink;
    char text[512];

    run->world = env_uv_open(&options, &error);
    assert_non_null(run->world);
    run->env = env_uv_env(run->world, 0);
    (void)snprintf(text, sizeof(text), "k brokers=%s topic=events", brokers);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == ',' ? ';' : *at;
    }
    assert_int_equal(sink_options_parse(SINK_KAFKA, slice_str(text), &sink, &error), RC_OK);
    assert_int_equal(sink_kafka_open(&run->sink, run->env, &sink, &error), RC_OK);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        (void)snprintf(run->keys[i], sizeof(run->keys[i]), "b/%u", i % 5);
        (void)snprintf(run->bodies[i], sizeof(run->bodies[i]), "%u", i);
        run->messages[i] = (struct sink_message){.key = slice_str(run->keys[i]),
                                                 .body = slice_str(run->bodies[i])};
    }
}

static void run_send(struct run *run)
{
    run->batch = (struct sink_batch){.messages = run->messages, .count = MESSAGES, .done = on_done};
    run->sink->ops->send(run->sink, &run->batch);
    env_uv_run(run->env);
}

static void run_close(struct run *run)
{
    run->sink->ops->stop(run->sink);
    run->sink->ops->close(run->sink, on_closed, run);
    env_uv_run(run->env);
    env_uv_close(run->world);
}

/* Reads the topic; order within each key is checked. */
static uint32_t consume(const char *brokers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTITIONS);
    char why[256];
    int last[5] = {-1, -1, -1, -1, -1};
    uint32_t count = 0;
    rd_kafka_t *consumer;

    assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why)), 0);
    assert_int_equal(rd_kafka_conf_set(conf, "group.id", "test", why, sizeof(why)), 0);
    consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
    assert_non_null(consumer);
    for (int i = 0; i < PARTITIONS; i++) {
        rd_kafka_topic_partition_list_add(list, "events", i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    assert_int_equal(rd_kafka_assign(consumer, list), 0);
    for (int i = 0; i < POLLS_MAX && count < MESSAGES; i++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, POLL_MS);

        if (message != NULL && message->err == 0) {
            int key = ((const char *)message->key)[2] - '0';
            int number = 0;

            assert_int_equal(sscanf(message->payload, "%d", &number), 1);
            assert_true(number > last[key]);
            last[key] = number;
            count += 1;
        }
        if (message != NULL) {
            rd_kafka_message_destroy(message);
        }
    }
    rd_kafka_topic_partition_list_destroy(list);
    (void)rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    return count;
}

/* What the sink says is delivered is in the topic, events of one key in order. */
static void delivers(void **state)
{
    static struct run run;
    struct brokers brokers;

    (void)state;
    brokers_open(&brokers);
    run_open(&run, rd_kafka_mock_cluster_bootstraps(brokers.cluster));
    run_send(&run);
    assert_int_equal(run.batch.delivered, MESSAGES);
    assert_int_equal(consume(rd_kafka_mock_cluster_bootstraps(brokers.cluster)), MESSAGES);
    run_close(&run);
    brokers_close(&brokers);
}

/* Brokers that answer with errors for a while are asked again: nothing is missing, nothing twice.
 */
static void survives_errors(void **state)
{
    static struct run run;
    struct brokers brokers;

    (void)state;
    brokers_open(&brokers);
    rd_kafka_mock_push_request_errors(
        brokers.cluster, 0 /* Produce */, 4, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
    run_open(&run, rd_kafka_mock_cluster_bootstraps(brokers.cluster));
    run_send(&run);
    assert_int_equal(run.batch.delivered, MESSAGES);
    assert_int_equal(consume(rd_kafka_mock_cluster_bootstraps(brokers.cluster)), MESSAGES);
    run_close(&run);
    brokers_close(&brokers);
}

static void on_stop(struct env_timer *timer);

struct stopper {
    struct env_timer timer;
    struct sink *sink;
};

static void on_stop(struct env_timer *timer)
{
    struct stopper *stopper = CONTAINER_OF(timer, struct stopper, timer);

    stopper->sink->ops->stop(stopper->sink);
}

/* With no broker there nothing is delivered, it is said, and a stop is not held up. */
static void stops_without_brokers(void **state)
{
    static struct run run;
    struct stopper stopper = {.timer.fire = on_stop};
    uint64_t begun_ns;

    (void)state;
    run_open(&run, "127.0.0.1:1");
    stopper.sink = run.sink;
    run.env->clock->timer_start(run.env, &stopper.timer, 300000000);
    begun_ns = run.env->clock->mono_ns(run.env);
    run_send(&run);
    assert_int_equal(run.batch.delivered, 0);
    assert_true(run.batch.error.rc != RC_OK);
    run_close(&run);
    assert_true(begun_ns > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delivers),
        cmocka_unit_test(survives_errors),
        cmocka_unit_test(stops_without_brokers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
