/*
 * Random commands on a few keys against a plain model of versions: what lies in `current` and
 * `history`, the null version's pointer, the usage, the inline bodies, and above all the extents:
 * each is alive exactly while a version names it, and is freed exactly once. Longer than most
 * files, because model, commands and comparison change together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/base/mem.h"
#include "common/client/version_id.h"
#include "common/crypto/hash.h"
#include "tests/lib/fixture_machine.h"

enum {
    KEYS = 4,
    VERSIONS_MAX = 400,
    EXTENTS_MAX = 120, /* of one version */
    EXTENTS_ALL = 20000,
    STEPS = 4000,
    PIECE_BYTES = 1000
};

struct model_version {
    uint64_t stamp;
    uint32_t tie;
    bool null;
    bool marker;
    uint64_t size;
    char body[32]; /* inline */
    uint32_t extents[EXTENTS_MAX];
    uint32_t extent_count;
};

struct model_key {
    struct model_version *versions[VERSIONS_MAX]; /* newest first */
    size_t count;
};

struct model {
    struct machine_fixture *f;
    uint64_t random;
    uint32_t state; /* 0 off, 1 enabled, 2 suspended */
    struct model_key keys[KEYS];
    uint8_t extents[EXTENTS_ALL]; /* by the last number of the id: 0 never made, 1 made, 2 freed */
    uint32_t wrong;               /* freed though named, or twice */
};

static const char *const names[KEYS] = {"a", "a/b", "b", "c"};

static uint64_t pick(struct model *m, uint64_t below)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random % below;
}

/* ---- The model ---- */

static void model_erase(struct model_key *key, size_t at)
{
    ASSERT(at < key->count);
    mem_free(key->versions[at]);
    memmove(&key->versions[at], &key->versions[at + 1],
            (key->count - at - 1) * sizeof(key->versions[0]));
    key->count -= 1;
}

static struct model_version *model_push(struct model *m, struct model_key *key,
                                        const struct model_version *version)
{
    struct model_version *added = mem_alloc(sizeof(*added));

    *added = *version;
    added->null = m->state != 1;
    for (size_t i = 0; added->null && i < key->count; i++) {
        if (key->versions[i]->null) {
            model_erase(key, i);
            break;
        }
    }
    ASSERT(key->count < VERSIONS_MAX);
    memmove(&key->versions[1], &key->versions[0], key->count * sizeof(key->versions[0]));
    key->versions[0] = added;
    key->count += 1;
    return added;
}

static struct model_version *model_current(struct model_key *key)
{
    return key->count > 0 && !key->versions[0]->marker ? key->versions[0] : NULL;
}

static void model_delete(struct model *m, struct model_key *key, const Kist__Deleted *deleted)
{
    struct model_version marker = {
        .marker = true, .stamp = deleted->stamp, .tie = deleted->tie, .size = 0};

    if (m->state == 0) {
        assert_false(deleted->delete_marker);
        if (key->count > 0) {
            model_erase(key, 0);
        }
        return;
    }
    assert_true(deleted->delete_marker);
    assert_int_equal(deleted->null_version, m->state != 1);
    (void)model_push(m, key, &marker);
}

/* ---- Extents ---- */

static uint32_t extent_number(struct slice id)
{
    uint64_t number = be64_get(id.data + 16);

    ASSERT(number < EXTENTS_ALL);
    return (uint32_t)number;
}

static bool version_names(const struct model_version *version, uint32_t extent)
{
    for (size_t i = 0; i < version->extent_count; i++) {
        if (version->extents[i] == extent) {
            return true;
        }
    }
    return false;
}

static bool model_names(const struct model *m, uint32_t extent)
{
    for (size_t k = 0; k < KEYS; k++) {
        for (size_t v = 0; v < m->keys[k].count; v++) {
            if (version_names(m->keys[k].versions[v], extent)) {
                return true;
            }
        }
    }
    return false;
}

static void model_freed(void *arg, struct slice extent_id)
{
    struct model *m = arg;
    uint32_t extent = extent_number(extent_id);

    if (m->extents[extent] != 1 || model_names(m, extent)) {
        m->wrong += 1;
    }
    m->extents[extent] = 2;
}

