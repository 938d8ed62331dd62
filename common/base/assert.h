/* Programmer errors. Stays on in release builds: a wrong daemon stops, its peers carry on. */
#ifndef COMMON_BASE_ASSERT_H
#define COMMON_BASE_ASSERT_H

#include <stddef.h>

#define ASSERT(cond) ((cond) ? (void)0 : assert_fail(#cond, __FILE__, __LINE__))

/* Prints to stderr and aborts. */
_Noreturn void assert_fail(const char *what, const char *file, int line);

/* The struct that embeds `field` at `ptr`. */
#define CONTAINER_OF(ptr, type, field) ((type *)(void *)((char *)(ptr) - offsetof(type, field)))
#define ARRAY_LEN(array)               (sizeof(array) / sizeof((array)[0]))

#endif
