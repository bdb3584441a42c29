/* Operators that move elements into new memory: padding, joining, updating a slice, counting, bits as another type,
 * random numbers. */
#include <string.h>
#include "base/dtype.h"
#include "device/cpu/cpu.h"
#include "kernel/copy/copy.h"

static int32_t norm(int64_t axis, int32_t ndim)
{
    return (int32_t)(axis < 0 ? axis + ndim : axis);
}

static const char *pad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_attr_pad *a = &b->attr->pad;
    int64_t low[WF_RANK_MAX] = { 0 };
    unsigned char value[8] = { 0 };
    low[norm(a->axis, b->in->ndim)] = a->lo;
    wfi_dtype_store(b->out->dtype, value, 0, a->value);
    b->fn = d->copy->pad_run;
    b->params_bytes = sizeof(wfi_pad);
    return d->copy->pad_prepare(b->in, b->out, low, value, b->params, &b->scratch);
}

static const char *arange(const wfi_cpu *d, wfi_bind *b)
{
    b->fn = d->copy->iota_run;
    b->params_bytes = sizeof(wfi_iota);
    return d->copy->iota_prepare(b->out, 0, 0, 1, b->params, &b->scratch);
}

/* ---- concat ---- */

typedef struct parts { /* operands of any layout, copied one by one */
    int32_t n;
    wfi_kernel_fn *copy;
    struct {
        int64_t offset; /* bytes from the result's first element */
        wfi_copy params;
    } part[];
} parts;

static void run_parts(const void *params, void *const *args, const wfi_run *run)
{
    const parts *p = params;
    for (int32_t i = 0; i < p->n; i++) {
        void *each[2] = { (char *)args[0] + p->part[i].offset, args[1 + i] };
        p->copy(&p->part[i].params, each, run);
    }
}

static const char *concat_parts(const wfi_cpu *d, wfi_bind *b, int32_t axis)
{
    parts *p = b->params;
    int64_t at = 0;
    if (sizeof *p + (size_t)b->nin * sizeof p->part[0] > WFI_BIND_PARAMS)
        return "too many operands that are not row-major";
    p->n = b->nin;
    p->copy = d->copy->run;
    for (int32_t i = 0; i < b->nin; i++) {
        wfi_view to = *b->out;
        to.dim[axis] = b->in[i].dim[axis];
        p->part[i].offset = at * to.stride[axis] * (int64_t)wf_dtype_bytes(to.dtype);
        at += to.dim[axis];
        const char *why = d->copy->prepare(&b->in[i], &to, b->threads, &p->part[i].params, &b->scratch);
        if (why)
            return why;
    }
    b->fn = run_parts;
    b->params_bytes = sizeof *p + (size_t)b->nin * sizeof p->part[0];
    return NULL;
}

static const char *concat(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *in[WFI_CONCAT_MAX];
    int32_t axis = norm(b->attr->concat.axis, b->in->ndim);
    if (b->nin > WFI_CONCAT_MAX)
        return "too many operands";
    for (int32_t i = 0; i < b->nin; i++)
        in[i] = &b->in[i];
    b->fn = d->copy->concat_run;
    b->params_bytes = sizeof(wfi_concat);
    if (!d->copy->concat_prepare(in, b->nin, axis, b->out, b->params, &b->scratch))
        return NULL;
    return concat_parts(d, b, axis);
}

/* ---- slice_update: x, then u over a part of it ---- */

typedef struct update {
    wfi_copy whole, part;
    wfi_kernel_fn *copy;
    int64_t offset; /* bytes from the result's first element to u's place */
} update;

static void run_update(const void *params, void *const *args, const wfi_run *run)
{
    const update *p = params;
    if (args[0] != args[1]) { /* else the result took x's buffer */
        void *whole[2] = { args[0], args[1] };
        p->copy(&p->whole, whole, run);
    }
    void *part[2] = { (char *)args[0] + p->offset, args[2] };
    p->copy(&p->part, part, run);
}

static const char *slice_update(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_attr_slice_update *a = &b->attr->slice_update;
    update *p = b->params;
    int32_t axis = norm(a->axis, b->in->ndim);
    wfi_impl_keep_layout(&b->in[0], b->out);
    wfi_view to = *b->out;
    to.dim[axis] = b->in[1].dim[axis];
    to.stride[axis] = b->out->stride[axis] * a->step;
    p->offset = to.dim[axis] ? a->start * b->out->stride[axis] * (int64_t)wf_dtype_bytes(to.dtype) : 0;
    p->copy = d->copy->run;
    b->inplace = 1;
    b->fn = run_update;
    b->params_bytes = sizeof *p;
    const char *why = d->copy->prepare(&b->in[0], b->out, b->threads, &p->whole, &b->scratch);
    return why ? why : d->copy->prepare(&b->in[1], &to, b->threads, &p->part, &b->scratch);
}

/* ---- bits as another type: a row-major copy whose bytes are read anew ---- */

static const char *bitcast(const wfi_cpu *d, wfi_bind *b)
{
    wfi_view to = *b->in;
    int64_t s = 1;
    for (int32_t i = to.ndim; i-- > 0;) {
        to.stride[i] = s;
        s *= to.dim[i] ? to.dim[i] : 1;
    }
    b->fn = d->copy->run;
    b->params_bytes = sizeof(wfi_copy);
    return d->copy->prepare(b->in, &to, b->threads, b->params, &b->scratch);
}

static const wfi_impl impls[] = {
    { WFI_OP_pad, "cpu.pad", "", pad },
    { WFI_OP_arange, "cpu.arange", "", arange },
    { WFI_OP_concat, "cpu.concat", "", concat },
    { WFI_OP_slice_update, "cpu.slice_update", "", slice_update },
    { WFI_OP_bitcast, "cpu.bitcast", "", bitcast },
};
const wfi_impl_list wfi_impls_copy = { impls, sizeof impls / sizeof *impls };
