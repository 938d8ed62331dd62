/* Calls and messages between two processes: in the simulator, over TLS, on real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* After the four above. */
#include <cmocka.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/mem.h"
#include "tests/lib/rpc_pair.h"

/* ---- A service: echoes at once, or keeps requests until told ---- */

struct keeper {
    struct rpc_service service;
    bool keep;
    struct list kept; /* rpc_request.link */
    uint32_t served;
    uint32_t kept_count;
    uint32_t cancelled;
    uint32_t messages;
    uint64_t message_next; /* FIFO: each carries its number */
    bool out_of_order;
};

static void keeper_on_cancel(struct rpc_request *request)
{
    struct keeper *keeper = request->owner;

    keeper->cancelled += 1;
    list_remove(&request->link);
    keeper->kept_count -= 1;
    rpc_reply_rc(request, RC_CANCELLED);
}

static void keeper_reply(struct rpc_request *request)
{
    struct rpc_reply reply = {
        .rc = RC_OK, .head = request->head, .body = {request->body}, .body_count = 1};

    rpc_reply(request, &reply);
}

static void keeper_on_request(struct rpc_service *service, struct rpc_request *request)
{
    struct keeper *keeper = CONTAINER_OF(service, struct keeper, service);

    keeper->served += 1;
    if (!keeper->keep) {
        keeper_reply(request);
        return;
    }
    request->owner = keeper;
    request->on_cancel = keeper_on_cancel;
    keeper->kept_count += 1;
    list_push_back(&keeper->kept, &request->link);
}

static void keeper_on_message(struct rpc_service *service, const struct rpc_message *message)
{
    struct keeper *keeper = CONTAINER_OF(service, struct keeper, service);
    uint64_t number;

    ASSERT(message->head.len == sizeof(number));
    memcpy(&number, message->head.data, sizeof(number));
    keeper->out_of_order = keeper->out_of_order || number < keeper->message_next;
    keeper->message_next = number + 1;
    keeper->messages += 1;
}

static void keeper_init(struct keeper *keeper, struct pair *pair)
{
    memset(keeper, 0, sizeof(*keeper));
    list_init(&keeper->kept);
    keeper->service.on_request = keeper_on_request;
    keeper->service.on_message = keeper_on_message;
    rpc_serve(pair->server, RPC_PROBE_ECHO, &keeper->service);
    rpc_serve(pair->server, RPC_PROBE_MESSAGE, &keeper->service);
}

static void keeper_release(struct keeper *keeper)
{
    keeper->keep = false;
    while (!list_empty(&keeper->kept)) {
        struct rpc_request *request =
            CONTAINER_OF(list_pop_front(&keeper->kept), struct rpc_request, link);

        keeper->kept_count -= 1;
        keeper_reply(request);
    }
}

/* ---- Calls that check themselves ---- */

struct asked {
    struct rpc_call call;
    uint32_t completed; /* must become 1 */
    enum rc rc;
    char head[16];
    char *body;
    size_t body_len;
    uint32_t *done_count;
};

static void asked_done(struct rpc_call *call)
{
    struct asked *asked = CONTAINER_OF(call, struct asked, call);

    asked->completed += 1;
    asked->rc = call->rc;
    if (call->rc == RC_OK) {
        assert_true(slice_eq(call->reply_head, slice_of(asked->head, sizeof(asked->head))));
        assert_true(slice_eq(call->reply_body, slice_of(asked->body, asked->body_len)));
        assert_true(call->answered && call->taken);
    }
    if (asked->done_count != NULL) {
        *asked->done_count += 1;
    }
}

static void asked_init(struct asked *asked, size_t body_len, uint32_t salt, uint32_t *count)
{
    memset(asked, 0, sizeof(*asked));
    asked->body = mem_alloc_raw(body_len + 1);
    asked->body_len = body_len;
    asked->done_count = count;
    for (size_t i = 0; i < body_len; i++) {
        asked->body[i] = (char)(i * 7 + salt + i / 251);
    }
    memset(asked->head, (int)(salt & 0x7f), sizeof(asked->head));
    asked->call.method = RPC_PROBE_ECHO;
    asked->call.head = slice_of(asked->head, sizeof(asked->head));
    asked->call.body[0] = slice_of(asked->body, body_len / 3);
    asked->call.body[1] = slice_of(asked->body + body_len / 3, body_len - body_len / 3);
    asked->call.body_count = 2;
    asked->call.done = asked_done;
}

