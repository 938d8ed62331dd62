#include "metad/apply/change.h"

void change_note(struct apply *apply, Kist__ChangeKind kind, uint64_t bucket_id, struct slice key,
                 const Kist__Record *record, struct slice user, struct slice source_key)
{
    (void)apply;
    (void)kind;
    (void)bucket_id;
    (void)key;
    (void)record;
    (void)user;
    (void)source_key;
}
