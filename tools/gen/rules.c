/* rules.c - what every definition must have, its axis map, and what follows from both: flags and linearity. */
#include "gen.h"
#include "graph/axis_tmpl.h"
#include "ops/op_types.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line of a position in a field that may be several literals on several lines. */
static int line_at(const op *o, const char *key, size_t column)
{
    for (int i = 0; i < o->nf; i++)
        if (strcmp(o->f[i].key, key) == 0) {
            int line = o->f[i].line;
            for (int k = 0; k < o->f[i].npiece; k++)
                if (o->f[i].piece[k].at < column)
                    line = o->f[i].piece[k].line;
            return line;
        }
    return o->line;
}
static bool given(const op *o, const char *key)
{
    const char *v = get(o, key);
    return v && *v;
}

static void presence(const op *o)
{
    if (!o->doc || !*o->doc)
        error(o->file, o->line, o->name, "no comment above it", "it is the manual page");
    if (!given(o, "grad") && !given(o, "nograd") && !(o->row && o->composite))
        error(o->file, o->line, o->name, "no gradient",
              o->row ? "give one expression for each operand, or \"none: why\""
                     : "give .grad, or .nograd = \"why there is none\"");
    if (!given(o, "lower") && given(o, "grad") && strcmp(get(o, "grad"), "wfi_grad_lowered") == 0 && !o->row)
        error(o->file, line_of(o, "grad"), o->name, "there is no lowering to take the gradient from", "");
    if (given(o, "grad") && given(o, "nograd"))
        error(o->file, line_of(o, "nograd"), o->name, "both .grad and .nograd", "");
    if (!given(o, "samples"))
        error(o->file, o->line, o->name, "no samples",
              o->row ? "give a range for each operand, \"-3..3; 1..3\""
                     : "give .samples = \"f32[2,3] ...\"; every mode is tested on them");
    if (o->row) {
        if (!given(o, "body"))
            error(o->file, o->line, o->name, "no body", "give scalar code, or \"= ...\" over other rows");
        if (!o->composite && !given(o, "ref"))
            error(o->file, o->line, o->name, "no reference", "give it in doubles, with the names of libm");
        return;
    }
    if (!given(o, "call"))
        error(o->file, o->line, o->name, "no .call", "it names operands, attributes and options");
    if (!given(o, "axes") && !given(o, "map"))
        error(o->file, o->line, o->name, "no axis map", "give .axes, or .map where shapes decide");
    if (!given(o, "lower") && !given(o, "primitive"))
        error(o->file, o->line, o->name, "no lowering", "give .lower (a composite) or .primitive (scalar code)");
    if (given(o, "lower") && given(o, "primitive"))
        error(o->file, line_of(o, "primitive"), o->name, "both .lower and .primitive", "");
    if (given(o, "primitive") && !given(o, "ref"))
        error(o->file, o->line, o->name, "no reference", "give .ref; wfi_ref_sum serves products, sums and movement");
    if (given(o, "reduce") && !given(o, "primitive"))
        error(o->file, line_of(o, "reduce"), o->name, ".reduce belongs to primitives", "");
}

