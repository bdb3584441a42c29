/* conv2d_input_grad(dy, w, height, width; stride, pad, dilation, groups): the gradient of conv2d by its images, which
 * is the transposed convolution: dy[N,O,OH,OW], w[O,C/groups,KH,KW] -> [N,C,height,width]. */
#include "ops/op.h"

static void grad(const wf_vjp *v) /* linear in both: the same convolution with the roles exchanged */
{
    const wfi_attr_conv2d_input_grad *a = &v->a->conv2d_input_grad;
    wf_dims w = wfi_shape(v->in[1]);
    if (v->want[0])
        v->gin[0] = wf_conv2d_(v->g, v->in[1],
                               WF_OPTS(wf_conv2d_opts, .stride_h = a->stride_h, .stride_w = a->stride_w,
                                       .pad_h = a->pad_h, .pad_w = a->pad_w, .dilation_h = a->dilation_h,
                                       .dilation_w = a->dilation_w, .groups = a->groups),
                               v->site);
    if (v->want[1])
        v->gin[1] = wf_conv2d_weight_grad_(
            v->g, v->in[0], w.d[2], w.d[3],
            WF_OPTS(wf_conv2d_weight_grad_opts, .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                    .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w, .groups = a->groups),
            v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_conv2d_input_grad *a = &r->a->conv2d_input_grad;
    const wf_ref_tensor *dy = &r->in[0], *w = &r->in[1];
    wf_ref_tensor *dx = &r->out[0];
    int64_t og = w->dim[0] / a->groups, cg = w->dim[1], kh = w->dim[2], kw = w->dim[3];
    for (int64_t i = 0; i < dx->n; i++)
        dx->d[i] = 0;
    for (int64_t i = 0; i < dy->n; i++) { /* i: n, o, y, x of dy */
        int64_t x = i % dy->dim[3], y = i / dy->dim[3] % dy->dim[2], o = i / dy->dim[3] / dy->dim[2] % dy->dim[1];
        int64_t n = i / dy->dim[3] / dy->dim[2] / dy->dim[1];
        for (int64_t k = 0; k < cg * kh * kw; k++) {
            int64_t c = k / kh / kw + o / og * cg, p = k / kw % kh, q = k % kw;
            int64_t h = y * a->stride_h + p * a->dilation_h - a->pad_h,
                    l = x * a->stride_w + q * a->dilation_w - a->pad_w;
            if (h >= 0 && h < dx->dim[2] && l >= 0 && l < dx->dim[3])
                dx->d[((n * dx->dim[1] + c) * dx->dim[2] + h) * dx->dim[3] + l] +=
                    dy->d[i] * w->d[o * cg * kh * kw + k];
        }
    }
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* what the forward pass takes */
{
    const wfi_attr_conv2d_input_grad *a = &c->a->conv2d_input_grad;
    const int64_t *dy = c->in[0].dim, *w = c->in[1].dim;
    (void)x;
    cost->flops = 2 * (double)(dy[0] * dy[1] * w[1]) *
                  (double)wfi_op_window_pairs(a->height, dy[2], w[2], a->stride_h, a->dilation_h, a->pad_h) *
                  (double)wfi_op_window_pairs(a->width, dy[3], w[3], a->stride_w, a->dilation_w, a->pad_w);
}

const wf_op_def wf_op_conv2d_input_grad = {
    .call = "dy, w, height:i64, width:i64; stride=1, stride_h=stride, stride_w=stride, pad=0, pad_h=pad, pad_w=pad, "
            "dilation=1, dilation_h=dilation, dilation_w=dilation, groups=1",
    .axes = "dy[.. (g o) oh! ow!] w[.. (g o) c kh! kw!] -> dx[.. (g c) p! q!]; g=groups, p=height, q=width",
    .types = "float",
    .primitive = "kernel",
    .linear = "dy w",
    .order = "kh kw o",
    .grad = grad,
    .ref = ref,
    .cost = cost,
    .onnx = "",
    .samples =
        "f32[2,8,5,4] f32[8,3,3,3] height=9 width=8 stride=2 pad=1 groups=2; "
        "f64[2,3,6,3] f64[3,2,3,2] height=6 width=5 pad_h=1 dilation_w=2; f32[1,4,5,7] f32[4,3,1,1] height=5 width=7",
};
