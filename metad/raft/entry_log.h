/*
 * What one replica knows of its log in memory: terms of all entries (as runs), the newest entries
 * themselves, the configurations, and about how many bytes lie where. The rows are in the log
 * store.
 *
 *     snapshot.index   first_index ....... cache_first ....... persisted ....... last_index
 *                      |--- on disk only --|--- cached -------------------------|
 *
 * On the replica's loop only. Owns one reference to the block of each cached entry.
 */
#ifndef METAD_RAFT_ENTRY_LOG_H
#define METAD_RAFT_ENTRY_LOG_H

#include "metad/log/log_store.h"

struct entry_run {
    uint64_t first; /* up to the next run, or to last_index */
    uint64_t term;
};

struct entry_change {
    uint64_t index;
    uint32_t len;
    char bytes[LOG_CONFIGURATION_BYTES_MAX];
};

struct entry_mark { /* bytes of all entries before `index` since the replica started */
    uint64_t index;
    uint64_t bytes;
};

struct entry_log {
    uint64_t first_index;
    uint64_t last_index;
    uint64_t persisted;
    uint64_t
        epoch; /* rises when entries are truncated or replaced: older completions say nothing */
    uint64_t bytes_total; /* ever appended since the start */
    struct log_snapshot snapshot;

    uint64_t cache_first; /* last_index + 1: nothing is cached */
    size_t cache_bytes;

    /* Private. */
    struct log_entry *slots;
    size_t slot_count; /* a power of two */
    struct entry_run *runs;
    size_t run_count;
    size_t run_max;
    struct entry_change *changes;
    size_t change_count;
    size_t change_max;
    struct entry_mark *marks;
    size_t mark_count;
    size_t mark_max;
};

void entry_log_init(struct entry_log *log);
void entry_log_deinit(struct entry_log *log);

/* Start-up: the log begins after `snapshot` (index 0: none), its first entry is first_index. */
void entry_log_begin(struct entry_log *log, const struct log_snapshot *snapshot,
                     uint64_t first_index);
/* Start-up: the next entry, which is on disk; it is not cached. */
void entry_log_loaded(struct entry_log *log, const struct log_entry *entry);

/* Puts entries at `index`, replacing what is there from that index on. Takes one reference of each.
 */
void entry_log_append(struct entry_log *log, uint64_t index, const struct log_entry *entries,
                      uint32_t count);
uint64_t entry_log_term(const struct entry_log *log, uint64_t index); /* 0: unknown */
/* NULL: on disk only. */
const struct log_entry *entry_log_get(const struct entry_log *log, uint64_t index);
/* Drops cached entries up to `through` until at most bytes_keep are left. */
void entry_log_evict(struct entry_log *log, uint64_t through, size_t bytes_keep);

/* Entries below `below` are gone; the log begins at `snapshot`. */
void entry_log_trim(struct entry_log *log, const struct log_snapshot *snapshot, uint64_t below);
/* All entries are gone. */
void entry_log_reset(struct entry_log *log, const struct log_snapshot *snapshot);
/* The lowest index such that the entries from it to `through` are about `bytes` or less. */
uint64_t entry_log_keep_from(const struct entry_log *log, uint64_t through, uint64_t bytes);

/* The newest configuration at or before `index`; NULL: none known. */
const struct entry_change *entry_log_change_at(const struct entry_log *log, uint64_t index);
/* The oldest configuration after `index`; NULL: none. */
const struct entry_change *entry_log_change_after(const struct entry_log *log, uint64_t index);

#endif
