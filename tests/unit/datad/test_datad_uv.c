/* The same datad on the real world: libuv, io_uring or the pool, RocksDB, files in a temporary
 * directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/env/env_uv.h"
#include "common/log/log.h"
#include "datad/datad.h"

enum { SHARDS = 200, LENGTH_MAX = 300 * 1024, MIB = 1024 * 1024 };

struct real {
    struct env_uv *world;
    struct env *env;
    struct datad *datad;
    struct data_client *data;
    char directory[64];
    struct datad_options options;
    uint32_t left; /* calls under way */
};

struct real_call {
    struct real *real;
    struct shard_writer writer;
    struct shard_read read;
    uint8_t *bytes;
    size_t len;
};

static void real_done(struct real *real)
{
    real->left -= 1;
    if (real->left == 0) {
        env_uv_stop(real->env);
    }
}

static void real_start(struct real *real, bool without_uring)
{
    struct error error = {0};

    real->world = env_uv_open(
        &(struct env_uv_options){.loop_count = 1, .without_uring = without_uring}, &error);
    assert_non_null(real->world);
    real->env = env_uv_env(real->world, 0);
    real->options = (struct datad_options){.env = real->env,
                                           .disk_count = 1,
                                           .segment_bytes = 16 * MIB,
                                           .free_bytes_min = MIB,
                                           .disks = {{.id = 1, .path = real->directory}}};
    assert_int_equal(datad_open(&real->datad, &real->options, &error), RC_OK);
    real->data = datad_client(real->datad, real->env);
    assert_true(real->data->healthy(real->data, 1));
}

static void real_closed(void *arg)
{
    struct real *real = arg;

    env_uv_stop(real->env);
}

static void real_stop(struct real *real)
{
    datad_close(real->datad, real_closed, real);
    env_uv_run(real->env);
    env_uv_close(real->world);
}

static void call_written(struct shard_writer *writer)
{
    struct real_call *call = CONTAINER_OF(writer, struct real_call, writer);

    real_done(call->real);
}

static void call_read(struct shard_read *read)
{
    struct real_call *call = CONTAINER_OF(read, struct real_call, read);

    real_done(call->real);
}

static struct shard_id id_of(struct real *real, uint32_t number)
{
    struct shard_id id = {.index = 0};

    be32_put(id.extent.bytes, 1);
    be64_put(id.extent.bytes + 8,
             real->env->clock->wall_ns(real->env) / 1000000000000ULL * 1000000);
    be64_put(id.extent.bytes + 16, number);
    return id;
}

static void calls_init(struct real *real, struct real_call *calls)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        calls[i].real = real;
        calls[i].len = (size_t)i * 7919 % LENGTH_MAX;
        calls[i].bytes = mem_alloc_raw(calls[i].len + 1);
        memset(calls[i].bytes, (int)(i & 0xff), calls[i].len);
        calls[i].writer = (struct shard_writer){
            .disk = 1,
            .shard = id_of(real, i),
            .origin = {.group = 1, .group_epoch = 1},
            .done = call_written
        };
    }
}

static void calls_read_all(struct real *real, struct real_call *calls)
{
    real->left = SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++) {
        memset(calls[i].bytes, 0xee, calls[i].len);
        calls[i].read = (struct shard_read){.disk = 1,
                                            .shard = calls[i].writer.shard,
                                            .len = calls[i].len,
                                            .to = calls[i].bytes,
                                            .done = call_read};
        real->data->read(real->data, &calls[i].read);
    }
    env_uv_run(real->env);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(calls[i].read.rc, RC_OK);
        for (size_t at = 0; at < calls[i].len; at += 997) {
            assert_int_equal(calls[i].bytes[at], i & 0xff);
        }
    }
}

/* Threads, rings, RocksDB and files keep what the simulated world promised, also over a restart. */
static void writes_survive_a_restart(bool without_uring)
{
    struct real real = {.directory = "/tmp/kist-datad-XXXXXX"};
    struct real_call *calls = mem_alloc(SHARDS * sizeof(*calls));
    char command[128];

    assert_non_null(mkdtemp(real.directory));
    log_set_level(LOG_LEVEL_ERROR);
    real_start(&real, without_uring);
    calls_init(&real, calls);
    real.left = SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++) {
        real.data->put(real.data, &calls[i].writer, slice_of(calls[i].bytes, calls[i].len));
    }
    env_uv_run(real.env);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(calls[i].writer.rc, RC_OK);
    }
    calls_read_all(&real, calls);
    real_stop(&real);
    real_start(&real, without_uring);
    calls_read_all(&real, calls);
    real_stop(&real);
    for (uint32_t i = 0; i < SHARDS; i++) {
        mem_free(calls[i].bytes);
    }
    mem_free(calls);
    (void)snprintf(command, sizeof(command), "rm -rf %s", real.directory);
    assert_int_equal(system(command), 0);
}

static void with_io_uring(void **state)
{
    (void)state;
    writes_survive_a_restart(false);
}

static void with_the_pool(void **state)
{
    (void)state;
    writes_survive_a_restart(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_io_uring),
        cmocka_unit_test(with_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
