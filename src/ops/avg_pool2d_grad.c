/* avg_pool2d_grad(dy, height, width; kernel, stride, pad, dilation, ceil, exclude_pad): the gradient of avg_pool2d:
 * each window shares its dy equally. dy: [N, C, OH, OW] -> [N, C, height, width], the sizes of the images. */
#include <stdio.h>
#include "ops/op.h"

/* How many windows avg_pool2d has along an axis. */
static int64_t fits(int64_t n, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil)
{
    int64_t room = n + 2 * pad - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
    int64_t out = room < 0 ? 0 : room / stride + 1, most = (n + pad - 1) / stride + 1;
    return out < most ? out : most;
}

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_avg_pool2d_grad *a = &c->a->avg_pool2d_grad;
    const wfi_axis_shape *dy = &c->in[0];
    if (dy->ndim != 4 || a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 ||
        a->pad_w < 0 || a->dilation_h < 1 || a->dilation_w < 1 || a->height < 1 || a->width < 1 ||
        a->height > INT32_MAX || a->width > INT32_MAX) {
        snprintf(err, bytes,
                 "avg_pool2d_grad: dy[N,C,OH,OW], sizes, kernel, stride and dilation of at least 1 and pad of "
                 "at least 0 were expected");
        return false;
    }
    int64_t oh = fits(a->height, a->kernel_h, a->stride_h, a->pad_h, a->dilation_h, a->ceil),
            ow = fits(a->width, a->kernel_w, a->stride_w, a->pad_w, a->dilation_w, a->ceil);
    if (dy->dim[2] == oh && dy->dim[3] == ow)
        return true;
    snprintf(err, bytes, "avg_pool2d_grad: images of %lld x %lld have %lld x %lld windows, dy has %lld x %lld",
             (long long)a->height, (long long)a->width, (long long)oh, (long long)ow, (long long)dy->dim[2],
             (long long)dy->dim[3]);
    return false;
}

static void ref(const wf_ref *r)
{
    const wfi_attr_avg_pool2d_grad *a = &r->a->avg_pool2d_grad;
    const wf_ref_tensor *dy = &r->in[0];
    wf_ref_tensor *dx = &r->out[0];
    for (int64_t i = 0; i < dx->n; i++)
        dx->d[i] = 0;
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t ow = i % dy->dim[3], oh = i / dy->dim[3] % dy->dim[2], nc = i / dy->dim[3] / dy->dim[2], count = 0;
        for (int pass = 0; pass < 2; pass++) /* what the window holds, then what its elements get */
            for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
                int64_t h = oh * a->stride_h - a->pad_h + k / a->kernel_w * a->dilation_h;
                int64_t w = ow * a->stride_w - a->pad_w + k % a->kernel_w * a->dilation_w;
                bool inside = h >= 0 && h < dx->dim[2] && w >= 0 && w < dx->dim[3];
                if (pass == 0)
                    count += inside || (!a->exclude_pad && h < dx->dim[2] + a->pad_h && w < dx->dim[3] + a->pad_w);
                else if (inside)
                    dx->d[(nc * dx->dim[2] + h) * dx->dim[3] + w] += dy->d[i] / (double)count;
            }
    }
}

/* Linear in dy, so its own gradient is the pooling. */
static void grad(const wf_vjp *v)
{
    const wfi_attr_avg_pool2d_grad *a = &v->a->avg_pool2d_grad;
    v->gin[0] = wf_avg_pool2d_(v->g,
                               WF_OPTS(wf_avg_pool2d_opts, .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                                       .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                                       .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w,
                                       .ceil = a->ceil, .exclude_pad = a->exclude_pad),
                               v->site);
}

const wf_op_def wf_op_avg_pool2d_grad = {
    .call = "dy, height:i64, width:i64; kernel=1, kernel_h=kernel, kernel_w=kernel, stride=kernel, stride_h=stride, "
            "stride_w=stride, pad=0, pad_h=pad, pad_w=pad, dilation=1, dilation_h=dilation, dilation_w=dilation, "
            "ceil=0, exclude_pad:bool",
    .axes = "dy[.. c oh! ow!] -> dx[.. c p! q!]; p=height, q=width",
    .types = "float",
    .primitive = "kernel",
    .linear = "dy",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "f32[2,3,3,4] height=6 width=8 kernel=2; f64[1,2,4,3] height=7 width=5 kernel=3 stride=2 pad=1; "
               "f64[1,2,4,3] height=7 width=5 "
               "kernel=3 stride=2 pad=1 exclude_pad=true; f64[2,2,7,7] height=9 width=9 kernel=2 stride=1 dilation=2; "
               "bf16[1,33,2,3] height=4 width=6 kernel=2; f32[1,5,2,3] height=8 width=10 kernel=3 stride=4 ceil=1",
};