static void asked_deinit(struct asked *asked)
{
    mem_free(asked->body);
}

static bool asked_is_done(void *arg)
{
    return ((struct asked *)arg)->completed > 0;
}

struct counted {
    uint32_t *count;
    uint32_t want;
};

static bool count_reached(void *arg)
{
    const struct counted *counted = arg;

    return *counted->count >= counted->want;
}

static void run_until_count(struct pair *pair, uint32_t *count, uint32_t want)
{
    struct counted counted = {.count = count, .want = want};

    assert_true(pair_run(pair, count_reached, &counted, 60000));
}

/* Every world with and without TLS: what follows runs in all four. */
static const struct pair_options all_worlds[] = {
    {.world = PAIR_SIM, .seed = 1},
    {.world = PAIR_SIM, .seed = 2, .tls = true},
    {.world = PAIR_REAL},
    {.world = PAIR_REAL, .tls = true},
};

/* ---- Tests ---- */

/* What comes back is what was sent, whatever its size: from nothing to the longest frame. */
static void echo_of_every_size(void **state)
{
    static const size_t sizes[] = {
        0, 1, 300, 8191, 8192, 40000, 65536, 65537, 200000, 1048576, LIMIT_RPC_BODY_BYTES};

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair pair;
        struct keeper keeper;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            struct asked asked;

            asked_init(&asked, sizes[i], (uint32_t)i, NULL);
            rpc_call(pair.peer, &asked.call);
            assert_int_equal(asked.completed, 0); /* never inside the call */
            assert_true(pair_run(&pair, asked_is_done, &asked, 20000));
            assert_int_equal(asked.rc, RC_OK);
            asked_deinit(&asked);
        }
        assert_int_equal(pair.ups, 1);
        assert_int_equal(pair.downs, 0);
        pair_deinit(&pair);
    }
}

/* Ten thousand callers at once are all answered, once each, and no more are under way than the
 * other side allows: load becomes waiting, not memory. */
static void ten_thousand_at_once(void **state)
{
    enum { CALLS = 10000 };

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct asked *asked = mem_alloc(CALLS * sizeof(*asked));
        struct pair pair;
        struct keeper keeper;
        uint32_t done = 0;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        keeper.keep = true;
        for (uint32_t i = 0; i < CALLS; i++) {
            asked_init(&asked[i], i % 40, i, &done);
            asked[i].call.timeout_ms = 60000;
            rpc_call(pair.peer, &asked[i].call);
        }
        run_until_count(&pair, &keeper.kept_count, LIMIT_RPC_INFLIGHT);
        pair_run_for(&pair, 20);
        assert_int_equal(keeper.kept_count, LIMIT_RPC_INFLIGHT);
        keeper_release(&keeper);
        run_until_count(&pair, &done, CALLS);
        pair_run_for(&pair, 20);
        for (uint32_t i = 0; i < CALLS; i++) {
            assert_int_equal(asked[i].completed, 1);
            assert_int_equal(asked[i].rc, RC_OK);
            asked_deinit(&asked[i]);
        }
        assert_int_equal(keeper.served, CALLS);
        pair_deinit(&pair);
        mem_free(asked);
    }
}

