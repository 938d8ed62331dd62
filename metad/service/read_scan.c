/*
 * All extents, for repair and audit, and the repair queue. Never on a loop: these are long.
 *
 * A scan goes through four families in turn (current, rows, uploads, history); its cursor is the
 * family and the key of the last row. Each extent comes once: long layouts from their rows, short
 * ones from the version or part that owns them, and from the home row when none does any more. (A
 * version that moves to history behind the scan comes twice, one that is promoted from it not at
 * all: the next scan has it.)
 */
#include "metad/service/read.h"
#include "metad/store/message.h"

enum { HOME_LIVE_STATE = 1, SCAN_ROWS_MAX = 20000 };

/* By the first byte of a cursor. */
static const enum family scan_families[] = {FAMILY_CURRENT, FAMILY_ROWS, FAMILY_UPLOADS,
                                            FAMILY_HISTORY};
enum { SCAN_FAMILIES = 4 };

struct scan {
    struct read_context *read;
    struct meta_scan *call;
    uint32_t item_max;
    uint32_t rows;
};

/* The calls have no bound on pieces of one row: room grows. */
static void scan_room(struct scan *scan, size_t more)
{
    struct meta_scan_item *items;

    if (scan->call->item_count + more <= scan->item_max) {
        return;
    }
    scan->item_max = (uint32_t)(scan->call->item_count + more) * 2;
    items = arena_alloc_raw(scan->call->arena, scan->item_max * sizeof(*items));
    if (scan->call->item_count > 0) {
        memcpy(items, scan->call->items, scan->call->item_count * sizeof(*items));
    }
    scan->call->items = items;
}

static void scan_add(struct scan *scan, uint64_t bucket_id, struct slice key,
                     struct slice layout_id, Kist__Piece *const *pieces, size_t count)
{
    struct slice key_copy = arena_copy(scan->call->arena, key);

    scan_room(scan, count);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i]->owner == NULL && pieces[i]->extent != NULL) {
            scan->call->items[scan->call->item_count++] =
                (struct meta_scan_item){.bucket_id = bucket_id,
                                        .key = key_copy,
                                        .layout_id = layout_id,
                                        .piece = pieces[i]};
        }
    }
}

static enum rc scan_record(struct scan *scan, uint64_t bucket_id, struct slice key,
                           struct slice value)
{
    const Kist__Record *record =
        message_unpack(scan->call->arena, &kist__record__descriptor, value);

    if (record == NULL) {
        return read_corrupt(scan->read, "a record");
    }
    if (record->shared == NULL && record->piece_count <= record->n_pieces) {
        scan_add(scan, bucket_id, key, message_bytes(record->layout_id), record->pieces,
                 record->n_pieces);
    }
    return RC_OK;
}

/* Does a version still own the layout? Then it comes by that. The owner's reference beside a home
 * row says so. */
static enum rc owned_by_record(struct scan *scan, const struct row_name *name, bool *owned)
{
    struct row_key key;
    void *found = NULL;
    enum rc rc;

    key_object(&key, name->bucket_id, name->key, KIND_HOME_REFERENCE, name->suffix);
    row_key_append(&key, name->suffix);
    rc = read_load(scan->read, FAMILY_ROWS, &key, &kist__home_reference__descriptor,
                   scan->call->arena, &found);
    *owned = rc == RC_OK;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc scan_home(struct scan *scan, const struct row_name *name, struct slice value)
{
    const Kist__Home *home = message_unpack(scan->call->arena, &kist__home__descriptor, value);
    bool owned;
    enum rc rc;

    if (home == NULL) {
        return read_corrupt(scan->read, "a home row");
    }
    if (home->state != HOME_LIVE_STATE || home->reference_count == 0) {
        return RC_OK;
    }
    rc = owned_by_record(scan, name, &owned);
    if (rc == RC_OK && !owned) {
        scan_add(scan, name->bucket_id, name->key, arena_copy(scan->call->arena, name->suffix),
                 home->pieces, home->n_pieces);
    }
    return rc;
}

static enum rc scan_current(struct scan *scan, struct slice row, struct slice value)
{
    uint64_t bucket_id;
    struct slice key;

    if (!current_parse(row, &bucket_id, &key)) {
        return read_corrupt(scan->read, "a key of the current family");
    }
    return scan_record(scan, bucket_id, key, value);
}

static enum rc scan_row(struct scan *scan, struct slice row, struct slice value)
{
    uint8_t kind = row_kind_of(row);
    struct row_name name;

