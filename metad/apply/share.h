/*
 * The bytes of one version for another one, without a datad: a layout gains a reference at its
 * home, an inline body is small enough to be written again. What is shared already is referenced at
 * that home: chains do not grow.
 */
#ifndef METAD_APPLY_SHARE_H
#define METAD_APPLY_SHARE_H

#include "metad/apply/version.h"

/* `record` is a copy of `source`, about to be put under `to`; `copy_id` is the reference it will
 * hold. False after a refusal. */
bool share_bytes(const struct version_key *from, const Kist__Record *source,
                 const struct version_key *to, Kist__Record *record, ProtobufCBinaryData copy_id);

#endif
