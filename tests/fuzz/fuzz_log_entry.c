/*
 * An entry of the replicated log and the rows of the log store: raw, and with the header made right
 * around wild commands. What is accepted decodes to a command of this release or is refused; never
 * more.
 */
#include "tests/fuzz/fuzz.h"

#include "common/base/buffer.h"
#include "common/base/mem.h"
#include "metad/apply/command_table.h"
#include "metad/apply/entry.h"
#include "metad/log/log_rows.h"
#include "metad/store/message.h"

static void entry_check(struct slice bytes)
{
    const struct command *command;
    struct entry entry;
    struct error error;
    struct arena arena;

    if (entry_decode(bytes, &entry, &error) != RC_OK) {
        return;
    }
    ASSERT(entry.message.len + entry.body.len + ENTRY_HEADER_BYTES == bytes.len);
    command = command_find(entry.command);
    if (command != NULL) {
        const ProtobufCMessage *message;

        arena_init(&arena);
        message = message_unpack(&arena, command->type, entry.message);
        if (message != NULL && message_known(message)) {
            struct row_key row;

            (void)command_request_row(command, message,
                                      slice_of(entry.request_id, REQUEST_ID_BYTES), &row);
        }
        arena_deinit(&arena);
    }
}

static void rows_check(struct fuzz_input input)
{
    struct slice key = fuzz_bytes(&input, LOG_ENTRY_KEY_BYTES);
    uint64_t numbers[2] = {0, 0};
    struct log_snapshot snapshot;
    struct log_entry entry;
    struct error error;
    uint64_t index = 0;

    if (log_entry_decode(key, input.rest, &index, &entry, &error) == RC_OK) {
        ASSERT(entry.len <= input.rest.len);
    }
    (void)log_numbers_decode(key, input.rest, numbers, 2, &error);
    if (log_snapshot_decode(key, input.rest, &snapshot, &error) == RC_OK) {
        ASSERT(snapshot.configuration_len <= LOG_CONFIGURATION_BYTES_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.rest = slice_of(data, size)};
    struct entry entry = {.command = 0};
    struct buffer bytes;
    char *copy = mem_copy(data, size);

    entry_check(slice_of(copy, size));
    rows_check((struct fuzz_input){.rest = slice_of(copy, size)});
    mem_free(copy);
    entry.command = (uint16_t)(fuzz_u8(&input) % 32);
    entry.body = fuzz_bytes(&input, fuzz_u8(&input));
    entry.message = input.rest;
    buffer_init(&bytes);
    entry_encode(&entry, buffer_reserve(&bytes, ENTRY_HEADER_BYTES));
    bytes.len = ENTRY_HEADER_BYTES;
    buffer_append(&bytes, entry.message);
    buffer_append(&bytes, entry.body);
    entry_check(buffer_slice(&bytes));
    buffer_deinit(&bytes);
    return 0;
}
