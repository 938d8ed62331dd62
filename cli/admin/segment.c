/* `kist admin segment dump|verify PATH`: looks into segment files without a server
 * (datad/store/inspect.h). */
#include "cli/admin/segment.h"

#include <stdio.h>
#include <string.h>

#include "common/env/env_uv.h"
#include "datad/store/inspect.h"

enum { CODE_BAD = 1, CODE_USAGE = 2 };

static void segment_on_line(struct inspect *inspect, const char *text)
{
    (void)inspect;
    (void)printf("%s\n", text);
}

static enum rc segment_look(struct env *env, const char *path, struct inspect *inspect,
                            struct error *error)
{
    struct env_stat stat;
    enum rc rc = env->file->stat(env, path, &stat);

    if (rc != RC_OK) {
        return error_set(error, rc, "%s: %s", path, rc_text(rc));
    }
    return stat.is_directory ? inspect_directory(inspect, path, error)
                             : inspect_file(inspect, path, error);
}

int admin_segment_main(int argc, char *const *argv)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    bool verify = argc == 2 && strcmp(argv[0], "verify") == 0;
    struct inspect inspect = {.verify = verify, .dump = !verify, .line = segment_on_line};
    const struct inspect_result *sum = &inspect.result;
    struct error error = {0};
    struct env_uv *world;
    enum rc rc;

    if (argc != 2 || (!verify && strcmp(argv[0], "dump") != 0)) {
        (void)fprintf(stderr, "kist: usage: kist admin segment dump|verify PATH (a segment file or "
                              "a data directory)\n");
        return CODE_USAGE;
    }
    world = env_uv_open(&options, &error);
    if (world == NULL) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return CODE_BAD;
    }
    inspect.env = env_uv_env(world, 0);
    rc = segment_look(inspect.env, argv[1], &inspect, &error);
    env_uv_close(world);
    (void)printf("%llu segments, %llu shards of %llu bytes, %llu deletes, %llu unfinished; bad: "
                 "%llu shards, %llu "
                 "segments, %llu read errors\n",
                 (unsigned long long)sum->segments, (unsigned long long)sum->shards,
                 (unsigned long long)sum->shard_bytes, (unsigned long long)sum->deletes,
                 (unsigned long long)sum->unfinished, (unsigned long long)sum->bad_shards,
                 (unsigned long long)sum->bad_segments, (unsigned long long)sum->read_errors);
    if (rc != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return CODE_BAD;
    }
    return 0;
}
