/* What the files of `kist admin cluster` and `kist admin metad` share. */
#ifndef CLI_ADMIN_CLUSTER_PRIVATE_H
#define CLI_ADMIN_CLUSTER_PRIVATE_H

#include "cli/admin/cluster_ask.h"
#include "common/config/config.h"
#include "metad/cluster/node.h"

enum { CLUSTER_WORDS_MAX = 4, CODE_OPERATING = 1, CODE_USAGE = 2 };

struct cluster_line {
    const char *words[CLUSTER_WORDS_MAX]; /* "metad", "remove", "3" */
    int word_count;
    const char *metads[NODE_PEERS_MAX];
    uint32_t metad_count;
    const char *key_file;
    const char *data;
    bool lose;   /* --yes-lose-unreplicated */
    char *texts; /* of metads; owned */
    struct cluster_asker *asker;
};

int cluster_init(struct cluster_line *line);
int cluster_list(struct cluster_line *line);
int cluster_add(struct cluster_line *line, const char *address);
int cluster_remove(struct cluster_line *line, const char *name);
int cluster_replace(struct cluster_line *line, const char *name, const char *address);
int cluster_transfer(struct cluster_line *line);
int cluster_recover(const struct cluster_line *line); /* offline: asks nobody */

/* "HOST:PORT" of a status, as a C string in the arena. */
const char *cluster_text(struct arena *arena, ProtobufCBinaryData from);

#endif
