/* Configurations as bytes: entries of the log, part of snapshots, part of messages (FORMAT.md). */
#include <assert.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "metad/raft/consensus.h"

enum {
    CONFIGURATION_VERSION = 1,
    CONFIGURATION_HEADER_BYTES = 4,
    CONFIGURATION_MEMBER_BYTES = 9,
    MEMBER_LEARNER = 0,
    MEMBER_VOTER = 1
};

static_assert(CONFIGURATION_HEADER_BYTES + CONSENSUS_MEMBERS_MAX * CONFIGURATION_MEMBER_BYTES <=
                  LOG_CONFIGURATION_BYTES_MAX,
              "a full configuration fits a snapshot row");

size_t consensus_configuration_encode(const struct consensus_configuration *configuration,
                                      char out[LOG_CONFIGURATION_BYTES_MAX])
{
    char *at = out + CONFIGURATION_HEADER_BYTES;

    ASSERT(configuration->count <= CONSENSUS_MEMBERS_MAX);
    out[0] = CONFIGURATION_VERSION;
    out[1] = (char)configuration->count;
    out[2] = 0;
    out[3] = 0;
    for (uint32_t i = 0; i < configuration->count; i++) {
        le64_put(at, configuration->members[i].id);
        at[8] = configuration->members[i].voter ? MEMBER_VOTER : MEMBER_LEARNER;
        at += CONFIGURATION_MEMBER_BYTES;
    }
    return (size_t)(at - out);
}

static bool configuration_holds(const struct consensus_configuration *configuration, uint64_t id)
{
    for (uint32_t i = 0; i < configuration->count; i++) {
        if (configuration->members[i].id == id) {
            return true;
        }
    }
    return false;
}

enum rc consensus_configuration_decode(struct slice bytes, struct consensus_configuration *out,
                                       struct error *error)
{
    const char *at = bytes.data + CONFIGURATION_HEADER_BYTES;
    uint32_t count = 0;

    out->count = 0;
    if (bytes.len < CONFIGURATION_HEADER_BYTES || bytes.data[0] != CONFIGURATION_VERSION) {
        return error_set(error, RC_CORRUPT, "configuration: unknown version");
    }
    count = (unsigned char)bytes.data[1];
    if (count > CONSENSUS_MEMBERS_MAX ||
        bytes.len != CONFIGURATION_HEADER_BYTES + (size_t)count * CONFIGURATION_MEMBER_BYTES) {
        return error_set(error, RC_CORRUPT, "configuration: wrong length");
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t id = le64_get(at);

        if (id == 0 || (unsigned char)at[8] > MEMBER_VOTER || configuration_holds(out, id)) {
            return error_set(error, RC_CORRUPT, "configuration: impossible member");
        }
        out->members[out->count++] = (struct consensus_member){id, at[8] == MEMBER_VOTER};
        at += CONFIGURATION_MEMBER_BYTES;
    }
    return RC_OK;
}
