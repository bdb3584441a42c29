/* index.h - kernels that move or add elements where an index tensor says: embedding, gather, scatter, one-hot.
 *
 *     wfi_index_spec s = { .kind = WFI_INDEX_ROWS, .threads = 2, .v = { &y, &w, &index } };
 *     const char *why = k->prepare(&s, params, &scratch);
 *     ... k->run(params, (void *[]){ y_data, w_data, index_data }, &run);
 *
 * Indices are i64 or i32 and count from 0; one that is negative or too large is a fault (wfi_fault_index: the value,
 * its row-major place, the size), and its element is skipped: nothing outside an operand is ever read or written.
 * Additions go in ascending order of the places of the index tensor, start from +0 or from `base`, and do not depend on
 * threads. 16-bit floats are added in f32 and rounded once; integers wrap; for bool, + is or. */
#ifndef WFI_KERNEL_INDEX_H
#define WFI_KERNEL_INDEX_H
#include "kernel/kernel.h"

/* rows       { y, w, index }          y[i..., e...] = w[index[i...], e...]   w: [size, e...]. Skipped: zeros.
 * add_rows   { dw, base?, dy, index } dw = base (or 0), then dw[index[i...], e...] += dy[i..., e...]
 * take       { y, x, index }          along `axis`: y[.., k, ..] = x[.., index[.., k, ..], ..]; y and index have the
 * same sizes, x has them but for the axis. Skipped: zeros. add_taken  { dx, base?, dy, index } along `axis`: dx = base
 * (or 0), then dx[.., index[.., k, ..], ..] += dy[.., k, ..] one_hot    { y, index }             y[i..., c] = c ==
 * index[i...]   Skipped: all zeros.
 *
 * To gather along another axis than the first, hand in views with that axis moved to the front. base may be the result
 * itself. rows and take move elements of any type. */
typedef enum wfi_index_kind {
    WFI_INDEX_ROWS = 0,
    WFI_INDEX_ADD_ROWS = 1,
    WFI_INDEX_TAKE = 2,
    WFI_INDEX_ADD_TAKEN = 3,
    WFI_INDEX_ONE_HOT = 4,
    WFI_INDEX_COUNT = 5
} wfi_index_kind;

typedef struct wfi_index_spec {
    wfi_index_kind kind;
    int32_t axis; /* take, add_taken */
    int32_t threads;
    const wfi_view *v[4];
} wfi_index_spec;

typedef struct wfi_index_kernels {
    const char *(*prepare)(const wfi_index_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run;
} wfi_index_kernels;

extern const wfi_index_kernels wfi_index_portable, wfi_index_avx2, wfi_index_avx512;

#endif
