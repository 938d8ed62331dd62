/* Reads options: one setter for all sources, so that every source understands the same values. */
#include "common/config/config.h"

#include <ctype.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { ASSIGN_MAX = 4096 };

/* ---- Values ---- */

struct suffix {
    const char *text;
    uint64_t factor;
};

/* Digits, then one of the suffixes (the first one with an empty text is the default). */
static enum rc parse_scaled(struct slice text, const struct suffix *suffixes, size_t count,
                            uint64_t *out)
{
    size_t digits = 0;
    uint64_t number;

    while (digits < text.len && isdigit((unsigned char)text.data[digits])) {
        digits += 1;
    }
    if (digits == 0 || !slice_to_u64(slice_of(text.data, digits), UINT64_MAX, &number)) {
        return RC_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        if (slice_eq_nocase(slice_after(text, digits), slice_str(suffixes[i].text))) {
            if (number > UINT64_MAX / suffixes[i].factor) {
                return RC_INVALID;
            }
            *out = number * suffixes[i].factor;
            return RC_OK;
        }
    }
    return RC_INVALID;
}

enum rc config_parse_size(struct slice text, uint64_t *out)
{
    static const struct suffix suffixes[] = {
        {"",    1         },
        {"K",   1ULL << 10},
        {"M",   1ULL << 20},
        {"G",   1ULL << 30},
        {"T",   1ULL << 40},
        {"KiB", 1ULL << 10},
        {"MiB", 1ULL << 20},
        {"GiB", 1ULL << 30},
        {"TiB", 1ULL << 40},
    };

    return parse_scaled(text, suffixes, ARRAY_LEN(suffixes), out);
}

enum rc config_parse_time(struct slice text, uint64_t *out)
{
    static const struct suffix suffixes[] = {
        {"",   1       },
        {"ms", 1       },
        {"s",  1000    },
        {"m",  60000   },
        {"h",  3600000 },
        {"d",  86400000}
    };

    return parse_scaled(text, suffixes, ARRAY_LEN(suffixes), out);
}

static bool parse_bool(struct slice text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1", ""};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (slice_eq_nocase(text, slice_str(yes[i]))) {
            *out = true;
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        if (slice_eq_nocase(text, slice_str(no[i]))) {
            *out = false;
            return true;
        }
    }
    return false;
}

/* Place of `text` in "a|b|c". */
static bool parse_choice(struct slice text, const char *choices, uint64_t *out)
{
    struct slice rest = slice_str(choices);

    for (uint64_t i = 0; rest.len > 0; i++) {
        size_t len = slice_find(rest, '|');

        if (slice_eq_nocase(slice_of(rest.data, len), text)) {
            *out = i;
            return true;
        }
        rest = slice_after(rest, len + 1);
    }
    return false;
}

static enum rc list_add(struct config_list *list, struct slice items, struct error *error)
{
    while (items.len > 0) {
        size_t len = slice_find(items, ',');
        struct slice item = slice_trim(slice_of(items.data, len));

        items = slice_after(items, len + 1);
        if (item.len == 0) {
            continue;
        }
        if (list->count == CONFIG_LIST_MAX) {
            return error_set(error, RC_INVALID, "more than %d values", CONFIG_LIST_MAX);
        }
        list->items[list->count] = mem_copy(item.data, item.len);
        list->count += 1;
    }
    return RC_OK;
}

static enum rc set_scaled(const struct config_option *option, void *field, struct slice text,
                          struct error *error)
{
    static const struct suffix none[] = {
        {"", 1}
    };
    uint64_t value = 0;
    enum rc rc = option->type == CONFIG_SIZE   ? config_parse_size(text, &value)
                 : option->type == CONFIG_TIME ? config_parse_time(text, &value)
                                               : parse_scaled(text, none, 1, &value);

