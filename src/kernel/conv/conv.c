/* conv.c - convolution by the multiply-adds of the instruction set at hand. */
#include "kernel/conv/conv.h"
#include "kernel/conv/conv_core.h"

static const conv_real *real_of(wf_dtype t)
{
    return t == WF_F64 ? &WFI_K(wfi_conv_f64) : &WFI_K(wfi_conv_f32);
}

static const char *declined(const conv_core *c, bool weight)
{
    (void)c, (void)weight;
    return NULL;
}

#include "kernel/conv/conv_family.h"
#include "kernel/conv/conv_choice.h"

const wfi_conv_kernels WFI_K(wfi_conv) = CONV_FAMILIES(&fwd_choices, &igrad_choices, &wgrad_choices);
