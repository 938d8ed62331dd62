// The thin C++ layer over the packaged library. It relies on the layout of two opaque structs of c.cc (one
// pointer each, unchanged since they exist); kv_rocksdb.c checks at open that a flush works.
#include "common/kv/kv_shim.h"

#include <rocksdb/db.h>

#include <cstring>
#include <vector>

extern "C" {
struct rocksdb_t {
    rocksdb::DB *rep;
};
struct rocksdb_column_family_handle_t {
    rocksdb::ColumnFamilyHandle *rep;
};

static void put_error(const rocksdb::Status &status, char **error)
{
    *error = status.ok() ? nullptr : strdup(status.ToString().c_str());
}

void kv_shim_flush(rocksdb_t *db, rocksdb_column_family_handle_t *const *families, size_t count,
                   char **error)
{
    std::vector<rocksdb::ColumnFamilyHandle *> handles;
    for (size_t i = 0; i < count; i++) {
        handles.push_back(families[i]->rep);
    }
    put_error(db->rep->Flush(rocksdb::FlushOptions(), handles), error);
}

void kv_shim_verify(rocksdb_t *db, char **error)
{
    rocksdb::ReadOptions options;
    options.readahead_size = 1 << 20;
    put_error(db->rep->VerifyChecksum(options), error);
}
}