/* Unanswered requests are bounded by bytes too: the server never holds more than it said. */
static void unanswered_bytes_are_bounded(void **state)
{
    enum { CALLS = 64, BODY = 1024 * 1024 };
    struct asked *asked = mem_alloc(CALLS * sizeof(*asked));
    struct pair pair;
    struct keeper keeper;
    uint32_t done = 0;

    (void)state;
    pair_init(&pair, &all_worlds[3]);
    pair_start(&pair);
    keeper_init(&keeper, &pair);
    keeper.keep = true;
    for (uint32_t i = 0; i < CALLS; i++) {
        asked_init(&asked[i], BODY, i, &done);
        rpc_call(pair.peer, &asked[i].call);
    }
    run_until_count(&pair, &keeper.kept_count, LIMIT_RPC_INFLIGHT_BYTES / BODY - 1);
    pair_run_for(&pair, 100);
    assert_int_equal(keeper.kept_count, LIMIT_RPC_INFLIGHT_BYTES / BODY - 1);
    keeper_release(&keeper);
    run_until_count(&pair, &done, CALLS);
    for (uint32_t i = 0; i < CALLS; i++) {
        assert_int_equal(asked[i].rc, RC_OK);
        asked_deinit(&asked[i]);
    }
    pair_deinit(&pair);
    mem_free(asked);
}

/* Who gives up hears at once, the server hears of it, and the connection goes on as before. */
static void cancelled_calls(void **state)
{
    enum { CALLS = LIMIT_RPC_INFLIGHT + 10 }; /* the last ones never leave */

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct asked *asked = mem_alloc(CALLS * sizeof(*asked));
        struct asked after;
        struct pair pair;
        struct keeper keeper;
        uint32_t done = 0;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        keeper.keep = true;
        for (uint32_t i = 0; i < CALLS; i++) {
            asked_init(&asked[i], 10, i, &done);
            rpc_call(pair.peer, &asked[i].call);
        }
        run_until_count(&pair, &keeper.kept_count, LIMIT_RPC_INFLIGHT);
        for (uint32_t i = 0; i < CALLS; i++) {
            rpc_cancel(&asked[i].call);
            rpc_cancel(&asked[i].call); /* harmless */
            assert_int_equal(asked[i].completed, 0);
        }
        run_until_count(&pair, &done, CALLS);
        for (uint32_t i = 0; i < CALLS; i++) {
            assert_int_equal(asked[i].completed, 1);
            assert_int_equal(asked[i].rc, RC_CANCELLED);
            assert_int_equal(asked[i].call.taken, i < LIMIT_RPC_INFLIGHT);
        }
        run_until_count(&pair, &keeper.cancelled, LIMIT_RPC_INFLIGHT);
        keeper.keep = false;
        asked_init(&after, 100, 1, NULL);
        rpc_call(pair.peer, &after.call);
        assert_true(pair_run(&pair, asked_is_done, &after, 5000));
        assert_int_equal(after.rc, RC_OK);
        asked_deinit(&after);
        for (uint32_t i = 0; i < CALLS; i++) {
            asked_deinit(&asked[i]);
        }
        assert_int_equal(pair.downs, 0);
        pair_deinit(&pair);
        mem_free(asked);
    }
}

/* A deadline is kept, never early, and travels: the server knows how long somebody waits. */
static void deadlines(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        static const uint32_t timeouts[] = {1, 35, 400,
                                            6000}; /* the last beyond one turn of the wheel */
        struct pair pair;
        struct keeper keeper;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        keeper.keep = true;
        for (size_t i = 0; i < ARRAY_LEN(timeouts) - (pair.sim == NULL); i++) {
            struct env *env = pair.client_env;
            struct asked asked;
            uint64_t began;
            uint64_t took_ms;

            asked_init(&asked, 10, 1, NULL);
            asked.call.timeout_ms = timeouts[i];
            began = env->clock->mono_ns(env);
            rpc_call(pair.peer, &asked.call);
            assert_true(pair_run(&pair, asked_is_done, &asked, 20000));
            took_ms = (env->clock->mono_ns(env) - began) / SIM_MS;
            assert_int_equal(asked.rc, RC_TIMEOUT);
            assert_true(took_ms >= timeouts[i]);
            assert_true(pair.sim == NULL || took_ms <= timeouts[i] + 25);
            asked_deinit(&asked);
        }
        pair_run_for(&pair, 50);
        assert_int_equal(keeper.kept_count, 0); /* all heard that nobody waits */
        pair_deinit(&pair);
    }
}

