/* The section of docs/compatibility.md on client suites, made from the files that their runners
 * wrote. */
#ifndef CLI_DOCS_SUITES_H
#define CLI_DOCS_SUITES_H

#include "common/base/buffer.h"

struct env;

/* False when a file is missing or malformed, or a test fails without a reason: said on stderr. */
bool docs_write_suites(struct env *env, struct buffer *out);

#endif
