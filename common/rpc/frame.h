/*
 * Frames as bytes (FORMAT.md): a fixed header, a head, a body. Pure; checks everything that comes
 * from outside. Only conn_*.c and tests use it.
 */
#ifndef COMMON_RPC_FRAME_H
#define COMMON_RPC_FRAME_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/slice.h"

enum {
    RPC_FRAME_HEADER_BYTES = 40,
    RPC_FRAME_VERSION_MIN = 1, /* what this release speaks */
    RPC_FRAME_VERSION_MAX = 1
};

enum rpc_frame_kind { /* on the wire: never renumbered */
                      RPC_FRAME_HELLO = 1,
                      RPC_FRAME_GOODBYE = 2,
                      RPC_FRAME_REQUEST = 3, /* value: milliseconds left, 0 for ever */
                      RPC_FRAME_REPLY = 4,   /* value: enum rpc_reply_source */
                      RPC_FRAME_CANCEL = 5,
                      RPC_FRAME_MESSAGE = 6,
                      RPC_FRAME_OPEN = 7,   /* value: window of the opener */
                      RPC_FRAME_ACCEPT = 8, /* value: window of the acceptor */
                      RPC_FRAME_DATA = 9,
                      RPC_FRAME_CREDIT = 10, /* value: bytes more */
                      RPC_FRAME_END = 11,    /* status: RC_OK, or why it is given up */
                      RPC_FRAME_PING = 12,
                      RPC_FRAME_PONG = 13,
                      RPC_FRAME_DRAIN = 14, /* no new calls, please */
                      RPC_FRAME_KIND_END
};

enum { RPC_FRAME_FLAG_BODY_CRC = 1 };

/* Whose outcome a reply carries: the service's, or ours because there is no service to ask. */
enum rpc_reply_source { RPC_REPLY_OF_SERVICE = 0, RPC_REPLY_OF_RPC = 1 };

struct rpc_frame {
    uint8_t version;
    uint8_t kind; /* enum rpc_frame_kind */
    uint16_t flags;
    uint16_t method;
    uint16_t status; /* status.def */
    uint32_t value;
    uint64_t id; /* of a call or stream on this connection; 0 otherwise */
    uint32_t head_len;
    uint32_t body_len;
    uint32_t body_crc; /* with RPC_FRAME_FLAG_BODY_CRC */
};

/* `to` has room for the header; the head stands right behind it already. */
void rpc_frame_seal(const struct rpc_frame *frame, char *to);
/* Looks at the front of `bytes`. RC_AGAIN: too short for a header and head (`*need` bytes at
 * least); RC_OK: header and head are whole and right; the body may still be missing (*need: the
 * whole frame). RC_CORRUPT, RC_LIMIT, RC_UNSUPPORTED: refused. */
enum rc rpc_frame_parse(struct slice bytes, struct rpc_frame *frame, size_t *need,
                        struct error *error);

uint16_t rpc_status_of(enum rc rc);
enum rc rpc_status_rc(uint16_t status); /* a number from a later release: RC_IO */

#endif
