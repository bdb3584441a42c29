/* Autocast: where a scope asks for 16-bit arithmetic, each call casts its operands as the operator's definition says
 * (.autocast) before it is recorded or run. The casts are ordinary operators of the program: gradients flow through
 * them, back to the f32 variables, and every mode sees the same ones.
 *
 *     matmul x w            x32 = variable w : f32[8,4]         low: f32 operands are cast down
 *     add y b          ->   w16 = cast x32 dtype=bf16           (in a scope with .autocast = WF_BF16)
 *                           y   = matmul x16 w16
 *
 * What is cast depends on the scopes and on the records before, so the event AUTOCAST stands in the trace wherever that
 * changes: the same call at the same place of the same trace is cast alike. Bodies of composites and lowerings say what
 * their types are; nothing is cast there. */
#include "record/emit.h"

/* ---- what a scope asks for ---- */

bool wfi_autocast_allows(wf_dtype dtype)
{
    return dtype == WF_DTYPE_NONE || dtype == WF_F32 || dtype == WF_BF16 || dtype == WF_F16;
}

wf_dtype wfi_autocast_of(wf_dtype asked, wf_dtype around)
{
    return asked == WF_DTYPE_NONE ? around : asked == WF_F32 ? WF_DTYPE_NONE : asked;
}

void wfi_autocast_note(wf_ctx *c)
{
    if (c->r.autocast == c->autocast || !wfi_step_tells(c))
        return;
    c->r.autocast = c->autocast;
    wfi_emit_record(c, WFI_KEY(WFI_EV_AUTOCAST, c->autocast, 0), WFI_NONE, WFI_NONE, WFI_NONE, 0, NULL);
}

wf_dtype wfi_autocast_set(wf_ctx *c, wf_dtype dtype)
{
    wf_dtype was = c->autocast;
    if (WFI_LIKELY(was == dtype))
        return was;
    c->autocast = dtype;
    wfi_autocast_note(c);
    return was;
}

/* ---- one call ---- */

static bool is_low(wf_dtype d)
{
    return d == WF_BF16 || d == WF_F16;
}

static bool is_float(wf_dtype d)
{
    return d == WF_F64 || d == WF_F32 || is_low(d);
}

/* Two 16-bit types have none in common but f32. */
static wf_dtype wider(wf_dtype a, wf_dtype b)
{
    if (a == b || !a)
        return b;
    return a == WF_F64 || b == WF_F64 ? WF_F64 : WF_F32;
}

/* Operands of one class must be of one type. */
static uint8_t class_of(const wfi_op_info *op, uint32_t i)
{
    return op->tin[1] == WFI_T_END ? op->tin[0] : i < sizeof op->tin ? op->tin[i] : WFI_T_END;
}

static bool is_class(uint8_t class)
{
    return class == WFI_T_FLOAT || class == WFI_T_NUM || class == WFI_T_ALL || class == WFI_T_ANY;
}

/* The type of an operand that may be cast, else none. What is wrong with it the call itself will say. */
static wf_dtype castable(const wf_ctx *c, const wfi_op_info *op, uint32_t i, const wf_tensor *t)
{
    if (!t || t->ctx != c || t->flags & (WFI_H_WEAK | WFI_H_DEAD) || !is_class(class_of(op, i)))
        return WF_DTYPE_NONE;
    const uint32_t type = wfi_tensor_type(t);
    const wf_dtype d = type ? wfi_type_at(&c->ids, type)->dtype : WF_DTYPE_NONE;
    return is_float(d) ? d : WF_DTYPE_NONE;
}

static wf_dtype widest(const wf_ctx *c, const wfi_op_info *op, uint8_t class, uint32_t nin, wf_tensor *const *in)
{
    wf_dtype all = WF_DTYPE_NONE;
    for (uint32_t i = 0; i < nin; i++) {
        const wf_dtype d = class_of(op, i) == class ? castable(c, op, i, in[i]) : WF_DTYPE_NONE;
        all = d ? wider(all, d) : all;
    }
    return all;
}

/* What operand i of type d becomes. */
static wf_dtype target(const wf_ctx *c, const wfi_op_info *op, uint32_t i, wf_dtype d, uint32_t nin,
                       wf_tensor *const *in)
{
    const uint8_t class = class_of(op, i);
    if (op->autocast == WFI_AUTOCAST_WIDEST)
        return widest(c, op, class, nin, in);
    if (class != WFI_T_FLOAT && class != WFI_T_NUM)
        return d;
    if (op->autocast == WFI_AUTOCAST_LOW)
        return d == WF_F32 ? c->autocast : d;
    return is_low(d) ? WF_F32 : d;
}

/* The variable whose present value t is; eager steps only. */
static wf_var *variable(const wf_ctx *c, const wf_tensor *t)
{
    if (!c->run_now || !c->in_step || !wfi_in_step(c, t))
        return NULL;
    const uint64_t key = c->r.scratch[t->tag & WFI_NONE].key;
    wf_var *v = WFI_KEY_OP(key) == WFI_EV_VALUE ? c->var[WFI_KEY_PAYLOAD(key)] : NULL;
    return v && v->buf == t->buf ? v : NULL;
}

/* The copy that is there already, as the result of a cast of its own: history is as if it had been made again. */
static wf_tensor *share(wf_ctx *c, const wf_var *v, const wf_tensor *t, wf_dtype to, const char *site)
{
    const wfi_attr_cast a = { .dtype = to };
    const uint32_t layout = wfi_ids_dense(&c->ids, v->low_type), id = wfi_ids_attr(&c->ids, WFI_OP_cast, &a, sizeof a);
    if (!layout || !id)
        return wfi_error_memory(c, "a type", site), NULL;
    v->low->refs++;
    wf_tensor *h = wfi_eager_handle(c, WFI_OP_cast, v->low_type, layout, v->low, site);
    const uint32_t in[3] = { (uint32_t)t->tag & WFI_NONE, WFI_NONE, WFI_NONE };
    return h && !c->notape ? wfi_emit_track(c, h, WFI_KEY(WFI_OP_cast, id, 1) | c->keybits, in) : h;
}

/* In plans equal casts are one node. Eager calls remember the last one of each variable while its contents stay. */
static wf_tensor *cast(wf_ctx *c, wf_tensor *t, wf_dtype to, const char *site)
{
    wf_var *v = variable(c, t);
    if (v && v->low && v->low_version == v->version && wfi_type_at(&c->ids, v->low_type)->dtype == to)
        return share(c, v, t, to, site);
    wf_tensor *y = wf_cast_(t, to, site);
    if (!v || !y)
        return y;
    wfi_autocast_forget(v);
    v->low = y->buf;
    v->low->refs++;
    v->low_type = y->type;
    v->low_version = v->version;
    return y;
}

void wfi_autocast_forget(wf_var *v)
{
    wfi_buf_unref(v->ctx, v->low);
    v->low = NULL;
}

bool wfi_autocast(wf_ctx *c, wfi_op o, uint32_t nin, wf_tensor *const *in, wf_tensor **made, const char *site)
{
    const wfi_op_info *op = &wfi_op_table[o];
    for (uint32_t i = 0; i < nin; i++) {
        const wf_dtype d = castable(c, op, i, in[i]), to = d ? target(c, op, i, d, nin, in) : d;
        made[i] = in[i];
        if (to != d && !(made[i] = cast(c, in[i], to, site)))
            return false;
    }
    return true;
}
