/*
 * Reed-Solomon by ISA-L: shard i (0 .. k+m-1) is row i of the Cauchy matrix times the k data
 * shards. The first k rows are the identity, so data shards are stored as they are.
 *
 * Tables are made at the first use of a (k, m) and published with a compare-and-swap: two threads
 * that come at once both make them, one pair wins, the other is freed. They are never changed
 * afterwards.
 */
#include "common/ec/ec.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include <isa-l.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"

enum {
    MATRIX_BYTES = LIMIT_SHARDS * LIMIT_DATA_SHARDS,
    TABLE_BYTES_PER_CELL = 32 /* what ec_init_tables() expands one coefficient to */
};

struct ec {
    unsigned k;
    unsigned m;
    uint8_t matrix[MATRIX_BYTES]; /* k + m rows of k coefficients */
    uint8_t encode_tables[TABLE_BYTES_PER_CELL * LIMIT_DATA_SHARDS * LIMIT_PARITY_SHARDS];
};

static _Atomic(struct ec *) published[LIMIT_DATA_SHARDS + 1][LIMIT_PARITY_SHARDS + 1];

static struct ec *ec_new(unsigned k, unsigned m)
{
    struct ec *ec = mem_alloc(sizeof(*ec));

    ec->k = k;
    ec->m = m;
    gf_gen_cauchy1_matrix(ec->matrix, (int)(k + m), (int)k);
    if (m > 0) {
        ec_init_tables((int)k, (int)m, ec->matrix + (size_t)k * k, ec->encode_tables);
    }
    return ec;
}

const struct ec *ec_get(unsigned k, unsigned m)
{
    ASSERT(k >= 1 && k <= LIMIT_DATA_SHARDS);
    ASSERT(m <= LIMIT_PARITY_SHARDS);
    struct ec *found = atomic_load_explicit(&published[k][m], memory_order_acquire);

    if (found != NULL) {
        return found;
    }
    struct ec *made = ec_new(k, m);
    if (atomic_compare_exchange_strong_explicit(&published[k][m], &found, made,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return made;
    }
    mem_free(made);
    return found;
}

void ec_encode(const struct ec *ec, size_t len, uint8_t *const *data, uint8_t *const *parity)
{
    ASSERT(len <= INT_MAX);
    uint8_t *from[LIMIT_DATA_SHARDS];
    uint8_t *to[LIMIT_PARITY_SHARDS];
    uint8_t tables[sizeof(ec->encode_tables)];

    if (ec->m == 0 || len == 0) {
        return;
    }
    /* ISA-L takes its inputs without const: it gets copies of what is shared. */
    memcpy(from, data, ec->k * sizeof(from[0]));
    memcpy(to, parity, ec->m * sizeof(to[0]));
    memcpy(tables, ec->encode_tables, (size_t)TABLE_BYTES_PER_CELL * ec->k * ec->m);
    ec_encode_data((int)len, (int)ec->k, (int)ec->m, tables, from, to);
}

/* `row` becomes the coefficients that turn the k survivors into shard `want`: row `want` of the
 * matrix times the inverse of the survivors' rows. */
static bool rebuild_row(const struct ec *ec, const unsigned *survivors, unsigned want, uint8_t *row)
{
    unsigned k = ec->k;
    uint8_t rows[LIMIT_DATA_SHARDS * LIMIT_DATA_SHARDS];
    uint8_t inverse[LIMIT_DATA_SHARDS * LIMIT_DATA_SHARDS];

    for (unsigned i = 0; i < k; i++) {
        memcpy(rows + (size_t)i * k, ec->matrix + (size_t)survivors[i] * k, k);
    }
    if (gf_invert_matrix(rows, inverse, (int)k) != 0) {
        return false;
    }
    for (unsigned column = 0; column < k; column++) {
        uint8_t sum = 0;
        for (unsigned i = 0; i < k; i++) {
            sum ^= gf_mul(ec->matrix[(size_t)want * k + i], inverse[(size_t)i * k + column]);
        }
        row[column] = sum;
    }
    return true;
}

bool ec_rebuild(const struct ec *ec, size_t len, uint8_t *const *shards, uint32_t present,
                unsigned want, uint8_t *out)
{
    ASSERT(len <= INT_MAX);
    ASSERT(want < ec->k + ec->m);
    unsigned survivors[LIMIT_DATA_SHARDS];
    uint8_t *from[LIMIT_DATA_SHARDS];
    uint8_t row[LIMIT_DATA_SHARDS];
    uint8_t tables[TABLE_BYTES_PER_CELL * LIMIT_DATA_SHARDS];
    unsigned count = 0;

    if ((present >> want & 1) != 0) {
        memcpy(out, shards[want], len);
        return true;
    }
    for (unsigned i = 0; i < ec->k + ec->m && count < ec->k; i++) {
        if ((present >> i & 1) != 0) {
            survivors[count] = i;
            from[count] = shards[i];
            count += 1;
        }
    }
    if (count < ec->k || !rebuild_row(ec, survivors, want, row)) {
        return false;
    }
    if (len > 0) {
        ec_init_tables((int)ec->k, 1, row, tables);
        ec_encode_data((int)len, (int)ec->k, 1, tables, from, &out);
    }
    return true;
}
