/* The remote meta client against scripted metads: whom it asks, how often, what it tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* After the four above. */
#include <cmocka.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/meta_rpc/meta_remote.h"
#include "common/meta_rpc/wire.h"
#include "common/rpc/security.h"
#include "proto/meta.pb-c.h"
#include "tests/lib/env_sim.h"

enum { NODES = 4, SEEN_MAX = 64 };

enum behaviour { LEADS, POINTS, SILENT, NO_QUORUM, AMBIGUOUS, FULL, DAMAGED };

/* A metad that does as it is told. */
struct fake {
    struct rpc_service get;
    struct rpc_service write;
    struct rpc_service view;
    struct sim_node *node;
    struct env *env;
    struct rpc *rpc;
    char address[16];
    enum behaviour behaviour;
    int points_at; /* POINTS: which node it names; -1: nobody */
    uint32_t gets;
    uint32_t writes;
    uint32_t fresh;
    uint8_t request_ids[SEEN_MAX][16];
    uint32_t id_count;
    struct list held; /* rpc_request.link: SILENT, and fresh views while `hold_views` */
    bool hold_views;
    uint64_t view_version;
};

static struct {
    struct sim *sim;
    struct rpc_security *security;
    struct fake fakes[NODES];
    struct env *env;
    struct sim_node *node;
    struct rpc *rpc;
    struct meta_remote *remote;
    struct meta_client *meta;
    struct arena arena;
    uint32_t opened;
    uint32_t closed;
} world;

/* ---- The metads ---- */

static void held_cancel(struct rpc_request *request)
{
    list_remove(&request->link);
    rpc_reply_rc(request, RC_CANCELLED);
}

static void hold(struct fake *fake, struct rpc_request *request)
{
    request->on_cancel = held_cancel;
    list_push_back(&fake->held, &request->link);
}

static void point(const struct fake *fake, struct rpc_request *request)
{
    Kist__MetaRefusal refusal;
    struct rpc_reply reply = {.rc = RC_NOT_LEADER, .message = &refusal.base};

    kist__meta_refusal__init(&refusal);
    if (fake->points_at >= 0) {
        refusal.leader_node = 100 + (uint64_t)fake->points_at;
        refusal.leader_address = world.fakes[fake->points_at].address;
    }
    rpc_reply(request, &reply);
}

/* True: it was dealt with. */
static bool behave(struct fake *fake, struct rpc_request *request)
{
    switch (fake->behaviour) {
    case POINTS:
        point(fake, request);
        return true;
    case SILENT:
        hold(fake, request);
        return true;
    case NO_QUORUM:
        rpc_reply_rc(request, RC_NO_QUORUM);
        return true;
    case AMBIGUOUS:
        rpc_reply_rc(request, RC_AMBIGUOUS);
        return true;
    case FULL:
        rpc_reply_rc(request, RC_FULL);
        return true;
    case DAMAGED: {
        struct rpc_reply reply = {.rc = RC_OK, .head = SLICE("\xff\xff\xff")};

        rpc_reply(request, &reply);
        return true;
    }
    case LEADS:
    default:
        return false;
    }
}

static void on_get(struct rpc_service *service, struct rpc_request *request)
{
    struct fake *fake = CONTAINER_OF(service, struct fake, get);
    Kist__MetaGetReply got = KIST__META_GET_REPLY__INIT;
    Kist__Record record = KIST__RECORD__INIT;
    struct rpc_reply reply = {.rc = RC_OK, .message = &got.base};

    fake->gets += 1;
    if (!behave(fake, request)) {
        record.size = 5;
        record.stamp = (uint64_t)(fake - world.fakes);
        got.record = &record;
        reply.body[0] = SLICE("hello");
        reply.body_count = 1;
        rpc_reply(request, &reply);
    }
}

