/* Softmax, cross entropy and layer norm: composites that one pass over each row does faster than their lowering. */
#include "device/cpu/cpu.h"
#include "kernel/row/row.h"

static const char *row(const wfi_cpu *d, wfi_bind *b, const wfi_row_spec *s)
{
    b->fn = d->row->run;
    b->params_bytes = WFI_PARAMS_MAX;
    const char *why = d->row->prepare(s, b->params, &b->scratch);
    return why ? why : wfi_impl_choose(d, b, d->row->choices, b->params);
}

static int32_t axis_of(const wfi_bind *b, int32_t axis)
{
    return axis < 0 ? axis + b->in->ndim : axis;
}

/* y, then x (and dy): all with rows. */
static const char *plain(const wfi_cpu *d, wfi_bind *b, wfi_row_kind kind, int32_t axis)
{
    wfi_row_spec s = { .kind = kind, .axis = axis_of(b, axis), .threads = b->threads, .v = { b->out, &b->in[0] } };
    wfi_impl_keep_layout(&b->in[0], b->out);
    if (b->nin > 1)
        s.v[2] = &b->in[1];
    b->inplace = b->nin > 1 ? 3 : 1;
    return row(d, b, &s);
}

static const char *softmax(const wfi_cpu *d, wfi_bind *b)
{
    return plain(d, b, WFI_ROW_SOFTMAX, b->attr->softmax.axis);
}
static const char *softmax_grad(const wfi_cpu *d, wfi_bind *b)
{
    return plain(d, b, WFI_ROW_SOFTMAX_GRAD, b->attr->softmax_grad.axis);
}
static const char *log_softmax(const wfi_cpu *d, wfi_bind *b)
{
    return plain(d, b, WFI_ROW_LOG_SOFTMAX, b->attr->log_softmax.axis);
}
static const char *log_softmax_grad(const wfi_cpu *d, wfi_bind *b)
{
    return plain(d, b, WFI_ROW_LOG_SOFTMAX_GRAD, b->attr->log_softmax_grad.axis);
}

static const char *cross_entropy(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_attr_cross_entropy_rows *a = &b->attr->cross_entropy_rows;
    wfi_row_spec s = { .kind = WFI_ROW_XENT,
                       .axis = b->in->ndim - 1,
                       .threads = b->threads,
                       .v = { &b->out[0], &b->out[1], &b->in[0], &b->in[1] },
                       .ignore = a->has_ignore ? a->ignore : INT64_MIN,
                       .smoothing = a->smoothing };
    b->faults = true;
    return row(d, b, &s);
}

static const char *cross_entropy_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_attr_cross_entropy_rows_grad *a = &b->attr->cross_entropy_rows_grad;
    wfi_row_spec s = { .kind = WFI_ROW_XENT_GRAD,
                       .axis = b->in->ndim - 1,
                       .threads = b->threads,
                       .v = { b->out, &b->in[0], &b->in[1], &b->in[2] },
                       .ignore = a->has_ignore ? a->ignore : INT64_MIN,
                       .smoothing = a->smoothing };
    b->faults = true;
    b->inplace = 1;
    return row(d, b, &s);
}

static const wfi_view *given(const wfi_bind *b, int32_t i)
{
    return i < b->nin && b->in[i].dtype != WF_DTYPE_NONE ? &b->in[i] : NULL;
}

static const char *bind_norm(const wfi_cpu *d, wfi_bind *b, const wfi_row_spec *s, const int8_t *from)
{
    const char *why = d->row->prepare(s, b->params, &b->scratch);
    why = why ? why : wfi_impl_choose(d, b, d->row->choices, b->params);
    if (!why)
        wfi_impl_placed(b, d->row->run, from, WFI_ROW_SLOTS);
    return why;
}

static const char *layer_norm(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *gamma = given(b, 1), *beta = given(b, 2);
    wfi_row_spec s = { .kind = WFI_ROW_NORM,
                       .axis = b->in->ndim - 1,
                       .threads = b->threads,
                       .v = { b->out, NULL, NULL, &b->in[0], gamma, beta },
                       .eps = b->attr->layer_norm.eps };
    const int8_t from[WFI_ROW_SLOTS] = { 0, -1, -1, 1, gamma ? 2 : -1, beta ? 3 : -1 };
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->inplace = 1;
    return bind_norm(d, b, &s, from);
}

static const char *layer_norm_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *gamma = given(b, 2);
    wfi_row_spec s = { .kind = WFI_ROW_NORM_GRAD,
                       .axis = b->in->ndim - 1,
                       .threads = b->threads,
                       .v = { b->out, &b->in[0], gamma, &b->in[1] },
                       .eps = b->attr->layer_norm_grad.eps };
    const int8_t from[WFI_ROW_SLOTS] = { 0, 1, gamma ? 3 : -1, 2, -1, -1 };
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->inplace = 3;
    return bind_norm(d, b, &s, from);
}

static const char *layer_norm_param_grad(const wfi_cpu *d, wfi_bind *b)
{
    wfi_row_spec s = { .kind = WFI_ROW_NORM_PARAM_GRAD,
                       .axis = b->in->ndim - 1,
                       .threads = b->threads,
                       .v = { &b->out[0], &b->out[1], &b->in[0], &b->in[1] },
                       .eps = b->attr->layer_norm_param_grad.eps };
    return row(d, b, &s);
}

#define LANES "32 lanes, one tree"
static const wfi_impl impls[] = {
    { WFI_OP_softmax, "cpu.softmax", LANES, softmax },
    { WFI_OP_softmax_grad, "cpu.softmax_grad", LANES, softmax_grad },
    { WFI_OP_log_softmax, "cpu.log_softmax", LANES, log_softmax },
    { WFI_OP_log_softmax_grad, "cpu.log_softmax_grad", LANES, log_softmax_grad },
    { WFI_OP_cross_entropy_rows, "cpu.cross_entropy", LANES, cross_entropy },
    { WFI_OP_cross_entropy_rows_grad, "cpu.cross_entropy_grad", LANES, cross_entropy_grad },
    { WFI_OP_layer_norm, "cpu.layer_norm", LANES, layer_norm },
    { WFI_OP_layer_norm_grad, "cpu.layer_norm_grad", LANES, layer_norm_grad },
    { WFI_OP_layer_norm_param_grad, "cpu.layer_norm_param_grad", LANES, layer_norm_param_grad },
};
const wfi_impl_list wfi_impls_row = { impls, sizeof impls / sizeof *impls };
