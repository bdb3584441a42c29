/* max_pool2d_pick(x, g, like; kernel, stride, pad, dilation): the elements of g that stand where x has the first
 * maximum of each window of max_pool2d. x, g: [N, C, H, W]; like: [N, C, OH, OW] gives the sizes -> [N, C, OH, OW]. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    const wfi_attr_max_pool2d_pick *a = &v->a->max_pool2d_pick;
    if (v->want[1])
        v->gin[1] =
            wf_max_pool2d_grad_(v->in[0], v->g,
                                WF_OPTS(wf_max_pool2d_grad_opts, .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                                        .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                                        .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w),
                                v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_max_pool2d_pick *a = &r->a->max_pool2d_pick;
    const wf_ref_tensor *x = &r->in[0], *g = &r->in[1];
    wf_ref_tensor *y = &r->out[0];
    for (int64_t i = 0; i < y->n; i++) {
        int64_t ow = i % y->dim[3], oh = i / y->dim[3] % y->dim[2], nc = i / y->dim[3] / y->dim[2], at = -1;
        for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
            int64_t h = oh * a->stride_h - a->pad_h + k / a->kernel_w * a->dilation_h;
            int64_t w = ow * a->stride_w - a->pad_w + k % a->kernel_w * a->dilation_w;
            if (h < 0 || h >= x->dim[2] || w < 0 || w >= x->dim[3])
                continue;
            int64_t e = (nc * x->dim[2] + h) * x->dim[3] + w;
            if (at < 0 || x->d[e] > x->d[at] || (x->d[e] != x->d[e] && x->d[at] == x->d[at]))
                at = e;
        }
        y->d[i] = at < 0 ? 0 : g->d[at];
    }
}

const wf_op_def wf_op_max_pool2d_pick = {
    .call = "x, g, like; kernel=1, kernel_h=kernel, kernel_w=kernel, stride=kernel, stride_h=stride, stride_w=stride, "
            "pad=0, pad_h=pad, pad_w=pad, dilation=1, dilation_h=dilation, dilation_w=dilation",
    .axes = "x[.. c h! w!] g[.. c h! w!] like[.. c oh! ow!] -> y[.. c oh! ow!]",
    .types = "float",
    .primitive = "kernel",
    .linear = "g",
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "f32[2,3,6,8] f32[2,3,6,8] f32[2,3,3,4] kernel=2; f64[1,2,7,5] f64[1,2,7,5] f64[1,2,4,3] kernel=3 "
               "stride=2 pad=1",
};
