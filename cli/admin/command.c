/*
 * `kist admin user|key|bucket|job add|remove|list|...`: speaks to the admin API of a running kist
 * on this machine. The keys of root come from KIST_ROOT_ACCESS_KEY and KIST_ROOT_SECRET_KEY, or
 * from DIR/root-credentials.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/admin/admin.h"
#include "cli/admin/client.h"
#include "cli/admin/cluster.h"
#include "cli/admin/segment.h"
#include "cli/options.h"
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/codec/percent.h"
#include "common/env/env_uv.h"

enum { ARGUMENTS_MAX = 2, CREDENTIALS_FILE_MAX = 1024, CODE_OPERATING = 1, CODE_USAGE = 2 };

struct admin_command {
    const char *noun;
    const char *verb;
    const char *arguments;
    const char *method;
    const char *path;
    const char *first;  /* member of the body that the first argument is */
    const char *second; /* and the second */
};

static const struct admin_command commands[] = {
#define COMMAND(noun, verb, arguments, method, path, first, second)                                \
    {(noun), (verb), (arguments), (method), (path), (first), (second)},
#include "cli/admin/command.def"
#undef COMMAND
};

struct admin_line {
    const struct admin_command *command;
    const char *arguments[ARGUMENTS_MAX];
    int argument_count;
    const char *address;
    const char *data;
    bool json;
    char *access_key; /* owned */
    char *secret_key; /* owned */
};

static int admin_usage(FILE *to, int code)
{
    (void)fprintf(to, "Usage: kist admin [--admin ADDR] [--data DIR] [--json] COMMAND\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        (void)fprintf(to, "  %s %s%s%s\n", commands[i].noun, commands[i].verb,
                      commands[i].arguments[0] == '\0' ? "" : " ", commands[i].arguments);
    }
    (void)fprintf(to,
                  "\n  --admin ADDR  the admin port [127.0.0.1:9001, or KIST_ADMIN_LISTEN]\n"
                  "  --data DIR    take the keys of root from DIR/root-credentials [kist-data]\n"
                  "  --json        print the answer as it came\n\n"
                  "The keys of root come from KIST_ROOT_ACCESS_KEY and KIST_ROOT_SECRET_KEY, "
                  "otherwise from that file.\n"
                  "`key add` makes a key and prints its secret, once; with KIST_NEW_ACCESS_KEY and "
                  "KIST_NEW_SECRET_KEY it\n"
                  "stores these.\n"
                  "`job add` deletes all keys of BUCKET that begin with PREFIX, in the background; "
                  "what a job has deleted\n"
                  "before `job pause` or `job cancel` stays deleted.\n"
                  "Clusters: kist admin cluster --help\n");
    return code;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- The command line ---- */

static const struct admin_command *command_find(const char *noun, const char *verb)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].noun, noun) == 0 && strcmp(commands[i].verb, verb) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* "NAME [OWNER]" wants one or two. */
static bool arguments_fit(const struct admin_command *command, int count)
{
    int most = 0;
    int least = 0;

    for (const char *c = command->arguments; *c != '\0'; c++) {
        bool begins = *c != ' ' && (c == command->arguments || c[-1] == ' ');

        most += begins ? 1 : 0;
        least += begins && *c != '[' ? 1 : 0;
    }
    return count >= least && count <= most;
}

static bool line_flag(struct admin_line *line, int argc, char *const *argv, int *at)
{
    const char **place = strcmp(argv[*at], "--admin") == 0  ? &line->address
                         : strcmp(argv[*at], "--data") == 0 ? &line->data
                                                            : NULL;

    if (strcmp(argv[*at], "--json") == 0) {
        line->json = true;
        return true;
    }
    if (place == NULL || *at + 1 >= argc) {
        return false;
    }
    *at += 1;
    *place = argv[*at];
    return true;
}

