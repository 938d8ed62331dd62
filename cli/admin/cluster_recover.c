/* `kist admin metad recover`: offline, on one directory. */
#include <stdio.h>
#include <string.h>

#include "cli/admin/cluster_private.h"
#include "cli/directory_files.h"
#include "common/base/assert.h"
#include "metad/cluster/node_recover.h"

struct recover_wait {
    struct node_recover recover;
    struct env *env;
};

static void recover_done(struct node_recover *recover)
{
    env_uv_stop(CONTAINER_OF(recover, struct recover_wait, recover)->env);
}

static int recover_print(const struct node_recover *recover, const char *directory)
{
    if (recover->error.rc != RC_OK) {
        (void)fprintf(stderr, "kist: %s: %s\n", directory, recover->error.text);
        return CODE_OPERATING;
    }
    (void)printf("%s: node %llu, log up to term %llu index %llu, cluster epoch %llu\n", directory,
                 (unsigned long long)recover->node_id, (unsigned long long)recover->term,
                 (unsigned long long)recover->last_index,
                 (unsigned long long)recover->cluster_epoch);
    if (!recover->write) {
        (void)printf(
            "Nothing was changed. Look at every directory that is left, take the one with the "
            "highest term, then index,\nand repeat there with --yes-lose-unreplicated: whatever "
            "only the lost ones held is LOST.\n");
        return 0;
    }
    (void)printf("It is a cluster of one now. Start it; empty the directories of the others, which "
                 "join again.\n");
    return 0;
}

int cluster_recover(const struct cluster_line *line)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct recover_wait wait = {
        .recover = {.write = line->lose, .done = recover_done}
    };
    struct error error = {.rc = RC_OK};
    struct env_uv *world;
    int code = CODE_OPERATING;
    int lock = -1;

    if (line->data == NULL || strlen(line->data) > DIRECTORY_PATH_BYTES_MAX - 16) {
        (void)fprintf(stderr, "kist: no data directory: --data DIR\n");
        return CODE_USAGE;
    }
    world = env_uv_open(&options, &error);
    if (world == NULL) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
        return CODE_OPERATING;
    }
    wait.env = env_uv_env(world, 0);
    if (directory_files_lock(wait.env, line->data, &lock, &error) != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
    } else {
        wait.recover.env = wait.env;
        wait.recover.directory = line->data;
        node_recover(&wait.recover);
        env_uv_run(wait.env);
        code = recover_print(&wait.recover, line->data);
        wait.env->file->close(wait.env, lock);
    }
    env_uv_close(world);
    return code;
}
