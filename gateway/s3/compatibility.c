#include "gateway/s3/compatibility.h"

#include "gateway/s3/op.h"

static const char compatibility_head[] =
    "# Compatibility with Amazon S3\n"
    "\n"
    "Made from `gateway/s3/op.def` and `error.def` by `make docs`. The rule: what AWS does is the "
    "specification; where kist differs on purpose, it\n"
    "says so here. A feature that is not enforced is refused (501 NotImplemented naming it), never "
    "stored silently.\n"
    "\n"
    "## Differences on purpose\n"
    "\n"
    "- One region (`--region`, default us-east-1). `LocationConstraint` may name it, us-east-1 "
    "included, or be left out; another region is refused.\n"
    "  As in AWS's us-east-1, creating a bucket that one owns already is a success there, and 409 "
    "BucketAlreadyOwnedByYou in any other region.\n"
    "- Owners are users of kist: `ID` and `DisplayName` are the user's name. The user `root` sees "
    "and may do everything. There are no public buckets:\n"
    "  anonymous requests get 403 AccessDenied.\n"
    "- A PUT with `Transfer-Encoding: chunked` and no length is accepted (AWS: 411).\n"
    "- Signature Version 2 (headers, presigned URLs, which boto3 makes by default in us-east-1, "
    "and forms) is taken only with `--sigv2 on`. A\n"
    "  parameter that it does not sign and that would change the request is refused.\n"
    "- Websites: a missing page is 404 for whoever may read its key, with or without "
    "`s3:ListBucket`.\n"
    "- Form uploads: a field that comes twice is refused; `x-amz-date` may be 7 days old.\n"
    "- Keys are bytes: `.` and `..` segments are ordinary (many HTTP libraries resolve them before "
    "they send).\n"
    "- Copies write no data, and read it only for a checksum that was asked for and that the "
    "source "
    "does not have. So the ETag of a part made by\n"
    "  UploadPartCopy is the MD5 of its bytes only when it was read, or is a whole object with "
    "such "
    "an ETag; otherwise it is a hash over source and\n"
    "  range. A part may be made of at most some thousand pieces of its source: a longer range "
    "must "
    "be copied in smaller parts.\n"
    "  `x-amz-website-redirect-location` of a copy needs `x-amz-metadata-directive: REPLACE`.\n"
    "- A marker (`marker`, `start-after`, `key-marker`) inside a common prefix continues behind "
    "that "
    "prefix.\n"
    "- UploadPart to an upload that was created without a checksum algorithm may carry any "
    "checksum; CRC64NVME is computed besides.\n"
    "- Refused with 501 and the header's name: `x-amz-server-side-encryption*`, "
    "`x-amz-acl: aws-exec-read`, `x-amz-storage-class` other than\n"
    "  `STANDARD` and `REDUCED_REDUNDANCY` (kept, not acted on),\n"
    "  `x-amz-write-offset-bytes`, `If-None-Match` other than `*` "
    "on a "
    "write.\n"
    "- ACLs are off in new buckets, as at AWS; `--default-ownership ObjectWriter` makes them as "
    "AWS "
    "did before 2023. A public access block is not set by default.\n"
    "  Canonical ids are user names; an e-mail address is a grantee only where a user has it as "
    "his name. What anonymous callers write belongs to the bucket's owner.\n"
    "  Lists show groups before users.\n"
    "- CreateBucket of one's own bucket succeeds in us-east-1 unless it asks for what the bucket "
    "is "
    "not; AWS would reset the ACL.\n"
    "- Acceleration, logging, replication, encryption, analytics, inventory, metrics and "
    "intelligent tiering cannot be configured (501); reading them answers as AWS\n"
    "  does where they never were.\n"
    "\n"
    "## Operations\n"
    "\n"
    "| operation | method | of | sub-resource | answer |\n"
    "|---|---|---|---|---|\n";

static void compatibility_operations(struct buffer *out)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "-"};
    static const char *const targets[] = {"service", "bucket", "object", "website"};

    for (size_t i = 0; i < s3_op_count; i++) {
        const struct s3_op *op = &s3_ops[i];

        buffer_printf(out, "| %s | %s | %s | ", op->name, methods[op->method], targets[op->target]);
        if (op->query != NULL) {
            buffer_printf(out, "`?%s` ", op->query);
        }
        if (op->header != NULL) {
            buffer_printf(out, "`%s` ", op->header);
        }
        buffer_printf(out, "| %s |\n", op->handler != NULL ? "served" : "501");
    }
}

void s3_write_compatibility(struct buffer *out)
{
    size_t served = 0;

    buffer_append(out, SLICE(compatibility_head));
    compatibility_operations(out);
    for (size_t i = 0; i < s3_op_count; i++) {
        served += s3_ops[i].handler != NULL ? 1 : 0;
    }
    buffer_printf(out, "\n%zu of %zu operations are served.\n\n## Error codes\n\n", served,
                  s3_op_count);
    buffer_append(out, SLICE("| code | status | standard message |\n|---|---|---|\n"));
    for (int i = 1; i < S3_ERROR_COUNT; i++) {
        enum s3_error error = (enum s3_error)i;

        buffer_printf(out, "| %s | %d | %s |\n", s3_error_code(error), s3_error_status(error),
                      s3_error_message(error));
    }
}