/* 0, or the exit code after a message. */
static int line_read(struct admin_line *line, int argc, char *const *argv)
{
    const char *words[2 + ARGUMENTS_MAX];
    int count = 0;

    for (int at = 0; at < argc; at++) {
        if (argv[at][0] == '-') {
            if (!line_flag(line, argc, argv, &at)) {
                (void)fprintf(
                    stderr,
                    "kist: admin: unknown option or no value: '%s'; see kist admin --help\n",
                    argv[at]);
                return CODE_USAGE;
            }
        } else if (count == 2 + ARGUMENTS_MAX) {
            return admin_usage(stderr, CODE_USAGE);
        } else {
            words[count] = argv[at];
            count += 1;
        }
    }
    line->command = count >= 2 ? command_find(words[0], words[1]) : NULL;
    if (line->command == NULL) {
        return admin_usage(stderr, CODE_USAGE);
    }
    line->argument_count = count - 2;
    for (int i = 2; i < count; i++) {
        line->arguments[i - 2] = words[i];
    }
    if (!arguments_fit(line->command, line->argument_count)) {
        (void)fprintf(stderr, "kist: usage: kist admin %s %s %s\n", line->command->noun,
                      line->command->verb, line->command->arguments);
        return CODE_USAGE;
    }
    return 0;
}

/* ---- Keys of root ---- */

/* Value of "NAME=" in the lines of the file; owned. */
static char *credentials_value(const char *content, const char *name)
{
    struct slice rest = slice_str(content);
    struct slice wanted = slice_str(name);

    while (rest.len > 0) {
        size_t len = slice_find(rest, '\n');
        struct slice row = slice_of(rest.data, len);

        if (slice_starts(row, wanted) && row.len > wanted.len && row.data[wanted.len] == '=') {
            struct slice value = slice_after(row, wanted.len + 1);

            return mem_copy(value.data, value.len);
        }
        rest = slice_after(rest, len + 1);
    }
    return NULL;
}

static int line_keys(struct env *env, struct admin_line *line)
{
    const char *access = variable("KIST_ROOT_ACCESS_KEY");
    const char *secret = variable("KIST_ROOT_SECRET_KEY");
    struct error error = {0};
    char path[1200];
    size_t len = 0;
    char *content;

    if (access != NULL && secret != NULL) {
        line->access_key = mem_copy(access, strnlen(access, 128));
        line->secret_key = mem_copy(secret, strnlen(secret, 128));
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/root-credentials", line->data);
    content = file_read_all(env, path, CREDENTIALS_FILE_MAX, &len, &error);
    if (content == NULL) {
        (void)fprintf(
            stderr,
            "kist: no keys of root: set KIST_ROOT_ACCESS_KEY and KIST_ROOT_SECRET_KEY, or name the "
            "data directory with --data (%s)\n",
            error.text);
        return CODE_USAGE;
    }
    line->access_key = credentials_value(content, "KIST_ROOT_ACCESS_KEY");
    line->secret_key = credentials_value(content, "KIST_ROOT_SECRET_KEY");
    mem_free(content);
    if (line->access_key == NULL || line->secret_key == NULL || strlen(line->access_key) > 128 ||
        strlen(line->secret_key) > 128) {
        (void)fprintf(stderr, "kist: %s holds no keys\n", path);
        return CODE_OPERATING;
    }
    return 0;
}

/* ---- The call and its answer ---- */

/* The path of the table with the first argument in place of its star. */
static void line_path(const struct admin_line *line, struct buffer *out)
{
    const char *path = line->command->path;
    const char *star = strchr(path, '*');

    buffer_printf(out, "/admin/v1/");
    if (star == NULL) {
        buffer_printf(out, "%s", path);
    } else {
        struct arena arena;

        arena_init(&arena);
        buffer_append(out, slice_of(path, (size_t)(star - path)));
        buffer_append(out, percent_encode(&arena, slice_str(line->arguments[0]), false));
        buffer_printf(out, "%s", star + 1);
        arena_deinit(&arena);
    }
    buffer_append_byte(out, '\0');
}

/* Owned text, or NULL. */
static char *line_body(const struct admin_line *line)
{
    const struct admin_command *command = line->command;
    json_t *body;
    char *text;

    ASSERT(command != NULL);
    if (strcmp(command->method, "POST") != 0 && strcmp(command->method, "PUT") != 0) {
        return NULL;
    }
    body = json_object();
    if (command->first != NULL) {
        json_object_set_new(body, command->first, json_string(line->arguments[0]));
    }
    if (command->second != NULL && line->argument_count == 2) {
        json_object_set_new(body, command->second, json_string(line->arguments[1]));
    }
    if (strcmp(command->noun, "key") == 0) {
        const char *access = variable("KIST_NEW_ACCESS_KEY");
        const char *secret = variable("KIST_NEW_SECRET_KEY");

        if (access != NULL) {
            json_object_set_new(body, "access_key", json_string(access));
        }
        if (secret != NULL) {
            json_object_set_new(body, "secret_key", json_string(secret));
        }
    }
    text = json_dumps(body, 0);
    json_decref(body);
    return text;
}

/* One row a line: the values in columns. */
static void print_list(const json_t *list)
{
    size_t index;
    const json_t *row;

    json_array_foreach(list, index, row)
    {
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)row, name, value)
        {
            if (json_is_string(value)) {
                (void)printf("%-32s ", json_string_value(value));
            } else if (json_is_integer(value)) {
                (void)printf("%s=%lld ", name, (long long)json_integer_value(value));
            } else if (json_is_true(value)) {
                (void)printf("%s ", name);
            }
        }
        (void)printf("\n");
    }
}

