/* Fused nodes: the rows of a body for the tile machine, and the request for a kernel that does all of them. */
#include "codegen/generator.h"
#include "device/cpu/cpu.h"
#include "graph/body.h"
#include "kernel/fused/fused.h"

static wf_dtype type_of(const wfi_body *body, const wfi_bind *b, uint16_t in)
{
    return in < body->nin ? b->in[in].dtype : (wf_dtype)body->op[in - body->nin].dtype;
}

/* The tile machine runs the group until the compiler has done its work, or for ever where there is none. */
static void ask_code(const wfi_cpu *d, const wfi_fused_spec *s, const wfi_body *body, wfi_bind *b)
{
    wfi_code_spec c = {
        .splat = d->fused->splat(b->params), .nin = (uint8_t)s->nin, .nout = (uint8_t)s->nout, .nop = (uint8_t)s->nop
    };
    for (int i = 0; i < s->nin; i++)
        c.dtype[i] = (uint8_t)b->in[i].dtype;
    for (int k = 0; k < s->nout; k++)
        c.out[k] = s->out[k];
    for (int q = 0; q < s->nop; q++) {
        const wfi_body_op *o = &body->op[q];
        c.op[q].row = s->op[q].row;
        c.op[q].dtype = (uint8_t)type_of(body, b, o->in[o->nin - 1]);
        c.op[q].to = s->op[q].row == WFI_FUSED_CAST ? (uint8_t)o->dtype : 0;
        for (int a = 0; a < o->nin; a++)
            c.op[q].in[a] = s->op[q].in[a];
    }
    if (!wfi_code_can(&c))
        return; /* a cast that needs more than a line */
    const wfi_code *code = wfi_generator_ask(d->base.generator, &c);
    if (code) {
        d->fused->attach(b->params, code);
        b->how = &code->how;
    }
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
        const bool cast = o->op == WFI_OP_cast;
        f->fn = cast ? NULL : d->ew->fn[wfi_op_table[o->op].ew][type_of(body, b, o->in[o->nin - 1])];
        f->dtype = (wf_dtype)o->dtype;
        f->row = cast ? WFI_FUSED_CAST : (uint8_t)wfi_op_table[o->op].ew;
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
    const char *why = d->fused->prepare(&s, b->params, &b->scratch);
    if (!why)
        ask_code(d, &s, body, b);
    return why;
}

static const wfi_impl impls[] = { { WFI_NODE_FUSED, "cpu.fused", "", bind } };
const wfi_impl_list wfi_impls_fused = { impls, sizeof impls / sizeof *impls };
