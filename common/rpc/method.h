/* The table rpc.def as data. */
#ifndef COMMON_RPC_METHOD_H
#define COMMON_RPC_METHOD_H

#include <stdbool.h>

#include "common/rpc/rpc.h"

enum { RPC_METHOD_NUMBER_END = 256 };

enum rpc_method_kind { RPC_KIND_REQUEST, RPC_KIND_MESSAGE, RPC_KIND_STREAM };

struct rpc_method_row {
    enum rpc_method method;
    enum rpc_method_kind kind;
    bool join;
    uint32_t series; /* of metrics */
    const char *text;
};

const struct rpc_method_row *rpc_method_find(uint32_t number); /* NULL: unknown */
void rpc_method_labels(void);                                  /* of the metrics; once a process */

#endif
