/* conv2d(x, w; stride, pad, dilation, groups): cross-correlation of images, channels first.
 * x: [N, C, H, W], w: [O, C/groups, KH, KW] -> [N, O, OH, OW] with OH = (H + 2 pad_h - dilation_h (KH - 1) - 1) /
 * stride_h + 1, rounded down. stride, pad and dilation set both directions, stride_h and stride_w one. Outside x reads
 * as 0. A bias of shape [O, 1, 1] is added by wf_add. The result may lie channels last in memory. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_conv2d *a = &c->a->conv2d;
    if (c->in[0].ndim != 4 || c->in[1].ndim != 4)
        snprintf(err, bytes, "conv2d: x has %d axes and w %d; x[N,C,H,W] and w[O,C/groups,KH,KW] were expected",
                 (int)c->in[0].ndim, (int)c->in[1].ndim);
    else if (a->stride_h < 1 || a->stride_w < 1 || a->dilation_h < 1 || a->dilation_w < 1 || a->groups < 1)
        snprintf(err, bytes, "conv2d: stride %d, %d, dilation %d, %d and groups %d must all be at least 1",
                 (int)a->stride_h, (int)a->stride_w, (int)a->dilation_h, (int)a->dilation_w, (int)a->groups);
    else if (a->pad_h < 0 || a->pad_w < 0)
        snprintf(err, bytes, "conv2d: pad %d, %d must not be below 0", (int)a->pad_h, (int)a->pad_w);
    else
        return true;
    return false;
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_conv2d *a = &v->a->conv2d;
    wf_dims x = wfi_shape(v->in[0]), w = wfi_shape(v->in[1]);
    if (v->want[0])
        v->gin[0] = wf_conv2d_input_grad_(
            v->g, v->in[1], x.d[2], x.d[3],
            WF_OPTS(wf_conv2d_input_grad_opts, .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                    .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w, .groups = a->groups),
            v->site);
    if (v->want[1])
        v->gin[1] = wf_conv2d_weight_grad_(
            v->in[0], v->g, w.d[2], w.d[3],
            WF_OPTS(wf_conv2d_weight_grad_opts, .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                    .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w, .groups = a->groups),
            v->site);
}

const wf_op_def wf_op_conv2d = {
    .call = "x, w; stride=1, stride_h=stride, stride_w=stride, pad=0, pad_h=pad, pad_w=pad, dilation=1, "
            "dilation_h=dilation, dilation_w=dilation, groups=1",
    .axes = "x[.. (g c) h:oh*stride_h+kh*dilation_h-pad_h? w:ow*stride_w+kw*dilation_w-pad_w?] w[.. (g o) c kh kw]"
            " -> y[.. (g o) oh ow]; g=groups, oh=(h+2*pad_h-dilation_h*(kh-1)-1)/stride_h+1, "
            "ow=(w+2*pad_w-dilation_w*(kw-1)-1)/stride_w+1",
    .types = "float",
    .primitive = "y += x * w",
    .reduce = "sum",
    .order = "kh kw c",
    .check = check,
    .grad = grad,
    .ref = wfi_ref_sum,
    .autocast = "low",
    .onnx = "Conv 11",
    .samples = "f32[2,6,9,8] f32[8,3,3,3] stride=2 pad=1 groups=2; f32[1,3,5,7] f32[4,3,1,1]; "
               "f64[2,2,6,5] f64[3,2,3,2] pad_h=1 dilation_w=2; f32[2,4,6,6] f32[4,1,3,3] pad=1 groups=4; "
               "f64[1,1,4,4] f64[2,1,2,2]; bf16[1,3,6,6] bf16[4,3,3,3] pad=1 tol=4e-2",
};