static void on_write(struct rpc_service *service, struct rpc_request *request)
{
    struct fake *fake = CONTAINER_OF(service, struct fake, write);
    struct slice body = request->body;
    Kist__Reply answer = KIST__REPLY__INIT;
    struct rpc_reply reply = {.rc = RC_OK, .message = &answer.base};
    struct wire_write head;

    assert_true(wire_write_take(&body, &head));
    assert_true(head.left_ms > 0 && head.left_ms <= 30000);
    assert_int_equal(head.command, META_MINT);
    assert_true(fake->id_count < SEEN_MAX);
    memcpy(fake->request_ids[fake->id_count++], head.request_id, 16);
    fake->writes += 1;
    if (!behave(fake, request)) {
        answer.first = 77;
        rpc_reply(request, &reply);
    }
}

static void view_answer(struct fake *fake, struct rpc_request *request)
{
    Kist__MetaView *head =
        kist__meta_view__unpack(NULL, request->head.len, (const uint8_t *)request->head.data);
    Kist__MetaViewReply answer = KIST__META_VIEW_REPLY__INIT;
    struct rpc_reply reply = {.rc = RC_OK, .message = &answer.base};

    assert_non_null(head);
    answer.version = fake->view_version;
    answer.wall_ns = fake->env->clock->wall_ns(fake->env);
    kist__meta_view__free_unpacked(head, NULL);
    rpc_reply(request, &reply);
}

static void on_view(struct rpc_service *service, struct rpc_request *request)
{
    struct fake *fake = CONTAINER_OF(service, struct fake, view);
    Kist__MetaView *head =
        kist__meta_view__unpack(NULL, request->head.len, (const uint8_t *)request->head.data);
    bool fresh = head->fresh;
    bool waits =
        !fresh && head->wait_ms > 0 && head->has_known && head->known_version >= fake->view_version;

    kist__meta_view__free_unpacked(head, NULL);
    if (fake->behaviour != LEADS) {
        (void)behave(fake, request);
        return;
    }
    fake->fresh += fresh ? 1 : 0;
    if (waits || (fresh && fake->hold_views)) {
        hold(fake, request);
    } else {
        view_answer(fake, request);
    }
}

static void fake_release(struct fake *fake)
{
    while (!list_empty(&fake->held)) {
        struct rpc_request *request =
            CONTAINER_OF(list_pop_front(&fake->held), struct rpc_request, link);

        request->on_cancel = NULL;
        if (request->method == RPC_META_VIEW) {
            view_answer(fake, request);
        } else {
            rpc_reply_rc(request, RC_CANCELLED);
        }
    }
}

static struct rpc_identity identity_of(uint64_t node_id, enum rpc_role role)
{
    return (struct rpc_identity){
        .cluster_id = {1, 2, 3},
        .cluster_epoch = 1,
        .node_id = node_id,
        .incarnation = node_id,
        .role = role
    };
}

static void fake_open(uint32_t number)
{
    struct fake *fake = &world.fakes[number];
    struct rpc_options options = {.security = world.security,
                                  .identity = identity_of(100 + number, RPC_ROLE_METAD)};
    struct error error = {0};
    char name[8];

    (void)snprintf(name, sizeof(name), "m%u", number);
    (void)snprintf(fake->address, sizeof(fake->address), "%s:700", name);
    fake->points_at = -1;
    fake->view_version = 1;
    list_init(&fake->held);
    fake->node = sim_node_new(world.sim, name);
    fake->env = sim_env_new(fake->node);
    options.env = fake->env;
    options.owner = &world;
    fake->rpc = rpc_open(&options);
    assert_int_equal(rpc_listen(fake->rpc, fake->address, &error), RC_OK);
    fake->get.on_request = on_get;
    fake->write.on_request = on_write;
    fake->view.on_request = on_view;
    rpc_serve(fake->rpc, RPC_META_GET, &fake->get);
    rpc_serve(fake->rpc, RPC_META_WRITE, &fake->write);
    rpc_serve(fake->rpc, RPC_META_VIEW, &fake->view);
}

/* ---- The world ---- */

static void on_open(struct meta_remote *remote, void *owner)
{
    (void)remote;
    (void)owner;
    world.opened += 1;
}

static void begin(void)
{
    memset(&world, 0, sizeof(world));
    world.sim = sim_new(11);
    world.security = rpc_security_plain();
    arena_init(&world.arena);
    for (uint32_t i = 0; i < NODES; i++) {
        fake_open(i);
    }
    world.node = sim_node_new(world.sim, "client");
    world.env = sim_env_new(world.node);
}

