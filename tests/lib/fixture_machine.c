#include "tests/lib/fixture_machine.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/codec/crc.h"
#include "tests/lib/sim_kv_paths.h"

enum { NOW_S = 1800000000 };

static void fixture_open(struct machine_fixture *f)
{
    struct machine_options options = {
        .env = f->env, .path = FIXTURE_PATH, .kv_open = sim_kv_paths_kv_open};

    ASSERT(machine_open(&f->machine, &options, &f->error) == RC_OK);
}

static void fixture_bucket(struct machine_fixture *f)
{
    Kist__PutUser put_user = KIST__PUT_USER__INIT;
    Kist__User user = KIST__USER__INIT;
    Kist__CreateBucket create = KIST__CREATE_BUCKET__INIT;
    const Kist__Reply *reply;

    user.name = field_of("root");
    put_user.user = &user;
    reply = machine_fixture_apply(f, META_PUT_USER, &put_user.base, SLICE_EMPTY);
    ASSERT(reply != NULL && reply->outcome == KIST__OUTCOME__OUTCOME_OK);
    create.name = field_of("box");
    create.owner = field_of("root");
    reply = machine_fixture_apply(f, META_CREATE_BUCKET, &create.base, SLICE_EMPTY);
    ASSERT(reply != NULL && reply->outcome == KIST__OUTCOME__OUTCOME_OK);
    f->bucket_id = reply->bucket->id;
    f->generation = reply->bucket->generation;
}

void machine_fixture_init(struct machine_fixture *f)
{
    *f = (struct machine_fixture){.now_ns = NOW_S * SIM_S, .request = 1};
    f->env = sim_env_alone(1);
    sim_kv_paths_open(sim_of(f->env));
    arena_init(&f->arena);
    fixture_open(f);
    fixture_bucket(f);
}

void machine_fixture_deinit(struct machine_fixture *f)
{
    machine_close(f->machine);
    sim_kv_paths_close();
    sim_free(sim_of(f->env));
    arena_deinit(&f->arena);
}

uint64_t machine_fixture_crash(struct machine_fixture *f)
{
    struct state_machine *state;

    /* The program's memory is gone with it (as in a crash): only the stores' files stay. */
    sim_kv_paths_crash(FIXTURE_PATH, SIM_POWER);
    fixture_open(f);
    state = machine_state(f->machine);
    return state->applied(state);
}

struct slice machine_fixture_entry(struct machine_fixture *f, enum meta_command command,
                                   const ProtobufCMessage *message, struct slice body)
{
    struct entry entry = {.command = (uint16_t)command,
                          .proposed_ns = f->now_ns,
                          .deadline_ns = f->deadline_ns,
                          .message = message_pack(&f->arena, message),
                          .body = body};
    size_t len = ENTRY_HEADER_BYTES + entry.message.len + body.len;
    char *bytes = arena_alloc_raw(&f->arena, len);

    if (f->request != 0) {
        be64_put(entry.request_id, f->request++);
    }
    entry_encode(&entry, bytes);
    memcpy(bytes + ENTRY_HEADER_BYTES, entry.message.data, entry.message.len);
    if (body.len > 0) {
        memcpy(bytes + ENTRY_HEADER_BYTES + entry.message.len, body.data, body.len);
    }
    return slice_of(bytes, len);
}

Kist__Reply *machine_fixture_apply_raw(struct machine_fixture *f, struct slice bytes)
{
    struct state_machine *state = machine_state(f->machine);
    struct apply_entry entry = {.index = state->applied(state) + 1, .term = 1, .data = bytes};
    const struct machine_result *result;
    Kist__Reply *reply;

    f->error = (struct error){.rc = RC_OK};
    if (!state->apply(state, &entry, 1, &f->error)) {
        return NULL;
    }
    result = entry.result;
    reply =
        message_unpack(&f->arena, &kist__reply__descriptor, slice_of(result->reply, result->len));
    state->result_free(state, entry.result);
    ASSERT(reply != NULL);
    return reply;
}

Kist__Reply *machine_fixture_apply(struct machine_fixture *f, enum meta_command command,
                                   const ProtobufCMessage *message, struct slice body)
{
    return machine_fixture_apply_raw(f, machine_fixture_entry(f, command, message, body));
}

/* ---- Parts of commands ---- */

ProtobufCBinaryData machine_fixture_id(struct machine_fixture *f)
{
    uint8_t *id = arena_alloc(&f->arena, ID_BYTES);

    be32_put(id, 1);
    be32_put(id + 4, 1);
    be64_put(id + 8, f->now_ns / SIM_MS);
    be64_put(id + 16, ++f->ids);
    return (ProtobufCBinaryData){.len = ID_BYTES, .data = id};
}

