/* "127.0.0.1:9000", "[::1]:9000", "localhost:9000" to socket addresses and back. */
#include "common/env/uv_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"

enum { HOST_MAX = 256, PORT_MAX = 6 };

static bool address_split(const char *text, char host[HOST_MAX], char port[PORT_MAX])
{
    const char *colon = strrchr(text, ':');
    struct slice name;
    struct slice digits;
    uint64_t number;

    if (colon == NULL) {
        return false;
    }
    name = slice_of(text, (size_t)(colon - text));
    digits = slice_str(colon + 1);
    if (name.len >= 2 && name.data[0] == '[' && name.data[name.len - 1] == ']') {
        name = slice_of(name.data + 1, name.len - 2);
    } else if (slice_find(name, ':') != name.len) {
        return false; /* an IPv6 address without brackets: which colon is the port's? */
    }
    if (name.len == 0 || name.len >= HOST_MAX || digits.len >= PORT_MAX ||
        !slice_to_u64(digits, 65535, &number)) {
        return false;
    }
    memcpy(host, name.data, name.len);
    host[name.len] = '\0';
    memcpy(port, digits.data, digits.len + 1);
    return true;
}

static enum rc address_lookup(const char *text, int flags, struct sockaddr_storage *out,
                              struct error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    char host[HOST_MAX];
    char port[PORT_MAX];
    int status;

    if (!address_split(text, host, port)) {
        return error_set(error, RC_INVALID,
                         "address '%s': want HOST:PORT, as 127.0.0.1:9000 or [::1]:9000", text);
    }
    status = getaddrinfo(host, port, &hints, &found);
    if (status != 0) {
        return error_set(error, RC_INVALID, "address '%s': %s", text, gai_strerror(status));
    }
    memset(out, 0, sizeof(*out));
    ASSERT(found->ai_addrlen <= sizeof(*out));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return RC_OK;
}

enum rc address_parse(const char *text, bool passive, struct sockaddr_storage *out,
                      struct error *error)
{
    return address_lookup(text, AI_NUMERICSERV | (passive ? AI_PASSIVE : 0), out, error);
}

bool address_parse_numeric(const char *text, struct sockaddr_storage *out)
{
    return address_lookup(text, AI_NUMERICSERV | AI_NUMERICHOST, out, NULL) == RC_OK;
}

void address_format(const struct sockaddr_storage *address, char out[ENV_ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;

        (void)inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        (void)snprintf(out, ENV_ADDRESS_MAX, "[%s]:%u", host, ntohs(six->sin6_port));
    } else if (address->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;

        (void)inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        (void)snprintf(out, ENV_ADDRESS_MAX, "%s:%u", host, ntohs(four->sin_port));
    } else {
        (void)snprintf(out, ENV_ADDRESS_MAX, "unknown");
    }
}

socklen_t address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return a->ss_family == b->ss_family && memcmp(a, b, address_size(a)) == 0;
}
