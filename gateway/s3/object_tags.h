/*
 * Tags of objects (AWS: "Categorizing your objects using tags"): from x-amz-tagging, from a
 * <Tagging> document, and back into one. The rules of keys and values are the same for buckets.
 */
#ifndef GATEWAY_S3_OBJECT_TAGS_H
#define GATEWAY_S3_OBJECT_TAGS_H

#include "gateway/s3/op.h"
#include "gateway/xml/xml_reader.h"

struct tag_set {
    Kist__Header **tags; /* arena memory */
    size_t count;
};

/* x-amz-tagging: "key=value&key=value", as in a query string. An absent header gives no tags.
 * STEP_FAIL: InvalidArgument, InvalidTag, BadRequest. */
enum step_result object_tags_from_header(struct s3_request *req, struct tag_set *set);
/* A query string from elsewhere (a field of a form upload). */
enum step_result object_tags_from_text(struct s3_request *req, struct slice text,
                                       struct tag_set *set);
/* The request's <Tagging><TagSet><Tag>... document. STEP_FAIL: MalformedXML, InvalidTag,
 * BadRequest. */
enum step_result object_tags_from_document(struct s3_request *req, struct tag_set *set);
/* <TagSet> with the tags. */
void object_tags_write(struct xml_writer *xml, Kist__Header *const *tags, size_t count);

/* Is this a tag that may be kept? STEP_FAIL: InvalidTag naming it. */
enum step_result s3_tag_check(struct s3_request *req, struct slice key, struct slice value);

#endif
