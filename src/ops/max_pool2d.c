/* max_pool2d(x; kernel, stride, pad, dilation, ceil): the largest element of each window of an image.
 * x: [N, C, H, W] -> [N, C, OH, OW]. kernel, stride (default: kernel), pad and dilation set both directions, kernel_h
 * and kernel_w and so on one. With ceil the last window may reach over the end, but it starts inside the image or its
 * leading pad. What lies outside takes no part. A NaN in the window gives NaN; the first of equal elements gets the
 * gradient. */
#include "ops/pool2d_parts.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const pool2d_window w = POOL2D_WINDOW(&c->a->max_pool2d);
    return pool2d_check("max_pool2d", &c->in[0], &w, err, bytes);
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_max_pool2d *a = &v->a->max_pool2d;
    v->gin[0] =
        wf_max_pool2d_grad_(v->in[0], v->g,
                            WF_OPTS(wf_max_pool2d_grad_opts, .kernel_h = a->kernel_h, .kernel_w = a->kernel_w,
                                    .stride_h = a->stride_h, .stride_w = a->stride_w, .pad_h = a->pad_h,
                                    .pad_w = a->pad_w, .dilation_h = a->dilation_h, .dilation_w = a->dilation_w),
                            v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_max_pool2d *a = &r->a->max_pool2d;
    const wf_ref_tensor *x = &r->in[0];
    const wf_ref_tensor *y = &r->out[0];
    for (int64_t i = 0; i < y->n; i++) { /* i: n and c, oh, ow */
        int64_t ow = i % y->dim[3], oh = i / y->dim[3] % y->dim[2], nc = i / y->dim[3] / y->dim[2];
        bool any = false;
        for (int64_t k = 0; k < (int64_t)a->kernel_h * a->kernel_w; k++) {
            int64_t h = oh * a->stride_h - a->pad_h + k / a->kernel_w * a->dilation_h;
            int64_t w = ow * a->stride_w - a->pad_w + k % a->kernel_w * a->dilation_w;
            if (h < 0 || h >= x->dim[2] || w < 0 || w >= x->dim[3])
                continue;
            double v = x->d[(nc * x->dim[2] + h) * x->dim[3] + w];
            if (!any || v > y->d[i] || v != v)
                y->d[i] = v;
            any = true;
        }
    }
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    const wfi_attr_max_pool2d *a = &c->a->max_pool2d;
    cost->flops = (double)wfi_axis_elements(x, 1, NULL) * a->kernel_h * a->kernel_w;
}

const wf_op_def wf_op_max_pool2d = {
    .call = "x; kernel=1, kernel_h=kernel, kernel_w=kernel, stride=kernel, stride_h=stride, stride_w=stride, pad=0, "
            "pad_h=pad, pad_w=pad, dilation=1, dilation_h=dilation, dilation_w=dilation, ceil=0",
    .axes = "x[.. c h! w!] -> y[.. c oh! ow!]; "
            "oh=min((h+2*pad_h-dilation_h*(kernel_h-1)-1+ceil*(stride_h-1))/stride_h+1,(h+pad_h-1)/stride_h+1), "
            "ow=min((w+2*pad_w-dilation_w*(kernel_w-1)-1+ceil*(stride_w-1))/stride_w+1,(w+pad_w-1)/stride_w+1)",
    .types = "float",
    .primitive = "kernel",
    .check = check,
    .grad = grad,
    .ref = ref,
    .cost = cost,
    .onnx = "MaxPool 12",
    .samples = "f32[2,3,6,8] kernel=2; f64[1,2,7,5] kernel=3 stride=2 pad=1; f32[1,5,8,10] kernel=3 stride=4 ceil=1; "
               "f64[2,2,9,9] kernel=2 stride=1 dilation=2; bf16[1,33,4,6] kernel=2; f32[1,1,5,5] kernel=3 stride=3 "
               "pad=1 ceil=1",
};
