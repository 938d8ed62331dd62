/*
 * An entry of the replicated log as metad proposes it (FORMAT.md in this folder):
 *
 *     header (fixed, little endian) | protobuf-c message | raw body of an inline object
 *
 * The CRC covers all of it. What the header says about time is only a proposal: the stamp is made
 * in apply.
 */
#ifndef METAD_APPLY_ENTRY_H
#define METAD_APPLY_ENTRY_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"
#include "metad/store/keyspace.h"

enum {
    ENTRY_MAGIC = 0x6e74736b, /* "kstn" */
    ENTRY_VERSION = 1,
    ENTRY_HEADER_BYTES = 56
};

struct entry {
    uint16_t command;                     /* enum meta_command */
    uint64_t proposed_ns;                 /* the leader's clock */
    uint64_t deadline_ns;                 /* wall clock; apply refuses later stamps. 0: none */
    uint8_t request_id[REQUEST_ID_BYTES]; /* zero: never repeated */
    struct slice message;
    struct slice body;
};

/* Writes the header for `entry` (its message and body follow it on the wire, in this order). */
void entry_encode(const struct entry *entry, char out[ENTRY_HEADER_BYTES]);
/* RC_CORRUPT: not an entry, or damaged. RC_UNSUPPORTED: of a later version. Slices borrow `from`.
 */
enum rc entry_decode(struct slice from, struct entry *out, struct error *error);

#endif
