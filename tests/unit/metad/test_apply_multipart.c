/* Uploads: parts, the one command that makes an object of them, and what goes when they are given
 * up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "common/base/bytes.h"
#include "common/codec/crc.h"
#include "common/crypto/hash.h"
#include "tests/lib/fixture_machine.h"

#define MIB 1048576ULL

static struct machine_fixture fixture;

static int setup(void **state)
{
    machine_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    machine_fixture_deinit(*state);
    return 0;
}

/* A manifest as a gateway sends it: ranges, and the digest over what the client listed. */
struct manifest {
    uint32_t ranges[16];
    size_t range_count;
    struct md5_hash digest;
    uint8_t bytes[16];
};

static void manifest_init(struct manifest *manifest)
{
    *manifest = (struct manifest){.range_count = 0};
    md5_init(&manifest->digest);
}

static void manifest_add(struct manifest *manifest, const Kist__Part *part)
{
    uint8_t number[4];

    be32_put(number, part->number);
    md5_update(&manifest->digest, number, 4);
    md5_update(&manifest->digest, part->etag.data, part->etag.len);
    if (manifest->range_count > 0 &&
        manifest->ranges[manifest->range_count - 1] + 1 == part->number) {
        manifest->ranges[manifest->range_count - 1] = part->number;
        return;
    }
    ASSERT(manifest->range_count + 2 <= ARRAY_LEN(manifest->ranges));
    manifest->ranges[manifest->range_count++] = part->number;
    manifest->ranges[manifest->range_count++] = part->number;
}

static Kist__CompleteUpload complete_of(struct machine_fixture *f, const char *key,
                                        ProtobufCBinaryData upload_id, struct manifest *manifest)
{
    Kist__CompleteUpload call = KIST__COMPLETE_UPLOAD__INIT;
    struct md5_hash digest = manifest->digest;

    md5_final(&digest, manifest->bytes);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of(key);
    call.upload_id = upload_id;
    call.ranges = manifest->ranges;
    call.n_ranges = manifest->range_count;
    call.digest = (ProtobufCBinaryData){.len = 16, .data = manifest->bytes};
    return call;
}

static Kist__Reply *complete(struct machine_fixture *f, Kist__CompleteUpload *call)
{
    return machine_fixture_apply(f, META_COMPLETE_UPLOAD, &call->base, SLICE_EMPTY);
}

/* Parts `from` .. `to` of `size` bytes each, into the manifest. */
static void upload_parts(struct machine_fixture *f, ProtobufCBinaryData id, uint32_t from,
                         uint32_t to, uint64_t size, struct manifest *manifest)
{
    for (uint32_t number = from; number <= to; number++) {
        const Kist__Reply *reply = machine_fixture_part(f, "a", id, number, size);

        assert_non_null(reply);
        assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
        if (manifest != NULL) {
            manifest_add(manifest, reply->part);
        }
    }
}

/* The object is the listed parts in order; the upload and its parts are gone with the same command.
 */
static void complete_makes_one_object(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    struct manifest manifest;
    Kist__CompleteUpload call;
    const Kist__Reply *reply;
    const Kist__Record *record;

    manifest_init(&manifest);
    upload_parts(f, id, 1, 3, 5 * MIB, &manifest);
    call = complete_of(f, "a", id, &manifest);
    reply = complete(f, &call);
    assert_int_equal(reply->outcome, KIST__OUTCOME__OUTCOME_OK);
    record = machine_fixture_current(f, "a");
    assert_int_equal(record->size, 15 * MIB);
    assert_int_equal(record->part_count, 3);
    assert_int_equal(record->piece_count, 3);
    assert_int_equal(record->pieces[2]->part, 3);
    assert_true(slice_eq(message_bytes(record->layout_id), message_bytes(id)));
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_UPLOAD), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_PART), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT_PARTS), 1);
    assert_int_equal(machine_fixture_usage(f)->uploads, 0);
    assert_int_equal(machine_fixture_usage(f)->bytes, 15 * MIB);
}

/* A client that lost the answer asks again: the same answer, also when the key has changed since.
 */
