#include "codegen/render.h"
#include <string.h>
#include "base/dtype.h"
#include "kernel/ew/ew.h"

typedef enum row_class { CLASS_FLOAT, CLASS_NUM, CLASS_BOOL, CLASS_ALL, CLASS_COND } row_class;

static const struct row {
    const char *name, *body;
    uint8_t arity, class, to_bool;
} rows[WFI_ROWOF_COUNT] = {
#define WFI_EW(name_, arity_, class_, to_bool_, ...)                                                                   \
    [WFI_ROWOF_##name_] = {                                                                                            \
        .name = #name_, .body = #__VA_ARGS__, .arity = (arity_), .class = CLASS_##class_, .to_bool = (to_bool_)        \
    },
#include "ew_rows.inc"
#undef WFI_EW
};

/* How a value lies in memory, is held between ops, and enters a row. 16-bit floats are held widened; each op rounds. */
static const struct held {
    const char *stored, *value, *enters, *load, *round, *store;
} held[WF_DTYPE_COUNT] = {
    [WF_F32] = { "float", "float", "float", "", "", "" },
    [WF_F64] = { "double", "double", "double", "", "", "" },
    [WF_BF16] = { "uint16_t", "float", "float", "wfi_half_of_bf16", "as_bf16", "wfi_half_to_bf16" },
    [WF_F16] = { "uint16_t", "float", "float", "wfi_half_of_f16", "as_f16", "wfi_half_to_f16" },
    [WF_I64] = { "int64_t", "int64_t", "int64_t", "", "", "" },
    [WF_I32] = { "int32_t", "int32_t", "int32_t", "", "", "" },
    [WF_U8] = { "uint8_t", "uint8_t", "int32_t", "", "", "" },
    [WF_BOOL] = { "uint8_t", "uint8_t", "int32_t", "", "", "" },
};

static bool is_cast(const wfi_code_op *o)
{
    return o->row == WFI_FUSED_CAST;
}

static wf_dtype result_type(const wfi_code_op *o)
{
    return is_cast(o) ? (wf_dtype)o->to : rows[o->row].to_bool ? WF_BOOL : (wf_dtype)o->dtype;
}

static int arity(const wfi_code_op *o)
{
    return is_cast(o) ? 1 : rows[o->row].arity;
}

/* "add_f32", "cast_f32_bf16" */
static void name(const wfi_code_op *o, wfi_text *t)
{
    wfi_text_addf(t, "%s_%s", is_cast(o) ? "cast" : rows[o->row].name, wf_dtype_name((wf_dtype)o->dtype));
    if (is_cast(o))
        wfi_text_addf(t, "_%s", wf_dtype_name(result_type(o)));
}

/* To f32 and f64 from everything that fits in one step; to 16 bits from what is held as f32. */
bool wfi_code_can(const wfi_code_spec *s)
{
    for (int q = 0; q < s->nop; q++) {
        const wfi_code_op *o = &s->op[q];
        const bool held_f32 = o->dtype == WF_F32 || o->dtype == WF_BF16 || o->dtype == WF_F16 || o->dtype == WF_BOOL;
        if (!is_cast(o))
            continue;
        if (o->to == WF_BF16 || o->to == WF_F16 ? !held_f32 : o->to != WF_F32 && o->to != WF_F64)
            return false;
        if (!held[o->dtype].value || o->dtype == WF_I64)
            return false;
    }
    return true;
}

static bool seen_before(const wfi_code_spec *s, int q)
{
    for (int k = 0; k < q; k++)
        if (s->op[k].row == s->op[q].row && s->op[k].dtype == s->op[q].dtype && s->op[k].to == s->op[q].to)
            return true;
    return false;
}

/* Each row, for each type that it is used with, is a function of its own. */
static void row_functions(const wfi_code_spec *s, wfi_text *t)
{
    for (int q = 0; q < s->nop; q++) {
        static const struct row cast = { .body = "a", .arity = 1, .class = CLASS_NUM };
        const wfi_code_op *o = &s->op[q];
        const struct row *r = is_cast(o) ? &cast : &rows[o->row];
        const struct held *h = &held[o->dtype], *y = &held[result_type(o)];
        if (seen_before(s, q))
            continue;
        wfi_text_addf(t, "OP %s ", y->value);
        name(o, t);
        wfi_text_addc(t, '(');
        for (int a = 0; a < r->arity; a++) {
            const char *type = r->class != CLASS_COND ? h->enters : a == 0 ? "uint8_t" : h->value;
            wfi_text_addf(t, "%s%s %c", a ? ", " : "", type, "abc"[a]);
        }
        bool rounds = r->class != CLASS_COND && !r->to_bool && *y->round;
        wfi_text_addf(t, ")\n{\n    return (%s)%s(%s);\n}\n", y->value, rounds ? y->round : "", r->body);
    }
}

