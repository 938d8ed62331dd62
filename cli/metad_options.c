#include "cli/metad_options.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

static const struct config_option options[] = {
#define CONFIG(name, type, field, def, min, max, unit, reload, help)                               \
    CONFIG_ROW(struct metad_settings, name, type, field, def, min, max, unit, reload, help)
#include "cli/metad.def"
#undef CONFIG
};

const struct config_table metad_options_table = {
    .options = options,
    .count = ARRAY_LEN(options),
    .usage = "kist metad --data DIR --advertise HOST:PORT --peers HOST:PORT,... [options]",
};

enum rc cluster_key_from(struct env *env, const char *file, const char *text,
                         struct cluster_key *key, struct error *error)
{
    if (file != NULL) {
        return cluster_key_read(env, file, key, error) == RC_OK
                   ? RC_OK
                   : error_prefix(error, "--cluster-key-file");
    }
    if (text != NULL) {
        return cluster_key_parse(slice_str(text), key, error) == RC_OK
                   ? RC_OK
                   : error_prefix(error, "KIST_CLUSTER_KEY");
    }
    return error_set(error, RC_INVALID,
                     "no cluster key: name its file with --cluster-key-file, or set "
                     "KIST_CLUSTER_KEY; kist admin cluster key makes one");
}

bool address_reachable(const char *address)
{
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;
    uint64_t port = 0;

    if (colon == NULL || colon == address || strlen(address) >= ENV_ADDRESS_MAX ||
        strpbrk(address, " \t,\"\\") != NULL) {
        return false;
    }
    return slice_to_u64(slice_str(colon + 1), 65535, &port) && port > 0 &&
           strncmp(address, "0.0.0.0:", 8) != 0 && strncmp(address, "[::]:", 5) != 0;
}

static enum rc options_addresses(struct metad_settings *out, struct error *error)
{
    if (out->advertise == NULL && out->listen != NULL) {
        out->advertise = mem_copy(out->listen, strlen(out->listen));
    }
    if (!address_reachable(out->advertise)) {
        return error_set(error, RC_INVALID,
                         "--advertise: want HOST:PORT by which other processes reach this one");
    }
    if (out->peers.count > NODE_PEERS_MAX) {
        return error_set(error, RC_INVALID, "--peers: at most %d", NODE_PEERS_MAX);
    }
    for (uint32_t i = 0; i < out->peers.count; i++) {
        if (!address_reachable(out->peers.items[i])) {
            return error_set(error, RC_INVALID, "--peers: '%s': want HOST:PORT",
                             out->peers.items[i]);
        }
    }
    return RC_OK;
}

/* A flag may hold several, too. */
static void options_split(struct config_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        char *comma = strchr(list->items[i], ',');

        if (comma != NULL && list->count < CONFIG_LIST_MAX) {
            list->items[list->count++] = mem_copy(comma + 1, strlen(comma + 1));
            *comma = '\0';
        }
    }
}

static enum rc options_name(struct metad_settings *out, struct error *error)
{
    const char *name = out->node_name != NULL ? out->node_name : out->advertise;
    size_t len = out->node_name != NULL ? strlen(name) : (size_t)(strrchr(name, ':') - name);

    if (len == 0 || len >= sizeof(out->name)) {
        return error_set(error, RC_INVALID, "--node-name: want 1 to %d characters",
                         NODE_NAME_MAX - 1);
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') {
            return error_set(error, RC_INVALID,
                             "--node-name: want printable characters without blanks and quotes");
        }
    }
    memcpy(out->name, name, len);
    out->name[len] = '\0';
    return RC_OK;
}

enum rc metad_options_read(struct env *env, struct config_arguments *arguments,
                           struct metad_settings *out, struct error *error)
{
    struct config_seen seen = {0};
    enum rc rc = config_flags(&metad_options_table, out, &seen, arguments, error);

    if (rc != RC_OK || arguments->help) {
        return rc;
    }
    rc = config_environment(&metad_options_table, out, &seen, error);
    rc = rc == RC_OK ? config_defaults(&metad_options_table, out, &seen, error) : rc;
    if (rc == RC_OK && out->data == NULL) {
        rc = error_set(error, RC_INVALID, "no data directory; name one: kist metad --data DIR");
    }
    if (rc == RC_OK && (out->listen == NULL || out->admin_listen == NULL)) {
        rc = error_set(error, RC_INVALID, "--listen and --admin-listen want an address");
    }
    if (rc != RC_OK) {
        return rc;
    }
    options_split(&out->peers);
    rc = options_addresses(out, error);
    rc = rc == RC_OK ? options_name(out, error) : rc;
    return rc == RC_OK
               ? cluster_key_from(env, out->cluster_key_file, out->cluster_key, &out->key, error)
               : rc;
}
