/* Reads and checks the options of `kist serve`: what a single row of the table cannot say stands
 * here. */
#include "cli/options.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "gateway/events/events.h"
#include "gateway/s3/router.h"

enum { CONFIG_FILE_BYTES_MAX = 65536, ROOT_SECRET_BYTES_MIN = 8, ROOT_ACCESS_BYTES_MIN = 3 };
enum { DOMAIN_BYTES_MAX = 253 - 64 /* a bucket and a dot come before it */ };

static const struct config_option options[] = {
#define CONFIG(name, type, field, def, min, max, unit, reload, help)                               \
    CONFIG_ROW(struct serve_options, name, type, field, def, min, max, unit, reload, help)
#include "cli/config.def"
#undef CONFIG
};

const struct config_table serve_options_table = {
    .options = options,
    .count = ARRAY_LEN(options),
    .usage = "kist serve --data DIR [--data DIR ...] [options]",
};

char *file_read_all(struct env *env, const char *path, size_t max, size_t *len, struct error *error)
{
    struct env_stat stat;
    int file;
    char *content;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, &file, error);

    if (rc != RC_OK) {
        return NULL;
    }
    rc = env->file->stat(env, path, &stat);
    if (rc == RC_OK && (stat.is_directory || stat.size_bytes > max)) {
        rc = RC_LIMIT;
    }
    content = mem_alloc(rc == RC_OK ? (size_t)stat.size_bytes + 1 : 1);
    if (rc == RC_OK) {
        rc = env->file->read(env, file, content, (size_t)stat.size_bytes, 0, len);
    }
    env->file->close(env, file);
    if (rc != RC_OK) {
        (void)error_set(error, rc, "read %s: %s", path,
                        rc == RC_LIMIT ? "not a file of the expected size" : rc_text(rc));
        mem_free(content);
        return NULL;
    }
    content[*len] = '\0';
    return content;
}

/* --config or KIST_CONFIG. */
static enum rc options_read_file(struct env *env, struct serve_options *out,
                                 struct config_seen *seen, struct error *error)
{
    size_t len = 0;
    char *content;
    enum rc rc;

    if (out->config == NULL) {
        return RC_OK;
    }
    content = file_read_all(env, out->config, CONFIG_FILE_BYTES_MAX, &len, error);
    if (content == NULL) {
        return error_prefix(error, "--config");
    }
    rc = config_file(&serve_options_table, out, seen, out->config, slice_of(content, len), error);
    mem_free(content);
    return rc;
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (!isgraph((unsigned char)*text)) {
            return false;
        }
    }
    return true;
}

/* A host name, so that it can be what a Host header says. A whole label may be "*". */
static bool domain_valid(struct slice domain)
{
    for (size_t i = 0; i < domain.len; i++) {
        bool first = i == 0 || domain.data[i - 1] == '.';
        bool last = i + 1 == domain.len || domain.data[i + 1] == '.';
        char c = domain.data[i];

        if (!isalnum((unsigned char)c) && !(c == '*' && first && last) &&
            (first || last || (c != '-' && c != '.'))) {
            return false;
        }
    }
    return domain.len > 0 && domain.len <= DOMAIN_BYTES_MAX && domain.data[domain.len - 1] != '*';
}

/* NULL: none. Several are separated by commas. `any`: "*" alone is one of them. */
static bool domains_valid(const char *text, bool any)
{
    struct slice rest = slice_str(text);

    if (text == NULL) {
        return true;
    }
    do {
        size_t comma = slice_find(rest, ',');
        struct slice domain = slice_trim(slice_of(rest.data, comma));

        if (!domain_valid(domain) && !(any && slice_eq(domain, SLICE("*")))) {
            return false;
        }
        rest = slice_after(rest, comma + 1);
    } while (rest.len > 0);
    return true;
}

static bool domains_share(const char *a, const char *b)
{
    struct slice rest = slice_str(a);

    while (rest.len > 0) {
        struct slice one = slice_trim(slice_of(rest.data, slice_find(rest, ',')));
        struct slice others = slice_str(b);

        while (others.len > 0) {
            size_t comma = slice_find(others, ',');

            if (slice_eq_nocase(one, slice_trim(slice_of(others.data, comma)))) {
                return true;
            }
            others = slice_after(others, comma + 1);
        }
        rest = slice_after(rest, slice_find(rest, ',') + 1);
    }
    return false;
}

static enum rc options_check_domains(const struct serve_options *out, struct error *error)
{
    static const char *const want = "want a host name, as s3.example.com, or several with commas";

    if (!domains_valid(out->domain, false)) {
        return error_set(error, RC_INVALID, "--domain: %s", want);
    }
    if (!domains_valid(out->website_domain, true)) {
        return error_set(error, RC_INVALID, "--website-domain: %s", want);
    }
    if (domains_share(out->domain, out->website_domain)) {
        return error_set(error, RC_INVALID,
                         "--domain and --website-domain are the same: choose another for one");
    }
    return RC_OK;
}

static enum rc options_check_keys(const struct serve_options *out, struct error *error)
{
    size_t access = out->root_access_key != NULL ? strlen(out->root_access_key) : 0;
    size_t secret = out->root_secret_key != NULL ? strlen(out->root_secret_key) : 0;

