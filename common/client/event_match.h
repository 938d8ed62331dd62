/*
 * Events of a bucket: their names, and whom a notification configuration wants to tell. Pure; apply
 * decides with it, so a changed answer for the same bytes is a new command version.
 */
#ifndef COMMON_CLIENT_EVENT_MATCH_H
#define COMMON_CLIENT_EVENT_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"
#include "proto/record.pb-c.h"

/* Bits of event_name.def that "s3:ObjectCreated:*", "s3:ObjectCreated:Put", ... stand for; 0: no
 * such event. `configurable`: only those that a configuration may ask for. */
uint32_t event_mask(struct slice pattern, bool configurable);
/* The bit of what happened; 0: has no name. */
uint32_t event_bit(Kist__ChangeKind kind);
/* "ObjectCreated:Put": behind "s3:". */
const char *event_name(Kist__ChangeKind kind);

/* Does the configuration want this event of this key? */
bool event_wanted(const Kist__NotificationTarget *target, uint32_t bit, struct slice key);
bool slice_ends(struct slice text, struct slice end);

/* What names a sink in an ARN: "arn:kist:sqs::NAME:TYPE" (also arn:minio, sns, lambda, a region)
 * -> "NAME:TYPE". False: not such an ARN. `region` gets what stands there. */
bool event_sink_of(struct slice arn, struct slice *region, struct slice *sink);

#endif