    if (kind != KIND_LAYOUT && kind != KIND_HOME && kind != KIND_PART && kind != KIND_HISTORY) {
        return RC_OK;
    }
    if (!row_name_parse(scan->call->arena, row, &name)) {
        return read_corrupt(scan->read, "a key of the rows family");
    }
    if (kind == KIND_HISTORY) {
        return scan_record(scan, name.bucket_id, name.key, value);
    }
    if (name.suffix.len < ID_BYTES || (kind == KIND_HOME && name.suffix.len != ID_BYTES)) {
        return read_corrupt(scan->read, "a key of the rows family");
    }
    if (kind == KIND_HOME) {
        return scan_home(scan, &name, value);
    }
    if (kind == KIND_LAYOUT) {
        const Kist__LayoutChunk *chunk =
            message_unpack(scan->call->arena, &kist__layout_chunk__descriptor, value);

        if (chunk == NULL) {
            return read_corrupt(scan->read, "a layout row");
        }
        scan_add(scan, name.bucket_id, name.key,
                 arena_copy(scan->call->arena, slice_of(name.suffix.data, ID_BYTES)), chunk->pieces,
                 chunk->n_pieces);
    } else {
        const Kist__Part *part = message_unpack(scan->call->arena, &kist__part__descriptor, value);

        if (part == NULL) {
            return read_corrupt(scan->read, "a part row");
        }
        scan_add(scan, name.bucket_id, name.key, message_bytes(part->layout_id), part->pieces,
                 part->n_pieces);
    }
    return RC_OK;
}

static struct slice scan_cursor(struct arena *arena, size_t family_at, struct slice row)
{
    char *cursor = arena_alloc_raw(arena, 1 + row.len);

    cursor[0] = (char)family_at;
    if (row.len > 0) {
        memcpy(cursor + 1, row.data, row.len);
    }
    return slice_of(cursor, 1 + row.len);
}

/* The rest of one family; sets next_cursor when the page is full. */
static enum rc scan_family(struct scan *scan, size_t at, struct slice after)
{
    struct meta_scan *call = scan->call;
    struct row_key all = {.len = 0};
    struct row_key start = {.len = 0};
    struct read_walk walk;
    enum rc rc = RC_OK;

    row_key_append(&start, after);
    if (after.len > 0) {
        row_key_append(&start, SLICE("\0"));
    }
    read_walk_open(&walk, scan->read, scan_families[at], &start, &all, true);
    while (rc == RC_OK && read_walk_valid(&walk)) {
        struct slice row = read_walk_key(&walk);

        rc = scan_families[at] == FAMILY_CURRENT ? scan_current(scan, row, read_walk_value(&walk))
                                                 : scan_row(scan, row, read_walk_value(&walk));
        scan->rows += 1;
        if (rc == RC_OK && (call->item_count >= call->limit || scan->rows >= SCAN_ROWS_MAX)) {
            call->next_cursor = scan_cursor(call->arena, at, row);
            break;
        }
        (void)read_walk_next(&walk);
    }
    if (rc == RC_OK && call->next_cursor.len == 0) {
        rc = read_walk_rc(&walk);
    }
    read_walk_close(&walk);
    return rc;
}

enum rc read_scan(struct read_context *read, void *arg)
{
    struct meta_scan *call = arg;
    struct scan scan = {.read = read, .call = call};
    struct slice after = slice_after(call->cursor, 1);
    size_t at = call->cursor.len > 0 ? (uint8_t)call->cursor.data[0] : 0;
    enum rc rc = RC_OK;

    if (read->cached_only) {
        return RC_AGAIN;
    }
    call->item_count = 0;
    call->next_cursor = SLICE_EMPTY;
    if (at >= SCAN_FAMILIES || after.len >= ROW_KEY_BYTES_MAX) {
        return error_set(&read->error, RC_INVALID, "not a cursor of a scan");
    }
    for (; rc == RC_OK && at < SCAN_FAMILIES && call->next_cursor.len == 0; at++) {
        rc = scan_family(&scan, at, after);
        after = SLICE_EMPTY;
    }
    return rc;
}

/* ---- The repair queue ---- */

enum rc read_repairs(struct read_context *read, void *arg)
{
    struct meta_repairs *call = arg;
    struct row_key prefix;
    struct row_key start;
    struct read_walk walk;
    enum rc rc = RC_OK;

    if (read->cached_only) {
        return RC_AGAIN;
    }
    call->repair_count = 0;
    call->repairs = arena_alloc_raw(call->arena, (call->limit + 1) * sizeof(*call->repairs));
    call->queue_keys = arena_alloc_raw(call->arena, (call->limit + 1) * sizeof(*call->queue_keys));
    key_range(&prefix, RANGE_FIRST, KIND_REPAIR, SLICE_EMPTY);
    start = prefix;
    if (call->after.len > 0 && call->after.len < ROW_KEY_BYTES_MAX) {
        start.len = 0;
        row_key_append(&start, call->after);
        row_key_append(&start, SLICE("\0"));
    }
    read_walk_open(&walk, read, FAMILY_ROWS, &start, &prefix, true);
    while (rc == RC_OK && read_walk_valid(&walk) && call->repair_count < call->limit) {
        Kist__Repair *repair =
            message_unpack(call->arena, &kist__repair__descriptor, read_walk_value(&walk));

        if (repair == NULL) {
            rc = read_corrupt(read, "a repair row");
        } else {
            call->repairs[call->repair_count] = repair;
            call->queue_keys[call->repair_count++] = arena_copy(call->arena, read_walk_key(&walk));
            (void)read_walk_next(&walk);
        }
    }
    rc = rc == RC_OK && !read_walk_valid(&walk) ? read_walk_rc(&walk) : rc;
    read_walk_close(&walk);
    return rc;
}
