/* sha256.h - SHA-256 (FIPS 180-4): names what is kept on disk by its content, and proves it before it is used.
 *
 *     wfi_sha256 s = wfi_sha256_start();
 *     wfi_sha256_add(&s, text, strlen(text));
 *     uint8_t digest[WFI_SHA256_BYTES];
 *     wfi_sha256_end(&s, digest);
 */
#ifndef WFI_BASE_SHA256_H
#define WFI_BASE_SHA256_H
#include <stddef.h>
#include <stdint.h>

#define WFI_SHA256_BYTES 32

typedef struct wfi_sha256 {
    uint32_t h[8];
    uint64_t bytes; /* so far */
    uint8_t block[64];
} wfi_sha256;

wfi_sha256 wfi_sha256_start(void);
void wfi_sha256_add(wfi_sha256 *s, const void *data, size_t bytes);
void wfi_sha256_end(wfi_sha256 *s, uint8_t digest[WFI_SHA256_BYTES]);

/* 64 digits and a NUL. */
void wfi_sha256_hex(const uint8_t digest[WFI_SHA256_BYTES], char out[2 * WFI_SHA256_BYTES + 1]);

#endif