Kist__Piece *machine_fixture_piece(struct machine_fixture *f, uint64_t length)
{
    Kist__Piece *piece = arena_alloc(&f->arena, sizeof(*piece));
    Kist__Extent *extent = arena_alloc(&f->arena, sizeof(*extent));

    kist__piece__init(piece);
    kist__extent__init(extent);
    piece->length = length;
    piece->extent = extent;
    extent->id = machine_fixture_id(f);
    extent->pg = 1;
    extent->pg_epoch = 1;
    extent->kind = 2;
    extent->data_shards = 4;
    extent->parity_shards = 2;
    extent->stripe_unit = 65536;
    extent->length = length;
    extent->durable = 0x3f;
    return piece;
}

Kist__Record *machine_fixture_record(struct machine_fixture *f, uint64_t size)
{
    Kist__Record *record = arena_alloc(&f->arena, sizeof(*record));
    uint8_t *etag = arena_alloc(&f->arena, 16);

    kist__record__init(record);
    be64_put(etag, ++f->ids);
    record->size = size;
    record->etag = (ProtobufCBinaryData){.len = 16, .data = etag};
    record->owner = field_of("root");
    return record;
}

/* ---- Short forms ---- */

static Kist__Outcome fixture_outcome(const Kist__Reply *reply)
{
    ASSERT(reply != NULL);
    return reply->outcome;
}

Kist__Outcome machine_fixture_put(struct machine_fixture *f, const char *key, uint64_t size)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, size);

    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of(key);
    put.record = machine_fixture_record(f, size);
    put.record->layout_id = machine_fixture_id(f);
    put.record->pieces = &piece;
    put.record->n_pieces = 1;
    return fixture_outcome(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, SLICE_EMPTY));
}

Kist__Outcome machine_fixture_put_inline(struct machine_fixture *f, const char *key,
                                         const char *body)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;

    put.bucket_id = f->bucket_id;
    put.generation = f->generation;
    put.key = field_of(key);
    put.record = machine_fixture_record(f, strlen(body));
    put.record->inline_body = body[0] != '\0';
    return fixture_outcome(machine_fixture_apply(f, META_PUT_OBJECT, &put.base, slice_str(body)));
}

Kist__Outcome machine_fixture_delete(struct machine_fixture *f, const char *key)
{
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item item = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items = &item;
    const Kist__Reply *reply;

    item.key = field_of(key);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = &items;
    call.n_items = 1;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    ASSERT(reply != NULL);
    return reply->outcome != KIST__OUTCOME__OUTCOME_OK ? reply->outcome
                                                       : reply->deleted[0]->outcome;
}

Kist__Outcome machine_fixture_copy(struct machine_fixture *f, const char *from, const char *to)
{
    Kist__CopyObject copy = KIST__COPY_OBJECT__INIT;

    copy.source_bucket_id = f->bucket_id;
    copy.source_generation = f->generation;
    copy.source_key = field_of(from);
    copy.bucket_id = f->bucket_id;
    copy.generation = f->generation;
    copy.key = field_of(to);
    copy.copy_id = machine_fixture_id(f);
    copy.record = machine_fixture_record(f, 0);
    return fixture_outcome(machine_fixture_apply(f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY));
}

ProtobufCBinaryData machine_fixture_upload(struct machine_fixture *f, const char *key)
{
    Kist__CreateUpload call = KIST__CREATE_UPLOAD__INIT;
    Kist__Upload upload = KIST__UPLOAD__INIT;

    upload.upload_id = machine_fixture_id(f);
    upload.template_ = machine_fixture_record(f, 0);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of(key);
    call.upload = &upload;
    ASSERT(fixture_outcome(machine_fixture_apply(f, META_CREATE_UPLOAD, &call.base, SLICE_EMPTY)) ==
           KIST__OUTCOME__OUTCOME_OK);
    return upload.upload_id;
}

Kist__Reply *machine_fixture_part(struct machine_fixture *f, const char *key,
                                  ProtobufCBinaryData upload_id, uint32_t number, uint64_t size)
{
    Kist__PutPart call = KIST__PUT_PART__INIT;
    Kist__Part part = KIST__PART__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, size);
    const Kist__Record *record = machine_fixture_record(f, size);

    part.number = number;
    part.size = size;
    part.etag = record->etag;
    if (size > 0) {
        part.layout_id = machine_fixture_id(f);
        part.pieces = &piece;
        part.n_pieces = 1;
    }
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of(key);
    call.upload_id = upload_id;
    call.part = &part;
    return machine_fixture_apply(f, META_PUT_PART, &call.base, SLICE_EMPTY);
}