/* Nobody there: one that may ask another hears at once, one that waits gets its answer when the
 * server comes. */
static void nobody_listens(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair pair;
        struct keeper keeper;
        struct asked quick;
        struct asked patient;
        struct asked hopeless;

        pair_init(&pair, &all_worlds[w]);
        pair_start_server(&pair); /* to learn the address */
        pair_close_server(&pair);
        pair_start_client(&pair);
        asked_init(&quick, 10, 1, NULL);
        asked_init(&patient, 10, 2, NULL);
        asked_init(&hopeless, 10, 3, NULL);
        patient.call.wait_connected = true;
        hopeless.call.wait_connected = true;
        hopeless.call.timeout_ms = 100;
        rpc_call(pair.peer, &quick.call);
        rpc_call(pair.peer, &patient.call);
        rpc_call(pair.peer, &hopeless.call);
        assert_true(pair_run(&pair, asked_is_done, &quick, 5000));
        assert_int_equal(quick.rc, RC_CLOSED);
        assert_false(quick.call.taken);
        assert_true(pair_run(&pair, asked_is_done, &hopeless, 5000));
        assert_int_equal(hopeless.rc, RC_TIMEOUT);
        assert_false(hopeless.call.taken);
        assert_int_equal(patient.completed, 0);
        if (pair.sim != NULL) { /* on real sockets the port may be another's by now */
            pair_start_server(&pair);
            keeper_init(&keeper, &pair);
            assert_true(pair_run(&pair, asked_is_done, &patient, 10000));
            assert_int_equal(patient.rc, RC_OK);
        } else {
            rpc_cancel(&patient.call);
            assert_true(pair_run(&pair, asked_is_done, &patient, 5000));
        }
        pair_deinit(&pair);
        asked_deinit(&quick);
        asked_deinit(&patient);
        asked_deinit(&hopeless);
    }
}

/* A server that ends with requests in hand leaves their callers in doubt, and says so. */
static void server_goes_away(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair pair;
        struct keeper keeper;
        struct asked asked;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        keeper.keep = true;
        asked_init(&asked, 10, 1, NULL);
        rpc_call(pair.peer, &asked.call);
        run_until_count(&pair, &keeper.kept_count, 1);
        pair_close_server(&pair); /* on_cancel replies: a close waits for it */
        assert_int_equal(keeper.cancelled, 1);
        assert_true(pair_run(&pair, asked_is_done, &asked, 5000));
        assert_int_equal(asked.rc, RC_AMBIGUOUS);
        assert_true(asked.call.taken && !asked.call.answered);
        asked_deinit(&asked);
        pair_deinit(&pair);
    }
}

/* A restart without doubt: what is under way is answered, what is new is refused before it leaves.
 */
static void draining(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair pair;
        struct keeper keeper;
        struct asked before;
        struct asked after;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        keeper.keep = true;
        asked_init(&before, 10, 1, NULL);
        asked_init(&after, 10, 2, NULL);
        rpc_call(pair.peer, &before.call);
        run_until_count(&pair, &keeper.kept_count, 1);
        rpc_drain(pair.server);
        run_until_count(&pair, &pair.downs, 1);
        rpc_call(pair.peer, &after.call);
        assert_true(pair_run(&pair, asked_is_done, &after, 5000));
        assert_int_equal(after.rc, RC_CLOSED);
        assert_false(after.call.taken);
        assert_int_equal(before.completed, 0);
        keeper_release(&keeper);
        assert_true(pair_run(&pair, asked_is_done, &before, 5000));
        assert_int_equal(before.rc, RC_OK);
        asked_deinit(&before);
        asked_deinit(&after);
        pair_deinit(&pair);
    }
}

/* A method that the other side does not serve is refused before anything happened. */
static void method_without_service(void **state)
{
    struct pair pair;
    struct asked asked;

    (void)state;
    pair_init(&pair, &all_worlds[1]);
    pair_start(&pair);
    asked_init(&asked, 10, 1, NULL);
    rpc_call(pair.peer, &asked.call);
    assert_true(pair_run(&pair, asked_is_done, &asked, 5000));
    assert_int_equal(asked.rc, RC_UNSUPPORTED);
    assert_false(asked.call.taken || asked.call.answered);
    asked_deinit(&asked);
    pair_deinit(&pair);
}

