/* See replica_table.h. */
#include "metad/raft/replica_table.h"

#include <stddef.h>

#include "common/base/assert.h"

struct replica *replica_table_find(const struct replica_table *table, uint64_t group, uint64_t id)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->rows[i].group == group && table->rows[i].id == id) {
            return table->rows[i].replica;
        }
    }
    return NULL;
}

void replica_table_add(struct replica_table *table, uint64_t group, uint64_t id,
                       struct replica *replica)
{
    ASSERT(table->count < REPLICA_TABLE_MAX);
    ASSERT(replica_table_find(table, group, id) == NULL);
    table->rows[table->count].group = group;
    table->rows[table->count].id = id;
    table->rows[table->count].replica = replica;
    table->count += 1;
}

void replica_table_remove(struct replica_table *table, uint64_t group, uint64_t id)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->rows[i].group == group && table->rows[i].id == id) {
            table->count -= 1;
            table->rows[i] = table->rows[table->count];
            return;
        }
    }
}
