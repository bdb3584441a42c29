/* Views: operators that only move where elements are looked for. They cost nothing: the result is another layout of
 * the operand's buffer. And what several files of implementations share. */
#include <string.h>
#include "device/cpu/cpu.h"
#include "kernel/copy/copy.h"

void wfi_impl_broadcast(const wfi_view *v, const wfi_view *like, wfi_view *out)
{
    int32_t extra = like->ndim - v->ndim;
    *out = *like;
    out->dtype = v->dtype;
    for (int32_t i = 0; i < like->ndim; i++)
        out->stride[i] = i < extra || v->dim[i - extra] == 1 ? 0 : v->stride[i - extra];
}

bool wfi_impl_dense(const wfi_view *v)
{
    int64_t want = 1;
    uint32_t used = 0;
    for (int32_t n = 0; n < v->ndim; n++) {
        int32_t k = -1;
        for (int32_t i = v->ndim; i-- > 0;)
            if (!(used >> i & 1) && (v->dim[i] == 1 || v->stride[i] == want) && (k < 0 || v->dim[k] != 1))
                k = i;
        if (k < 0)
            return false;
        used |= 1u << k;
        want *= v->dim[k];
    }
    return true;
}

bool wfi_impl_keep_layout(const wfi_view *like, wfi_view *out)
{
    bool kept = like->ndim == out->ndim && !memcmp(like->dim, out->dim, sizeof *out->dim * (size_t)out->ndim) &&
                wfi_impl_dense(like);
    if (kept)
        memcpy(out->stride, like->stride, sizeof out->stride);
    return kept;
}

void wfi_impl_first_layout(wfi_bind *b)
{
    int32_t i = 0;
    while (i < b->nin && !wfi_impl_keep_layout(&b->in[i], b->out))
        i++;
    for (int32_t k = 1; i < b->nin && k < b->nout; k++)
        wfi_impl_keep_layout(&b->in[i], &b->out[k]);
}

uint32_t wfi_impl_axes(wf_dims axes, int32_t ndim)
{
    uint32_t mask = 0;
    if (axes.n <= 0)
        return (1u << ndim) - 1;
    for (int32_t i = 0; i < axes.n; i++)
        mask |= 1u << (axes.d[i] < 0 ? axes.d[i] + ndim : axes.d[i]);
    return mask;
}

enum { PLACES = 8 };

typedef struct placed {
    char own[WFI_PARAMS_MAX];
    wfi_kernel_fn *fn;
    int8_t from[PLACES];
} placed;

static void run_placed(const void *params, void *const *args, const wfi_run *run)
{
    const placed *p = params;
    void *at[PLACES];
    for (int i = 0; i < PLACES; i++)
        at[i] = p->from[i] < 0 ? NULL : args[p->from[i]];
    p->fn(p->own, at, run);
}

void wfi_impl_placed(wfi_bind *b, wfi_kernel_fn *fn, const int8_t *from, int n)
{
    placed *p = b->params;
    p->fn = fn;
    memset(p->from, -1, sizeof p->from);
    memcpy(p->from, from, (size_t)n);
    b->fn = run_placed;
    b->params_bytes = sizeof *p;
}

/* ---- views ---- */

static int64_t norm(int64_t axis, int32_t ndim)
{
    return axis < 0 ? axis + ndim : axis;
}

static const char *permute(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    const wf_dims *perm = &b->attr->permute.perm;
    int32_t n = b->in->ndim, at = 0;
    for (int32_t i = 0; i < n; i++) { /* axes that perm leaves out stay in front */
        bool listed = false;
        for (int32_t k = 0; k < perm->n; k++)
            listed |= norm(perm->d[k], n) == i;
        if (!listed)
            b->out->stride[at++] = b->in->stride[i];
    }
    for (int32_t k = 0; k < perm->n; k++)
        b->out->stride[at++] = b->in->stride[norm(perm->d[k], n)];
    b->alias = 0;
    return NULL;
}

static const char *transpose(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    int32_t n = b->in->ndim;
    memcpy(b->out->stride, b->in->stride, sizeof b->out->stride);
    b->out->stride[n - 1] = b->in->stride[n - 2];
    b->out->stride[n - 2] = b->in->stride[n - 1];
    b->alias = 0;
    return NULL;
}

static const char *broadcast_to(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    wfi_impl_broadcast(b->in, b->out, b->out);
    b->alias = 0;
    return NULL;
}

static const char *broadcast(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    const wfi_attr_broadcast *a = &b->attr->broadcast;
    uint32_t fresh = a->axes.n ? wfi_impl_axes(a->axes, b->out->ndim) : 0;
    int32_t i = 0;
    for (int32_t o = 0; o < b->out->ndim; o++) {
        bool repeats = fresh >> o & 1;
        b->out->stride[o] = repeats ? 0 : b->in->stride[i];
        i += !repeats || a->keep;
    }
    b->alias = 0;
    return NULL;
}

/* Removing and adding axes of size 1. */
static const char *same_elements(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    int32_t i = 0;
    for (int32_t o = 0; o < b->out->ndim; o++) {
        if (b->out->dim[o] == 1)
            continue;
        while (i < b->in->ndim && b->in->dim[i] == 1)
            i++;
        b->out->stride[o] = b->in->stride[i++];
    }
    b->alias = 0;
    return NULL;
}