static bool send_number(struct pair *pair, uint64_t number, struct slice body)
{
    return rpc_send(pair->peer, RPC_CONTROL, RPC_PROBE_MESSAGE, slice_of(&number, sizeof(number)),
                    &body, 1);
}

/* Messages of one link come in the order in which they were sent: raft rests on it. */
static void messages_keep_their_order(void **state)
{
    enum { MESSAGES = 5000 };
    static char body[70000];

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair pair;
        struct keeper keeper;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        for (uint32_t i = 0; i < MESSAGES; i++) {
            /* The first ones wait for the connection. */
            assert_true(
                send_number(&pair, i, slice_of(body, i % 500 == 0 ? sizeof(body) : i % 300)));
        }
        run_until_count(&pair, &keeper.messages, MESSAGES);
        assert_false(keeper.out_of_order);
        pair_deinit(&pair);
    }
}

/* A link that does not drain drops the newest, counts them, and stays within its bound. */
static void messages_to_a_slow_link_are_bounded(void **state)
{
    enum { MESSAGES = 4000 };
    static char body[10000];

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct pair_options options = all_worlds[w];
        struct rpc_stats stats;
        struct pair pair;
        struct keeper keeper;
        uint32_t taken = 0;

        options.wire = true;
        pair_init(&pair, &options);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        run_until_count(&pair, &pair.ups, 1);
        wire_hold(pair.wire, true);
        for (uint32_t i = 0; i < MESSAGES; i++) {
            taken += send_number(&pair, i, slice_of(body, sizeof(body)));
            if (i % 100 == 0) {
                pair_run_for(&pair, 1);
            }
        }
        rpc_stats(pair.client, &stats);
        assert_int_equal(stats.messages_dropped, MESSAGES - taken);
        assert_true(taken < MESSAGES);
        assert_true(stats.queued_bytes < 2 * LIMIT_RPC_OUT_BYTES + 2 * sizeof(body));
        wire_hold(pair.wire, false);
        run_until_count(&pair, &keeper.messages, taken);
        assert_false(keeper.out_of_order);
        pair_deinit(&pair);
    }
}

/* Replies to one who does not read: the server stays within its bound, and sent() comes once each.
 */
struct lender {
    struct rpc_service service;
    uint32_t sent;
    uint32_t served;
};

struct loan {
    struct rpc_reply reply;
    struct lender *lender;
};

static char lent[256 * 1024];

static void loan_sent(struct rpc_reply *reply)
{
    struct loan *loan = CONTAINER_OF(reply, struct loan, reply);

    loan->lender->sent += 1;
    mem_free(loan);
}

static void lender_on_request(struct rpc_service *service, struct rpc_request *request)
{
    struct lender *lender = CONTAINER_OF(service, struct lender, service);
    struct loan *loan = mem_alloc(sizeof(*loan));

    lender->served += 1;
    loan->lender = lender;
    loan->reply.head = request->head;
    loan->reply.body[0] = slice_of(lent, sizeof(lent));
    loan->reply.body_count = 1;
    loan->reply.sent = loan_sent;
    rpc_reply(request, &loan->reply);
}

static void lent_done(struct rpc_call *call)
{
    struct asked *asked = CONTAINER_OF(call, struct asked, call);

    asked->completed += 1;
    asked->rc = call->rc;
    if (call->rc == RC_OK) {
        assert_int_equal(call->reply_body.len, sizeof(lent));
    }
    *asked->done_count += 1;
}

