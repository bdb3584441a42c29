/* max_pool2d_grad(x, dy; kernel, stride, pad, dilation): the gradient of max_pool2d: each element gets the dy of the
 * windows in which it is the first maximum. x: [N, C, H, W], dy: [N, C, OH, OW] -> [N, C, H, W]. */
#include "ops/op.h"

static void ref(const wf_ref *r)
{
    const wfi_attr_max_pool2d_grad *a = &r->a->max_pool2d_grad;
    const wf_ref_tensor *x = &r->in[0], *dy = &r->in[1];
    wf_ref_tensor *dx = &r->out[0];
    for (int64_t i = 0; i < dx->n; i++)
        dx->d[i] = 0;
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t ow = i % dy->dim[3], oh = i / dy->dim[3] % dy->dim[2], nc = i / dy->dim[3] / dy->dim[2], at = -1;
        for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
            int64_t h = oh * a->stride_h - a->pad_h + k / a->kernel_w * a->dilation_h;
            int64_t w = ow * a->stride_w - a->pad_w + k % a->kernel_w * a->dilation_w;
            if (h < 0 || h >= x->dim[2] || w < 0 || w >= x->dim[3])
                continue;
            int64_t e = (nc * x->dim[2] + h) * x->dim[3] + w;
            if (at < 0 || x->d[e] > x->d[at] || (x->d[e] != x->d[e] && x->d[at] == x->d[at]))
                at = e;
        }
        if (at >= 0)
            dx->d[at] += dy->d[i];
    }
}

/* Linear in dy. Its own gradient picks the same elements again: the pooling of g where x has its maxima. */
static void grad(const wf_vjp *v)
{
    const wfi_attr_max_pool2d_grad *a = &v->a->max_pool2d_grad;
    if (v->want[1])
        v->gin[1] =
            wf_max_pool2d_pick_(v->in[0], v->g, v->in[1],
                                WF_OPTS(wf_max_pool2d_pick_opts, .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                                        .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                                        .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w),
                                v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    const wfi_attr_max_pool2d_grad *a = &c->a->max_pool2d_grad;
    cost->flops = (double)wfi_axis_elements(x, 1, NULL) * a->kernel_h * a->kernel_w;
}

const wf_op_def wf_op_max_pool2d_grad = {
    .call =
        "x, dy; kernel=1, kernel_h=kernel, kernel_w=kernel, stride=kernel, stride_h=stride, stride_w=stride, pad=0, "
        "pad_h=pad, pad_w=pad, dilation=1, dilation_h=dilation, dilation_w=dilation",
    .axes = "x[.. c h! w!] dy[.. c oh! ow!] -> dx[.. c h! w!]",
    .types = "float",
    .primitive = "kernel",
    .linear = "dy",
    .grad = grad,
    .ref = ref,
    .cost = cost,
    .onnx = "",
    .samples = "f32[2,3,6,8] f32[2,3,3,4] kernel=2; f64[1,2,7,5] f64[1,2,4,3] kernel=3 stride=2 pad=1; "
               "f64[2,2,9,9] f64[2,2,7,7] kernel=2 stride=1 dilation=2; bf16[1,33,4,6] bf16[1,33,2,3] kernel=2",
};
