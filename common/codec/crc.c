/*
 * CRC32 and CRC32C by ISA-L. CRC64NVME is ours, as no package has it: carry-less multiplication
 * folds 128 bytes at a time where the processor has PCLMULQDQ (9 GiB/s), else eight tables (1 to 2
 * GiB/s).
 *
 * All three are reflected CRCs whose register starts and ends inverted, so that crc(A then B) is
 * crc(A) * x^(8 * len(B)) + crc(B) in the ring of polynomials modulo the CRC's own: that is what
 * the combine functions compute.
 */
#include "common/codec/crc.h"

#include <isa-l.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Polynomials, reflected. */
static const uint64_t crc32_polynomial = 0xedb88320U;
static const uint64_t crc32c_polynomial = 0x82f63b78U;
static const uint64_t crc64nvme_polynomial = 0x9a6c9329ac4bc9b5ULL;

enum { CRC_SLICE_BYTES = 1 << 30 }; /* ISA-L takes an int */

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    const char *at = data;

    crc = ~crc;
    while (len > 0) {
        size_t part = len < CRC_SLICE_BYTES ? len : CRC_SLICE_BYTES;
        /* ISA-L's prototype lacks the const; it only reads. */
        union {
            const char *in;
            unsigned char *out;
        } bytes = {.in = at};

        crc = crc32_iscsi(bytes.out, (int)part, crc);
        at += part;
        len -= part;
    }
    return ~crc;
}

uint32_t crc32(uint32_t crc, const void *data, size_t len)
{
    return len == 0 ? crc : crc32_gzip_refl(crc, data, len);
}

/* ---- CRC64NVME ---- */

enum { CRC64_TABLES = 8, CRC64_FOLD_BYTES_MIN = 256 };

static uint64_t crc64_table[CRC64_TABLES][256];

/* Register in, register out: without the inversions. */
static uint64_t crc64_update_table(uint64_t crc, const uint8_t *at, size_t len)
{
    while (len >= 8) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        word ^= crc;
        crc = crc64_table[7][word & 255] ^ crc64_table[6][word >> 8 & 255] ^
              crc64_table[5][word >> 16 & 255] ^ crc64_table[4][word >> 24 & 255] ^
              crc64_table[3][word >> 32 & 255] ^ crc64_table[2][word >> 40 & 255] ^
              crc64_table[1][word >> 48 & 255] ^ crc64_table[0][word >> 56];
        at += 8;
        len -= 8;
    }
    for (; len > 0; len--) {
        crc = crc >> 8 ^ crc64_table[0][(crc ^ *at++) & 255];
    }
    return crc;
}

#if defined(__x86_64__)

/* x^n modulo the polynomial. */
static uint64_t crc64_power(unsigned n)
{
    uint64_t value = 1ULL << 63;

    for (; n > 0; n--) {
        value = value >> 1 ^ ((value & 1) != 0 ? crc64nvme_polynomial : 0);
    }
    return value;
}

static struct {
    uint64_t far[2];  /* moves 16 bytes ahead by 128 */
    uint64_t near[2]; /* moves 16 bytes ahead by 16 */
    int usable;
} crc64_fold;

#define CRC64_TARGET __attribute__((target("pclmul,sse4.1")))

/* What `value` contributes when it stands as far ahead as `factors` say. */
CRC64_TARGET static inline __m128i crc64_move(__m128i value, __m128i factors)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00),
                         _mm_clmulepi64_si128(value, factors, 0x11));
}

CRC64_TARGET static inline __m128i crc64_load(const uint8_t *at)
{
    __m128i value;

    memcpy(&value, at, sizeof(value));
    return value;
}

/* `len` is at least CRC64_FOLD_BYTES_MIN. Eight lanes of 16 bytes are folded over the whole input,
 * then into one another; the table finishes the last 16 bytes and the tail. */