static void replies_to_a_slow_reader(void **state)
{
    enum { CALLS = 100 };

    (void)state;
    for (size_t w = 0; w < 2 * ARRAY_LEN(all_worlds); w++) {
        struct pair_options options = all_worlds[w / 2];
        struct asked *asked = mem_alloc(CALLS * sizeof(*asked));
        struct lender lender = {.service.on_request = lender_on_request};
        struct rpc_stats stats;
        struct pair pair;
        uint32_t done = 0;

        options.wire = true;
        pair_init(&pair, &options);
        pair_start(&pair);
        rpc_serve(pair.server, RPC_PROBE_ECHO, &lender.service);
        run_until_count(&pair, &pair.ups, 1);
        for (uint32_t i = 0; i < CALLS; i++) {
            asked_init(&asked[i], 10, i, &done);
            asked[i].call.done = lent_done;
            rpc_call(pair.peer, &asked[i].call);
        }
        run_until_count(&pair, &lender.served, 1);
        wire_hold(pair.wire, true);
        pair_run_for(&pair, 100);
        rpc_stats(pair.server, &stats);
        assert_true(stats.queued_bytes <= 2 * LIMIT_RPC_OUT_BYTES + 2 * sizeof(lent));
        if (w % 2 == 0) {
            wire_hold(pair.wire, false);
            run_until_count(&pair, &done, CALLS);
        } else {
            pair_close_client(&pair); /* gone with most of them unsent */
            assert_int_equal(done, CALLS);
        }
        run_until_count(&pair, &lender.sent, lender.served);
        for (uint32_t i = 0; i < CALLS; i++) {
            assert_int_equal(asked[i].completed, 1);
            asked_deinit(&asked[i]);
        }
        pair_deinit(&pair);
        assert_int_equal(lender.sent, lender.served);
        mem_free(asked);
    }
}

/* A link that is cut, both ways or one way only: callers hear in time, in doubt where there is
 * doubt, and all works again afterwards. */
static void partitions(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct pair_options options = {
            .world = PAIR_SIM, .seed = i, .tls = i % 2 == 1, .idle_ping_ms = 500};
        struct pair pair;
        struct keeper keeper;
        struct asked asked;

        pair_init(&pair, &options);
        pair_start(&pair);
        keeper_init(&keeper, &pair);
        run_until_count(&pair, &pair.ups, 1);
        if (i / 2 != 0) { /* what we say is lost, or all is */
            sim_cut_way(pair.client_node, pair.server_node, true);
        }
        if (i / 2 != 1) { /* what it says is lost, or all is */
            sim_cut_way(pair.server_node, pair.client_node, true);
        }
        asked_init(&asked, 100, 1, NULL);
        asked.call.timeout_ms = 800;
        rpc_call(pair.peer, &asked.call);
        assert_true(pair_run(&pair, asked_is_done, &asked, 5000));
        assert_int_equal(asked.rc, RC_TIMEOUT);
        assert_true(asked.call.taken);
        assert_int_equal(keeper.served, i / 2 == 0 ? 1 : 0);
        run_until_count(&pair, &pair.downs, 1);
        asked_deinit(&asked);
        asked_init(&asked, 100, 1, NULL);
        rpc_call(pair.peer, &asked.call); /* nobody there: at once */
        assert_true(pair_run(&pair, asked_is_done, &asked, 1500));
        assert_int_equal(asked.rc, RC_CLOSED);
        asked_deinit(&asked);
        sim_cut(pair.client_node, pair.server_node, false);
        asked_init(&asked, 100, 1, NULL);
        asked.call.wait_connected = true;
        rpc_call(pair.peer, &asked.call);
        assert_true(pair_run(&pair, asked_is_done, &asked, 10000));
        assert_int_equal(asked.rc, RC_OK);
        asked_deinit(&asked);
        pair_deinit(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo_of_every_size),
        cmocka_unit_test(ten_thousand_at_once),
        cmocka_unit_test(unanswered_bytes_are_bounded),
        cmocka_unit_test(cancelled_calls),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(server_goes_away),
        cmocka_unit_test(draining),
        cmocka_unit_test(method_without_service),
        cmocka_unit_test(messages_keep_their_order),
        cmocka_unit_test(messages_to_a_slow_link_are_bounded),
        cmocka_unit_test(replies_to_a_slow_reader),
        cmocka_unit_test(partitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
