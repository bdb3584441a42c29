/* Batch norm in training and its gradients: composites that few passes over x do faster than their lowering. */
#include "device/cpu/cpu.h"
#include "kernel/batchnorm/batchnorm.h"

static const wfi_view *given(const wfi_bind *b, int32_t i)
{
    return i < b->nin && b->in[i].dtype != WF_DTYPE_NONE ? &b->in[i] : NULL;
}

static const char *bind(const wfi_cpu *d, wfi_bind *b, const wfi_batchnorm_spec *s, const int8_t *from)
{
    const char *why = d->batchnorm->prepare(s, b->params, &b->scratch);
    if (!why)
        wfi_impl_placed(b, d->batchnorm->run, from, WFI_BATCHNORM_SLOTS);
    return why;
}

static const char *train(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *gamma = given(b, 1), *beta = given(b, 2);
    const wfi_batchnorm_spec s = { .kind = WFI_BATCHNORM_TRAIN,
                                   .threads = b->threads,
                                   .v = { &b->out[0], &b->out[1], &b->out[2], &b->in[0], gamma, beta },
                                   .eps = b->attr->batch_norm_train.eps };
    const int8_t from[WFI_BATCHNORM_SLOTS] = { 0, 1, 2, 3, gamma ? 4 : -1, beta ? 5 : -1, -1, -1 };
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->inplace = 1;
    return bind(d, b, &s, from);
}

static const char *train_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *gamma = given(b, 4), *out = b->out, *in = b->in;
    const wfi_batchnorm_spec s = { .kind = WFI_BATCHNORM_GRAD,
                                   .threads = b->threads,
                                   .v = { &out[0], &out[1], &out[2], &in[0], &in[1], &in[2], &in[3], gamma },
                                   .eps = b->attr->batch_norm_train_grad.eps };
    const int8_t from[WFI_BATCHNORM_SLOTS] = { 0, 1, 2, 3, 4, 5, 6, gamma ? 7 : -1 };
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->inplace = 3;
    return bind(d, b, &s, from);
}

#define ORDER "groups of 4, blocks of 128, joined in f64"
static const wfi_impl impls[] = {
    { WFI_OP_batch_norm_train, "cpu.batch_norm", ORDER, train },
    { WFI_OP_batch_norm_train_grad, "cpu.batch_norm_grad", ORDER, train_grad },
};
const wfi_impl_list wfi_impls_batchnorm = { impls, sizeof impls / sizeof *impls };
