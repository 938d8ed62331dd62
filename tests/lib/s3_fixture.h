/*
 * A whole gateway in the simulated world: real HTTP, signatures, dispatch and handlers, over
 * fake_meta and fake_data. A test sends one request after the other and looks at what a client
 * gets.
 *
 *     s3_fixture_init(&f);
 *     s3_send(&f, "PUT", "/bucket", "", SLICE_EMPTY);
 *     assert_int_equal(f.status, 200);
 */
#ifndef TESTS_LIB_S3_FIXTURE_H
#define TESTS_LIB_S3_FIXTURE_H

#include "gateway/server.h"
#include "tests/lib/env_sim.h"
#include "tests/lib/fake_data.h"
#include "tests/lib/fake_meta.h"
#include "tests/lib/fixture_http.h"

enum { S3_FIXTURE_HEADERS_MAX = 64 };

struct s3_fixture {
    struct sim *sim;
    struct http_fixture net; /* nodes and client loop only; the server is ours */
    struct fake_meta meta;
    struct fake_data data;
    struct gateway_config config;
    struct gateway_server *server;
    struct arena arena; /* of the test: texts and replies live until deinit */
    /* Who signs: index into s3_fixture_users; -1: nobody. */
    int user;
    /* The last reply. */
    int status;
    struct slice head;
    struct slice body;
    bool cut; /* the connection ended before the reply did */
    bool closed;
};

/* "AKROOT" of root, "AKALICE" of alice, "AKBOB" of bob; the secret is "secret". */
extern const struct fake_user s3_fixture_users[3];

void s3_fixture_init(struct s3_fixture *f);
void s3_fixture_deinit(struct s3_fixture *f); /* checks that nothing stays pinned */

/* `target` and `headers` ("Name: value\r\n...") as they go on the wire. Returns the status. */
int s3_send(struct s3_fixture *f, const char *method, const char *target, const char *headers,
            struct slice body);
/* The same, but the client goes away after `ns`, whatever has come. */
void s3_send_and_leave(struct s3_fixture *f, const char *method, const char *target,
                       const char *headers, struct slice body, uint64_t ns);
/* Value of a reply header, or NULL. */
const char *s3_reply_value(struct s3_fixture *f, const char *name);
bool s3_body_has(const struct s3_fixture *f, const char *text);
/* Text between <element> and </element>, the first; or NULL. */
const char *s3_body_element(struct s3_fixture *f, const char *element);
/* Body of an S3 error: "NoSuchKey", or NULL. */
const char *s3_error_of(struct s3_fixture *f);

#endif
