/* Axis maps: the table of operators through every consumer, error texts, symbols, overflow, parse errors. */
#include "graph/axis_use.h"
#include "base/ck.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifndef WEFT_TEST_DATA
#define WEFT_TEST_DATA "tests/data"
#endif

/* ---- the table ---- */

typedef struct sample {
    char name[24], attrs[64], map[400], want[64];
    wfi_axis_shape in[WFI_AXIS_OPERANDS];
    wf_dims attr[WFI_AXIS_ATTRS];
    int nin, nattr;
} sample;

static void trim(char *to, size_t cap, const char *from, size_t n)
{
    while (n && *from == ' ')
        from++, n--;
    while (n && strchr(" \n", from[n - 1]))
        n--;
    assert_true(n < cap);
    memcpy(to, from, n);
    to[n] = 0;
}
static wf_dims list(const char *s)
{
    wf_dims r = { 0, { 0 } };
    if (strncmp(s, "all", 3) == 0)
        return (wf_dims){ -1, { 0 } };
    if (strcmp(s, "[]") == 0)
        return r;
    for (char *e; *s; s = *e == ',' ? e + 1 : e) {
        r.d[r.n++] = strtoll(s, &e, 10);
        if (e == s)
            break;
    }
    return r;
}
static int attr_index(const char *attrs, const char *name)
{
    char copy[64], *save = NULL;
    int i = 0;
    snprintf(copy, sizeof copy, "%s", attrs);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save), i++)
        if (strcmp(w, name) == 0)
            return i;
    fail_msg("no attribute %s", name);
    return 0;
}
/* "2,3 4 axis=1" */
static void given(sample *s, char *text)
{
    char *save = NULL;
    memset(s->in, 0, sizeof s->in);
    memset(s->attr, 0, sizeof s->attr);
    s->nin = 0;
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(w, '=');
        if (eq) {
            *eq = 0;
            s->attr[attr_index(s->attrs, w)] = list(eq + 1);
            continue;
        }
        wfi_axis_shape *in = &s->in[s->nin++];
        if (strcmp(w, "-") == 0) {
            in->ndim = -1;
            continue;
        }
        wf_dims d = list(w);
        *in = (wfi_axis_shape){ .dtype = "f32", .ndim = d.n };
        memcpy(in->dim, d.d, sizeof in->dim);
    }
}
static FILE *table(void)
{
    FILE *f = fopen(WEFT_TEST_DATA "/axis/ops.tbl", "r");
    if (!f)
        fail_msg("no %s", WEFT_TEST_DATA "/axis/ops.tbl");
    return f;
}
static bool next(FILE *f, sample *s)
{
    char line[900], text[200];
    do
        if (!fgets(line, sizeof line, f))
            return false;
    while (*line == '#' || *line == '\n');
    char *a = strchr(line, '|'), *b = strchr(a + 1, '|'), *c = strchr(b + 1, '|'), *d = strstr(c, "->");
    trim(s->name, sizeof s->name, line, (size_t)(a - line));
    trim(s->attrs, sizeof s->attrs, a + 1, (size_t)(b - a - 1));
    trim(s->map, sizeof s->map, b + 1, (size_t)(c - b - 1));
    trim(text, sizeof text, c + 1, (size_t)(d - c - 1));
    trim(s->want, sizeof s->want, d + 2, strlen(d + 2));
    given(s, text);
    return true;
}
static void results(const wfi_axis_inst *x, char *o)
{
    *o = 0;
    for (int r = x->nin; r < x->nslot; r++) {
        wf_dims d = wfi_axis_result(x, r - x->nin);
        if (r > x->nin)
            o += sprintf(o, " ");
        if (d.n == 0)
            o += sprintf(o, "[]");
        for (int i = 0; i < d.n; i++)
            o += sprintf(o, "%s%lld", i ? "," : "", (long long)d.d[i]);
    }
}
static void parse(const sample *s, wfi_axis_map *m)
{
    char err[WFI_AXIS_ERR];
    if (!wfi_axis_parse(s->map, s->attrs, m, err, sizeof err))
        fail_msg("%s: %s", s->name, err);
}
static void bind(const sample *s, const wfi_axis_map *m, wfi_axis_inst *x)
{
    char err[WFI_AXIS_ERR];
    if (!wfi_axis_bind(m->b, s->name, s->nin, s->in, s->attr, NULL, x, err, sizeof err))
        fail_msg("%s", err);
}

static void table_shapes(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m;
    wfi_axis_inst x;
    int n = 0;
    for (; next(f, &s); n++) {
        char got[200];
        parse(&s, &m);
        bind(&s, &m, &x);
        results(&x, got);
        if (strcmp(got, s.want) != 0)
            fail_msg("%s gives %s, wanted %s", s.name, got, s.want);
    }
    fclose(f);
    assert_true(n >= 47);
}

