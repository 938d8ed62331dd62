/* The rows of fake_meta, shared by its two files; not for tests. */
#ifndef TESTS_LIB_FAKE_META_STORE_H
#define TESTS_LIB_FAKE_META_STORE_H

#include "tests/lib/fake_meta.h"

enum step_result fake_meta_answer(struct fake_meta *meta, struct task *task, enum rc rc);
enum step_result fake_meta_write(struct meta_client *client, struct meta_write *call,
                                 struct task *task);
/* NULL when absent. */
struct fake_object *fake_object_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key);
struct fake_upload *fake_upload_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key, struct slice id);
/* With its first `pieces` pieces. */
Kist__Record *fake_object_record(const struct fake_object *object, struct arena *arena,
                                 size_t pieces);

#endif
