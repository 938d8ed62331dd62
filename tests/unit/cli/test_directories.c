/*
 * Which directories are served, refilled or refused. Mistakes here lose data: each refusal must
 * name the directory and the way out, and touch nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/directories.h"
#include "common/env/env_uv.h"

struct fixture {
    struct env_uv *world;
    struct env *env;
    char root[64];
    struct config_list paths;
    struct directories directories;
    struct error error;
};

/* A shell command in which $A and $B stand for the two arguments. */
static void run(const char *command, const char *a, const char *b)
{
    assert_int_equal(setenv("A", a, 1), 0);
    assert_int_equal(setenv("B", b, 1), 0);
    assert_int_equal(system(command),
                     0); /* NOLINT(cert-env33-c): the commands stand in this file */
}

static void name_directories(struct fixture *fixture, uint32_t count)
{
    for (uint32_t i = 0; i < fixture->paths.count; i++) {
        free(fixture->paths.items[i]);
    }
    fixture->paths.count = count;
    for (uint32_t i = 0; i < count; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/d%u", fixture->root, i);
        fixture->paths.items[i] = strdup(path);
    }
}

static int setup(void **state)
{
    const struct env_uv_options options = {.loop_count = 1, .pool_count = 1, .without_uring = true};
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->world = env_uv_open(&options, NULL);
    fixture->env = env_uv_env(fixture->world, 0);
    (void)snprintf(fixture->root, sizeof(fixture->root), "/tmp/kist-test-directories-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    name_directories(fixture, 0);
    run("rm -rf $A$B", fixture->root, "");
    env_uv_close(fixture->world);
    free(fixture);
    return 0;
}

static enum rc open_all(struct fixture *fixture)
{
    memset(&fixture->error, 0, sizeof(fixture->error));
    return directories_open(fixture->env, &fixture->paths, 1, &fixture->directories,
                            &fixture->error);
}

static void close_all(struct fixture *fixture)
{
    directories_close(fixture->env, &fixture->directories);
}

/* What metad and datad make between form and commit. */
static void make_contents(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->directories.count; i++) {
        const struct directory *directory = &fixture->directories.items[i];

        if (directory->state == DIRECTORY_EMPTY) {
            run("mkdir -p $A/meta/log $A/meta/state $B/data/segments", directory->path,
                directory->path);
        }
    }
}

/* A first start of `count` directories with disk ids 1, 2, ... */
static void make_cluster(struct fixture *fixture, uint32_t count)
{
    name_directories(fixture, count);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_true(fixture->directories.first_start);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    make_contents(fixture);
    for (uint32_t i = 0; i < count; i++) {
        fixture->directories.items[i].disk_id = i + 1;
    }
    assert_int_equal(directories_commit(fixture->env, &fixture->directories, &fixture->error),
                     RC_OK);
    close_all(fixture);
}

static void expect_refusal(struct fixture *fixture, enum rc rc, const char *text)
{
    enum rc got = open_all(fixture);

    if (got != rc || strstr(fixture->error.text, text) == NULL) {
        fail_msg("got %s: '%s', want %s: '%s'", rc_name(got), fixture->error.text, rc_name(rc),
                 text);
    }
    assert_null(strchr(fixture->error.text, '\n'));
}

/* The second start finds what the first one made, whatever the order on the command line. */
static void start_again_in_any_order(void **state)
{
    struct fixture *fixture = *state;
    char *first;

    make_cluster(fixture, 4);
    first = fixture->paths.items[0];
    fixture->paths.items[0] = fixture->paths.items[3];
    fixture->paths.items[3] = first;
    assert_int_equal(open_all(fixture), RC_OK);
    assert_false(fixture->directories.first_start);
    assert_int_equal(fixture->directories.empty_count + fixture->directories.missing_count, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(fixture->directories.items[i].disk_id, i + 1);
    }
    assert_string_equal(fixture->directories.items[0].path, first);
    close_all(fixture);
}

