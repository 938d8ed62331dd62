/* What machine.c, machine_files.c and machine_copy.c share. */
#ifndef METAD_APPLY_MACHINE_PRIVATE_H
#define METAD_APPLY_MACHINE_PRIVATE_H

#include <stdatomic.h>

#include "common/base/arena.h"
#include "metad/apply/machine.h"
#include "metad/apply/machine_files.h"

enum { MACHINE_PATH_MAX = 1024 };

struct machine_install;

struct machine {
    struct state_machine base;
    struct machine_options options;
    char path[MACHINE_PATH_MAX];
    struct store *_Atomic store;
    /* Stores that an installed one has replaced; a slow reader may still hold them. */
    struct store **old_stores;
    size_t old_count;
    uint64_t number; /* of the current store's directory */
    struct kv_batch *batch;
    struct arena arena;
    struct machine_install *install;
    _Atomic uint64_t applied;
    _Atomic uint64_t last_stamp;
    _Atomic uint64_t root_index;
    _Atomic uint64_t change_stamp;  /* of the last row of the feed written since the start */
    _Atomic uint64_t durable_stamp; /* a restart goes on from a state at least this new */
    uint64_t flushed;
};

/* Reads applied index, last stamp and buckets from the store that was opened or installed. */
enum rc machine_load(struct machine *machine, struct store *store, struct error *error);
enum rc machine_open_store(struct machine *machine, uint64_t number, bool must_exist,
                           struct store **out, struct error *error);

/* ---- Files: a mark (PATH/CURRENT, PATH/STAGED) names a store's number, PATH/<number>/ is its
 * directory ---- */

#define MARK_CURRENT "CURRENT" /* the state */
#define MARK_STAGED  "STAGED"  /* a whole copy that waits for its swap */

void machine_store_path(const struct machine *machine, uint64_t number, char out[MACHINE_PATH_MAX]);
/* RC_NOT_FOUND: there is no such mark. */
enum rc machine_mark_read(struct machine *machine, const char *name, uint64_t *number,
                          struct error *error);
/* Durable when it returns. */
enum rc machine_mark_write(struct machine *machine, const char *name, uint64_t number,
                           struct error *error);
void machine_mark_remove(struct machine *machine, const char *name);
/* Removes numbered directories other than these two. */
void machine_remove_others(struct machine *machine, uint64_t keep, uint64_t keep_too);

/* ---- Keys of the `local` family ---- */

struct slice machine_applied_key(void);

/* The state_machine's functions for copies (machine_copy.c). */
enum rc machine_export_open(struct state_machine *base, void **out, uint64_t *index,
                            struct error *error);
enum rc machine_export_next(struct state_machine *base, void *handle, struct buffer *chunk,
                            bool *end, struct error *error);
void machine_export_close(struct state_machine *base, void *handle);
enum rc machine_install_begin(struct state_machine *base, struct error *error);
enum rc machine_install_chunk(struct state_machine *base, struct slice chunk, struct error *error);
enum rc machine_install_finish(struct state_machine *base, uint64_t index, struct error *error);
void machine_install_drop(struct machine *machine);

#endif
