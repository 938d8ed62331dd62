/*
 * metadata=true of listings (MinIO's extension): each entry shows the object's metadata and tags,
 * so that nobody asks for them one by one. An entry shows its metadata to who may GetObject that
 * key, its tags to who may GetObjectTagging.
 */
#ifndef GATEWAY_S3_LIST_METADATA_H
#define GATEWAY_S3_LIST_METADATA_H

#include "gateway/s3/op.h"

bool list_metadata_wanted(const struct s3_request *req);
/* Metadata of a thousand objects may be megabytes: then the page is shorter. Adds what entry `at`
 * adds to the document, about; true: the page ends before it. `record` NULL: a common prefix. */
bool list_metadata_full(size_t *bytes, uint32_t at, const Kist__Record *record);
/* <UserMetadata> and <UserTags> of a whole record. */
void list_metadata_write(struct s3_request *req, struct xml_writer *xml, struct slice key,
                         const Kist__Record *record);

#endif
