/*
 * COMPLETE_UPLOAD: one layout (its id is the upload's) takes over the layouts of the listed parts,
 * the others are queued, and the object becomes current: one command, without a datad.
 *
 *     upload row?
 *       no   a `completed` row with the same manifest: the first answer again; else NO_SUCH_UPLOAD
 *       yes  pass 1 over the part rows: all listed there, digest, sizes, checksum -> conditions
 *            pass 2: layout rows, record, part rows deleted, `completed` row for 7 days
 *
 * Both passes hold one part at a time: an upload may have 10,000 parts of many extents.
 */
#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "metad/apply/conditions.h"
#include "metad/apply/layout_writer.h"
#include "metad/apply/lock.h"
#include "metad/apply/object_checksum.h"
#include "metad/apply/upload.h"
#include "metad/apply/version.h"
#include "metad/store/store.h"

static const uint64_t NS_PER_S = 1000000000ULL;

struct complete {
    struct apply *apply;
    const Kist__CompleteUpload *call;
    const Kist__Upload *upload;
    struct slice key;
    struct slice upload_id;
    /* The next listed part: number, and its range. 0: no more. */
    uint32_t listed;
    size_t range_at;
    /* Of the listed parts so far. */
    uint32_t part_count;
    uint64_t size;
    uint64_t piece_count;
    uint32_t small_part; /* under 5 MiB; wrong unless it is the last. 0: none */
    struct md5_hash etag;
    struct md5_hash manifest;
    bool has_checksum;
    bool checksum_demanded;
    struct object_checksum checksum;
};

static bool complete_refuse_part(struct apply *apply, Kist__Outcome outcome, uint32_t number)
{
    apply->reply.part_number = number;
    return apply_refuse(apply, outcome);
}

/* ---- The list ---- */

static bool check_ranges(struct apply *apply, const Kist__CompleteUpload *call)
{
    uint32_t before = 0;

    if (call->n_ranges == 0 || call->n_ranges % 2 != 0 ||
        call->n_ranges > (size_t)2 * LIMIT_PARTS) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "list of parts");
    }
    for (size_t i = 0; i < call->n_ranges; i += 2) {
        uint32_t first = call->ranges[i];
        uint32_t last = call->ranges[i + 1];

        if (first <= before || last < first) {
            return complete_refuse_part(apply, KIST__OUTCOME__INVALID_PART_ORDER, first);
        }
        if (last > LIMIT_PARTS) {
            return complete_refuse_part(apply, KIST__OUTCOME__INVALID_PART, last);
        }
        before = last;
    }
    return true;
}

static void list_begin(struct complete *op)
{
    op->range_at = 0;
    op->listed = op->call->ranges[0];
}

static void list_next(struct complete *op)
{
    if (op->listed < op->call->ranges[op->range_at + 1]) {
        op->listed += 1;
        return;
    }
    op->range_at += 2;
    op->listed = op->range_at < op->call->n_ranges ? op->call->ranges[op->range_at] : 0;
}

/* What identifies the manifest: a repeat with another one is not a repeat. */
static void manifest_digest(const Kist__CompleteUpload *call, uint8_t out[HASH_MD5_BYTES])
{
    struct md5_hash md5;

    md5_init(&md5);
    for (size_t i = 0; i < call->n_ranges; i++) {
        uint8_t number[4];

        be32_put(number, call->ranges[i]);
        md5_update(&md5, number, sizeof(number));
    }
    md5_update(&md5, call->digest.data, call->digest.len);
    md5_final(&md5, out);
}

/* ---- A repeat ---- */

static void complete_repeat(struct complete *op)
{
    struct apply *apply = op->apply;
    uint8_t digest[HASH_MD5_BYTES];
    const Kist__Request *row;
    const Kist__Reply *reply;
    struct row_key key;

    key_object(&key, op->call->bucket_id, op->key, KIND_COMPLETED, op->upload_id);
    row = apply_load(apply, FAMILY_ROWS, &key, &kist__request__descriptor);
    manifest_digest(op->call, digest);
    if (row == NULL || row->due < apply->stamp ||
        !slice_eq(message_bytes(row->digest), slice_of(digest, sizeof(digest)))) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_UPLOAD);
        return;
    }
    reply = message_unpack(apply->arena, &kist__reply__descriptor, message_bytes(row->reply));
    if (reply == NULL) {
        apply_fail(apply, "a completed row does not decode");
        return;
    }
    apply->reply = *reply;
}