Kist__Deleted *machine_fixture_delete_version(struct machine_fixture *f, const char *key,
                                              struct slice version, bool bypass)
{
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item item = KIST__DELETE_OBJECTS__ITEM__INIT;
    Kist__DeleteObjects__Item *items = &item;
    const Kist__Reply *reply;

    item.key = field_of(key);
    item.version = message_field(version);
    item.bypass_governance = bypass;
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.items = &items;
    call.n_items = 1;
    reply = machine_fixture_apply(f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    ASSERT(reply != NULL && reply->outcome == KIST__OUTCOME__OUTCOME_OK && reply->n_deleted == 1);
    return reply->deleted[0];
}

void machine_fixture_setting(struct machine_fixture *f, uint32_t setting, Kist__Settings *value)
{
    Kist__PutSetting call = KIST__PUT_SETTING__INIT;

    call.name = field_of("box");
    call.bucket_id = f->bucket_id;
    call.setting = setting;
    call.value = value;
    ASSERT(fixture_outcome(machine_fixture_apply(f, META_PUT_SETTING, &call.base, SLICE_EMPTY)) ==
           KIST__OUTCOME__OUTCOME_OK);
    f->generation += 1;
}

void machine_fixture_versioning(struct machine_fixture *f, uint32_t state)
{
    Kist__Settings settings = KIST__SETTINGS__INIT;
    Kist__Versioning versioning = KIST__VERSIONING__INIT;

    versioning.state = state;
    settings.versioning = &versioning;
    machine_fixture_setting(f, 1, &settings);
}

static struct kv_iter *fixture_iter(struct store *store, enum family family)
{
    struct kv_iter_options options = {.family = family};
    struct kv_iter *iter = store->kv->ops->iter_open(store->kv, &options);

    store->kv->ops->iter_seek(iter, SLICE_EMPTY);
    return iter;
}

/* As metad/reclaim.c goes about it: the layout's rows if there are any, else the answer. */
struct fixture_drain {
    void (*on_extent)(void *arg, struct slice extent_id);
    void *arg;
    size_t extents;
};

static void drain_pieces(struct fixture_drain *drain, Kist__Piece *const *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i]->owner == NULL) {
            drain->extents += 1;
            if (drain->on_extent != NULL) {
                drain->on_extent(drain->arg, message_bytes(pieces[i]->extent->id));
            }
        }
    }
}

static bool drain_rows(struct machine_fixture *f, struct fixture_drain *drain,
                       const Kist__Reclaim *queued)
{
    struct store *store = machine_store(f->machine);
    const struct kv_ops *ops = store->kv->ops;
    struct kv_iter *iter = fixture_iter(store, FAMILY_ROWS);
    struct row_key prefix;
    bool any = false;

    key_object(&prefix, queued->bucket_id, message_bytes(queued->key), KIND_LAYOUT,
               message_bytes(queued->layout_id));
    for (ops->iter_seek(iter, row_key_slice(&prefix));
         ops->iter_valid(iter) && slice_starts(ops->iter_key(iter), row_key_slice(&prefix));
         ops->iter_next(iter)) {
        const Kist__LayoutChunk *chunk =
            message_unpack(&f->arena, &kist__layout_chunk__descriptor, ops->iter_value(iter));

        ASSERT(chunk != NULL);
        drain_pieces(drain, chunk->pieces, chunk->n_pieces);
        any = true;
    }
    ops->iter_close(iter);
    store_unref(store);
    return any;
}

size_t machine_fixture_drain(struct machine_fixture *f,
                             void (*on_extent)(void *arg, struct slice extent_id), void *arg)
{
    struct fixture_drain drain = {.on_extent = on_extent, .arg = arg};
    const Kist__Reclaim *queued;
    struct slice queue_key;

    while ((queued = machine_fixture_first(f, FAMILY_ROWS, KIND_RECLAIM, &kist__reclaim__descriptor,
                                           &queue_key)) != NULL) {
        Kist__Condemn condemn = KIST__CONDEMN__INIT;
        Kist__Reclaimed reclaimed = KIST__RECLAIMED__INIT;
        const Kist__Reply *reply;

        condemn.bucket_id = queued->bucket_id;
        condemn.key = queued->key;
        condemn.layout_id = queued->layout_id;
        condemn.pieces = queued->pieces;
        condemn.n_pieces = queued->n_pieces;
        reply = machine_fixture_apply(f, META_CONDEMN, &condemn.base, SLICE_EMPTY);
        ASSERT(reply != NULL);
        if (reply->outcome == KIST__OUTCOME__OUTCOME_OK && !drain_rows(f, &drain, queued)) {
            drain_pieces(&drain, reply->pieces, reply->n_pieces);
        }
        reclaimed.bucket_id = queued->bucket_id;
        reclaimed.key = queued->key;
        reclaimed.layout_id = queued->layout_id;
        reclaimed.queue_key = message_field(queue_key);
        ASSERT(fixture_outcome(machine_fixture_apply(f, META_RECLAIMED, &reclaimed.base,
                                                     SLICE_EMPTY)) == KIST__OUTCOME__OUTCOME_OK);
    }
    return drain.extents;
}

