#include "common/crypto/random.h"

#include <limits.h>
#include <openssl/rand.h>
#include <string.h>

#include "common/base/assert.h"

void random_bytes(void *to, size_t len)
{
    ASSERT(len <= INT_MAX);
    /* Fails only when the system has no entropy source at all: nothing safe can be done without
     * one. */
    ASSERT(RAND_bytes(to, (int)len) == 1);
}

void random_text(char *to, size_t len, const char *alphabet)
{
    size_t count = strlen(alphabet);
    size_t at = 0;

    ASSERT(count > 0 && count <= 256);
    size_t limit = 256 - 256 % count; /* bytes from here on would favour the first ones */
    while (at < len) {
        unsigned char bytes[64];

        random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes) && at < len; i++) {
            if (bytes[i] < limit) {
                to[at++] = alphabet[bytes[i] % count];
            }
        }
    }
    to[len] = '\0';
}
