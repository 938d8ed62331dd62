#include "cli/admin/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "cli/admin/cluster_private.h"
#include "cli/metad_options.h"
#include "common/base/assert.h"
#include "common/base/mem.h"

void admin_cluster_usage(FILE *to)
{
    (void)fprintf(
        to, "Usage: kist admin cluster|metad COMMAND --metad HOST:PORT,... "
            "[--cluster-key-file FILE]\n\n"
            "  cluster key                prints a new cluster key\n"
            "  cluster init               makes the cluster, once: of one, three or five metads\n"
            "  metad list                 who is of it, who leads\n"
            "  metad add ADDRESS          a metad that waits joins\n"
            "  metad remove NODE          NODE: an id, a name or an address\n"
            "  metad replace NODE ADDRESS ADDRESS joins, then NODE is removed\n"
            "  metad transfer             another one leads\n"
            "  metad recover --data DIR   a majority is lost for good: the directory of a stopped "
            "metad\n"
            "                             becomes a cluster of one; without "
            "--yes-lose-unreplicated it\n"
            "                             only says how new its log is\n\n"
            "The key comes from --cluster-key-file or KIST_CLUSTER_KEY, the addresses also from "
            "KIST_METAD.\n");
}

static const char *variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *cluster_text(struct arena *arena, ProtobufCBinaryData from)
{
    return arena_copy(arena, slice_of(from.data, from.len)).data;
}

static bool line_metads(struct cluster_line *line, const char *text)
{
    char *at;

    mem_free(line->texts);
    line->texts = mem_copy(text, strlen(text));
    line->metad_count = 0;
    for (at = line->texts; at != NULL && *at != '\0';) {
        char *comma = strchr(at, ',');

        if (comma != NULL) {
            *comma++ = '\0';
        }
        if (line->metad_count == NODE_PEERS_MAX || !address_reachable(at)) {
            (void)fprintf(stderr, "kist: --metad: '%s': want HOST:PORT, at most %d\n", at,
                          NODE_PEERS_MAX);
            return false;
        }
        line->metads[line->metad_count++] = at;
        at = comma;
    }
    return true;
}

static bool line_flag(struct cluster_line *line, const char *flag, const char *value)
{
    if (strcmp(flag, "--metad") == 0 && value != NULL) {
        return line_metads(line, value);
    }
    if (strcmp(flag, "--cluster-key-file") == 0 && value != NULL) {
        line->key_file = value;
        return true;
    }
    if (strcmp(flag, "--data") == 0 && value != NULL) {
        line->data = value;
        return true;
    }
    (void)fprintf(stderr, "kist: unknown option or no value: %s; see kist admin metad --help\n",
                  flag);
    return false;
}

static bool line_read(struct cluster_line *line, int argc, char *const *argv)
{
    const char *metads = variable("KIST_METAD");

    if (metads != NULL && !line_metads(line, metads)) {
        return false;
    }
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--yes-lose-unreplicated") == 0) {
            line->lose = true;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            if (!line_flag(line, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) {
                return false;
            }
            i++;
        } else if (line->word_count < CLUSTER_WORDS_MAX) {
            line->words[line->word_count++] = argv[i];
        }
    }
    return true;
}

static bool line_is(const struct cluster_line *line, const char *noun, const char *verb, int more)
{
    return line->word_count == 2 + more && strcmp(line->words[0], noun) == 0 &&
           strcmp(line->words[1], verb) == 0;
}

static int line_key(void)
{
    char text[CLUSTER_KEY_TEXT_BYTES + 1];
    struct cluster_key key;

    cluster_key_generate(&key);
    cluster_key_format(&key, text);
    (void)printf("%s\n", text);
    cluster_key_wipe(&key);
    return 0;
}

static int line_run(struct cluster_line *line)
{
    if (line_is(line, "cluster", "init", 0)) {
        return cluster_init(line);
    }
    if (line_is(line, "metad", "list", 0)) {
        return cluster_list(line);
    }
    if (line_is(line, "metad", "add", 1)) {
        return cluster_add(line, line->words[2]);
    }
    if (line_is(line, "metad", "remove", 1)) {
        return cluster_remove(line, line->words[2]);
    }
    if (line_is(line, "metad", "replace", 2)) {
        return cluster_replace(line, line->words[2], line->words[3]);
    }
    if (line_is(line, "metad", "transfer", 0)) {
        return cluster_transfer(line);
    }
    admin_cluster_usage(stderr);
    return CODE_USAGE;
}

static enum rc line_open(struct cluster_line *line, struct error *error)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct env_uv *world = env_uv_open(&options, error);
    struct cluster_key key;
    enum rc rc = RC_IO;

    if (world == NULL) {
        return rc;
    }
    rc = cluster_key_from(env_uv_env(world, 0), line->key_file, variable("KIST_CLUSTER_KEY"), &key,
                          error);
    env_uv_close(world);
    if (rc == RC_OK && line->metad_count == 0) {
        rc = error_set(error, RC_INVALID, "no metad named: --metad HOST:PORT,...");
    }
    if (rc == RC_OK) {
        line->asker = cluster_asker_open(&key, error);
        rc = line->asker != NULL ? RC_OK : RC_IO;
    }
    cluster_key_wipe(&key);
    return rc;
}

int admin_cluster_main(int argc, char *const *argv)
{
    struct cluster_line line = {.word_count = 0};
    struct error error = {.rc = RC_OK};
    int code = CODE_USAGE;

    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            admin_cluster_usage(stdout);
            return 0;
        }
    }
    if (!line_read(&line, argc, argv)) {
        code = CODE_USAGE;
    } else if (line_is(&line, "cluster", "key", 0)) {
        code = line_key();
    } else if (line_is(&line, "metad", "recover", 0)) {
        code = cluster_recover(&line);
    } else if (line_open(&line, &error) != RC_OK) {
        (void)fprintf(stderr, "kist: %s\n", error.text);
    } else {
        code = line_run(&line);
        cluster_asker_close(line.asker);
    }
    mem_free(line.texts);
    return code;
}
