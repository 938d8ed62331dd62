/*
 * Jobs of one shard that meet in one batch of the disk's queue: the outcome must be that of one
 * order, and a remove that was answered is never undone.
 */
#include "tests/unit/datad/fixture.h"

#include "datad/store/store.h"

enum { LENGTH = 3000, JOBS_MAX = 4 };

struct disk {
    struct sim *sim;
    struct env *env;
    struct store *store;
    uint32_t left;
    struct shard_id id;
    struct shard_origin origin;
    uint8_t bytes[LENGTH];
    uint32_t crcs[1];
    struct disk_job {
        struct disk *disk;
        struct store_job job;
        struct store_writer writer;
    } jobs[JOBS_MAX];
    uint32_t job_count;
};

static void disk_job_done(struct store_job *job)
{
    struct disk_job *one = CONTAINER_OF(job, struct disk_job, job);

    one->disk->left -= 1;
}

static bool disk_quiet(void *arg)
{
    return ((struct disk *)arg)->left == 0;
}

static void disk_wait(struct disk *disk)
{
    assert_true(sim_run_until(disk->sim, disk_quiet, disk, 10 * SIM_S));
}

static struct store_job *disk_submit(struct disk *disk, enum store_job_kind kind,
                                     struct store_writer *writer)
{
    struct disk_job *one = &disk->jobs[disk->job_count % JOBS_MAX];

    disk->job_count += 1;
    disk->left += 1;
    one->disk = disk;
    one->job = (struct store_job){.kind = kind,
                                  .done = disk_job_done,
                                  .shard = disk->id,
                                  .writer = writer,
                                  .origin = &disk->origin,
                                  .bytes = slice_of(disk->bytes, LENGTH)};
    store_submit(disk->store, disk->env, &one->job);
    return &one->job;
}

static struct store_writer disk_writer(struct disk *disk, uint32_t attempt)
{
    struct store_writer writer = {
        .shard = disk->id, .attempt = attempt, .reserved_bytes = LENGTH, .crcs = disk->crcs};

    list_init(&writer.link);
    return writer;
}

static void disk_open(struct disk *disk)
{
    *disk = (struct disk){.env = sim_env_alone(1)};
    disk->sim = sim_of(disk->env);
    sim_kv_paths_open(disk->sim);
    log_set_level(FIXTURE_QUIET);
    disk->store = store_open(&(struct store_options){.env = disk->env,
                                                     .id = 1,
                                                     .path = "/",
                                                     .segment_bytes = MIB,
                                                     .free_bytes_min = MIB,
                                                     .kv_open = sim_kv_paths_kv_open},
                             NULL);
    assert_int_equal(store_state(disk->store), STORE_HEALTHY);
    store_start(disk->store, disk->env);
    be64_put(disk->id.extent.bytes + 8, disk->env->clock->wall_ns(disk->env) / 1000000);
}

static void disk_close(struct disk *disk)
{
    (void)disk_submit(disk, JOB_CLOSE, NULL);
    disk_wait(disk);
    store_free(disk->store, disk->env);
    sim_kv_paths_close();
    sim_free(disk->sim);
}

static enum rc disk_look(struct disk *disk, struct index_row *row)
{
    enum rc rc = index_get(&disk->store->index, &disk->id, KV_ANY, row, NULL);

    return rc == RC_OK && row->kind == INDEX_DEAD ? RC_NOT_FOUND : rc;
}

/* A shard, and the writer that compaction would move it with. */
static struct store_writer disk_put_and_move(struct disk *disk)
{
    struct store_writer put = disk_writer(disk, 0);
    struct store_writer move = disk_writer(disk, 0);
    struct index_row row;

    (void)disk_submit(disk, JOB_PUT, &put);
    disk_wait(disk);
    assert_int_equal(disk_look(disk, &row), RC_OK);
    move.move = true;
    move.move_segment = row.segment;
    move.move_at = row.at;
    return move;
}

/* The move is begun in the same batch as the remove, which is not in the index yet. */
static void remove_wins_against_move_begun_with_it(void **state)
{
    struct disk disk;
    struct index_row row;
    struct store_writer move;
    const struct store_job *remove;
    const struct store_job *begin;

    (void)state;
    disk_open(&disk);
    move = disk_put_and_move(&disk);
    remove = disk_submit(&disk, JOB_REMOVE, NULL);
    begin = disk_submit(&disk, JOB_BEGIN, &move);
    disk_wait(&disk);
    assert_int_equal(remove->rc, RC_OK);
    assert_int_equal(begin->rc, RC_NOT_FOUND);
    assert_int_equal(disk_look(&disk, &row), RC_NOT_FOUND);
    disk_close(&disk);
}

/* The remove comes while the move is under way, in a batch of its own or in that of the seal. */
static void remove_wins_against_move_under_way(void **state)
{
    (void)state;
    for (uint32_t together = 0; together < 2; together++) {
        struct disk disk;
        struct index_row row;
        struct store_writer move;
        const struct store_job *seal;
        disk_open(&disk);
        move = disk_put_and_move(&disk);
        (void)disk_submit(&disk, JOB_BEGIN, &move);
        disk_wait(&disk);
        move.appended_bytes = LENGTH;
        (void)disk_submit(&disk, JOB_REMOVE, NULL);
        if (together == 0) {
            disk_wait(&disk);
        }
        seal = disk_submit(&disk, JOB_SEAL, &move);
        disk_wait(&disk);
        assert_int_equal(seal->rc, RC_NOT_FOUND);
        assert_int_equal(disk_look(&disk, &row), RC_NOT_FOUND);
        disk_close(&disk);
    }
}

/* A remove behind a seal in one batch removes what was sealed; a second one is harmless; sums are
 * right. */
static void seal_and_removes_in_one_batch(void **state)
{
    struct disk disk;
    struct index_row row;
    struct store_writer put;
    const struct store_job *jobs[3];

    (void)state;
    disk_open(&disk);
    put = disk_writer(&disk, 0);
    jobs[0] = disk_submit(&disk, JOB_PUT, &put);
    jobs[1] = disk_submit(&disk, JOB_REMOVE, NULL);
    jobs[2] = disk_submit(&disk, JOB_REMOVE, NULL);
    disk_wait(&disk);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(jobs[i]->rc, RC_OK);
    }
    assert_int_equal(disk_look(&disk, &row), RC_NOT_FOUND);
    (void)disk_submit(&disk, JOB_TICK, NULL);
    disk_wait(&disk);
    assert_int_equal(atomic_load(&disk.store->live_bytes), 0);
    disk_close(&disk);
}

/* Two writes of one id in one batch: one wins, the other is told. */
static void two_puts_in_one_batch(void **state)
{
    struct disk disk;
    struct store_writer first;
    struct store_writer second;
    const struct store_job *jobs[2];

    (void)state;
    disk_open(&disk);
    first = disk_writer(&disk, 0);
    second = disk_writer(&disk, 0);
    jobs[0] = disk_submit(&disk, JOB_PUT, &first);
    jobs[1] = disk_submit(&disk, JOB_PUT, &second);
    disk_wait(&disk);
    assert_int_equal(jobs[0]->rc, RC_OK);
    assert_int_equal(jobs[1]->rc, RC_EXISTS);
    disk_close(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remove_wins_against_move_begun_with_it),
        cmocka_unit_test(remove_wins_against_move_under_way),
        cmocka_unit_test(seal_and_removes_in_one_batch),
        cmocka_unit_test(two_puts_in_one_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
