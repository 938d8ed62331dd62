/* The generated files and who makes each; `check` tells which are stale. */
#include "cli/docs.h"

#include <stdio.h>
#include <string.h>

#include "cli/docs_suites.h"
#include "cli/metad_options.h"
#include "cli/options.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "gateway/s3/compatibility.h"

enum { DOCS_FILE_MAX = 262144 };

static void write_sample(struct buffer *out)
{
    config_write_sample(&serve_options_table, out);
}

static void write_page(struct buffer *out)
{
    config_write_page(&serve_options_table, out);
}

static void write_metad_page(struct buffer *out)
{
    buffer_printf(out, "# Configuration of kist metad\n\nMade from `cli/metad.def` by `make docs`. "
                       "Each option is a flag of `kist metad` or a variable (`KIST_LISTEN`); flags "
                       "win.\n`KIST_CLUSTER_KEY` has no flag.\n\n");
    config_write_rows(&metad_options_table, out);
}

static void write_man(struct buffer *out)
{
    buffer_printf(
        out,
        ".\\\" Made from cli/config.def by `make docs`.\n"
        ".TH KIST 1 \"\" \"kist %s\" \"User Commands\"\n"
        ".SH NAME\nkist \\- S3-compatible object store\n"
        ".SH SYNOPSIS\n.B kist serve\n\\-\\-data DIR [\\-\\-data DIR ...] [options]\n.br\n"
        ".B kist admin\n[\\-\\-admin ADDR] [\\-\\-data DIR] [\\-\\-json] user|key|bucket|job "
        "add|remove|list|owner|show|pause|resume|cancel [NAME] [USER]\n.br\n"
        ".B kist metad\n\\-\\-data DIR \\-\\-advertise HOST:PORT \\-\\-peers HOST:PORT,... "
        "[options]\n.br\n"
        ".B kist admin cluster\nkey|init [\\-\\-metad HOST:PORT,...]\n.br\n"
        ".B kist admin metad\nlist|add|remove|replace|transfer|recover [...]\n.br\n"
        ".B kist version\n"
        ".SH DESCRIPTION\n"
        "kist stores objects durably and serves them over the S3 protocol.\n"
        ".B kist serve\nruns everything in one process over one or more data directories. With one "
        "directory there is one copy of\n"
        "everything; several directories, best on different disks, give redundancy. A write that "
        "was answered is on stable\n"
        "storage.\n.PP\n"
        ".B kist admin\nmanages users, access keys, buckets and jobs of a running kist on the "
        "same machine; "
        "a job deletes all keys under a prefix.\n"
        ".SH OPTIONS\nOf\n.BR \"kist serve\" :\n",
        KIST_VERSION);
    config_write_man(&serve_options_table, out);
    buffer_printf(out, ".PP\nOf\n.BR \"kist metad\" ,\none node of the metadata of a cluster:\n");
    config_write_man(&metad_options_table, out);
    buffer_printf(
        out,
        ".SH ENVIRONMENT\nEvery option is also read from a variable: KIST_ and its name in "
        "capitals, dashes as underscores.\n"
        ".SH FILES\n.TP\n.I DIR/root\\-credentials\nthe keys of the user root, when they were made "
        "at first start (mode 0600).\n"
        ".TP\n.I DIR/identity\nwhich cluster and disk the directory is.\n"
        ".TP\n.I /etc/kist/kist.conf\nread by the systemd unit.\n"
        ".SH EXIT STATUS\n0 after a clean stop, 1 when something prevents serving, 2 when the "
        "command line or the configuration is wrong.\n"
        ".SH SIGNALS\nSIGTERM and SIGINT: stop taking connections, let requests finish, close.\n");
}