static bool parse_map(op *o)
{
    char attrs[600] = "", err[WFI_AXIS_ERR], what[WFI_AXIS_ERR + 20];
    const char *axes = o->row ? o->arity == 1   ? "a[..] -> y[..]"
                                : o->arity == 2 ? "a[..] b[..] -> y[..]"
                                                : "a[..] b[..] c[..] -> y[..]"
                              : get(o, "axes");
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == ATTR)
            snprintf(attrs + strlen(attrs), sizeof attrs - strlen(attrs), "%s ", o->p[i].name);
    if (wfi_axis_parse(axes, attrs, &o->map, err, sizeof err))
        return o->has_map = true;
    const char *at = strstr(err, "at column ");
    snprintf(what, sizeof what, "axis map: %s", err);
    error(o->file, line_at(o, "axes", at ? (size_t)strtol(at + 10, NULL, 10) : 0), o->name, what,
          "src/graph/axis.h has the grammar");
    return false;
}
/* The operands of .call and of .axes must be the same, in order. */
static bool match_operands(const op *o)
{
    int slot = 0, n = wfi_axis_inputs(o->map.b);
    char what[160];
    for (int i = 0; i < o->np; i++) {
        if (o->p[i].kind > TENSOR_MANY)
            continue;
        const char *want = slot < n ? wfi_axis_operand_name(o->map.b, slot) : "nothing";
        if (strcmp(want, o->p[i].name) != 0 || (o->p[i].kind == TENSOR_MANY) != wfi_axis_many(o->map.b, slot)) {
            snprintf(what, sizeof what, "operand %s of .call is %s in .axes", o->p[i].name, want);
            error(o->file, line_of(o, "axes"), o->name, what, "both name the operands in the same order");
            return false;
        }
        slot++;
    }
    if (slot < n) {
        snprintf(what, sizeof what, "operand %s of .axes is not in .call", wfi_axis_operand_name(o->map.b, slot));
        error(o->file, line_of(o, "axes"), o->name, what, "");
        return false;
    }
    if (wfi_axis_results(o->map.b) != o->nout) {
        snprintf(what, sizeof what, ".axes has %d results, .outputs %d", wfi_axis_results(o->map.b), o->nout);
        error(o->file, line_of(o, "axes"), o->name, what, "give .outputs = \"y, ...\"");
        return false;
    }
    for (int r = 0; r < o->nout; r++)
        if (get(o, "outputs") && strcmp(wfi_axis_operand_name(o->map.b, slot + r), o->out[r]) != 0) {
            snprintf(what, sizeof what, "result %s of .outputs is %s in .axes", o->out[r],
                     wfi_axis_operand_name(o->map.b, slot + r));
            error(o->file, line_of(o, "axes"), o->name, what, "");
            return false;
        }
    return true;
}
static bool is_index(const axis_tmpl *t, int slot)
{
    for (int i = 0; i < t->nitem; i++)
        if (t->item[i].look == t->op[slot].name)
            return true;
    return false;
}
static bool carries(const axis_tmpl *t, int slot, int name)
{
    for (int i = 0; i < t->op[slot].n; i++) {
        const axis_item *it = &t->item[t->op[slot].first + i];
        for (int j = 0; j < it->n; j++)
            if (t->term[it->first + j].name == name)
                return true;
    }
    return false;
}
static bool is_table(const axis_tmpl *t, int slot)
{
    for (int i = 0; i < t->op[slot].n; i++)
        if (t->item[t->op[slot].first + i].look >= 0)
            return true;
    return false;
}
/* Primitives: every operand begins with a run (the batch of vmap; a table that is looked up may do without), and every
 * data operand carries every reduced factor (else it would be added once for every shard). */
static void primitive_rules(const op *o)
{
    axis_tmpl t;
    char what[160], cure[120];
    wfi_axis_tmpl_unpack(o->map.b, &t);
    for (int i = 0; i < t.nin; i++)
        if (!wfi_axis_leading_run(o->map.b, i) && !is_table(&t, i)) {
            snprintf(what, sizeof what, "operand %s of a primitive must begin with a run", t.name[t.op[i].name]);
            snprintf(cure, sizeof cure, "write %s[.. ...], it is the batch of vmap", t.name[t.op[i].name]);
            error(o->file, line_of(o, "axes"), o->name, what, cure);
        }
    for (int i = 0; i < t.nitem && get(o, "reduce"); i++)
        for (int j = 0; j < t.item[i].n; j++) {
            int f = t.term[t.item[i].first + j].name;
            bool out = f < 0 || t.item[i].look >= 0 || (t.item[i].marks & WFI_WHOLE) || i >= t.op[t.nin].first;
            for (int r = t.nin; r < t.nslot; r++)
                out |= carries(&t, r, f);
            for (int k = 0; k < t.nin && !out; k++)
                if (!is_index(&t, k) && !carries(&t, k, f)) {
                    snprintf(what, sizeof what, "operand %s lacks the reduced axis %s", t.name[t.op[k].name],
                             t.name[f]);
                    error(o->file, line_of(o, "axes"), o->name, what, "it would be added once for every shard");
                    return;
                }
        }
}

/* ---- flags and linearity ---- */

bool by_lowering(const op *o)
{
    const char *grad = get(o, "grad");
    return o->composite && grad && (o->row ? !*grad : strcmp(grad, "wfi_grad_lowered") == 0);
}
static void set_flags(op *o)
{
    const char *prim = get(o, "primitive"), *reduce = get(o, "reduce");
    static const char *const monoids[] = { "sum", "max", "min", "prod", "or", "and" };
    bool good = !reduce;
    for (int i = 0; reduce && i < 6; i++)
        good |= strcmp(monoids[i], reduce) == 0;
    if (!good)
        error(o->file, line_of(o, "reduce"), o->name, ".reduce is none of sum max min prod or and", "");
    o->composite |= given(o, "lower");
    o->flags = o->composite ? WFI_OP_COMPOSITE : WFI_OP_PRIMITIVE;
    if (o->row && !o->composite)
        o->flags |= WFI_OP_EW;
    if (o->many)
        o->flags |= WFI_OP_MANY;
    if (given(o, "nograd"))
        o->flags |= WFI_OP_NOGRAD;
    if (reduce)
        o->flags |= WFI_OP_REDUCE;
    for (int i = 0; i < o->np && prim; i++) {
        char move[80];
        snprintf(move, sizeof move, "%s = %s", o->out[0], o->p[i].name);
        bool hit = o->p[i].kind <= TENSOR_MANY && (strcmp(prim, o->p[i].name) == 0 || strcmp(prim, move) == 0);
        if (hit && o->tout[0] == o->tin[0])
            o->flags |= WFI_OP_MOVE;
    }
}
/* A row is linear in an operand whose gradient mentions neither it nor the result; two such operands whose gradients
 * do not mention each other are linear only together (a + b). A constant in the body of a unary row makes it affine. */
