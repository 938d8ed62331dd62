/*
 * Reads a segment from one end to the other and yields what is whole in it: sealed shards and
 * delete records, in order of their end. Used by recovery, compaction, verification and the offline
 * inspector.
 *
 *     header? --footer where the reserved length puts it?--> a shard: go on behind it
 *        |         no: unfinished, or closed early
 *        v
 *     next 4 KiB: header? delete record? end of a footer that names a header further up? -> ...
 *
 * So whatever an unfinished or damaged neighbour looks like, everything whole behind it is found.
 * Nothing that a client stored can pass for a structure: each names uuid, generation and its own
 * place.
 *
 * Blocking; one thread at a time. Bounded memory: one window and one shard's checksums.
 */
#ifndef DATAD_STORE_SCAN_H
#define DATAD_STORE_SCAN_H

#include "common/env/env.h"
#include "datad/store/segment_format.h"

enum scan_kind { SCAN_SHARD = 1, SCAN_DELETES };

enum { SCAN_RUNS_MAX = 64 };

struct scan {
    /* The record that scan_next() found. */
    enum scan_kind kind;
    uint64_t at;                         /* of its header block */
    uint64_t end;                        /* first byte behind it */
    struct shard_header *header;         /* SHARD: with its key; SEGMENT_ALIGN bytes */
    struct shard_footer footer;          /* SHARD */
    const uint32_t *crcs;                /* SHARD: footer.block_count of them */
    const struct delete_record *deletes; /* DELETES */
    uint64_t unfinished;                 /* so far: headers without a footer */
    uint64_t read_errors;                /* so far: blocks that could not be read, passed over */
    /* The end of the last structure seen, whole or not: nothing of interest lies behind it. */
    uint64_t tail;
    /* Private. */
    struct env *env;
    int file;
    struct segment_identity identity;
    uint64_t next;
    uint64_t limit;
    /* Runs that were ever written, asked before the first read: what a read brings into the page
     * cache looks written afterwards. The last one reaches to the limit when there are too many. */
    struct scan_run {
        uint64_t from;
        uint64_t to;
    } runs[SCAN_RUNS_MAX];
    uint32_t run_count;
    uint32_t run_at;
    uint8_t *window;
    uint64_t window_at;
    size_t window_len;
    uint8_t *block; /* the header's copy */
    uint8_t *footer_bytes;
    bool direct;
};

struct scan_options {
    struct env *env;
    int file; /* borrowed */
    struct segment_identity identity;
    uint64_t from; /* a multiple of SEGMENT_ALIGN; 0: from the first block on */
    uint64_t to;   /* allocated length of the file */
    bool direct;   /* the file was opened with ENV_OPEN_DIRECT: nothing is read unaligned */
};

void scan_open(struct scan *scan, const struct scan_options *options);
/* RC_OK: a record; RC_NOT_FOUND: the end. Unreadable ranges are skipped like damaged ones
 * (*unreadable of the scan's owner is not needed: shards in them are simply not found) unless
 * nothing can be read: RC_IO. */
enum rc scan_next(struct scan *scan);
void scan_close(struct scan *scan);

static inline struct shard_id scan_shard_id(const struct scan *scan)
{
    struct shard_id id = {.index = scan->footer.index};

    memcpy(id.extent.bytes, scan->footer.extent, EXTENT_ID_BYTES);
    return id;
}

/* Reads the payload of the shard at hand and checks every block. RC_CORRUPT: at least one failed.
 */
enum rc scan_verify(struct scan *scan);

#endif
