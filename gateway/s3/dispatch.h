/*
 * From a parsed head to a finished reply: the steps that every operation shares.
 *
 *     route -> judge (signature, bucket, permission) -> document -> the handler's steps -> send
 *                ^  a "no" that rests on a cached view is
 *                |  confirmed by one refresh (DESIGN 4.5)
 *                +-- also when metad says that the bucket has changed meanwhile
 *
 * One service per loop; everything on that loop.
 */
#ifndef GATEWAY_S3_DISPATCH_H
#define GATEWAY_S3_DISPATCH_H

#include "gateway/s3/op.h"

struct router;

enum { S3_HOST_ID_BYTES = 64 };

/* Called once per finished request. */
typedef void (*s3_finished_cb)(const struct s3_request *req, uint64_t duration_ns);

struct s3_service {
    struct gateway *gateway;
    struct router *router;
    s3_finished_cb finished; /* optional: metrics */
    /* Private. */
    char host_id[S3_HOST_ID_BYTES + 1]; /* x-amz-id-2: this process and loop */
    uint64_t id_seed;
    uint64_t id_count;
    char refused_id[S3_REQUEST_ID_BYTES + 1]; /* of the last refused head */
    size_t document_bytes;                    /* of all requests under way */
};

/* RC_INVALID when op.def is ambiguous. `gateway` outlives the service. */
enum rc s3_service_init(struct s3_service *service, struct gateway *gateway, struct error *error);
void s3_service_deinit(struct s3_service *service);

/* Takes the exchange; answers it. */
void s3_dispatch(struct s3_service *service, struct http_exchange *exchange);
/* The headers of the reply to a head that http refuses: a new request id among them. */
const struct http_header *s3_bad_request_headers(struct s3_service *service, struct arena *arena,
                                                 size_t *count);
/* The error document behind them, of the same id. */
void s3_bad_request(struct s3_service *service, struct arena *arena, int status, struct slice *body,
                    struct slice *content_type);

/* For reply.c and error_document.c. */
void s3_reply_common_headers(struct s3_request *req);
struct slice s3_host_id(const struct s3_request *req);
/* Appends the whole document. */
void s3_error_document(const struct s3_request *req, struct buffer *to);

#endif
