#include "metad/apply/command_table.h"

#include "common/base/assert.h"

enum { COMMAND_NUMBER_MAX = 64 };

static const struct command commands[COMMAND_NUMBER_MAX] = {
#define COMMAND(number, name, message)                                                             \
    [number] = {(number), #name, &kist__##message##__descriptor, apply_##message},
#include "common/client/command.def"
#undef COMMAND
};

const struct command *command_find(uint16_t number)
{
    if (number >= COMMAND_NUMBER_MAX || commands[number].apply == NULL) {
        return NULL;
    }
    return &commands[number];
}

/* The (bucket, key) that routes a command of objects. */
static bool command_route(const struct command *command, const ProtobufCMessage *message,
                          uint64_t *bucket_id, struct slice *key)
{
    const ProtobufCFieldDescriptor *bucket =
        protobuf_c_message_descriptor_get_field_by_name(command->type, "bucket_id");
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(command->type, "key");
    ProtobufCBinaryData bytes;

    if (command->apply == apply_delete_objects) {
        const Kist__DeleteObjects *call = (const Kist__DeleteObjects *)message;

        *bucket_id = call->bucket_id;
        *key = call->n_items > 0 ? message_bytes(call->items[0]->key) : SLICE_EMPTY;
        return true;
    }
    if (bucket == NULL || field == NULL || field->type != PROTOBUF_C_TYPE_BYTES) {
        return false;
    }
    memcpy(bucket_id, (const char *)message + bucket->offset, sizeof(*bucket_id));
    memcpy(&bytes, (const char *)message + field->offset, sizeof(bytes));
    *key = message_bytes(bytes);
    return true;
}

bool command_request_row(const struct command *command, const ProtobufCMessage *message,
                         struct slice request_id, struct row_key *out)
{
    uint64_t bucket_id = 0;
    struct slice key = SLICE_EMPTY;

    ASSERT(request_id.len == REQUEST_ID_BYTES);
    if (command->apply == apply_condemn || command->apply == apply_reclaimed ||
        command->apply == apply_set_durable || command->apply == apply_purge_bucket ||
        command->apply == apply_run_due || command->apply == apply_run_job ||
        command->apply == apply_trim_changes || command->apply == apply_put_cursor) {
        return false;
    }
    if (!command_route(command, message, &bucket_id, &key)) {
        key_range(out, RANGE_ROOT, KIND_ROOT_REQUEST, request_id);
        return true;
    }
    if (bucket_id == 0 || key.len > LIMIT_KEY_BYTES) {
        return false; /* it will be refused */
    }
    key_object(out, bucket_id, key, KIND_REQUEST, request_id);
    return true;
}
