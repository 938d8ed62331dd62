/* Values of conditions: numbers, dates, addresses. Text of policies and requests, so nothing is
 * assumed about it. */
#ifndef GATEWAY_ACCESS_POLICY_VALUE_H
#define GATEWAY_ACCESS_POLICY_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/slice.h"

struct policy_address {
    uint8_t bytes[16]; /* IPv4: as ::ffff:a.b.c.d */
    unsigned prefix;   /* bits that count, of 128 */
    bool is_v4;
};

/* "12", "-3.5", "1e3". */
bool policy_number(struct slice text, double *out);
/* ISO 8601 ("2026-11-30T10:00:00Z", "+02:00", a date alone) or seconds since 1970; in seconds. */
bool policy_date(struct slice text, double *out);
bool policy_boolean(struct slice text, bool *out);
/* "10.0.0.0/8", "2001:db8::/32", or an address alone. */
bool policy_address_read(struct slice text, struct policy_address *out);
bool policy_address_covers(const struct policy_address *range, const struct policy_address *one);

#endif
