/* copy_parts.h - what the files of this folder call of each other. */
#ifndef WFI_KERNEL_COPY_PARTS_H
#define WFI_KERNEL_COPY_PARTS_H
#include "kernel/copy/copy.h"
#include "kernel/isa.h"

void WFI_K(wfi_copy_run)(const wfi_copy *p, void *y, const void *x, const wfi_run *r);
const char *WFI_K(wfi_iota_prepare)(const wfi_view *y, int axis, double start, double step, void *params,
                                    size_t *scratch);
void WFI_K(wfi_iota_run)(const void *params, void *const *args, const wfi_run *r);
const char *WFI_K(wfi_random_prepare)(wfi_random_kind kind, const wfi_view *y, uint32_t salt, double a, double b,
                                      void *params, size_t *scratch);
void WFI_K(wfi_random_run)(const void *params, void *const *args, const wfi_run *r);
void WFI_K(wfi_random_block)(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
