/*
 * The calls that read: each as a head to send and an answer to take apart.
 *
 * An answer is copied once, from the connection's buffer into the call's arena; names and inline
 * bodies lie in that copy.
 */
#include "common/base/assert.h"
#include "common/base/mem.h"
#include "common/meta_rpc/remote_private.h"

struct remote_read {
    struct remote_op op;
    const struct remote_kind *kind;
    struct task *task;
    void *call; /* struct meta_get, ... */
    struct arena *arena;
    union {
        Kist__MetaGet get;
        Kist__MetaList list;
        Kist__MetaChanges changes;
        Kist__MetaLayout layout;
        Kist__MetaListParts parts;
        Kist__MetaWalk walk;
    } head;
};

/* An answer's rows while they are taken. */
struct page {
    struct arena *arena;
    const Kist__MetaPage *head;
    struct slice rows;
    struct wire_row row;
};

struct remote_kind {
    enum rpc_method method;
    enum rpc_purpose purpose;
    uint32_t attempt_ms;
    enum rc (*page)(void *call, struct page *page); /* NULL: META_GET */
};

/* ---- Life of a read ---- */

static void read_finish(struct remote_op *op, enum rc rc)
{
    struct remote_read *read = CONTAINER_OF(op, struct remote_read, op);
    struct task *task = read->task;

    if (rc != RC_OK) {
        (void)error_set(&task->error, rc, "%s", op->text[0] != '\0' ? op->text : rc_text(rc));
    }
    mem_free(read);
    task_resume(task, rc);
}

static enum rc read_decode(struct remote_op *op, struct slice head, struct slice body)
{
    struct remote_read *read = CONTAINER_OF(op, struct remote_read, op);
    struct page page = {.arena = read->arena};

    page.head = wire_unpack(page.arena, &kist__meta_page__descriptor, head);
    if (page.head == NULL || page.head->count > body.len / WIRE_ROW_BYTES) {
        return RC_CORRUPT;
    }
    page.rows = arena_copy(page.arena, body);
    return read->kind->page(read->call, &page);
}

static struct remote_read *read_new(const struct remote_kind *kind, void *call, struct arena *arena,
                                    struct task *task)
{
    struct remote_read *read = mem_alloc(sizeof(*read));

    read->kind = kind;
    read->task = task;
    read->call = call;
    read->arena = arena;
    read->op.decode = read_decode;
    read->op.finish = read_finish;
    read->op.attempt_ms = kind->attempt_ms;
    read->op.call.method = kind->method;
    read->op.call.purpose = kind->purpose;
    return read;
}

static enum step_result read_start(struct meta_client *meta, struct remote_read *read,
                                   const void *head)
{
    struct meta_remote *remote = remote_of(meta);

    read->op.call.message = head;
    read->op.deadline_ns = remote_now(remote) + REMOTE_READ_MS * REMOTE_NS_PER_MS;
    remote_op_start(remote, &read->op);
    return STEP_WAIT;
}

static bool page_next(struct page *page)
{
    return wire_row_take(&page->rows, &page->row);
}

/* The row's message; NULL: damaged. */
static void *page_message(struct page *page, const ProtobufCMessageDescriptor *type)
{
    return page->row.has_message ? wire_unpack(page->arena, type, page->row.message) : NULL;
}

/* Messages of all rows as an array; NULL: damaged. */
static void **page_messages(struct page *page, const ProtobufCMessageDescriptor *type)
{
    void **rows = arena_alloc_raw(page->arena, (page->head->count + 1) * sizeof(*rows));

    for (uint32_t i = 0; i < page->head->count; i++) {
        rows[i] = page_next(page) ? page_message(page, type) : NULL;
        if (rows[i] == NULL) {
            return NULL;
        }
    }
    return rows;
}

/* ---- One version ---- */

