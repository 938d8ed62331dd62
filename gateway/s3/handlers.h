/* The handlers that op.def names, one file each (two for the lists), defined in <operation>.c. */
#ifndef GATEWAY_S3_HANDLERS_H
#define GATEWAY_S3_HANDLERS_H

#include "gateway/s3/op.h"

extern const struct s3_handler list_buckets;
extern const struct s3_handler create_bucket;
extern const struct s3_handler head_bucket;
extern const struct s3_handler delete_bucket;
extern const struct s3_handler get_bucket_location;
extern const struct s3_handler get_bucket_lifecycle;
extern const struct s3_handler put_bucket_lifecycle;
extern const struct s3_handler delete_bucket_lifecycle;
extern const struct s3_handler get_bucket_versioning;
extern const struct s3_handler put_bucket_versioning;
extern const struct s3_handler get_object_lock;
extern const struct s3_handler put_object_lock;
extern const struct s3_handler get_bucket_tagging;
extern const struct s3_handler put_bucket_tagging;
extern const struct s3_handler delete_bucket_tagging;
extern const struct s3_handler get_bucket_ownership;
extern const struct s3_handler put_bucket_ownership;
extern const struct s3_handler delete_bucket_ownership;
extern const struct s3_handler get_public_access_block;
extern const struct s3_handler put_public_access_block;
extern const struct s3_handler delete_public_access_block;
extern const struct s3_handler get_bucket_request_payment;
extern const struct s3_handler put_bucket_request_payment;
extern const struct s3_handler get_bucket_acl;
extern const struct s3_handler put_bucket_acl;
extern const struct s3_handler get_object_acl;
extern const struct s3_handler put_object_acl;
extern const struct s3_handler get_unconfigured;

extern const struct s3_handler get_bucket_policy;
extern const struct s3_handler put_bucket_policy;
extern const struct s3_handler delete_bucket_policy;
extern const struct s3_handler get_bucket_policy_status;

extern const struct s3_handler get_bucket_notification;
extern const struct s3_handler put_bucket_notification;
extern const struct s3_handler get_bucket_feed;
extern const struct s3_handler put_bucket_feed;
extern const struct s3_handler delete_bucket_feed;
extern const struct s3_handler get_bucket_changes;
extern const struct s3_handler listen_events;

extern const struct s3_handler append_object;
extern const struct s3_handler get_object;
extern const struct s3_handler get_object_attributes;
extern const struct s3_handler get_object_legal_hold;
extern const struct s3_handler get_object_retention;
extern const struct s3_handler get_object_tagging;
extern const struct s3_handler put_object_legal_hold;
extern const struct s3_handler put_object_retention;
extern const struct s3_handler put_object_tagging;
extern const struct s3_handler delete_object_tagging;
extern const struct s3_handler rename_object;
extern const struct s3_handler restore_object;
extern const struct s3_handler head_object;
extern const struct s3_handler put_object;
extern const struct s3_handler copy_object;
extern const struct s3_handler delete_object;
extern const struct s3_handler delete_prefix;
extern const struct s3_handler delete_objects;
extern const struct s3_handler list_objects;
extern const struct s3_handler list_object_versions;
extern const struct s3_handler list_objects_v2;

extern const struct s3_handler create_upload;
extern const struct s3_handler upload_part;
extern const struct s3_handler upload_part_copy;
extern const struct s3_handler complete_upload;
extern const struct s3_handler abort_upload;
extern const struct s3_handler list_parts;
extern const struct s3_handler list_uploads;

/* gateway/web */
extern const struct s3_handler get_bucket_cors;
extern const struct s3_handler put_bucket_cors;
extern const struct s3_handler delete_bucket_cors;
extern const struct s3_handler preflight;
extern const struct s3_handler get_bucket_website;
extern const struct s3_handler put_bucket_website;
extern const struct s3_handler delete_bucket_website;
extern const struct s3_handler website_get;
extern const struct s3_handler post_object;

#endif
