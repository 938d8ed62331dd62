/* Streams: bytes both ways under windows, slow readers, resets, broken connections. */
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

/* ---- One end: writes a number of bytes by a formula, checks what comes by the same ---- */

enum { PIECE_MAX = 200000 };

static char pattern[PIECE_MAX + 256];

static void pattern_fill(void)
{
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = (char)(i & 0xff);
    }
}

struct end {
    struct rpc_stream stream;
    uint64_t to_write;
    uint64_t written;
    uint64_t got;
    uint64_t given; /* to on_read, of it not consumed */
    uint64_t given_max;
    size_t piece;
    bool hold; /* consumes nothing for now */
    bool bad;
    uint32_t opens;
    uint32_t ends;
    uint32_t closes;
    uint32_t after_close;
    enum rc end_rc;
    enum rc rc;
    char end_head[16];
};

static void end_write(struct end *end)
{
    size_t len = end->to_write - end->written < end->piece ? (size_t)(end->to_write - end->written)
                                                           : end->piece;
    struct slice pieces[2];

    if (len == 0) {
        rpc_stream_end(&end->stream, SLICE("that is all"));
        return;
    }
    pieces[0] = slice_of(pattern + (end->written & 0xff), len / 2);
    pieces[1] = slice_of(pieces[0].data + len / 2, len - len / 2);
    end->written += len;
    rpc_stream_write(&end->stream, pieces, 2);
}

static void end_on_open(struct rpc_stream *stream)
{
    CONTAINER_OF(stream, struct end, stream)->opens += 1;
}

static void end_on_read(struct rpc_stream *stream, struct slice bytes)
{
    struct end *end = CONTAINER_OF(stream, struct end, stream);

    for (size_t at = 0; at < bytes.len; at += PIECE_MAX) {
        size_t len = bytes.len - at < PIECE_MAX ? bytes.len - at : PIECE_MAX;

        if (memcmp(bytes.data + at, pattern + ((end->got + at) & 0xff), len) != 0) {
            end->bad = true;
        }
    }
    end->got += bytes.len;
    end->given += bytes.len;
    end->after_close += end->closes;
    if (end->given > end->given_max) {
        end->given_max = end->given;
    }
    if (!end->hold) {
        rpc_stream_consumed(stream, (size_t)end->given);
        end->given = 0;
    }
}

static void end_on_written(struct rpc_stream *stream)
{
    end_write(CONTAINER_OF(stream, struct end, stream));
}

static void end_on_end(struct rpc_stream *stream, enum rc rc, struct slice head)
{
    struct end *end = CONTAINER_OF(stream, struct end, stream);

    end->ends += 1;
    end->end_rc = rc;
    if (head.len < sizeof(end->end_head) && head.len > 0) {
        memcpy(end->end_head, head.data, head.len);
    }
}

static void end_on_close(struct rpc_stream *stream)
{
    struct end *end = CONTAINER_OF(stream, struct end, stream);

    end->closes += 1;
    end->rc = stream->rc;
}

static void end_init(struct end *end, uint64_t to_write, size_t piece)
{
    memset(end, 0, sizeof(*end));
    end->to_write = to_write;
    end->piece = piece;
    end->stream.method = RPC_PROBE_STREAM;
    end->stream.purpose = RPC_BULK;
    end->stream.on_open = end_on_open;
    end->stream.on_read = end_on_read;
    end->stream.on_written = end_on_written;
    end->stream.on_end = end_on_end;
    end->stream.on_close = end_on_close;
}

/* ---- The server: takes the next of its ends for each stream ---- */

enum { ENDS_MAX = 64 };

struct acceptor {
    struct rpc_service service;
    struct end ends[ENDS_MAX];
    uint32_t count;
    enum rc refuse;
    uint64_t to_write;
    size_t piece;
    bool hold;
};