static enum rc get_decode(struct remote_op *op, struct slice head, struct slice body)
{
    struct remote_read *read = CONTAINER_OF(op, struct remote_read, op);
    struct meta_get *call = read->call;
    Kist__MetaGetReply *reply = wire_unpack(call->arena, &kist__meta_get_reply__descriptor, head);

    if (reply == NULL ||
        (body.len > 0 && (reply->record == NULL || reply->record->size != body.len))) {
        return RC_CORRUPT;
    }
    call->record = reply->record;
    call->marker = reply->marker;
    call->is_current = reply->is_current;
    call->body = body.len > 0 ? arena_copy(call->arena, body) : SLICE_EMPTY;
    return RC_OK;
}

static enum step_result remote_get(struct meta_client *meta, struct meta_get *call,
                                   struct task *task)
{
    static const struct remote_kind kind = {RPC_META_GET, RPC_CONTROL, REMOTE_ATTEMPT_MS, NULL};
    struct remote_read *read = read_new(&kind, call, call->arena, task);

    read->op.decode = get_decode;
    read->head.get = (Kist__MetaGet)KIST__META_GET__INIT;
    read->head.get.bucket_id = call->bucket_id;
    read->head.get.generation = call->generation;
    read->head.get.key = wire_field(call->key);
    read->head.get.version = wire_field(call->version);
    read->head.get.want_body = call->want_body;
    call->record = NULL;
    call->marker = NULL;
    call->body = SLICE_EMPTY;
    return read_start(meta, read, &read->head.get);
}

/* The body lies in the call's arena. */
static void remote_release(struct meta_client *meta, struct meta_get *call)
{
    (void)meta;
    call->body = SLICE_EMPTY;
}

/* ---- Pages of a bucket ---- */

static enum rc list_page(void *owner, struct page *page)
{
    struct meta_list *call = owner;

    if (page->head->count > call->limit) {
        return RC_CORRUPT;
    }
    call->entries = arena_alloc_raw(page->arena, (call->limit + 1) * sizeof(*call->entries));
    for (uint32_t i = 0; i < page->head->count; i++) {
        struct meta_entry *entry = &call->entries[i];

        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        *entry = (struct meta_entry){.name = page->row.name,
                                     .record = page_message(page, &kist__record__descriptor)};
        if (page->row.has_message && entry->record == NULL) {
            return RC_CORRUPT;
        }
    }
    call->entry_count = page->head->count;
    call->truncated = page->head->truncated;
    return RC_OK;
}

static enum step_result remote_list(struct meta_client *meta, struct meta_list *call,
                                    struct task *task)
{
    static const struct remote_kind kind = {RPC_META_LIST, RPC_BULK, REMOTE_PAGE_MS, list_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaList *head = &read->head.list;

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    *head = (Kist__MetaList)KIST__META_LIST__INIT;
    head->bucket_id = call->bucket_id;
    head->generation = call->generation;
    head->prefix = wire_field(call->prefix);
    head->delimiter = wire_field(call->delimiter);
    head->after = wire_field(call->after);
    head->after_prefix = call->after_prefix;
    head->limit = call->limit;
    head->whole = call->whole;
    return read_start(meta, read, head);
}

static enum rc versions_page(void *owner, struct page *page)
{
    struct meta_list_versions *call = owner;

