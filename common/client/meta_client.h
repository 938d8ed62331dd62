/*
 * metad, as a gateway or a datad sees it: typed calls, whatever carries them. In `kist serve` a
 * call runs against the replica in the same process (metad/service/meta_local.c); between processes
 * it is an RPC.
 *
 * One client per loop; all calls on that loop. Every call follows the convention of task.h:
 * STEP_NEXT means that the answer is in the call already, STEP_WAIT that task_resume() follows on
 * this loop, STEP_FAIL that task->error is set. Requests and what they point to are borrowed until
 * then. Answers lie in `arena`, or as said.
 *
 * Reads are linearizable: they see everything that was answered before they began. Bucket ids are
 * checked by the range: one it does not know gives RC_STALE (judge the request again after
 * meta_refresh()).
 */
#ifndef COMMON_CLIENT_META_CLIENT_H
#define COMMON_CLIENT_META_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "common/client/view.h"
#include "common/task/task.h"
#include "proto/command.pb-c.h"
#include "proto/record.pb-c.h"

struct meta_client;

/* The current version of a key. Absent: STEP_NEXT / resume RC_OK with `record` NULL. */
struct meta_get {
    uint64_t bucket_id;
    uint64_t generation;
    struct slice key;
    struct slice version; /* empty: the current one; "null"; or 12 bytes (version_id.h) */
    bool want_body;       /* also the inline body, when it is inline */
    struct arena *arena;
    /* Out. */
    Kist__Record *record; /* never a delete marker */
    Kist__Record *marker; /* no record, because this is the newest version, or the named one */
    bool is_current;      /* the record is the newest version of its key */
    struct slice body;    /* borrowed from the store until meta_release() */
    /* Private. */
    uint64_t reserved[16];
};

struct meta_entry {
    struct slice name;          /* a key, or a common prefix with its delimiter */
    const Kist__Record *record; /* NULL: a common prefix */
};

/* A page of keys, in byte order, at one point in time. */
struct meta_list {
    uint64_t bucket_id;
    uint64_t generation;
    struct slice prefix;
    struct slice delimiter; /* empty: none */
    struct slice after;     /* keys greater than this; empty: from the beginning */
    bool after_prefix;      /* `after` is a common prefix: skip all that start with it */
    uint32_t limit;         /* keys and prefixes together, 1 .. LIMIT_LIST_KEYS */
    bool whole;             /* records with headers, metadata and tags: else without */
    struct arena *arena;
    /* Out. */
    struct meta_entry *entries;
    uint32_t entry_count;
    bool truncated; /* at least one more follows the last entry */
    /* Private. */
    uint64_t reserved[16];
};

struct meta_version_entry {
    struct slice name;          /* a key, or a common prefix with its delimiter */
    const Kist__Record *record; /* NULL: a common prefix. May be a delete marker */
    bool is_latest;
};

/* A page of versions: keys in byte order, of each the newest version first. */
struct meta_list_versions {
    uint64_t bucket_id;
    uint64_t generation;
    struct slice prefix;
    struct slice delimiter;     /* empty: none */
    struct slice after;         /* keys greater than this; empty: from the beginning */
    struct slice after_version; /* with it: versions of `after` older than this one come too: "null"
                                   or 12 bytes */
    bool after_prefix;          /* `after` is a common prefix: skip all that start with it */
    uint32_t limit;             /* versions and prefixes together, 1 .. LIMIT_LIST_KEYS */
    bool whole;                 /* records with headers, metadata and tags: else without */
    struct arena *arena;
    /* Out. */
    struct meta_version_entry *entries;
    uint32_t entry_count;
    bool truncated;
    /* Private. */
    uint64_t reserved[16];
};

/* A page of the change feed of a bucket, in the order of apply. */
struct meta_change {
    uint64_t stamp; /* of the command: with `number`, the cursor */
    uint32_t number;
    const Kist__Change *change;
};