/* vmap of every operator over every choice of batched operands: results get a leading 7, or there is a reason. */
static void table_vmap(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m;
    wfi_axis_inst x;
    int refused = 0, mapped = 0;
    while (next(f, &s)) {
        parse(&s, &m);
        for (unsigned mask = 1; mask < 1u << s.nin; mask++) {
            bool batched[8], expand[8];
            wfi_axis_shape out[8];
            wf_dims attr[WFI_AXIS_ATTRS];
            char err[WFI_AXIS_ERR], got[200], want[200] = "";
            memcpy(attr, s.attr, sizeof attr);
            for (int i = 0; i < s.nin; i++)
                batched[i] = mask >> i & 1;
            if (!wfi_axis_vmap(m.b, s.name, s.nin, s.in, batched, 7, attr, NULL, out, expand, err, sizeof err)) {
                assert_non_null(strstr(err, "batch"));
                refused++;
                continue;
            }
            if (!wfi_axis_bind(m.b, s.name, s.nin, out, attr, NULL, &x, err, sizeof err))
                fail_msg("%s", err);
            results(&x, got);
            char copy[64], *save = NULL, *o = want;
            strcpy(copy, s.want);
            for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
                o += sprintf(o, "%s7%s%s", o > want ? " " : "", strcmp(w, "[]") ? "," : "", strcmp(w, "[]") ? w : "");
            /* a result whose operands are all read by every example keeps a batch of 1 for runs that broadcast */
            if (strcmp(got, want) != 0)
                fail_msg("%s mask %u: vmap gives %s, wanted %s", s.name, mask, got, want);
            mapped++;
        }
    }
    fclose(f);
    assert_true(mapped > 60);
    assert_true(refused <= 20); /* layer norm's and batch norm's g and b, nonzero's result, random's key */
}

/* The gradient of every operand, as big as the whole run, is summed back to the operand's own shape. */
static void table_undo(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m;
    wfi_axis_inst x;
    while (next(f, &s)) {
        parse(&s, &m);
        bind(&s, &m, &x);
        for (int i = 0; i < s.nin; i++) {
            wf_dims own = { s.in[i].ndim, { 0 } };
            memcpy(own.d, s.in[i].dim, sizeof own.d);
            wfi_axis_undo u;
            assert_true(wfi_axis_undo_of(&x, i, own, own, &u));
            assert_true(u.sum.n == 0 && !u.expand && !u.reshape);
        }
    }
    fclose(f);
}

static void table_cost(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m;
    wfi_axis_inst x;
    while (next(f, &s)) {
        parse(&s, &m);
        bind(&s, &m, &x);
        int64_t p = wfi_axis_points(&x, NULL);
        assert_true(p >= 1);
        if (strcmp(s.name, "matmul") == 0)
            assert_int_equal(p, 5 * 4 * 2 * 3 * 6);
        if (strcmp(s.name, "conv2d") == 0)
            assert_int_equal(p, 2 * 8 * 5 * 7 * 3 * 3 * 3);
        if (strcmp(s.name, "gather") == 0)
            assert_int_equal(p, 6 * 8);
        char word[40];
        snprintf(word, sizeof word, " %s ", s.name);
        bool reduces =
            strstr(" sum sum_keep sum_all argmax logsumexp topk rfft unique nonzero xent matmul einsum attention "
                   "lstm_cell conv2d conv1d_t depthwise max_pool1d scatter_add ",
                   word) != NULL;
        if (wfi_axis_reduces(&x) != reduces)
            fail_msg("%s: reduces is wrong", s.name);
    }
    fclose(f);
}

