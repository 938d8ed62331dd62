/* Options of `kist metad` (metad.def), and the cluster key as options and variables give it. */
#ifndef CLI_METAD_OPTIONS_H
#define CLI_METAD_OPTIONS_H

#include "common/config/config.h"
#include "common/env/env.h"
#include "common/rpc/cluster_key.h"
#include "metad/cluster/node.h"

struct metad_settings {
    char *data;
    char *listen;
    char *advertise;
    char *admin_listen;
    char *cluster_key_file;
    char *cluster_key;
    struct config_list peers;
    char *node_name;
    uint64_t meta_cache;
    uint64_t reclaim_grace;
    uint64_t election_timeout;
    uint64_t log_level;
    bool log_json;
    /* Worked out of them. */
    char name[NODE_NAME_MAX];
    struct cluster_key key;
};

extern const struct config_table metad_options_table;

/* RC_INVALID with one line of text. The caller frees with config_free(&metad_options_table, out)
 * and wipes the key. */
enum rc metad_options_read(struct env *env, struct config_arguments *arguments,
                           struct metad_settings *out, struct error *error);
/* One of both must be given; NULL: not. */
enum rc cluster_key_from(struct env *env, const char *file, const char *text,
                         struct cluster_key *key, struct error *error);
/* HOST:PORT with a port other than 0, as others can reach it. */
bool address_reachable(const char *address);

#endif
