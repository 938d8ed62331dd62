/* Segment files as text, and their verification, over the scan that recovery uses. */
#include "datad/store/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"
#include "datad/store/scan.h"
#include "datad/store/segment.h"

enum { LINE_BYTES = 512, ID_TEXT_BYTES = 2 * EXTENT_ID_BYTES + 1, KEY_SHOWN_BYTES = 128 };

static void say(struct inspect *inspect, bool always, const char *text)
{
    if (inspect->line != NULL && (always || inspect->dump)) {
        inspect->line(inspect, text);
    }
}

static void id_text(const uint8_t *id, char to[ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < EXTENT_ID_BYTES; i++) {
        to[2 * i] = digits[id[i] >> 4];
        to[2 * i + 1] = digits[id[i] & 15];
    }
    to[ID_TEXT_BYTES - 1] = '\0';
}

/* Keys are any bytes: what is not plain ASCII is shown as \xNN. */
static void key_text(const struct shard_header *header, char *to, size_t max)
{
    size_t len = header->key_len < KEY_SHOWN_BYTES / 4 ? header->key_len : KEY_SHOWN_BYTES / 4;
    size_t at = 0;

    for (size_t i = 0; i < len && at + 5 < max; i++) {
        uint8_t byte = header->key[i];
        bool plain = byte > 0x20 && byte < 0x7f && byte != '\\' && byte != '"';
        int n = snprintf(to + at, max - at, plain ? "%c" : "\\x%02x", byte);
        at += n > 0 ? (size_t)n : 0;
    }
    to[at] = '\0';
}

static void dump_shard(struct inspect *inspect, const struct scan *scan, const char *state)
{
    char id[ID_TEXT_BYTES];
    char layout[ID_TEXT_BYTES];
    char key[KEY_SHOWN_BYTES + 8];
    char text[LINE_BYTES];
    const struct shard_header *header = scan->header;

    id_text(scan->footer.extent, id);
    id_text(header->layout, layout);
    key_text(header, key, sizeof(key));
    (void)snprintf(text, sizeof(text),
                   "shard at=%llu extent=%s index=%u attempt=%u bytes=%llu group=%llu epoch=%llu "
                   "bucket=%llu key=\"%s\" layout=%s state=%s",
                   (unsigned long long)scan->at, id, scan->footer.index, scan->footer.attempt,
                   (unsigned long long)scan->footer.payload_bytes,
                   (unsigned long long)header->group, (unsigned long long)header->group_epoch,
                   (unsigned long long)header->home_bucket, key, layout, state);
    say(inspect, strcmp(state, "whole") != 0 && strcmp(state, "unchecked") != 0, text);
}

static void take_shard(struct inspect *inspect, struct scan *scan)
{
    const char *state = "unchecked";

    inspect->result.shards += 1;
    inspect->result.shard_bytes += scan->footer.payload_bytes;
    if (inspect->verify) {
        state = scan_verify(scan) == RC_OK ? "whole" : "bad";
        inspect->result.bad_shards += strcmp(state, "bad") == 0 ? 1 : 0;
    }
    dump_shard(inspect, scan, state);
}

static void take_deletes(struct inspect *inspect, const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->deletes->count; i++) {
        const struct delete_entry *entry = &scan->deletes->entries[i];
        char id[ID_TEXT_BYTES];
        char text[LINE_BYTES];
        id_text(entry->extent, id);
        (void)snprintf(text, sizeof(text),
                       "delete at=%llu extent=%s index=%u attempt=%u segment=%016llx time_ms=%llu",
                       (unsigned long long)scan->at, id, entry->index, entry->attempt,
                       (unsigned long long)entry->segment, (unsigned long long)entry->deleted_ms);
        say(inspect, false, text);
        inspect->result.deletes += 1;
    }
}

static void scan_all(struct inspect *inspect, int file, const struct segment_identity *identity,
                     uint64_t size)
{
    struct scan scan;

    scan_open(&scan, &(struct scan_options){
                         .env = inspect->env, .file = file, .identity = *identity, .to = size});
    while (scan_next(&scan) == RC_OK) {
        if (scan.kind == SCAN_SHARD) {
            take_shard(inspect, &scan);
        } else {
            take_deletes(inspect, &scan);
        }
    }
    inspect->result.unfinished += scan.unfinished;
    inspect->result.read_errors += scan.read_errors;
    scan_close(&scan);
}

