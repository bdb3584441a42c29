/* The pending error of a context: the first one is kept, with everything that helps to find it. */
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "record/record.h"

static void append(wf_ctx *c, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
static void append(wf_ctx *c, const char *format, va_list ap)
{
    size_t n = strlen(c->error);
    vsnprintf(c->error + n, sizeof c->error - n, format, ap);
}

static void scope_path(const wf_ctx *c, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = 0;
    for (uint32_t i = 1; i <= c->depth && n + 1 < bytes; i++) {
        int k = snprintf(text + n, bytes - n, "%s%s", n ? "/" : "", c->frame[i].name ? c->frame[i].name : "?");
        n += k > 0 ? (size_t)k : 0;
    }
}

bool wfi_error_set(wf_ctx *c, wf_status status, const char *op, const char *site, const char *format, ...)
{
    if (c->status != WF_OK)
        return false;
    if (c->r.tr) /* the prefix must be ours to be run at the end of the step */
        wfi_trace_leave(c, (uint32_t)(c->r.cursor - c->r.base));
    c->status = status;
    c->error_read = false;
    c->error_n = c->r.n;
    c->r.cursor = &wfi_record_sentinel;
    c->error[0] = 0;
    if (op && *op)
        snprintf(c->error, sizeof c->error, "%s: ", op);
    va_list ap;
    va_start(ap, format);
    append(c, format, ap);
    va_end(ap);
    char path[256];
    scope_path(c, path, sizeof path);
    if (site)
        wfi_error_add(c, "\n  at %s%s%s", site, path[0] ? ", scope " : "", path);
    return true;
}

void wfi_error_add(wf_ctx *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    append(c, format, ap);
    va_end(ap);
}

wf_status wfi_error_memory(wf_ctx *c, const char *what, const char *site)
{
    size_t live = atomic_load(&c->mem->live);
    wfi_error_set(c, WF_ERR_MEMORY, "", site, "out of memory for %s: %zu bytes are in use%s", what, live,
                  c->mem->limit ? ", limited" : "");
    if (c->mem->limit)
        wfi_error_add(c, " to %zu", c->mem->limit);
    return WF_ERR_MEMORY;
}

static uint32_t maker(const wf_ctx *c, const wf_tensor *t, uint32_t *payload)
{
    uint64_t ord = t->tag & WFI_NONE;
    *payload = 0;
    if (!wfi_in_step(c, t) || (c->run_now && !c->in_step))
        return t->op;
    if (!c->run_now && !c->r.tr && ord >= c->r.n)
        return t->op;
    *payload = WFI_KEY_PAYLOAD(c->r.base[ord].key);
    return WFI_KEY_OP(c->r.base[ord].key);
}

const char *wfi_error_maker(wf_ctx *c, const wf_tensor *t, char *text, size_t bytes)
{
    uint32_t payload, op = maker(c, t, &payload);
    if (op == WFI_EV_VALUE && payload < c->nvar)
        snprintf(text, bytes, "variable %s", c->var[payload]->name);
    else if (op == WFI_EV_SCALAR || op == WFI_EV_CONST || op == WFI_EV_HOST || (t->flags & WFI_H_WEAK))
        snprintf(text, bytes, "a number");
    else if (op == WFI_EV_FLOW && payload)
        snprintf(text, bytes, "result of %s", wfi_flow_name(wfi_attr_data(&c->ids, payload)));
    else if (op < WFI_OP_COUNT)
        snprintf(text, bytes, "result of %s", wfi_op_table[op].name);
    else
        snprintf(text, bytes, "a tensor from outside the step");
    return text;
}

/* What a cast was made from, where that is known: the line behind autocast is that of the failed call itself. */
static const wf_tensor *uncast(wf_ctx *c, const wf_tensor *t)
{
    uint32_t payload;
    if (!wfi_in_step(c, t) || maker(c, t, &payload) != WFI_OP_cast)
        return t;
    const uint32_t from = c->r.base[t->tag & WFI_NONE].in[0];
    return from != WFI_NONE && c->r.H[from] ? c->r.H[from] : t;
}

void wfi_error_operands(wf_ctx *c, const wfi_op_info *op, int32_t nin, wf_tensor *const *in)
{
    for (int32_t i = 0; i < nin && i < 4; i++) {
        if (!in[i])
            continue;
        char what[160], type[96];
        const char *name = op && op->operand && !(op->flags & WFI_OP_MANY) ? op->operand[i] : NULL;
        const wf_tensor *from = uncast(c, in[i]);
        int n = from == in[i] ? 0 : snprintf(what, sizeof what, "cast of ");
        wfi_error_maker(c, from, what + n, sizeof what - (size_t)n);
        if (in[i]->flags & WFI_H_WEAK)
            snprintf(type, sizeof type, "number");
        else
            wfi_type_text(&c->ids, wfi_tensor_type(in[i]), type, sizeof type);
        if (name)
            wfi_error_add(c, "\n  %s: %s, %s, %s", name, what, type, from->site ? from->site : "?");
        else
            wfi_error_add(c, "\n  operand %d: %s, %s, %s", (int)i, what, type, from->site ? from->site : "?");
    }
}

const char *wf_error(wf_ctx *c)
{
    if (!c || c->status == WF_OK)
        return NULL;
    c->error_read = true;
    return c->error;
}

wf_status wf_error_status(const wf_ctx *c)
{
    return c ? c->status : WF_ERR_ARG;
}

void wf_error_clear(wf_ctx *c)
{
    if (c) {
        c->status = WF_OK;
        c->error[0] = 0;
        c->r.owner = WFI_NONE; /* a composite that failed is gone as a whole */
        wfi_autocast_note(c);  /* scopes may have begun or ended since the error */
        wfi_contract_note(c);
    }
}