static Kist__Piece **new_pieces(struct model *m, struct model_version *version, size_t count)
{
    Kist__Piece **pieces = arena_alloc(&m->f->arena, count * sizeof(*pieces));

    ASSERT(version->extent_count + count <= EXTENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint32_t number;

        pieces[i] = machine_fixture_piece(m->f, PIECE_BYTES);
        number = extent_number(message_bytes(pieces[i]->extent->id));
        m->extents[number] = 1;
        version->extents[version->extent_count++] = number;
    }
    version->size += (uint64_t)count * PIECE_BYTES;
    return pieces;
}

/* ---- Commands ---- */

static struct slice version_name(struct model *m, const struct model_version *version)
{
    uint8_t *packed = arena_alloc(&m->f->arena, VERSION_ID_BYTES);

    if (version->null) {
        return SLICE("null");
    }
    version_id_pack(packed, version->stamp, version->tie);
    return slice_of(packed, VERSION_ID_BYTES);
}

static void do_put(struct model *m, size_t at)
{
    Kist__PutObject put = KIST__PUT_OBJECT__INIT;
    struct model_version version = {.size = 0};
    struct slice body = SLICE_EMPTY;
    uint64_t how = pick(m, 4);
    const Kist__Reply *reply;

    put.bucket_id = m->f->bucket_id;
    put.generation = m->f->generation;
    put.key = field_of(names[at]);
    put.record = machine_fixture_record(m->f, 0);
    if (how == 0) {
        (void)snprintf(version.body, sizeof(version.body), "body-%u", (unsigned)pick(m, 1000000));
        body = slice_str(version.body);
        version.size = body.len;
        put.record->inline_body = true;
    } else if (how < 3) {
        size_t count = pick(m, 8) == 0 ? 5 + pick(m, 70) : 1 + pick(m, 4);

        put.record->layout_id = machine_fixture_id(m->f);
        put.pieces = new_pieces(m, &version, count);
        put.n_pieces = count;
    }
    put.record->size = version.size;
    reply = machine_fixture_apply(m->f, META_PUT_OBJECT, &put.base, body);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    version.stamp = reply->stamp;
    (void)model_push(m, &m->keys[at], &version);
}

