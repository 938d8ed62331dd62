/*
 * expat events -> tree. The only file that includes expat.h.
 *
 * A document of 10,000 parts has 40,000 elements of a handful of names, so names are kept once (a
 * small cache by hash) and a node costs 48 bytes plus its text.
 */
#include "gateway/xml/xml_reader.h"

#include <expat.h>
#include <stdint.h>

#include "common/base/assert.h"
#include "common/base/buffer.h"
#include "common/base/limits.h"
#include "common/base/mem.h"

enum {
    NAME_SLOTS = 64,
    /* 10,000 parts of eight elements each and then some; bounds memory to a few MiB a document. */
    ELEMENTS_MAX = 100000
};

struct reader {
    XML_Parser parser;
    struct arena *arena;
    struct buffer text; /* of the innermost open element, until a child opens */
    enum rc rc;
    const char *why;
    uint32_t elements;
    uint32_t depth;
    struct xml_node *open[LIMIT_XML_DEPTH];
    struct xml_node *last_child[LIMIT_XML_DEPTH];
    struct xml_node *root;
    struct slice names[NAME_SLOTS];
};

static void reader_stop(struct reader *reader, enum rc rc, const char *why)
{
    if (reader->rc == RC_OK) {
        reader->rc = rc;
        reader->why = why;
        (void)XML_StopParser(reader->parser, XML_FALSE);
    }
}

static struct slice reader_name(struct reader *reader, const char *full)
{
    const char *colon = strrchr(full, ':');
    struct slice name = slice_str(colon != NULL ? colon + 1 : full);
    unsigned char first = name.len > 0 ? (unsigned char)name.data[0] : 0;
    unsigned char last = name.len > 0 ? (unsigned char)name.data[name.len - 1] : 0;
    struct slice *slot = &reader->names[(name.len * 31 + (size_t)first * 7 + last) % NAME_SLOTS];

    if (!slice_eq(*slot, name)) {
        *slot = arena_copy(reader->arena, name);
    }
    return *slot;
}

static struct slice reader_type(struct reader *reader, const XML_Char **attributes)
{
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        const char *colon = strrchr(attributes[i], ':');

        if (colon != NULL && strcmp(colon, ":type") == 0) {
            return arena_copy(reader->arena, slice_str(attributes[i + 1]));
        }
    }
    return SLICE_EMPTY;
}

static void XMLCALL on_start(void *user, const XML_Char *full, const XML_Char **attributes)
{
    struct reader *reader = user;
    struct xml_node *node;

    if (reader->rc != RC_OK) {
        return;
    }
    if (reader->depth == LIMIT_XML_DEPTH || reader->elements == ELEMENTS_MAX) {
        reader_stop(reader, RC_LIMIT, "too deep or too many elements");
        return;
    }
    node = arena_alloc_raw(reader->arena, sizeof(*node));
    *node = (struct xml_node){
        .name = reader_name(reader, full),
        .text = SLICE(""),
        .type = reader_type(reader, attributes),
    };
    if (reader->depth == 0) {
        reader->root = node;
    } else if (reader->last_child[reader->depth - 1] == NULL) {
        reader->open[reader->depth - 1]->children = node;
    } else {
        reader->last_child[reader->depth - 1]->next = node;
    }
    if (reader->depth > 0) {
        reader->last_child[reader->depth - 1] = node;
    }
    reader->open[reader->depth] = node;
    reader->last_child[reader->depth] = NULL;
    reader->depth += 1;
    reader->elements += 1;
    buffer_clear(&reader->text);
}

static void XMLCALL on_end(void *user, const XML_Char *full)
{
    struct reader *reader = user;
    struct xml_node *node;

    (void)full;
    if (reader->rc != RC_OK) {
        return;
    }
    ASSERT(reader->depth > 0);
    reader->depth -= 1;
    node = reader->open[reader->depth];
    if (node->children == NULL && reader->text.len > 0) {
        node->text = arena_copy(reader->arena, buffer_slice(&reader->text));
    }
    buffer_clear(&reader->text);
}

static void XMLCALL on_text(void *user, const XML_Char *text, int len)
{
    struct reader *reader = user;

    /* Blanks between the children of an element are layout, not text. */
    if (reader->rc == RC_OK && reader->depth > 0 &&
        reader->open[reader->depth - 1]->children == NULL) {
        buffer_append(&reader->text, slice_of(text, (size_t)len));
    }
}

static void XMLCALL on_doctype(void *user, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_internal_subset)
{
    (void)name;
    (void)system;
    (void)public;
    (void)has_internal_subset;
    reader_stop(user, RC_INVALID, "a document type is not accepted");
}

static enum rc reader_run(struct reader *reader, struct slice document, struct error *error)
{
    enum XML_Status status;

    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reader->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
    status = XML_Parse(reader->parser, document.data, (int)document.len, XML_TRUE);
    if (reader->rc != RC_OK) {
        return error_set(error, reader->rc, "xml: %s", reader->why);
    }
    if (status != XML_STATUS_OK) {
        return error_set(error, RC_INVALID, "xml: line %lu: %s",
                         (unsigned long)XML_GetCurrentLineNumber(reader->parser),
                         XML_ErrorString(XML_GetErrorCode(reader->parser)));
    }
    return RC_OK;
}

enum rc xml_reader_parse(struct slice document, struct arena *arena, const struct xml_node **root,
                         struct error *error)
{
    struct reader reader = {.arena = arena};
    enum rc rc;

    *root = NULL;
    if (document.len > LIMIT_XML_BODY_BYTES) {
        return error_set(error, RC_LIMIT, "xml: more than %d bytes", (int)LIMIT_XML_BODY_BYTES);
    }
    if (document.len == 0) {
        return error_set(error, RC_INVALID, "xml: empty document");
    }
    reader.parser = XML_ParserCreate(NULL);
    ASSERT(reader.parser != NULL);
    buffer_init(&reader.text);
    rc = reader_run(&reader, document, error);
    buffer_deinit(&reader.text);
    XML_ParserFree(reader.parser);
    if (rc == RC_OK) {
        ASSERT(reader.root != NULL);
        *root = reader.root;
    }
    return rc;
}

bool xml_is(const struct xml_node *node, const char *name)
{
    return slice_eq_str(node->name, name);
}

static const struct xml_node *node_find(const struct xml_node *node, const char *name)
{
    while (node != NULL && name != NULL && !slice_eq_str(node->name, name)) {
        node = node->next;
    }
    return node;
}

const struct xml_node *xml_child(const struct xml_node *node, const char *name)
{
    return node_find(node->children, name);
}

const struct xml_node *xml_next(const struct xml_node *node, const char *name)
{
    return node_find(node->next, name);
}

struct slice xml_child_text(const struct xml_node *node, const char *name)
{
    const struct xml_node *child = xml_child(node, name);

    return child != NULL ? child->text : SLICE_EMPTY;
}