    if (page->head->count > call->limit) {
        return RC_CORRUPT;
    }
    call->entries = arena_alloc_raw(page->arena, (call->limit + 1) * sizeof(*call->entries));
    for (uint32_t i = 0; i < page->head->count; i++) {
        struct meta_version_entry *entry = &call->entries[i];

        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        *entry =
            (struct meta_version_entry){.name = page->row.name,
                                        .record = page_message(page, &kist__record__descriptor),
                                        .is_latest = page->row.flags != 0};
        if (page->row.has_message && entry->record == NULL) {
            return RC_CORRUPT;
        }
    }
    call->entry_count = page->head->count;
    call->truncated = page->head->truncated;
    return RC_OK;
}

static enum step_result remote_list_versions(struct meta_client *meta,
                                             struct meta_list_versions *call, struct task *task)
{
    static const struct remote_kind kind = {RPC_META_LIST_VERSIONS, RPC_BULK, REMOTE_PAGE_MS,
                                            versions_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaList *head = &read->head.list;

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    *head = (Kist__MetaList)KIST__META_LIST__INIT;
    head->bucket_id = call->bucket_id;
    head->generation = call->generation;
    head->prefix = wire_field(call->prefix);
    head->delimiter = wire_field(call->delimiter);
    head->after = wire_field(call->after);
    head->after_item = wire_field(call->after_version);
    head->after_prefix = call->after_prefix;
    head->limit = call->limit;
    head->whole = call->whole;
    return read_start(meta, read, head);
}

static enum rc uploads_page(void *owner, struct page *page)
{
    struct meta_list_uploads *call = owner;

    if (page->head->count > call->limit) {
        return RC_CORRUPT;
    }
    call->entries = arena_alloc_raw(page->arena, (call->limit + 1) * sizeof(*call->entries));
    for (uint32_t i = 0; i < page->head->count; i++) {
        struct meta_upload_entry *entry = &call->entries[i];

        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        *entry = (struct meta_upload_entry){
            .name = page->row.name, .upload = page_message(page, &kist__upload__descriptor)};
        if (page->row.has_message && entry->upload == NULL) {
            return RC_CORRUPT;
        }
    }
    call->entry_count = page->head->count;
    call->truncated = page->head->truncated;
    return RC_OK;
}

static enum step_result remote_list_uploads(struct meta_client *meta,
                                            struct meta_list_uploads *call, struct task *task)
{
    static const struct remote_kind kind = {RPC_META_LIST_UPLOADS, RPC_BULK, REMOTE_PAGE_MS,
                                            uploads_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaList *head = &read->head.list;

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    *head = (Kist__MetaList)KIST__META_LIST__INIT;
    head->bucket_id = call->bucket_id;
    head->generation = call->generation;
    head->prefix = wire_field(call->prefix);
    head->delimiter = wire_field(call->delimiter);
    head->after = wire_field(call->after_key);
    head->after_item = wire_field(call->after_upload);
    head->after_prefix = call->after_prefix;
    head->limit = call->limit;
    return read_start(meta, read, head);
}

/* ---- The change feed ---- */

static enum rc changes_page(void *owner, struct page *page)
{
    struct meta_changes *call = owner;

    if (page->head->count > call->limit) {
        return RC_CORRUPT;
    }
    call->changes = arena_alloc_raw(page->arena, (call->limit + 1) * sizeof(*call->changes));
    for (uint32_t i = 0; i < page->head->count; i++) {
        struct meta_change *change = &call->changes[i];

        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        *change = (struct meta_change){.stamp = page->row.number,
                                       .number = page->row.flags,
                                       .change = page_message(page, &kist__change__descriptor)};
        if (change->change == NULL) {
            return RC_CORRUPT;
        }
    }
    call->change_count = page->head->count;
    call->more = page->head->truncated;
    call->lost = page->head->lost;
    call->next_stamp = page->head->next_stamp;
    call->next_number = page->head->next_number;
    call->sink_lost = page->head->sink_lost;
    call->feed_bytes = page->head->feed_bytes;
    call->feed_count = page->head->feed_count;
    return RC_OK;
}

static enum step_result remote_changes(struct meta_client *meta, struct meta_changes *call,
                                       struct task *task)
{
    static const struct remote_kind kind = {RPC_META_CHANGES, RPC_BULK, REMOTE_PAGE_MS,
                                            changes_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaChanges *head = &read->head.changes;

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    *head = (Kist__MetaChanges)KIST__META_CHANGES__INIT;
    head->bucket_id = call->bucket_id;
    head->after_stamp = call->after_stamp;
    head->after_number = call->after_number;
    head->prefix = wire_field(call->prefix);
    head->sink = wire_field(call->sink);
    head->from_oldest = call->from_oldest;
    head->latest = call->latest;
    head->resume = call->resume;
    head->limit = call->limit;
    return read_start(meta, read, head);
}

/* ---- Layouts, parts ---- */

static enum rc pieces_page(void *owner, struct page *page)
{
    struct meta_pieces *call = owner;

