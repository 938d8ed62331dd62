/* What the operations on multipart uploads share. */
#ifndef GATEWAY_S3_UPLOAD_H
#define GATEWAY_S3_UPLOAD_H

#include "gateway/s3/op.h"
#include "gateway/s3/write_body.h"

/* ?uploadId=: 24 bytes, or NoSuchUpload. */
enum step_result upload_read_id(struct s3_request *req, struct slice *id);
/* ?partNumber=: 1 .. 10,000, or InvalidArgument. */
enum step_result upload_read_number(struct s3_request *req, uint32_t *number);
/* x-amz-checksum-algorithm and -type of CreateMultipartUpload. NONE when not given. */
enum step_result upload_read_checksum(struct s3_request *req, enum checksum_algorithm *algorithm,
                                      enum checksum_type *type);
/* The upload's row alone, or a page of its parts, into `call`. */
enum step_result upload_lookup(struct s3_request *req, struct meta_list_parts *call,
                               struct slice id, uint32_t after, uint32_t limit);
/* A step: the command that makes the part's row; `message` is the handler's. */
enum step_result upload_commit_part(struct s3_request *req, struct body_write *write,
                                    struct slice id, Kist__PutPart *message, Kist__Part *part);
/* <Initiator> or <Owner>. */
void upload_write_user(struct xml_writer *xml, const char *element, struct slice user);
/* <ChecksumAlgorithm> and <ChecksumType>, when the upload has them. */
void upload_write_checksum(struct xml_writer *xml, const Kist__Upload *upload);

#endif
