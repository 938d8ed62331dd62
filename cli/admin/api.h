/* Private to cli/admin: the JSON admin API. One request at a time per exchange. */
#ifndef CLI_ADMIN_API_H
#define CLI_ADMIN_API_H

#include "cli/admin/admin.h"
#include "gateway/http/http.h"

/* Takes the exchange (path begins with /admin/v1/; the caller is authenticated) and ends it. */
void admin_api_request(struct meta_client *meta, const char *region,
                       struct http_exchange *exchange);

/* One whole reply. `body` lives until the exchange's end (arena), or is copied by http_reply_end().
 */
void admin_reply(struct http_exchange *exchange, int status, const char *content_type,
                 struct slice body);

#endif