    call->pieces = (Kist__Piece **)page_messages(page, &kist__piece__descriptor);
    call->piece_count = page->head->count;
    call->first_offset = page->head->offset;
    return call->pieces != NULL && page->head->count <= call->limit ? RC_OK : RC_CORRUPT;
}

static enum step_result remote_pieces(struct meta_client *meta, struct meta_pieces *call,
                                      struct task *task)
{
    static const struct remote_kind kind = {RPC_META_PIECES, RPC_BULK, REMOTE_PAGE_MS, pieces_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaLayout *head = &read->head.layout;

    *head = (Kist__MetaLayout)KIST__META_LAYOUT__INIT;
    head->bucket_id = call->bucket_id;
    head->key = wire_field(call->key);
    head->layout_id = wire_field(call->layout_id);
    head->offset = call->offset;
    head->limit = call->limit < LIMIT_LIST_KEYS ? call->limit : LIMIT_LIST_KEYS;
    return read_start(meta, read, head);
}

static enum rc part_range_page(void *owner, struct page *page)
{
    struct meta_part_range *call = owner;

    call->offset = page->head->offset;
    call->size = page->head->size;
    call->part = page->head->part;
    return RC_OK;
}

static enum step_result remote_part_range(struct meta_client *meta, struct meta_part_range *call,
                                          struct task *task)
{
    static const struct remote_kind kind = {RPC_META_PART_RANGE, RPC_CONTROL, REMOTE_PAGE_MS,
                                            part_range_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaLayout *head = &read->head.layout;

    *head = (Kist__MetaLayout)KIST__META_LAYOUT__INIT;
    head->bucket_id = call->bucket_id;
    head->key = wire_field(call->key);
    head->layout_id = wire_field(call->layout_id);
    head->number = call->number;
    return read_start(meta, read, head);
}

static enum rc parts_page(void *owner, struct page *page)
{
    struct meta_list_parts *call = owner;

    call->upload = page->head->upload;
    call->parts = (Kist__Part **)page_messages(page, &kist__part__descriptor);
    call->part_count = page->head->count;
    call->truncated = page->head->truncated;
    return call->parts != NULL && call->upload != NULL ? RC_OK : RC_CORRUPT;
}

static enum step_result remote_list_parts(struct meta_client *meta, struct meta_list_parts *call,
                                          struct task *task)
{
    static const struct remote_kind kind = {RPC_META_LIST_PARTS, RPC_BULK, REMOTE_PAGE_MS,
                                            parts_page};
    struct remote_read *read = read_new(&kind, call, call->arena, task);
    Kist__MetaListParts *head = &read->head.parts;

    *head = (Kist__MetaListParts)KIST__META_LIST_PARTS__INIT;
    head->bucket_id = call->bucket_id;
    head->generation = call->generation;
    head->key = wire_field(call->key);
    head->upload_id = wire_field(call->upload_id);
    head->after = call->after;
    head->limit = call->limit < LIMIT_PARTS ? call->limit : LIMIT_PARTS;
    return read_start(meta, read, head);
}

/* ---- Walks over all ---- */

static enum rc scan_page(void *owner, struct page *page)
{
    struct meta_scan *call = owner;