static void an_identical_complete_is_answered_again(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    struct manifest manifest;
    struct manifest other;
    Kist__CompleteUpload call;
    const Kist__Reply *first;
    const Kist__Reply *again;

    manifest_init(&manifest);
    manifest_init(&other);
    upload_parts(f, id, 1, 2, 5 * MIB, &manifest);
    call = complete_of(f, "a", id, &manifest);
    first = complete(f, &call);
    (void)machine_fixture_delete(f, "a");
    f->now_ns += 6 * 24ULL * 3600 * SIM_S;
    again = complete(f, &call);
    assert_int_equal(again->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(again->stamp, first->stamp);
    assert_true(slice_eq(message_bytes(again->record->etag), message_bytes(first->record->etag)));
    assert_null(machine_fixture_current(f, "a"));
    call = complete_of(f, "a", id, &other);
    call.ranges = manifest.ranges;
    call.n_ranges = 2;
    assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__NO_SUCH_UPLOAD);
    f->now_ns += 2 * 24ULL * 3600 * SIM_S;
    call = complete_of(f, "a", id, &manifest);
    assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__NO_SUCH_UPLOAD);
}

/* Only the listed parts belong to the object; the space of the others must come back. */
static void unlisted_and_replaced_parts_are_queued(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    struct manifest manifest;
    Kist__CompleteUpload call;

    manifest_init(&manifest);
    upload_parts(f, id, 2, 2, 5 * MIB, NULL);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    upload_parts(f, id, 2, 2, 5 * MIB, &manifest); /* again: the first layout is queued */
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 1);
    upload_parts(f, id, 5, 6, 5 * MIB, NULL);
    upload_parts(f, id, 9, 9, 100, &manifest);
    call = complete_of(f, "a", id, &manifest);
    assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 3);
    assert_int_equal(machine_fixture_current(f, "a")->part_count, 2);
    assert_int_equal(machine_fixture_current(f, "a")->size, 5 * MIB + 100);
}

struct refusal_row {
    uint32_t ranges[4];
    size_t count;
    Kist__Outcome outcome;
    uint32_t part_number;
};

/* A wrong manifest must be refused with the part that is wrong, and the upload must stay. */
static void wrong_manifests_are_refused(void **state)
{
    static const struct refusal_row rows[] = {
        {{0},          0, KIST__OUTCOME__INVALID_ARGUMENT,   0    },
        {{2, 2, 1, 1}, 4, KIST__OUTCOME__INVALID_PART_ORDER, 1    },
        {{1, 1, 1, 1}, 4, KIST__OUTCOME__INVALID_PART_ORDER, 1    },
        {{1, 3},       2, KIST__OUTCOME__ENTITY_TOO_SMALL,   2    },
        {{1, 1, 7, 7}, 4, KIST__OUTCOME__INVALID_PART,       7    },
        {{1, 10001},   2, KIST__OUTCOME__INVALID_PART,       10001},
        {{1, 1, 3, 3}, 4, KIST__OUTCOME__INVALID_PART,       0    }, /* digest of other ETags */
    };
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");

    upload_parts(f, id, 1, 1, 5 * MIB, NULL);
    upload_parts(f, id, 2, 2, 5 * MIB - 1, NULL);
    upload_parts(f, id, 3, 3, 5 * MIB, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct manifest manifest;
        Kist__CompleteUpload call;
        const Kist__Reply *reply;
        uint32_t ranges[4];

        manifest_init(&manifest);
        call = complete_of(f, "a", id, &manifest);
        memcpy(ranges, rows[i].ranges, sizeof(ranges));
        call.ranges = ranges;
        call.n_ranges = rows[i].count;
        reply = complete(f, &call);
        assert_int_equal(reply->outcome, rows[i].outcome);
        assert_int_equal(reply->part_number, rows[i].part_number);
    }
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_PART), 3);
    assert_null(machine_fixture_current(f, "a"));
}