/* ---- What the rows say ---- */

Kist__Record *machine_fixture_current(struct machine_fixture *f, const char *key)
{
    struct store *store = machine_store(f->machine);
    struct row_key row;
    struct kv_pin pin;
    Kist__Record *record = NULL;

    key_current(&row, f->bucket_id, slice_str(key));
    if (kv_get(store->kv, FAMILY_CURRENT, row_key_slice(&row), KV_ANY, &pin, NULL) == RC_OK) {
        record = message_unpack(&f->arena, &kist__record__descriptor, pin.value);
        kv_release(store->kv, &pin);
    }
    store_unref(store);
    return record;
}

struct slice machine_fixture_inline(struct machine_fixture *f, const char *key)
{
    const Kist__Record *record = machine_fixture_current(f, key);
    struct store *store = machine_store(f->machine);
    struct slice body = SLICE_EMPTY;
    struct row_key row;
    struct kv_pin pin;

    key_inline(&row, f->bucket_id, slice_str(key), record != NULL ? record->stamp : 0);
    if (kv_get(store->kv, FAMILY_INLINE, row_key_slice(&row), KV_ANY, &pin, NULL) == RC_OK) {
        body = arena_copy(&f->arena, pin.value);
        kv_release(store->kv, &pin);
    }
    store_unref(store);
    return body;
}

size_t machine_fixture_count(struct machine_fixture *f, enum family family, enum row_kind kind)
{
    struct store *store = machine_store(f->machine);
    const struct kv_ops *ops = store->kv->ops;
    struct kv_iter *iter = fixture_iter(store, family);
    size_t count = 0;

    for (; ops->iter_valid(iter); ops->iter_next(iter)) {
        bool rows = family == FAMILY_ROWS || family == FAMILY_UPLOADS || family == FAMILY_HISTORY;

        count += !rows || row_kind_of(ops->iter_key(iter)) == kind;
    }
    ops->iter_close(iter);
    store_unref(store);
    return count;
}

void *machine_fixture_first(struct machine_fixture *f, enum family family, enum row_kind kind,
                            const ProtobufCMessageDescriptor *type, struct slice *key_out)
{
    struct store *store = machine_store(f->machine);
    const struct kv_ops *ops = store->kv->ops;
    struct kv_iter *iter = fixture_iter(store, family);
    void *message = NULL;

    for (; message == NULL && ops->iter_valid(iter); ops->iter_next(iter)) {
        if (row_kind_of(ops->iter_key(iter)) == kind) {
            message = message_unpack(&f->arena, type, ops->iter_value(iter));
            if (key_out != NULL) {
                *key_out = arena_copy(&f->arena, ops->iter_key(iter));
            }
        }
    }
    ops->iter_close(iter);
    store_unref(store);
    return message;
}

Kist__Usage *machine_fixture_usage(struct machine_fixture *f)
{
    Kist__Usage *usage =
        machine_fixture_first(f, FAMILY_ROWS, KIND_USAGE, &kist__usage__descriptor, NULL);
    static Kist__Usage none = KIST__USAGE__INIT;

    return usage != NULL ? usage : &none;
}

uint32_t machine_fixture_digest(struct machine *machine)
{
    static const enum family families[] = {FAMILY_CURRENT, FAMILY_ROWS, FAMILY_INLINE,
                                           FAMILY_UPLOADS, FAMILY_HISTORY};
    struct store *store = machine_store(machine);
    const struct kv_ops *ops = store->kv->ops;
    uint32_t crc = 0;

    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        struct kv_iter *iter = fixture_iter(store, families[i]);

        for (; ops->iter_valid(iter); ops->iter_next(iter)) {
            struct slice key = ops->iter_key(iter);
            struct slice value = ops->iter_value(iter);

            crc = crc32c(crc, key.data, key.len);
            crc = crc32c(crc, value.data, value.len);
        }
        ops->iter_close(iter);
    }
    store_unref(store);
    return crc;
}
