/* avg_pool2d(x; kernel, stride, pad, dilation, ceil, exclude_pad): the mean of each window of an image.
 * x: [N, C, H, W] -> [N, C, OH, OW]. kernel, stride (default: kernel), pad and dilation set both directions, kernel_h
 * and kernel_w and so on one. With ceil the last window may reach over the end, but it starts inside the image or its
 * leading pad. The sum is divided by the number of elements inside the padded image (what reaches over its end with
 * ceil never counts), with exclude_pad by those inside the image; the pad itself adds 0. PyTorch's count_include_pad is
 * the default. */
#include "ops/pool2d_parts.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const pool2d_window w = POOL2D_WINDOW(&c->a->avg_pool2d);
    return pool2d_check("avg_pool2d", &c->in[0], &w, err, bytes);
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_avg_pool2d *a = &v->a->avg_pool2d;
    wf_dims x = wfi_shape(v->in[0]);
    v->gin[0] = wf_avg_pool2d_grad_(v->g, x.d[2], x.d[3],
                                    WF_OPTS(wf_avg_pool2d_grad_opts, .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                                            .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                                            .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w,
                                            .ceil = a->ceil, .exclude_pad = a->exclude_pad),
                                    v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_avg_pool2d *a = &r->a->avg_pool2d;
    const wf_ref_tensor *x = &r->in[0], *y = &r->out[0];
    for (int64_t i = 0; i < y->n; i++) { /* i: n and c, oh, ow */
        int64_t ow = i % y->dim[3], oh = i / y->dim[3] % y->dim[2], nc = i / y->dim[3] / y->dim[2], count = 0;
        y->d[i] = 0;
        for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
            int64_t h = oh * a->stride_h - a->pad_h + k / a->kernel_w * a->dilation_h;
            int64_t w = ow * a->stride_w - a->pad_w + k % a->kernel_w * a->dilation_w;
            bool inside = h >= 0 && h < x->dim[2] && w >= 0 && w < x->dim[3];
            count += inside || (!a->exclude_pad && h < x->dim[2] + a->pad_h && w < x->dim[3] + a->pad_w);
            if (inside)
                y->d[i] += x->d[(nc * x->dim[2] + h) * x->dim[3] + w];
        }
        y->d[i] /= (double)count;
    }
}

const wf_op_def wf_op_avg_pool2d = {
    .call = "x; kernel=1, kernel_h=kernel, kernel_w=kernel, stride=kernel, stride_h=stride, stride_w=stride, pad=0, "
            "pad_h=pad, pad_w=pad, dilation=1, dilation_h=dilation, dilation_w=dilation, ceil=0, exclude_pad:bool",
    .axes = "x[.. c h! w!] -> y[.. c oh! ow!]; "
            "oh=min((h+2*pad_h-dilation_h*(kernel_h-1)-1+ceil*(stride_h-1))/stride_h+1,(h+pad_h-1)/stride_h+1), "
            "ow=min((w+2*pad_w-dilation_w*(kernel_w-1)-1+ceil*(stride_w-1))/stride_w+1,(w+pad_w-1)/stride_w+1)",
    .types = "float",
    .primitive = "kernel",
    .linear = "x",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "AveragePool 19",
    .samples = "f32[2,3,6,8] kernel=2; f64[1,2,7,5] kernel=3 stride=2 pad=1; f64[1,2,7,5] kernel=3 stride=2 pad=1 "
               "exclude_pad=true; f32[1,5,8,10] kernel=3 stride=4 ceil=1; f64[2,2,9,9] kernel=2 stride=1 dilation=2; "
               "bf16[1,33,4,6] kernel=2; f32[1,1,5,5] kernel=3 stride=3 pad=1 ceil=1; f64[1,2,6,5] kernel_h=3 "
               "kernel_w=2 stride=2 pad_h=1 ceil=1 exclude_pad=true",
};