    if (access == 0 && secret == 0) {
        return RC_OK;
    }
    if (access == 0 || secret == 0) {
        return error_set(
            error, RC_INVALID,
            "KIST_ROOT_ACCESS_KEY and KIST_ROOT_SECRET_KEY belong together: set both or neither");
    }
    if (access < ROOT_ACCESS_BYTES_MIN || access > LIMIT_ACCESS_KEY_BYTES ||
        !printable(out->root_access_key) || strpbrk(out->root_access_key, "/=,:") != NULL) {
        return error_set(
            error, RC_INVALID,
            "KIST_ROOT_ACCESS_KEY: want %d to %d printable characters without / = , and :",
            ROOT_ACCESS_BYTES_MIN, LIMIT_ACCESS_KEY_BYTES);
    }
    if (secret < ROOT_SECRET_BYTES_MIN || secret > LIMIT_SECRET_KEY_BYTES ||
        !printable(out->root_secret_key)) {
        return error_set(error, RC_INVALID,
                         "KIST_ROOT_SECRET_KEY: want %d to %d printable characters",
                         ROOT_SECRET_BYTES_MIN, LIMIT_SECRET_KEY_BYTES);
    }
    return RC_OK;
}

static enum rc options_check_sinks(const struct config_list *list, enum sink_type type,
                                   const char *option, struct error *error)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct sink_options sink;
        struct sink_options other;

        if (sink_options_parse(type, slice_str(list->items[i]), &sink, error) != RC_OK) {
            return error_prefix(error, "%s", option);
        }
        for (uint32_t j = 0; j < i; j++) {
            (void)sink_options_parse(type, slice_str(list->items[j]), &other, NULL);
            if (strcmp(sink.name, other.name) == 0) {
                return error_set(error, RC_INVALID, "%s: %s is named twice", option, sink.name);
            }
        }
    }
    return RC_OK;
}

static enum rc options_check_events(const struct serve_options *out, struct error *error)
{
    enum rc rc = options_check_sinks(&out->webhook, SINK_WEBHOOK, "--webhook", error);

    rc = rc == RC_OK ? options_check_sinks(&out->kafka, SINK_KAFKA, "--kafka", error) : rc;
    if (rc == RC_OK && out->webhook.count + out->kafka.count > EVENTS_SINKS_MAX) {
        rc = error_set(error, RC_INVALID, "--webhook, --kafka: at most %d together",
                       EVENTS_SINKS_MAX);
    }
    return rc;
}

static enum rc options_check(const struct serve_options *out, struct error *error)
{
    if (out->listen == NULL || out->admin_listen == NULL) {
        return error_set(error, RC_INVALID, "--listen and --admin-listen want an address");
    }
    if (out->data.count == 0) {
        return error_set(error, RC_INVALID, "no data directory; name one: kist serve --data DIR");
    }
    if ((out->tls_cert == NULL) != (out->tls_key == NULL)) {
        return error_set(error, RC_INVALID,
                         "--tls-cert and --tls-key belong together: set both or neither");
    }
    if (out->region == NULL || !printable(out->region) || strpbrk(out->region, "/,") != NULL) {
        return error_set(error, RC_INVALID,
                         "--region: want a name without blanks, commas and slashes");
    }
    for (uint32_t i = 0; i < out->data.count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out->data.items[i], out->data.items[j]) == 0) {
                return error_set(error, RC_INVALID, "--data %s is named twice", out->data.items[i]);
            }
        }
    }
    for (uint32_t i = 0; i < out->buckets.count; i++) {
        if (!router_bucket_name_valid(slice_str(out->buckets.items[i]))) {
            return error_set(error, RC_INVALID, "KIST_BUCKETS: '%s' is not a bucket name",
                             out->buckets.items[i]);
        }
    }
    if (options_check_events(out, error) != RC_OK) {
        return error->rc;
    }
    return options_check_domains(out, error) == RC_OK ? options_check_keys(out, error) : error->rc;
}

enum rc serve_options_read(struct env *env, struct config_arguments *arguments,
                           struct serve_options *out, struct error *error)
{
    struct config_seen seen = {0};
    enum rc rc = config_flags(&serve_options_table, out, &seen, arguments, error);

    if (rc != RC_OK || arguments->help) {
        return rc;
    }
    rc = config_environment(&serve_options_table, out, &seen, error);
    if (rc == RC_OK) {
        rc = options_read_file(env, out, &seen, error);
    }
    if (rc == RC_OK) {
        rc = config_defaults(&serve_options_table, out, &seen, error);
    }
    return rc == RC_OK ? options_check(out, error) : rc;
}

static bool variable_known(const char *variable, size_t len)
{
    static const char *const others[] = {"KIST_NEW_ACCESS_KEY", "KIST_NEW_SECRET_KEY",
                                         "KIST_META_RPC"};
    char name[CONFIG_VARIABLE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        config_variable(&options[i], name);
        if (strlen(name) == len && memcmp(name, variable, len) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (strlen(others[i]) == len && memcmp(others[i], variable, len) == 0) {
            return true;
        }
    }
    return false;
}

void serve_options_warn(void)
{
    for (char *const *at = environ; at != NULL && *at != NULL; at++) {
        size_t len = strcspn(*at, "=");

        if (strncmp(*at, "KIST_", 5) == 0 && !variable_known(*at, len)) {
            LOG_WARN("environment_unknown", "name=%.*s", (int)len, *at);
        }
    }
}
