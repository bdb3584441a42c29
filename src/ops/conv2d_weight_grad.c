/* conv2d_weight_grad(x, dy, kernel_h, kernel_w; stride, pad, dilation, groups): the gradient of conv2d by its weights:
 * x[N,C,H,W], dy[N,O,OH,OW] -> [O,C/groups,kernel_h,kernel_w]. Summed over blocks of 8 output rows of an image. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    const wfi_attr_conv2d_weight_grad *a = &v->a->conv2d_weight_grad;
    wf_dims x = wfi_shape(v->in[0]);
    if (v->want[0])
        v->gin[0] = wf_conv2d_input_grad_(
            v->in[1], v->g, x.d[2], x.d[3],
            WF_OPTS(wf_conv2d_input_grad_opts, .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                    .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w, .groups = a->groups),
            v->site);
    if (v->want[1])
        v->gin[1] = wf_conv2d_(v->in[0], v->g,
                               WF_OPTS(wf_conv2d_opts, .stride_h = a->stride_h, .stride_w = a->stride_w,
                                       .pad_h = a->pad_h, .pad_w = a->pad_w, .dilation_h = a->dilation_h,
                                       .dilation_w = a->dilation_w, .groups = a->groups),
                               v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_conv2d_weight_grad *a = &r->a->conv2d_weight_grad;
    const wf_ref_tensor *x = &r->in[0], *dy = &r->in[1];
    wf_ref_tensor *dw = &r->out[0];
    int64_t og = dw->dim[0] / a->groups, cg = dw->dim[1], kh = dw->dim[2], kw = dw->dim[3];
    for (int64_t i = 0; i < dw->n; i++)
        dw->d[i] = 0;
    for (int64_t i = 0; i < dy->n; i++) { /* i: n, o, y, x of dy */
        int64_t l = i % dy->dim[3], y = i / dy->dim[3] % dy->dim[2], o = i / dy->dim[3] / dy->dim[2] % dy->dim[1];
        int64_t n = i / dy->dim[3] / dy->dim[2] / dy->dim[1];
        for (int64_t k = 0; k < cg * kh * kw; k++) {
            int64_t c = k / kh / kw + o / og * cg, p = k / kw % kh, q = k % kw;
            int64_t h = y * a->stride_h + p * a->dilation_h - a->pad_h,
                    m = l * a->stride_w + q * a->dilation_w - a->pad_w;
            if (h >= 0 && h < x->dim[2] && m >= 0 && m < x->dim[3])
                dw->d[o * cg * kh * kw + k] += dy->d[i] * x->d[((n * x->dim[1] + c) * x->dim[2] + h) * x->dim[3] + m];
        }
    }
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* what the forward pass takes */
{
    const wfi_attr_conv2d_weight_grad *a = &c->a->conv2d_weight_grad;
    const int64_t *in = c->in[0].dim, *dy = c->in[1].dim;
    (void)x;
    cost->flops = 2 * (double)(dy[0] * dy[1] * (in[1] / a->groups)) *
                  (double)wfi_op_window_pairs(in[2], dy[2], a->kernel_h, a->stride_h, a->dilation_h, a->pad_h) *
                  (double)wfi_op_window_pairs(in[3], dy[3], a->kernel_w, a->stride_w, a->dilation_w, a->pad_w);
}

const wf_op_def wf_op_conv2d_weight_grad = {
    .call =
        "x, dy, kernel_h:i64, kernel_w:i64; stride=1, stride_h=stride, stride_w=stride, pad=0, pad_h=pad, pad_w=pad, "
        "dilation=1, dilation_h=dilation, dilation_w=dilation, groups=1",
    .axes = "x[.. n (g c) h! w!] dy[.. n (g o) oh! ow!] -> dw[.. (g o) c p! q!]; g=groups, p=kernel_h, q=kernel_w",
    .types = "float",
    .primitive = "kernel",
    .linear = "x dy",
    .order = "n h w",
    .grad = grad,
    .ref = ref,
    .cost = cost,
    .onnx = "",
    .samples = "f32[2,6,9,8] f32[2,8,5,4] kernel_h=3 kernel_w=3 stride=2 pad=1 groups=2; "
               "f64[2,2,6,5] f64[2,3,6,3] kernel_h=3 kernel_w=2 pad_h=1 dilation_w=2; "
               "f32[1,3,5,7] f32[1,4,5,7] kernel_h=1 kernel_w=1",
};
