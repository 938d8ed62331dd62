/* Rows of root that several commands read. */
#ifndef METAD_APPLY_ROOT_ROWS_H
#define METAD_APPLY_ROOT_ROWS_H

#include "metad/apply/apply.h"

Kist__Bucket *root_bucket(struct apply *apply, struct slice name);
/* Writes root's row and the range's, and publishes the generation. */
void root_put_bucket(struct apply *apply, const Kist__Bucket *bucket);
/* Settings of a bucket that is being made: completes them (object lock turns versioning on) and
 * checks them. False after a refusal. */
bool settings_begin(struct apply *apply, Kist__Settings *settings);
Kist__User *root_user(struct apply *apply, struct slice name);
/* Counts on and returns the first of `count` numbers that were never given out. */
uint64_t root_mint(struct apply *apply, struct slice name, uint64_t count);

#endif