static void row_linear(op *o)
{
    const char *grad = get(o, "grad"), *body = get(o, "body");
    char *g[3] = { NULL, NULL, NULL };
    if (!grad || !*grad || strncmp(grad, "none", 4) == 0 ? o->arity == 1 : false)
        return;
    for (int i = 0; grad && *grad && i < o->arity; i++) {
        char self[2] = { (char)('a' + i), 0 };
        g[i] = part(grad, i);
        bool constant = o->arity == 1 && strpbrk(body, "0123456789");
        if (g[i] && strncmp(g[i], "none", 4) != 0 && !mentions(g[i], self) && !mentions(g[i], "y") && !constant)
            o->linear |= 1u << i;
    }
    for (int i = 0; i < o->arity; i++)
        for (int j = 0; j < o->arity; j++) {
            char other[2] = { (char)('a' + j), 0 };
            if (i != j && (o->linear >> i & 1) && (o->linear >> j & 1) && !mentions(g[i], other))
                o->joint |= 1u << i | 1u << j;
        }
    for (int i = 0; i < 3; i++)
        free(g[i]);
}
static void file_linear(op *o)
{
    const char *linear = get(o, "linear"), *reduce = get(o, "reduce");
    axis_tmpl t;
    int k = 0;
    if (o->has_map)
        wfi_axis_tmpl_unpack(o->map.b, &t);
    bool all = !linear && ((o->flags & WFI_OP_MOVE) || (reduce && strcmp(reduce, "sum") == 0));
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind <= TENSOR_MANY) {
            if ((all && !(o->has_map && is_index(&t, k))) || (linear && mentions(linear, o->p[i].name)))
                o->linear |= 1u << k;
            k++;
        }
    if (o->many)
        o->joint = o->linear;
}
static void row_grad(op *o)
{
    char *g = part(get(o, "grad"), o->arity);
    char *last = part(get(o, "grad"), o->arity - 1);
    bool none = strncmp(get(o, "grad"), "none: ", 6) == 0;
    if (o->composite ? *get(o, "grad") != 0 : (g || (!last && !none)))
        error(o->file, line_of(o, "grad"), o->name, "as many gradients as operands, with ; between them",
              "\"none: why\" where there is none; nothing for a composite");
    free(g);
    free(last);
}

/* What autocast does to the operands: sums are made in full precision, everything else gets the widest of its types. */
static void set_autocast(op *o)
{
    static const struct {
        const char *name;
        unsigned code;
    } policy[] = { { "low", WFI_AUTOCAST_LOW }, { "full", WFI_AUTOCAST_FULL }, { "widest", WFI_AUTOCAST_WIDEST } };
    const char *given = get(o, "autocast"), *reduce = get(o, "reduce");
    const bool sums = reduce && (!strcmp(reduce, "sum") || !strcmp(reduce, "prod"));
    o->autocast = sums ? WFI_AUTOCAST_FULL : WFI_AUTOCAST_WIDEST;
    bool good = !given;
    for (size_t i = 0; given && i < sizeof policy / sizeof *policy; i++)
        if (!strcmp(policy[i].name, given)) {
            o->autocast = policy[i].code;
            good = true;
        }
    if (!good)
        error(o->file, line_of(o, "autocast"), o->name, ".autocast is none of low full widest",
              "src/ops/op.h says what they do");
    if (o->autocast == WFI_AUTOCAST_WIDEST && !o->many && o->nin < 2)
        o->autocast = WFI_AUTOCAST_NONE;
}

void check(op *o)
{
    int before = errors;
    presence(o);
    if (errors > before && (!o->row && (!given(o, "call") || !(given(o, "axes") || given(o, "map")))))
        return;
    if (o->row && errors > before)
        return;
    if (!read_call(o))
        return;
    read_outputs(o);
    read_types(o);
    if (o->row && strncmp(get(o, "grad"), "none: ", 6) == 0 && !strchr(get(o, "grad"), ';'))
        o->flags |= WFI_OP_NOGRAD;
    unsigned nograd = o->flags;
    if (o->row || given(o, "axes"))
        if (!parse_map(o) || (!o->row && !match_operands(o)))
            return;
    set_flags(o);
    set_autocast(o);
    o->flags |= nograd;
    if (get(o, "map"))
        o->has_map = false; /* .axes names the operands; the hook writes the map */
    if (!o->row && o->has_map && !o->composite)
        primitive_rules(o);
    if (o->row) {
        row_grad(o);
        row_linear(o);
    } else
        file_linear(o);
}
