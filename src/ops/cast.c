/* cast(x, dtype): the elements as another type. Real to whole numbers: towards zero, NaN is 0, what does not fit is the
 * nearest that does. Whole to narrower whole numbers: the low bits. Anything to bool: x != 0. Narrower real types: to
 * nearest, ties to even, overflow to infinity (f8e4m3: to 448, its largest). */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_cast_(v->g, wfi_dtype(v->in[0]), v->site);
}

static void ref(const wf_ref *r) /* the rounding itself is done where results are stored */
{
    for (int64_t i = 0; i < r->out[0].n; i++)
        r->out[0].d[i] = r->in[0].d[i];
}

const wf_op_def wf_op_cast = {
    .call = "x, dtype:dtype",
    .axes = "x[..] -> y[..]",
    .types = "any -> attr",
    .primitive = "y = x",
    .linear = "x",
    .grad = grad,
    .ref = ref,
    .onnx = "Cast 13",
    .samples = "f32[3,5] dtype=bf16; f64[7] dtype=f32; f32[9] dtype=i32; i64[4] dtype=f32; f32[6] dtype=bool; "
               "bf16[5] dtype=f16; u8[4] dtype=f64",
};
