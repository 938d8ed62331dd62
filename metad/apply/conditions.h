/*
 * Conditional requests (RFC 9110 13; AWS: "Conditional requests"), decided against the current
 * record in apply: whoever comes second sees what the first has written.
 */
#ifndef METAD_APPLY_CONDITIONS_H
#define METAD_APPLY_CONDITIONS_H

#include "metad/apply/apply.h"

/* Of a write or a delete. `current` NULL: absent. OUTCOME_OK, PRECONDITION_FAILED; NO_SUCH_KEY when
 * a match was asked and there is nothing to match. */
Kist__Outcome conditions_write(const Kist__Conditions *conditions, const Kist__Record *current);
/* Of the source of a copy, which exists. OUTCOME_OK, PRECONDITION_FAILED, NOT_MODIFIED. */
Kist__Outcome conditions_read(const Kist__Conditions *conditions, const Kist__Record *source);
/* Is `text` (no quotes; "*" matches all) the ETag of the record? */
bool conditions_etag_is(const Kist__Record *record, struct slice text);

#endif
