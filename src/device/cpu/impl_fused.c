/* Fused nodes: the rows of a body for the tile machine. */
#include "device/cpu/cpu.h"
#include "graph/body.h"
#include "kernel/fused/fused.h"

static wf_dtype type_of(const wfi_body *body, const wfi_bind *b, uint16_t in)
{
    return in < body->nin ? b->in[in].dtype : (wf_dtype)body->op[in - body->nin].dtype;
}

static const char *bind(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_body *body = (const wfi_body *)(const void *)b->attr;
    wfi_view in[WFI_FUSED_IN];
    wfi_fused_spec s = { .nin = b->nin, .nout = b->nout, .nop = (int32_t)body->nop, .threads = b->threads };
    _Static_assert((int)WFI_BODY_OPS <= (int)WFI_FUSED_OPS && WFI_FUSED_PARAMS <= WFI_BIND_PARAMS, "a body fits");
    wfi_impl_first_layout(b);
    for (int32_t k = 0; k < b->nout; k++) {
        s.view[k] = &b->out[k];
        s.out[k] = (uint8_t)body->out[k];
    }
    for (int32_t i = 0; i < b->nin; i++) {
        wfi_impl_broadcast(&b->in[i], b->out, &in[i]);
        s.view[b->nout + i] = &in[i];
    }
    for (uint32_t q = 0; q < body->nop; q++) {
        const wfi_body_op *o = &body->op[q];
        wfi_fused_op *f = &s.op[q];
        f->fn = d->ew->fn[wfi_op_table[o->op].ew][type_of(body, b, o->in[o->nin - 1])];
        f->dtype = (wf_dtype)o->dtype;
        f->arity = (uint8_t)o->nin;
        for (int a = 0; a < 3; a++)
            f->in[a] = (uint8_t)o->in[a];
    }
    for (int32_t k = 0; k < b->nout; k++) {
        b->inplace_of[k] = 0;
        for (int32_t i = 0; i < b->nin; i++)
            if (wfi_fused_inplace(&s, k, i))
                b->inplace_of[k] |= 1u << i;
    }
    b->inplace = b->inplace_of[0];
    b->fn = d->fused->run;
    b->params_bytes = WFI_FUSED_PARAMS;
    return d->fused->prepare(&s, b->params, &b->scratch);
}

static const wfi_impl impls[] = { { WFI_NODE_FUSED, "cpu.fused", "", bind } };
const wfi_impl_list wfi_impls_fused = { impls, sizeof impls / sizeof *impls };
