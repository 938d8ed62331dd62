/*
 * Encoding of the log store's rows. Every value begins with version, kind or type, and a CRC32C
 * that also covers the key, so that a row found under another key does not pass.
 */
#include "metad/log/log_rows.h"

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"

/* Offsets in the header: 0 version, 1 kind or type, 2 zero, 4 CRC32C. */
enum { HEADER_KIND_AT = 1, HEADER_CRC_AT = 4 };

static uint32_t row_crc(struct slice key, const char *value, const struct slice *parts,
                        size_t part_count)
{
    uint32_t crc = crc32c(0, key.data, key.len);

    crc = crc32c(crc, value, HEADER_CRC_AT);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].len > 0) {
            crc = crc32c(crc, parts[i].data, parts[i].len);
        }
    }
    return crc;
}

static void header_put(char *value, uint32_t kind)
{
    value[0] = (char)LOG_ROW_VERSION;
    value[HEADER_KIND_AT] = (char)kind;
    value[2] = 0;
    value[3] = 0;
}

static enum rc header_check(struct slice key, struct slice value, struct error *error)
{
    struct slice rest = slice_after(value, LOG_ROW_HEADER_BYTES);

    if (value.len < LOG_ROW_HEADER_BYTES) {
        return error_set(error, RC_CORRUPT, "log row: %zu bytes are too short", value.len);
    }
    if (row_crc(key, value.data, &rest, 1) != le32_get(value.data + HEADER_CRC_AT)) {
        return error_set(error, RC_CORRUPT, "log row: checksum mismatch");
    }
    if (value.data[0] != LOG_ROW_VERSION) {
        return error_set(error, RC_CORRUPT, "log row: unknown version %d", value.data[0]);
    }
    return RC_OK;
}

void log_entry_key(char out[LOG_ENTRY_KEY_BYTES], uint64_t group, uint64_t index)
{
    be64_put(out, group);
    be64_put(out + 8, index);
}

void log_entry_header(char out[LOG_ENTRY_HEADER_BYTES], const char key[LOG_ENTRY_KEY_BYTES],
                      const struct log_entry *entry)
{
    struct slice parts[2];

    ASSERT(entry->term > 0);
    ASSERT(entry->len <= LOG_ENTRY_BYTES_MAX);
    header_put(out, entry->type);
    le64_put(out + LOG_ROW_HEADER_BYTES, entry->term);
    parts[0] = slice_of(out + LOG_ROW_HEADER_BYTES, 8);
    parts[1] = slice_of(entry->data, entry->len);
    le32_put(out + HEADER_CRC_AT, row_crc(slice_of(key, LOG_ENTRY_KEY_BYTES), out, parts, 2));
}

enum rc log_entry_decode(struct slice key, struct slice value, uint64_t *index,
                         struct log_entry *out, struct error *error)
{
    enum rc rc = RC_OK;

    if (key.len != LOG_ENTRY_KEY_BYTES || value.len < LOG_ENTRY_HEADER_BYTES ||
        value.len > LOG_ENTRY_HEADER_BYTES + LOG_ENTRY_BYTES_MAX) {
        return error_set(error, RC_CORRUPT, "log entry: wrong length of key or value");
    }
    *index = be64_get(key.data + 8);
    rc = header_check(key, value, error);
    if (rc != RC_OK) {
        return error_prefix(error, "log entry %llu", (unsigned long long)*index);
    }
    *out = (struct log_entry){
        .type = (unsigned char)value.data[HEADER_KIND_AT],
        .term = le64_get(value.data + LOG_ROW_HEADER_BYTES),
        .data = value.data + LOG_ENTRY_HEADER_BYTES,
        .len = (uint32_t)(value.len - LOG_ENTRY_HEADER_BYTES),
    };
    if (out->type < ENTRY_COMMAND || out->type > ENTRY_CHANGE || out->term == 0) {
        return error_set(error, RC_CORRUPT, "log entry %llu: unknown type or no term",
                         (unsigned long long)*index);
    }
    return RC_OK;
}

