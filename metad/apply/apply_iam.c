/* Users and access keys: rows of root. */
#include "metad/apply/apply.h"
#include "metad/apply/root_rows.h"

Kist__User *root_user(struct apply *apply, struct slice name)
{
    struct row_key row;

    if (name.len == 0 || name.len > LIMIT_USER_NAME_BYTES) {
        return NULL;
    }
    key_range(&row, RANGE_ROOT, KIND_USER, name);
    return apply_load(apply, FAMILY_ROWS, &row, &kist__user__descriptor);
}

void apply_put_user(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutUser *call = (const Kist__PutUser *)message;
    Kist__User *user = call->user;
    const Kist__User *old;
    struct row_key row;

    if (user == NULL || user->name.len == 0 || user->name.len > LIMIT_USER_NAME_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "length of the name");
        return;
    }
    old = root_user(apply, message_bytes(user->name));
    if (old != NULL && call->must_be_new) {
        (void)apply_refuse(apply, KIST__OUTCOME__USER_EXISTS);
        return;
    }
    user->created = old != NULL ? old->created : apply->stamp;
    key_range(&row, RANGE_ROOT, KIND_USER, message_bytes(user->name));
    apply_put_message(apply, FAMILY_ROWS, &row, &user->base);
    apply->root_changed = true;
}

static bool user_owns_buckets(struct apply *apply, struct slice user)
{
    struct apply_walk walk;
    struct row_key prefix;
    bool owns = false;

    key_range(&prefix, RANGE_ROOT, KIND_BUCKET, SLICE_EMPTY);
    apply_walk_open(&walk, apply, FAMILY_ROWS, &prefix);
    while (!owns && apply_walk_next(&walk)) {
        struct arena arena;
        const Kist__Bucket *bucket;

        arena_init(&arena);
        bucket = message_unpack(&arena, &kist__bucket__descriptor, walk.value);
        if (bucket == NULL) {
            apply_fail(apply, "a bucket row does not decode");
        } else {
            owns = slice_eq(message_bytes(bucket->owner), user);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
    return owns;
}

static void user_delete_keys(struct apply *apply, struct slice user)
{
    struct apply_walk walk;
    struct row_key row;

    key_range(&row, RANGE_ROOT, KIND_ACCESS_KEY, SLICE_EMPTY);
    apply_walk_open(&walk, apply, FAMILY_ROWS, &row);
    while (apply_walk_next(&walk)) {
        struct arena arena;
        const Kist__AccessKey *key;

        arena_init(&arena);
        key = message_unpack(&arena, &kist__access_key__descriptor, walk.value);
        if (key == NULL) {
            apply_fail(apply, "an access key row does not decode");
        } else if (slice_eq(message_bytes(key->user), user)) {
            key_range(&row, RANGE_ROOT, KIND_ACCESS_KEY, message_bytes(key->access_key));
            apply_delete(apply, FAMILY_ROWS, &row);
        }
        arena_deinit(&arena);
    }
    apply_walk_close(&walk);
}

void apply_delete_user(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__DeleteUser *call = (const Kist__DeleteUser *)message;
    struct slice name = message_bytes(call->name);
    struct row_key row;

    if (root_user(apply, name) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_USER);
        return;
    }
    if (user_owns_buckets(apply, name)) {
        (void)apply_refuse(apply, KIST__OUTCOME__IN_USE);
        return;
    }
    user_delete_keys(apply, name);
    key_range(&row, RANGE_ROOT, KIND_USER, name);
    apply_delete(apply, FAMILY_ROWS, &row);
    apply->root_changed = true;
}

static Kist__AccessKey *access_key_load(struct apply *apply, struct slice name, struct row_key *row)
{
    key_range(row, RANGE_ROOT, KIND_ACCESS_KEY, name);
    return apply_load(apply, FAMILY_ROWS, row, &kist__access_key__descriptor);
}

void apply_put_access_key(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__PutAccessKey *call = (const Kist__PutAccessKey *)message;
    Kist__AccessKey *key = call->key;
    const Kist__AccessKey *old;
    struct row_key row;

    if (key == NULL || key->access_key.len == 0 || key->access_key.len > LIMIT_ACCESS_KEY_BYTES ||
        key->secret_key.len == 0 || key->secret_key.len > LIMIT_SECRET_KEY_BYTES) {
        (void)apply_refuse_text(apply, KIST__OUTCOME__INVALID_ARGUMENT, "length of the key");
        return;
    }
    if (root_user(apply, message_bytes(key->user)) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_USER);
        return;
    }
    old = access_key_load(apply, message_bytes(key->access_key), &row);
    if (old != NULL &&
        (call->must_be_new || !slice_eq(message_bytes(old->user), message_bytes(key->user)))) {
        (void)apply_refuse(apply, KIST__OUTCOME__ACCESS_KEY_EXISTS);
        return;
    }
    key->created = old != NULL ? old->created : apply->stamp;
    apply_put_message(apply, FAMILY_ROWS, &row, &key->base);
    apply->root_changed = true;
}

void apply_delete_access_key(struct apply *apply, const ProtobufCMessage *message)
{
    const Kist__DeleteAccessKey *call = (const Kist__DeleteAccessKey *)message;
    struct slice name = message_bytes(call->access_key);
    struct row_key row;

    if (name.len == 0 || name.len > LIMIT_ACCESS_KEY_BYTES ||
        access_key_load(apply, name, &row) == NULL) {
        (void)apply_refuse(apply, KIST__OUTCOME__NO_SUCH_ACCESS_KEY);
        return;
    }
    apply_delete(apply, FAMILY_ROWS, &row);
    apply->root_changed = true;
}
