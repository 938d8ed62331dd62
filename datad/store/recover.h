/* What happens at the open of a disk: index opened or begun anew, segments replayed into it.
 * Blocking. */
#ifndef DATAD_STORE_RECOVER_H
#define DATAD_STORE_RECOVER_H

#include "datad/store/store.h"

/* Opens the index; one that is damaged, of another disk or marked is thrown away and begun anew. */
enum rc recover_index(struct store *store, struct error *error);
/* Opens all segments and replays what the index does not cover. */
enum rc recover_segments(struct store *store, struct error *error);
/* The index is found damaged while running: the next start makes it again. Any thread. */
void recover_mark_index(struct store *store);

#endif