void log_group_key(char out[LOG_GROUP_KEY_BYTES], uint64_t group, enum log_row_kind kind)
{
    be64_put(out, group);
    out[8] = (char)kind;
}

static size_t group_row_seal(char *value, uint64_t group, enum log_row_kind kind, size_t len)
{
    char key[LOG_GROUP_KEY_BYTES];
    const struct slice rest = slice_of(value + LOG_ROW_HEADER_BYTES, len - LOG_ROW_HEADER_BYTES);

    header_put(value, (uint32_t)kind);
    log_group_key(key, group, kind);
    le32_put(value + HEADER_CRC_AT, row_crc(slice_of(key, sizeof(key)), value, &rest, 1));
    return len;
}

size_t log_numbers_encode(char out[LOG_GROUP_VALUE_BYTES_MAX], uint64_t group,
                          enum log_row_kind kind, const uint64_t *numbers, uint32_t count)
{
    ASSERT(count >= 1 && count <= 2);
    for (uint32_t i = 0; i < count; i++) {
        le64_put(out + LOG_ROW_HEADER_BYTES + 8 * (size_t)i, numbers[i]);
    }
    return group_row_seal(out, group, kind, LOG_ROW_HEADER_BYTES + 8 * (size_t)count);
}

size_t log_snapshot_encode(char out[LOG_GROUP_VALUE_BYTES_MAX], uint64_t group,
                           enum log_row_kind kind, const struct log_snapshot *snapshot)
{
    char *at = out + LOG_ROW_HEADER_BYTES;

    ASSERT(snapshot->index > 0 && snapshot->term > 0);
    ASSERT(snapshot->configuration_len <= LOG_CONFIGURATION_BYTES_MAX);
    le64_put(at, snapshot->index);
    le64_put(at + 8, snapshot->term);
    le64_put(at + 16, snapshot->configuration_index);
    le32_put(at + 24, snapshot->configuration_len);
    le32_put(at + 28, 0);
    memcpy(at + LOG_SNAPSHOT_FIXED_BYTES, snapshot->configuration, snapshot->configuration_len);
    return group_row_seal(out, group, kind,
                          LOG_ROW_HEADER_BYTES + LOG_SNAPSHOT_FIXED_BYTES +
                              (size_t)snapshot->configuration_len);
}

enum rc log_numbers_decode(struct slice key, struct slice value, uint64_t *numbers, uint32_t count,
                           struct error *error)
{
    enum rc rc = header_check(key, value, error);

    if (rc != RC_OK) {
        return rc;
    }
    if (value.len != LOG_ROW_HEADER_BYTES + 8 * (size_t)count) {
        return error_set(error, RC_CORRUPT, "log row: wrong length %zu", value.len);
    }
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = le64_get(value.data + LOG_ROW_HEADER_BYTES + 8 * (size_t)i);
    }
    return RC_OK;
}

enum rc log_snapshot_decode(struct slice key, struct slice value, struct log_snapshot *out,
                            struct error *error)
{
    const char *at = value.data + LOG_ROW_HEADER_BYTES;
    enum rc rc = header_check(key, value, error);

    if (rc != RC_OK) {
        return rc;
    }
    if (value.len < LOG_ROW_HEADER_BYTES + LOG_SNAPSHOT_FIXED_BYTES) {
        return error_set(error, RC_CORRUPT, "log snapshot row: too short");
    }
    *out = (struct log_snapshot){
        .index = le64_get(at),
        .term = le64_get(at + 8),
        .configuration_index = le64_get(at + 16),
        .configuration_len = le32_get(at + 24),
    };
    if (out->configuration_len > LOG_CONFIGURATION_BYTES_MAX ||
        value.len !=
            (size_t)LOG_ROW_HEADER_BYTES + LOG_SNAPSHOT_FIXED_BYTES + out->configuration_len ||
        out->index == 0 || out->term == 0 || out->configuration_index > out->index) {
        return error_set(error, RC_CORRUPT, "log snapshot row: impossible fields");
    }
    memcpy(out->configuration, at + LOG_SNAPSHOT_FIXED_BYTES, out->configuration_len);
    return RC_OK;
}
