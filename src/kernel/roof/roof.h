/* roof.h - loops that do nothing but what a processor can do most of: multiply-adds, reads, writes. They measure the
 * roofs that kernels are held against; nothing else uses them. */
#ifndef WFI_KERNEL_ROOF_H
#define WFI_KERNEL_ROOF_H
#include <stdint.h>
#include "kernel/isa.h"

typedef struct wfi_roof_kernels {
    /* n rounds of independent f32 multiply-adds; returns how many operations these were (two each). */
    double (*fma)(int64_t n, float *sink);
    /* Adds up p[n]; n is a multiple of 256. sink: somewhere to leave what nobody needs. */
    void (*read)(const float *p, int64_t n, float *sink);
    void (*write)(float *p, int64_t n, float value);
} wfi_roof_kernels;

extern const wfi_roof_kernels wfi_roof_portable, wfi_roof_avx2, wfi_roof_avx512;

#endif
