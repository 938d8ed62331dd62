/*
 * One state machine of metad in the simulated world, driven entry by entry: what a raft group of
 * one would apply. Answers lie in the fixture's arena; time moves only when the test says so.
 */
#ifndef TESTS_LIB_FIXTURE_MACHINE_H
#define TESTS_LIB_FIXTURE_MACHINE_H

#include "common/base/arena.h"
#include "common/client/meta_client.h"
#include "metad/apply/entry.h"
#include "metad/apply/machine.h"
#include "metad/store/message.h"
#include "tests/lib/env_sim.h"

#define FIXTURE_PATH "/state"

struct machine_fixture {
    struct env *env;
    struct machine *machine;
    struct arena arena;
    uint64_t now_ns;      /* the leader's clock */
    uint64_t deadline_ns; /* of the entries; 0: none */
    uint64_t request;     /* request id of the next entry; counts on. 0: entries carry none */
    uint64_t ids;         /* of extents, layouts, uploads */
    uint64_t bucket_id;   /* of "box", owned by "root" */
    uint64_t generation;
    struct error error; /* of the entry that stopped the machine */
};

void machine_fixture_init(struct machine_fixture *f);
void machine_fixture_deinit(struct machine_fixture *f);
/* Power cut and restart: entries since the last flush are gone; returns the index to go on from. */
uint64_t machine_fixture_crash(struct machine_fixture *f);

/* Applies one entry. NULL: the machine stopped (f->error). */
Kist__Reply *machine_fixture_apply(struct machine_fixture *f, enum meta_command command,
                                   const ProtobufCMessage *message, struct slice body);
/* An entry given as bytes. */
Kist__Reply *machine_fixture_apply_raw(struct machine_fixture *f, struct slice bytes);
/* The bytes of an entry as the next apply would make them. */
struct slice machine_fixture_entry(struct machine_fixture *f, enum meta_command command,
                                   const ProtobufCMessage *message, struct slice body);

/* ---- Parts of commands ---- */

ProtobufCBinaryData machine_fixture_id(struct machine_fixture *f); /* new, made now */
Kist__Piece *machine_fixture_piece(struct machine_fixture *f,
                                   uint64_t length); /* 4+2, all durable */
Kist__Record *machine_fixture_record(struct machine_fixture *f, uint64_t size);
static inline ProtobufCBinaryData field_of(const char *text)
{
    return message_field(slice_str(text));
}

/* ---- Short forms ---- */

/* An object in one extent (layout) or inline; returns the outcome. */
Kist__Outcome machine_fixture_put(struct machine_fixture *f, const char *key, uint64_t size);
Kist__Outcome machine_fixture_put_inline(struct machine_fixture *f, const char *key,
                                         const char *body);
Kist__Outcome machine_fixture_delete(struct machine_fixture *f, const char *key);
Kist__Outcome machine_fixture_copy(struct machine_fixture *f, const char *from, const char *to);
ProtobufCBinaryData machine_fixture_upload(struct machine_fixture *f, const char *key);
Kist__Reply *machine_fixture_part(struct machine_fixture *f, const char *key,
                                  ProtobufCBinaryData upload_id, uint32_t number, uint64_t size);

/* One item of a DELETE_OBJECTS; `version` as commands name it. */
Kist__Deleted *machine_fixture_delete_version(struct machine_fixture *f, const char *key,
                                              struct slice version, bool bypass);
/* Settings of the bucket, whole fields of `value`; the generation follows. */
void machine_fixture_setting(struct machine_fixture *f, uint32_t setting, Kist__Settings *value);
void machine_fixture_versioning(struct machine_fixture *f, uint32_t state);
/* Condemns and reclaims all that the queue holds; extents whose shards would be deleted are told.
 */
size_t machine_fixture_drain(struct machine_fixture *f,
                             void (*on_extent)(void *arg, struct slice extent_id), void *arg);

/* ---- What the rows say ---- */

Kist__Record *machine_fixture_current(struct machine_fixture *f, const char *key);
struct slice machine_fixture_inline(struct machine_fixture *f,
                                    const char *key); /* data NULL: none */
size_t machine_fixture_count(struct machine_fixture *f, enum family family, enum row_kind kind);
/* First row of the kind, unpacked; NULL when there is none. `key_out` may be NULL. */
void *machine_fixture_first(struct machine_fixture *f, enum family family, enum row_kind kind,
                            const ProtobufCMessageDescriptor *type, struct slice *key_out);
Kist__Usage *machine_fixture_usage(struct machine_fixture *f);
/* CRC over all rows of all replicated families. */
uint32_t machine_fixture_digest(struct machine *machine);

#endif
