/* From a command's number to its message and its function. */
#ifndef METAD_APPLY_COMMAND_TABLE_H
#define METAD_APPLY_COMMAND_TABLE_H

#include "metad/apply/apply.h"

struct command {
    uint16_t number;
    const char *name;
    const ProtobufCMessageDescriptor *type;
    void (*apply)(struct apply *apply, const ProtobufCMessage *message);
};

/* NULL: this release does not know it. */
const struct command *command_find(uint16_t number);

/* Where the answer to a repeat is kept: the key that routes the command. False: the command is
 * idempotent by itself and keeps no answer. */
bool command_request_row(const struct command *command, const ProtobufCMessage *message,
                         struct slice request_id, struct row_key *out);

#endif
