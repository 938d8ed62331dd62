#include "gateway/s3/source_digest.h"

static enum rc source_digest_take(struct read_path *path, struct slice bytes)
{
    struct source_digest *digest = CONTAINER_OF(path, struct source_digest, path);

    if (s3_client_gone(digest->req)) {
        return RC_CANCELLED; /* nobody waits for the rest */
    }
    digest_set_update(&digest->digests, bytes);
    return RC_OK;
}

enum step_result source_digest_start(struct s3_request *req, struct source_digest *digest)
{
    const Kist__Record *record = digest->get->record;

    digest->req = req;
    digest_set_init(&digest->digests, 1U << digest->algorithm, digest->md5);
    digest->open = true;
    if (digest->length == 0) {
        return STEP_NEXT;
    }
    if (record->inline_body) {
        if (digest->get->body.len != record->size) {
            return task_fail(&req->task, RC_CORRUPT, "the inline body has another size");
        }
        digest_set_update(&digest->digests, slice_of(digest->get->body.data + digest->offset,
                                                     (size_t)digest->length));
        return STEP_NEXT;
    }
    digest->path = (struct read_path){
        .gateway = req->gateway,
        .view = digest->view,
        .arena = req->arena,
        .bucket_id = digest->get->bucket_id,
        .key = digest->get->key,
        .record = record,
        .offset = digest->offset,
        .length = digest->length,
        .sink = source_digest_take,
    };
    return read_path_start(&digest->path, &req->task);
}

void source_digest_finish(struct source_digest *digest)
{
    struct checksum_value values[CHECKSUM_ALGORITHMS];

    digest_set_finish(&digest->digests, digest->md5_value, values);
    digest->value = values[digest->algorithm];
}

void source_digest_release(struct source_digest *digest)
{
    if (digest->open) {
        digest_set_deinit(&digest->digests);
        digest->open = false;
    }
}