CRC64_TARGET static uint64_t crc64_update_fold(uint64_t crc, const uint8_t *at, size_t len)
{
    const __m128i far = _mm_set_epi64x((long long)crc64_fold.far[1], (long long)crc64_fold.far[0]);
    const __m128i near =
        _mm_set_epi64x((long long)crc64_fold.near[1], (long long)crc64_fold.near[0]);
    __m128i lane[8];

    for (unsigned i = 0; i < 8; i++) {
        lane[i] = crc64_load(at + sizeof(__m128i) * i);
    }
    lane[0] = _mm_xor_si128(lane[0], _mm_set_epi64x(0, (long long)crc));
    for (at += 128, len -= 128; len >= 128; at += 128, len -= 128) {
        for (unsigned i = 0; i < 8; i++) {
            lane[i] = _mm_xor_si128(crc64_move(lane[i], far), crc64_load(at + sizeof(__m128i) * i));
        }
    }
    __m128i sum = lane[0];
    for (int i = 1; i < 8; i++) {
        sum = _mm_xor_si128(crc64_move(sum, near), lane[i]);
    }
    for (; len >= 16; at += 16, len -= 16) {
        sum = _mm_xor_si128(crc64_move(sum, near), crc64_load(at));
    }
    uint8_t rest[16];
    memcpy(rest, &sum, sizeof(rest));
    return crc64_update_table(crc64_update_table(0, rest, sizeof(rest)), at, len);
}

static void crc64_fold_prepare(void)
{
    crc64_fold.far[0] = crc64_power(1024 - 1 + 64);
    crc64_fold.far[1] = crc64_power(1024 - 1);
    crc64_fold.near[0] = crc64_power(128 - 1 + 64);
    crc64_fold.near[1] = crc64_power(128 - 1);
    __builtin_cpu_init();
    crc64_fold.usable = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

#endif

/* Before main, so that no thread meets half a table. */
__attribute__((constructor)) static void crc64_prepare(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint64_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? crc64nvme_polynomial : 0);
        }
        crc64_table[0][i] = crc;
    }
    for (unsigned i = 0; i < 256; i++) {
        for (unsigned table = 1; table < CRC64_TABLES; table++) {
            uint64_t before = crc64_table[table - 1][i];

            crc64_table[table][i] = before >> 8 ^ crc64_table[0][before & 255];
        }
    }
#if defined(__x86_64__)
    crc64_fold_prepare();
#endif
}

uint64_t crc64nvme(uint64_t crc, const void *data, size_t len)
{
#if defined(__x86_64__)
    if (len >= CRC64_FOLD_BYTES_MIN && crc64_fold.usable) {
        return ~crc64_update_fold(~crc, data, len);
    }
#endif
    return ~crc64_update_table(~crc, data, len);
}

/* ---- Combining ---- */

/* a * b modulo `polynomial`; all reflected, `one` is x^0. */
static uint64_t crc_multiply(uint64_t a, uint64_t b, uint64_t polynomial, uint64_t one)
{
    uint64_t product = 0;

    for (uint64_t bit = one; bit != 0; bit >>= 1) {
        if ((a & bit) != 0) {
            product ^= b;
        }
        b = b >> 1 ^ ((b & 1) != 0 ? polynomial : 0);
    }
    return product;
}

/* a * x^(8 * len) + b */
static uint64_t crc_combine(uint64_t a, uint64_t b, uint64_t len, uint64_t polynomial, uint64_t one)
{
    uint64_t square = one >> 8; /* x^8 */

    for (; len > 0; len >>= 1) {
        if ((len & 1) != 0) {
            a = crc_multiply(a, square, polynomial, one);
        }
        square = crc_multiply(square, square, polynomial, one);
    }
    return a ^ b;
}

uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_len)
{
    return (uint32_t)crc_combine(a, b, b_len, crc32c_polynomial, 1ULL << 31);
}

uint32_t crc32_combine_lengths(uint32_t a, uint32_t b, uint64_t b_len)
{
    return (uint32_t)crc_combine(a, b, b_len, crc32_polynomial, 1ULL << 31);
}

uint64_t crc64nvme_combine(uint64_t a, uint64_t b, uint64_t b_len)
{
    return crc_combine(a, b, b_len, crc64nvme_polynomial, 1ULL << 63);
}