/* Ten thousand parts: rows of 64, found by one seek, in one command. */
static void ten_thousand_parts(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    struct manifest manifest;
    Kist__CompleteUpload call;
    const Kist__LayoutChunk *chunk;

    manifest_init(&manifest);
    upload_parts(f, id, 1, 10000, 5 * MIB, &manifest);
    assert_int_equal(manifest.range_count, 2);
    call = complete_of(f, "a", id, &manifest);
    assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT), 157);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_LAYOUT_PARTS), 157);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_PART), 0);
    assert_int_equal(machine_fixture_current(f, "a")->piece_count, 10000);
    chunk =
        machine_fixture_first(f, FAMILY_ROWS, KIND_LAYOUT, &kist__layout_chunk__descriptor, NULL);
    assert_int_equal(chunk->pieces[63]->part, 64);
}

/* ---- Checksums ---- */

static ProtobufCBinaryData digest_of(struct machine_fixture *f, uint32_t algorithm,
                                     struct slice bytes)
{
    uint8_t *out = arena_alloc(&f->arena, 32);
    size_t len = 4;

    if (algorithm == 1) {
        be32_put(out, crc32(0, bytes.data, bytes.len));
    } else if (algorithm == 2) {
        be32_put(out, crc32c(0, bytes.data, bytes.len));
    } else if (algorithm == 3) {
        be64_put(out, crc64nvme(0, bytes.data, bytes.len));
        len = 8;
    } else if (algorithm == 4) {
        sha1_of(bytes.data, bytes.len, out);
        len = 20;
    } else {
        sha256_of(bytes.data, bytes.len, out);
        len = 32;
    }
    return (ProtobufCBinaryData){.len = len, .data = out};
}

static ProtobufCBinaryData upload_with(struct machine_fixture *f, uint32_t algorithm, uint32_t type)
{
    Kist__CreateUpload call = KIST__CREATE_UPLOAD__INIT;
    Kist__Upload upload = KIST__UPLOAD__INIT;

    upload.upload_id = machine_fixture_id(f);
    upload.template_ = machine_fixture_record(f, 0);
    upload.checksum_algorithm = algorithm;
    upload.checksum_type = type;
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload = &upload;
    assert_int_equal(machine_fixture_apply(f, META_CREATE_UPLOAD, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    return upload.upload_id;
}

static const Kist__Part *part_with(struct machine_fixture *f, ProtobufCBinaryData id,
                                   uint32_t number, struct slice bytes, uint32_t algorithm)
{
    Kist__PutPart call = KIST__PUT_PART__INIT;
    Kist__Part part = KIST__PART__INIT;
    Kist__Checksum checksum = KIST__CHECKSUM__INIT;
    Kist__Checksum *checksums = &checksum;
    Kist__Piece *piece = machine_fixture_piece(f, bytes.len);

    part.number = number;
    part.size = bytes.len;
    part.etag = machine_fixture_record(f, 0)->etag;
    part.layout_id = machine_fixture_id(f);
    part.pieces = &piece;
    part.n_pieces = 1;
    if (algorithm != 0) {
        checksum.algorithm = algorithm;
        checksum.value = digest_of(f, algorithm, bytes);
        part.checksums = &checksums;
        part.n_checksums = 1;
    }
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload_id = id;
    call.part = &part;
    return machine_fixture_apply(f, META_PUT_PART, &call.base, SLICE_EMPTY)->part;
}

struct checksum_row {
    uint32_t algorithm, type;
};

/* The object's checksum comes from the parts' alone and must be what a client computes. */
static void checksums_of_the_object(void **state)
{
    static const struct checksum_row rows[] = {
        {1, 1},
        {2, 1},
        {3, 1},
        {1, 2},
        {2, 2},
        {4, 2},
        {5, 2}
    };
    static char big[2][5 * MIB];
    struct machine_fixture *f = *state;

    memset(big[0], 'a', sizeof(big[0]));
    memset(big[1], 'b', sizeof(big[1]));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ProtobufCBinaryData id = upload_with(f, rows[i].algorithm, rows[i].type);
        const struct slice parts[3] = {slice_of(big[0], sizeof(big[0])),
                                       slice_of(big[1], sizeof(big[1])), SLICE("the last part")};
        struct manifest manifest;
        Kist__CompleteUpload call;
        Kist__Checksum declared = KIST__CHECKSUM__INIT;
        struct buffer whole;

        buffer_init(&whole);
        manifest_init(&manifest);
        for (uint32_t n = 0; n < 3; n++) {
            ProtobufCBinaryData digest = digest_of(f, rows[i].algorithm, parts[n]);

            manifest_add(&manifest, part_with(f, id, n + 1, parts[n], rows[i].algorithm));
            buffer_append(&whole, rows[i].type == 1 ? parts[n] : message_bytes(digest));
        }
        call = complete_of(f, "a", id, &manifest);
        declared.algorithm = rows[i].algorithm;
        declared.value = digest_of(f, rows[i].algorithm, SLICE("wrong"));
        call.checksum = &declared;
        assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__BAD_CHECKSUM);
        declared.value = digest_of(f, rows[i].algorithm, buffer_slice(&whole));
        declared.type = rows[i].type;
        assert_int_equal(complete(f, &call)->outcome, KIST__OUTCOME__OUTCOME_OK);
        assert_int_equal(machine_fixture_current(f, "a")->checksums[0]->type, rows[i].type);
        buffer_deinit(&whole);
    }
}

