/* The rows of fake_meta, shared by its files; not for tests. */
#ifndef TESTS_LIB_FAKE_META_STORE_H
#define TESTS_LIB_FAKE_META_STORE_H

#include "tests/lib/fake_meta.h"

enum step_result fake_meta_answer(struct fake_meta *meta, struct task *task, enum rc rc);
enum step_result fake_meta_write(struct meta_client *client, struct meta_write *call,
                                 struct task *task);
struct fake_bucket *fake_bucket_find(struct fake_meta *meta, uint64_t bucket_id);
/* The current version; NULL when absent, or when a marker hides it. */
struct fake_object *fake_object_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key);
/* As commands name versions: nothing is the newest one. May be a marker. NULL when absent. */
struct fake_object *fake_version_find(const struct fake_meta *meta, uint64_t bucket_id,
                                      struct slice key, struct slice version);
bool fake_object_newest(const struct fake_meta *meta, const struct fake_object *object);
/* A new newest version, empty; what it replaces is gone. `record` gets what says where it belongs.
 */
struct fake_object *fake_object_put(struct fake_meta *meta, uint64_t bucket_id, struct slice key,
                                    Kist__Record *record);
void fake_object_remove(struct fake_meta *meta, const struct fake_object *object);
/* A delete that names no version. */
void fake_object_delete(struct fake_meta *meta, uint64_t bucket_id, struct slice key,
                        Kist__Deleted *deleted);

/* fake_meta_list.c */
enum step_result fake_list(struct meta_client *client, struct meta_list *call, struct task *task);
enum step_result fake_list_versions(struct meta_client *client, struct meta_list_versions *call,
                                    struct task *task);
enum step_result fake_list_uploads(struct meta_client *client, struct meta_list_uploads *call,
                                   struct task *task);

struct fake_upload *fake_upload_find(const struct fake_meta *meta, uint64_t bucket_id,
                                     struct slice key, struct slice id);
/* With its first `pieces` pieces. */
Kist__Record *fake_object_record(const struct fake_object *object, struct arena *arena,
                                 size_t pieces);

#endif
