/*
 * HTTP: bytes of a client against the real server in the simulated world, delivered in pieces. The
 * first byte chooses how they come. Whatever it is: the server answers or closes, and forgets the
 * connection.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/lib/fixture_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.rest = slice_of(data, size)};
    struct http_fixture fixture;
    struct http_client client;
    uint8_t how = fuzz_u8(&input);

    if (size > 20000) {
        return 0;
    }
    http_fixture_open(&fixture, how, NULL);
    sim_net_faults(fixture.sim)->pieces = (enum sim_pieces)(how % 3);
    http_client_open(&client, &fixture);
    http_client_send(&client, input.rest);
    if ((how & 4) != 0) {
        http_client_finish(&client);
    }
    http_fixture_run(&fixture, 200 * SIM_S); /* longer than every timeout */
    ASSERT(http_server_connections(fixture.server) == 0 || fixture.waiting != NULL);
    if (fixture.waiting != NULL) {
        http_fixture_answer(&fixture);
    }
    http_client_close(&client, &fixture);
    http_fixture_close(&fixture);
    return 0;
}
