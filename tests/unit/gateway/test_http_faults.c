/*
 * Many seeds: clients that pipeline, stop, hang up and are reset, over a network that cuts bytes
 * anywhere. Whatever happens, every request that began ends once, every completion comes, nothing
 * is left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "tests/lib/fixture_http.h"

enum { SEEDS = 300, CLIENTS = 6, ROUNDS = 12 };

static const char *requests[] = {
    "GET /end/3 HTTP/1.1\r\nHost: s3\r\n\r\n",
    "GET /write/30000 HTTP/1.1\r\nHost: s3\r\n\r\n",
    "GET /chunked/25000 HTTP/1.1\r\nHost: s3\r\n\r\n",
    "HEAD /write/30000 HTTP/1.1\r\nHost: s3\r\n\r\n",
    "GET /wait HTTP/1.1\r\nHost: s3\r\n\r\n",
    "GET /abort HTTP/1.1\r\nHost: s3\r\n\r\n",
    "PUT /echo HTTP/1.1\r\nHost: s3\r\nContent-Length: 11\r\n\r\nhello world",
    "PUT /echo HTTP/1.1\r\nHost: s3\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "PUT /echo HTTP/1.1\r\nHost: s3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "PUT /refuse HTTP/1.1\r\nHost: s3\r\nContent-Length: 11\r\n\r\nhello world",
    "PUT /wait HTTP/1.1\r\nHost: s3\r\nContent-Length: 11\r\n\r\nhello world",
    "PUT /echo HTTP/1.1\r\nHost: s3\r\nContent-Length: 100\r\n\r\ncut",
    "PUT /echo HTTP/1.1\r\nHost: s3\r\nTransfer-Encoding: chunked\r\n\r\nbroken\r\n",
    "GET /end/3 HTTP/1.0\r\n\r\n",
    "BAD",
};

static void faults_draw(struct sim *sim)
{
    struct sim_net_faults *faults = sim_net_faults(sim);

    faults->pieces = (enum sim_pieces)sim_below(sim, 3);
    faults->partial_bytes = sim_chance(sim, 500) ? 1 + sim_below(sim, 5000) : 0;
    faults->window_bytes = 1000 + sim_below(sim, 16384);
    faults->reset_ppm = sim_chance(sim, 500) ? (uint32_t)sim_below(sim, 20000) : 0;
}

static void client_act(struct http_client *client, struct http_fixture *fixture)
{
    struct sim *sim = fixture->sim;

    if (client->closing) {
        return;
    }
    switch (sim_below(sim, 8)) {
    case 0:
        http_client_pause(client, !client->paused);
        break;
    case 1:
        http_client_finish(client);
        break;
    case 2:
        client->closing = sim_chance(sim, 300);
        if (client->closing) {
            client->env->net->close(client->env, &client->stream);
        }
        break;
    default:
        if (!client->finish) {
            http_client_send(client, slice_str(requests[sim_below(sim, ARRAY_LEN(requests))]));
        }
        break;
    }
}

static void run_seed(uint64_t seed)
{
    static struct http_fixture fixture;
    static struct http_client clients[CLIENTS];

    http_fixture_open(&fixture, seed, NULL);
    faults_draw(fixture.sim);
    for (size_t i = 0; i < CLIENTS; i++) {
        http_client_open(&clients[i], &fixture);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CLIENTS; i++) {
            client_act(&clients[i], &fixture);
        }
        http_fixture_run(
            &fixture,
            sim_below(fixture.sim, sim_chance(fixture.sim, 50) ? 30 * SIM_S : 20 * SIM_MS));
        if (fixture.waiting != NULL && sim_chance(fixture.sim, 500)) {
            http_fixture_answer(&fixture);
        }
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        http_client_close(&clients[i], &fixture);
    }
    http_fixture_close(&fixture); /* asserts: all ended, all closed */
}

static void test_every_request_ends_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_request_ends_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
