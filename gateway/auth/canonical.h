/* The canonical request (AWS: "Create a signed AWS API request"), exactly as S3 builds it. */
#ifndef GATEWAY_AUTH_CANONICAL_H
#define GATEWAY_AUTH_CANONICAL_H

#include "gateway/auth/sigv4_claim.h"

/*
 *     METHOD \n path \n query \n name:value \n ... \n \n signed;headers \n payload hash
 *
 * The path is decoded once and encoded again, nothing collapsed or resolved; the query is sorted; a
 * signed header that the request lacks, and a Host or x-amz-* header that is not signed, are
 * refused. Sorts `query`. The text lies in the arena. Failure: out->error is set.
 */
bool canonical_request(const struct http_request *request, struct sigv4_query *query,
                       const struct sigv4_claim *claim, struct arena *arena,
                       struct sigv4_result *out);

#endif
