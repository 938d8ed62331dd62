/*
 * A whole metad in the simulated world: directories "/d0", "/d1", ..., in-memory stores, one
 * client. Calls run the world until they are answered.
 */
#ifndef TESTS_LIB_FIXTURE_METAD_H
#define TESTS_LIB_FIXTURE_METAD_H

#include "common/base/arena.h"
#include "common/client/data_client.h"
#include "common/client/meta_client.h"
#include "common/task/task.h"
#include "metad/metad.h"
#include "metad/store/message.h"
#include "tests/lib/env_sim.h"

struct metad_fixture {
    struct sim *sim;
    struct sim_node *node;
    struct env *env;
    uint32_t directory_count;
    uint64_t grace_ms;
    struct metad_open open;
    struct metad *metad; /* NULL: closed, or it did not open (open.error) */
    struct meta_client *meta;
    struct arena arena;
    uint64_t ids;
    uint64_t bucket_id;
    uint64_t generation;
    struct task task; /* of the call under way */
    struct error error;
    bool done;
    /* A data service that only counts. */
    struct data_client data;
    uint32_t shards_removed;
    enum rc remove_rc;
};

void metad_fixture_init(struct metad_fixture *f, uint32_t directories);
void metad_fixture_deinit(struct metad_fixture *f);
/* Opens metad over the directories that exist; waits for `open.done`. */
enum rc metad_fixture_open(struct metad_fixture *f, bool first_start);
void metad_fixture_close(struct metad_fixture *f);
/* The process dies; the world goes on. Its directories stay as `how` leaves them. */
void metad_fixture_crash(struct metad_fixture *f, enum sim_crash how);
/* A directory and its stores are gone; `again` leaves an empty one. */
void metad_fixture_lose(struct metad_fixture *f, uint32_t directory, bool again);

/* One write; RC_OK: *reply. */
enum rc metad_fixture_write(struct metad_fixture *f, enum meta_command command,
                            const ProtobufCMessage *message, struct slice body,
                            Kist__Reply **reply);
enum rc metad_fixture_refresh(struct metad_fixture *f);
/* Runs one call of the client: `start` returns what the call returned. */
enum rc metad_fixture_call(struct metad_fixture *f, enum step_result (*start)(struct task *task));

/* User "root" and bucket "box". */
void metad_fixture_bucket(struct metad_fixture *f);
enum rc metad_fixture_put_inline(struct metad_fixture *f, const char *key, const char *body);
enum rc metad_fixture_put(struct metad_fixture *f, const char *key, uint64_t size);
enum rc metad_fixture_delete(struct metad_fixture *f, const char *key);
/* NULL when absent; *rc says why the call failed. */
Kist__Record *metad_fixture_get(struct metad_fixture *f, const char *key, struct slice *body,
                                enum rc *rc);
/* Until the states of all replicas are these words, or `seconds` have passed. */
bool metad_fixture_wait(struct metad_fixture *f, const char *const *states, uint32_t seconds);
/* How many replicas are in this state. */
uint32_t metad_fixture_count(struct metad_fixture *f, const char *state);

#endif
