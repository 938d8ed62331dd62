/* Options of `kist serve`, as read from flags, environment, file (config.def). */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "common/config/config.h"
#include "common/env/env.h"

struct serve_options {
    struct config_list data;
    char *listen;
    char *admin_listen;
    char *domain;
    char *website_domain;
    uint64_t default_ownership; /* enum ownership_rule less 1 */
    char *region;
    uint64_t sigv2;
    char *tls_cert;
    char *tls_key;
    char *config;
    char *root_access_key;
    char *root_secret_key;
    struct config_list buckets;
    uint64_t threads;
    uint64_t copy_size_max;
    uint64_t inline_size_max;
    uint64_t replica_size_max;
    uint64_t segment_size;
    uint64_t free_space_min;
    uint64_t meta_cache;
    uint64_t index_cache;
    uint64_t stream_memory;
    uint64_t connections_max;
    uint64_t reclaim_grace;
    uint64_t repair_rate;
    uint64_t hedge_after;
    uint64_t lifecycle_day;
    uint64_t keep_alive_after;
    uint64_t idle_timeout;
    uint64_t header_timeout;
    uint64_t body_timeout;
    uint64_t drain_timeout;
    struct config_list webhook;
    struct config_list kafka;
    uint64_t feed_size;
    uint64_t feed_age;
    uint64_t log_level;
    bool log_json;
};

extern const struct config_table serve_options_table;

/* Arguments after "kist serve". RC_INVALID with one line of text. `env` reads the file. The caller
 * frees with config_free(&serve_options_table, out). */
enum rc serve_options_read(struct env *env, struct config_arguments *arguments,
                           struct serve_options *out, struct error *error);
/* Says which KIST_ variables mean nothing: a misspelt one must not be silent. Not refused: a
 * container manager sets some for a service called kist. */
void serve_options_warn(void);
/* A whole file of at most `max` bytes, NUL-terminated: returns owned, or NULL with the error set.
 */
char *file_read_all(struct env *env, const char *path, size_t max, size_t *len,
                    struct error *error);

#endif
