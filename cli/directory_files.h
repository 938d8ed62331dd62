/* What directories.c does with the files of one data directory. */
#ifndef CLI_DIRECTORY_FILES_H
#define CLI_DIRECTORY_FILES_H

#include "common/env/env.h"

enum { DIRECTORY_PATH_BYTES_MAX = 1024 };

/* Is there anything but what kist or mkfs leave in an empty directory? */
enum rc directory_files_foreign(struct env *env, const char *path, bool *foreign);
bool directory_files_has(struct env *env, const char *path, const char *name); /* a subdirectory */
void directory_files_parent(const char *path, char out[DIRECTORY_PATH_BYTES_MAX + 1]);
enum rc directory_files_make(struct env *env, const char *path, uint64_t *device,
                             struct error *error);
enum rc directory_files_lock(struct env *env, const char *path, int *file, struct error *error);
/* Removes meta/ and data/ of a directory that holds nothing of value. */
enum rc directory_files_wipe(struct env *env, const char *path, struct error *error);
void directory_files_random(struct env *env, uint8_t *out, size_t len);

#endif
