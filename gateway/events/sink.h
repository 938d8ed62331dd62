/*
 * Where events go. A sink takes batches in order and says how many of a batch, from its beginning,
 * it has for certain; the rest is offered again. Its library's threads stand outside of env: only
 * here, and what they report comes back to the loop by a work queue. Tests have sinks of their own.
 */
#ifndef GATEWAY_EVENTS_SINK_H
#define GATEWAY_EVENTS_SINK_H

#include "common/base/error.h"
#include "common/base/slice.h"
#include "common/env/env.h"

enum { SINK_NAME_MAX = 64, SINK_TEXT_MAX = 1024, SINK_SECRET_MAX = 4096, SINK_BATCH_MAX = 64 };

enum sink_type { SINK_WEBHOOK = 0, SINK_KAFKA };

/* From an option: "NAME key=value ..." */
struct sink_options {
    enum sink_type type;
    char name[SINK_NAME_MAX + 1];
    char arn_name[SINK_NAME_MAX + 16]; /* "NAME:webhook": what its ARN ends in */
    char url[SINK_TEXT_MAX];           /* webhook */
    char token_file[SINK_TEXT_MAX];    /* webhook: sent as "Authorization: Bearer ..." */
    char ca[SINK_TEXT_MAX];            /* PEM file of authorities; empty: the system's */
    char brokers[SINK_TEXT_MAX];       /* kafka: with commas */
    char topic[256];
    char user[256];
    char password_file[SINK_TEXT_MAX];
    char mechanism[32]; /* PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 */
    bool tls;
};

/* RC_INVALID with one line of text. */
enum rc sink_options_parse(enum sink_type type, struct slice text, struct sink_options *out,
                           struct error *error);
/* A secret from its file, without the line's end. Blocking: at start-up. */
enum rc sink_secret_read(struct env *env, const char *path, char out[SINK_SECRET_MAX],
                         struct error *error);

struct sink_message {
    struct slice key;  /* events of one key keep their order */
    struct slice body; /* JSON */
};

struct sink_batch {
    const struct sink_message *messages;
    uint32_t count;
    void (*done)(struct sink_batch *batch); /* on the loop */
    /* Out. */
    uint32_t delivered; /* messages[0 .. delivered) are there for certain */
    struct error error; /* why not all */
};

struct sink;

struct sink_ops {
    /* One batch at a time; borrowed until `done`, which never runs inside the call. */
    void (*send)(struct sink *sink, struct sink_batch *batch);
    /* What is under way may end within two seconds, then it gives up. */
    void (*stop)(struct sink *sink);
    /* Nothing is under way. */
    void (*close)(struct sink *sink, void (*done)(void *owner), void *owner);
};

struct sink {
    const struct sink_ops *ops;
};

/* A failed open needs no close. Blocking for no more than a file: at start-up. */
enum rc sink_webhook_open(struct sink **out, struct env *env, const struct sink_options *options,
                          struct error *error);
enum rc sink_kafka_open(struct sink **out, struct env *env, const struct sink_options *options,
                        struct error *error);

#endif
