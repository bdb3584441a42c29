/* crc32c.h - the CRC-32C (Castagnoli) checksum, as iSCSI, ext4 and TensorBoard's files use it.
 *
 *     uint32_t c = wfi_crc32c(0, part, n);
 *     c = wfi_crc32c(c, rest, m);             of both parts together
 */
#ifndef WFI_IO_CRC32C_H
#define WFI_IO_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* before: the checksum of what comes before, 0 at the start. p may be NULL when bytes is 0. */
uint32_t wfi_crc32c(uint32_t before, const void *p, size_t bytes);

/* The same by a table, as machines without the instruction do it. */
uint32_t wfi_crc32c_table(uint32_t before, const void *p, size_t bytes);

#endif