struct meta_changes {
    uint64_t bucket_id;   /* 0: of all buckets */
    uint64_t after_stamp; /* changes behind this one; 0, 0: the oldest kept */
    uint32_t after_number;
    struct slice prefix; /* of the key */
    struct slice sink;   /* not empty: only what this sink is to be told ("NAME:webhook") */
    bool from_oldest;    /* what was dropped behind `after` is not missed */
    bool latest;         /* nothing but the cursor behind the newest change */
    bool resume;         /* go on where the sink's cursor stands, whatever `after` says */
    uint32_t limit;      /* 1 .. LIMIT_LIST_KEYS */
    struct arena *arena;
    /* Out. */
    struct meta_change *changes;
    uint32_t change_count;
    bool more;           /* others follow now */
    bool lost;           /* some behind the cursor were dropped already: read the bucket anew */
    uint64_t next_stamp; /* cursor for the next call, also when nothing was found */
    uint32_t next_number;
    uint64_t sink_lost;  /* events of the sink that were dropped before it was told */
    uint64_t feed_bytes; /* of the whole feed */
    uint64_t feed_count;
    /* Private. */
    uint64_t reserved[16];
};

/* Pieces of a layout from the one that holds byte `offset` on. Asked when a record has more pieces
 * than it carries, or when a datad said `no such extent` to a copy's cached ones. */
struct meta_pieces {
    uint64_t bucket_id; /* home */
    struct slice key;   /* home */
    struct slice layout_id;
    uint64_t offset;
    uint32_t limit; /* pieces */
    struct arena *arena;
    /* Out; none when the offset is past the end. RC_NOT_FOUND when there is no such layout. */
    Kist__Piece **pieces;
    size_t piece_count;
    uint64_t first_offset; /* of the first byte of pieces[0] within the object */
    /* Private. */
    uint64_t reserved[16];
};

/* Which bytes part `number` of a finished multipart object covers. */
struct meta_part_range {
    uint64_t bucket_id; /* home */
    struct slice key;
    struct slice layout_id;
    uint32_t number; /* 1 .. part_count: counted by position, as AWS does */
    struct arena *arena;
    /* Out; RC_NOT_FOUND when there is no such part. */
    uint64_t offset;
    uint64_t size;
    Kist__PartSummary *part;
    /* Private. */
    uint64_t reserved[16];
};

/* An upload and a page of its parts. RC_NOT_FOUND: no such upload. */
struct meta_list_parts {
    uint64_t bucket_id;
    uint64_t generation;
    struct slice key;
    struct slice upload_id;
    uint32_t after; /* part numbers greater than this */
    uint32_t limit; /* 0 .. LIMIT_PARTS; 0: only the upload row is asked */
    struct arena *arena;
    /* Out. */
    Kist__Upload *upload;
    Kist__Part **parts; /* pieces included */
    size_t part_count;
    bool truncated;
    /* Private. */
    uint64_t reserved[16];
};

struct meta_upload_entry {
    struct slice name;
    const Kist__Upload *upload; /* NULL: a common prefix */
};

/* Open uploads in order of key, then of initiation. */
struct meta_list_uploads {
    uint64_t bucket_id;
    uint64_t generation;
    struct slice prefix;
    struct slice delimiter;
    struct slice after_key;
    struct slice after_upload; /* with it: uploads of after_key that follow this one come too */
    bool after_prefix;
    uint32_t limit;
    struct arena *arena;
    /* Out. */
    struct meta_upload_entry *entries;
    uint32_t entry_count;
    bool truncated;
    /* Private. */
    uint64_t reserved[16];
};

/* Every row that owns extents (current, layout, part, home), in key order, for repair and audit:
 * each extent comes under the (bucket, key, layout) that a SET_DURABLE must name. */
struct meta_scan_item {
    uint64_t bucket_id;
    struct slice key;
    struct slice layout_id;
    const Kist__Piece *piece; /* own extents only */
};

