/* Is what a row of the index names whole on the disk? Reads all of it; blocking, any thread. */
#ifndef DATAD_STORE_VERIFY_H
#define DATAD_STORE_VERIFY_H

#include "datad/store/store.h"

/* RC_OK: every block fits its checksum. RC_NOT_FOUND: the segment is gone. RC_CORRUPT, RC_IO. */
enum rc verify_row(struct store *store, const struct shard_id *shard, const struct index_row *row);

#endif
