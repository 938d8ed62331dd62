/* The rows of op.def as a table. */
#include "gateway/s3/handlers.h"

#define S3_OP(method, target, query, header, name, action, handler)                                \
    {HTTP_##method, ON_##target, (query), (header), #name, "s3:" #action, (handler)},
#define S3_NO(method, target, query, name)                                                         \
    {HTTP_##method, ON_##target, (query), NULL, #name, NULL, NULL},
const struct s3_op s3_ops[] = {
#include "gateway/s3/op.def"
};
#undef S3_OP
#undef S3_NO

const size_t s3_op_count = ARRAY_LEN(s3_ops);
