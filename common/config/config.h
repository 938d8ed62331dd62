/*
 * Options of a program, read from one table: flags, then KIST_ variables, then a file, then
 * defaults; each source gives way to the one before. The same table makes --help, the sample file
 * and the pages of docs.
 *
 * The values lie in the caller's struct, which begins as all zero bytes. Texts are owned by it
 * until config_free().
 */
#ifndef COMMON_CONFIG_CONFIG_H
#define COMMON_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/base/error.h"

enum config_type {
    CONFIG_TEXT,   /* char * */
    CONFIG_SECRET, /* char *; no flag: command lines are visible to every user */
    CONFIG_LIST,   /* struct config_list: flag repeated, commas elsewhere */
    CONFIG_NUMBER, /* uint64_t */
    CONFIG_SIZE,   /* uint64_t; suffix K M G T: powers of 1,024 */
    CONFIG_TIME,   /* uint64_t milliseconds; suffix ms s m h d; no suffix: ms */
    CONFIG_BOOL,   /* bool; the flag alone means true */
    CONFIG_CHOICE  /* uint64_t: place in `unit`, which reads "error|warn|info" */
};

enum { CONFIG_LIST_MAX = 64, CONFIG_OPTIONS_MAX = 64 };

struct config_list {
    char *items[CONFIG_LIST_MAX];
    uint32_t count;
};

struct config_option {
    const char *name; /* lower case with dashes; the flag is --name, the variable KIST_NAME */
    enum config_type type;
    size_t offset;
    const char *default_text; /* "": none */
    uint64_t min;             /* of numbers, sizes, times */
    uint64_t max;
    const char *unit; /* what stands for the value in --help; the choices of a CHOICE */
    bool reloadable;
    const char *help; /* one line */
};

struct config_table {
    const struct config_option *options;
    size_t count;
    const char *usage; /* "kist serve [options]": for --help */
};

/* Row of a .def file: name, type, field, default, min, max, unit, reloadable, help. */
#define CONFIG_ROW(strct, name, type, field, def, min, max, unit, reload, help)                    \
    {(name), CONFIG_##type, offsetof(strct, field), (def), (min), (max), (unit), (reload), (help)},

/* Which options a source has set already: later sources leave them alone. */
struct config_seen {
    bool set[CONFIG_OPTIONS_MAX];
};

/* Arguments of the command line, without the program's and the command's name. */
struct config_arguments {
    const char *const *argv;
    int argc;
    int at;
    bool help; /* --help or -h was among them */
};

/* Flags: "--name value", "--name=value". RC_INVALID with one line of text on the first mistake. */
enum rc config_flags(const struct config_table *table, void *into, struct config_seen *seen,
                     struct config_arguments *arguments, struct error *error);
enum rc config_environment(const struct config_table *table, void *into, struct config_seen *seen,
                           struct error *error);
/* Content of the INI file; `path` only for messages. Sections are refused but [serve]. */
enum rc config_file(const struct config_table *table, void *into, struct config_seen *seen,
                    const char *path, struct slice content, struct error *error);
enum rc config_defaults(const struct config_table *table, void *into, struct config_seen *seen,
                        struct error *error);
void config_free(const struct config_table *table, void *from);

void config_write_help(const struct config_table *table, struct buffer *out);
void config_write_sample(const struct config_table *table, struct buffer *out); /* INI */
void config_write_page(const struct config_table *table, struct buffer *out);   /* Markdown */
void config_write_rows(const struct config_table *table, struct buffer *out); /* its table alone */
void config_write_man(const struct config_table *table,
                      struct buffer *out); /* the OPTIONS of roff */

enum { CONFIG_VARIABLE_MAX = 64 };
/* "admin-listen" -> "KIST_ADMIN_LISTEN" */
void config_variable(const struct config_option *option, char out[CONFIG_VARIABLE_MAX]);

/* One value as the table's types read it; for tests and for command lines of other commands. */
enum rc config_parse_size(struct slice text, uint64_t *out);
enum rc config_parse_time(struct slice text, uint64_t *out);

#endif
