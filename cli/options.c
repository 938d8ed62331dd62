/* Reads and checks the options of `kist serve`: what a single row of the table cannot say stands
 * here. */
#include "cli/options.h"

#include <ctype.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "gateway/s3/router.h"

enum { CONFIG_FILE_BYTES_MAX = 65536, ROOT_SECRET_BYTES_MIN = 8, ROOT_ACCESS_BYTES_MIN = 3 };

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
    if (out->region == NULL || strpbrk(out->region, "/, ") != NULL) {
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
    return options_check_keys(out, error);
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
