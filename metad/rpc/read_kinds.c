/*
 * The calls that read, each as three functions: the head into the call, the call, its answer into
 * the reply. What a head says is bounded here, because the local client takes callers at their
 * word.
 */
#include "common/base/assert.h"
#include "metad/rpc/service_private.h"

enum {
    ID_BYTES_MAX = 64,     /* of uploads, layouts, versions */
    SINK_BYTES_MAX = 1024, /* "NAME:webhook" */
    CURSOR_BYTES_MAX = ROW_KEY_BYTES_MAX,
    WALK_MAX = LIMIT_LIST_KEYS /* rows of one answer: some KiB each at most, so they fit a frame */
};

static bool within(ProtobufCBinaryData field, size_t max)
{
    return field.len <= max;
}

static bool limit_good(uint32_t limit)
{
    return limit >= 1 && limit <= LIMIT_LIST_KEYS;
}

static const ProtobufCMessage *base_of(const void *message)
{
    return message;
}

/* A row is in the page, or the page ends before it. */
static bool put_row(struct read_job *job, const struct wire_row *row, const void *message)
{
    if (!wire_row_put(&job->out, row, base_of(message))) {
        return false;
    }
    job->page.count += 1;
    return true;
}

/* ---- One version ---- */

static enum rc get_parse(struct read_job *job, const void *head)
{
    const Kist__MetaGet *from = head;

    if (!within(from->key, LIMIT_KEY_BYTES) || !within(from->version, ID_BYTES_MAX)) {
        return RC_INVALID;
    }
    job->call.get = (struct meta_get){.bucket_id = from->bucket_id,
                                      .generation = from->generation,
                                      .key = wire_slice(from->key),
                                      .version = wire_slice(from->version),
                                      .want_body = from->want_body,
                                      .arena = &job->arena};
    return RC_OK;
}

static enum step_result get_run(struct read_job *job)
{
    return job->service->meta->get(job->service->meta, &job->call.get, &job->task);
}

static enum rc get_answer(struct read_job *job)
{
    job->got.record = job->call.get.record;
    job->got.marker = job->call.get.marker;
    job->got.is_current = job->call.get.is_current;
    return RC_OK;
}

/* ---- Pages of a bucket ---- */

static bool list_good(const Kist__MetaList *from)
{
    return limit_good(from->limit) && within(from->prefix, LIMIT_KEY_BYTES) &&
           within(from->delimiter, LIMIT_KEY_BYTES) && within(from->after, LIMIT_KEY_BYTES) &&
           within(from->after_item, ID_BYTES_MAX);
}

static enum rc list_parse(struct read_job *job, const void *head)
{
    const Kist__MetaList *from = head;

    if (!list_good(from)) {
        return RC_INVALID;
    }
    job->call.list = (struct meta_list){.bucket_id = from->bucket_id,
                                        .generation = from->generation,
                                        .prefix = wire_slice(from->prefix),
                                        .delimiter = wire_slice(from->delimiter),
                                        .after = wire_slice(from->after),
                                        .after_prefix = from->after_prefix,
                                        .limit = from->limit,
                                        .whole = from->whole,
                                        .arena = &job->arena};
    return RC_OK;
}

static enum step_result list_run(struct read_job *job)
{
    return job->service->meta->list(job->service->meta, &job->call.list, &job->task);
}

static enum rc list_answer(struct read_job *job)
{
    const struct meta_list *call = &job->call.list;
    bool all = true;

    for (uint32_t i = 0; all && i < call->entry_count; i++) {
        const struct wire_row row = {.name = call->entries[i].name};

        all = put_row(job, &row, call->entries[i].record);
    }
    job->page.truncated = call->truncated || !all;
    return RC_OK;
}

static enum rc versions_parse(struct read_job *job, const void *head)
{
    const Kist__MetaList *from = head;

    if (!list_good(from)) {
        return RC_INVALID;
    }
    job->call.versions = (struct meta_list_versions){.bucket_id = from->bucket_id,
                                                     .generation = from->generation,
                                                     .prefix = wire_slice(from->prefix),
                                                     .delimiter = wire_slice(from->delimiter),
                                                     .after = wire_slice(from->after),
                                                     .after_version = wire_slice(from->after_item),
                                                     .after_prefix = from->after_prefix,
                                                     .limit = from->limit,
                                                     .whole = from->whole,
                                                     .arena = &job->arena};
    return RC_OK;
}