    call->items = arena_alloc_raw(page->arena, (page->head->count + 1) * sizeof(*call->items));
    for (uint32_t i = 0; i < page->head->count; i++) {
        struct meta_scan_item *item = &call->items[i];

        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        *item = (struct meta_scan_item){.bucket_id = page->row.number,
                                        .key = page->row.name,
                                        .layout_id = page->row.extra,
                                        .piece = page_message(page, &kist__piece__descriptor)};
        if (item->piece == NULL) {
            return RC_CORRUPT;
        }
    }
    call->item_count = page->head->count;
    call->next_cursor = wire_slice(page->head->next_cursor);
    return RC_OK;
}

static struct remote_read *walk_new(const struct remote_kind *kind, void *call, struct arena *arena,
                                    struct task *task)
{
    struct remote_read *read = read_new(kind, call, arena, task);

    read->head.walk = (Kist__MetaWalk)KIST__META_WALK__INIT;
    return read;
}

static enum step_result remote_scan(struct meta_client *meta, struct meta_scan *call,
                                    struct task *task)
{
    static const struct remote_kind kind = {RPC_META_SCAN, RPC_BULK, REMOTE_PAGE_MS, scan_page};
    struct remote_read *read = walk_new(&kind, call, call->arena, task);

    read->head.walk.after = wire_field(call->cursor);
    read->head.walk.limit = call->limit;
    return read_start(meta, read, &read->head.walk);
}

static enum rc repairs_page(void *owner, struct page *page)
{
    struct meta_repairs *call = owner;
    uint32_t count = page->head->count;

    call->repairs = arena_alloc_raw(page->arena, (count + 1) * sizeof(*call->repairs));
    call->queue_keys = arena_alloc_raw(page->arena, (count + 1) * sizeof(*call->queue_keys));
    for (uint32_t i = 0; i < count; i++) {
        if (!page_next(page)) {
            return RC_CORRUPT;
        }
        call->queue_keys[i] = page->row.name;
        call->repairs[i] = page_message(page, &kist__repair__descriptor);
        if (call->repairs[i] == NULL) {
            return RC_CORRUPT;
        }
    }
    call->repair_count = count;
    return RC_OK;
}

static enum step_result remote_repairs(struct meta_client *meta, struct meta_repairs *call,
                                       struct task *task)
{
    static const struct remote_kind kind = {RPC_META_REPAIRS, RPC_BULK, REMOTE_PAGE_MS,
                                            repairs_page};
    struct remote_read *read = walk_new(&kind, call, call->arena, task);

    read->head.walk.after = wire_field(call->after);
    read->head.walk.limit = call->limit;
    return read_start(meta, read, &read->head.walk);
}

static enum rc jobs_page(void *owner, struct page *page)
{
    struct meta_jobs *call = owner;

    call->jobs = (Kist__Job **)page_messages(page, &kist__job__descriptor);
    call->job_count = page->head->count;
    return call->jobs != NULL && page->head->count <= call->limit ? RC_OK : RC_CORRUPT;
}

static enum step_result remote_jobs(struct meta_client *meta, struct meta_jobs *call,
                                    struct task *task)
{
    static const struct remote_kind kind = {RPC_META_JOBS, RPC_BULK, REMOTE_PAGE_MS, jobs_page};
    struct remote_read *read = walk_new(&kind, call, call->arena, task);

    ASSERT(call->limit >= 1 && call->limit <= LIMIT_LIST_KEYS);
    read->head.walk.after_id = call->after;
    read->head.walk.limit = call->limit;
    return read_start(meta, read, &read->head.walk);
}

void remote_read_calls(struct meta_client *base)
{
    *base = (struct meta_client){
        .get = remote_get,
        .release = remote_release,
        .list = remote_list,
        .list_versions = remote_list_versions,
        .changes = remote_changes,
        .pieces = remote_pieces,
        .part_range = remote_part_range,
        .list_parts = remote_list_parts,
        .list_uploads = remote_list_uploads,
        .scan = remote_scan,
        .repairs = remote_repairs,
        .jobs = remote_jobs,
    };
}