static enum rc acceptor_on_stream(struct rpc_service *service, struct rpc_incoming *incoming,
                                  const struct rpc_identity *from, struct slice head)
{
    struct acceptor *acceptor = CONTAINER_OF(service, struct acceptor, service);
    struct end *end = &acceptor->ends[acceptor->count];

    ASSERT(acceptor->count < ENDS_MAX && from->node_id == 11);
    assert_true(slice_eq(head, SLICE("for you")));
    if (acceptor->refuse != RC_OK) {
        return acceptor->refuse;
    }
    acceptor->count += 1;
    end_init(end, acceptor->to_write, acceptor->piece);
    end->hold = acceptor->hold;
    rpc_stream_accept(incoming, &end->stream);
    end_write(end);
    return RC_OK;
}

static void acceptor_init(struct acceptor *acceptor, struct pair *pair)
{
    memset(acceptor, 0, sizeof(*acceptor));
    acceptor->service.on_stream = acceptor_on_stream;
    acceptor->piece = 50000;
    rpc_serve(pair->server, RPC_PROBE_STREAM, &acceptor->service);
}

static bool end_is_closed(void *arg)
{
    return ((struct end *)arg)->closes > 0;
}

struct many {
    struct end *ends;
    uint32_t count;
};

static bool all_closed(void *arg)
{
    const struct many *many = arg;

    for (uint32_t i = 0; i < many->count; i++) {
        if (many->ends[i].closes == 0) {
            return false;
        }
    }
    return true;
}

static void open_and_write(struct pair *pair, struct end *end)
{
    rpc_stream_open(pair->peer, &end->stream, SLICE("for you"));
    end_write(end);
}

static const struct pair_options all_worlds[] = {
    {.world = PAIR_SIM, .seed = 1},
    {.world = PAIR_SIM, .seed = 2, .tls = true, .window_bytes = 70000},
    {.world = PAIR_REAL, .window_bytes = 1000},
    {.world = PAIR_REAL, .tls = true},
};

/* ---- Tests ---- */

/* Both directions at once, of every kind of size: each byte comes once, in order, and then the end
 * with its head. */
static void bytes_both_ways(void **state)
{
    static const uint64_t sizes[] = {0, 1, 999, 1000, 1001, 65536, 300000, 5000000};
    static const size_t pieces[] = {PIECE_MAX, 1, 777, 70000, 3, PIECE_MAX, 65536, 123456};

    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
        struct pair pair;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        acceptor_init(acceptor, &pair);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            struct end end;
            struct end *far = &acceptor->ends[i];

            acceptor->to_write = sizes[ARRAY_LEN(sizes) - 1 - i];
            end_init(&end, sizes[i], pieces[i]);
            open_and_write(&pair, &end);
            assert_int_equal(end.opens, 0);
            assert_true(pair_run(&pair, end_is_closed, &end, 60000));
            assert_true(pair_run(&pair, end_is_closed, far, 60000));
            assert_int_equal(end.rc, RC_OK);
            assert_int_equal(far->rc, RC_OK);
            assert_true(end.opens == 1 && end.ends == 1 && far->ends == 1);
            assert_true(far->got == sizes[i] && end.got == acceptor->to_write);
            assert_false(end.bad || far->bad);
            assert_string_equal(end.end_head, "that is all");
            assert_string_equal(far->end_head, "that is all");
        }
        pair_deinit(&pair);
        mem_free(acceptor);
    }
}

/* A reader that consumes nothing gets its window and no byte more, however long it waits; nothing
 * else on the connection is held up, and it goes on from there. */
