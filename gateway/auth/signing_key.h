/*
 * Signing keys: HMAC(HMAC(HMAC(HMAC("AWS4" + secret, day), region), service), "aws4_request"). One
 * is good for a whole day, so a loop keeps those it used last, ready as HMAC states.
 */
#ifndef GATEWAY_AUTH_SIGNING_KEY_H
#define GATEWAY_AUTH_SIGNING_KEY_H

#include "common/crypto/hmac.h"
#include "gateway/auth/sigv4_claim.h"

struct signing_key {
    uint8_t bytes[HASH_SHA256_BYTES];
    struct hmac_key hmac;
};

/* Borrowed from the cache until its next use. */
const struct signing_key *signing_key_get(struct sigv4_cache *cache,
                                          const struct sigv4_credential *credential,
                                          struct slice secret);

#endif
