/*
 * Changes as JSON: the event messages of AWS (2.1) that notifications and listeners get, and the
 * shorter form of the feed's reader. Any thread.
 */
#ifndef GATEWAY_EVENTS_EVENT_JSON_H
#define GATEWAY_EVENTS_EVENT_JSON_H

#include "common/base/buffer.h"
#include "common/client/meta_client.h"

/* Characters of a sequencer: it orders the changes of a bucket, and is a cursor of its feed. */
enum { EVENT_SEQUENCER_BYTES = 24 };

void event_sequencer(uint64_t stamp, uint32_t number, char out[EVENT_SEQUENCER_BYTES + 1]);
bool event_sequencer_parse(struct slice text, uint64_t *stamp, uint32_t *number);

/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_string_append(struct buffer *out, struct slice text);

/* One element of "Records". `configuration`: id of the configuration that asked for it. */
void event_json_record(struct buffer *out, struct slice region, const struct meta_change *change,
                       struct slice configuration);
/* {"EventName":...,"Key":...,"Records":[...]}, or what AWS sends as s3:TestEvent. */
void event_json_message(struct buffer *out, struct slice region, const struct meta_change *change,
                        struct slice configuration);
/* One element of the feed's "changes". */
void event_json_change(struct buffer *out, const struct meta_change *change);

#endif
