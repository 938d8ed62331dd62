/*
 * LifecycleConfiguration documents (AWS: PutBucketLifecycleConfiguration): what a client sends,
 * checked as AWS checks it, and what it gets back. Storage class transitions are not enforced, so
 * they are refused.
 */
#ifndef GATEWAY_S3_LIFECYCLE_XML_H
#define GATEWAY_S3_LIFECYCLE_XML_H

#include "gateway/s3/op.h"
#include "gateway/xml/xml_reader.h"

/* How the XML named its filter (LifecycleRule.form). */
enum { LIFECYCLE_FORM_PREFIX = 1, LIFECYCLE_FORM_FILTER = 2, LIFECYCLE_FORM_AND = 3 };

/* Fills the rules; what they point to lives in req->arena. STEP_NEXT, or STEP_FAIL with the
 * refusal. */
enum step_result lifecycle_xml_read(struct s3_request *req, const struct xml_node *root,
                                    Kist__Lifecycle *out);
/* lifecycle_xml_write.c */
void lifecycle_xml_write(struct s3_request *req, struct xml_writer *xml,
                         const Kist__Lifecycle *lifecycle);

#endif
