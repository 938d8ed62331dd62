/*
 * Signature Version 2 (AWS: "Signing and authenticating REST requests"): presigned URLs, as boto3
 * still makes them by default for us-east-1, and the Authorization header of old clients, which is
 * accepted only with --sigv2 on. Forms (gateway/web/form_auth.c) are taken where URLs are.
 *
 * Version 2 signs no host, and of the query only sub-resources and response-* overrides. So a
 * parameter that would change what the request does, and that it does not sign, is refused.
 */
#ifndef GATEWAY_AUTH_SIGV2_H
#define GATEWAY_AUTH_SIGV2_H

#include "gateway/auth/sigv4_claim.h"

/* False: out->error says why. True: out->access_key and the user are set. */
bool sigv2_query_verify(const struct http_request *request, const struct sigv4_query *query,
                        const struct view *view, const struct sigv4_options *options,
                        struct arena *arena, struct sigv4_result *out);
/* "Authorization: AWS AKID:signature". out->mode is the caller's. */
bool sigv2_header_verify(const struct http_request *request, const struct sigv4_query *query,
                         const struct view *view, const struct sigv4_options *options,
                         struct arena *arena, struct sigv4_result *out);

#endif
