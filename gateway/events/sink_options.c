/* Options of sinks: "NAME url=URL token-file=FILE ca=FILE", "NAME brokers=A:9092;B:9092 topic=T".
 */
#include <ctype.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "gateway/events/sink.h"

static const char *const type_names[] = {[SINK_WEBHOOK] = "webhook", [SINK_KAFKA] = "kafka"};

struct sink_field {
    const char *name;
    enum sink_type type;
    size_t offset;
    size_t size;
};

#define FIELD(name, type, field)                                                                   \
    {(name), (type), offsetof(struct sink_options, field),                                         \
     sizeof(((struct sink_options *)0)->field)}

static const struct sink_field fields[] = {
    FIELD("url", SINK_WEBHOOK, url),
    FIELD("token-file", SINK_WEBHOOK, token_file),
    FIELD("ca", SINK_WEBHOOK, ca),
    FIELD("brokers", SINK_KAFKA, brokers),
    FIELD("topic", SINK_KAFKA, topic),
    FIELD("user", SINK_KAFKA, user),
    FIELD("password-file", SINK_KAFKA, password_file),
    FIELD("mechanism", SINK_KAFKA, mechanism),
    FIELD("ca", SINK_KAFKA, ca),
};
#undef FIELD

static enum rc set_field(struct sink_options *out, struct slice name, struct slice value,
                         struct error *error)
{
    if (out->type == SINK_KAFKA && slice_eq(name, SLICE("tls"))) {
        out->tls = slice_eq(value, SLICE("on"));
        return out->tls || slice_eq(value, SLICE("off"))
                   ? RC_OK
                   : error_set(error, RC_INVALID, "tls is on or off");
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i].type == out->type && slice_eq_str(name, fields[i].name)) {
            if (value.len == 0 || value.len >= fields[i].size) {
                return error_set(error, RC_INVALID, "%s: want 1 to %zu bytes", fields[i].name,
                                 fields[i].size - 1);
            }
            memcpy((char *)out + fields[i].offset, value.data, value.len);
            return RC_OK;
        }
    }
    return error_set(error, RC_INVALID, "'%.*s' is not known", (int)name.len, name.data);
}

static bool name_valid(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];

        if (!isalnum(c) && c != '-' && c != '_') {
            return false;
        }
    }
    return name.len > 0 && name.len <= SINK_NAME_MAX;
}

static enum rc check(struct sink_options *out, struct error *error)
{
    if (out->type == SINK_WEBHOOK) {
        struct slice url = slice_str(out->url);

        return slice_starts(url, SLICE("http://")) || slice_starts(url, SLICE("https://"))
                   ? RC_OK
                   : error_set(error, RC_INVALID, "want url=http://... or url=https://...");
    }
    if (out->brokers[0] == '\0' || out->topic[0] == '\0') {
        return error_set(error, RC_INVALID, "want brokers=HOST:PORT;... and topic=NAME");
    }
    if ((out->user[0] == '\0') != (out->password_file[0] == '\0')) {
        return error_set(error, RC_INVALID, "user and password-file belong together");
    }
    for (char *at = out->brokers; *at != '\0'; at++) {
        *at = *at == ';' ? ',' : *at; /* lists of options split at commas */
    }
    return RC_OK;
}

enum rc sink_options_parse(enum sink_type type, struct slice text, struct sink_options *out,
                           struct error *error)
{
    struct slice rest = slice_trim(text);
    struct slice name = slice_of(rest.data, slice_find(rest, ' '));
    enum rc rc = RC_OK;

    *out = (struct sink_options){.type = type};
    if (!name_valid(name)) {
        return error_set(error, RC_INVALID,
                         "want a name of letters, digits, - and _, then key=value");
    }
    memcpy(out->name, name.data, name.len);
    (void)snprintf(out->arn_name, sizeof(out->arn_name), "%s:%s", out->name, type_names[type]);
    rest = slice_trim(slice_after(rest, name.len));
    while (rc == RC_OK && rest.len > 0) {
        struct slice pair = slice_of(rest.data, slice_find(rest, ' '));
        size_t equals = slice_find(pair, '=');

        rc = set_field(out, slice_of(pair.data, equals), slice_after(pair, equals + 1), error);
        rest = slice_trim(slice_after(rest, pair.len));
    }
    rc = rc == RC_OK ? check(out, error) : rc;
    return rc == RC_OK ? rc : error_prefix(error, "%s", out->name);
}

enum rc sink_secret_read(struct env *env, const char *path, char out[SINK_SECRET_MAX],
                         struct error *error)
{
    size_t len = 0;
    int file;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);

    if (rc != RC_OK) {
        return rc;
    }
    rc = env->file->read(env, file, out, SINK_SECRET_MAX - 1, 0, &len);
    env->file->close(env, file);
    while (len > 0 && isspace((unsigned char)out[len - 1])) {
        len -= 1;
    }
    out[len] = '\0';
    if (rc == RC_OK && (len == 0 || strlen(out) != len || strpbrk(out, "\r\n") != NULL)) {
        rc = RC_INVALID;
    }
    return rc == RC_OK ? rc : error_set(error, rc, "%s does not hold one line", path);
}