static const char *slice(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    const wfi_attr_slice *a = &b->attr->slice;
    int64_t axis = norm(a->axis, b->in->ndim);
    memcpy(b->out->stride, b->in->stride, sizeof b->out->stride);
    b->out->stride[axis] *= a->step;
    b->alias_offset = b->in->dim[axis] ? a->start * b->in->stride[axis] : 0;
    b->alias = 0;
    return NULL;
}

static const char *flip(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    uint32_t axes = wfi_impl_axes(b->attr->flip.axes, b->in->ndim);
    memcpy(b->out->stride, b->in->stride, sizeof b->out->stride);
    for (int32_t i = 0; i < b->in->ndim; i++)
        if (axes >> i & 1) {
            b->out->stride[i] = -b->in->stride[i];
            b->alias_offset += (b->in->dim[i] > 0 ? b->in->dim[i] - 1 : 0) * b->in->stride[i];
        }
    b->alias = 0;
    return NULL;
}

/* Can the new shape be had by splitting and merging axes whose strides allow it? Sets out's strides. */
static bool reshape_view(const wfi_view *in, wfi_view *out)
{
    int32_t i = 0, o = 0;
    for (int32_t k = 0; k < in->ndim; k++)
        if (in->dim[k] == 0)
            return true; /* no element: any strides do */
    while (i < in->ndim || o < out->ndim) {
        int64_t ni = 1, no = 1;
        int32_t i0 = i, o0 = o;
        if (i < in->ndim)
            ni = in->dim[i++];
        if (o < out->ndim)
            no = out->dim[o++];
        while (ni != no) {
            if (ni < no)
                ni *= in->dim[i++];
            else
                no *= out->dim[o++];
        }
        int64_t stride = 0;
        bool first = true;
        for (int32_t k = i; k-- > i0;) { /* the merged axes must be one run */
            if (in->dim[k] == 1)
                continue;
            if (first)
                stride = in->stride[k];
            first = false;
            int32_t p = k - 1;
            while (p >= i0 && in->dim[p] == 1)
                p--;
            if (p >= i0 && in->stride[p] != in->stride[k] * in->dim[k])
                return false;
        }
        for (int32_t k = o; k-- > o0;) {
            out->stride[k] = stride;
            stride *= out->dim[k];
        }
    }
    return true;
}

static const char *copy_to(const wfi_cpu *d, wfi_bind *b)
{
    b->fn = d->copy->run;
    b->params_bytes = sizeof(wfi_copy);
    return d->copy->prepare(b->in, b->out, b->threads, b->params, &b->scratch);
}

static const char *reshape(const wfi_cpu *d, wfi_bind *b)
{
    wfi_view plain = *b->out;
    if (reshape_view(b->in, b->out)) {
        b->alias = 0;
        return NULL;
    }
    /* a copy in row-major order of the old shape, read as the new one */
    *b->out = plain;
    wfi_view to = *b->in;
    int64_t s = 1;
    for (int32_t i = to.ndim; i-- > 0;) {
        to.stride[i] = s;
        s *= to.dim[i];
    }
    b->fn = d->copy->run;
    b->params_bytes = sizeof(wfi_copy);
    return d->copy->prepare(b->in, &to, b->threads, b->params, &b->scratch);
}

static const char *contiguous(const wfi_cpu *d, wfi_bind *b)
{
    int64_t s = 1;
    bool plain = true;
    for (int32_t i = b->in->ndim; i-- > 0;) {
        plain &= b->in->dim[i] == 1 || b->in->stride[i] == s;
        s *= b->in->dim[i];
    }
    if (!plain)
        return copy_to(d, b);
    memcpy(b->out->stride, b->in->stride, sizeof b->out->stride);
    b->alias = 0;
    return NULL;
}

static const char *same(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    memcpy(b->out->stride, b->in->stride, sizeof b->out->stride);
    b->alias = 0;
    return NULL;
}

static const char *cast(const wfi_cpu *d, wfi_bind *b)
{
    if (b->in->dtype == b->out->dtype)
        return same(d, b);
    wfi_impl_keep_layout(b->in, b->out);
    return copy_to(d, b);
}

static const wfi_impl impls[] = {
    { WFI_OP_permute, "cpu.view.permute", "", permute },
    { WFI_OP_transpose, "cpu.view.transpose", "", transpose },
    { WFI_OP_broadcast_to, "cpu.view.broadcast_to", "", broadcast_to },
    { WFI_OP_broadcast, "cpu.view.broadcast", "", broadcast },
    { WFI_OP_squeeze, "cpu.view.squeeze", "", same_elements },
    { WFI_OP_unsqueeze, "cpu.view.unsqueeze", "", same_elements },
    { WFI_OP_slice, "cpu.view.slice", "", slice },
    { WFI_OP_flip, "cpu.view.flip", "", flip },
    { WFI_OP_reshape, "cpu.view.reshape", "", reshape },
    { WFI_OP_contiguous, "cpu.copy", "", contiguous },
    { WFI_OP_detach, "cpu.view.detach", "", same },
    { WFI_OP_cast, "cpu.cast", "", cast },
};
const wfi_impl_list wfi_impls_view = { impls, sizeof impls / sizeof *impls };
