/* Unpredictable bytes for keys, from OpenSSL's generator. What must be repeatable in the simulator
 * uses env->random instead. Any thread. */
#ifndef COMMON_CRYPTO_RANDOM_H
#define COMMON_CRYPTO_RANDOM_H

#include <stddef.h>

void random_bytes(void *to, size_t len);
/* `len` characters out of `alphabet` (at most 256 different ones), evenly, then a NUL. */
void random_text(char *to, size_t len, const char *alphabet);

#endif