/* Two processes on one directory would destroy it. */
static void second_process_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct directories other;
    struct error error = {0};

    make_cluster(fixture, 2);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(directories_open(fixture->env, &fixture->paths, 1, &other, &error), RC_LOCKED);
    assert_non_null(strstr(error.text, "in use"));
    close_all(fixture);
    assert_int_equal(open_all(fixture),
                     RC_OK); /* the refused one has released what it had locked */
    close_all(fixture);
}

/* An empty directory among members is a new disk in the old one's place; committing makes it a
 * member. */
static void empty_directory_is_refilled(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 4);
    run("rm -rf $A/$B/*", fixture->root, "d2");
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(fixture->directories.empty_count, 1);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    assert_int_equal(fixture->directories.items[2].replaced_id, 3);
    make_contents(fixture);
    fixture->directories.items[2].disk_id = 9;
    assert_int_equal(directories_commit(fixture->env, &fixture->directories, &fixture->error),
                     RC_OK);
    close_all(fixture);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(fixture->directories.empty_count, 0);
    assert_int_equal(fixture->directories.items[2].disk_id, 9);
    close_all(fixture);
}

/* A crash between form and commit of a refill must not block the next start, nor count as data. */
static void cut_short_refill_begins_again(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 3);
    run("rm -rf $A/$B/*", fixture->root, "d1");
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    make_contents(fixture);
    close_all(fixture); /* the crash */
    run("touch $A/$B/meta/half", fixture->root, "d1");
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(fixture->directories.empty_count, 1);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    assert_int_not_equal(access(fixture->paths.items[1], F_OK), -1);
    run("test ! -e $A/$B/meta/half", fixture->root, "d1");
    close_all(fixture);
}

/* A first start that was cut short has answered nobody: it begins again, with any number of
 * directories. */
static void cut_short_first_start_begins_again(void **state)
{
    struct fixture *fixture = *state;

    name_directories(fixture, 3);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    make_contents(fixture);
    close_all(fixture);
    name_directories(fixture, 4);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_true(fixture->directories.first_start);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    run("test ! -e $A/$B/meta", fixture->root, "d1");
    close_all(fixture);
}

/* A path that is gone is served without; one that returns is a member again. */
static void missing_directory_is_served_without(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 4);
    run("mv $A/d3 $B/away", fixture->root, fixture->root);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(fixture->directories.missing_count, 1);
    assert_int_equal(fixture->directories.items[3].state, DIRECTORY_MISSING);
    assert_int_equal(fixture->directories.items[3].disk_id, 4);
    close_all(fixture);
    run("mv $A/away $B/d3", fixture->root, fixture->root);
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(fixture->directories.missing_count, 0);
    close_all(fixture);
}

/* More losses than parity would look like a fresh, empty store. */
static void too_many_empty_are_refused(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 4);
    run("rm -rf $A/$B/*", fixture->root, "d1");
    run("rm -rf $A/$B/*", fixture->root, "d2"); /* two of three metadata replicas */
    expect_refusal(fixture, RC_NO_QUORUM, "2 of 4 data directories are empty or missing");
    run("test -z \"$(ls -A $A/$B)\"", fixture->root, "d1"); /* nothing touched */
}

/* The identity alone, without what it vouched for, is a disk that lost data: not a start from
 * scratch. */
static void lost_contents_are_refused(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 1);
    run("rm -rf $A/$B/data", fixture->root, "d0");
    expect_refusal(fixture, RC_CORRUPT, "data/ is missing though data was here");
    run("mkdir $A/$B/data", fixture->root, "d0");
    expect_refusal(fixture, RC_CORRUPT, "data/segments/ is missing though data was here");
    run("mkdir $A/$B/data/segments", fixture->root, "d0");
    run("rm -rf $A/$B/meta", fixture->root, "d0");
    expect_refusal(fixture, RC_CORRUPT, "meta/ is missing though data was here");
}

