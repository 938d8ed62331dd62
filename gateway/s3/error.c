/* S3 error codes from their table, and the one place where operating errors and outcomes become
 * them. */
#include "gateway/s3/error.h"

#include "common/base/assert.h"

struct error_row {
    const char *code;
    int status;
    const char *message;
};

static const struct error_row error_rows[S3_ERROR_COUNT] = {
    [S3_OK] = {"OK", 200, ""},
#define S3_ERROR(name, status, message) [S3_##name] = {#name, (status), (message)},
#include "gateway/s3/error.def"
#undef S3_ERROR
};

const char *s3_error_code(enum s3_error error)
{
    ASSERT(error < S3_ERROR_COUNT);
    return error_rows[error].code;
}

int s3_error_status(enum s3_error error)
{
    ASSERT(error < S3_ERROR_COUNT);
    return error_rows[error].status;
}

const char *s3_error_message(enum s3_error error)
{
    ASSERT(error < S3_ERROR_COUNT);
    return error_rows[error].message;
}

enum s3_error s3_error_from_rc(enum rc rc)
{
    switch (rc) {
    case RC_OK:
        return S3_OK;
    case RC_BUSY:
    case RC_LIMIT:
        return S3_SlowDown;
    case RC_FULL:
        return S3_InsufficientStorage; /* not SlowDown: trying again does not help */
    case RC_AGAIN:
    case RC_AMBIGUOUS:
    case RC_LOCKED:
    case RC_NO_QUORUM:
    case RC_NOT_LEADER:
    case RC_STALE:
        return S3_ServiceUnavailable;
    case RC_CANCELLED:
    case RC_CLOSED:
        return S3_IncompleteBody;
    case RC_TIMEOUT:
        return S3_RequestTimeout;
    case RC_DENIED:
        return S3_AccessDenied;
    case RC_INVALID:
        return S3_InvalidRequest;
    case RC_PRECONDITION:
        return S3_PreconditionFailed;
    case RC_UNSUPPORTED:
        return S3_NotImplemented;
    case RC_CORRUPT:
    case RC_EXISTS:
    case RC_IO:
    case RC_NOT_FOUND:
        return S3_InternalError;
    }
    return S3_InternalError;
}

enum s3_error s3_error_from_outcome(Kist__Outcome outcome)
{
    /* Not a switch over the enum: a newer metad may answer with an outcome that we do not know. */
    static const enum s3_error errors[] = {
        [KIST__OUTCOME__OUTCOME_OK] = S3_OK,
        [KIST__OUTCOME__NO_SUCH_BUCKET] = S3_NoSuchBucket,
        [KIST__OUTCOME__NO_SUCH_KEY] = S3_NoSuchKey,
        [KIST__OUTCOME__NO_SUCH_UPLOAD] = S3_NoSuchUpload,
        [KIST__OUTCOME__PRECONDITION_FAILED] = S3_PreconditionFailed,
        [KIST__OUTCOME__INVALID_PART] = S3_InvalidPart,
        [KIST__OUTCOME__INVALID_PART_ORDER] = S3_InvalidPartOrder,
        [KIST__OUTCOME__ENTITY_TOO_SMALL] = S3_EntityTooSmall,
        [KIST__OUTCOME__BUCKET_EXISTS] = S3_BucketAlreadyExists,
        [KIST__OUTCOME__BUCKET_OWNED] = S3_BucketAlreadyOwnedByYou,
        [KIST__OUTCOME__BUCKET_NOT_EMPTY] = S3_BucketNotEmpty,
        [KIST__OUTCOME__STALE_GENERATION] = S3_ServiceUnavailable,
        [KIST__OUTCOME__EXPIRED] = S3_RequestTimeout,
        [KIST__OUTCOME__NOT_DURABLE] = S3_ServiceUnavailable,
        [KIST__OUTCOME__SOURCE_TOO_LARGE] = S3_InvalidRequest,
        [KIST__OUTCOME__BAD_CHECKSUM] = S3_BadDigest,
        [KIST__OUTCOME__CONDEMNED] = S3_ServiceUnavailable,
        [KIST__OUTCOME__NO_SUCH_USER] = S3_AccessDenied,
        [KIST__OUTCOME__NO_SUCH_ACCESS_KEY] = S3_InvalidAccessKeyId,
        [KIST__OUTCOME__NOT_MODIFIED] = S3_PreconditionFailed, /* of a copy's source: 412, as AWS */
        [KIST__OUTCOME__ENTITY_TOO_LARGE] = S3_EntityTooLarge,
        [KIST__OUTCOME__INVALID_ARGUMENT] = S3_InvalidArgument,
        [KIST__OUTCOME__NO_SUCH_VERSION] = S3_NoSuchVersion,
        [KIST__OUTCOME__OBJECT_LOCKED] = S3_AccessDenied,
        [KIST__OUTCOME__IS_DELETE_MARKER] = S3_MethodNotAllowed,
        [KIST__OUTCOME__NO_LOCK_CONFIGURATION] = S3_InvalidRequest,
        [KIST__OUTCOME__RETENTION_SHORTENED] = S3_AccessDenied,
        [KIST__OUTCOME__INVALID_BUCKET_STATE] = S3_InvalidBucketState,
        [KIST__OUTCOME__INVALID_OFFSET] = S3_InvalidWriteOffset,
        [KIST__OUTCOME__TOKEN_MISMATCH] = S3_IdempotencyParameterMismatch,
    };

    if (outcome < 0 || (size_t)outcome >= ARRAY_LEN(errors) ||
        (errors[outcome] == S3_OK && outcome != KIST__OUTCOME__OUTCOME_OK)) {
        return S3_InternalError;
    }
    return errors[outcome];
}

const char *s3_outcome_message(Kist__Outcome outcome)
{
    switch ((int)outcome) {
    case KIST__OUTCOME__OBJECT_LOCKED:
    case KIST__OUTCOME__RETENTION_SHORTENED:
        return "Access Denied because object protected by object lock.";
    case KIST__OUTCOME__NO_LOCK_CONFIGURATION:
        return "Bucket is missing ObjectLockConfiguration";
    default:
        return NULL;
    }
}