/* A part without the checksum that the upload promised is named. */
static void a_part_without_its_checksum(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = upload_with(f, 5, 2);
    struct manifest manifest;
    Kist__CompleteUpload call;
    const Kist__Reply *reply;

    manifest_init(&manifest);
    manifest_add(&manifest, part_with(f, id, 4, SLICE("x"), 0));
    call = complete_of(f, "a", id, &manifest);
    reply = complete(f, &call);
    assert_int_equal(reply->outcome, KIST__OUTCOME__INVALID_ARGUMENT);
    assert_int_equal(reply->part_number, 4);
}

/* ---- The end without an object ---- */

/* A part that arrives after Abort is refused, and all layouts are queued. */
static void abort_drops_all_parts(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    Kist__AbortUpload call = KIST__ABORT_UPLOAD__INIT;

    upload_parts(f, id, 1, 3, 5 * MIB, NULL);
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload_id = id;
    assert_int_equal(machine_fixture_apply(f, META_ABORT_UPLOAD, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 3);
    assert_int_equal(machine_fixture_usage(f)->uploads, 0);
    assert_int_equal(machine_fixture_part(f, "a", id, 4, 100)->outcome,
                     KIST__OUTCOME__NO_SUCH_UPLOAD);
    f->request += 1;
    assert_int_equal(machine_fixture_apply(f, META_ABORT_UPLOAD, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 3);
    call.key = field_of("b");
    f->request += 1;
    assert_int_equal(machine_fixture_apply(f, META_ABORT_UPLOAD, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__NO_SUCH_UPLOAD);
}

/* A copied part stands on another object's layout: it lives while the multipart object does. */
static void copied_parts_hold_references(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    Kist__PutPart call = KIST__PUT_PART__INIT;
    Kist__Part part = KIST__PART__INIT;
    Kist__Piece piece;
    Kist__Piece *pieces = &piece;
    Kist__Reference owner = KIST__REFERENCE__INIT;
    struct manifest manifest;
    Kist__CompleteUpload done;
    const Kist__Record *source;
    Kist__Condemn condemn = KIST__CONDEMN__INIT;
    const Kist__Reclaim *queued;

    (void)machine_fixture_put(f, "source", 6 * MIB);
    source = machine_fixture_current(f, "source");
    piece = *source->pieces[0];
    piece.owner = &owner;
    owner.layout_id = source->layout_id;
    owner.home_bucket = f->bucket_id;
    owner.home_key = field_of("source");
    owner.reference_id = machine_fixture_id(f);
    part.number = 1;
    part.size = 6 * MIB;
    part.etag = source->etag;
    part.layout_id = machine_fixture_id(f);
    part.pieces = &pieces;
    part.n_pieces = 1;
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload_id = id;
    call.part = &part;
    manifest_init(&manifest);
    manifest_add(&manifest, machine_fixture_apply(f, META_PUT_PART, &call.base, SLICE_EMPTY)->part);
    (void)machine_fixture_delete(f, "source");
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 0);
    done = complete_of(f, "a", id, &manifest);
    assert_int_equal(complete(f, &done)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_non_null(machine_fixture_current(f, "a")->pieces[0]->owner);
    (void)machine_fixture_delete(f, "a");
    queued = machine_fixture_first(f, FAMILY_ROWS, KIND_RECLAIM, &kist__reclaim__descriptor, NULL);
    condemn.bucket_id = queued->bucket_id;
    condemn.key = queued->key;
    condemn.layout_id = queued->layout_id;
    condemn.pieces = queued->pieces;
    condemn.n_pieces = queued->n_pieces;
    /* The layout of "a" owns nothing; with it goes its reference, and so the source's layout is
     * queued. */
    assert_int_equal(machine_fixture_apply(f, META_CONDEMN, &condemn.base, SLICE_EMPTY)->n_pieces,
                     0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 2);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_HOME_REFERENCE), 0);
}

/* A missing shard stays in the repair queue under the name the layout has after Complete. */
static void repairs_follow_complete(void **state)
{
    struct machine_fixture *f = *state;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    Kist__PutPart call = KIST__PUT_PART__INIT;
    Kist__Part part = KIST__PART__INIT;
    Kist__Piece *piece = machine_fixture_piece(f, 100);
    struct manifest manifest;
    Kist__CompleteUpload done;
    const Kist__Repair *repair;

    piece->extent->durable = 0x1f;
    part.number = 1;
    part.size = 100;
    part.etag = machine_fixture_record(f, 0)->etag;
    part.layout_id = machine_fixture_id(f);
    part.pieces = &piece;
    part.n_pieces = 1;
    call.bucket_id = f->bucket_id;
    call.generation = f->generation;
    call.key = field_of("a");
    call.upload_id = id;
    call.part = &part;
    manifest_init(&manifest);
    manifest_add(&manifest, machine_fixture_apply(f, META_PUT_PART, &call.base, SLICE_EMPTY)->part);
    done = complete_of(f, "a", id, &manifest);
    assert_int_equal(complete(f, &done)->outcome, KIST__OUTCOME__OUTCOME_OK);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_REPAIR), 1);
    repair = machine_fixture_first(f, FAMILY_ROWS, KIND_REPAIR, &kist__repair__descriptor, NULL);
    assert_true(slice_eq(message_bytes(repair->layout_id), message_bytes(id)));
}

