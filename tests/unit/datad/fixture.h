/*
 * A datad in the simulated world, and calls that wait: put, read, remove, stat. Payloads are a
 * function of (shard, length), so a test only keeps what it wrote in its head.
 */
#ifndef TESTS_UNIT_DATAD_FIXTURE_H
#define TESTS_UNIT_DATAD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "datad/datad.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/sim_kv_paths.h"

/* No line is logged: a test that breaks disks on purpose. */
#define FIXTURE_QUIET ((enum log_level) - 1)

enum { KIB = 1024, MIB = 1024 * 1024, FIXTURE_DISKS_MAX = 8, FIXTURE_SEGMENT = 4 * MIB };

struct fixture {
    struct sim *sim;
    struct sim_node *node;
    struct env *env;
    struct datad *datad;
    struct data_client *data;
    struct datad_options options;
    char paths[FIXTURE_DISKS_MAX][8];
    uint32_t disks;
    bool done;
};

static inline bool fixture_is_done(void *arg)
{
    return ((struct fixture *)arg)->done;
}

static inline bool fixture_wait(struct fixture *f)
{
    bool done = sim_run_until(f->sim, fixture_is_done, f, 60 * SIM_S);

    f->done = false;
    return done;
}

static inline void fixture_start(struct fixture *f)
{
    struct error error = {0};

    f->env = sim_env_new(f->node);
    f->options.env = f->env;
    assert_int_equal(datad_open(&f->datad, &f->options, &error), RC_OK);
    f->data = datad_client(f->datad, f->env);
}

static inline void fixture_init(struct fixture *f, uint64_t seed, uint32_t disks)
{
    *f = (struct fixture){.sim = sim_new(seed), .disks = disks};
    log_set_level(FIXTURE_QUIET);
    sim_kv_paths_open(f->sim);
    f->node = sim_node_new(f->sim, "n1");
    f->options = (struct datad_options){.disk_count = disks,
                                        .segment_bytes = FIXTURE_SEGMENT,
                                        .free_bytes_min = 8 * MIB,
                                        .kv_open = sim_kv_paths_kv_open,
                                        .cluster_epoch = 1};
    for (uint32_t i = 0; i < disks; i++) {
        (void)snprintf(f->paths[i], sizeof(f->paths[i]), "/d%u", i);
        sim_mount(f->node, f->paths[i]);
        f->options.disks[i] = (struct datad_disk_options){.id = i + 1, .path = f->paths[i]};
    }
    fixture_start(f);
}

static inline void fixture_closed(void *arg)
{
    ((struct fixture *)arg)->done = true;
}

static inline void fixture_stop(struct fixture *f)
{
    datad_close(f->datad, fixture_closed, f);
    assert_true(fixture_wait(f));
    f->datad = NULL;
}

static inline void fixture_deinit(struct fixture *f)
{
    if (f->datad != NULL) {
        fixture_stop(f);
    }
    sim_kv_paths_close();
    sim_free(f->sim);
}

/* kill -9 or a power cut, then a new start. */
static inline void fixture_crash(struct fixture *f, enum sim_crash how)
{
    sim_crash(f->node, how);
    for (uint32_t i = 0; i < f->disks; i++) {
        sim_kv_paths_crash(f->paths[i], how);
    }
    f->datad = NULL;
    fixture_start(f);
}

static inline struct shard_id fixture_id(struct fixture *f, uint32_t number, uint32_t index)
{
    struct shard_id id = {.index = index};

    be32_put(id.extent.bytes, 1);
    be32_put(id.extent.bytes + 4, 1);
    be64_put(id.extent.bytes + 8, f->env->clock->wall_ns(f->env) / 1000000 / 86400000 * 86400000);
    be64_put(id.extent.bytes + 16, number);
    return id;
}

static inline void fixture_fill(const struct shard_id *id, uint8_t *to, size_t len)
{
    uint32_t state = (uint32_t)be64_get(id->extent.bytes + 16) * 2654435761U + id->index + 1;

    for (size_t i = 0; i < len; i++) {
        state = state * 1664525U + 1013904223U;
        to[i] = (uint8_t)(state >> 24);
    }
}

static inline void fixture_writer_done(struct shard_writer *writer)
{
    struct fixture *f = (struct fixture *)(uintptr_t)writer->reserved[79];

    f->done = true;
}

static inline struct shard_writer fixture_writer(struct fixture *f, uint64_t disk,
                                                 struct shard_id id, uint64_t reserved)
{
    struct shard_writer writer = {
        .disk = disk,
        .shard = id,
        .reserved_bytes = reserved,
        .origin = {.home_bucket = 7, .home_key = SLICE("home/key"), .group = 1, .group_epoch = 1},
        .done = fixture_writer_done
    };

