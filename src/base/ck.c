#include "base/ck.h"

bool wfi_ck_elements(const int64_t *dims, int ndim, int64_t *elements)
{
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] < 0 || dims[i] > WFI_DIM_MAX)
            return false;
        zero = zero || dims[i] == 0;
    }
    if (zero) {
        *elements = 0;
        return true;
    }
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) {
        if (!wfi_ck_mul64(n, dims[i], &n) || n > WFI_DIM_MAX)
            return false;
    }
    *elements = n;
    return true;
}
