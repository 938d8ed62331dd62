/*
 * Lifecycle rules of a bucket (AWS: "Lifecycle configuration elements"): which rule touches a
 * version or an upload, and when. Pure functions of rules and records, shared by apply (which
 * decides) and the gateway (which tells clients when). No clock.
 *
 * A rule counts whole days and acts at the midnight (UTC) that follows. The length of a day is part
 * of the rules (day_ms), so that tests can shorten it; a "midnight" is then a multiple of that.
 * Times are nanoseconds since 1970; LIFECYCLE_NEVER: no rule will ever act.
 */
#ifndef COMMON_LIFECYCLE_LIFECYCLE_H
#define COMMON_LIFECYCLE_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"
#include "proto/record.pb-c.h"

#define LIFECYCLE_NEVER UINT64_MAX

enum {
    LIFECYCLE_DAY_MS = 24 * 3600 * 1000,
    LIFECYCLE_RULES_MAX = 1000,
    LIFECYCLE_KEEP_MAX = 100, /* NewerNoncurrentVersions */
    LIFECYCLE_ID_BYTES_MAX = 255
};

struct lifecycle_when {
    uint64_t due; /* the earliest moment at which a rule acts; may have passed */
    const Kist__LifecycleRule *rule;
};

/* The midnight at or after `from`. */
uint64_t lifecycle_midnight(const Kist__Lifecycle *lifecycle, uint64_t from);
/* The midnight at or after `days` days behind `from`. */
uint64_t lifecycle_days_after(const Kist__Lifecycle *lifecycle, uint64_t from, uint32_t days);

/* Does the rule's filter take the version? */
bool lifecycle_matches(const Kist__LifecycleRule *rule, struct slice key,
                       const Kist__Record *record);

/* The current version, an object: Expiration by days or date. */
struct lifecycle_when lifecycle_current(const Kist__Lifecycle *lifecycle, struct slice key,
                                        const Kist__Record *record);
/* An older version or marker that `newer` other noncurrent ones follow. */
struct lifecycle_when lifecycle_noncurrent(const Kist__Lifecycle *lifecycle, struct slice key,
                                           const Kist__Record *record, uint32_t newer);
/* A delete marker that is the only version of its key since `alone_since`:
 * ExpiredObjectDeleteMarker, or Expiration by days or date. */
struct lifecycle_when lifecycle_marker(const Kist__Lifecycle *lifecycle, struct slice key,
                                       const Kist__Record *record, uint64_t alone_since);
struct lifecycle_when lifecycle_upload(const Kist__Lifecycle *lifecycle, struct slice key,
                                       const Kist__Upload *upload);
/* The most versions that any enabled rule keeps; 0: no rule counts. */
uint32_t lifecycle_keep(const Kist__Lifecycle *lifecycle);

#endif
