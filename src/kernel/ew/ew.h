/* ew.h - the element-wise operators of ops/elementwise.def on views of any shape and strides.
 *
 *     char params[WFI_PARAMS_MAX];
 *     size_t scratch;
 *     const char *why = k->prepare(WFI_ROWOF_add, &y, (const wfi_view[]){ a, b }, params, &scratch);
 *     ... k->run(params, (void *[]){ y_data, a_data, b_data }, &run);
 *
 * Inputs come broadcast to y's shape (stride 0 repeats). y may be one of the inputs, element for element; otherwise it
 * overlaps none. Each result depends on its own operands alone, so strides, threads and neighbours change no bit. */
#ifndef WFI_KERNEL_EW_H
#define WFI_KERNEL_EW_H
#include "kernel/ew/walk.h"
#include "kernel/kernel.h"

/* The primitive rows in the order of elementwise.def, as ops_enum.h numbers them (there WFI_EW_add, here
 * WFI_ROWOF_add).
 */
enum {
#define WFI_EW(name, ...) WFI_ROWOF_##name,
#include "ew_rows.inc"
#undef WFI_EW
    WFI_ROWOF_COUNT
};

/* One row for one type on contiguous data: y[i] = f(a[i], b[i], c[i]) for i < n. Bit k of splat: operand k is a single
 * element that serves every i. Operands that the row does not have may be NULL. y may equal an operand. */
typedef void wfi_ew_fn(void *y, const void *a, const void *b, const void *c, int64_t n, unsigned splat);

/* The params of a run. */
typedef struct wfi_ew {
    wfi_ew_fn *fn;
    unsigned splat; /* bit k: input k is one element for all of the innermost dimension */
    unsigned flat;  /* bit k: operand k is contiguous in the order of the walk, or one element for all */
    bool rows;      /* every operand's innermost stride is 1 or 0: fn runs on whole rows */
    bool small;     /* a single short run */
    bool streams;   /* y is too large for the caches */
    wfi_walk walk;
    wfi_lane lane[4]; /* the result, then the operands */
} wfi_ew;

typedef struct wfi_ew_about {
    const char *name; /* "add" */
    uint8_t arity;
    bool to_bool; /* compares: y is bool */
    bool cond;    /* in[0] is bool and chooses */
} wfi_ew_about;

typedef struct wfi_ew_kernels {
    /* in: as many views as the row has operands, all of y's shape. The types are those of elementwise.def: one type,
     * but bool for y where the row compares, and for in[0] of `where`. params: a wfi_ew; scratch becomes 0. */
    const char *(*prepare)(int row, const wfi_view *y, const wfi_view *in, void *params, size_t *scratch);
    wfi_kernel_fn *run;
    /* fn[row][type of the operands; for `where` of the last]: NULL where the row does not have the type */
    wfi_ew_fn *const (*fn)[WF_DTYPE_COUNT];
    const wfi_ew_about *row;
} wfi_ew_kernels;

extern const wfi_ew_kernels wfi_ew_portable, wfi_ew_avx2, wfi_ew_avx512;

#endif