/* Each operator with a relu after it: one nest, or the reason that the marks give. */
static void table_fusion(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m, relu;
    wfi_axis_inst x, y;
    char err[WFI_AXIS_ERR], why[160];
    static uint64_t scratch[2048];
    assert_true(wfi_axis_fuse_bytes(2) <= sizeof scratch);
    assert_true(wfi_axis_parse("x[..] -> y[..]", "", &relu, err, sizeof err));
    while (next(f, &s)) {
        parse(&s, &m);
        bind(&s, &m, &x);
        wf_dims r = wfi_axis_result(&x, 0);
        wfi_axis_shape in = { .dtype = "f32", .ndim = r.n };
        memcpy(in.dim, r.d, sizeof in.dim);
        assert_true(wfi_axis_bind(relu.b, "relu", 1, &in, NULL, NULL, &y, err, sizeof err));
        wfi_axis_drop_ones(&x);
        wfi_axis_drop_ones(&y);
        int32_t a[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, b[3] = { 10, 11, 12 }, c[1] = { 10 }, d[1] = { 20 };
        wfi_axis_member pair[2] = { { &x, a, b, s.name, true }, { &y, c, d, "relu", true } };
        const char *no = wfi_axis_fusable(pair, 2, scratch, why, sizeof why);
        bool marked = false;
        for (int i = 0; i < x.nf; i++)
            marked |= (x.f[i].marks & (WFI_WHOLE | WFI_ORDERED)) && x.f[i].size != 1;
        if (marked)
            assert_non_null(no);
        if (strcmp(s.name, "add") == 0 || strcmp(s.name, "matmul") == 0 || strcmp(s.name, "gather") == 0 ||
            strcmp(s.name, "flip") == 0 || strcmp(s.name, "slice") == 0)
            if (no)
                fail_msg("%s: %s", s.name, no);
    }
    fclose(f);
}

static void table_halo_and_lint(void **state)
{
    (void)state;
    FILE *f = table();
    sample s;
    wfi_axis_map m;
    wfi_axis_inst x;
    char factor[32];
    while (next(f, &s)) {
        int64_t low, high;
        parse(&s, &m);
        bind(&s, &m, &x);
        if (strcmp(s.name, "conv2d") == 0) { /* stride 2, kernel 3, pad 1; stride 1, dilation 2, pad 1 */
            assert_true(wfi_axis_halo(&x, 0, 2, &low, &high));
            assert_true(low == 1 && high == 0);
            assert_true(wfi_axis_halo(&x, 0, 3, &low, &high));
            assert_true(low == 1 && high == 3);
            assert_false(wfi_axis_halo(&x, 0, 1, &low, &high));
        }
        const char *lint = wfi_axis_lint(&x, factor, sizeof factor);
        bool composite = strcmp(s.name, "lstm_cell") == 0 || strcmp(s.name, "attention") == 0;
        if (lint && !composite)
            fail_msg("%s: %s is reduced but %s lacks it", s.name, factor, lint);
    }
    fclose(f);
}

/* ---- error texts ---- */

static void refused(const char *name, const char *attrs, const char *map, const char *args, const char *want)
{
    sample s = { .nin = 0 };
    wfi_axis_map m;
    wfi_axis_inst x;
    char text[200], err[WFI_AXIS_ERR];
    snprintf(s.name, sizeof s.name, "%s", name);
    snprintf(s.attrs, sizeof s.attrs, "%s", attrs);
    snprintf(s.map, sizeof s.map, "%s", map);
    snprintf(text, sizeof text, "%s", args);
    given(&s, text);
    parse(&s, &m);
    if (wfi_axis_bind(m.b, s.name, s.nin, s.in, s.attr, NULL, &x, err, sizeof err))
        fail_msg("%s %s was accepted", name, args);
    assert_string_equal(err, want);
}
#define CONV  "x[.. (g c) h:oh*s+kh-p?] w[.. (g o) c kh] -> y[.. (g o) oh]; g=groups, oh=(h+2*p-kh)/s+1"
#define SUM   "x[..a ..r@axes] -> y[..a 1@axes&keep]"
#define SLICE "x[..a ..n:i*step+start@axes] -> y[..a ..i@axes]; i=len"

static void errors(void **state)
{
    (void)state;
    refused("matmul", "", "a[.. m k] b[.. k n] -> y[.. m n]", "32,784 10,784",
            "matmul: sizes of axis k differ: a[-1] is 784, b[-2] is 10; a is f32[32,784], b is f32[10,784]");
    refused("add", "", "a[..] b[..] -> y[..]", "2,3 4",
            "add: shapes do not broadcast: a[-1] is 3, b[-1] is 4; a is f32[2,3], b is f32[4]");
    refused("add", "", "a[..] b[..] -> y[..]", "0 3",
            "add: shapes do not broadcast: a[-1] is 0, b[-1] is 3; a is f32[0], b is f32[3]");
    refused("assign", "", "v[..a] x[..a] -> w[..a]", "2,3 2,4",
            "assign: sizes of axis a1 differ: v[-1] is 3, x[-1] is 4; v is f32[2,3], x is f32[2,4]");
    refused("assign", "", "v[..a] x[..a] -> w[..a]", "2,3 3",
            "assign: x has 1 dimensions; needed 2; v is f32[2,3], x is f32[3]");
    refused("matmul", "", "a[.. m k] b[.. k n] -> y[.. m n]", "3 3,4",
            "matmul: a has 1 dimensions; needed at least 2; a is f32[3], b is f32[3,4]");
    refused("matmul", "", "a[.. m k] b[.. k n] -> y[.. m n]", "3,4", "matmul: 1 operands given; it takes 2");
    refused("conv", "s p groups", CONV, "2,3,4 8,3,5 s=1 p=0 groups=1",
            "conv: the window is larger than the input: y[-1] would be 0; x[-1] is 4, w[-1] is 5; "
            "x is f32[2,3,4], w is f32[8,3,5]");
    refused("conv", "s p groups", CONV, "2,3,4 8,3,6 s=1 p=0 groups=1",
            "conv: the window is larger than the input: y[-1] would be -1; x[-1] is 4, w[-1] is 6; "
            "x is f32[2,3,4], w is f32[8,3,6]");
    refused("conv", "s p groups", CONV, "2,3,9 8,3,3 s=1 p=0 groups=2",
            "conv: x[-2] is 3; it must be a multiple of 2; x is f32[2,3,9], w is f32[8,3,3]");
    refused("conv", "s p groups", CONV, "2,6,9 9,3,3 s=1 p=0 groups=2",
            "conv: w[-3] is 9; it must be a multiple of 2; x is f32[2,6,9], w is f32[9,3,3]");
    refused("conv", "s p groups", CONV, "2,6,9 8,6,3 s=1 p=0 groups=2",
            "conv: sizes of axis c differ: x[-2] is 3, w[-2] is 6; x is f32[2,6,9], w is f32[8,6,3]");
    refused("conv", "s p groups", CONV, "2,3,9 8,3,3 s=0 p=0 groups=1",
            "conv: a size is divided by zero; x is f32[2,3,9], w is f32[8,3,3]");
    refused("pool", "k", "x[..a h:oh*k+kh] -> y[..a oh]; kh=k, oh=h/k", "3,2 k=4",
            "pool: the window is larger than the input: y[-1] would be 0; x[-1] is 2, kh is 4; x is f32[3,2]");
    refused("pad", "axes lo hi", "x[..a ..n:i-lo?@axes] -> y[..a ..i@axes]; i=n+lo+hi", "4 axes=0 lo=-2 hi=-3",
            "pad: y[-1] would be -1: n is 4, lo is -2, hi is -3; x is f32[4]");
    refused("sum", "axes keep", SUM, "2,3 axes=2 keep=0",
            "sum: axes is 2, which is out of range; x has 2 dimensions; x is f32[2,3]");
    refused("sum", "axes keep", SUM, "2,3 axes=-3 keep=0",
            "sum: axes is -3, which is out of range; x has 2 dimensions; x is f32[2,3]");
    refused("sum", "axes keep", SUM, "2,3 axes=1,-1 keep=0",
            "sum: axes is -1, which is given twice; x has 2 dimensions; x is f32[2,3]");
    refused("sum", "axes keep", SUM, "2 axes=0,1 keep=0", "sum: x has 1 dimensions; needed at least 2; x is f32[2]");
    refused("slice", "axes start step len", SLICE, "9,4 axes=0 start=3 step=3 len=3",
            "slice: reads x[-2] at 3..9; it has 9; x is f32[9,4]");
    refused("slice", "axes start step len", SLICE, "9,4 axes=0 start=-1 step=1 len=3",
            "slice: reads x[-2] at -1..1; it has 9; x is f32[9,4]");
    refused("slice", "axes start step len", SLICE, "9,4,2 axes=0,1,2 start=0,0 step=1 len=1",
            "slice: start has 2 entries; needed 3; x is f32[9,4,2]");
    refused("squeeze", "axes", "x[..a 1@axes] -> y[..a]", "2,3 axes=1", "squeeze: x[-1] is 3; needed 1; x is f32[2,3]");
    refused("concat", "axis", "x*[..a n:i?@axis] -> y[..a i@axis]; i=n", "2,3 2,4 3,1 axis=1",
            "concat: sizes differ: x0[-2] is 2, x2[-2] is 3; x0 is f32[2,3], x1 is f32[2,4], x2 is f32[3,1]");
    refused("concat", "axis", "x*[..a n:i?@axis] -> y[..a i@axis]; i=n", "2,3 2 axis=1",
            "concat: x1 has 1 dimensions, x0 has 2; x0 is f32[2,3], x1 is f32[2]");
    refused("outer", "", "a[.. i] b[.. j] -> y[.. i j]", "1,1,1,1,1,1,1,2 3",
            "outer: y would have 9 dimensions; at most 8; a is f32[1,1,1,1,1,1,1,2], b is f32[3]");
    refused("tile", "axes reps", "x[..a ..n:i%@axes] -> y[..a ..i@axes]; i=n*reps", "100000 axes=0 reps=99999999999",
            "tile: a size is too large (at most 2^47 elements in a dimension or in all); x is f32[100000]");
    refused("random", "shape", "key[] -> y[..j#]; j=shape", "[] shape=99999999,99999999",
            "random: a size is too large (at most 2^47 elements in a dimension or in all); key is f32[]");
    refused("tile", "axes reps", "x[..a ..n:i%@axes] -> y[..a ..i@axes]; i=n*reps",
            "100000 axes=0 reps=9223372036854775807", "tile: reps is out of range; x is f32[100000]");
    refused("tile", "axes reps", "x[..a ..n:i%@axes] -> y[..a ..i@axes]; i=n*reps", "5 axes=0 reps=-1",
            "tile: y[-1] would be -5: n is 5, reps is -1; x is f32[5]");
}

/* An empty size takes part in everything; nothing divides by it. */
static void empty(void **state)
{
    (void)state;
    static const char *const lines[][4] = {
        { "", "a[..] b[..] -> y[..]", "0 1", "0" },
        { "", "a[..] b[..] -> y[..]", "3,0 3,1", "3,0" },
        { "", "a[.. m k] b[.. k n] -> y[.. m n]", "2,0 0,3", "2,3" },
        { "axes keep", SUM, "0,3 axes=0 keep=0", "3" },
        { "axes keep", SUM, "[] axes=all keep=1", "[]" },
        { "axes start step len", SLICE, "0 axes=0 start=0 step=1 len=0", "0" },
        { "axes start step len", SLICE, "4,9,2 axes=0,1 start=1 step=1 len=2", "2,2,2" },
        { "s p groups", CONV, "0,3,9 8,3,3 s=1 p=0 groups=1", "0,8,7" },
        { "axis", "x[..a n@axis] i[..a]->y[..a]", "2,3 2 axis=1", "2" },
        { "", "x[.. n!] g[n!] b[n!] -> y[.. n!]", "2,3 - 3", "2,3" },
        { "", "x[.. n!] g[n!] b[n!] -> y[.. n!]", "2,3 - -", "2,3" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sample s = { .nin = 0 };
        wfi_axis_map m;
        wfi_axis_inst x;
        char got[200], text[200];
        snprintf(s.name, sizeof s.name, "line %zu", i);
        snprintf(s.attrs, sizeof s.attrs, "%s", lines[i][0]);
        snprintf(s.map, sizeof s.map, "%s", lines[i][1]);
        snprintf(text, sizeof text, "%s", lines[i][2]);
        given(&s, text);
        parse(&s, &m);
        bind(&s, &m, &x);
        results(&x, got);
        assert_string_equal(got, lines[i][3]);
    }
}

/* ---- broadcasting undone ---- */

static void undo_case(const char *map, const char *args, int operand, wf_dims g, const char *want)
{
    sample s = { .name = "undo" };
    wfi_axis_map m;
    wfi_axis_inst x;
    wfi_axis_undo u;
    char text[100], got[120], *o = got;
    snprintf(s.map, sizeof s.map, "%s", map);
    snprintf(text, sizeof text, "%s", args);
    given(&s, text);
    parse(&s, &m);
    bind(&s, &m, &x);
    wf_dims own = { s.in[operand].ndim, { 0 } };
    memcpy(own.d, s.in[operand].dim, sizeof own.d);
    if (!wfi_axis_undo_of(&x, operand, own, g, &u)) {
        assert_string_equal("refused", want);
        return;
    }
    o += sprintf(o, "sum");
    for (int i = 0; i < u.sum.n; i++)
        o += sprintf(o, " %d", (int)u.sum.d[i]);
    if (u.reshape) {
        o += sprintf(o, "; reshape");
        for (int i = 0; i < u.kept.n; i++)
            o += sprintf(o, " %d", (int)u.kept.d[i]);
    }
    if (u.expand)
        o += sprintf(o, "; expand");
    assert_string_equal(got, want);
}
static void undo(void **state)
{
    (void)state;
    undo_case("a[..] b[..] -> y[..]", "2,3 3", 1, WF_DIMS(2, 3), "sum 0; reshape 3");
    undo_case("a[..] b[..] -> y[..]", "2,3 2,1", 1, WF_DIMS(2, 3), "sum 1");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 1,2,1", 1, WF_DIMS(4, 2, 3), "sum 0 2");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 2,1", 1, WF_DIMS(4, 2, 3), "sum 0 2; reshape 2 1");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 []", 1, WF_DIMS(4, 2, 3), "sum 0 1 2; reshape");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 []", 0, WF_NO_DIMS, "sum; reshape 1 1 1; expand");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 3", 0, WF_DIMS(1, 3), "sum; reshape 1 1 3; expand");
    undo_case("a[..] b[..] -> y[..]", "4,2,3 3", 0, WF_DIMS(2, 5), "refused");
    undo_case("a[.. m k] b[.. k n] -> y[.. m n]", "5,4,2,3 3,6", 1, WF_DIMS(5, 4, 3, 6), "sum 0 1; reshape 3 6");
    undo_case("a[.. m k] b[.. k n] -> y[.. m n]", "5,4,2,3 4,3,6", 1, WF_DIMS(5, 4, 3, 6), "sum 0; reshape 4 3 6");
    undo_case("a[.. m k] b[.. k n] -> y[.. m n]", "5,1,2,3 4,3,6", 0, WF_DIMS(5, 4, 2, 3), "sum 1");
    undo_case("x[n c ..] b[n c ..] -> y[n c ..]", "2,3,4,5 2,3,5", 1, WF_DIMS(2, 3, 4, 5), "sum 2; reshape 2 3 5");
}

