/*
 * What metad should do, in the simplest form: buckets, objects, uploads and layouts as plain
 * structs. The model decides the outcome of a command and changes itself, in the order of the log;
 * the world proposes the same command to real replicas and compares.
 */
#ifndef TESTS_SIM_METAD_MODEL_H
#define TESTS_SIM_METAD_MODEL_H

#include "common/base/arena.h"
#include "common/base/buffer.h"
#include "common/client/meta_client.h"
#include "metad/store/keyspace.h"
#include "tests/sim/world.h"

enum {
    MODEL_BUCKETS = 3,
    MODEL_KEYS = 14,
    MODEL_PARTS = 5,
    MODEL_UPLOADS = 12,
    MODEL_PIECES_MAX = 150,
    MODEL_DELETES_MAX = 4
};

enum model_layout_state { LAYOUT_LIVE, LAYOUT_DEAD, LAYOUT_CONDEMNED, LAYOUT_GONE };

enum model_versioning { VERSIONING_OFF, VERSIONING_ON, VERSIONING_SUSPENDED };

struct model_layout;

struct model_piece {
    uint8_t extent[ID_BYTES];
    uint64_t extent_length;
    uint64_t offset;
    uint64_t length;
    uint32_t durable;
    struct model_layout *owner; /* NULL: an own extent */
    uint8_t reference[ID_BYTES];
};

struct model_layout {
    uint8_t id[ID_BYTES];
    uint64_t bucket_id; /* home */
    unsigned key;
    struct model_piece *pieces;
    size_t piece_count;
    uint32_t references;
    bool home; /* somebody else held a reference once: its home row stays */
    enum model_layout_state state;
};

/* One version of a key: an object or a delete marker. */
struct model_version {
    uint64_t stamp;
    uint32_t tie;
    bool null_version;
    bool marker;
    uint64_t since; /* it is not the newest any more */
    uint64_t size;
    uint8_t etag[16];
    uint32_t part_count;
    uint64_t mark; /* its metadata */
    uint64_t tag;  /* 0: none */
    uint32_t lock_mode;
    uint64_t lock_until;
    bool legal_hold;
    struct buffer body;
    struct model_layout *layout;
    bool shared;
    uint8_t copy_id[ID_BYTES];
};

struct model_key {
    struct model_version **versions; /* the newest first */
    size_t count;
};

struct model_part {
    bool exists;
    uint64_t size;
    uint8_t etag[16];
    struct model_layout *layout;
};

struct model_upload {
    bool exists;
    uint8_t id[ID_BYTES];
    unsigned bucket;
    unsigned key;
    uint64_t stamp;
    uint64_t mark;
    uint64_t aborted_in;                  /* id of the bucket where it was aborted; 0: it was not */
    struct model_part parts[MODEL_PARTS]; /* number - 1 */
};

struct model_bucket {
    uint64_t id; /* 0: does not exist */
    uint64_t old_id;
    uint64_t generation;
    enum model_versioning versioning;
    bool locks; /* object lock */
    struct model_key keys[MODEL_KEYS];
};

struct model {
    struct sim *sim;
    uint64_t last_stamp;
    uint64_t clock_ns; /* the leader's */
    uint64_t next_bucket_id;
    uint64_t next_number; /* of ids */
    struct model_bucket buckets[MODEL_BUCKETS];
    struct model_upload uploads[MODEL_UPLOADS];
    struct model_layout **layouts;
    size_t layout_count;
};

/* What DELETE_OBJECTS answers for one item. */
struct model_deleted {
    Kist__Outcome outcome;
    bool marker;
    uint64_t stamp;
    uint32_t tie;
    bool null_version;
};

/* A command made and judged. */
struct model_command {
    enum meta_command command;
    ProtobufCMessage *message; /* in the arena */
    struct slice body;
    Kist__Outcome expected;
    bool any_outcome; /* only that replicas agree is checked */
    uint64_t stamp;   /* that it must get */
    uint64_t proposed_ns;
    uint64_t deadline_ns;
    bool repeats; /* its answer is kept under the request id when it is OK */
    struct model_deleted deleted[MODEL_DELETES_MAX];
    unsigned deleted_count;
};

extern const struct slice model_keys[MODEL_KEYS];

void model_init(struct model *model, struct sim *sim);
struct slice model_bucket_name(unsigned bucket);
void model_new_id(struct model *model, uint8_t out[ID_BYTES]);
/* Advances the leader's clock and says which stamp the next command gets. */
void model_tick(struct model *model, struct model_command *command);

/* ---- Layouts ---- */

struct model_layout *model_layout_new(struct model *model, uint64_t bucket_id, unsigned key);
void model_layout_free(struct model_layout *layout);
void model_layout_keep(struct model *model, struct model_layout *layout);
/* For somebody beside the owner. */
void model_layout_ref(struct model_layout *layout);
void model_layout_unref(struct model_layout *layout);
uint64_t model_layout_size(const struct model_layout *layout);

/* ---- Versions ---- */

struct model_version *model_version_new(void);
void model_version_free(struct model_version *version); /* drops its reference to a layout */
/* The newest version, unless it is a marker. NULL: a reader sees nothing. */
struct model_version *model_current(const struct model_key *key);
struct model_version *model_null(const struct model_key *key);
/* What a new version of the key would drop; NULL: nothing. */
struct model_version *model_replaced(const struct model_bucket *bucket,
                                     const struct model_key *key);
/* Makes `version` the newest. Sets stamp, tie, null_version. */
void model_put(const struct model_bucket *bucket, struct model_key *key,
               struct model_version *version, uint64_t stamp);
void model_remove(struct model_key *key, struct model_version *version);
/* A delete that names no version. */
void model_delete(const struct model_bucket *bucket, struct model_key *key, uint64_t stamp,
                  struct model_deleted *deleted);
bool model_locked(const struct model_version *version, uint64_t now, bool bypass);

/* ---- Commands: metad_commands.c. Each makes a message in the arena and applies it to the model.
 * ---- */

void command_random(struct model *model, struct arena *arena, struct model_command *out);
void command_first_user(struct model *model, struct arena *arena, struct model_command *out);
/* The reclaim row at hand: condemn it, or forget it. */
void command_condemn(struct model *model, struct arena *arena, struct model_layout *layout,
                     Kist__Piece **pieces, size_t count, struct model_command *out);
void command_reclaimed(struct model *model, struct arena *arena, struct model_layout *layout,
                       struct slice queue_key, struct model_command *out);

/* ---- Checks of a real state against the model: metad_check.c ---- */

struct kv;
void check_state(struct model *model, struct kv *kv);
/* Of all replicated rows. */
uint64_t check_hash(struct kv *kv);
/* The n-th row of the reclaim queue, in the arena; NULL when there are fewer. */
Kist__Reclaim *check_reclaim_row(struct kv *kv, struct arena *arena, uint64_t n, struct slice *key);
struct model_layout *model_layout_find(struct model *model, struct slice id);

/* ---- What readers get, against the model: metad_reads.c ---- */

struct store;
/* Versions by name, and whole listings page by page, of one bucket. */
void check_reads(struct model *model, struct store *store);

#endif
