/*
 * When lifecycle must look at a version or an upload again: `due` rows in order of time, so that
 * nothing is scanned to find what expires. A row is a hint: when its time has come, the version is
 * judged by the rules of that moment (apply_due.c), and expires, or gets a later row, or the row
 * goes. Key: (range, due stamp u64, bucket, key, version).
 */
#ifndef METAD_APPLY_DUE_H
#define METAD_APPLY_DUE_H

#include "metad/apply/apply.h"

enum due_role {
    DUE_CURRENT,    /* the newest version, an object */
    DUE_NONCURRENT, /* an older one (record->noncurrent_since is set), or an older marker */
    DUE_MARKER      /* the newest version is this delete marker */
};

/* Called by whatever makes a version, moves it to history, or changes its tags (version.c).
 * Nothing when no rule of the bucket may ever apply. */
void due_note(struct apply *apply, uint64_t bucket_id, struct slice key, const Kist__Record *record,
              enum due_role role);
void due_note_upload(struct apply *apply, uint64_t bucket_id, struct slice key,
                     const Kist__Upload *upload);

/* Called by whatever drops a version or gives it another role: its row of the old role goes, if it
 * lies where the present rules put it. Others stay, as hints, until their time. */
void due_forget(struct apply *apply, uint64_t bucket_id, struct slice key,
                const Kist__Record *record, enum due_role role);
void due_forget_upload(struct apply *apply, uint64_t bucket_id, struct slice key,
                       const Kist__Upload *upload);

/* ---- For apply_due.c ---- */

enum due_kind { DUE_VERSION = 1, DUE_UPLOAD = 2 };

struct due_row {
    uint64_t due;
    uint64_t bucket_id;
    enum due_kind kind;
    uint64_t stamp; /* of the version */
    uint32_t tie;
    struct slice upload_id;
    struct slice key;
};

/* The bucket's rules; NULL when there are none. */
const Kist__Lifecycle *due_rules(struct apply *apply, uint64_t bucket_id);
/* Not before this command's own stamp: a runner that reads in order of time must not have passed
 * it. Nothing at LIFECYCLE_NEVER. */
void due_put_version(struct apply *apply, uint64_t bucket_id, struct slice key,
                     const Kist__Record *record, uint64_t due);
/* Is `row_key` the key of such a row? The slices borrow from it. */
bool due_parse(const struct apply *apply, struct slice row_key, struct due_row *out);

#endif
