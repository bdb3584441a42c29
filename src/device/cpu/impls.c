/* All implementations, in order of preference. */
#include "device/cpu/cpu.h"

#define LISTS(X)                                                                                                       \
    X(view)                                                                                                            \
    X(ew) X(fused) X(gemm) X(reduce) X(row) X(batchnorm) X(index) X(copy) X(conv) X(pool2d) X(optim) X(attention)

#define DECLARE(name) extern const wfi_impl_list wfi_impls_##name;
LISTS(DECLARE)

enum {
#define COUNT(name) at_##name,
    LISTS(COUNT) lists
};

const wfi_impl_list *const wfi_impl_lists[lists + 1] = {
#define ENTRY(name) &wfi_impls_##name,
    LISTS(ENTRY) NULL
};
