/* UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef COMMON_CODEC_UTF8_H
#define COMMON_CODEC_UTF8_H

#include <stdbool.h>

#include "common/base/slice.h"

bool utf8_valid(struct slice text);

#endif