/* Knows the first `count` of them. */
static void connect_client(uint32_t count)
{
    const char *addresses[NODES];
    struct rpc_options options = {.env = world.env,
                                  .security = world.security,
                                  .identity = identity_of(9, RPC_ROLE_GATEWAY),
                                  .owner = &world};

    for (uint32_t i = 0; i < count; i++) {
        addresses[i] = world.fakes[i].address;
    }
    world.rpc = rpc_open(&options);
    world.remote = meta_remote_open(&(struct meta_remote_options){.rpc = world.rpc,
                                                                  .addresses = addresses,
                                                                  .address_count = count,
                                                                  .owner = &world,
                                                                  .on_open = on_open});
    world.meta = meta_remote_client(world.remote);
}

static void on_closed(void *owner)
{
    (void)owner;
    world.closed += 1;
}

static bool is_closed(void *arg)
{
    (void)arg;
    return world.closed > 0;
}

static void await_closed(void)
{
    assert_true(sim_run_until(world.sim, is_closed, NULL, 60 * SIM_S));
    assert_int_equal(world.closed, 1);
    world.closed = 0;
}

static void end(void)
{
    meta_remote_close(world.remote, on_closed);
    await_closed();
    rpc_close(world.rpc, on_closed);
    await_closed();
    for (uint32_t i = 0; i < NODES; i++) {
        fake_release(&world.fakes[i]);
        rpc_close(world.fakes[i].rpc, on_closed);
        await_closed();
    }
    assert_int_equal(sim_open_streams(world.node), 0);
    rpc_security_free(world.security);
    arena_deinit(&world.arena);
    sim_free(world.sim);
}

/* ---- Calls ---- */

enum what { A_GET, A_WRITE, A_REFRESH };

struct asked {
    struct task task;
    enum what what;
    struct meta_get get;
    struct meta_write write;
    struct meta_refresh refresh;
    Kist__Mint mint;
    bool done;
    enum rc rc;
};

static enum step_result asked_step(struct task *task)
{
    struct asked *asked = CONTAINER_OF(task, struct asked, task);

    switch (asked->what) {
    case A_GET:
        return world.meta->get(world.meta, &asked->get, task);
    case A_WRITE:
        return world.meta->write(world.meta, &asked->write, task);
    case A_REFRESH:
    default:
        return world.meta->refresh(world.meta, &asked->refresh, task);
    }
}

static const struct step asked_steps[] = {
    {"ask", asked_step},
    {NULL,  NULL      }
};

static void asked_done(struct task *task)
{
    struct asked *asked = CONTAINER_OF(task, struct asked, task);

    assert_false(asked->done);
    asked->done = true;
    asked->rc = task->error.rc;
}

static void ask(struct asked *asked, enum what what, uint64_t deadline_ms)
{
    *asked = (struct asked){.what = what, .mint = KIST__MINT__INIT};
    asked->get = (struct meta_get){.key = SLICE("k"), .want_body = true, .arena = &world.arena};
    asked->write = (struct meta_write){.command = META_MINT,
                                       .message = &asked->mint.base,
                                       .deadline_ms = deadline_ms,
                                       .arena = &world.arena};
    task_start(&asked->task, asked_steps, asked_done);
}

static bool asked_is_done(void *arg)
{
    return ((struct asked *)arg)->done;
}

static enum rc answer(struct asked *asked, uint64_t within_ms)
{
    assert_true(sim_run_until(world.sim, asked_is_done, asked, within_ms * SIM_MS));
    return asked->rc;
}

/* ---- Whom it asks ---- */

/* A node that does not lead names the one that does, also one nobody has configured. */
static void a_hint_is_followed(void **state)
{
    struct asked asked;

    (void)state;
    begin();
    for (uint32_t i = 0; i < 3; i++) {
        world.fakes[i].behaviour = POINTS;
        world.fakes[i].points_at = 3;
    }
    connect_client(3);
    ask(&asked, A_GET, 0);
    assert_int_equal(answer(&asked, 100), RC_OK);
    assert_int_equal(asked.get.record->stamp, 3);
    assert_true(slice_eq(asked.get.body, SLICE("hello")));
    world.meta->release(world.meta, &asked.get);
    for (int i = 0; i < 20; i++) { /* and it is remembered */
        ask(&asked, A_GET, 0);
        assert_int_equal(answer(&asked, 50), RC_OK);
    }
    assert_true(world.fakes[0].gets + world.fakes[1].gets + world.fakes[2].gets <= 3);
    sim_run_for(world.sim, 100 * SIM_MS);
    assert_int_equal(world.opened, 1);
    assert_true(world.meta->ready(world.meta));
    end();
}

