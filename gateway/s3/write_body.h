/*
 * What the operations that take a body share: PutObject, UploadPart, UploadPartCopy.
 *
 *     s3_write_body_begin() -> body_write_store() -> body_write_commit() ... body_write_abort()
 */
#ifndef GATEWAY_S3_WRITE_BODY_H
#define GATEWAY_S3_WRITE_BODY_H

#include "gateway/object/write_path.h"
#include "gateway/s3/op.h"

/* Begins the body with MD5. `wanted` is computed whatever the client sends; NONE: CRC64NVME when
 * the client announces no checksum of its own. */
enum step_result s3_write_body_begin(struct s3_request *req, enum checksum_algorithm wanted,
                                     uint64_t length_max);
/* At the end of the body: the checksums to keep, all of the full bytes. Returns how many. */
size_t s3_write_body_checksums(struct s3_request *req, Kist__Checksum ***out);
/* Does the request say what its body sums up to: Content-MD5, a checksum header or trailer? */
bool s3_write_body_announces_digest(const struct s3_request *req);
/* In a handler's abort: turns a refusal by write_path into the request's error. */
void s3_write_body_error(struct s3_request *req, const struct write_path *write);

/* A body on its way to a command. Zeroed, part of the operation's struct. */
struct body_write {
    struct write_path path;
    struct meta_write call;
    bool stored;    /* path was started */
    bool committed; /* the command was handed over */
};

/* A step: req->payload to durable extents of a new layout, or into memory when it is small and
 * `allow_inline`. */
enum step_result body_write_store(struct s3_request *req, struct body_write *write,
                                  bool allow_inline);
/* The same with `prefix` in front of the body: at most LIMIT_INLINE_BYTES, borrowed. */
enum step_result body_write_store_behind(struct s3_request *req, struct body_write *write,
                                         struct slice prefix, bool allow_inline);
/* What was stored, into the record of an object: size, ETag, checksums, body, pieces. Returns the
 * pieces of a list that is longer than a record holds (the command carries them), else none. */
struct piece_list {
    Kist__Piece **pieces;
    size_t count;
};
struct piece_list body_write_record(struct s3_request *req, struct body_write *write,
                                    Kist__Record *record);
/* The same for the row of a part. */
void body_write_part(struct s3_request *req, struct body_write *write, Kist__Part *part);
/* A step: the command that names it. */
enum step_result body_write_commit(struct s3_request *req, struct body_write *write,
                                   enum meta_command command, const ProtobufCMessage *message,
                                   struct slice body);
/* The handler's abort: what no command names is discarded, and a refused body gets its error. */
void body_write_abort(struct s3_request *req, struct body_write *write);

#endif