/* ---- fusion ---- */

typedef struct node {
    wfi_axis_map m;
    wfi_axis_inst x;
    int32_t in[3], out[1];
} node;
static wfi_axis_shape shapes[32];
static int nvalue;
static int32_t value(wf_dims d)
{
    shapes[nvalue] = (wfi_axis_shape){ .dtype = "f32", .ndim = d.n };
    memcpy(shapes[nvalue].dim, d.d, sizeof d.d);
    return nvalue++;
}
static int32_t op(node *n, wfi_axis_member *mem, const char *name, const char *attrs, const char *map, int nin,
                  const int32_t *in, wf_dims a)
{
    char err[WFI_AXIS_ERR];
    wfi_axis_shape s[3];
    for (int i = 0; i < nin; i++) {
        s[i] = shapes[in[i]];
        n->in[i] = in[i];
    }
    if (!wfi_axis_parse(map, attrs, &n->m, err, sizeof err) ||
        !wfi_axis_bind(n->m.b, name, nin, s, &a, NULL, &n->x, err, sizeof err))
        fail_msg("%s", err);
    n->out[0] = value(wfi_axis_result(&n->x, 0));
    wfi_axis_drop_ones(&n->x);
    *mem = (wfi_axis_member){ &n->x, n->in, n->out, name, true };
    return n->out[0];
}
#define IN(...) ((int32_t[]){ __VA_ARGS__ })
static const char *const RED = "x[..a ..r@axes] -> y[..a 1@axes]", *const BIN = "a[..] b[..] -> y[..]",
                         *const UN = "x[..] -> y[..]", *const MM = "a[.. m k] b[.. k n] -> y[.. m n]";

