#include "metad/apply/due.h"

void due_note(struct apply *apply, uint64_t bucket_id, struct slice key, const Kist__Record *record,
              enum due_role role)
{
    (void)apply;
    (void)bucket_id;
    (void)key;
    (void)record;
    (void)role;
}

void due_note_upload(struct apply *apply, uint64_t bucket_id, struct slice key,
                     const Kist__Upload *upload)
{
    (void)apply;
    (void)bucket_id;
    (void)key;
    (void)upload;
}
