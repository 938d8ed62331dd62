#include "tests/lib/fake_data.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"

enum fake_kind { FAKE_BEGIN, FAKE_APPEND, FAKE_SEAL, FAKE_ABORT, FAKE_PUT, FAKE_READ, FAKE_REMOVE };

/* A call under way. */
struct fake_call {
    struct env_timer timer;
    struct fake_data *fake;
    enum fake_kind kind;
    struct shard_writer *writer;
    struct shard_read *read;
    struct shard_delete *remove;
    struct slice bytes;
};

/* In shard_writer.reserved: what the contract lets the caller do next. */
enum fake_writer {
    WRITER_NEW = 0,
    WRITER_OPEN,
    WRITER_SHORT,
    WRITER_FAILED,
    WRITER_ENDED,
    WRITER_BUSY = 16
};

static struct fake_disk *fake_disk_of(struct fake_data *fake, uint64_t disk)
{
    ASSERT(disk < FAKE_DISKS_MAX);
    return &fake->disks[disk];
}

struct fake_shard *fake_data_find(struct fake_data *fake, uint64_t disk, const struct shard_id *id)
{
    for (struct list *at = fake->shards.next; at != &fake->shards; at = at->next) {
        struct fake_shard *shard = CONTAINER_OF(at, struct fake_shard, link);

        if (shard->disk == disk && shard->id.index == id->index &&
            memcmp(shard->id.extent.bytes, id->extent.bytes, EXTENT_ID_BYTES) == 0) {
            return shard;
        }
    }
    return NULL;
}

static void fake_drop(struct fake_data *fake, struct fake_shard *shard)
{
    list_remove(&shard->link);
    buffer_deinit(&shard->bytes);
    mem_free(shard);
    fake->shard_count -= 1;
}

static struct fake_shard *fake_make(struct fake_data *fake, const struct shard_writer *writer)
{
    struct fake_shard *shard = mem_alloc(sizeof(*shard));

    ASSERT(writer->origin.home_key.len <= sizeof(shard->key));
    shard->disk = writer->disk;
    shard->id = writer->shard;
    shard->origin = writer->origin;
    memcpy(shard->key, writer->origin.home_key.data, writer->origin.home_key.len);
    shard->origin.home_key.data = shard->key;
    shard->reserved_bytes = writer->reserved_bytes;
    buffer_init(&shard->bytes);
    list_push_back(&fake->shards, &shard->link);
    fake->shard_count += 1;
    return shard;
}

static enum rc fake_write_rc(struct fake_disk *disk)
{
    disk->writes += 1;
    if (disk->writes_before > 0) {
        disk->writes_before -= 1;
        return RC_OK;
    }
    return disk->write_rc;
}

static void fake_append(struct fake_shard *shard, struct slice bytes)
{
    buffer_append(&shard->bytes, bytes);
    ASSERT(shard->bytes.len <= shard->reserved_bytes);
}

static enum rc fake_do_write(struct fake_call *call)
{
    struct fake_data *fake = call->fake;
    struct shard_writer *writer = call->writer;
    struct fake_shard *shard = fake_data_find(fake, writer->disk, &writer->shard);
    enum rc rc = call->kind == FAKE_ABORT ? RC_OK : fake_write_rc(fake_disk_of(fake, writer->disk));

    if (call->kind == FAKE_ABORT || (rc != RC_OK && call->kind == FAKE_SEAL)) {
        fake->aborted += call->kind == FAKE_ABORT ? 1 : 0;
        fake_drop(fake, shard);
        return rc;
    }
    if (rc != RC_OK) {
        return rc;
    }
    if (call->kind == FAKE_BEGIN || call->kind == FAKE_PUT) {
        ASSERT(shard == NULL); /* ids are never reused */
        shard = fake_make(fake, writer);
    }
    if (call->kind == FAKE_APPEND || call->kind == FAKE_PUT) {
        fake_append(shard, call->bytes);
    }
    shard->sealed = call->kind == FAKE_SEAL || call->kind == FAKE_PUT;
    return RC_OK;
}

static uint64_t fake_writer_after(const struct fake_call *call, enum rc rc)
{
    switch (call->kind) {
    case FAKE_BEGIN:
        return rc == RC_OK ? WRITER_OPEN : WRITER_ENDED;
    case FAKE_APPEND:
        if (rc != RC_OK) {
            return WRITER_FAILED;
        }
        return call->bytes.len % LIMIT_BLOCK_BYTES == 0 ? WRITER_OPEN : WRITER_SHORT;
    case FAKE_SEAL:
    case FAKE_ABORT:
    case FAKE_PUT:
    case FAKE_READ:
    case FAKE_REMOVE:
        break;
    }
    return WRITER_ENDED;
}

static enum rc fake_do_read(struct fake_data *fake, struct shard_read *read)
{
    struct fake_shard *shard = fake_data_find(fake, read->disk, &read->shard);
    enum rc rc = fake_disk_of(fake, read->disk)->read_rc;

