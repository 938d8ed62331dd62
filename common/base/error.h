/*
 * Operating errors as values. `struct error` is owned by the task, or by the caller of an `open`.
 * Each layer prefixes context on the way up: "open store: segment 00a3: read header: checksum
 * mismatch".
 */
#ifndef COMMON_BASE_ERROR_H
#define COMMON_BASE_ERROR_H

#include <stdbool.h>

#define RC(code, text, retry) code,
enum rc {
#include "common/base/rc.def"
};
#undef RC

enum { ERROR_TEXT_MAX = 256 };

struct error {
    enum rc rc;
    char text[ERROR_TEXT_MAX]; /* outermost context first, lower case, never a secret */
};

/* Static strings; never NULL. */
const char *rc_text(enum rc rc);
const char *rc_name(enum rc rc); /* "RC_NOT_FOUND" */
bool rc_retry(enum rc rc);

/* Translates an errno (not zero): ENOSPC and EDQUOT become RC_FULL, ENOENT RC_NOT_FOUND, ... else
 * RC_IO. */
enum rc rc_from_errno(int number);

/* Sets rc and text, and returns rc so that `return error_set(...)` reads well. `error` may be NULL.
 */
enum rc error_set(struct error *error, enum rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the text; keeps rc and returns it. */
enum rc error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
