/* Reed-Solomon over GF(2^8) with Cauchy matrices, by ISA-L. The matrix is part of the data format:
 * gf_gen_cauchy1_matrix(k + m, k). Any thread. */
#ifndef COMMON_EC_EC_H
#define COMMON_EC_EC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ec; /* tables of one (k, m); made once, shared for ever */

/* k 1 .. LIMIT_DATA_SHARDS, m 0 .. LIMIT_PARITY_SHARDS. Never NULL. Any thread. */
const struct ec *ec_get(unsigned k, unsigned m);

/* m parity buffers of `len` bytes from k data buffers. */
void ec_encode(const struct ec *ec, size_t len, uint8_t *const *data, uint8_t *const *parity);

/* Rebuilds shard `want` (0 .. k+m-1). `shards[i]` holds `len` bytes for each bit i of `present`; at
 * least k bits are set. Returns false when too few are present. */
bool ec_rebuild(const struct ec *ec, size_t len, uint8_t *const *shards, uint32_t present,
                unsigned want, uint8_t *out);

#endif
