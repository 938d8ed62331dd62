/*
 * A Kafka topic: each event is one record, its key "bucket/key", so that events of one object stay
 * in one partition and in order. A delivery is what all in-sync replicas have acknowledged
 * (acks=all, idempotent producer).
 *
 * librdkafka has threads of its own; they report to rd_kafka_poll(), which runs on the thread of a
 * queue of this sink's own, as does everything that may block.
 */
#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "gateway/events/sink.h"

enum {
    KAFKA_POLL_MS = 50,
    KAFKA_MESSAGE_MS = 10000,
    KAFKA_GRACE_POLLS = 40,
    KAFKA_DRAIN_POLLS = 200
};

enum kafka_state { KAFKA_WAITS = 0, KAFKA_DELIVERED, KAFKA_FAILED };

struct kafka {
    struct sink base;
    struct env *env;
    struct sink_options options;
    char password[SINK_SECRET_MAX];
    struct env_queue queue;
    struct env_work work;
    struct sink_batch *batch;
    rd_kafka_t *producer; /* NULL: made by the next batch */
    enum kafka_state states[SINK_BATCH_MAX];
    uint32_t waiting;
    struct error error; /* of a message that failed */
    _Atomic bool stopped;
    void (*close_done)(void *owner);
    void *close_owner;
};

static struct kafka *kafka_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct kafka, base);
}

/* ---- Reports, inside rd_kafka_poll() ---- */

static void on_report(rd_kafka_t *producer, const rd_kafka_message_t *message, void *user)
{
    struct kafka *kafka = user;
    enum kafka_state *state = message->_private;

    (void)producer;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        *state = KAFKA_DELIVERED;
    } else {
        *state = KAFKA_FAILED;
        (void)error_set(&kafka->error, RC_IO, "%s", rd_kafka_err2str(message->err));
    }
    kafka->waiting -= 1;
}

static void on_log(const rd_kafka_t *producer, int level, const char *facility, const char *text)
{
    (void)producer;
    (void)level;
    LOG_DEBUG("kafka", "facility=%s text=\"%s\"", facility, text);
}

/* ---- On the queue's thread ---- */

static enum rc set_option(rd_kafka_conf_t *conf, const char *name, const char *value,
                          struct error *error)
{
    char why[256];

    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) {
        return error_set(error, RC_INVALID, "%s", why);
    }
    return RC_OK;
}

static const char *protocol_of(const struct sink_options *options)
{
    if (options->user[0] != '\0') {
        return options->tls ? "sasl_ssl" : "sasl_plaintext";
    }
    return options->tls ? "ssl" : "plaintext";
}

static enum rc set_options(struct kafka *kafka, rd_kafka_conf_t *conf, struct error *error)
{
    const struct sink_options *options = &kafka->options;
    const char *const pairs[][2] = {
        {"client.id",          "kist"                                                                    },
        {"bootstrap.servers",  options->brokers                                                          },
        {"enable.idempotence", "true"                                                                    },
        {"message.timeout.ms", "10000"                                                                   },
        {"linger.ms",          "0"                                                                       },
        {"security.protocol",  protocol_of(options)                                                      },
        {"ssl.ca.location",    options->ca                                                               },
        {"sasl.username",      options->user                                                             },
        {"sasl.password",      kafka->password                                                           },
        {"sasl.mechanism",     options->user[0] == '\0'        ? ""
                           : options->mechanism[0] == '\0' ? "PLAIN"
                                                           : options->mechanism},
    };
    enum rc rc = RC_OK;

    static_assert(KAFKA_MESSAGE_MS == 10000, "as above");
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(pairs); i++) {
        if (pairs[i][1][0] != '\0') {
            rc = set_option(conf, pairs[i][0], pairs[i][1], error);
        }
    }
    return rc;
}

static enum rc producer_open(struct kafka *kafka, struct error *error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[256];

    if (set_options(kafka, conf, error) != RC_OK) {
        rd_kafka_conf_destroy(conf);
        return error->rc;
    }
    rd_kafka_conf_set_opaque(conf, kafka);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_log_cb(conf, on_log);
    kafka->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    if (kafka->producer == NULL) {
        rd_kafka_conf_destroy(conf);
        return error_set(error, RC_IO, "%s", why);
    }
    return RC_OK;
}

static void producer_close(struct kafka *kafka)
{
    if (kafka->producer != NULL) {
        rd_kafka_destroy(kafka->producer);
        kafka->producer = NULL;
    }
}

static void produce(struct kafka *kafka, uint32_t index)
{
    const struct sink_message *message = &kafka->batch->messages[index];
    const rd_kafka_vu_t fields[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC,    .u.cstr = kafka->options.topic                  },
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u.mem = {.ptr = (void *)(uintptr_t)message->key.data, .size = message->key.len}  },
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u.mem = {.ptr = (void *)(uintptr_t)message->body.data, .size = message->body.len}},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY                      },
        {.vtype = RD_KAFKA_VTYPE_OPAQUE,   .u.ptr = &kafka->states[index]                  },
    };
    rd_kafka_error_t *refused =
        rd_kafka_produceva(kafka->producer, fields, sizeof(fields) / sizeof(fields[0]));

    kafka->states[index] = KAFKA_WAITS;
    if (refused == NULL) {
        kafka->waiting += 1;
        return;
    }
    kafka->states[index] = KAFKA_FAILED;
    (void)error_set(&kafka->error, RC_IO, "%s", rd_kafka_error_string(refused));
    rd_kafka_error_destroy(refused);
}