/* Deleting a bucket with open uploads purges them, a bounded step at a time. */
static void uploads_go_with_their_bucket(void **state)
{
    struct machine_fixture *f = *state;
    Kist__DeleteBucket call = KIST__DELETE_BUCKET__INIT;
    Kist__PurgeBucket purge = KIST__PURGE_BUCKET__INIT;
    ProtobufCBinaryData id = machine_fixture_upload(f, "a");
    int steps = 0;

    (void)machine_fixture_upload(f, "b");
    upload_parts(f, id, 1, 2500, 5 * MIB, NULL);
    call.name = field_of("box");
    call.bucket_id = f->bucket_id;
    assert_int_equal(machine_fixture_apply(f, META_DELETE_BUCKET, &call.base, SLICE_EMPTY)->outcome,
                     KIST__OUTCOME__OUTCOME_OK);
    purge.bucket_id = f->bucket_id;
    while (machine_fixture_count(f, FAMILY_ROWS, KIND_PURGE) > 0) {
        assert_int_equal(
            machine_fixture_apply(f, META_PURGE_BUCKET, &purge.base, SLICE_EMPTY)->outcome,
            KIST__OUTCOME__OUTCOME_OK);
        steps += 1;
        assert_true(steps < 10);
    }
    assert_true(steps >= 3);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_UPLOAD), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_UPLOADS, KIND_PART), 0);
    assert_int_equal(machine_fixture_count(f, FAMILY_ROWS, KIND_RECLAIM), 2500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(complete_makes_one_object, setup, teardown),
        cmocka_unit_test_setup_teardown(an_identical_complete_is_answered_again, setup, teardown),
        cmocka_unit_test_setup_teardown(unlisted_and_replaced_parts_are_queued, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_manifests_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(ten_thousand_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(checksums_of_the_object, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_without_its_checksum, setup, teardown),
        cmocka_unit_test_setup_teardown(abort_drops_all_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(copied_parts_hold_references, setup, teardown),
        cmocka_unit_test_setup_teardown(repairs_follow_complete, setup, teardown),
        cmocka_unit_test_setup_teardown(uploads_go_with_their_bucket, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
