#include "gateway/events/event_json.h"

#include "common/base/arena.h"
#include "common/base/bytes.h"
#include "common/client/event_match.h"
#include "common/client/version_id.h"
#include "common/codec/hex.h"
#include "common/codec/percent.h"
#include "common/codec/time_format.h"
#include "common/codec/utf8.h"

static struct slice bytes_of(ProtobufCBinaryData field)
{
    return slice_of(field.data, field.len);
}

void event_sequencer(uint64_t stamp, uint32_t number, char out[EVENT_SEQUENCER_BYTES + 1])
{
    uint8_t raw[EVENT_SEQUENCER_BYTES / 2];

    be64_put(raw, stamp);
    be32_put(raw + 8, number);
    hex_encode(out, raw, sizeof(raw));
    out[EVENT_SEQUENCER_BYTES] = '\0';
}

bool event_sequencer_parse(struct slice text, uint64_t *stamp, uint32_t *number)
{
    uint8_t raw[EVENT_SEQUENCER_BYTES / 2];

    if (text.len != EVENT_SEQUENCER_BYTES || !hex_decode(text, raw, sizeof(raw))) {
        return false;
    }
    *stamp = be64_get(raw);
    *number = be32_get(raw + 8);
    return true;
}

/* ---- JSON ---- */

/* Length of the UTF-8 character at the start; 0: there is none. */
static size_t character_len(struct slice text)
{
    for (size_t len = 1; len <= 4 && len <= text.len; len++) {
        if (utf8_valid(slice_of(text.data, len))) {
            return len;
        }
    }
    return 0;
}