/* ---- Walks over the part rows ---- */

/* The next part row of the upload; the message lies in `arena`. NULL at the end. */
static Kist__Part *next_part(struct complete *op, struct apply_walk *walk, struct arena *arena)
{
    Kist__Part *part;

    if (!apply_walk_next(walk)) {
        return NULL;
    }
    part = message_unpack(arena, &kist__part__descriptor, walk->value);
    if (part == NULL || part->etag.len != HASH_MD5_BYTES) {
        apply_fail(op->apply, "a part row does not decode");
        return NULL;
    }
    return part;
}

static void parts_open(struct complete *op, struct apply_walk *walk)
{
    struct row_key prefix;

    key_object(&prefix, op->call->bucket_id, op->key, KIND_PART, op->upload_id);
    apply_walk_open(walk, op->apply, FAMILY_UPLOADS, &prefix);
    list_begin(op);
}

/* ---- Pass 1 ---- */

static bool judge_part(struct complete *op, const Kist__Part *part)
{
    uint8_t number[4];

    if (op->small_part != 0) {
        return complete_refuse_part(op->apply, KIST__OUTCOME__ENTITY_TOO_SMALL, op->small_part);
    }
    be32_put(number, part->number);
    md5_update(&op->manifest, number, sizeof(number));
    md5_update(&op->manifest, part->etag.data, part->etag.len);
    md5_update(&op->etag, part->etag.data, part->etag.len);
    if (op->has_checksum && !object_checksum_add(&op->checksum, part)) {
        if (op->checksum_demanded) {
            op->apply->reply.text = message_field(SLICE("a part has no checksum"));
            return complete_refuse_part(op->apply, KIST__OUTCOME__INVALID_ARGUMENT, part->number);
        }
        op->has_checksum = false;
    }
    op->small_part = part->size < LIMIT_PART_BYTES_MIN ? part->number : 0;
    op->part_count += 1;
    op->size += part->size; /* 10,000 parts of at most 5 GiB: no overflow */
    op->piece_count += part->n_pieces;
    return true;
}

static bool judge_parts(struct complete *op)
{
    struct apply_walk walk;
    struct arena arena;
    const Kist__Part *part;
    bool ok = true;

    arena_init(&arena);
    parts_open(op, &walk);
    while (ok && op->listed != 0 && (part = next_part(op, &walk, &arena)) != NULL) {
        if (part->number > op->listed) {
            break;
        }
        if (part->number == op->listed) {
            ok = judge_part(op, part);
            list_next(op);
        }
        arena_reset(&arena);
    }
    apply_walk_close(&walk);
    arena_deinit(&arena);
    if (!ok || op->apply->error.rc != RC_OK) {
        return false;
    }
    return op->listed == 0 ||
           complete_refuse_part(op->apply, KIST__OUTCOME__INVALID_PART, op->listed);
}

static bool judge_checksum(struct complete *op, Kist__Checksum *own)
{
    const Kist__Checksum *declared = op->call->checksum;
    uint8_t *value;

    if (op->has_checksum) {
        value = arena_alloc(op->apply->arena, OBJECT_CHECKSUM_BYTES_MAX);
        own->algorithm = op->checksum.algorithm;
        own->type = op->checksum.type;
        own->value.data = value;
        own->value.len = object_checksum_final(&op->checksum, value);
    }
    if (declared == NULL) {
        return true;
    }
    if (!op->has_checksum || declared->algorithm != own->algorithm ||
        (declared->type != 0 && declared->type != own->type) ||
        !slice_eq(message_bytes(declared->value), message_bytes(own->value))) {
        return apply_refuse(op->apply, KIST__OUTCOME__BAD_CHECKSUM);
    }
    return true;
}