static enum step_result versions_run(struct read_job *job)
{
    return job->service->meta->list_versions(job->service->meta, &job->call.versions, &job->task);
}

static enum rc versions_answer(struct read_job *job)
{
    const struct meta_list_versions *call = &job->call.versions;
    bool all = true;

    for (uint32_t i = 0; all && i < call->entry_count; i++) {
        const struct wire_row row = {.name = call->entries[i].name,
                                     .flags = call->entries[i].is_latest ? 1 : 0};

        all = put_row(job, &row, call->entries[i].record);
    }
    job->page.truncated = call->truncated || !all;
    return RC_OK;
}

static enum rc uploads_parse(struct read_job *job, const void *head)
{
    const Kist__MetaList *from = head;

    if (!list_good(from)) {
        return RC_INVALID;
    }
    job->call.uploads = (struct meta_list_uploads){.bucket_id = from->bucket_id,
                                                   .generation = from->generation,
                                                   .prefix = wire_slice(from->prefix),
                                                   .delimiter = wire_slice(from->delimiter),
                                                   .after_key = wire_slice(from->after),
                                                   .after_upload = wire_slice(from->after_item),
                                                   .after_prefix = from->after_prefix,
                                                   .limit = from->limit,
                                                   .arena = &job->arena};
    return RC_OK;
}

static enum step_result uploads_run(struct read_job *job)
{
    return job->service->meta->list_uploads(job->service->meta, &job->call.uploads, &job->task);
}

static enum rc uploads_answer(struct read_job *job)
{
    const struct meta_list_uploads *call = &job->call.uploads;
    bool all = true;

    for (uint32_t i = 0; all && i < call->entry_count; i++) {
        const struct wire_row row = {.name = call->entries[i].name};

        all = put_row(job, &row, call->entries[i].upload);
    }
    job->page.truncated = call->truncated || !all;
    return RC_OK;
}

/* ---- The change feed ---- */

static enum rc changes_parse(struct read_job *job, const void *head)
{
    const Kist__MetaChanges *from = head;

    if (!limit_good(from->limit) || !within(from->prefix, LIMIT_KEY_BYTES) ||
        !within(from->sink, SINK_BYTES_MAX)) {
        return RC_INVALID;
    }
    job->call.changes = (struct meta_changes){.bucket_id = from->bucket_id,
                                              .after_stamp = from->after_stamp,
                                              .after_number = from->after_number,
                                              .prefix = wire_slice(from->prefix),
                                              .sink = wire_slice(from->sink),
                                              .from_oldest = from->from_oldest,
                                              .latest = from->latest,
                                              .resume = from->resume,
                                              .limit = from->limit,
                                              .arena = &job->arena};
    return RC_OK;
}

static enum step_result changes_run(struct read_job *job)
{
    return job->service->meta->changes(job->service->meta, &job->call.changes, &job->task);
}

static enum rc changes_answer(struct read_job *job)
{
    const struct meta_changes *call = &job->call.changes;

    job->page.truncated = call->more;
    job->page.lost = call->lost;
    job->page.next_stamp = call->next_stamp;
    job->page.next_number = call->next_number;
    job->page.sink_lost = call->sink_lost;
    job->page.feed_bytes = call->feed_bytes;
    job->page.feed_count = call->feed_count;
    for (uint32_t i = 0; i < call->change_count; i++) {
        const struct wire_row row = {.number = call->changes[i].stamp,
                                     .flags = call->changes[i].number};

        if (!put_row(job, &row, call->changes[i].change)) {
            ASSERT(i > 0); /* one always fits */
            job->page.truncated = true;
            job->page.next_stamp = call->changes[i - 1].stamp;
            job->page.next_number = call->changes[i - 1].number;
            break;
        }
    }
    return RC_OK;
}

/* ---- Layouts ---- */

static bool layout_good(const Kist__MetaLayout *from)
{
    return within(from->key, LIMIT_KEY_BYTES) && within(from->layout_id, ID_BYTES_MAX) &&
           from->limit <= LIMIT_LIST_KEYS;
}

