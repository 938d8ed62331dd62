/* What a website's visitor sees of a failure: a page in AWS's form, and the same in headers. */
#include "gateway/s3/dispatch.h"
#include "gateway/web/website.h"

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {400, "Bad Request"                    },
    {403, "Forbidden"                      },
    {404, "Not Found"                      },
    {405, "Method Not Allowed"             },
    {412, "Precondition Failed"            },
    {416, "Requested Range Not Satisfiable"},
    {500, "Internal Server Error"          },
    {501, "Not Implemented"                },
    {503, "Service Unavailable"            },
};

struct website *website_new(struct arena *arena)
{
    return arena_alloc(arena, sizeof(struct website));
}

static const char *page_phrase(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(phrases); i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Error";
}

static void page_item(struct buffer *to, struct slice name, struct slice escaped)
{
    buffer_append(to, SLICE("<li>"));
    buffer_append(to, name);
    buffer_append(to, SLICE(": "));
    buffer_append(to, escaped);
    buffer_append(to, SLICE("</li>\n"));
}

/* One "<Name>escaped</Name>" of the error document. False: none is left. */
static bool page_element(struct slice *rest, struct slice *name, struct slice *value)
{
    size_t open = slice_find(*rest, '<');
    size_t end = slice_find(*rest, '>');

    if (end >= rest->len || open >= end) {
        return false;
    }
    *name = slice_of(rest->data + open + 1, end - open - 1);
    *rest = slice_after(*rest, end + 1);
    *value = slice_of(rest->data, slice_find(*rest, '<'));
    *rest = slice_after(*rest, slice_find(*rest, '>') + 1);
    return true;
}

/* The elements of the XML document that the same failure gets elsewhere; Resource is not shown. */
static void page_items(struct s3_request *req, struct buffer *to)
{
    struct buffer document;
    struct slice rest;
    struct slice name;
    struct slice value;

    buffer_init(&document);
    s3_error_document(req, &document);
    rest = buffer_slice(&document);
    while (rest.len > 0 && !slice_starts(rest, SLICE("<Error>"))) {
        rest = slice_after(rest, 1);
    }
    rest = slice_after(rest, sizeof("<Error>") - 1);
    while (!slice_starts(rest, SLICE("</")) && page_element(&rest, &name, &value)) {
        if (!slice_eq(name, SLICE("Resource"))) {
            page_item(to, name, value);
        }
    }
    buffer_deinit(&document);
}

static void page_custom_failed(const struct website *website, struct buffer *to)
{
    buffer_append(to, SLICE("<h3>An Error Occurred While Attempting to Retrieve a Custom Error "
                            "Document</h3>\n<ul>\n"));
    page_item(to, SLICE("Code"), slice_str(s3_error_code(website->page_error)));
    page_item(to, SLICE("Message"), slice_str(s3_error_message(website->page_error)));
    if (website->page_error == S3_NoSuchKey) {
        buffer_append(to, SLICE("<li>Key: "));
        xml_escape(to, website->page_key);
        buffer_append(to, SLICE("</li>\n"));
    }
    buffer_append(to, SLICE("</ul>\n"));
}

void website_error_page(struct s3_request *req, struct buffer *to)
{
    const char *phrase = page_phrase(req->status);
    struct slice message =
        req->error_text.len > 0 ? req->error_text : slice_str(s3_error_message(req->error));

    buffer_printf(to, "<html>\n<head><title>%d %s</title></head>\n<body>\n<h1>%d %s</h1>\n<ul>\n",
                  req->status, phrase, req->status, phrase);
    page_items(req, to);
    buffer_append(to, SLICE("</ul>\n"));
    if (req->website->page_error != S3_OK) {
        page_custom_failed(req->website, to);
    }
    buffer_append(to, SLICE("<hr/>\n</body>\n</html>\n"));
    s3_reply_header(req, "Content-Type", SLICE("text/html; charset=utf-8"));
    s3_reply_header(req, "x-amz-error-code", slice_str(s3_error_code(req->error)));
    s3_reply_header(req, "x-amz-error-message", message);
    if (req->error == S3_NoSuchKey) {
        s3_reply_header(req, "x-amz-error-detail-Key", req->key);
    }
    if (req->error == S3_MethodNotAllowed) {
        s3_reply_header(req, "Allow", SLICE("GET, HEAD, OPTIONS"));
    }
}
