/*
 * Which replicas of this process a transport delivers to, by (group, replica id). Embedded by its
 * transport, zeroed before the first use; on the transport's loop.
 */
#ifndef METAD_RAFT_REPLICA_TABLE_H
#define METAD_RAFT_REPLICA_TABLE_H

#include <stdint.h>

struct replica;

enum { REPLICA_TABLE_MAX = 64 };

struct replica_table {
    struct {
        uint64_t group;
        uint64_t id;
        struct replica *replica;
    } rows[REPLICA_TABLE_MAX];
    uint32_t count;
};

/* NULL when absent. */
struct replica *replica_table_find(const struct replica_table *table, uint64_t group, uint64_t id);
/* It must not be there yet. */
void replica_table_add(struct replica_table *table, uint64_t group, uint64_t id,
                       struct replica *replica);
/* Harmless when it is not there. */
void replica_table_remove(struct replica_table *table, uint64_t group, uint64_t id);

#endif
