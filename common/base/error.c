#include "common/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"

static const struct {
    const char *name;
    const char *text;
    bool retry;
} rows[] = {
#define RC(code, text, retry) {#code, (text), (retry)},
#include "common/base/rc.def"
#undef RC
};

const char *rc_text(enum rc rc)
{
    return (size_t)rc < ARRAY_LEN(rows) ? rows[rc].text : "unknown error";
}

const char *rc_name(enum rc rc)
{
    return (size_t)rc < ARRAY_LEN(rows) ? rows[rc].name : "RC_UNKNOWN";
}

bool rc_retry(enum rc rc)
{
    return (size_t)rc < ARRAY_LEN(rows) && rows[rc].retry;
}

enum rc rc_from_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return RC_FULL;
    case ENOENT:
    case ENOTDIR:
        return RC_NOT_FOUND;
    case EEXIST:
        return RC_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return RC_DENIED;
    case EINVAL:
        return RC_INVALID;
    case EOPNOTSUPP:
        return RC_UNSUPPORTED;
    case EAGAIN:
        return RC_AGAIN;
    case ECANCELED:
        return RC_CANCELLED;
    case ETIMEDOUT:
        return RC_TIMEOUT;
    case ECONNRESET:
    case EPIPE:
        return RC_CLOSED;
    default:
        return RC_IO;
    }
}

enum rc error_set(struct error *error, enum rc rc, const char *format, ...)
{
    if (error != NULL) {
        va_list args;

        error->rc = rc;
        va_start(args, format);
        (void)vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
    }
    return rc;
}

enum rc error_prefix(struct error *error, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    size_t len;

    ASSERT(error != NULL);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    len = strlen(text);
    (void)snprintf(text + len, sizeof(text) - len, ": %s", error->text);
    memcpy(error->text, text, sizeof(text));
    return error->rc;
}
