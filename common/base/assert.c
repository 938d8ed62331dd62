#include "common/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_fail(const char *what, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
