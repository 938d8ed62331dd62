/* Cyclic redundancy checks, by ISA-L where it has them. Start with 0; pass the last result to go
 * on. */
#ifndef COMMON_CODEC_CRC_H
#define COMMON_CODEC_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data,
                size_t len); /* Castagnoli; "123456789" -> e3069283 */
uint32_t crc32(uint32_t crc, const void *data,
               size_t len); /* IEEE;       "123456789" -> cbf43926 */
uint64_t crc64nvme(uint64_t crc, const void *data,
                   size_t len); /* NVMe;       "123456789" -> ae8b14860a799888 */

/* The CRC of A followed by B, from those of A and of B and the length of B. */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_len);
uint32_t crc32_combine_lengths(uint32_t a, uint32_t b, uint64_t b_len);
uint64_t crc64nvme_combine(uint64_t a, uint64_t b, uint64_t b_len);

#endif