void json_string_append(struct buffer *out, struct slice text)
{
    buffer_append_byte(out, '"');
    while (text.len > 0) {
        size_t len = character_len(text);
        unsigned char c = (unsigned char)text.data[0];

        if (len == 0) {
            buffer_append(out, SLICE("\xef\xbf\xbd"));
            len = 1;
        } else if (c == '"' || c == '\\') {
            buffer_append_byte(out, '\\');
            buffer_append_byte(out, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            buffer_printf(out, "\\u%04x", c);
        } else {
            buffer_append(out, slice_of(text.data, len));
        }
        text = slice_after(text, len);
    }
    buffer_append_byte(out, '"');
}

/* ,"name":"text" */
static void member(struct buffer *out, const char *name, struct slice text)
{
    buffer_printf(out, ",\"%s\":", name);
    json_string_append(out, text);
}

static void member_time(struct buffer *out, const char *name, uint64_t stamp)
{
    char text[TIME_ISO8601_BYTES + 1];

    time_format_iso8601(stamp, text);
    member(out, name, slice_str(text));
}

static void member_version(struct buffer *out, struct arena *arena, const Kist__Change *change)
{
    if (change->versioned && change->stamp != 0) {
        member(out, "versionId",
               version_id_text_of(arena, change->stamp, change->tie, change->null_version));
    }
}

/* Is there an object, so that size and ETag say something? */
static bool has_object(const Kist__Change *change)
{
    switch ((int)change->kind) {
    case KIST__CHANGE_KIND__CHANGE_DELETE:
    case KIST__CHANGE_KIND__CHANGE_DELETE_MARKER:
    case KIST__CHANGE_KIND__CHANGE_EXPIRE:
    case KIST__CHANGE_KIND__CHANGE_EXPIRE_MARKER:
        return false;
    default:
        return true;
    }
}

static void append_object(struct buffer *out, struct arena *arena, const struct meta_change *change)
{
    const Kist__Change *what = change->change;
    char sequencer[EVENT_SEQUENCER_BYTES + 1];

    event_sequencer(change->stamp, change->number, sequencer);
    buffer_append(out, SLICE("\"object\":{\"key\":"));
    json_string_append(out, percent_encode_listing(arena, bytes_of(what->key)));
    if (has_object(what)) {
        buffer_printf(out, ",\"size\":%llu", (unsigned long long)what->size);
        member(out, "eTag", bytes_of(what->etag));
    }
    member_version(out, arena, what);
    member(out, "sequencer", slice_str(sequencer));
    buffer_append_byte(out, '}');
}

void event_json_record(struct buffer *out, struct slice region, const struct meta_change *change,
                       struct slice configuration)
{
    const Kist__Change *what = change->change;
    struct arena arena;

    arena_init(&arena);
    buffer_append(out, SLICE("{\"eventVersion\":\"2.1\",\"eventSource\":\"aws:s3\""));
    member(out, "awsRegion", region);
    member_time(out, "eventTime", change->stamp);
    member(out, "eventName", slice_str(event_name(what->kind)));
    buffer_append(out, SLICE(",\"userIdentity\":{\"principalId\":"));
    json_string_append(out, bytes_of(what->user));
    buffer_append(out, SLICE("},\"requestParameters\":{},\"responseElements\":{},"
                             "\"s3\":{\"s3SchemaVersion\":\"1.0\",\"configurationId\":"));
    json_string_append(out, configuration);
    buffer_append(out, SLICE(",\"bucket\":{\"name\":"));
    json_string_append(out, bytes_of(what->bucket_name));
    buffer_append(out, SLICE(",\"ownerIdentity\":{\"principalId\":"));
    json_string_append(out, bytes_of(what->bucket_owner));
    buffer_append(out, SLICE("},\"arn\":"));
    json_string_append(out, arena_printf(&arena, "arn:aws:s3:::%.*s", (int)what->bucket_name.len,
                                         (const char *)what->bucket_name.data));
    buffer_append(out, SLICE("},"));
    append_object(out, &arena, change);
    buffer_append(out, SLICE("}}"));
    arena_deinit(&arena);
}

static void append_test(struct buffer *out, const struct meta_change *change)
{
    char sequencer[EVENT_SEQUENCER_BYTES + 1];

    event_sequencer(change->stamp, change->number, sequencer);
    buffer_append(out, SLICE("{\"Service\":\"Amazon S3\",\"Event\":\"s3:TestEvent\""));
    member_time(out, "Time", change->stamp);
    member(out, "Bucket", bytes_of(change->change->bucket_name));
    member(out, "RequestId", slice_of(sequencer, 16));
    member(out, "HostId", slice_str(sequencer));
    buffer_append_byte(out, '}');
}

void event_json_message(struct buffer *out, struct slice region, const struct meta_change *change,
                        struct slice configuration)
{
    const Kist__Change *what = change->change;
    struct buffer path;

    if (what->kind == KIST__CHANGE_KIND__CHANGE_TEST) {
        append_test(out, change);
        return;
    }
    buffer_init(&path);
    buffer_append(&path, bytes_of(what->bucket_name));
    buffer_append_byte(&path, '/');
    buffer_append(&path, bytes_of(what->key));
    buffer_printf(out, "{\"EventName\":\"s3:%s\",\"Key\":", event_name(what->kind));
    json_string_append(out, buffer_slice(&path));
    buffer_append(out, SLICE(",\"Records\":["));
    event_json_record(out, region, change, configuration);
    buffer_append(out, SLICE("]}"));
    buffer_deinit(&path);
}

void event_json_change(struct buffer *out, const struct meta_change *change)
{
    const Kist__Change *what = change->change;
    struct slice key = bytes_of(what->key);
    char sequencer[EVENT_SEQUENCER_BYTES + 1];
    struct arena arena;

    arena_init(&arena);
    event_sequencer(change->stamp, change->number, sequencer);
    buffer_printf(out, "{\"sequencer\":\"%s\",\"eventName\":\"%s\"", sequencer,
                  event_name(what->kind));
    member_time(out, "eventTime", change->stamp);
    if (utf8_valid(key)) {
        member(out, "key", key);
    } else {
        member(out, "keyEncoded", percent_encode(&arena, key, true));
    }
    if (what->source_key.len > 0) {
        member(out, "renamedFrom", bytes_of(what->source_key));
    }
    member_version(out, &arena, what);
    if (has_object(what)) {
        buffer_printf(out, ",\"size\":%llu", (unsigned long long)what->size);
        member(out, "eTag", bytes_of(what->etag));
    }
    member(out, "user", bytes_of(what->user));
    buffer_append_byte(out, '}');
    arena_deinit(&arena);
}