static void fusion(void **state)
{
    (void)state;
    static node n[8];
    static wfi_axis_member g[8];
    static uint64_t scratch[8192];
    char why[160];
    assert_true(wfi_axis_fuse_bytes(8) <= sizeof scratch);
    nvalue = 0;
    int32_t x = value(WF_DIMS(4, 33)); /* softmax: one nest, because the maximum and x - max share x */
    int32_t mx = op(&n[0], &g[0], "max", "axes", RED, 1, IN(x), WF_DIMS(-1));
    int32_t d = op(&n[1], &g[1], "sub", "", BIN, 2, IN(x, mx), WF_NO_DIMS);
    int32_t e = op(&n[2], &g[2], "exp", "", UN, 1, IN(d), WF_NO_DIMS);
    int32_t s = op(&n[3], &g[3], "sum", "axes", RED, 1, IN(e), WF_DIMS(-1));
    (void)op(&n[4], &g[4], "div", "", BIN, 2, IN(e, s), WF_NO_DIMS);
    assert_null(wfi_axis_fusable(g, 5, scratch, why, sizeof why));

    int32_t a = value(WF_DIMS(5, 7)), b = value(WF_DIMS(7, 6)),
            c = value(WF_DIMS(6)); /* product, bias, relu, row maximum */
    int32_t y = op(&n[0], &g[0], "matmul", "", MM, 2, IN(a, b), WF_NO_DIMS);
    y = op(&n[1], &g[1], "add", "", BIN, 2, IN(y, c), WF_NO_DIMS);
    y = op(&n[2], &g[2], "relu", "", UN, 1, IN(y), WF_NO_DIMS);
    assert_null(wfi_axis_fusable(g, 3, scratch, why, sizeof why));
    (void)op(&n[3], &g[3], "max", "axes", RED, 1, IN(y), WF_DIMS(1));
    assert_string_equal(wfi_axis_fusable(g, 4, scratch, why, sizeof why),
                        "add iterates neither over the row axes nor over all axes");

    int32_t q = value(WF_DIMS(6, 6)); /* x + transpose(x): two axes, never one */
    int32_t t = op(&n[0], &g[0], "permute", "perm", "x[..a ..r@perm] -> y[..a ..r]", 1, IN(q), WF_DIMS(1, 0));
    (void)op(&n[1], &g[1], "add", "", BIN, 2, IN(q, t), WF_NO_DIMS);
    assert_null(wfi_axis_fusable(g, 2, scratch, why, sizeof why));

    int32_t im = value(WF_DIMS(2, 9)); /* a window over what the group makes */
    int32_t r = op(&n[0], &g[0], "relu", "", UN, 1, IN(im), WF_NO_DIMS);
    (void)op(&n[1], &g[1], "pool", "k", "x[..a h:oh*k+kh] -> y[..a oh]; kh=k, oh=h/k", 1, IN(r), WF_DIMS(3));
    assert_string_equal(wfi_axis_fusable(g, 2, scratch, why, sizeof why),
                        "pool reads relu through a window or a look-up");
    (void)op(&n[1], &g[1], "softmax", "axis", "x[..a n!@axis] -> y[..a n!@axis]", 1, IN(r), WF_DIMS(1));
    assert_string_equal(wfi_axis_fusable(g, 2, scratch, why, sizeof why), "softmax needs axis n whole or in order");
    g[0].scalar = false;
    assert_string_equal(wfi_axis_fusable(g, 1, scratch, why, sizeof why), "relu has no scalar code");

    int32_t u = value(WF_DIMS(3, 4)), v = value(WF_DIMS(4, 3)); /* reductions over different axes */
    (void)v;
    int32_t s0 = op(&n[0], &g[0], "sum0", "axes", RED, 1, IN(u), WF_DIMS(0));
    int32_t s1 = op(&n[1], &g[1], "sum1", "axes", RED, 1, IN(u), WF_DIMS(1));
    (void)op(&n[2], &g[2], "add", "", BIN, 2, IN(s0, s1), WF_NO_DIMS);
    assert_non_null(wfi_axis_fusable(g, 3, scratch, why, sizeof why));
}