    writer.origin.layout = id.extent;
    writer.reserved[79] = (uint64_t)(uintptr_t)f;
    return writer;
}

static inline enum rc fixture_begin(struct fixture *f, struct shard_writer *writer)
{
    f->data->begin(f->data, writer);
    assert_false(f->done);
    assert_true(fixture_wait(f));
    return writer->rc;
}

static inline enum rc fixture_append(struct fixture *f, struct shard_writer *writer,
                                     struct slice bytes)
{
    f->data->append(f->data, writer, bytes);
    assert_true(fixture_wait(f));
    return writer->rc;
}

static inline enum rc fixture_seal(struct fixture *f, struct shard_writer *writer)
{
    f->data->seal(f->data, writer);
    assert_true(fixture_wait(f));
    return writer->rc;
}

static inline enum rc fixture_abort(struct fixture *f, struct shard_writer *writer)
{
    f->data->abort(f->data, writer);
    assert_true(fixture_wait(f));
    return writer->rc;
}

static inline enum rc fixture_put_as(struct fixture *f, struct shard_writer *writer, size_t len)
{
    uint8_t *bytes = mem_alloc_raw(len);

    fixture_fill(&writer->shard, bytes, len);
    f->data->put(f->data, writer, slice_of(bytes, len));
    assert_false(f->done);
    assert_true(fixture_wait(f));
    mem_free(bytes);
    return writer->rc;
}

static inline enum rc fixture_put(struct fixture *f, uint64_t disk, struct shard_id id, size_t len)
{
    struct shard_writer writer = fixture_writer(f, disk, id, len);

    return fixture_put_as(f, &writer, len);
}

static inline void fixture_read_done(struct shard_read *read)
{
    ((struct fixture *)(uintptr_t)read->reserved[79])->done = true;
}

/* Reads and compares: RC_INVALID when wrong bytes came with RC_OK. */
static inline enum rc fixture_read_range(struct fixture *f, uint64_t disk, struct shard_id id,
                                         uint64_t at, size_t len)
{
    uint8_t *got = mem_alloc(len);
    uint8_t *want = mem_alloc_raw((size_t)at + len);
    struct shard_read read = {
        .disk = disk, .shard = id, .at = at, .len = len, .to = got, .done = fixture_read_done};

    read.reserved[79] = (uint64_t)(uintptr_t)f;
    f->data->read(f->data, &read);
    assert_false(f->done);
    assert_true(fixture_wait(f));
    fixture_fill(&id, want, (size_t)at + len);
    if (read.rc == RC_OK && memcmp(got, want + at, len) != 0) {
        fail_msg("wrong bytes were given out as good");
    }
    mem_free(got);
    mem_free(want);
    return read.rc;
}

static inline enum rc fixture_read(struct fixture *f, uint64_t disk, struct shard_id id, size_t len)
{
    return fixture_read_range(f, disk, id, 0, len);
}

static inline void fixture_delete_done(struct shard_delete *call)
{
    ((struct fixture *)(uintptr_t)call->reserved[31])->done = true;
}

static inline enum rc fixture_remove(struct fixture *f, uint64_t disk, struct shard_id id)
{
    struct shard_delete call = {.disk = disk, .shard = id, .done = fixture_delete_done};

    call.reserved[31] = (uint64_t)(uintptr_t)f;
    f->data->remove(f->data, &call);
    assert_true(fixture_wait(f));
    return call.rc;
}

static inline void fixture_stat_done(struct shard_stat *call)
{
    ((struct fixture *)(uintptr_t)call->reserved[15])->done = true;
}

static inline struct shard_stat fixture_stat(struct fixture *f, uint64_t disk, struct shard_id id)
{
    struct shard_stat call = {
        .disk = disk, .shard = id, .want_origin = true, .done = fixture_stat_done};

    call.reserved[15] = (uint64_t)(uintptr_t)f;
    f->data->stat(f->data, &call);
    assert_true(fixture_wait(f));
    return call;
}

static inline struct datad_disk_status fixture_status(struct fixture *f, uint32_t disk)
{
    struct datad_disk_status rows[FIXTURE_DISKS_MAX];

    sim_run_for(f->sim, 3 * SIM_S); /* house keeping has looked since */
    (void)datad_status(f->datad, rows, FIXTURE_DISKS_MAX);
    return rows[disk - 1];
}

#endif