static bool judge_whole(struct complete *op)
{
    struct apply *apply = op->apply;
    uint8_t manifest[HASH_MD5_BYTES];

    md5_final(&op->manifest, manifest);
    if (!slice_eq(message_bytes(op->call->digest), slice_of(manifest, sizeof(manifest)))) {
        return apply_refuse(apply, KIST__OUTCOME__INVALID_PART);
    }
    if (op->size > LIMIT_OBJECT_BYTES) {
        return apply_refuse(apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
    }
    if (op->piece_count > UINT32_MAX) {
        return apply_refuse(apply, KIST__OUTCOME__ENTITY_TOO_LARGE);
    }
    if (op->call->has_size && op->call->size != op->size) {
        return apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT,
                                 "x-amz-mp-object-size is not the size of the parts");
    }
    return true;
}

/* ---- Pass 2 ---- */

/* The queue's row names the part's layout: from now on it is the object's. */
static void take_repairs(struct complete *op, const struct layout_name *layout,
                         const Kist__Part *part)
{
    uint64_t stamp = op->apply->stamp;

    op->apply->stamp = part->stamp;
    layout_queue_repairs(op->apply, layout, part->pieces, part->n_pieces);
    op->apply->stamp = stamp;
}

static void take_part(struct complete *op, struct layout_writer *writer, const Kist__Part *part,
                      Kist__Record *record)
{
    layout_writer_part(writer, part);
    for (size_t i = 0; i < part->n_pieces; i++) {
        if (record->n_pieces < LIMIT_RECORD_PIECES) {
            struct slice packed = message_pack(op->apply->arena, &part->pieces[i]->base);

            record->pieces[record->n_pieces++] =
                message_unpack(op->apply->arena, &kist__piece__descriptor, packed);
        }
        layout_writer_add(writer, part->pieces[i]);
    }
    take_repairs(op, &writer->layout, part);
}

static void take_parts(struct complete *op, struct layout_writer *writer, Kist__Record *record)
{
    /* Pieces wait in the writer for their row: those of one arena are gone once a row was written
     * and the next part begun, then that arena is free for the parts after it. */
    struct arena arenas[2];
    struct apply_walk walk;
    const Kist__Part *part;
    struct row_key row;
    uint32_t flushed = 0;
    int at = 0;

    arena_init(&arenas[0]);
    arena_init(&arenas[1]);
    parts_open(op, &walk);
    while ((part = next_part(op, &walk, &arenas[at])) != NULL) {
        if (part->number == op->listed) {
            take_part(op, writer, part, record);
            list_next(op);
        } else {
            layout_drop_part(op->apply, op->call->bucket_id, op->key, part);
        }
        ASSERT(walk.key.len <= sizeof(row.bytes));
        row.len = 0;
        row_key_append(&row, walk.key);
        apply_delete(op->apply, FAMILY_UPLOADS, &row);
        if (writer->flush_count != flushed || !writer->rows) {
            flushed = writer->flush_count;
            at = 1 - at;
            arena_reset(&arenas[at]);
        }
    }
    layout_writer_finish(writer);
    apply_walk_close(&walk);
    arena_deinit(&arenas[0]);
    arena_deinit(&arenas[1]);
}

static Kist__Record *complete_record(struct complete *op, Kist__Checksum *checksum)
{
    struct apply *apply = op->apply;
    Kist__Record *record = op->upload->template_;
    uint8_t *etag = arena_alloc(apply->arena, HASH_MD5_BYTES);

    md5_final(&op->etag, etag);
    record->size = op->size;
    record->etag = (ProtobufCBinaryData){.len = HASH_MD5_BYTES, .data = etag};
    record->part_count = op->part_count;
    record->n_checksums = 0;
    if (op->has_checksum) {
        record->checksums = arena_alloc(apply->arena, sizeof(*record->checksums));
        record->checksums[0] = checksum;
        record->n_checksums = 1;
    }
    record->inline_body = false;
    record->shared = NULL;
    record->layout_id = op->upload->upload_id;
    record->piece_count = (uint32_t)op->piece_count;
    record->pieces = arena_alloc(apply->arena, LIMIT_RECORD_PIECES * sizeof(*record->pieces));
    record->n_pieces = 0;
    return record;
}

