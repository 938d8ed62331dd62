/*
 * Reads an XML document of a request into a tree of elements in an arena. Namespaces, prefixes,
 * attributes (but xsi:type), comments and processing instructions are passed over; a DTD is
 * refused, so there are no entities but the five of XML. Size, depth and number of elements are
 * bounded (limits.h). Any thread.
 *
 *     rc = xml_reader_parse(req->document, req->arena, &root, &error);
 *     for (part = xml_child(root, "Part"); part != NULL; part = xml_next(part, "Part")) {
 *         etag = xml_child_text(part, "ETag");
 *     }
 */
#ifndef GATEWAY_XML_XML_READER_H
#define GATEWAY_XML_XML_READER_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/slice.h"

struct xml_node {
    struct slice name; /* without prefix */
    struct slice text; /* exact, blanks kept; of elements without children only, else empty */
    const struct xml_node *children; /* first one, in document order */
    const struct xml_node *next;     /* sibling */
    struct slice type;               /* value of the attribute type, of any prefix; data NULL */
};

/* The tree lives in `arena`; `document` is not referred to afterwards. RC_INVALID: not well-formed
 * or with a DTD; RC_LIMIT: too large, too deep or too many elements. `error` may be NULL. */
enum rc xml_reader_parse(struct slice document, struct arena *arena, const struct xml_node **root,
                         struct error *error);

bool xml_is(const struct xml_node *node, const char *name);
/* The first child of that name / the next sibling of that name; NULL when there is none. `name`
 * NULL: any. */
const struct xml_node *xml_child(const struct xml_node *node, const char *name);
const struct xml_node *xml_next(const struct xml_node *node, const char *name);
/* Text of the first child of that name. Absent: data NULL; present and empty: data not NULL, len 0.
 */
struct slice xml_child_text(const struct xml_node *node, const char *name);

#endif