static int print_answer(const struct admin_line *line, const struct admin_client_call *call)
{
    json_error_t error;
    json_t *answer = json_loadb(call->reply.data, call->reply.len, 0, &error);
    const char *name;
    json_t *value;

    if (call->status != 200) {
        const char *text = json_string_value(json_object_get(answer, "error"));

        (void)fprintf(stderr, "kist: %s (status %d)\n", text != NULL ? text : "refused",
                      call->status);
        json_decref(answer);
        return CODE_OPERATING;
    }
    if (line->json) {
        (void)fwrite(call->reply.data, 1, call->reply.len, stdout);
    } else {
        json_object_foreach(answer, name, value)
        {
            if (json_is_array(value)) {
                print_list(value);
            } else if (json_is_string(value)) {
                (void)printf("%s %s\n", name, json_string_value(value));
            } else if (json_is_integer(value)) {
                (void)printf("%s %lld\n", name, (long long)json_integer_value(value));
            } else if (json_is_true(value)) {
                (void)printf("%s\n", name);
            }
        }
    }
    json_decref(answer);
    return 0;
}

static int line_run(struct env *env, struct admin_line *line)
{
    struct error error = {0};
    struct buffer path;
    char *body = line_body(line);
    struct admin_client_call call = {.address = line->address,
                                     .method = line->command->method,
                                     .access_key = line->access_key,
                                     .secret_key = line->secret_key,
                                     .body = slice_str(body)};
    int code;

    buffer_init(&path);
    line_path(line, &path);
    call.path = path.data;
    if (admin_client_run(env, &call, &error) != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        code = CODE_OPERATING;
    } else {
        code = print_answer(line, &call);
    }
    buffer_deinit(&call.reply);
    buffer_deinit(&path);
    free(body);
    return code;
}

int admin_main(int argc, char *const *argv)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    const char *address = variable("KIST_ADMIN_LISTEN");
    struct admin_line line = {.address = address != NULL ? address : "127.0.0.1:9001",
                              .data = "kist-data"};
    struct error error = {0};
    struct env_uv *world;
    int code;

    if (argc > 0 && (strcmp(argv[0], "cluster") == 0 || strcmp(argv[0], "metad") == 0)) {
        return admin_cluster_main(argc, argv);
    }
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return admin_usage(stdout, 0);
        }
    }
    if (argc > 0 && strcmp(argv[0], "segment") == 0) {
        return admin_segment_main(argc - 1, argv + 1);
    }
    code = line_read(&line, argc, argv);
    if (code != 0) {
        return code;
    }
    if (strlen(line.address) >= ENV_ADDRESS_MAX || strlen(line.data) > 1000) {
        (void)fprintf(stderr, "kist: --admin or --data is too long\n");
        return CODE_USAGE;
    }
    world = env_uv_open(&options, &error);
    if (world == NULL) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return CODE_OPERATING;
    }
    code = line_keys(env_uv_env(world, 0), &line);
    if (code == 0) {
        code = line_run(env_uv_env(world, 0), &line);
    }
    mem_free(line.access_key);
    mem_free(line.secret_key);
    env_uv_close(world);
    return code;
}