/* Every message is reported within message.timeout.ms. When we stop, what is under way has two
 * seconds to end (otherwise it is told again), then it is given up. */
static void await_reports(struct kafka *kafka)
{
    uint32_t polls = 0; /* since the stop */

    while (kafka->waiting > 0 && polls < KAFKA_DRAIN_POLLS) {
        (void)rd_kafka_poll(kafka->producer, KAFKA_POLL_MS);
        polls += atomic_load(&kafka->stopped) ? 1 : 0;
        if (polls == KAFKA_GRACE_POLLS) {
            (void)rd_kafka_purge(kafka->producer,
                                 RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        }
    }
}

static void kafka_run(struct env_work *work)
{
    struct kafka *kafka = CONTAINER_OF(work, struct kafka, work);
    struct sink_batch *batch = kafka->batch;

    kafka->error = (struct error){.rc = RC_OK};
    kafka->waiting = 0;
    if (kafka->producer == NULL && producer_open(kafka, &batch->error) != RC_OK) {
        return;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        produce(kafka, i);
        if (kafka->states[i] == KAFKA_FAILED) {
            /* Those behind must not overtake it. */
            for (uint32_t j = i + 1; j < batch->count; j++) {
                kafka->states[j] = KAFKA_FAILED;
            }
            break;
        }
    }
    await_reports(kafka);
    while (batch->delivered < batch->count && kafka->states[batch->delivered] == KAFKA_DELIVERED) {
        batch->delivered += 1;
    }
    batch->error = kafka->error;
    if (kafka->waiting > 0 || rd_kafka_fatal_error(kafka->producer, NULL, 0) != 0) {
        producer_close(kafka); /* its numbering is lost: a new one begins */
    }
}

static void close_run(struct env_work *work)
{
    producer_close(CONTAINER_OF(work, struct kafka, work));
}

/* ---- On the loop ---- */

static void kafka_done(struct env_work *work)
{
    struct kafka *kafka = CONTAINER_OF(work, struct kafka, work);
    struct sink_batch *batch = kafka->batch;

    kafka->batch = NULL;
    batch->done(batch);
}

static void kafka_send(struct sink *sink, struct sink_batch *batch)
{
    struct kafka *kafka = kafka_of(sink);

    ASSERT(kafka->batch == NULL && batch->count <= SINK_BATCH_MAX);
    batch->delivered = 0;
    batch->error = (struct error){.rc = RC_OK};
    kafka->batch = batch;
    kafka->work.run = kafka_run;
    kafka->work.done = kafka_done;
    kafka->env->worker->submit(kafka->env, &kafka->queue, &kafka->work);
}

static void kafka_stop(struct sink *sink)
{
    atomic_store(&kafka_of(sink)->stopped, true);
}

static void close_done(struct env_work *work)
{
    struct kafka *kafka = CONTAINER_OF(work, struct kafka, work);
    void (*done)(void *owner) = kafka->close_done;
    void *owner = kafka->close_owner;

    kafka->env->worker->queue_close(kafka->env, &kafka->queue);
    mem_free(kafka);
    done(owner);
}

static void kafka_close(struct sink *sink, void (*done)(void *owner), void *owner)
{
    struct kafka *kafka = kafka_of(sink);

    ASSERT(kafka->batch == NULL);
    kafka->close_done = done;
    kafka->close_owner = owner;
    kafka->work.run = close_run;
    kafka->work.done = close_done;
    kafka->env->worker->submit(kafka->env, &kafka->queue, &kafka->work);
}

static const struct sink_ops kafka_ops = {
    .send = kafka_send,
    .stop = kafka_stop,
    .close = kafka_close,
};

enum rc sink_kafka_open(struct sink **out, struct env *env, const struct sink_options *options,
                        struct error *error)
{
    struct kafka *kafka = mem_alloc(sizeof(*kafka));
    enum rc rc = RC_OK;

    kafka->base.ops = &kafka_ops;
    kafka->env = env;
    kafka->options = *options;
    if (options->password_file[0] != '\0') {
        rc = sink_secret_read(env, options->password_file, kafka->password, error);
    }
    /* Wrong settings show now and not at the first event. */
    rc = rc == RC_OK ? producer_open(kafka, error) : rc;
    if (rc != RC_OK) {
        mem_free(kafka);
        error->rc = rc;
        return error_prefix(error, "kafka %s", options->name);
    }
    kafka->queue.name = "kafka";
    env->worker->queue_open(env, &kafka->queue);
    *out = &kafka->base;
    return RC_OK;
}
