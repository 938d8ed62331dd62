#include "gateway/s3/range.h"

#include "common/base/assert.h"

/* Digits only; what does not fit is as good as the largest number. */
static bool range_number(struct slice text, uint64_t *out)
{
    uint64_t value = 0;

    if (text.len == 0 || text.data == NULL) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text.data[i] - '0';

        if (digit > 9) {
            return false;
        }
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    *out = value;
    return true;
}

/* "-n": the last n bytes. */
static struct range range_suffix(uint64_t count, uint64_t size)
{
    if (count == 0) {
        return (struct range){.kind = RANGE_UNSATISFIABLE};
    }
    if (size == 0) { /* AWS answers 200 with nothing here, not 416 */
        return (struct range){.kind = RANGE_WHOLE, .length = 0};
    }
    if (count > size) {
        count = size;
    }
    return (struct range){.kind = RANGE_PART, .offset = size - count, .length = count};
}

struct range range_parse(struct slice header, uint64_t size)
{
    const struct range whole = {.kind = RANGE_WHOLE, .offset = 0, .length = size};
    const struct slice unit = SLICE("bytes=");
    struct slice spec;
    size_t dash;
    uint64_t first;
    uint64_t last = UINT64_MAX;

    if (header.len <= unit.len || !slice_eq_nocase(slice_of(header.data, unit.len), unit)) {
        return whole;
    }
    spec = slice_after(header, unit.len);
    dash = slice_find(spec, '-');
    if (dash == spec.len || slice_find(spec, ',') < spec.len) {
        return whole;
    }
    if (dash == 0) {
        return range_number(slice_after(spec, 1), &last) ? range_suffix(last, size) : whole;
    }
    if (!range_number(slice_of(spec.data, dash), &first) ||
        (dash + 1 < spec.len && !range_number(slice_after(spec, dash + 1), &last)) ||
        last < first) {
        return whole;
    }
    if (first >= size) {
        return (struct range){.kind = RANGE_UNSATISFIABLE};
    }
    if (last >= size) {
        last = size - 1;
    }
    ASSERT(first <= last);
    return (struct range){.kind = RANGE_PART, .offset = first, .length = last - first + 1};
}

bool range_parse_strict(struct slice header, uint64_t *first, uint64_t *last)
{
    const struct slice unit = SLICE("bytes=");
    struct slice spec = slice_after(header, unit.len);
    size_t dash = slice_find(spec, '-');

    return slice_starts(header, unit) && dash < spec.len &&
           slice_to_u64(slice_of(spec.data, dash), UINT64_MAX, first) &&
           slice_to_u64(slice_after(spec, dash + 1), UINT64_MAX, last) && *first <= *last;
}
