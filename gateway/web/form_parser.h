/*
 * The fields of a multipart/form-data body (RFC 7578, RFC 2046 5.1) up to its file: a field named
 * "file", which must be the last. What follows it is ignored. A pure parser over bytes that grow;
 * nothing is looked at twice.
 */
#ifndef GATEWAY_WEB_FORM_PARSER_H
#define GATEWAY_WEB_FORM_PARSER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/slice.h"

enum {
    FORM_FIELDS_MAX = 128,
    FORM_PART_HEADER_BYTES_MAX = 4096,
    FORM_BOUNDARY_BYTES_MAX = 200 /* RFC 2046 allows 70; some clients make longer ones */
};

enum form_result {
    FORM_MORE,      /* needs more bytes */
    FORM_FILE,      /* the file begins at `at` */
    FORM_MALFORMED, /* is no such body */
    FORM_TOO_LARGE, /* too many fields, or too many bytes of them */
    FORM_DUPLICATE, /* a field comes twice: `duplicate` */
    FORM_NO_FILE    /* the body ends without a file */
};

struct form_field {
    struct slice name; /* lower case */
    struct slice value;
};

struct form_parser {
    struct slice delimiter; /* CR LF "--" boundary */
    struct form_field fields[FORM_FIELDS_MAX];
    uint32_t count;
    struct slice file_name; /* without directories; empty: none was given */
    struct slice duplicate;
    size_t at; /* FORM_FILE: offset of its first byte */
    /* Private. */
    struct arena *arena;
    size_t scan; /* the delimiter does not begin before this */
    size_t value_bytes;
    int state;
    bool is_file;
    struct slice name;
};

/* The boundary of a Content-Type; data NULL when it is not multipart/form-data, `len` 0 when it has
 * no boundary, or one that cannot be. */
struct slice form_boundary(struct arena *arena, struct slice content_type);
void form_parser_init(struct form_parser *parser, struct arena *arena, struct slice boundary);
/* `bytes`: CR LF and then all of the body that has come, always at the same place. */
enum form_result form_parser_run(struct form_parser *parser, struct slice bytes);
/* Data NULL when there is none of that name. */
struct slice form_field(const struct form_parser *parser, const char *name);

#endif
