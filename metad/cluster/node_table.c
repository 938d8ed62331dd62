#include "metad/cluster/node_table.h"

#include "common/base/assert.h"
#include "metad/store/message.h"

struct node_entry *node_table_find(struct node_table *table, uint64_t id)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->entries[i].id == id) {
            return &table->entries[i];
        }
    }
    return NULL;
}

struct node_entry *node_table_find_address(struct node_table *table, const char *address)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->entries[i].address, address) == 0) {
            return &table->entries[i];
        }
    }
    return NULL;
}

struct node_entry *node_table_find_replica(struct node_table *table, uint64_t replica_id)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->entries[i].replica_id == replica_id) {
            return &table->entries[i];
        }
    }
    return NULL;
}

/* A text without control characters that fits with its NUL. */
static bool text_read(ProtobufCBinaryData from, char *out, size_t room)
{
    if (from.len >= room) {
        return false;
    }
    for (size_t i = 0; i < from.len; i++) {
        if (from.data[i] <= ' ' || from.data[i] > '~') {
            return false;
        }
    }
    if (from.len > 0) {
        memcpy(out, from.data, from.len);
    }
    out[from.len] = '\0';
    return true;
}

bool node_entry_read(const Kist__Node *node, struct node_entry *out)
{
    *out = (struct node_entry){.id = node->id,
                               .replica_id = node->n_replica_ids > 0 ? node->replica_ids[0] : 0,
                               .incarnation = node->incarnation,
                               .state = node->state == NODE_ROW_LEAVES ? NODE_ROW_LEAVES
                                                                       : NODE_ROW_MEMBER};
    if (node->uuid.len == NODE_UUID_BYTES) {
        memcpy(out->uuid, node->uuid.data, NODE_UUID_BYTES);
    } else if (node->uuid.len != 0) {
        return false;
    }
    return text_read(node->name, out->name, sizeof(out->name)) &&
           text_read(node->address, out->address, sizeof(out->address)) &&
           text_read(node->release, out->release, sizeof(out->release)) && out->address[0] != '\0';
}

bool node_table_add(struct node_table *table, const Kist__Node *node, bool has_row)
{
    struct node_entry *entry = &table->entries[table->count];

    if (table->count == NODE_TABLE_MAX || node->id == 0 ||
        node_table_find(table, node->id) != NULL || !node_entry_read(node, entry)) {
        return false;
    }
    entry->has_row = has_row;
    table->count++;
    return true;
}

void node_entry_message(const struct node_entry *entry, Kist__Node *out)
{
    kist__node__init(out);
    out->id = entry->id;
    out->name = message_field(slice_str(entry->name));
    out->address = message_field(slice_str(entry->address));
    out->release = message_field(slice_str(entry->release));
    out->uuid = message_field(slice_of(entry->uuid, NODE_UUID_BYTES));
    out->role = RPC_ROLE_METAD;
    if (entry->replica_id != 0) {
        out->n_replica_ids = 1;
        out->replica_ids = (uint64_t *)(uintptr_t)&entry->replica_id; /* borrowed, only read */
    }
    out->incarnation = entry->incarnation;
    out->state = entry->state;
}

Kist__Node **node_table_messages(const struct node_table *table, struct arena *arena)
{
    Kist__Node **nodes = arena_alloc(arena, (table->count + 1) * sizeof(*nodes));

    for (uint32_t i = 0; i < table->count; i++) {
        nodes[i] = arena_alloc(arena, sizeof(**nodes));
        node_entry_message(&table->entries[i], nodes[i]);
    }
    return nodes;
}

static bool entry_same(const struct node_entry *one, const struct node_entry *other)
{
    return one->id == other->id && one->replica_id == other->replica_id &&
           one->incarnation == other->incarnation && one->state == other->state &&
           one->has_row == other->has_row && strcmp(one->name, other->name) == 0 &&
           strcmp(one->address, other->address) == 0 && strcmp(one->release, other->release) == 0 &&
           memcmp(one->uuid, other->uuid, sizeof(one->uuid)) == 0;
}

bool node_table_same(const struct node_table *one, const struct node_table *other)
{
    bool same = one->count == other->count;

    for (uint32_t i = 0; same && i < one->count; i++) {
        same = entry_same(&one->entries[i], &other->entries[i]);
    }
    return same;
}
