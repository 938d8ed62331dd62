/* See method.h. */
#include "common/rpc/method.h"

#include <assert.h>
#include <stdatomic.h>

#include "common/base/assert.h"
#include "common/metrics/metrics.h"

enum { RPC_JOIN_JOIN = true, RPC_JOIN_MEMBERS = false };

enum row_index {
#define RPC_METHOD(number, name, kind, join, text) ROW_##name,
#include "common/rpc/rpc.def"
#undef RPC_METHOD
    ROW_COUNT
};

static const struct rpc_method_row rows[] = {
#define RPC_METHOD(number, name, kind, join, text)                                                 \
    {RPC_##name, RPC_KIND_##kind, RPC_JOIN_##join, ROW_##name, (text)},
#include "common/rpc/rpc.def"
#undef RPC_METHOD
};

static const uint8_t row_of[RPC_METHOD_NUMBER_END] = {
#define RPC_METHOD(number, name, kind, join, text) [RPC_##name] = 1 + ROW_##name,
#include "common/rpc/rpc.def"
#undef RPC_METHOD
};

static_assert(ROW_COUNT <= 128, "series of the metrics");

const struct rpc_method_row *rpc_method_find(uint32_t number)
{
    if (number >= RPC_METHOD_NUMBER_END || row_of[number] == 0) {
        return NULL;
    }
    return &rows[row_of[number] - 1];
}

const char *rpc_method_text(enum rpc_method method)
{
    const struct rpc_method_row *row = rpc_method_find((uint32_t)method);

    return row != NULL ? row->text : "unknown";
}

const char *rpc_role_text(enum rpc_role role)
{
    static const char *const texts[] = {"none", "gateway", "metad", "datad",
                                        "lb",   "serve",   "admin"};

    return (size_t)role < ARRAY_LEN(texts) ? texts[role] : "unknown";
}

void rpc_method_labels(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&done)) {
        return;
    }
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        metric_label(METRIC_RPC_CALL_SECONDS, i, rows[i].text);
        metric_label(METRIC_RPC_REQUESTS, i, rows[i].text);
    }
}
