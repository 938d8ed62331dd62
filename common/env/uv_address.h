/* Private to common/env: "host:port" and socket addresses. */
#ifndef COMMON_ENV_UV_ADDRESS_H
#define COMMON_ENV_UV_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/env/env.h"

/* Looks names up, and so may block. `passive`: for listening. */
enum rc address_parse(const char *text, bool passive, struct sockaddr_storage *out,
                      struct error *error);
bool address_parse_numeric(const char *text, struct sockaddr_storage *out);
void address_format(const struct sockaddr_storage *address, char out[ENV_ADDRESS_MAX]);
socklen_t address_size(const struct sockaddr_storage *address);
bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
