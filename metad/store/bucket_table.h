/*
 * Which buckets a range knows, and at which generation: the answer to "was this request judged
 * rightly?" for every read and every command, in memory, without a lock.
 *
 * One writer (the apply queue), any number of readers on any thread. An entry is published after
 * the row that it mirrors was written, and before the applied index that covers it.
 */
#ifndef METAD_STORE_BUCKET_TABLE_H
#define METAD_STORE_BUCKET_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct bucket_table;

struct bucket_table *bucket_table_new(void);
void bucket_table_free(struct bucket_table *table);
/* Writer. Generation 0: the bucket is gone. Ids are never reused. `versioned`: versioning is or was
 * on, which no bucket can undo. */
void bucket_table_set(struct bucket_table *table, uint64_t bucket_id, uint64_t generation,
                      bool versioned);
/* Any thread: 0 when the bucket is not known. */
uint64_t bucket_table_get(const struct bucket_table *table, uint64_t bucket_id);
/* Any thread: may the bucket have older versions? */
bool bucket_table_versioned(const struct bucket_table *table, uint64_t bucket_id);

#endif
