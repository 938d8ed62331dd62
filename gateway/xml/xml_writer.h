/*
 * Writes XML documents into a buffer: elements, text, numbers, namespaces. Escapes text as S3 does
 * in its listings. The caller owns the buffer; element names are literals that live until their
 * element is closed. Any thread.
 *
 *     xml_writer_init(&xml, &buffer);
 *     xml_writer_open_ns(&xml, "ListBucketResult", XML_NS_S3);
 *     xml_writer_text(&xml, "Name", bucket);
 *     xml_writer_open(&xml, "Contents"); ... xml_writer_close(&xml);
 *     xml_writer_close(&xml);
 */
#ifndef GATEWAY_XML_XML_WRITER_H
#define GATEWAY_XML_XML_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/slice.h"

#define XML_NS_S3 "http://s3.amazonaws.com/doc/2006-03-01/"

enum { XML_WRITER_DEPTH_MAX = 16 };

struct xml_writer {
    /* Private. */
    struct buffer *to;
    uint32_t depth;
    struct slice open[XML_WRITER_DEPTH_MAX];
};

/* Appends the declaration line. xml_writer_init_bare() leaves it out: for a piece of a document. */
void xml_writer_init(struct xml_writer *xml, struct buffer *to);
void xml_writer_init_bare(struct xml_writer *xml, struct buffer *to);

/* Opens an element; `ns` may be empty, `attributes` too (raw text ` name="value"`, escaped by the
 * caller). */
void xml_writer_begin(struct xml_writer *xml, struct slice name, struct slice ns,
                      struct slice attributes);
/* Closes the innermost open element. */
void xml_writer_close(struct xml_writer *xml);

/* <name>value</name>, escaped / as it is / decimal. */
void xml_writer_element(struct xml_writer *xml, struct slice name, struct slice value);
void xml_writer_element_raw(struct xml_writer *xml, struct slice name, struct slice value);
void xml_writer_element_u64(struct xml_writer *xml, struct slice name, uint64_t value);
/* <name>"value"</name> with the quotes escaped: ETags. */
void xml_writer_element_quoted(struct xml_writer *xml, struct slice name, struct slice value);

/* Appends `text` escaped. Control characters and the two code points that XML forbids become
 * numeric references (&#x1;), as S3 writes them although XML 1.0 readers refuse most of them
 * (clients ask for encoding-type=url then); bytes that are not UTF-8 become U+FFFD. */
void xml_escape(struct buffer *to, struct slice text);

/* With literals the lengths below are known to the compiler. */
static inline void xml_writer_open(struct xml_writer *xml, const char *name)
{
    xml_writer_begin(xml, slice_str(name), SLICE_EMPTY, SLICE_EMPTY);
}

static inline void xml_writer_open_ns(struct xml_writer *xml, const char *name, const char *ns)
{
    xml_writer_begin(xml, slice_str(name), slice_str(ns), SLICE_EMPTY);
}

static inline void xml_writer_text(struct xml_writer *xml, const char *name, struct slice value)
{
    xml_writer_element(xml, slice_str(name), value);
}

static inline void xml_writer_str(struct xml_writer *xml, const char *name, const char *value)
{
    xml_writer_element(xml, slice_str(name), slice_str(value));
}

/* `value` holds nothing to escape: times, hex, base64. */
static inline void xml_writer_raw(struct xml_writer *xml, const char *name, struct slice value)
{
    xml_writer_element_raw(xml, slice_str(name), value);
}

static inline void xml_writer_u64(struct xml_writer *xml, const char *name, uint64_t value)
{
    xml_writer_element_u64(xml, slice_str(name), value);
}

static inline void xml_writer_bool(struct xml_writer *xml, const char *name, bool value)
{
    xml_writer_element_raw(xml, slice_str(name), value ? SLICE("true") : SLICE("false"));
}

static inline void xml_writer_quoted(struct xml_writer *xml, const char *name, struct slice value)
{
    xml_writer_element_quoted(xml, slice_str(name), value);
}

#endif