static void operands(const wfi_code_spec *s, const wfi_code_op *o, wfi_text *t)
{
    for (int a = 0; a < arity(o); a++) {
        const int k = o->in[a];
        const char *sep = a ? ", " : "";
        if (k >= s->nin)
            wfi_text_addf(t, "%st%d", sep, k - s->nin);
        else
            wfi_text_addf(t, s->splat >> k & 1 ? "%ss%d" : "%sx%d", sep, k);
    }
}

/* L elements: inputs that move (i), single elements (s), results (r). */
static void block(const wfi_code_spec *s, wfi_text *t)
{
    wfi_text_add(t, "OP void block(");
    for (int k = 0; k < s->nout; k++)
        wfi_text_addf(t, "%s%s *r%d", k ? ", " : "", held[result_type(&s->op[s->out[k]])].stored, k);
    for (int k = 0; k < s->nin; k++)
        if (s->splat >> k & 1)
            wfi_text_addf(t, ", %s s%d", held[s->dtype[k]].value, k);
        else
            wfi_text_addf(t, ", const %s *i%d", held[s->dtype[k]].stored, k);
    wfi_text_add(t, ")\n{\n    LANES for (int l = 0; l < L; l++) {\n");
    for (int k = 0; k < s->nin; k++)
        if (!(s->splat >> k & 1)) {
            const struct held *h = &held[s->dtype[k]];
            wfi_text_addf(t, "        const %s x%d = %s(i%d[l]);\n", h->value, k, h->load, k);
        }
    for (int q = 0; q < s->nop; q++) {
        const wfi_code_op *o = &s->op[q];
        wfi_text_addf(t, "        const %s t%d = ", held[result_type(o)].value, q);
        name(o, t);
        wfi_text_addc(t, '(');
        operands(s, o, t);
        wfi_text_add(t, ");\n");
    }
    for (int k = 0; k < s->nout; k++)
        wfi_text_addf(t, "        r%d[l] = %s(t%d);\n", k, held[result_type(&s->op[s->out[k]])].store, s->out[k]);
    wfi_text_add(t, "    }\n}\n");
}

static void call_block(const wfi_code_spec *s, wfi_text *t)
{
    wfi_text_add(t, "        block(");
    for (int k = 0; k < s->nout; k++)
        wfi_text_addf(t, "%sr%d", k ? ", " : "", k);
    for (int k = 0; k < s->nin; k++)
        wfi_text_addf(t, s->splat >> k & 1 ? ", s%d" : ", q%d", k);
    wfi_text_add(t, ");\n");
}

/* Results are made in a block of their own and then put where they go: a result may take the place of an input. */
static void kernel(const wfi_code_spec *s, wfi_text *t)
{
    wfi_text_add(t, "void " WFI_CODE_SYMBOL "(void *const *at, int64_t n, int streams)\n{\n");
    for (int k = 0; k < s->nout; k++) {
        const char *type = held[result_type(&s->op[s->out[k]])].stored;
        wfi_text_addf(t, "    %s *y%d = at[%d];\n    _Alignas(64) %s r%d[L];\n", type, k, k, type, k);
    }
    for (int k = 0; k < s->nin; k++) {
        const struct held *h = &held[s->dtype[k]];
        const int at = s->nout + k;
        if (s->splat >> k & 1)
            wfi_text_addf(t, "    const %s s%d = %s(*(const %s *)at[%d]);\n", h->value, k, h->load, h->stored, at);
        else
            wfi_text_addf(t, "    const %s *i%d = at[%d];\n    _Alignas(64) %s p%d[L];\n", h->stored, k, at, h->stored,
                          k);
    }
    wfi_text_add(t, "    for (int64_t i = 0; i < n; i += L) {\n        const int64_t m = n - i < L ? n - i : L;\n");
    for (int k = 0; k < s->nin; k++)
        if (!(s->splat >> k & 1))
            wfi_text_addf(t, "        INPUT(%s, q%d, i%d, p%d)\n", held[s->dtype[k]].stored, k, k, k);
    call_block(s, t);
    for (int k = 0; k < s->nout; k++)
        wfi_text_addf(t, "        RESULT(y%d, r%d)\n", k, k);
    wfi_text_add(t, "    }\n    STREAM_END\n}\n");
}

void wfi_code_render(const wfi_code_spec *s, wfi_text *t)
{
    row_functions(s, t);
    block(s, t);
    kernel(s, t);
}
