/* Upload rows, shared by the commands of multipart uploads. */
#ifndef METAD_APPLY_UPLOAD_H
#define METAD_APPLY_UPLOAD_H

#include "metad/apply/apply.h"

/* NULL when there is no such upload. */
Kist__Upload *upload_load(struct apply *apply, uint64_t bucket_id, struct slice key,
                          struct slice upload_id);
void upload_delete(struct apply *apply, uint64_t bucket_id, struct slice key,
                   struct slice upload_id);

/* Parts and upload row go; returns the number of parts. */
uint32_t upload_abort(struct apply *apply, uint64_t bucket_id, struct slice key,
                      struct slice upload_id);

#endif