static enum rc pieces_parse(struct read_job *job, const void *head)
{
    const Kist__MetaLayout *from = head;

    if (!layout_good(from)) {
        return RC_INVALID;
    }
    job->call.pieces = (struct meta_pieces){.bucket_id = from->bucket_id,
                                            .key = wire_slice(from->key),
                                            .layout_id = wire_slice(from->layout_id),
                                            .offset = from->offset,
                                            .limit = from->limit,
                                            .arena = &job->arena};
    return RC_OK;
}

static enum step_result pieces_run(struct read_job *job)
{
    return job->service->meta->pieces(job->service->meta, &job->call.pieces, &job->task);
}

/* Fewer pieces than asked for are an answer: the rest is asked for by offset. */
static enum rc pieces_answer(struct read_job *job)
{
    const struct meta_pieces *call = &job->call.pieces;
    const struct wire_row row = {.number = 0};

    job->page.offset = call->first_offset;
    for (size_t i = 0; i < call->piece_count; i++) {
        if (!put_row(job, &row, call->pieces[i])) {
            return i > 0 ? RC_OK : RC_LIMIT;
        }
    }
    return RC_OK;
}

static enum rc part_range_parse(struct read_job *job, const void *head)
{
    const Kist__MetaLayout *from = head;

    if (!layout_good(from)) {
        return RC_INVALID;
    }
    job->call.part_range = (struct meta_part_range){.bucket_id = from->bucket_id,
                                                    .key = wire_slice(from->key),
                                                    .layout_id = wire_slice(from->layout_id),
                                                    .number = from->number,
                                                    .arena = &job->arena};
    return RC_OK;
}

static enum step_result part_range_run(struct read_job *job)
{
    return job->service->meta->part_range(job->service->meta, &job->call.part_range, &job->task);
}

static enum rc part_range_answer(struct read_job *job)
{
    job->page.offset = job->call.part_range.offset;
    job->page.size = job->call.part_range.size;
    job->page.part = job->call.part_range.part;
    return RC_OK;
}

/* ---- Parts of an upload ---- */

static enum rc parts_parse(struct read_job *job, const void *head)
{
    const Kist__MetaListParts *from = head;

    if (!within(from->key, LIMIT_KEY_BYTES) || !within(from->upload_id, ID_BYTES_MAX) ||
        from->limit > LIMIT_PARTS) {
        return RC_INVALID;
    }
    job->call.parts = (struct meta_list_parts){.bucket_id = from->bucket_id,
                                               .generation = from->generation,
                                               .key = wire_slice(from->key),
                                               .upload_id = wire_slice(from->upload_id),
                                               .after = from->after,
                                               .limit = from->limit,
                                               .arena = &job->arena};
    return RC_OK;
}

static enum step_result parts_run(struct read_job *job)
{
    return job->service->meta->list_parts(job->service->meta, &job->call.parts, &job->task);
}

static enum rc parts_answer(struct read_job *job)
{
    const struct meta_list_parts *call = &job->call.parts;
    const struct wire_row row = {.number = 0};
    bool all = true;

    job->page.upload = call->upload;
    for (size_t i = 0; all && i < call->part_count; i++) {
        all = put_row(job, &row, call->parts[i]);
    }
    job->page.truncated = call->truncated || !all;
    return RC_OK;
}

/* ---- Walks over all ---- */

static bool walk_good(const Kist__MetaWalk *from)
{
    return within(from->after, CURSOR_BYTES_MAX) && from->limit >= 1;
}

static uint32_t walk_limit(uint32_t limit)
{
    return limit < WALK_MAX ? limit : WALK_MAX;
}

static enum rc scan_parse(struct read_job *job, const void *head)
{
    const Kist__MetaWalk *from = head;

    if (!walk_good(from)) {
        return RC_INVALID;
    }
    job->call.scan = (struct meta_scan){
        .cursor = wire_slice(from->after), .limit = walk_limit(from->limit), .arena = &job->arena};
    return RC_OK;
}

static enum step_result scan_run(struct read_job *job)
{
    return job->service->meta->scan(job->service->meta, &job->call.scan, &job->task);
}