static void windows_hold_the_writer_back(void **state)
{
    static const uint32_t windows[] = {1, 100, 65536, 300000};

    (void)state;
    for (size_t w = 0; w < 2 * ARRAY_LEN(windows); w++) {
        struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
        struct pair_options options = {.world = w % 2 == 0 ? PAIR_SIM : PAIR_REAL,
                                       .tls = w % 2 == 1,
                                       .window_bytes = windows[w / 2]};
        uint64_t total = windows[w / 2] * 5ULL + 3;
        struct rpc_stats stats;
        struct pair pair;
        struct end slow;
        struct end quick;

        pair_init(&pair, &options);
        pair_start(&pair);
        acceptor_init(acceptor, &pair);
        acceptor->hold = true;
        end_init(&slow, total, PIECE_MAX);
        open_and_write(&pair, &slow);
        pair_run_for(&pair, 200);
        assert_true(acceptor->ends[0].got == windows[w / 2]);
        acceptor->hold = false;
        end_init(&quick, 500, 100);
        open_and_write(&pair, &quick);
        assert_true(pair_run(&pair, end_is_closed, &quick, 60000));
        assert_true(pair_run(&pair, end_is_closed, &acceptor->ends[1], 60000));
        assert_true(acceptor->ends[1].got == 500);
        rpc_stats(pair.client, &stats);
        assert_true(stats.queued_bytes == 0);
        for (int i = 0; i < 4; i++) { /* byte by byte, then all */
            uint64_t given = acceptor->ends[0].given;
            size_t take = i < 3 && given > 1 ? 1 : (size_t)given;

            acceptor->ends[0].given -= take;
            rpc_stream_consumed(&acceptor->ends[0].stream, take);
            pair_run_for(&pair, 20);
            assert_true(acceptor->ends[0].given <= windows[w / 2]);
        }
        acceptor->ends[0].hold = false;
        rpc_stream_consumed(&acceptor->ends[0].stream, (size_t)acceptor->ends[0].given);
        acceptor->ends[0].given = 0;
        assert_true(pair_run(&pair, end_is_closed, &slow, 60000));
        assert_true(pair_run(&pair, end_is_closed, &acceptor->ends[0], 60000));
        assert_true(acceptor->ends[0].got == total);
        assert_true(acceptor->ends[0].given_max <= windows[w / 2]);
        assert_false(acceptor->ends[0].bad);
        pair_deinit(&pair);
        mem_free(acceptor);
    }
}

/* Many streams share a connection fairly: all progress together, and a call gets through. */
static void streams_take_turns(void **state)
{
    enum { STREAMS = 20, BYTES = 2000000 };
    struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
    struct end *ends = mem_alloc(STREAMS * sizeof(*ends));
    struct many many = {.ends = ends, .count = STREAMS};
    struct pair_options options = {.world = PAIR_SIM, .seed = 7};
    struct pair pair;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    (void)state;
    pair_init(&pair, &options);
    pair_start(&pair);
    acceptor_init(acceptor, &pair);
    for (uint32_t i = 0; i < STREAMS; i++) {
        end_init(&ends[i], BYTES, PIECE_MAX);
        open_and_write(&pair, &ends[i]);
    }
    pair_run_for(&pair, 40);
    for (uint32_t i = 0; i < STREAMS; i++) {
        least = acceptor->ends[i].got < least ? acceptor->ends[i].got : least;
        most = acceptor->ends[i].got > most ? acceptor->ends[i].got : most;
    }
    assert_true(most > 0 && most < BYTES && most - least <= 2 * LIMIT_RPC_DATA_BYTES);
    assert_true(pair_run(&pair, all_closed, &many, 60000));
    many.ends = acceptor->ends;
    assert_true(pair_run(&pair, all_closed, &many, 60000));
    for (uint32_t i = 0; i < STREAMS; i++) {
        assert_true(acceptor->ends[i].got == BYTES && !acceptor->ends[i].bad);
    }
    pair_deinit(&pair);
    mem_free(ends);
    mem_free(acceptor);
}