    if (rc != RC_OK) {
        return rc;
    }
    if (shard == NULL || !shard->sealed) {
        return RC_NOT_FOUND;
    }
    if (shard->corrupt) {
        return RC_CORRUPT;
    }
    ASSERT(read->at <= shard->bytes.len && read->len <= shard->bytes.len - read->at);
    memcpy(read->to, shard->bytes.data + read->at, read->len);
    return RC_OK;
}

static void fake_answer(struct env_timer *timer)
{
    struct fake_call *call = CONTAINER_OF(timer, struct fake_call, timer);
    struct fake_data *fake = call->fake;
    struct fake_call copy = *call;

    fake->pending -= 1;
    mem_free(call);
    if (copy.kind == FAKE_READ) {
        copy.read->rc = fake_do_read(fake, copy.read);
        copy.read->done(copy.read);
    } else if (copy.kind == FAKE_REMOVE) {
        struct fake_shard *shard = fake_data_find(fake, copy.remove->disk, &copy.remove->shard);

        if (shard != NULL) {
            fake_drop(fake, shard);
        }
        fake->removed += 1;
        copy.remove->rc = RC_OK;
        copy.remove->done(copy.remove);
    } else {
        copy.writer->rc = fake_do_write(&copy);
        copy.writer->reserved[0] = fake_writer_after(&copy, copy.writer->rc);
        copy.writer->done(copy.writer);
    }
}

static struct fake_call *fake_call(struct data_client *data, enum fake_kind kind, uint64_t disk)
{
    struct fake_data *fake = CONTAINER_OF(data, struct fake_data, base);
    struct fake_call *call = mem_alloc(sizeof(*call));
    struct env *env = fake->env;

    call->fake = fake;
    call->kind = kind;
    call->timer.fire = fake_answer;
    fake->pending += 1;
    env->clock->timer_start(env, &call->timer,
                            fake_disk_of(fake, disk)->delay_ns + 1000 + env->random(env) % 100000);
    return call;
}

static void fake_write(struct data_client *data, struct shard_writer *writer, enum fake_kind kind,
                       struct slice bytes)
{
    struct fake_call *call = fake_call(data, kind, writer->disk);

    ASSERT(writer->done != NULL);
    ASSERT((writer->reserved[0] & WRITER_BUSY) == 0);
    writer->reserved[0] |= WRITER_BUSY;
    call->writer = writer;
    call->bytes = bytes;
}

static void fake_begin(struct data_client *data, struct shard_writer *writer)
{
    ASSERT(writer->reserved[0] == WRITER_NEW);
    fake_write(data, writer, FAKE_BEGIN, SLICE_EMPTY);
}

static void fake_append_call(struct data_client *data, struct shard_writer *writer,
                             struct slice bytes)
{
    ASSERT(writer->reserved[0] == WRITER_OPEN); /* nothing follows a short append */
    fake_write(data, writer, FAKE_APPEND, bytes);
}

static void fake_seal(struct data_client *data, struct shard_writer *writer)
{
    ASSERT(writer->reserved[0] == WRITER_OPEN || writer->reserved[0] == WRITER_SHORT);
    fake_write(data, writer, FAKE_SEAL, SLICE_EMPTY);
}

static void fake_abort(struct data_client *data, struct shard_writer *writer)
{
    ASSERT(writer->reserved[0] != WRITER_NEW && writer->reserved[0] != WRITER_ENDED);
    fake_write(data, writer, FAKE_ABORT, SLICE_EMPTY);
}

static void fake_put(struct data_client *data, struct shard_writer *writer, struct slice bytes)
{
    ASSERT(writer->reserved[0] == WRITER_NEW);
    fake_write(data, writer, FAKE_PUT, bytes);
}

static void fake_read(struct data_client *data, struct shard_read *read)
{
    struct fake_call *call = fake_call(data, FAKE_READ, read->disk);

    call->read = read;
    fake_disk_of(call->fake, read->disk)->reads += 1;
    fake_disk_of(call->fake, read->disk)->read_bytes += read->len;
}

static void fake_remove(struct data_client *data, struct shard_delete *remove)
{
    fake_call(data, FAKE_REMOVE, remove->disk)->remove = remove;
}

static bool fake_healthy(struct data_client *data, uint64_t disk)
{
    return !fake_disk_of(CONTAINER_OF(data, struct fake_data, base), disk)->unhealthy;
}

void fake_data_init(struct fake_data *fake, struct env *env)
{
    memset(fake, 0, sizeof(*fake));
    fake->env = env;
    list_init(&fake->shards);
    fake->base = (struct data_client){.begin = fake_begin,
                                      .append = fake_append_call,
                                      .seal = fake_seal,
                                      .abort = fake_abort,
                                      .put = fake_put,
                                      .read = fake_read,
                                      .remove = fake_remove,
                                      .healthy = fake_healthy};
}

void fake_data_deinit(struct fake_data *fake)
{
    ASSERT(fake->pending == 0);
    while (!list_empty(&fake->shards)) {
        fake_drop(fake, CONTAINER_OF(fake->shards.next, struct fake_shard, link));
    }
}