static enum rc scan_answer(struct read_job *job)
{
    const struct meta_scan *call = &job->call.scan;

    job->page.next_cursor = wire_field(call->next_cursor);
    for (uint32_t i = 0; i < call->item_count; i++) {
        const struct wire_row row = {.number = call->items[i].bucket_id,
                                     .name = call->items[i].key,
                                     .extra = call->items[i].layout_id};

        if (!put_row(job, &row, call->items[i].piece)) {
            return RC_LIMIT;
        }
    }
    return RC_OK;
}

static enum rc repairs_parse(struct read_job *job, const void *head)
{
    const Kist__MetaWalk *from = head;

    if (!walk_good(from) || from->limit > WALK_MAX) {
        return RC_INVALID;
    }
    job->call.repairs = (struct meta_repairs){
        .after = wire_slice(from->after), .limit = from->limit, .arena = &job->arena};
    return RC_OK;
}

static enum step_result repairs_run(struct read_job *job)
{
    return job->service->meta->repairs(job->service->meta, &job->call.repairs, &job->task);
}

static enum rc repairs_answer(struct read_job *job)
{
    const struct meta_repairs *call = &job->call.repairs;

    for (uint32_t i = 0; i < call->repair_count; i++) {
        const struct wire_row row = {.name = call->queue_keys[i]};

        if (!put_row(job, &row, call->repairs[i])) {
            return RC_LIMIT;
        }
    }
    return RC_OK;
}

static enum rc jobs_parse(struct read_job *job, const void *head)
{
    const Kist__MetaWalk *from = head;

    if (!limit_good(from->limit)) {
        return RC_INVALID;
    }
    job->call.jobs =
        (struct meta_jobs){.after = from->after_id, .limit = from->limit, .arena = &job->arena};
    return RC_OK;
}

static enum step_result jobs_run(struct read_job *job)
{
    return job->service->meta->jobs(job->service->meta, &job->call.jobs, &job->task);
}

static enum rc jobs_answer(struct read_job *job)
{
    const struct meta_jobs *call = &job->call.jobs;
    const struct wire_row row = {.number = 0};

    for (uint32_t i = 0; i < call->job_count; i++) {
        if (!put_row(job, &row, call->jobs[i])) {
            return RC_LIMIT;
        }
    }
    return RC_OK;
}

/* ---- The table, in order of the numbers ---- */

#define HEAD(name) &kist__meta_##name##__descriptor

const struct read_kind read_kinds[] = {
    {RPC_META_GET,           false, HEAD(get),        get_parse,        get_run,        get_answer       },
    {RPC_META_LIST,          true,  HEAD(list),       list_parse,       list_run,       list_answer      },
    {RPC_META_LIST_VERSIONS, true,  HEAD(list),       versions_parse,   versions_run,   versions_answer  },
    {RPC_META_CHANGES,       true,  HEAD(changes),    changes_parse,    changes_run,    changes_answer   },
    {RPC_META_PIECES,        true,  HEAD(layout),     pieces_parse,     pieces_run,     pieces_answer    },
    {RPC_META_PART_RANGE,    false, HEAD(layout),     part_range_parse, part_range_run, part_range_answer},
    {RPC_META_LIST_PARTS,    true,  HEAD(list_parts), parts_parse,      parts_run,      parts_answer     },
    {RPC_META_LIST_UPLOADS,  true,  HEAD(list),       uploads_parse,    uploads_run,    uploads_answer   },
    {RPC_META_SCAN,          true,  HEAD(walk),       scan_parse,       scan_run,       scan_answer      },
    {RPC_META_REPAIRS,       true,  HEAD(walk),       repairs_parse,    repairs_run,    repairs_answer   },
    {RPC_META_JOBS,          true,  HEAD(walk),       jobs_parse,       jobs_run,       jobs_answer      },
};
#undef HEAD

const struct read_kind *read_kind_find(enum rpc_method method)
{
    size_t index = (size_t)method - RPC_META_GET;

    if (index >= ARRAY_LEN(read_kinds)) {
        return NULL;
    }
    ASSERT(read_kinds[index].method == method);
    return &read_kinds[index];
}