/* Either side may give up at any time; both hear it once, and the id is used again. */
static void resets(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
        struct pair pair;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        acceptor_init(acceptor, &pair);
        acceptor->to_write = 3000000;
        for (uint32_t i = 0; i < 40; i++) {
            struct end end;
            struct end *far = &acceptor->ends[acceptor->count];
            bool here = i % 2 == 0;
            struct end *resets;
            struct end *other;

            end_init(&end, 3000000, 100000);
            open_and_write(&pair, &end);
            pair_run_for(&pair, i / 4); /* from before it was opened to somewhere in the middle */
            if (!here && acceptor->count == 0) {
                pair_run_for(&pair, 20);
            }
            resets = here || far->stream.on_close == NULL ? &end : far;
            other = resets == &end ? far : &end;
            if (resets->closes > 0) {
                continue;
            }
            rpc_stream_reset(&resets->stream, RC_BUSY);
            rpc_stream_reset(&resets->stream, RC_BUSY);
            assert_int_equal(resets->closes, 0);
            assert_true(pair_run(&pair, end_is_closed, resets, 20000));
            pair_run_for(&pair, 30);
            assert_int_equal(resets->closes, 1);
            assert_int_equal(resets->after_close, 0);
            if (other->stream.on_close != NULL) {
                assert_true(pair_run(&pair, end_is_closed, other, 20000));
                assert_int_equal(other->closes, 1);
                assert_true(other->end_rc == RC_BUSY || other->rc == RC_OK);
            }
        }
        assert_int_equal(pair.ups, 2); /* control and bulk: none was lost */
        assert_int_equal(pair.downs, 0);
        pair_deinit(&pair);
        mem_free(acceptor);
    }
}

/* A refused stream tells the reason, and the connection goes on. */
static void refused_streams(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
        struct pair pair;
        struct end end;

        pair_init(&pair, &all_worlds[w]);
        pair_start(&pair);
        acceptor_init(acceptor, &pair);
        acceptor->refuse = RC_NOT_FOUND;
        for (int i = 0; i < 3; i++) {
            end_init(&end, 100000, 1000);
            open_and_write(&pair, &end);
            assert_true(pair_run(&pair, end_is_closed, &end, 20000));
            assert_true(end.end_rc == RC_NOT_FOUND && end.rc == RC_NOT_FOUND && end.ends == 1);
        }
        rpc_serve(pair.server, RPC_PROBE_STREAM, NULL);
        end_init(&end, 0, 1000);
        open_and_write(&pair, &end);
        assert_true(pair_run(&pair, end_is_closed, &end, 20000));
        assert_int_equal(end.end_rc, RC_UNSUPPORTED);
        assert_int_equal(pair.downs, 0);
        pair_deinit(&pair);
        mem_free(acceptor);
    }
}

/* When the connection breaks both ends hear it, once, and both are freed. */
static void broken_streams(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LEN(all_worlds); w++) {
        for (uint64_t cut = 100; cut < 700000; cut = cut * 5 / 3) {
            struct acceptor *acceptor = mem_alloc(sizeof(*acceptor));
            struct pair_options options = all_worlds[w];
            struct wire_fault fault;
            struct pair pair;
            struct end end;

            options.wire = true;
            options.window_bytes = 100000;
            options.lazy = true; /* the bulk connection is the first one */
            pair_init(&pair, &options);
            pair_start(&pair);
            acceptor_init(acceptor, &pair);
            acceptor->to_write = 700000;
            wire_fault_none(&fault);
            fault.cut_to_client_at = cut;
            wire_set(pair.wire, &fault);
            end_init(&end, 700000, 50000);
            open_and_write(&pair, &end);
            assert_true(pair_run(&pair, end_is_closed, &end, 60000));
            assert_true(end.rc == RC_CLOSED && end.ends == 1 && end.end_rc == RC_CLOSED);
            if (acceptor->count > 0) {
                assert_true(pair_run(&pair, end_is_closed, &acceptor->ends[0], 60000));
                assert_int_equal(acceptor->ends[0].closes, 1);
            }
            assert_false(end.bad);
            pair_deinit(&pair);
            mem_free(acceptor);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_both_ways),    cmocka_unit_test(windows_hold_the_writer_back),
        cmocka_unit_test(streams_take_turns), cmocka_unit_test(resets),
        cmocka_unit_test(refused_streams),    cmocka_unit_test(broken_streams),
    };

    pattern_fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
