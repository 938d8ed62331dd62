/* Tags of a bucket from the <Tag> children of `list`: of PutBucketTagging and CreateBucket. */
#ifndef GATEWAY_S3_BUCKET_TAGS_H
#define GATEWAY_S3_BUCKET_TAGS_H

#include "gateway/s3/op.h"
#include "gateway/xml/xml_reader.h"

/* In the arena of the request. NULL after MalformedXML, InvalidTag or BadRequest (more than 50). */
Kist__TagSet *bucket_tags_from_list(struct s3_request *req, const struct xml_node *list);

#endif
