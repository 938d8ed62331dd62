/* See entry_log.h. Runs, changes and marks are short sorted arrays: terms, configurations and MiBs
 * are few. */
#include "metad/raft/entry_log.h"

#include "common/base/assert.h"
#include "common/base/mem.h"

enum {
    SLOTS_MIN = 1024,
    MARK_BYTES = 256 * 1024, /* distance of marks */
    ENTRY_OVERHEAD_BYTES = 64
};

static struct log_entry *slot_of(const struct entry_log *log, uint64_t index)
{
    return &log->slots[index & (log->slot_count - 1)];
}

void entry_log_init(struct entry_log *log)
{
    *log = (struct entry_log){.first_index = 1, .cache_first = 1};
    log->slot_count = SLOTS_MIN;
    log->slots = mem_alloc(log->slot_count * sizeof(*log->slots));
}

static void cache_clear(struct entry_log *log)
{
    entry_log_evict(log, log->last_index, 0);
    ASSERT(log->cache_bytes == 0);
}

void entry_log_deinit(struct entry_log *log)
{
    cache_clear(log);
    mem_free(log->slots);
    mem_free(log->runs);
    mem_free(log->changes);
    mem_free(log->marks);
}

static void run_add(struct entry_log *log, uint64_t index, uint64_t term)
{
    if (log->run_count > 0 && log->runs[log->run_count - 1].term == term) {
        return;
    }
    if (log->run_count == log->run_max) {
        log->run_max = log->run_max == 0 ? 16 : log->run_max * 2;
        log->runs = mem_realloc(log->runs, log->run_max * sizeof(*log->runs));
    }
    log->runs[log->run_count++] = (struct entry_run){index, term};
}

static void change_add(struct entry_log *log, uint64_t index, struct slice bytes)
{
    struct entry_change *change = NULL;

    ASSERT(bytes.len <= LOG_CONFIGURATION_BYTES_MAX);
    if (log->change_count == log->change_max) {
        log->change_max = log->change_max == 0 ? 4 : log->change_max * 2;
        log->changes = mem_realloc(log->changes, log->change_max * sizeof(*log->changes));
    }
    change = &log->changes[log->change_count++];
    change->index = index;
    change->len = (uint32_t)bytes.len;
    memcpy(change->bytes, bytes.data, bytes.len);
}

static void mark_add(struct entry_log *log, uint64_t index)
{
    if (log->mark_count > 0 &&
        log->bytes_total - log->marks[log->mark_count - 1].bytes < MARK_BYTES) {
        return;
    }
    if (log->mark_count == log->mark_max) {
        log->mark_max = log->mark_max == 0 ? 64 : log->mark_max * 2;
        log->marks = mem_realloc(log->marks, log->mark_max * sizeof(*log->marks));
    }
    log->marks[log->mark_count++] = (struct entry_mark){index, log->bytes_total};
}

static void account(struct entry_log *log, uint64_t index, const struct log_entry *entry)
{
    run_add(log, index, entry->term);
    mark_add(log, index);
    if (entry->type == ENTRY_CHANGE) {
        change_add(log, index, slice_of(entry->data, entry->len));
    }
    log->bytes_total += entry->len + ENTRY_OVERHEAD_BYTES;
}

void entry_log_begin(struct entry_log *log, const struct log_snapshot *snapshot,
                     uint64_t first_index)
{
    ASSERT(first_index >= 1 && first_index <= snapshot->index + 1);
    log->snapshot = *snapshot;
    log->first_index = first_index;
    log->last_index = first_index - 1;
    log->persisted = log->last_index;
    log->cache_first = first_index;
    if (snapshot->index > 0) {
        change_add(log, snapshot->configuration_index,
                   slice_of(snapshot->configuration, snapshot->configuration_len));
    }
}

void entry_log_loaded(struct entry_log *log, const struct log_entry *entry)
{
    const uint64_t index = log->last_index + 1;

    ASSERT(log->cache_first == index);
    /* A configuration among the trailing entries is already the snapshot's. */
    if (entry->type == ENTRY_CHANGE && index <= log->snapshot.configuration_index) {
        struct log_entry plain = *entry;

        plain.type = ENTRY_BARRIER;
        account(log, index, &plain);
    } else {
        account(log, index, entry);
    }
    log->last_index = index;
    log->persisted = index;
    log->cache_first = index + 1;
}

static void truncate_from(struct entry_log *log, uint64_t index)
{
    ASSERT(index >= log->first_index && index > log->snapshot.index);
    for (uint64_t at = log->cache_first > index ? log->cache_first : index; at <= log->last_index;
         at++) {
        struct log_entry *entry = slot_of(log, at);

        log->cache_bytes -= entry->len + ENTRY_OVERHEAD_BYTES;
        entry_block_unref(entry->block);
    }
    log->last_index = index - 1;
    if (log->cache_first > index) {
        log->cache_first = index;
    }
    if (log->persisted >= index) {
        log->persisted = index - 1;
    }
    while (log->run_count > 0 && log->runs[log->run_count - 1].first >= index) {
        log->run_count--;
    }
    while (log->change_count > 0 && log->changes[log->change_count - 1].index >= index) {
        log->change_count--;
    }
    while (log->mark_count > 0 && log->marks[log->mark_count - 1].index >= index) {
        log->mark_count--;
    }
    log->epoch++;
}