struct meta_scan {
    struct slice cursor; /* empty: from the beginning; else next_cursor of the call before */
    uint32_t limit;      /* items, about */
    struct arena *arena;
    /* Out. */
    struct meta_scan_item *items;
    uint32_t item_count;
    struct slice next_cursor; /* empty: the end was reached */
    /* Private. */
    uint64_t reserved[16];
};

/* Rows of the repair queue, oldest first. */
struct meta_repairs {
    uint32_t limit;
    struct slice after; /* queue key; empty: from the beginning */
    struct arena *arena;
    /* Out. */
    Kist__Repair **repairs;
    struct slice *queue_keys; /* for SET_DURABLE.queue_key */
    uint32_t repair_count;
    /* Private. */
    uint64_t reserved[16];
};

/* Jobs in order of id: running ones, and those that ended within a week. */
struct meta_jobs {
    uint64_t after; /* ids greater than this */
    uint32_t limit; /* 1 .. LIMIT_LIST_KEYS */
    struct arena *arena;
    /* Out. */
    Kist__Job **jobs;
    uint32_t job_count;
    /* Private. */
    uint64_t reserved[16];
};

enum meta_command {
#define COMMAND(number, name, message) META_##name = (number),
#include "common/client/command.def"
#undef COMMAND
};

/* One raft entry. RC_OK: it was applied, `reply` says with which outcome. RC_AMBIGUOUS: it may have
 * been. RC_NO_QUORUM, RC_NOT_LEADER, RC_BUSY, RC_FULL: it was not and will not be. */
struct meta_write {
    enum meta_command command;
    const ProtobufCMessage *message; /* the command.proto message of that row */
    struct slice body;               /* bytes of an inline object; borrowed */
    uint64_t deadline_ms;            /* from now; 0: 30,000 */
    struct arena *arena;
    /* Out. */
    Kist__Reply *reply;
    /* Private. */
    struct task *task;
    uint64_t reserved[40];
};

/* A view begun after this call: RC_OK, then meta_view() is at least that new. */
struct meta_refresh {
    /* Private. */
    struct task *task;
    uint64_t reserved[16];
};

struct meta_client {
    enum step_result (*get)(struct meta_client *meta, struct meta_get *call, struct task *task);
    void (*release)(struct meta_client *meta,
                    struct meta_get *call); /* once per get that succeeded */
    enum step_result (*list)(struct meta_client *meta, struct meta_list *call, struct task *task);
    enum step_result (*list_versions)(struct meta_client *meta, struct meta_list_versions *call,
                                      struct task *task);
    enum step_result (*changes)(struct meta_client *meta, struct meta_changes *call,
                                struct task *task);
    enum step_result (*pieces)(struct meta_client *meta, struct meta_pieces *call,
                               struct task *task);
    enum step_result (*part_range)(struct meta_client *meta, struct meta_part_range *call,
                                   struct task *task);
    enum step_result (*list_parts)(struct meta_client *meta, struct meta_list_parts *call,
                                   struct task *task);
    enum step_result (*list_uploads)(struct meta_client *meta, struct meta_list_uploads *call,
                                     struct task *task);
    enum step_result (*scan)(struct meta_client *meta, struct meta_scan *call, struct task *task);
    enum step_result (*repairs)(struct meta_client *meta, struct meta_repairs *call,
                                struct task *task);
    enum step_result (*jobs)(struct meta_client *meta, struct meta_jobs *call, struct task *task);
    enum step_result (*write)(struct meta_client *meta, struct meta_write *call, struct task *task);
    enum step_result (*refresh)(struct meta_client *meta, struct meta_refresh *call,
                                struct task *task);
    /* Borrowed until control returns to the loop; take view_ref() to keep it. Never NULL once open.
     */
    struct view *(*view)(struct meta_client *meta);
    /* Moves with every change that comes into the feed: whoever waits for one looks here, without
     * cost, before it asks. */
    uint64_t (*change_stamp)(struct meta_client *meta);
    /* May writes be answered: a leader with a quorum is known. For /health/ready. */
    bool (*ready)(struct meta_client *meta);
};

#endif
