/*
 * The versions of one key. The only place that changes rows of `current` and `history`.
 *
 *     current   the newest version, unless that is a delete marker: then there is no row
 *     history   older versions and markers, the newest first; a marker that is the newest version
 * is the first one
 *
 *     state of the bucket   a new version                     a plain delete
 *     off                   replaces the only one             removes it
 *     enabled               the old one goes to history       makes a marker, always
 *     suspended             is the null version: replaces     removes the null version, makes a
 * null that, others go to history        marker
 *
 * A version made while versioning was off or suspended is the "null" version: a key has at most
 * one. The `null_version` row says where in history it lies, the `owner` row of a layout which
 * version of history it belongs to: both are found without a walk.
 *
 * Each version that goes frees exactly its own reference (liveness.h). Functions that may be
 * refused return an outcome and change nothing then.
 */
#ifndef METAD_APPLY_VERSION_H
#define METAD_APPLY_VERSION_H

#include "metad/apply/apply.h"

enum { VERSIONS_OFF = 0, VERSIONS_ENABLED = 1, VERSIONS_SUSPENDED = 2 };

/* A key while a command works on it. */
struct version_key {
    struct apply *apply;
    const Kist__Bucket *bucket;
    uint64_t bucket_id;
    struct slice key;
    uint32_t state;
    /* Private. */
    bool current_known;
    Kist__Record *current;
};

/* For the change feed. CHANGE_NONE: nothing is told. */
struct version_cause {
    Kist__ChangeKind
        kind; /* of a delete: CHANGE_DELETE or CHANGE_EXPIRE, also where a marker is made
               */
    struct slice user;
    struct slice source_key; /* rename */
};

/* Is it one that a caller may give? */
bool version_check_kind(struct apply *apply, uint32_t kind);

/* Where a version lies. */
struct version {
    Kist__Record *record; /* NULL: there is none */
    bool in_history;
};

/* Of a bucket that passed apply_check_bucket(). */
void version_key_init(struct version_key *key, struct apply *apply, uint64_t bucket_id,
                      struct slice name);

/* ---- Finding. False: there is none (or the store failed). ---- */

/* The newest one if it is an object: what conditions are judged by. */
Kist__Record *version_current(struct version_key *key);
/* The newest one, which may be a marker. */
bool version_newest(struct version_key *key, struct version *out);
bool version_null(struct version_key *key, struct version *out);
/* As commands name it: nothing (the newest), "null", or 12 bytes. */
bool version_find(struct version_key *key, struct slice name, struct version *out);
bool version_find_exact(struct version_key *key, uint64_t stamp, uint32_t tie, struct version *out);

/* ---- Changing ---- */

/* The version that a new one would drop. OBJECT_LOCKED: it must stay. */
Kist__Outcome version_replaced(struct version_key *key, struct version *out);
/* Makes `record` the newest version; sets stamp, tie and what else says where it belongs. To be
 * asked of version_replaced() before. `takes_bytes`: the layout of the version that is dropped
 * belongs to the new one from now on. */
void version_put(struct version_key *key, Kist__Record *record, bool takes_bytes,
                 const struct version_cause *cause);
/* A delete without a version. `deleted`: what was made, or removed. */
Kist__Outcome version_delete_newest(struct version_key *key, const struct version_cause *cause,
                                    bool bypass, Kist__Deleted *deleted);
/* One that was found, whatever it is; the newest one's successor is promoted. */
Kist__Outcome version_remove(struct version_key *key, const struct version *version,
                             const struct version_cause *cause, bool bypass);
/* The same version with other tags, lock, ACL. */
void version_rewrite(struct version_key *key, const struct version *version,
                     const struct version_cause *cause);

#endif