    if (rc != RC_OK) {
        return error_set(error, RC_INVALID, "'%.*s' is not a %s", (int)text.len, text.data,
                         option->type == CONFIG_SIZE   ? "size (as 64M)"
                         : option->type == CONFIG_TIME ? "time (as 30s)"
                                                       : "number");
    }
    if (value < option->min || value > option->max) {
        return error_set(error, RC_INVALID, "%.*s is out of range: %llu to %llu", (int)text.len,
                         text.data, (unsigned long long)option->min,
                         (unsigned long long)option->max);
    }
    memcpy(field, &value, sizeof(value));
    return RC_OK;
}

static enum rc option_set(const struct config_option *option, void *into, struct slice text,
                          struct error *error)
{
    void *field = (char *)into + option->offset;

    if (text.len >= ASSIGN_MAX ||
        memchr(text.data != NULL ? text.data : "", '\0', text.len) != NULL) {
        return error_set(error, RC_INVALID, "the value is too long");
    }
    switch (option->type) {
    case CONFIG_TEXT:
    case CONFIG_SECRET: {
        char **place = (char **)field;

        mem_free(*place);
        *place = text.len > 0 ? mem_copy(text.data, text.len) : NULL; /* empty is not given */
        return RC_OK;
    }
    case CONFIG_LIST:
        return list_add(field, text, error);
    case CONFIG_NUMBER:
    case CONFIG_SIZE:
    case CONFIG_TIME:
        return set_scaled(option, field, text, error);
    case CONFIG_BOOL:
        if (!parse_bool(text, field)) {
            return error_set(error, RC_INVALID, "'%.*s' is not true or false", (int)text.len,
                             text.data);
        }
        return RC_OK;
    case CONFIG_CHOICE:
        if (!parse_choice(text, option->unit, field)) {
            return error_set(error, RC_INVALID, "'%.*s' is none of %s", (int)text.len, text.data,
                             option->unit);
        }
        return RC_OK;
    }
    ASSERT(false);
    return RC_INVALID;
}

/* ---- Sources ---- */

static const struct config_option *table_find(const struct config_table *table, struct slice name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (slice_eq_str(name, table->options[i].name)) {
            return &table->options[i];
        }
    }
    return NULL;
}

/* The value of the flag at hand: after "=", or the next argument; a BOOL needs none. */
static enum rc flag_value(const struct config_option *option, struct config_arguments *arguments,
                          struct slice *value, struct error *error)
{
    const char *equals = strchr(arguments->argv[arguments->at], '=');

    if (equals != NULL) {
        *value = slice_str(equals + 1);
        return RC_OK;
    }
    if (option->type == CONFIG_BOOL) {
        *value = SLICE("true");
        return RC_OK;
    }
    if (arguments->at + 1 >= arguments->argc) {
        return error_set(error, RC_INVALID, "--%s needs a value", option->name);
    }
    arguments->at += 1;
    *value = slice_str(arguments->argv[arguments->at]);
    return RC_OK;
}

static enum rc flag_read(const struct config_table *table, void *into, struct config_seen *seen,
                         struct config_arguments *arguments, struct error *error)
{
    struct slice argument = slice_str(arguments->argv[arguments->at]);
    struct slice name =
        slice_starts(argument, SLICE("--")) ? slice_after(argument, 2) : SLICE_EMPTY;
    const struct config_option *option;
    struct slice value;
    enum rc rc;

    option = table_find(table, slice_of(name.data, slice_find(name, '=')));
    if (option == NULL) {
        return error_set(error, RC_INVALID, "unknown option '%s'; see --help", argument.data);
    }
    if (option->type == CONFIG_SECRET) {
        return error_set(error, RC_INVALID,
                         "--%s would show the secret to every user of this machine; set it in the "
                         "environment or in the file of --config",
                         option->name);
    }
    rc = flag_value(option, arguments, &value, error);
    if (rc != RC_OK) {
        return rc;
    }
    rc = option_set(option, into, value, error);
    if (rc != RC_OK) {
        return error_prefix(error, "--%s", option->name);
    }
    seen->set[option - table->options] = true;
    return RC_OK;
}

