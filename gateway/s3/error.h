/* S3 error codes, and the one place where operating errors become them. */
#ifndef GATEWAY_S3_ERROR_H
#define GATEWAY_S3_ERROR_H

#include "common/base/error.h"
#include "proto/command.pb-c.h"

#define S3_ERROR(name, status, message) S3_##name,
enum s3_error {
    S3_OK = 0,
#include "gateway/s3/error.def"
    S3_ERROR_COUNT
};
#undef S3_ERROR

const char *s3_error_code(enum s3_error error);    /* "NoSuchKey" */
int s3_error_status(enum s3_error error);          /* 404 */
const char *s3_error_message(enum s3_error error); /* AWS's text */
enum s3_error s3_error_from_rc(enum rc rc);        /* RC_BUSY -> SlowDown, ... */
enum s3_error s3_error_from_outcome(Kist__Outcome outcome);
/* What AWS says in place of the code's standard message; NULL: that one. */
const char *s3_outcome_message(Kist__Outcome outcome);

#endif