/* ---- symbols ---- */

static void symbols(void **state)
{
    (void)state;
    wfi_syms t = { 0 };
    wfi_axis_map m;
    wfi_axis_inst x;
    int64_t n, k, r;
    char err[WFI_AXIS_ERR], text[64];
    assert_true(wfi_sym_new(&t, "n", 1, 4096, &n));
    assert_true(wfi_sym_new(&t, "k", 1, 64, &k));
    assert_true(wfi_sym_new(&t, "n", 1, 4096, &r));
    assert_int_equal(n, r);
    assert_false(wfi_sym_new(&t, "n", 1, 9, &r));
    assert_true(wfi_sym_is(n) && !wfi_sym_is(-WFI_DIM_MAX) && !wfi_sym_is(INT64_MAX));

    wfi_axis_shape in[2] = { { "f32", 2, { n, 784 } }, { "f32", 2, { 784, 10 } } };
    assert_true(wfi_axis_parse("a[.. m k] b[.. k n] -> y[.. m n]", "", &m, err, sizeof err));
    assert_true(wfi_axis_bind(m.b, "matmul", 2, in, NULL, &t, &x, err, sizeof err));
    assert_true(wfi_axis_result(&x, 0).d[0] == n && wfi_axis_result(&x, 0).d[1] == 10);
    assert_int_equal(wfi_axis_points(&x, &t), 4096 * 784 * 10);
    in[1].dim[0] = n;
    assert_false(wfi_axis_bind(m.b, "matmul", 2, in, NULL, &t, &x, err, sizeof err));
    assert_string_equal(err,
                        "matmul: sizes of axis k differ: a[-1] is 784, b[-2] is n; a is f32[n,784], b is f32[n,10]");

    wfi_axis_shape add[2] = { { "f32", 2, { n, 3 } }, { "f32", 2, { 1, 3 } } };
    assert_true(wfi_axis_parse("a[..] b[..] -> y[..]", "", &m, err, sizeof err));
    assert_true(wfi_axis_bind(m.b, "add", 2, add, NULL, &t, &x, err, sizeof err));
    assert_true(wfi_axis_result(&x, 0).d[0] == n);
    add[1].dim[0] = k;
    assert_false(wfi_axis_bind(m.b, "add", 2, add, NULL, &t, &x, err, sizeof err));

    /* a rule: the same expression is the same symbol, with its range */
    wf_dims attr[3] = { WF_DIMS(2), WF_DIMS(1), WF_DIMS(1) };
    wfi_axis_shape cv[2] = { { "f32", 3, { 4, 3, n } }, { "f32", 3, { 8, 3, 3 } } };
    assert_true(wfi_axis_parse(CONV, "s p groups", &m, err, sizeof err));
    assert_true(wfi_axis_bind(m.b, "conv", 2, cv, attr, &t, &x, err, sizeof err));
    int64_t oh = wfi_axis_result(&x, 0).d[2];
    assert_string_equal(wfi_sym_text(&t, oh, text, sizeof text), "((n-1)/2)+1");
    assert_int_equal(wfi_sym_lo(&t, oh), 1);
    assert_int_equal(wfi_sym_hi(&t, oh), 2048);
    assert_true(wfi_axis_bind(m.b, "conv", 2, cv, attr, &t, &x, err, sizeof err));
    assert_true(wfi_axis_result(&x, 0).d[2] == oh);
    int64_t at[WFI_SYM_MAX] = { 28, 5 };
    assert_true(wfi_sym_value(&t, at, oh, &r));
    assert_int_equal(r, 14);
    at[0] = 5000;
    assert_false(wfi_sym_value(&t, at, n, &r));

    /* merged dimensions divide exactly, or the text says so */
    int64_t nk;
    assert_true(wfi_sym_op(&t, '*', n, k, &nk));
    assert_true(wfi_sym_op(&t, '*', k, n, &r));
    assert_int_equal(nk, r);
    wf_dims heads = { 1, { k } };
    wfi_axis_shape h = { "f32", 2, { 7, nk } };
    assert_true(wfi_axis_parse("x[.. (h d)] -> y[.. h d]; h=heads", "heads", &m, err, sizeof err));
    assert_true(wfi_axis_bind(m.b, "split", 1, &h, &heads, &t, &x, err, sizeof err));
    assert_true(wfi_axis_result(&x, 0).d[2] == n);
    h.dim[1] = n;
    assert_false(wfi_axis_bind(m.b, "split", 1, &h, &heads, &t, &x, err, sizeof err));
    assert_string_equal(err, "split: x[-1] is n; it must be a multiple of k; x is f32[7,n]");
    h.dim[1] = nk;
    assert_false(wfi_axis_bind(m.b, "split", 1, &h, &heads, NULL, &x, err, sizeof err)); /* no table */

    /* overflow and a full table are refused, never wrapped */
    assert_false(wfi_sym_op(&t, '*', INT64_MAX / 2, 3, &r));
    assert_false(wfi_sym_op(&t, '/', 5, 0, &r));
    assert_true(wfi_sym_op(&t, '/', -1, 2, &r) && r == -1);
    bool full = false;
    for (int i = 2; i < 200 && !full; i++)
        full = !wfi_sym_op(&t, '*', n, i, &r);
    assert_true(full);
}