static void slots_grow(struct entry_log *log, uint32_t more)
{
    const size_t used = (size_t)(log->last_index + 1 - log->cache_first);
    struct entry_log grown = *log;

    if (used + more <= log->slot_count) {
        return;
    }
    while (used + more > grown.slot_count) {
        grown.slot_count *= 2;
    }
    grown.slots = mem_alloc(grown.slot_count * sizeof(*grown.slots));
    for (uint64_t at = log->cache_first; at <= log->last_index; at++) {
        *slot_of(&grown, at) = *slot_of(log, at);
    }
    mem_free(log->slots);
    log->slots = grown.slots;
    log->slot_count = grown.slot_count;
}

void entry_log_append(struct entry_log *log, uint64_t index, const struct log_entry *entries,
                      uint32_t count)
{
    ASSERT(index <= log->last_index + 1);
    if (index <= log->last_index) {
        truncate_from(log, index);
    }
    slots_grow(log, count);
    for (uint32_t i = 0; i < count; i++) {
        account(log, index + i, &entries[i]);
        *slot_of(log, index + i) = entries[i];
        log->cache_bytes += entries[i].len + ENTRY_OVERHEAD_BYTES;
        log->last_index = index + i;
    }
}

uint64_t entry_log_term(const struct entry_log *log, uint64_t index)
{
    if (index < log->first_index || index > log->last_index) {
        return index == log->snapshot.index ? log->snapshot.term : 0;
    }
    for (size_t i = log->run_count; i > 0; i--) {
        if (log->runs[i - 1].first <= index) {
            return log->runs[i - 1].term;
        }
    }
    return 0;
}

const struct log_entry *entry_log_get(const struct entry_log *log, uint64_t index)
{
    return index >= log->cache_first && index <= log->last_index ? slot_of(log, index) : NULL;
}

void entry_log_evict(struct entry_log *log, uint64_t through, size_t bytes_keep)
{
    while (log->cache_first <= through && log->cache_first <= log->last_index &&
           log->cache_bytes > bytes_keep) {
        struct log_entry *entry = slot_of(log, log->cache_first);

        log->cache_bytes -= entry->len + ENTRY_OVERHEAD_BYTES;
        entry_block_unref(entry->block);
        entry->block = NULL;
        log->cache_first++;
    }
}

static void runs_trim(struct entry_log *log)
{
    size_t drop = 0;

    while (drop + 1 < log->run_count && log->runs[drop + 1].first <= log->first_index) {
        drop++;
    }
    memmove(log->runs, log->runs + drop, (log->run_count - drop) * sizeof(*log->runs));
    log->run_count -= drop;
}

static void changes_trim(struct entry_log *log, uint64_t through)
{
    size_t drop = 0;

    while (drop + 1 < log->change_count && log->changes[drop + 1].index <= through) {
        drop++;
    }
    memmove(log->changes, log->changes + drop, (log->change_count - drop) * sizeof(*log->changes));
    log->change_count -= drop;
}

static void marks_trim(struct entry_log *log)
{
    size_t drop = 0;

    while (drop + 1 < log->mark_count && log->marks[drop + 1].index <= log->first_index) {
        drop++;
    }
    memmove(log->marks, log->marks + drop, (log->mark_count - drop) * sizeof(*log->marks));
    log->mark_count -= drop;
}

void entry_log_trim(struct entry_log *log, const struct log_snapshot *snapshot, uint64_t below)
{
    ASSERT(below <= snapshot->index + 1 && snapshot->index <= log->last_index);
    log->snapshot = *snapshot;
    if (below > log->first_index) {
        entry_log_evict(log, below - 1, 0);
        if (log->cache_first < below) {
            log->cache_first = below;
        }
        log->first_index = below;
    }
    runs_trim(log);
    marks_trim(log);
    changes_trim(log, snapshot->index);
}

void entry_log_reset(struct entry_log *log, const struct log_snapshot *snapshot)
{
    cache_clear(log);
    log->run_count = 0;
    log->change_count = 0;
    log->mark_count = 0;
    log->epoch++;
    log->snapshot = *snapshot;
    log->first_index = snapshot->index + 1;
    log->last_index = snapshot->index;
    log->persisted = snapshot->index;
    log->cache_first = log->first_index;
    change_add(log, snapshot->configuration_index,
               slice_of(snapshot->configuration, snapshot->configuration_len));
}

uint64_t entry_log_keep_from(const struct entry_log *log, uint64_t through, uint64_t bytes)
{
    uint64_t end = log->bytes_total;
    uint64_t from = through + 1;

    for (size_t i = log->mark_count; i > 0; i--) {
        const struct entry_mark *mark = &log->marks[i - 1];

        if (mark->index > through) {
            end = mark->bytes;
            continue;
        }
        if (end - mark->bytes > bytes) {
            break;
        }
        from = mark->index;
    }
    return from > log->first_index ? from : log->first_index;
}

const struct entry_change *entry_log_change_at(const struct entry_log *log, uint64_t index)
{
    for (size_t i = log->change_count; i > 0; i--) {
        if (log->changes[i - 1].index <= index) {
            return &log->changes[i - 1];
        }
    }
    return NULL;
}

const struct entry_change *entry_log_change_after(const struct entry_log *log, uint64_t index)
{
    for (size_t i = 0; i < log->change_count; i++) {
        if (log->changes[i].index > index) {
            return &log->changes[i];
        }
    }
    return NULL;
}
