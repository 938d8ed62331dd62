/* Query parameters that the listings share. */
#ifndef GATEWAY_S3_LIST_PARAMS_H
#define GATEWAY_S3_LIST_PARAMS_H

#include "gateway/s3/op.h"

struct list_params {
    struct slice prefix;
    struct slice delimiter; /* empty: none */
    uint32_t limit;         /* asked, at most `limit_max` */
    bool encode;            /* encoding-type=url */
};

/* `limit_name`: "max-keys", "max-uploads", "max-parts". */
enum step_result list_params_read(struct s3_request *req, const char *limit_name,
                                  uint32_t limit_max, struct list_params *params);
/* A number of a query parameter, when it is there; else it stays as it is. */
enum step_result list_number(struct s3_request *req, const char *name, uint64_t *number);
/* A name as the listing shows it: encoded when asked, else as it is. */
struct slice list_name(struct s3_request *req, const struct list_params *params, struct slice name);

/* <CommonPrefixes>. */
void list_write_prefix(struct s3_request *req, struct xml_writer *xml,
                       const struct list_params *params, struct slice prefix);

/* Where a listing goes on. */
struct list_position {
    struct slice after;
    bool after_prefix;
};
/* A marker that lies within a common prefix continues after all of that prefix: it was given, or
 * would be again. */
struct list_position list_position_of(const struct list_params *params, struct slice marker);

#endif
