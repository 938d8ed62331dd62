/* The user root, its first key, the first buckets. Keys come from the environment, or are made and
 * kept in DIR/root-credentials (mode 0600) of every directory. */
#include <stdio.h>
#include <string.h>

#include "cli/serve.h"
#include "common/base/assert.h"
#include "common/crypto/hmac.h"
#include "common/crypto/random.h"
#include "common/log/log.h"

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

enum step_result serve_root_user(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    Kist__PutUser *put = &serve->message.put_user;

    if (!serve->directories.first_start) {
        return STEP_NEXT;
    }
    kist__put_user__init(put);
    kist__user__init(&serve->user);
    serve->user.name = bytes_of("root");
    put->user = &serve->user;
    return serve_write(serve, META_PUT_USER, &put->base);
}

/* Which key root shall have; false: those that are stored already. */
static bool root_key_wanted(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    const struct view_key *stored;

    if (options->root_access_key == NULL) {
        if (!serve->directories.first_start) {
            return false;
        }
        random_text(serve->access_key, ROOT_ACCESS_KEY_BYTES, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
        random_text(serve->secret_key, ROOT_SECRET_KEY_BYTES,
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
        serve->credentials_made = true;
        return true;
    }
    (void)snprintf(serve->access_key, sizeof(serve->access_key), "%s", options->root_access_key);
    (void)snprintf(serve->secret_key, sizeof(serve->secret_key), "%s", options->root_secret_key);
    stored = view_access_key(serve->meta->view(serve->meta), slice_str(serve->access_key));
    return stored == NULL ||
           !slice_eq_str(slice_of(stored->key->secret_key.data, stored->key->secret_key.len),
                         serve->secret_key);
}

enum step_result serve_root_key(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    Kist__PutAccessKey *put = &serve->message.put_key;

    if (serve->directories.first_start && !serve->read_only) {
        enum step_result result =
            serve_expect(serve, KIST__OUTCOME__USER_EXISTS, "make the user root");

        if (result != STEP_NEXT) {
            return result;
        }
    }
    serve->write.reply = NULL;
    if (serve->read_only || !root_key_wanted(serve)) {
        return STEP_NEXT;
    }
    kist__put_access_key__init(put);
    kist__access_key__init(&serve->key);
    serve->key.access_key = bytes_of(serve->access_key);
    serve->key.secret_key = bytes_of(serve->secret_key);
    serve->key.user = bytes_of("root");
    put->key = &serve->key;
    return serve_write(serve, META_PUT_ACCESS_KEY, &put->base);
}

enum rc serve_write_credentials(struct serve *serve, struct error *error)
{
    char text[512];
    struct slice slice;
    int len = snprintf(text, sizeof(text), "KIST_ROOT_ACCESS_KEY=%s\nKIST_ROOT_SECRET_KEY=%s\n",
                       serve->access_key, serve->secret_key);

    ASSERT(len > 0 && (size_t)len < sizeof(text));
    slice = slice_of(text, (size_t)len);
    for (uint32_t i = 0; i < serve->directories.count; i++) {
        char path[DIRECTORY_PATH_BYTES_MAX + 32];
        struct env *env = serve->env;
        int file;
        enum rc rc;

        (void)snprintf(path, sizeof(path), "%s/root-credentials", serve->directories.items[i].path);
        rc = env->file->open(env, path, ENV_OPEN_WRITE | ENV_OPEN_CREATE, &file, error);
        if (rc != RC_OK) {
            return rc;
        }
        rc = env->file->truncate(env, file, 0);
        rc = rc == RC_OK ? env->file->write(env, file, &slice, 1, 0) : rc;
        rc = rc == RC_OK ? env->file->sync(env, file) : rc;
        env->file->close(env, file);
        if (rc != RC_OK) {
            return error_set(error, rc, "write %s: %s", path, rc_text(rc));
        }
    }
    crypto_wipe(text, sizeof(text));
    return RC_OK;
}

enum step_result serve_root_done(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    enum step_result result;

    if (serve->write.reply == NULL) {
        return STEP_NEXT;
    }
    result = serve_expect(serve, KIST__OUTCOME__OUTCOME_OK, "store the key of root");
    if (result == STEP_NEXT && serve->credentials_made &&
        serve_write_credentials(serve, &task->error) != RC_OK) {
        return STEP_FAIL;
    }
    serve->write.reply = NULL;
    return result;
}

/* KIST_BUCKETS, one after the other: entered again after each. */
enum step_result serve_buckets(struct task *task)
{
    struct serve *serve = SERVE_OF_START(task);
    const struct config_list *names = &serve->options->buckets;
    Kist__CreateBucket *create = &serve->message.create_bucket;
    enum step_result result;

    if (serve->write.reply != NULL) {
        const char *name = names->items[serve->bucket_at];

        result = serve_expect(serve, KIST__OUTCOME__BUCKET_OWNED, name);
        if (result != STEP_NEXT) {
            return result;
        }
        serve->write.reply = NULL;
        serve->bucket_at += 1;
    }
    if (!serve->directories.first_start || serve->bucket_at >= names->count) {
        return STEP_NEXT;
    }
    kist__create_bucket__init(create);
    create->name = bytes_of(names->items[serve->bucket_at]);
    create->owner = bytes_of("root");
    create->region = bytes_of(serve->options->region);
    result = serve_write(serve, META_CREATE_BUCKET, &create->base);
    return result == STEP_WAIT ? STEP_AGAIN : result == STEP_NEXT ? STEP_REPEAT : result;
}