static void do_complete(struct model *m, size_t at)
{
    Kist__CompleteUpload call = KIST__COMPLETE_UPLOAD__INIT;
    struct model_version version = {.size = PIECE_BYTES};
    ProtobufCBinaryData upload_id = machine_fixture_upload(m->f, names[at]);
    uint32_t ranges[2] = {3, 3};
    uint8_t digest[16];
    uint8_t number[4] = {0, 0, 0, 3};
    struct md5_hash md5;
    const Kist__Part *part = NULL;
    const Kist__Reply *reply = NULL;

    for (uint32_t i = 2; i <= 3; i++) { /* part 2 is not listed */
        reply = machine_fixture_part(m->f, names[at], upload_id, i, PIECE_BYTES);
        assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
        part = reply->part;
        m->extents[extent_number(message_bytes(part->pieces[0]->extent->id))] = 1;
    }
    version.extents[version.extent_count++] =
        extent_number(message_bytes(part->pieces[0]->extent->id));
    md5_init(&md5);
    md5_update(&md5, number, sizeof(number));
    md5_update(&md5, part->etag.data, part->etag.len);
    md5_final(&md5, digest);
    call.bucket_id = m->f->bucket_id;
    call.generation = m->f->generation;
    call.key = field_of(names[at]);
    call.upload_id = upload_id;
    call.ranges = ranges;
    call.n_ranges = 2;
    call.digest = (ProtobufCBinaryData){.len = sizeof(digest), .data = digest};
    reply = machine_fixture_apply(m->f, META_COMPLETE_UPLOAD, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    version.stamp = reply->stamp;
    (void)model_push(m, &m->keys[at], &version);
}

static void do_delete(struct model *m, size_t at)
{
    model_delete(m, &m->keys[at],
                 machine_fixture_delete_version(m->f, names[at], SLICE_EMPTY, false));
}

static void do_delete_version(struct model *m, size_t at)
{
    struct model_key *key = &m->keys[at];
    const Kist__Deleted *deleted;
    size_t n;

    if (key->count == 0) {
        deleted = machine_fixture_delete_version(m->f, names[at], SLICE("null"), false);
        assert_int_equal(deleted->outcome, KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(deleted->stamp, 0);
        return;
    }
    n = pick(m, 2) == 0 ? 0 : pick(m, key->count);
    deleted =
        machine_fixture_delete_version(m->f, names[at], version_name(m, key->versions[n]), false);
    assert_int_equal(deleted->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(deleted->stamp, key->versions[n]->stamp);
    assert_int_equal(deleted->delete_marker, key->versions[n]->marker);
    model_erase(key, n);
}

/* One command that names keys and versions again and again: later items see what earlier ones did.
 */
static void do_delete_many(struct model *m)
{
    enum { ITEMS = 12 };
    Kist__DeleteObjects call = KIST__DELETE_OBJECTS__INIT;
    Kist__DeleteObjects__Item items[ITEMS];
    Kist__DeleteObjects__Item *list[ITEMS];
    struct model_version named[ITEMS];
    size_t keys[ITEMS];
    const Kist__Reply *reply;

    for (size_t i = 0; i < ITEMS; i++) {
        const struct model_key *key;

        keys[i] = pick(m, KEYS);
        key = &m->keys[keys[i]];
        kist__delete_objects__item__init(&items[i]);
        list[i] = &items[i];
        items[i].key = field_of(names[keys[i]]);
        named[i] = (struct model_version){.stamp = 0};
        if (key->count > 0 && pick(m, 3) != 0) {
            size_t n = pick(m, 3) == 0 ? pick(m, key->count) : i < key->count ? i : 0;

            named[i] = *key->versions[n];
            items[i].version = message_field(version_name(m, &named[i]));
        }
    }
    call.bucket_id = m->f->bucket_id;
    call.generation = m->f->generation;
    call.items = list;
    call.n_items = ITEMS;
    reply = machine_fixture_apply(m->f, META_DELETE_OBJECTS, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    for (size_t i = 0; i < ITEMS; i++) {
        struct model_key *key = &m->keys[keys[i]];

        assert_int_equal(reply->deleted[i]->outcome, KIST__OUTCOME__OUTCOME_OK);
        if (named[i].stamp == 0) {
            model_delete(m, key, reply->deleted[i]);
            continue;
        }
        for (size_t n = 0; n < key->count; n++) {
            if (named[i].null ? key->versions[n]->null
                              : key->versions[n]->stamp == named[i].stamp &&
                                    key->versions[n]->tie == named[i].tie) {
                model_erase(key, n);
                break;
            }
        }
    }
}

static void do_copy(struct model *m, size_t from, size_t to)
{
    Kist__CopyObject copy = KIST__COPY_OBJECT__INIT;
    struct model_key *key = &m->keys[from];
    const struct model_version *source = model_current(key);
    struct model_version version;
    const Kist__Reply *reply;
    bool named = key->count > 0 && pick(m, 2) == 0;

    if (named) {
        source = key->versions[pick(m, key->count)];
        copy.source_version = message_field(version_name(m, source));
    }
    copy.source_bucket_id = copy.bucket_id = m->f->bucket_id;
    copy.source_generation = copy.generation = m->f->generation;
    copy.source_key = field_of(names[from]);
    copy.key = field_of(names[to]);
    copy.copy_id = machine_fixture_id(m->f);
    copy.record = machine_fixture_record(m->f, 0);
    reply = machine_fixture_apply(m->f, META_COPY_OBJECT, &copy.base, SLICE_EMPTY);
    if (source == NULL) {
        assert_int_equal(reply->outcome, KIST__OUTCOME__NO_SUCH_KEY);
        return;
    }
    if (source->marker) {
        assert_int_equal(reply->outcome, KIST__OUTCOME__IS_DELETE_MARKER);
        return;
    }
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    version = *source;
    version.stamp = reply->stamp;
    version.tie = 0;
    (void)model_push(m, &m->keys[to], &version);
}

static void do_rename(struct model *m, size_t from, size_t to)
{
    Kist__RenameObject call = KIST__RENAME_OBJECT__INIT;
    const struct model_version *source = model_current(&m->keys[from]);
    struct model_version version;
    const Kist__Reply *reply;

    call.bucket_id = m->f->bucket_id;
    call.generation = m->f->generation;
    call.source_key = field_of(names[from]);
    call.key = field_of(names[to]);
    call.copy_id = machine_fixture_id(m->f);
    reply = machine_fixture_apply(m->f, META_RENAME_OBJECT, &call.base, SLICE_EMPTY);
    if (from == to || source == NULL) {
        assert_int_equal(reply->outcome,
                         from == to ? KIST__OUTCOME__INVALID_ARGUMENT : KIST__OUTCOME__NO_SUCH_KEY);
        return;
    }
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    version = *source;
    version.stamp = reply->stamp;
    version.tie = 0;
    model_delete(m, &m->keys[from], reply->deleted[0]);
    (void)model_push(m, &m->keys[to], &version);
}

static void do_append(struct model *m, size_t at)
{
    Kist__AppendObject call = KIST__APPEND_OBJECT__INIT;
    const struct model_version *old = model_current(&m->keys[at]);
    struct model_version version = old != NULL ? *old : (struct model_version){.size = 0};
    const Kist__Reply *reply;
    struct slice body = SLICE_EMPTY;
    size_t count = pick(m, 6) == 0 ? 3 + pick(m, 30) : 1;

    call.bucket_id = m->f->bucket_id;
    call.generation = m->f->generation;
    call.key = field_of(names[at]);
    call.copy_id = machine_fixture_id(m->f);
    call.offset = version.size;
    call.stamp = old != NULL ? old->stamp : 0;
    call.record = machine_fixture_record(m->f, 0);
    if (version.extent_count == 0 && pick(m, 2) == 0 && version.size + 5 < sizeof(version.body)) {
        body = SLICE("+tail");
        memcpy(version.body + version.size, body.data, body.len + 1);
        version.size += body.len;
    } else if (version.extent_count + count <= EXTENTS_MAX) {
        if (version.extent_count == 0) { /* pieces of all bytes */
            version.body[0] = '\0';
            version.size = 0;
        }
        call.pieces = new_pieces(m, &version, count);
        call.n_pieces = count;
        call.record->layout_id = machine_fixture_id(m->f);
    } else {
        return;
    }
    call.record->size = version.size;
    reply = machine_fixture_apply(m->f, META_APPEND_OBJECT, &call.base, body);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    version.stamp = reply->stamp;
    version.tie = 0;
    (void)model_push(m, &m->keys[at], &version);
}

static void do_tags(struct model *m, size_t at)
{
    Kist__SetObject call = KIST__SET_OBJECT__INIT;
    const struct model_key *key = &m->keys[at];
    const struct model_version *version;
    const Kist__Reply *reply;

    if (key->count == 0) {
        return;
    }
    version = key->versions[pick(m, key->count)];
    call.bucket_id = m->f->bucket_id;
    call.generation = m->f->generation;
    call.key = field_of(names[at]);
    call.version = message_field(version_name(m, version));
    call.what = 1;
    call.record = machine_fixture_record(m->f, 0);
    reply = machine_fixture_apply(m->f, META_SET_OBJECT, &call.base, SLICE_EMPTY);
    assert_int_equal(reply->outcome,
                     version->marker ? KIST__OUTCOME__IS_DELETE_MARKER : KIST__OUTCOME__OUTCOME_OK);
}

/* A shard of an extent is written again: found in current, history, home or layout rows. */
static void do_durable(struct model *m, size_t at)
{
    Kist__SetDurable call = KIST__SET_DURABLE__INIT;
    const Kist__Record *record = machine_fixture_current(m->f, names[at]);

    if (record == NULL || record->layout_id.len == 0 || record->pieces[0]->owner != NULL) {
        return;
    }
    call.bucket_id = record->shared != NULL ? record->shared->home_bucket : m->f->bucket_id;
    call.key = record->shared != NULL ? record->shared->home_key : field_of(names[at]);
    call.layout_id = record->layout_id;
    call.extent_id = record->pieces[0]->extent->id;
    call.durable = 0x3f;
    assert_int_equal(
        machine_fixture_apply(m->f, META_SET_DURABLE, &call.base, SLICE_EMPTY)->outcome,
        KIST__OUTCOME__OUTCOME_OK);
}

/* ---- Does the state say the same? ---- */

static void check_pieces(Kist__Piece *const *pieces, size_t count,
                         const struct model_version *version, size_t *at)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(*at < version->extent_count);
        assert_int_equal(extent_number(message_bytes(pieces[i]->extent->id)),
                         version->extents[*at]);
        *at += 1;
    }
}

static void check_layout_rows(struct model *m, struct store *store, size_t key,
                              const Kist__Record *record, const struct model_version *version)
{
    struct kv_iter_options options = {.family = FAMILY_ROWS};
    struct kv_iter *iter = store->kv->ops->iter_open(store->kv, &options);
    const struct kv_ops *ops = store->kv->ops;
    struct row_key prefix;
    struct arena arena;
    uint64_t offset = 0;
    size_t at = 0;

    arena_init(&arena);
    key_object(&prefix, m->f->bucket_id,
               record->shared != NULL ? message_bytes(record->shared->home_key)
                                      : slice_str(names[key]),
               KIND_LAYOUT, message_bytes(record->layout_id));
    for (ops->iter_seek(iter, row_key_slice(&prefix));
         ops->iter_valid(iter) && slice_starts(ops->iter_key(iter), row_key_slice(&prefix));
         ops->iter_next(iter)) {
        const Kist__LayoutChunk *chunk =
            message_unpack(&arena, &kist__layout_chunk__descriptor, ops->iter_value(iter));

        assert_int_equal(chunk->offset, offset);
        check_pieces(chunk->pieces, chunk->n_pieces, version, &at);
        offset += chunk->n_pieces * PIECE_BYTES;
    }
    assert_int_equal(at, version->extent_count);
    ops->iter_close(iter);
    arena_deinit(&arena);
}

static void check_record(struct model *m, struct store *store, size_t key,
                         const Kist__Record *record, const struct model_version *version)
{
    struct row_key row;
    struct kv_pin pin;
    size_t at = 0;

    assert_int_equal(record->stamp, version->stamp);
    assert_int_equal(record->tie, version->tie);
    assert_int_equal(record->null_version, version->null);
    assert_int_equal(record->delete_marker, version->marker);
    assert_int_equal(record->size, version->size);
    assert_int_equal(record->inline_body, version->body[0] != '\0');
    assert_int_equal(record->piece_count, version->extent_count);
    check_pieces(record->pieces, record->n_pieces, version, &at);
    if (record->piece_count > record->n_pieces) {
        check_layout_rows(m, store, key, record, version);
    }
    if (record->inline_body) {
        key_inline(&row, m->f->bucket_id, slice_str(names[key]), record->stamp);
        assert_int_equal(kv_get(store->kv, FAMILY_INLINE, row_key_slice(&row), KV_ANY, &pin, NULL),
                         RC_OK);
        assert_true(slice_eq_str(pin.value, version->body));
        kv_release(store->kv, &pin);
    }
}

static void *load(struct model *m, struct store *store, enum family family,
                  const struct row_key *row, const ProtobufCMessageDescriptor *type)
{
    struct kv_pin pin;
    void *message = NULL;

    if (kv_get(store->kv, family, row_key_slice(row), KV_ANY, &pin, NULL) == RC_OK) {
        message = message_unpack(&m->f->arena, type, pin.value);
        assert_non_null(message);
        kv_release(store->kv, &pin);
    }
    return message;
}

static void check_null_row(struct model *m, struct store *store, size_t at)
{
    const struct model_key *key = &m->keys[at];
    const struct model_version *null = NULL;
    const Kist__VersionName *name;
    struct row_key row;

    for (size_t i = 0; i < key->count; i++) {
        if (key->versions[i]->null && (i > 0 || key->versions[i]->marker)) {
            assert_null(null);
            null = key->versions[i];
        }
    }
    key_object(&row, m->f->bucket_id, slice_str(names[at]), KIND_NULL_VERSION, SLICE_EMPTY);
    name = load(m, store, FAMILY_ROWS, &row, &kist__version_name__descriptor);
    assert_int_equal(name != NULL, null != NULL);
    if (name != NULL && null != NULL) {
        assert_int_equal(name->stamp, null->stamp);
        assert_int_equal(name->tie, null->tie);
    }
}

static void check_key(struct model *m, struct store *store, size_t at)
{
    struct model_key *key = &m->keys[at];
    const Kist__Record *record = machine_fixture_current(m->f, names[at]);
    const struct model_version *current = model_current(key);
    struct row_key row;

    assert_int_equal(record != NULL, current != NULL);
    if (record != NULL) {
        check_record(m, store, at, record, current);
        assert_int_equal(record->noncurrent_since, 0);
    }
    for (size_t i = current != NULL ? 1 : 0; i < key->count; i++) {
        key_history(&row, m->f->bucket_id, slice_str(names[at]), key->versions[i]->stamp,
                    key->versions[i]->tie);
        record = load(m, store, FAMILY_HISTORY, &row, &kist__record__descriptor);
        assert_non_null(record);
        check_record(m, store, at, record, key->versions[i]);
        assert_int_equal(record->noncurrent_since == 0, i == 0);
    }
    check_null_row(m, store, at);
}

static void check_all(struct model *m)
{
    struct store *store = machine_store(m->f->machine);
    size_t current = 0;
    size_t history = 0;
    size_t bodies = 0;
    int64_t objects = 0;
    int64_t bytes = 0;

    for (size_t k = 0; k < KEYS; k++) {
        struct model_key *key = &m->keys[k];

        check_key(m, store, k);
        current += model_current(key) != NULL;
        history += key->count - (model_current(key) != NULL);
        for (size_t i = 0; i < key->count; i++) {
            objects += !key->versions[i]->marker;
            bytes += (int64_t)key->versions[i]->size;
            bodies += key->versions[i]->body[0] != '\0';
        }
    }
    assert_int_equal(machine_fixture_count(m->f, FAMILY_CURRENT, 0), current);
    assert_int_equal(machine_fixture_count(m->f, FAMILY_HISTORY, KIND_HISTORY), history);
    assert_int_equal(machine_fixture_count(m->f, FAMILY_INLINE, 0), bodies);
    assert_int_equal(machine_fixture_usage(m->f)->objects, objects);
    assert_int_equal(machine_fixture_usage(m->f)->bytes, bytes);
    store_unref(store);
}

/* What nobody names is freed at once by a drain, nothing else is. */
static void check_extents(struct model *m)
{
    (void)machine_fixture_drain(m->f, model_freed, m);
    assert_int_equal(m->wrong, 0);
    for (uint32_t i = 0; i < EXTENTS_ALL; i++) {
        if (m->extents[i] == 1) {
            assert_true(model_names(m, i));
        }
    }
}

/* ---- Runs ---- */

static void step(struct model *m)
{
    size_t a = pick(m, KEYS);
    size_t b = pick(m, KEYS);

    switch (pick(m, 14)) {
    case 0:
    case 1:
    case 2:
        do_put(m, a);
        break;
    case 3:
        do_complete(m, a);
        break;
    case 4:
        do_delete(m, a);
        break;
    case 5:
    case 6:
        do_delete_version(m, a);
        break;
    case 7:
        do_delete_many(m);
        break;
    case 8:
    case 9:
        do_copy(m, a, b);
        break;
    case 10:
        do_rename(m, a, b);
        break;
    case 11:
    case 12:
        do_append(m, a);
        break;
    default:
        do_tags(m, a);
        do_durable(m, a);
        break;
    }
}

static void run(uint64_t seed, uint32_t first_state)
{
    struct machine_fixture fixture;
    struct model *m = mem_alloc(sizeof(*m));

    machine_fixture_init(&fixture);
    m->f = &fixture;
    m->random = seed;
    for (uint32_t i = 0; i < STEPS && fixture.ids < EXTENTS_ALL - 500; i++) {
        fixture.now_ns += pick(m, 3) * 1000000;
        if (i == STEPS / 8 || (m->state != 0 && pick(m, 60) == 0)) {
            m->state = m->state == 0 ? first_state : 1 + (uint32_t)pick(m, 2);
            machine_fixture_versioning(&fixture, m->state);
        }
        step(m);
        check_all(m);
        if (pick(m, 10) == 0) {
            check_extents(m);
        }
        arena_reset(&fixture.arena);
    }
    for (size_t k = 0; k < KEYS; k++) {
        while (m->keys[k].count > 0) {
            const struct model_version *version = m->keys[k].versions[m->keys[k].count / 2];

            (void)machine_fixture_delete_version(&fixture, names[k], version_name(m, version),
                                                 false);
            model_erase(&m->keys[k], m->keys[k].count / 2);
        }
    }
    check_all(m);
    check_extents(m);
    assert_int_equal(machine_fixture_count(&fixture, FAMILY_ROWS, KIND_HOME), 0);
    assert_int_equal(machine_fixture_count(&fixture, FAMILY_ROWS, KIND_HOME_REFERENCE), 0);
    assert_int_equal(machine_fixture_count(&fixture, FAMILY_ROWS, KIND_LAYOUT), 0);
    assert_int_equal(machine_fixture_count(&fixture, FAMILY_ROWS, KIND_LAYOUT_PARTS), 0);
    assert_int_equal(machine_fixture_count(&fixture, FAMILY_ROWS, KIND_OWNER), 0);
    machine_fixture_deinit(&fixture);
    mem_free(m);
}

/* Data that a version names must not be freed, data that none names must be: whatever clients do in
 * whatever order. */
static void random_commands_keep_to_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run(seed * 0x9e3779b97f4a7c15ULL, 1 + (uint32_t)(seed % 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_keep_to_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
