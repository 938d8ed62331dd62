/* What RocksDB's C API lacks (kv_shim.cc). Errors are malloc'ed texts as in the C API, NULL on
 * success. */
#ifndef COMMON_KV_KV_SHIM_H
#define COMMON_KV_KV_SHIM_H

#include <rocksdb/c.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flushes all given families in one atomic step and waits. */
void kv_shim_flush(rocksdb_t *db, rocksdb_column_family_handle_t *const *families, size_t count,
                   char **error);
/* Reads every block of every table and checks it. */
void kv_shim_verify(rocksdb_t *db, char **error);

#ifdef __cplusplus
}
#endif

#endif
