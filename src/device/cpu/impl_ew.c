/* Element-wise primitives: one kernel serves every row of elementwise.def. */
#include "device/cpu/cpu.h"
#include "kernel/ew/ew.h"

static const char *bind(const wfi_cpu *d, wfi_bind *b)
{
    wfi_view in[3];
    wfi_impl_first_layout(b);
    for (int32_t i = 0; i < b->nin; i++) {
        wfi_impl_broadcast(&b->in[i], b->out, &in[i]);
        if (wf_dtype_bytes(b->in[i].dtype) == wf_dtype_bytes(b->out->dtype))
            b->inplace |= 1u << i;
    }
    b->fn = d->ew->run;
    b->params_bytes = WFI_PARAMS_MAX;
    return d->ew->prepare(wfi_op_table[b->op].ew, b->out, in, b->params, &b->scratch);
}

static const wfi_impl impls[] = { { WFI_IMPL_EW, "cpu.ew", "", bind } };
const wfi_impl_list wfi_impls_ew = { impls, sizeof impls / sizeof *impls };