enum rc config_flags(const struct config_table *table, void *into, struct config_seen *seen,
                     struct config_arguments *arguments, struct error *error)
{
    ASSERT(table->count <= CONFIG_OPTIONS_MAX);
    for (arguments->at = 0; arguments->at < arguments->argc; arguments->at++) {
        const char *argument = arguments->argv[arguments->at];
        enum rc rc;

        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            arguments->help = true;
            return RC_OK;
        }
        rc = flag_read(table, into, seen, arguments, error);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

enum rc config_environment(const struct config_table *table, void *into, struct config_seen *seen,
                           struct error *error)
{
    for (size_t i = 0; i < table->count; i++) {
        char name[CONFIG_VARIABLE_MAX];
        const char *value;
        enum rc rc;

        config_variable(&table->options[i], name);
        value = getenv(name); /* NOLINT(concurrency-mt-unsafe): before any thread starts */
        if (value == NULL || value[0] == '\0' || seen->set[i]) {
            continue;
        }
        rc = option_set(&table->options[i], into, slice_str(value), error);
        if (rc != RC_OK) {
            return error_prefix(error, "%s", name);
        }
        seen->set[i] = true;
    }
    return RC_OK;
}

struct file_reader {
    const struct config_table *table;
    void *into;
    const struct config_seen *before; /* set by stronger sources */
    struct config_seen here;
    struct error *error;
    enum rc rc;
};

/* inih calls this for every "name = value"; 0 marks the line as wrong. */
static int file_on_value(void *user, const char *section, const char *name, const char *value)
{
    struct file_reader *reader = user;
    const struct config_option *option = table_find(reader->table, slice_str(name));
    size_t index;

    if (reader->rc != RC_OK) {
        return 0;
    }
    if (section[0] != '\0' && strcmp(section, "serve") != 0) {
        reader->rc = error_set(reader->error, RC_INVALID, "unknown section [%s]", section);
        return 0;
    }
    if (option == NULL) {
        reader->rc = error_set(reader->error, RC_INVALID, "unknown option '%s'", name);
        return 0;
    }
    index = (size_t)(option - reader->table->options);
    if (reader->before->set[index]) {
        return 1;
    }
    reader->rc = option_set(option, reader->into, slice_str(value), reader->error);
    if (reader->rc != RC_OK) {
        (void)error_prefix(reader->error, "%s", name);
        return 0;
    }
    reader->here.set[index] = true;
    return 1;
}

enum rc config_file(const struct config_table *table, void *into, struct config_seen *seen,
                    const char *path, struct slice content, struct error *error)
{
    struct file_reader reader = {
        .table = table, .into = into, .before = seen, .error = error, .rc = RC_OK};
    char *text = mem_copy(content.data, content.len);
    int line = ini_parse_string(text, file_on_value, &reader);

    mem_free(text);
    if (line != 0) {
        if (reader.rc == RC_OK) {
            (void)error_set(error, RC_INVALID, "not 'name = value' of less than 200 bytes");
        }
        return error_prefix(error, "%s:%d", path, line);
    }
    for (size_t i = 0; i < table->count; i++) {
        seen->set[i] = seen->set[i] || reader.here.set[i];
    }
    return RC_OK;
}

enum rc config_defaults(const struct config_table *table, void *into, struct config_seen *seen,
                        struct error *error)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->options[i];

        if (!seen->set[i] && option->default_text[0] != '\0') {
            enum rc rc = option_set(option, into, slice_str(option->default_text), error);

            ASSERT(rc == RC_OK); /* a row of the table itself is wrong */
        }
    }
    return RC_OK;
}

void config_free(const struct config_table *table, void *from)
{
    for (size_t i = 0; i < table->count; i++) {
        void *field = (char *)from + table->options[i].offset;

        if (table->options[i].type == CONFIG_TEXT || table->options[i].type == CONFIG_SECRET) {
            char **text = (char **)field;

            mem_free(*text);
            *text = NULL;
        } else if (table->options[i].type == CONFIG_LIST) {
            struct config_list *list = field;

            for (uint32_t n = 0; n < list->count; n++) {
                mem_free(list->items[n]);
            }
            list->count = 0;
        }
    }
}
