/* Removal of what a replica kept on disk. */
#ifndef METAD_APPLY_MACHINE_FILES_H
#define METAD_APPLY_MACHINE_FILES_H

#include "common/env/env.h"

/* Removes a directory and what lies below it, to a small depth; best effort. Blocking. */
void machine_remove_directory(struct env *env, const char *path);

#endif
