#include "gateway/s3/object_tags.h"

#include "common/base/limits.h"
#include "common/codec/percent.h"
#include "common/codec/utf8.h"

/* ---- One tag ---- */

/* Letters, digits and blanks of any language, and these. What is not ASCII is taken for a letter:
 * the tables of Unicode would tell signs from letters, and nothing depends on it. */
static bool tag_byte_allowed(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c >= 0x80 || (c != '\0' && strchr(" +-=._:/@", c) != NULL);
}

/* Characters, not bytes; text.len + 1 for a text that may not be used. */
static size_t tag_characters(struct slice text)
{
    size_t count = 0;

    if (!utf8_valid(text)) {
        return text.len + 1;
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (!tag_byte_allowed(c)) {
            return text.len + 1;
        }
        count += (c & 0xc0U) != 0x80 ? 1 : 0;
    }
    return count;
}

static bool tag_text_fits(struct slice text, size_t characters_max)
{
    size_t count = tag_characters(text);

    return count <= text.len && count <= characters_max;
}

enum step_result s3_tag_check(struct s3_request *req, struct slice key, struct slice value)
{
    if (key.len == 0 || !tag_text_fits(key, LIMIT_TAG_KEY_CHARACTERS)) {
        (void)s3_fail(req, S3_InvalidTag, "The TagKey you have provided is invalid");
        s3_error_detail(req, "TagKey", key);
        return STEP_FAIL;
    }
    if (slice_starts(key, SLICE("aws:"))) {
        (void)s3_fail(req, S3_InvalidTag, "System tags cannot be added/updated by requester");
        s3_error_detail(req, "TagKey", key);
        return STEP_FAIL;
    }
    if (!tag_text_fits(value, LIMIT_TAG_VALUE_CHARACTERS)) {
        (void)s3_fail(req, S3_InvalidTag, "The TagValue you have provided is invalid");
        s3_error_detail(req, "TagKey", key);
        s3_error_detail(req, "TagValue", value);
        return STEP_FAIL;
    }
    return STEP_NEXT;
}

/* ---- Sets ---- */

static bool tags_hold(const struct tag_set *set, struct slice key)
{
    for (size_t i = 0; i < set->count; i++) {
        if (slice_eq(s3_slice(set->tags[i]->name), key)) {
            return true;
        }
    }
    return false;
}

static void tags_begin(struct s3_request *req, struct tag_set *set)
{
    *set = (struct tag_set){
        .tags = arena_alloc_raw(req->arena, LIMIT_OBJECT_TAGS * sizeof(*set->tags))};
}

static enum step_result tags_add(struct s3_request *req, struct tag_set *set, struct slice key,
                                 struct slice value)
{
    Kist__Header *tag;

    if (set->count == LIMIT_OBJECT_TAGS) {
        return s3_failf(req, S3_BadRequest, "Object tags cannot be greater than %d",
                        LIMIT_OBJECT_TAGS);
    }
    if (s3_tag_check(req, key, value) == STEP_FAIL) {
        return STEP_FAIL;
    }
    tag = arena_alloc_raw(req->arena, sizeof(*tag));
    kist__header__init(tag);
    tag->name = s3_bytes(key);
    tag->value = s3_bytes(value);
    set->tags[set->count++] = tag;
    return STEP_NEXT;
}

/* ---- The header ---- */

static enum step_result tags_bad_header(struct s3_request *req, struct slice header)
{
    return s3_fail_argument(
        req, "x-amz-tagging", header,
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query "
        "parameters without tag name duplicates.");
}

/* In the order of keys: what came in a query string has no order of its own. */
static void tags_sort(struct tag_set *set)
{
    for (size_t i = 1; i < set->count; i++) {
        Kist__Header *tag = set->tags[i];
        size_t at = i;

        while (at > 0 && slice_cmp(s3_slice(tag->name), s3_slice(set->tags[at - 1]->name)) < 0) {
            set->tags[at] = set->tags[at - 1];
            at -= 1;
        }
        set->tags[at] = tag;
    }
}

enum step_result object_tags_from_text(struct s3_request *req, struct slice text,
                                       struct tag_set *set)
{
    struct slice rest = text;

    tags_begin(req, set);
    while (rest.len > 0) {
        size_t end = slice_find(rest, '&');
        struct slice pair = slice_of(rest.data, end);
        size_t equals = slice_find(pair, '=');
        struct slice key;
        struct slice value;

        rest = slice_after(rest, end + 1);
        if (pair.len == 0) {
            continue;
        }
        if (!percent_decode(req->arena, slice_of(pair.data, equals), true, &key) ||
            !percent_decode(req->arena, slice_after(pair, equals + 1), true, &value) ||
            key.len == 0 || tags_hold(set, key)) {
            return tags_bad_header(req, text);
        }
        if (tags_add(req, set, key, value) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    tags_sort(set);
    return STEP_NEXT;
}

enum step_result object_tags_from_header(struct s3_request *req, struct tag_set *set)
{
    struct slice header = s3_header(req, "x-amz-tagging");

    *set = (struct tag_set){0};
    return header.len == 0 ? STEP_NEXT : object_tags_from_text(req, header, set);
}

/* ---- Documents ---- */

enum step_result object_tags_from_document(struct s3_request *req, struct tag_set *set)
{
    const struct xml_node *root;
    const struct xml_node *tags;

    tags_begin(req, set);
    if (req->document.len == 0) {
        return s3_fail(req, S3_MissingRequestBodyError, NULL);
    }
    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "Tagging")) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    tags = xml_child(root, "TagSet");
    if (tags == NULL) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    for (const struct xml_node *tag = xml_child(tags, NULL); tag != NULL;
         tag = xml_next(tag, NULL)) {
        struct slice key = xml_child_text(tag, "Key");
        struct slice value = xml_child_text(tag, "Value");

        if (!xml_is(tag, "Tag") || key.data == NULL || value.data == NULL) {
            return s3_fail(req, S3_MalformedXML, NULL);
        }
        if (tags_hold(set, key)) {
            (void)s3_fail(req, S3_InvalidTag, "Cannot provide multiple Tags with the same key");
            s3_error_detail(req, "TagKey", key);
            return STEP_FAIL;
        }
        if (tags_add(req, set, key, value) == STEP_FAIL) {
            return STEP_FAIL;
        }
    }
    return STEP_NEXT;
}

void object_tags_write(struct xml_writer *xml, Kist__Header *const *tags, size_t count)
{
    xml_writer_open(xml, "TagSet");
    for (size_t i = 0; i < count; i++) {
        xml_writer_open(xml, "Tag");
        xml_writer_text(xml, "Key", s3_slice(tags[i]->name));
        xml_writer_text(xml, "Value", s3_slice(tags[i]->value));
        xml_writer_close(xml);
    }
    xml_writer_close(xml);
}
