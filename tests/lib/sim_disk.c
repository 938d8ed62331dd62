/*
 * Asynchronous reads, writes and syncs of the simulated world. A read or write takes effect when it
 * completes; a sync covers what had completed when it began. A write in flight at a crash may or
 * may not have happened.
 */
#include "tests/lib/sim_file.h"

struct disk_op {
    struct env_io *io;
    struct sim_node *node;
    struct sim_inode *inode; /* a reference: the file may be closed too early only by mistake */
    unsigned flags;
    struct sim_span span;
    struct slice from;
    struct sim_sync *sync;
    enum rc rc;
};

static void op_free(struct disk_op *op)
{
    inode_unref(op->inode);
    mem_free(op);
}

static void op_complete(struct disk_op *op, enum rc rc, size_t len)
{
    struct env_io *io = op->io;

    io->rc = rc;
    io->len = len;
    op_free(op);
    io->done(io);
}

static struct sim_event *op_start(struct env *env, struct env_io *io, int file,
                                  void (*run)(struct sim_event *event),
                                  void (*drop)(struct sim_event *event))
{
    struct sim_node *node = sim_node_of(env);
    struct sim_open_file *open = file_of(node, file);
    struct disk_op *op = mem_alloc(sizeof(*op));
    struct sim_event *event;

    ASSERT(io->done != NULL);
    inode_ref(open->inode);
    op->io = io;
    op->node = node;
    op->inode = open->inode;
    op->flags = open->flags;
    event = sim_event_new(node->sim, node,
                          sim_between(node->sim, 50 * SIM_US, 500 * SIM_US) +
                              open->inode->device->faults.slow_ns,
                          run, op);
    event->drop = drop;
    return event;
}

static void op_drop(struct sim_event *event)
{
    op_free(event->subject);
}

static void read_run(struct sim_event *event)
{
    struct disk_op *op = event->subject;
    struct sim_open_file open = {.inode = op->inode, .flags = op->flags};
    size_t got = 0;
    enum rc rc = file_read_now(op->node, &open, op->span, &got);

    op_complete(op, rc, got);
}

static void disk_read(struct env *env, struct env_io *io, int file, void *to, size_t len,
                      uint64_t at)
{
    struct disk_op *op = op_start(env, io, file, read_run, op_drop)->subject;

    op->span = (struct sim_span){.to = to, .len = len, .at = at};
}

static void write_run(struct sim_event *event)
{
    struct disk_op *op = event->subject;
    struct sim_open_file open = {.inode = op->inode, .flags = op->flags};
    enum rc rc = file_write_now(op->node, &open, op->from, op->span.at);

    if (op->node->stopped) {
        op_free(op);
        return;
    }
    op_complete(op, rc, rc == RC_OK ? op->from.len : 0);
}

/* The program died with the write in flight: the device may have got it all the same. */
static void write_drop(struct sim_event *event)
{
    struct disk_op *op = event->subject;

    if (!op->node->sim->ending && sim_chance(op->node->sim, 500)) {
        (void)inode_write(op->inode, op->from, op->span.at);
    }
    op_free(op);
}

static void disk_write(struct env *env, struct env_io *io, int file, struct slice from, uint64_t at)
{
    struct disk_op *op = op_start(env, io, file, write_run, write_drop)->subject;

    op->from = from;
    op->span.at = at;
}

static void sync_run(struct sim_event *event)
{
    struct disk_op *op = event->subject;
    struct sim_device *device = op->inode->device;
    bool torn;
    enum rc rc = file_step(op->node, &torn);

    if (rc == RC_OK) {
        rc = file_fault(op->node, device, device->faults.sync_error_ppm, 0);
    }
    inode_sync_end(op->sync, rc == RC_OK);
    if (op->node->stopped) {
        op_free(op);
        return;
    }
    op_complete(op, rc, 0);
}

static void sync_drop(struct sim_event *event)
{
    struct disk_op *op = event->subject;

    inode_sync_drop(op->sync);
    op_free(op);
}

static void disk_sync(struct env *env, struct env_io *io, int file)
{
    struct disk_op *op = op_start(env, io, file, sync_run, sync_drop)->subject;

    op->sync = inode_sync_begin(op->inode);
}

const struct env_disk sim_disk = {
    .read = disk_read,
    .write = disk_write,
    .sync = disk_sync,
};
