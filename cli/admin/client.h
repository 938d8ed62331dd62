/* One HTTP request of `kist admin` to a running kist, waited for. */
#ifndef CLI_ADMIN_CLIENT_H
#define CLI_ADMIN_CLIENT_H

#include "common/base/buffer.h"
#include "common/base/error.h"
#include "common/env/env.h"

struct admin_client_call {
    const char *address; /* of the admin port */
    const char *method;
    const char *path;
    const char *access_key;
    const char *secret_key;
    struct slice body; /* JSON; empty: none */
    /* Out. */
    int status;
    struct buffer reply; /* the body; the caller deinits */
};

/* Turns the loop of `env` until the reply is here (at most 30 s). */
enum rc admin_client_run(struct env *env, struct admin_client_call *call, struct error *error);

#endif