static enum rc open_and_check(struct inspect *inspect, const char *path, int *file,
                              struct segment_identity *identity, struct error *error)
{
    struct env *env = inspect->env;
    uint8_t *block = mem_alloc_pages(SEGMENT_ALIGN);
    struct segment_header header;
    char text[LINE_BYTES];
    size_t got = 0;
    enum rc rc = env->file->open(env, path, ENV_OPEN_READ, file, error);

    if (rc != RC_OK) {
        mem_free(block);
        return rc;
    }
    rc = env->file->read(env, *file, block, SEGMENT_ALIGN, 0, &got);
    if (rc == RC_OK && (got != SEGMENT_ALIGN || !segment_header_check(block, identity, &header))) {
        rc = RC_CORRUPT;
    }
    mem_free(block);
    if (rc != RC_OK) {
        env->file->close(env, *file);
        return error_set(error, rc, "%s: segment header: %s", path, rc_text(rc));
    }
    (void)snprintf(text, sizeof(text),
                   "segment generation=%016llx disk=%llu bytes=%llu created_ms=%llu epoch=%u",
                   (unsigned long long)identity->generation, (unsigned long long)header.disk,
                   (unsigned long long)header.allocated_bytes,
                   (unsigned long long)header.created_ms, header.cluster_epoch);
    say(inspect, false, text);
    return RC_OK;
}

enum rc inspect_file(struct inspect *inspect, const char *path, struct error *error)
{
    struct segment_identity identity;
    struct env_stat stat = {0};
    int file = -1;
    enum rc rc = open_and_check(inspect, path, &file, &identity, error);

    inspect->result.segments += 1;
    if (rc != RC_OK) {
        inspect->result.bad_segments += 1;
        return rc;
    }
    rc = inspect->env->file->stat(inspect->env, path, &stat);
    if (rc == RC_OK) {
        scan_all(inspect, file, &identity, stat.size_bytes);
    } else {
        (void)error_set(error, rc, "%s: %s", path, rc_text(rc));
    }
    inspect->env->file->close(inspect->env, file);
    return rc;
}

struct found {
    uint64_t *generations;
    size_t count;
    size_t capacity;
};

static void found_name(void *list, const char *name)
{
    struct found *found = list;
    uint64_t generation = segment_name_parse(name);

    if (generation == 0) {
        return;
    }
    if (found->count == found->capacity) {
        found->capacity = found->capacity * 2 + 64;
        found->generations = mem_realloc(found->generations, found->capacity * sizeof(uint64_t));
    }
    found->generations[found->count] = generation;
    found->count += 1;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;

    return (*left > *right) - (*left < *right);
}

enum rc inspect_directory(struct inspect *inspect, const char *path, struct error *error)
{
    struct env *env = inspect->env;
    struct found found = {0};
    struct env_stat stat;
    char directory[SEGMENT_PATH_BYTES];
    bool whole = (size_t)snprintf(directory, sizeof(directory), "%s/data/segments", path) <
                 sizeof(directory);
    enum rc rc = whole ? RC_OK : error_set(error, RC_INVALID, "path is too long");

    if (rc == RC_OK && env->file->stat(env, directory, &stat) != RC_OK) {
        (void)snprintf(directory, sizeof(directory), "%s", path);
    }
    rc = rc == RC_OK ? env->file->list(env, directory, found_name, &found) : rc;
    if (rc != RC_OK) {
        mem_free(found.generations);
        return error_set(error, rc, "%s: %s", path, rc_text(rc));
    }
    if (found.count > 1) {
        qsort(found.generations, found.count, sizeof(uint64_t), compare);
    }
    for (size_t i = 0; i < found.count; i++) {
        char file[SEGMENT_PATH_BYTES + 32];
        struct error one = {0};
        (void)snprintf(file, sizeof(file), "%s/%016llx.seg", directory,
                       (unsigned long long)found.generations[i]);
        if (inspect_file(inspect, file, &one) != RC_OK) {
            say(inspect, true, one.text);
        }
    }
    mem_free(found.generations);
    if (inspect->result.bad_segments + inspect->result.bad_shards + inspect->result.read_errors >
        0) {
        return error_set(error, RC_CORRUPT, "%llu segments, %llu shards bad; %llu read errors",
                         (unsigned long long)inspect->result.bad_segments,
                         (unsigned long long)inspect->result.bad_shards,
                         (unsigned long long)inspect->result.read_errors);
    }
    return RC_OK;
}