/* Two that name one another, for ever, cost a bounded number of calls, and an honest end. */
static void hints_in_a_circle_end(void **state)
{
    struct asked asked;
    struct meta_remote_stats stats;

    (void)state;
    begin();
    for (uint32_t i = 0; i < NODES; i++) {
        world.fakes[i].behaviour = POINTS;
        world.fakes[i].points_at = (int)((i + 1) % NODES);
    }
    connect_client(2);
    ask(&asked, A_GET, 0);
    assert_int_equal(answer(&asked, 12000), RC_NO_QUORUM);
    meta_remote_stats(world.remote, &stats);
    assert_true(stats.attempts < 1000);
    assert_false(world.meta->ready(world.meta));
    ask(&asked, A_WRITE, 2000);
    assert_int_equal(answer(&asked, 3000), RC_NO_QUORUM); /* it was never taken */
    end();
}

/* A leader that falls silent is left, and another found, long before the caller's deadline. */
static void a_silent_leader_is_left(void **state)
{
    struct asked asked;

    (void)state;
    begin();
    world.fakes[0].behaviour = SILENT;
    world.fakes[1].behaviour = POINTS;
    world.fakes[1].points_at = 2;
    connect_client(3);
    ask(&asked, A_WRITE, 0);
    assert_int_equal(answer(&asked, 2500), RC_OK);
    assert_int_equal(asked.write.reply->first, 77);
    world.fakes[2].behaviour = SILENT;
    world.fakes[1].points_at = 0;
    world.fakes[0].behaviour = LEADS;
    ask(&asked, A_GET, 0);
    assert_int_equal(answer(&asked, 2500), RC_OK);
    assert_int_equal(asked.get.record->stamp, 0);
    end();
}

/* Every attempt of a write bears one id, and different writes different ones: that is what makes a
 * repeat harmless. */
static void attempts_bear_one_id(void **state)
{
    struct asked asked;
    const struct fake *second;
    uint8_t first_id[16];

    (void)state;
    begin();
    world.fakes[0].behaviour = AMBIGUOUS;
    world.fakes[1].behaviour = AMBIGUOUS;
    connect_client(2);
    ask(&asked, A_WRITE, 0);
    sim_run_for(world.sim, 900 * SIM_MS);
    assert_false(asked.done);
    second = &world.fakes[1];
    world.fakes[0].behaviour = LEADS;
    assert_int_equal(answer(&asked, 5000), RC_OK);
    assert_true(world.fakes[0].id_count >= 1 && second->id_count >= 1);
    memcpy(first_id, world.fakes[0].request_ids[0], sizeof(first_id));
    for (uint32_t n = 0; n < 2; n++) {
        for (uint32_t i = 0; i < world.fakes[n].id_count; i++) {
            assert_memory_equal(world.fakes[n].request_ids[i], first_id, sizeof(first_id));
        }
    }
    ask(&asked, A_WRITE, 0);
    assert_int_equal(answer(&asked, 5000), RC_OK);
    assert_memory_not_equal(world.fakes[0].request_ids[world.fakes[0].id_count - 1], first_id,
                            sizeof(first_id));
    end();
}

/* ---- What it tells ---- */

/* Once an attempt may have been taken, a later refusal proves nothing: the write stays ambiguous,
 * or is answered. */
static void a_refusal_does_not_undo_an_attempt(void **state)
{
    static const enum behaviour later[] = {FULL, NO_QUORUM, POINTS, DAMAGED, SILENT};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(later); i++) {
        struct asked asked;

        begin();
        world.fakes[0].behaviour = AMBIGUOUS;
        connect_client(1);
        ask(&asked, A_WRITE, 3000);
        sim_run_for(world.sim, 20 * SIM_MS);
        assert_true(world.fakes[0].writes > 0);
        world.fakes[0].behaviour = later[i];
        assert_int_equal(answer(&asked, 3500), RC_AMBIGUOUS);
        end();
    }
}