static void complete_remember(struct complete *op)
{
    struct apply *apply = op->apply;
    Kist__Request request = KIST__REQUEST__INIT;
    uint8_t digest[HASH_MD5_BYTES];
    struct row_key row;

    manifest_digest(op->call, digest);
    request.due = apply->stamp + LIMIT_COMPLETE_REPEAT_S * NS_PER_S;
    request.digest = message_field(slice_of(digest, sizeof(digest)));
    request.reply = message_field(message_pack(apply->arena, &apply->reply.base));
    key_object(&row, op->call->bucket_id, op->key, KIND_COMPLETED, op->upload_id);
    apply_put_message(apply, FAMILY_ROWS, &row, &request.base);
}

static void complete_write(struct complete *op, struct version_key *key, Kist__Checksum *checksum)
{
    struct apply *apply = op->apply;
    Kist__Record *record = complete_record(op, checksum);
    struct version_cause cause = {.kind = KIST__CHANGE_KIND__CHANGE_COMPLETE,
                                  .user = message_bytes(record->owner)};
    struct layout_name layout = {
        .bucket_id = op->call->bucket_id, .key = op->key, .id = op->upload_id};
    struct layout_writer writer;

    layout_writer_init(&writer, apply, &layout, op->piece_count > LIMIT_RECORD_PIECES);
    take_parts(op, &writer, record);
    upload_delete(apply, op->call->bucket_id, op->key, op->upload_id);
    record->delete_marker = false;
    record->lock = lock_of_new(apply, key->bucket, record->lock);
    version_put(key, record, false, &cause);
    apply->reply.record = record;
    apply->reply.stamp = apply->stamp;
    complete_remember(op);
}

static void complete_begin(struct complete *op)
{
    const Kist__Upload *upload = op->upload;

    md5_init(&op->etag);
    md5_init(&op->manifest);
    op->checksum_demanded = upload->checksum_algorithm != OBJECT_CHECKSUM_NONE;
    if (op->checksum_demanded) {
        op->has_checksum =
            object_checksum_init(&op->checksum, upload->checksum_algorithm, upload->checksum_type);
    } else {
        /* Gateways compute this one when the client sent none. */
        op->has_checksum =
            object_checksum_init(&op->checksum, OBJECT_CHECKSUM_CRC64NVME, OBJECT_CHECKSUM_FULL);
    }
}

void apply_complete_upload(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__CompleteUpload *call = (const Kist__CompleteUpload *)message;
    struct complete op = {.apply = apply,
                          .call = call,
                          .key = message_bytes(call->key),
                          .upload_id = message_bytes(call->upload_id)};
    Kist__Checksum checksum = KIST__CHECKSUM__INIT;
    struct version_key key;
    struct version replaced;
    Kist__Outcome outcome;

    if (!apply_check_bucket(apply, call->bucket_id, call->generation) ||
        !apply_check_key(apply, call->key)) {
        return;
    }
    if (op.upload_id.len != ID_BYTES) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_UPLOAD);
        return;
    }
    op.upload = upload_load(apply, call->bucket_id, op.key, op.upload_id);
    if (op.upload == NULL) {
        complete_repeat(&op);
        return;
    }
    if (!check_ranges(apply, call)) {
        return;
    }
    complete_begin(&op);
    if (!judge_parts(&op) || !judge_whole(&op) || !judge_checksum(&op, &checksum)) {
        return;
    }
    version_key_init(&key, apply, call->bucket_id, op.key);
    outcome = conditions_write(call->conditions, version_current(&key));
    if (outcome == KIST__OUTCOME__OUTCOME_OK) {
        outcome = version_replaced(&key, &replaced);
    }
    if (outcome != KIST__OUTCOME__OUTCOME_OK) {
        (void)apply_refuse(apply, outcome);
        return;
    }
    complete_write(&op, &key, &checksum);
}