/* ---- parse errors ---- */

static void parse_error(const char *map, const char *attrs, const char *want)
{
    wfi_axis_map m;
    char err[WFI_AXIS_ERR];
    if (wfi_axis_parse(map, attrs, &m, err, sizeof err))
        fail_msg("%s was accepted", map);
    assert_string_equal(err, want);
}
static void parse_errors(void **state)
{
    (void)state;
    parse_error("x[..", "", "] was expected at column 5: end of the text");
    parse_error("x[.. n] y[.. n]", "", "-> and a result were expected at column 16: end of the text");
    parse_error("x[.. n] ->", "", "-> and a result were expected at column 11: end of the text");
    parse_error("x .. -> y[..]", "", "[ was expected at column 2:  .. -> y[..]");
    parse_error("x[..a n@axis] -> y[..a]", "axes", "this names no attribute at column 9: axis] -> y[..a]");
    parse_error("x[.. n<q>] -> y[.. n]", "", "<> names no operand at column 1: x[.. n<q>] -> y[");
    parse_error("x[.. oh+kh] -> y[.. oh]", "",
                "an index that is not one factor needs a name for its size (h:...) at column 6: oh+kh] -> y[.. o");
    parse_error("x[.. n$] -> y[.. n]", "", "not understood at column 7: $] -> y[.. n]");
    parse_error("x[..] x[..] -> y[..]", "", "this operand stands here twice at column 7: x[..] -> y[..]");
    parse_error("x[..] -> y[.. k]; m=3", "", "a size rule names no axis of the map at column 1: x[..] -> y[.. k]");
    parse_error("x[..] -> y[.. k]; k=n+1", "",
                "a size rule uses a name that is neither axis nor attribute at column 1: x[..] -> y[.. k]");
    parse_error("x[..] -> y[.. k]; k=(n", "", ") was expected at column 23: end of the text");
    parse_error("x[..] -> y[.. k]; k=99999999999", "", "the number is too large at column 30: 99");
    parse_error("x*[..] z*[..] -> y[..]", "", "only one operand can be variadic at column 8: z*[..] -> y[..]");
    parse_error("x[..] -> y[..] -> z[..]", "", "a second -> at column 18:  z[..]");
    parse_error("x[(a)] -> y[a]", "", "( ) wants at least two factors at column 6: ] -> y[a]");
    parse_error("x[(2 a)] -> y[a]", "", "only factors stand in ( ) at column 5:  a)] -> y[a]");
    parse_error("x[..averyveryverylongname] -> y[..]", "", "too many or too long names at column 5: averyveryverylon");
}

