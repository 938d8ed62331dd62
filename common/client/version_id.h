/*
 * Names of object versions. In keys and commands: 12 bytes (stamp be64, tie be32), or "null" for a
 * version written while its bucket was not versioned. In S3: 16 characters of a URL-safe alphabet
 * in byte order, over the inverted bytes, so that the newest version sorts first; or "null".
 */
#ifndef COMMON_CLIENT_VERSION_ID_H
#define COMMON_CLIENT_VERSION_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"
#include "proto/record.pb-c.h"

enum { VERSION_ID_BYTES = 12, VERSION_ID_TEXT_BYTES = 16 };

/* As a command or a meta call names it. */
void version_id_pack(uint8_t out[VERSION_ID_BYTES], uint64_t stamp, uint32_t tie);
/* False unless it is 12 bytes. */
bool version_id_unpack(struct slice packed, uint64_t *stamp, uint32_t *tie);
bool version_id_is_null(struct slice packed);
/* From a request: "null" or 12 bytes, in the arena. False: not a text of ours (InvalidArgument). */
bool version_id_parse(struct arena *arena, struct slice text, struct slice *packed);
/* What S3 clients see of this record: "null" or 16 characters, in the arena. */
struct slice version_id_text(struct arena *arena, const Kist__Record *record);
struct slice version_id_text_of(struct arena *arena, uint64_t stamp, uint32_t tie,
                                bool null_version);

#endif
