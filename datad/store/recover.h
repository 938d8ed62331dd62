/* What happens at the open of a disk: index opened or begun anew, segments replayed into it.
 * Blocking. */
#ifndef DATAD_STORE_RECOVER_H
#define DATAD_STORE_RECOVER_H

#include "datad/store/store.h"

/* Opens the index; one that is damaged, of another disk or marked is thrown away and begun anew. */
enum rc recover_index(struct store *store, struct error *error);
/* Opens all segments and replays what the index does not cover. */
enum rc recover_segments(struct store *store, struct error *error);
/* The index failed while running: the disk is isolated, and when it was damaged (RC_CORRUPT) the
 * next start makes it again. Queue thread. */
void recover_index_failed(struct store *store, enum rc rc, const char *why);

#endif
