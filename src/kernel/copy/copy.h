/* copy.h - moving elements: copies and casts between any two layouts and types, fills, padding, joining, counting, and
 * random numbers.
 *
 *     wfi_copy params;
 *     size_t scratch;
 *     const char *why = k->prepare(&x, &y, threads, &params, &scratch);
 *     ... k->run(&params, (void *[]){ y_data, x_data }, &run);
 *
 * x and y have one shape and do not overlap. Stride 0 in x repeats; y's elements are all different. scratch is always
 * 0.
 *
 * Casts follow base/dtype.h: to a narrower float the nearest, ties to even, too large becomes infinity (NaN in f8e4m3),
 * rounded once whatever the source; float to integer toward zero, NaN to 0, out of range to the nearest end; integer to
 * a narrower integer keeps the low bits; anything to bool is x != 0. */
#ifndef WFI_KERNEL_COPY_H
#define WFI_KERNEL_COPY_H
#include "kernel/ew/walk.h"
#include "kernel/kernel.h"

typedef struct wfi_copy {
    wf_dtype to, from;
    int32_t mode;   /* enum in copy.c */
    int32_t across; /* the dimension in which x is contiguous, for transposes */
    bool streams;   /* y is too large for the caches */
    bool fills;     /* x is value[] and not an argument */
    unsigned char value[8];
    int64_t shift; /* bytes added to y's address */
    wfi_walk walk;
    wfi_lane lane[2]; /* y, x */
} wfi_copy;

typedef struct wfi_pad {
    bool outside;   /* there are elements to fill */
    wfi_copy fill;  /* all of y; */
    wfi_copy inner; /* then what x gives */
    int64_t skip;   /* bytes from x's element 0 to the first that is copied */
} wfi_pad;

#define WFI_CONCAT_MAX 32
typedef struct wfi_concat {
    int32_t count;
    int64_t outer;                      /* rows: the product of the sizes before the axis */
    int64_t row_bytes;                  /* of y: size of the axis times what follows */
    int64_t part_bytes[WFI_CONCAT_MAX]; /* of each input in a row */
} wfi_concat;

typedef struct wfi_iota {
    wf_dtype dtype;
    double start, step;
    wfi_view y;
    int32_t axis;
} wfi_iota;

/*               floats                                          others
 * uniform       a + (b - a) u, 0 <= u < 1 with 24 bits          whole numbers a <= y < b
 * normal        a + b z, z by Box and Muller                    declined
 * keep          1 with probability a, else 0; also for bool                                */
typedef enum wfi_random_kind { WFI_RANDOM_UNIFORM = 0, WFI_RANDOM_NORMAL = 1, WFI_RANDOM_KEEP = 2 } wfi_random_kind;

typedef struct wfi_random {
    wfi_random_kind kind;
    uint32_t salt; /* tells the places apart that share a key */
    double a, b;
    wfi_view y;
} wfi_random;

typedef struct wfi_copy_kernels {
    const char *(*prepare)(const wfi_view *x, const wfi_view *y, int threads, void *params, size_t *scratch);
    wfi_kernel_fn *run; /* { y, x } */
    /* value: one element of y's type. params: a wfi_copy. */
    const char *(*fill_prepare)(const wfi_view *y, const void *value, void *params, size_t *scratch);
    wfi_kernel_fn *fill_run; /* { y } */
    /* y[i] = x[i - low] where that exists, else value; low may be negative (x is cropped). x and y have one type. */
    const char *(*pad_prepare)(const wfi_view *x, const wfi_view *y, const int64_t *low, const void *value,
                               void *params, size_t *scratch);
    wfi_kernel_fn *pad_run; /* { y, x } */
    /* Inputs one after the other along the axis. Declines what is not row-major without gaps: copy part by part then.
     */
    const char *(*concat_prepare)(const wfi_view *const *x, int count, int axis, const wfi_view *y, void *params,
                                  size_t *scratch);
    wfi_kernel_fn *concat_run; /* { y, x0, x1, ... } */
    /* y[..i..] = start + step * i along the axis, computed in f64 and cast; whole numbers in i64, wrapping. */
    const char *(*iota_prepare)(const wfi_view *y, int axis, double start, double step, void *params, size_t *scratch);
    wfi_kernel_fn *iota_run; /* { y } */
    /* Philox4x32-10 (Salmon et al. 2011): element i (row-major number) is word i % 4 of the block with the counter
     * (i / 4 low, i / 4 high, step, salt) under the key `seed`. So a value depends on seed, step, salt and its place
     * alone. All float types get the same numbers, rounded; no rounding reaches 1 in u. */
    const char *(*random_prepare)(wfi_random_kind kind, const wfi_view *y, uint32_t salt, double a, double b,
                                  void *params, size_t *scratch);
    wfi_kernel_fn *random_run; /* { y, const uint64_t key[2] = { seed, step } } */
    /* One block, for tests. */
    void (*philox)(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
} wfi_copy_kernels;

/* n contiguous elements as another type. y and x do not overlap, or y is x where both types have one size. */
void wfi_copy_cast_portable(wf_dtype to, void *y, wf_dtype from, const void *x, int64_t n);
void wfi_copy_cast_avx2(wf_dtype to, void *y, wf_dtype from, const void *x, int64_t n);
void wfi_copy_cast_avx512(wf_dtype to, void *y, wf_dtype from, const void *x, int64_t n);

extern const wfi_copy_kernels wfi_copy_portable, wfi_copy_avx2, wfi_copy_avx512;

#endif
