/* The processes of a cluster, as root's rows or an identity file say. Pure. */
#ifndef METAD_CLUSTER_NODE_TABLE_H
#define METAD_CLUSTER_NODE_TABLE_H

#include "common/base/arena.h"
#include "common/env/env.h"
#include "metad/cluster/node.h"
#include "proto/cluster.pb-c.h"

enum { NODE_UUID_BYTES = 16, NODE_TABLE_MAX = NODE_PEERS_MAX };
enum node_row_state { NODE_ROW_MEMBER = 1, NODE_ROW_LEAVES = 2 };

struct node_entry {
    uint64_t id;
    uint64_t replica_id; /* of group 1 */
    uint64_t incarnation;
    enum node_row_state state;
    bool has_row; /* stands in root, not only in the identity file */
    char name[NODE_NAME_MAX];
    char address[ENV_ADDRESS_MAX];
    char release[RPC_RELEASE_MAX];
    uint8_t uuid[NODE_UUID_BYTES];
};

struct node_table {
    struct node_entry entries[NODE_TABLE_MAX];
    uint32_t count;
};

struct node_entry *node_table_find(struct node_table *table, uint64_t id);
struct node_entry *node_table_find_address(struct node_table *table, const char *address);
struct node_entry *node_table_find_replica(struct node_table *table, uint64_t replica_id);
/* False: malformed, or too many. */
bool node_table_add(struct node_table *table, const Kist__Node *node, bool has_row);
bool node_entry_read(const Kist__Node *node, struct node_entry *out);
/* A message that borrows the entry. */
void node_entry_message(const struct node_entry *entry, Kist__Node *out);
/* Member for member: padding does not count. */
bool node_table_same(const struct node_table *one, const struct node_table *other);
/* All of them, in the arena. */
Kist__Node **node_table_messages(const struct node_table *table, struct arena *arena);

#endif
