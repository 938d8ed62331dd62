/* What the files of random commands share. */
#ifndef TESTS_SIM_METAD_COMMANDS_H
#define TESTS_SIM_METAD_COMMANDS_H

#include "metad/store/message.h"
#include "tests/sim/metad_model.h"

/* ---- Parts of messages ---- */

ProtobufCBinaryData field_copy(struct arena *arena, const void *bytes, size_t len);
void random_bytes(struct model *model, void *to, size_t len);
struct model_key *any_key(struct model *model, unsigned *bucket, unsigned *key);
/* Any version, or NULL when the key has none. */
struct model_version *any_version(struct model *model, const struct model_key *key);
/* The id and generation a gateway would send: now and then those of a bucket that is gone. */
Kist__Outcome any_bucket(struct model *model, unsigned bucket, uint64_t *id, uint64_t *generation);
/* Names one of the key's versions, "null", or one that is not there (NULL then). */
ProtobufCBinaryData any_name(struct model *model, struct arena *arena, const struct model_key *key,
                             struct model_version **named);
Kist__Piece **piece_messages(struct arena *arena, const struct model_layout *layout);
void layout_add(struct model_layout *layout, const struct model_piece *piece);
/* New extents, mostly durable on all shards. */
struct model_layout *layout_random(struct model *model, uint64_t bucket_id, unsigned key);
/* NULL mostly; the outcome it makes for a write over `version` (NULL: nothing is there). */
Kist__Conditions *conditions_random(struct model *model, struct arena *arena,
                                    const struct model_version *version, Kist__Outcome *outcome);
Kist__Record *record_new(struct arena *arena, uint64_t mark);

/* ---- Commands ---- */

void command_put(struct model *model, struct arena *arena, struct model_command *out);
void command_delete(struct model *model, struct arena *arena, struct model_command *out);
void command_copy(struct model *model, struct arena *arena, struct model_command *out);
void command_set(struct model *model, struct arena *arena, struct model_command *out);
void command_rename(struct model *model, struct arena *arena, struct model_command *out);
void command_append(struct model *model, struct arena *arena, struct model_command *out);
/* False: nothing is to be repaired. */
bool command_set_durable(struct model *model, struct arena *arena, struct model_command *out);
/* Any step of this upload. */
void command_upload(struct model *model, struct arena *arena, struct model_upload *upload,
                    struct model_command *out);

#endif
