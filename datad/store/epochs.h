/*
 * The highest epoch of each placement group that this disk has seen: the fence of DESIGN 5.2. Kept
 * in the file `epochs`, which is replaced whole (new file, sync, rename, sync of the directory)
 * when one rises; that is rare. Belongs to one thread at a time.
 */
#ifndef DATAD_STORE_EPOCHS_H
#define DATAD_STORE_EPOCHS_H

#include <stdbool.h>

#include "common/env/env.h"

enum { EPOCHS_MAX = 65536 };

struct epoch {
    uint64_t group;
    uint64_t epoch;
};

struct epochs {
    struct env *env;
    const char *directory; /* borrowed */
    struct epoch *rows;    /* in order of group */
    uint32_t count;
    uint32_t capacity;
    bool changed; /* since the last save */
};

/* No file: none seen yet. RC_CORRUPT: the fence is lost, the disk must not take writes by old
 * rules. */
enum rc epochs_load(struct epochs *epochs, struct env *env, const char *directory,
                    struct error *error);
void epochs_deinit(struct epochs *epochs);

uint64_t epochs_get(const struct epochs *epochs, uint64_t group); /* 0: never seen */
/* Raises in memory; false when the table is full. */
bool epochs_raise(struct epochs *epochs, uint64_t group, uint64_t epoch);
/* Makes what was raised durable; does nothing when nothing was. */
enum rc epochs_save(struct epochs *epochs, struct error *error);

#endif
