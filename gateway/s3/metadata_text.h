/*
 * User metadata on the wire (RFC 2047): encoded words of a request are decoded before they are
 * stored; values with bytes that a header may not carry are encoded in the reply. What is stored is
 * the text itself.
 */
#ifndef GATEWAY_S3_METADATA_TEXT_H
#define GATEWAY_S3_METADATA_TEXT_H

#include "common/base/arena.h"
#include "common/base/slice.h"

/* `value` itself when it is not made of encoded words throughout. */
struct slice metadata_text_decode(struct arena *arena, struct slice value);
/* `value` itself when it is printable ASCII. */
struct slice metadata_text_encode(struct arena *arena, struct slice value);

#endif
