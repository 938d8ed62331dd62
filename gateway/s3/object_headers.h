/*
 * What an object's record keeps of a request's headers, and how it is given back: system headers,
 * user metadata, storage class, checksums, ETag, dates.
 */
#ifndef GATEWAY_S3_OBJECT_HEADERS_H
#define GATEWAY_S3_OBJECT_HEADERS_H

#include "gateway/s3/op.h"

/* Fills content type, headers, metadata, storage class and owner; the rest of `record` is
 * untouched. STEP_FAIL: MetadataTooLarge and the like. */
enum step_result s3_record_from_request(struct s3_request *req, Kist__Record *record);
/* x-amz-website-redirect-location of a record; NULL: none. */
Kist__Header *s3_record_redirect(const Kist__Record *record);
/* Tags (x-amz-tagging) and lock (x-amz-object-lock-*). STEP_FAIL: InvalidTag and the like. */
enum step_result s3_record_tags_and_lock(struct s3_request *req, Kist__Record *record);
/* Owner and storage class alone (a copy that keeps the source's metadata). */
void s3_record_identity(struct s3_request *req, Kist__Record *record);

/* "<hex>" or "<hex>-<parts>", with quotes or without. */
struct slice s3_etag(struct arena *arena, struct slice md5, uint32_t part_count, bool quoted);
struct slice s3_record_etag(struct arena *arena, const Kist__Record *record, bool quoted);
/* As AWS writes them: base64, and "-<parts>" behind a composite one. */
struct slice s3_checksum_text(struct arena *arena, const Kist__Checksum *checksum,
                              uint32_t part_count);
const char *s3_checksum_type_name(uint32_t type); /* "FULL_OBJECT", "COMPOSITE" */
struct slice s3_storage_class(const Kist__Record *record);
/* Last-Modified: of whole seconds, as lists show it too. */
struct slice s3_iso8601(struct arena *arena, uint64_t stamp);
struct slice s3_last_modified(struct arena *arena, const Kist__Record *record); /* as a header */

/* The reply headers of GET and HEAD: dates, ETag, content and system headers (with the response-*
 * overrides), user metadata, storage class. */
enum step_result s3_reply_record(struct s3_request *req, const Kist__Record *record);
/* Of GET and HEAD, behind those: version, number of tags, lock; as far as the caller may know. */
void s3_reply_version_state(struct s3_request *req, const Kist__Record *record);
/* Those of a 304: ETag, Last-Modified, Cache-Control, Expires. */
void s3_reply_validators(struct s3_request *req, const Kist__Record *record);
/* x-amz-checksum-* and their type. */
void s3_reply_checksums(struct s3_request *req, Kist__Checksum *const *checksums, size_t count,
                        uint32_t part_count);
/* In XML: <ChecksumCRC32>...</ChecksumCRC32>. */
void s3_xml_checksums(struct s3_request *req, struct xml_writer *xml,
                      Kist__Checksum *const *checksums, size_t count, uint32_t part_count);

/* In lists: <ChecksumAlgorithm> of each, <ChecksumType>. */
void s3_xml_checksum_names(struct xml_writer *xml, const Kist__Record *record);

/* Fills `call` with which part of the request's object to look for: 1 .. record->part_count. */
void s3_part_range_of(struct s3_request *req, const Kist__Record *record, uint32_t number,
                      struct meta_part_range *call);

/* A Kist__Checksum in the arena. */
Kist__Checksum *s3_checksum_new(struct arena *arena, const struct checksum_value *value,
                                enum checksum_type type);

#endif
