/* One section for each table: what is served and what not, where kist differs, what it adds,
 * errors. */
#include "gateway/s3/compatibility.h"

#include <string.h>

#include "common/base/assert.h"
#include "gateway/s3/op.h"

static const char compatibility_head[] =
    "# Compatibility with Amazon S3\n"
    "\n"
    "Made by `make docs` from `gateway/s3/{op,later,unconfigured,deviation,extension,error}.def` "
    "and "
    "from the results of client suites in `docs/results`. The rule:\n"
    "what AWS does is the specification; where kist differs on purpose, it says so here. A feature "
    "that is not enforced is refused (501 NotImplemented naming\n"
    "it), never stored silently.\n";

/* ---- Operations ---- */

#define LATER_ENCRYPTION "comes with encryption"
#define LATER_NEW        "new at AWS in 2026, not planned"
#define LATER_NOT_STORED "not stored: nothing here would act on it"
#define LATER_PLANNED    "planned"
#define LATER_TABLES     "S3 Tables are not here"
static const struct {
    const char *name;
    const char *reason;
} later_rows[] = {
#define LATER(name, reason) {#name, (reason)},
#include "gateway/s3/later.def"
#undef LATER
};

static const char *const unconfigured_names[] = {
#define EMPTY(name, root)  #name,
#define LIST(name, root)   #name,
#define ABSENT(name, code) #name,
#include "gateway/s3/unconfigured.def"
#undef EMPTY
#undef LIST
#undef ABSENT
};

/* What the page says of an operation. */
static const char *compatibility_answer(const struct s3_op *op)
{
    for (size_t i = 0; i < ARRAY_LEN(unconfigured_names); i++) {
        if (strcmp(op->name, unconfigured_names[i]) == 0) {
            return "as where it was never configured";
        }
    }
    return "done";
}

static const char *compatibility_reason(const struct s3_op *op)
{
    for (size_t i = 0; i < ARRAY_LEN(later_rows); i++) {
        if (strcmp(op->name, later_rows[i].name) == 0) {
            return later_rows[i].reason;
        }
    }
    return NULL;
}

static void compatibility_operation(struct buffer *out, const struct s3_op *op)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "-"};
    static const char *const targets[] = {"service", "bucket", "object", "website"};

    buffer_printf(out, "| %s | %s | %s | ", op->name, methods[op->method], targets[op->target]);
    if (op->query != NULL) {
        buffer_printf(out, "`?%s` ", op->query);
    }
    if (op->header != NULL) {
        buffer_printf(out, "`%s` ", op->header);
    }
    if (op->handler != NULL) {
        buffer_printf(out, "| %s |\n", compatibility_answer(op));
    } else {
        const char *reason = compatibility_reason(op);

        ASSERT(reason != NULL); /* a row of op.def without one in later.def */
        buffer_printf(out, "| 501: %s |\n", reason);
    }
}

static void compatibility_operations(struct buffer *out)
{
    size_t served = 0;

    for (size_t i = 0; i < s3_op_count; i++) {
        served += s3_ops[i].handler != NULL ? 1 : 0;
    }
    buffer_printf(out, "\n## Operations\n\n%zu of %zu are served, %zu answer 501.\n\n", served,
                  s3_op_count, s3_op_count - served);
    buffer_append(out, SLICE("| operation | method | of | sub-resource, header | answer |\n"
                             "|---|---|---|---|---|\n"));
    for (size_t i = 0; i < s3_op_count; i++) {
        compatibility_operation(out, &s3_ops[i]);
    }
}

/* ---- Differences, extensions, errors ---- */

static void compatibility_deviations(struct buffer *out)
{
    buffer_append(out, SLICE("\n## Differences on purpose\n\n"
                             "| of | kist | AWS | why |\n|---|---|---|---|\n"));
#define DEVIATION(of, kist, aws, why)                                                              \
    buffer_append(out, SLICE("| " of " | " kist " | " aws " | " why " |\n"));
#include "gateway/s3/deviation.def"
#undef DEVIATION
}

static void compatibility_extensions(struct buffer *out)
{
    buffer_append(out, SLICE("\n## Extensions\n\nMore in `gateway/s3/README.md`.\n\n"
                             "| name | asked for by | what it does |\n|---|---|---|\n"));
#define EXTENSION(name, request, what)                                                             \
    buffer_append(out, SLICE("| " name " | " request " | " what " |\n"));
#include "gateway/s3/extension.def"
#undef EXTENSION
}

static void compatibility_errors(struct buffer *out)
{
    buffer_append(out, SLICE("\n## Error codes\n\n"
                             "| code | status | standard message |\n|---|---|---|\n"));
    for (int i = 1; i < S3_ERROR_COUNT; i++) {
        enum s3_error error = (enum s3_error)i;

        buffer_printf(out, "| %s | %d | %s |\n", s3_error_code(error), s3_error_status(error),
                      s3_error_message(error));
    }
}

void s3_write_compatibility(struct buffer *out, struct slice suites)
{
    buffer_append(out, SLICE(compatibility_head));
    compatibility_operations(out);
    compatibility_deviations(out);
    compatibility_extensions(out);
    buffer_append(out, suites);
    compatibility_errors(out);
}