/* A wrong path must not be written into. */
static void foreign_files_are_refused(void **state)
{
    struct fixture *fixture = *state;

    name_directories(fixture, 1);
    run("mkdir $A/$B", fixture->root, "d0");
    run("touch $A/$B/holiday.jpg", fixture->root, "d0");
    expect_refusal(fixture, RC_UNSUPPORTED, "holds files but no kist identity");
    run("test \"$(ls -A $A/$B)\" = holiday.jpg", fixture->root, "d0");
}

/* Directories of two clusters mixed up would serve neither. */
static void another_cluster_is_refused(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 2);
    run("mkdir $A/$B", fixture->root, "kept");
    run("mv $A/d1 $B/kept/", fixture->root, fixture->root);
    run("rm -rf $A/$B", fixture->root, "d0");
    make_cluster(fixture, 2);
    run("rm -rf $A/$B", fixture->root, "d1");
    run("mv $A/kept/d1 $B/d1", fixture->root, fixture->root);
    expect_refusal(fixture, RC_INVALID, "belongs to another cluster");
}

/* A replaced disk that comes back holds old data under an old epoch: it must not take part again.
 */
static void replaced_disk_is_refused(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 3);
    run("cp -a $A/d1 $B/old", fixture->root, fixture->root);
    run("rm -rf $A/$B/*", fixture->root, "d1");
    assert_int_equal(open_all(fixture), RC_OK);
    assert_int_equal(directories_form(fixture->env, &fixture->directories, &fixture->error), RC_OK);
    make_contents(fixture);
    fixture->directories.items[1].disk_id = 7;
    assert_int_equal(directories_commit(fixture->env, &fixture->directories, &fixture->error),
                     RC_OK);
    close_all(fixture);
    run("rm -rf $A/$B", fixture->root, "d1");
    run("mv $A/old $B/d1", fixture->root, fixture->root);
    expect_refusal(fixture, RC_STALE, "has been replaced");
}

/* Damage and formats of a later kist are named, not overwritten. */
static void unusable_identity_is_refused(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 1);
    run("echo garbage > $A/$B/identity", fixture->root, "d0");
    expect_refusal(fixture, RC_UNSUPPORTED, "its identity cannot be used");
}

/* Leaving one out by mistake must not read as "it is lost". */
static void all_directories_must_be_named(void **state)
{
    struct fixture *fixture = *state;

    make_cluster(fixture, 4);
    name_directories(fixture, 3);
    expect_refusal(fixture, RC_INVALID, "the cluster has 4 data directories, 3 are named");
}

/* A mount point that is not there is a mistake, not a place to make directories in. */
static void path_without_parent_is_refused(void **state)
{
    struct fixture *fixture = *state;

    name_directories(fixture, 1);
    free(fixture->paths.items[0]);
    fixture->paths.items[0] = strdup("/tmp/kist-no-such-parent/data");
    expect_refusal(fixture, RC_INVALID,
                   "neither it nor the directory /tmp/kist-no-such-parent exists");
}

/* A full disk is told before anything is written to it. */
static void full_disk_is_refused_at_first_start(void **state)
{
    struct fixture *fixture = *state;

    name_directories(fixture, 1);
    assert_int_equal(directories_open(fixture->env, &fixture->paths, UINT64_MAX,
                                      &fixture->directories, &fixture->error),
                     RC_FULL);
    assert_non_null(strstr(fixture->error.text, "the disk is full"));
    assert_int_equal(access(fixture->paths.items[0], F_OK), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(start_again_in_any_order),
        TEST(second_process_is_refused),
        TEST(empty_directory_is_refilled),
        TEST(cut_short_refill_begins_again),
        TEST(cut_short_first_start_begins_again),
        TEST(missing_directory_is_served_without),
        TEST(too_many_empty_are_refused),
        TEST(lost_contents_are_refused),
        TEST(foreign_files_are_refused),
        TEST(another_cluster_is_refused),
        TEST(replaced_disk_is_refused),
        TEST(unusable_identity_is_refused),
        TEST(all_directories_must_be_named),
        TEST(path_without_parent_is_refused),
        TEST(full_disk_is_refused_at_first_start),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
