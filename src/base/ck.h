/* ck.h - checked arithmetic for sizes that come from outside. Each returns false on overflow and leaves *r alone. */
#ifndef WFI_BASE_CK_H
#define WFI_BASE_CK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool wfi_ck_add(size_t a, size_t b, size_t *r)
{
    size_t t;
    return !__builtin_add_overflow(a, b, &t) && (*r = t, true);
}
static inline bool wfi_ck_mul(size_t a, size_t b, size_t *r)
{
    size_t t;
    return !__builtin_mul_overflow(a, b, &t) && (*r = t, true);
}
static inline bool wfi_ck_mul64(int64_t a, int64_t b, int64_t *r)
{
    int64_t t;
    return !__builtin_mul_overflow(a, b, &t) && (*r = t, true);
}
static inline bool wfi_ck_add64(int64_t a, int64_t b, int64_t *r)
{
    int64_t t;
    return !__builtin_add_overflow(a, b, &t) && (*r = t, true);
}
/* a rounded up to a multiple of unit, a power of two. */
static inline bool wfi_ck_align(size_t a, size_t unit, size_t *r)
{
    size_t t;
    return wfi_ck_add(a, unit - 1, &t) && (*r = t & ~(unit - 1), true);
}

#define WFI_DIM_MAX ((int64_t)1 << 47) /* no dimension and no number of elements is larger */

/* The number of elements of dims[0..ndim): false if a dimension is negative or over WFI_DIM_MAX, or the product is.
 * A zero dimension gives 0 elements whatever the others are. */
bool wfi_ck_elements(const int64_t *dims, int ndim, int64_t *elements);

#endif