/* What no attempt was taken of is told at once as what it is. */
static void a_refusal_of_the_first_is_told(void **state)
{
    struct asked asked;

    (void)state;
    begin();
    world.fakes[0].behaviour = FULL;
    connect_client(1);
    ask(&asked, A_WRITE, 0);
    assert_int_equal(answer(&asked, 100), RC_FULL);
    world.fakes[0].behaviour = NO_QUORUM;
    ask(&asked, A_WRITE, 0);
    assert_int_equal(answer(&asked, 100), RC_NO_QUORUM);
    end();
}

/* ---- Refreshes ---- */

/* A refresh asked while one is under way is not answered by that one, which may have looked
 * before. */
static void a_refresh_begins_after_it_was_asked(void **state)
{
    struct fake *leader = &world.fakes[0];
    struct asked first;
    struct asked second;
    struct asked third;

    (void)state;
    begin();
    connect_client(1);
    sim_run_for(world.sim, 100 * SIM_MS);
    assert_int_equal(world.opened, 1);
    leader->hold_views = true;
    ask(&first, A_REFRESH, 0);
    sim_run_for(world.sim, 5 * SIM_MS);
    assert_int_equal(leader->fresh, 1);
    ask(&second, A_REFRESH, 0);
    ask(&third, A_REFRESH, 0);
    sim_run_for(world.sim, 5 * SIM_MS);
    leader->view_version = 2;
    fake_release(leader);
    assert_int_equal(answer(&first, 100), RC_OK);
    assert_false(second.done || third.done);
    leader->view_version = 3;
    sim_run_for(world.sim, 5 * SIM_MS);
    assert_int_equal(leader->fresh, 2); /* one round for both */
    fake_release(leader);
    assert_int_equal(answer(&second, 100), RC_OK);
    assert_int_equal(answer(&third, 100), RC_OK);
    assert_int_equal(view_version(world.meta->view(world.meta)), 3);
    end();
}

/* An older view, of a leader that is behind, never takes the place of a newer one. */
static void a_view_never_goes_back(void **state)
{
    struct fake *leader = &world.fakes[0];
    struct asked asked;

    (void)state;
    begin();
    leader->view_version = 9;
    connect_client(1);
    sim_run_for(world.sim, 100 * SIM_MS);
    leader->view_version = 4;
    ask(&asked, A_REFRESH, 0);
    assert_int_equal(answer(&asked, 100), RC_OK);
    assert_int_equal(view_version(world.meta->view(world.meta)), 9);
    end();
}

/* A client that is closed ends its calls: none is forgotten, none is told twice. */
static void close_ends_calls(void **state)
{
    struct asked asked[6];

    (void)state;
    begin();
    world.fakes[0].behaviour = SILENT;
    world.fakes[1].behaviour = POINTS;
    connect_client(2);
    for (uint32_t i = 0; i < ARRAY_LEN(asked); i++) {
        ask(&asked[i], (enum what)(i % 3), 0);
    }
    sim_run_for(world.sim, 300 * SIM_MS);
    end();
    for (uint32_t i = 0; i < ARRAY_LEN(asked); i++) {
        assert_true(asked[i].done);
        assert_true(asked[i].rc == RC_CANCELLED || asked[i].rc == RC_AMBIGUOUS);
        assert_true(asked[i].what == A_WRITE || asked[i].rc == RC_CANCELLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hint_is_followed),
        cmocka_unit_test(hints_in_a_circle_end),
        cmocka_unit_test(a_silent_leader_is_left),
        cmocka_unit_test(attempts_bear_one_id),
        cmocka_unit_test(a_refusal_does_not_undo_an_attempt),
        cmocka_unit_test(a_refusal_of_the_first_is_told),
        cmocka_unit_test(a_refresh_begins_after_it_was_asked),
        cmocka_unit_test(a_view_never_goes_back),
        cmocka_unit_test(close_ends_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
