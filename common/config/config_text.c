/* What the table of options becomes for readers: --help, the sample file, the page, the man page.
 */
#include "common/config/config.h"

#include <string.h>

#include "common/base/assert.h"

enum { FLAG_COLUMN = 34 };

void config_variable(const struct config_option *option, char out[CONFIG_VARIABLE_MAX])
{
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t at = 5;

    memcpy(out, "KIST_", at);
    ASSERT(strlen(option->name) + at < CONFIG_VARIABLE_MAX);
    for (const char *c = option->name; *c != '\0'; c++, at++) {
        out[at] = *c >= 'a' && *c <= 'z' ? capitals[*c - 'a'] : '_';
    }
    out[at] = '\0';
}

static const char *default_shown(const struct config_option *option)
{
    return option->default_text[0] != '\0' ? option->default_text : "none";
}

void config_write_help(const struct config_table *table, struct buffer *out)
{
    buffer_printf(out, "Usage: %s\n\n", table->usage);
    for (size_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->options[i];
        size_t before = out->len;

        if (option->type == CONFIG_SECRET) {
            continue;
        }
        buffer_printf(out, "  --%s %s", option->name, option->unit);
        while (out->len - before < FLAG_COLUMN) {
            buffer_append_byte(out, ' ');
        }
        buffer_printf(out, "%s%s",
                      out->len - before > FLAG_COLUMN ? "\n                                  " : "",
                      option->help);
        if (option->default_text[0] != '\0') {
            buffer_printf(out, " [%s]", option->default_text);
        }
        buffer_append_byte(out, '\n');
    }
    buffer_printf(out, "\nEvery option can also be set as a variable (--admin-listen is "
                       "KIST_ADMIN_LISTEN) or in the file of "
                       "--config.\nOnly so, because a command line is visible to every user:\n");
    for (size_t i = 0; i < table->count; i++) {
        if (table->options[i].type == CONFIG_SECRET) {
            buffer_printf(out, "  %-32s%s\n", table->options[i].name, table->options[i].help);
        }
    }
}

void config_write_sample(const struct config_table *table, struct buffer *out)
{
    buffer_printf(
        out,
        "; Settings of kist, made from cli/config.def by `make docs`: do not edit by hand in the\n"
        "; repository. Copy it, take the ; away before what you change, and start with\n"
        ";     kist serve --config FILE\n"
        "; Flags and KIST_ variables win over this file. One line holds at most 199 bytes.\n\n"
        "[serve]\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->options[i];

        if (strcmp(option->name, "config") == 0) {
            continue;
        }
        buffer_printf(out, "\n; %s\n", option->help);
        if (option->type == CONFIG_CHOICE) {
            buffer_printf(out, "; one of %s\n", option->unit);
        }
        buffer_printf(out, ";%s =%s%s\n", option->name, option->default_text[0] != '\0' ? " " : "",
                      option->default_text);
    }
}

/* A | inside a cell would end it. */
static void write_cell(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            buffer_append_byte(out, '\\');
        }
        buffer_append_byte(out, *text);
    }
}

void config_write_page(const struct config_table *table, struct buffer *out)
{
    buffer_printf(out, "# Configuration\n\n"
                       "Made from `cli/config.def` by `make docs`. Each option is a flag of `kist "
                       "serve` (`--listen`), a variable (`KIST_LISTEN`) and a\n"
                       "line of the file given by `--config` (`listen = …`). Flags win over "
                       "variables, variables over the file, the file over the\n"
                       "defaults. Sizes take K, M, G, T (powers of 1,024), times ms, s, m, h, d. "
                       "Options of type secret have no flag.\n\n");
    config_write_rows(table, out);
}

void config_write_rows(const struct config_table *table, struct buffer *out)
{
    buffer_printf(out, "| option | type | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < table->count; i++) {
        static const char *const types[] = {"text", "secret", "list",          "number",
                                            "size", "time",   "true or false", "choice"};
        const struct config_option *option = &table->options[i];

        buffer_printf(out, "| `%s` | %s | ", option->name, types[option->type]);
        write_cell(out, default_shown(option));
        buffer_printf(out, " | ");
        write_cell(out, option->help);
        if (option->type == CONFIG_CHOICE) {
            buffer_printf(out, " (");
            write_cell(out, option->unit);
            buffer_printf(out, ")");
        }
        buffer_printf(out, " |\n");
    }
}

/* roff takes a leading dot or quote as a request and a dash as a hyphen. */
static void write_roff(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\') {
            buffer_append_byte(out, '\\');
        }
        buffer_append_byte(out, *text);
    }
}

void config_write_man(const struct config_table *table, struct buffer *out)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->options[i];

        buffer_printf(out, ".TP\n");
        if (option->type == CONFIG_SECRET) {
            char name[CONFIG_VARIABLE_MAX];

            config_variable(option, name);
            buffer_printf(out, ".B %s", name);
        } else {
            buffer_printf(out, ".BI \\-\\-");
            write_roff(out, option->name);
            if (option->type != CONFIG_BOOL) {
                buffer_printf(out, " \" ");
                write_roff(out, option->unit);
                buffer_printf(out, "\"");
            }
        }
        buffer_append_byte(out, '\n');
        write_roff(out, option->help);
        buffer_printf(out, ".\n");
        if (option->default_text[0] != '\0') {
            buffer_printf(out, "Default: ");
            write_roff(out, option->default_text);
            buffer_printf(out, ".\n");
        }
    }
}
