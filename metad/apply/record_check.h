/* What may stand in a record, whoever proposed it. */
#ifndef METAD_APPLY_RECORD_CHECK_H
#define METAD_APPLY_RECORD_CHECK_H

#include "metad/apply/apply.h"

/* Headers, metadata, tags, ETag, checksums within their bounds; else INVALID_ARGUMENT. */
bool record_check(struct apply *apply, const Kist__Record *record);

#endif
