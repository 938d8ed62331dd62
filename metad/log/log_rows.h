/* Rows of the log store as bytes: keys, headers with checksums, payloads (FORMAT.md). */
#ifndef METAD_LOG_LOG_ROWS_H
#define METAD_LOG_LOG_ROWS_H

#include "metad/log/log_store.h"

enum { LOG_FAMILY_GROUPS = 0, LOG_FAMILY_ENTRIES = 1 };

enum log_row_kind {
    LOG_ROW_TERM = 1,
    LOG_ROW_SNAPSHOT = 2,
    LOG_ROW_REPLICA = 3,
    LOG_ROW_TOMBSTONE = 4,
    LOG_ROW_INSTALLING = 5
};

enum {
    LOG_ROW_VERSION = 1,
    LOG_ROW_HEADER_BYTES = 8,
    LOG_GROUP_KEY_BYTES = 9,
    LOG_ENTRY_KEY_BYTES = 16,
    LOG_ENTRY_HEADER_BYTES = LOG_ROW_HEADER_BYTES + 8, /* and the term */
    LOG_SNAPSHOT_FIXED_BYTES = 32,
    LOG_GROUP_VALUE_BYTES_MAX = LOG_ROW_HEADER_BYTES + LOG_SNAPSHOT_FIXED_BYTES +
        LOG_CONFIGURATION_BYTES_MAX
};

void log_entry_key(char out[LOG_ENTRY_KEY_BYTES], uint64_t group, uint64_t index);
/* The header of an entry's value; the entry's data follows it. */
void log_entry_header(char out[LOG_ENTRY_HEADER_BYTES], const char key[LOG_ENTRY_KEY_BYTES],
                      const struct log_entry *entry);
/* Checks key and value; `out->data` points into `value`. */
enum rc log_entry_decode(struct slice key, struct slice value, uint64_t *index,
                         struct log_entry *out, struct error *error);

void log_group_key(char out[LOG_GROUP_KEY_BYTES], uint64_t group, enum log_row_kind kind);
/* One or two numbers: replica id, tombstone; term and vote. Returns the length. */
size_t log_numbers_encode(char out[LOG_GROUP_VALUE_BYTES_MAX], uint64_t group,
                          enum log_row_kind kind, const uint64_t *numbers, uint32_t count);
size_t log_snapshot_encode(char out[LOG_GROUP_VALUE_BYTES_MAX], uint64_t group,
                           enum log_row_kind kind, const struct log_snapshot *snapshot);
enum rc log_numbers_decode(struct slice key, struct slice value, uint64_t *numbers, uint32_t count,
                           struct error *error);
enum rc log_snapshot_decode(struct slice key, struct slice value, struct log_snapshot *out,
                            struct error *error);

#endif