/* Names of the packed form, and any text whatever parses or fails without harm. */
static void packed(void **state)
{
    (void)state;
    wfi_axis_map m;
    char err[WFI_AXIS_ERR];
    assert_true(wfi_axis_parse(CONV, "s p groups", &m, err, sizeof err));
    assert_int_equal(wfi_axis_inputs(m.b), 2);
    assert_int_equal(wfi_axis_results(m.b), 1);
    assert_string_equal(wfi_axis_operand_name(m.b, 0), "x");
    assert_string_equal(wfi_axis_operand_name(m.b, 2), "y");
    assert_int_equal(wfi_axis_operand_find(m.b, "w"), 1);
    assert_int_equal(wfi_axis_operand_find(m.b, "q"), -1);
    assert_true(wfi_axis_leading_run(m.b, 1));
    assert_true(wfi_axis_mentions(m.b, "groups") && wfi_axis_mentions(m.b, "oh") && !wfi_axis_mentions(m.b, "zz"));
    assert_true(m.bytes < 256);
    static const char letters[] = "xyabn.[]()->;=,*+-/:@&#!?%<>1239 min";
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        const char *base = i & 1 ? CONV : "x*[..a n:i?@axis] -> y[..a i@axis]; i=n";
        snprintf(text, sizeof text, "%s", base + (i >> 1) % 9);
        for (int k = 0; k < 3; k++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            text[seed % strlen(text)] = letters[(seed >> 20) % (sizeof letters - 1)];
        }
        wf_dims attr[4] = { WF_DIMS(1), WF_DIMS(1), WF_DIMS(1), WF_DIMS(0) };
        wfi_axis_inst x;
        wfi_axis_shape in[2] = { { "f32", 3, { 2, 3, 9 } }, { "f32", 3, { 8, 3, 3 } } };
        if (wfi_axis_parse(text, "s p groups axis", &m, err, sizeof err))
            for (int nin = 1; nin <= 2; nin++)
                (void)wfi_axis_bind(m.b, "any", nin, in, attr, NULL, &x, err, sizeof err);
        else
            assert_non_null(strstr(err, "at column"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_shapes), cmocka_unit_test(table_vmap),   cmocka_unit_test(table_undo),
        cmocka_unit_test(table_cost),   cmocka_unit_test(table_fusion), cmocka_unit_test(table_halo_and_lint),
        cmocka_unit_test(errors),       cmocka_unit_test(empty),        cmocka_unit_test(undo),
        cmocka_unit_test(fusion),       cmocka_unit_test(symbols),      cmocka_unit_test(parse_errors),
        cmocka_unit_test(packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