static void write_metrics(struct buffer *out)
{
    buffer_printf(out, "# Metrics\n\nMade from `common/metrics/metrics.def` by `make docs`. `GET "
                       "/metrics` on the admin port, Prometheus text. Beside these the page\n"
                       "has what is asked for when it is scraped, each with its help: "
                       "`kist_losses_tolerated`, `kist_build_info`, `kist_metadata_*`,\n"
                       "`kist_disk_*`, `kist_repair_*`, `kist_feed_*`, `kist_notifications_*` "
                       "(by sink).\n\n"
                       "| name | kind | label | meaning |\n|---|---|---|---|\n");
#define COUNTER   "counter"
#define GAUGE     "gauge"
#define HISTOGRAM "histogram"
#define METRIC(id, kind, name, label, series, help)                                                \
    buffer_printf(out, "| `%s` | %s | %s | %s |\n", name, kind, label, help);
#include "common/metrics/metrics.def"
#undef METRIC
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
}

/* The only page that is also made of files. */
static bool write_compatibility(struct env *env, struct buffer *out)
{
    struct buffer suites;
    bool good;

    buffer_init(&suites);
    good = docs_write_suites(env, &suites);
    s3_write_compatibility(out, buffer_slice(&suites));
    buffer_deinit(&suites);
    return good;
}

static const struct {
    const char *name;
    const char *path;
    void (*write)(struct buffer *out);
    bool (*write_from_files)(struct env *env, struct buffer *out);
} files[] = {
    {"sample",        "deploy/config/kist.conf.sample", write_sample,     NULL               },
    {"page",          "docs/configuration.md",          write_page,       NULL               },
    {"metad",         "docs/configuration-metad.md",    write_metad_page, NULL               },
    {"man",           "docs/kist.1",                    write_man,        NULL               },
    {"metrics",       "docs/metrics.md",                write_metrics,    NULL               },
    {"compatibility", "docs/compatibility.md",          NULL,             write_compatibility},
};

static bool docs_make(struct env *env, size_t i, struct buffer *out)
{
    if (files[i].write_from_files != NULL) {
        return files[i].write_from_files(env, out);
    }
    files[i].write(out);
    return true;
}

/* The file's content is `text`. */
static bool file_is(struct env *env, const char *path, struct slice text)
{
    struct error error = {0};
    size_t len = 0;
    char *content = file_read_all(env, path, DOCS_FILE_MAX, &len, &error);
    bool same = content != NULL && slice_eq(slice_of(content, len), text);

    mem_free(content);
    return same;
}

static bool file_write(struct env *env, const char *path, struct slice text)
{
    struct error error = {0};
    int file;
    bool written;

    if (env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, &error) != RC_OK) {
        (void)fprintf(stderr, "kist: docs: %s\n", error.text);
        return false;
    }
    written = env->file->truncate(env, file, 0) == RC_OK &&
              env->file->write(env, file, &text, 1, 0) == RC_OK;
    env->file->close(env, file);
    return written;
}

static int docs_all(struct env *env, bool write)
{
    int code = 0;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct buffer out;

        buffer_init(&out);
        code = docs_make(env, i, &out) ? code : 1;
        if (!file_is(env, files[i].path, buffer_slice(&out))) {
            if (!write) {
                (void)fprintf(stderr, "kist: %s is stale: run `make docs`\n", files[i].path);
            }
            code = write && file_write(env, files[i].path, buffer_slice(&out)) ? code : 1;
        }
        buffer_deinit(&out);
    }
    return code;
}

static int docs_named(struct env *env, const char *name)
{
    if (strcmp(name, "write") == 0 || strcmp(name, "check") == 0) {
        return docs_all(env, strcmp(name, "write") == 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (strcmp(name, files[i].name) == 0) {
            struct buffer out;
            bool good;

            buffer_init(&out);
            good = docs_make(env, i, &out);
            (void)fwrite(out.data, 1, out.len, stdout);
            buffer_deinit(&out);
            return good ? 0 : 1;
        }
    }
    (void)fprintf(stderr,
                  "kist: usage: kist docs sample|page|man|metrics|compatibility|write|check\n");
    return 2;
}

int docs_main(int argc, char *const *argv)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct error error = {0};
    struct env_uv *world = env_uv_open(&options, &error);
    int code;

    ASSERT(world != NULL);
    code = docs_named(env_uv_env(world, 0), argc == 1 ? argv[0] : "");
    env_uv_close(world);
    return code;
}
