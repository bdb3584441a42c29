#include "device/workload.h"
#include <stdio.h>
#include <string.h>

static int64_t row_stride(const wfi_view *v, int32_t axis)
{
    int64_t n = 1;
    for (int32_t i = axis + 1; i < v->ndim; i++)
        n *= v->dim[i] > 0 ? v->dim[i] : 1;
    return n;
}

static void row_major(wfi_view *v)
{
    for (int32_t i = 0; i < v->ndim; i++)
        v->stride[i] = row_stride(v, i);
}

/* ---- to text ---- */

static void print_view(const wfi_view *v, wfi_text *t)
{
    bool rows = true;
    if (v->dtype == WF_DTYPE_NONE) {
        wfi_text_add(t, " _");
        return;
    }
    wfi_text_addf(t, " %s[", wf_dtype_name(v->dtype));
    for (int32_t i = 0; i < v->ndim; i++) {
        wfi_text_addf(t, "%s%lld", i ? "," : "", (long long)v->dim[i]);
        rows &= v->dim[i] == 1 || v->stride[i] == row_stride(v, i);
    }
    wfi_text_addc(t, ']');
    for (int32_t i = 0; i < v->ndim && !rows; i++)
        wfi_text_addf(t, "%c%lld", i ? ',' : '@', (long long)(v->dim[i] == 1 ? 0 : v->stride[i]));
}

void wfi_workload_print(const wfi_bind *b, wfi_text *t)
{
    char attr[512];
    const wfi_op_info *op = &wfi_op_table[b->op];
    wfi_text_add(t, op->name);
    for (int32_t i = 0; i < b->nin; i++)
        print_view(&b->in[i], t);
    if (op->attr_bytes && wfi_op_attr_print(op, b->attr, attr, sizeof attr) > 0)
        wfi_text_addf(t, " %s", attr);
    wfi_text_addf(t, " threads=%d", (int)b->threads);
}

/* ---- from text ---- */

typedef struct words {
    const char *at;
    char *err;
    size_t err_bytes;
} words;

static bool fail(const words *w, const char *what, const char *word, size_t n)
{
    (void)snprintf(w->err, w->err_bytes, "%s: \"%.*s\"", what, (int)(n < 60 ? n : 60), word);
    return false;
}

static size_t word(words *w, const char **start)
{
    *start = w->at += strspn(w->at, " \t\r\n");
    const size_t n = strcspn(w->at, " \t\r\n");
    w->at += n;
    return n;
}

/* "8,64" up to `end` (NULL: to the end of the word); false: not such numbers, or other than `want` (-1: any number of
 * them). */
static bool numbers(const char *s, size_t n, int64_t *out, int32_t *count, int64_t lo)
{
    *count = 0;
    for (size_t at = 0; at < n;) {
        const char *comma = memchr(s + at, ',', n - at);
        const size_t len = comma ? (size_t)(comma - (s + at)) : n - at;
        if (*count == WF_RANK_MAX || !wfi_str_int64(s + at, len, &out[*count]) || out[*count] < lo ||
            out[*count] > INT64_C(1) << 40)
            return false;
        (*count)++;
        at += len + 1;
    }
    return true;
}

static wf_dtype dtype_of(const char *s, size_t n)
{
    for (int t = 0; t < WF_DTYPE_COUNT; t++) {
        const char *name = wf_dtype_name((wf_dtype)t);
        if (t != WF_DTYPE_NONE && strlen(name) == n && !memcmp(name, s, n))
            return (wf_dtype)t;
    }
    return WF_DTYPE_NONE;
}

static bool parse_view(const words *w, const char *s, size_t n, wfi_view *v)
{
    const char *open = memchr(s, '[', n), *close = memchr(s, ']', n), *at = memchr(s, '@', n);
    int32_t strides;
    *v = (wfi_view){ .dtype = WF_DTYPE_NONE };
    if (n == 1 && *s == '_')
        return true;
    if (!open || !close || close < open || (close + 1 != s + n && close + 1 != at) ||
        !(v->dtype = dtype_of(s, (size_t)(open - s))) ||
        !numbers(open + 1, (size_t)(close - open - 1), v->dim, &v->ndim, 0))
        return fail(w, "this is no type like f32[8,16]", s, n);
    row_major(v);
    if (at &&
        (!numbers(at + 1, (size_t)(s + n - at - 1), v->stride, &strides, -(INT64_C(1) << 40)) || strides != v->ndim))
        return fail(w, "there must be a stride for each axis", s, n);
    return true;
}

/* Types of the results, by the operator's rules. */
static bool results(wfi_workload *p, char *err, size_t err_bytes)
{
    const wfi_op_info *op = &wfi_op_table[p->op];
    wfi_axis_shape shape[WFI_BIND_IN];
    wf_dtype in[WFI_BIND_IN], out[WFI_BIND_OUT];
    wfi_axis_inst x;
    for (int32_t i = 0; i < p->nin; i++) {
        in[i] = p->in[i].dtype;
        shape[i] = (wfi_axis_shape){ .dtype = wf_dtype_name(in[i]), .ndim = in[i] ? p->in[i].ndim : -1 };
        memcpy(shape[i].dim, p->in[i].dim, sizeof p->in[i].dim);
    }
    p->nout = op->nout;
    if (!wfi_op_types(op, &p->attr, p->nin, in, out, err, err_bytes) ||
        !wfi_op_bind(op, &p->attr, p->nin, shape, in, NULL, &x, err, err_bytes))
        return false;
    for (int32_t i = 0; i < p->nout; i++) {
        p->out[i] = (wfi_view){ .dtype = out[i], .ndim = x.nd[x.nin + i] };
        for (int32_t k = 0; k < p->out[i].ndim; k++)
            p->out[i].dim[k] = x.d[x.nin + i][k].size;
        row_major(&p->out[i]);
    }
    return true;
}

bool wfi_workload_parse(const char *line, int threads, wfi_workload *p, char *err, size_t err_bytes)
{
    words w = { line, err, err_bytes };
    const char *s;
    char name[64], attr[512] = "";
    size_t n = word(&w, &s), used = 0;
    memset(p, 0, sizeof *p);
    p->threads = threads;
    if (n >= sizeof name)
        return fail(&w, "there is no such operator", s, n);
    memcpy(name, s, n), name[n] = 0;
    const int op = wfi_op_find(name);
    if (op < 0)
        return fail(&w, "there is no such operator", s, n);
    p->op = (uint32_t)op;
    while ((n = word(&w, &s))) {
        int64_t number;
        if (!memchr(s, '=', n)) {
            if (p->nin == WFI_BIND_IN || !parse_view(&w, s, n, &p->in[p->nin]))
                return p->nin < WFI_BIND_IN ? false : fail(&w, "too many operands", s, n);
            p->nin++;
        } else if (n > 8 && !memcmp(s, "threads=", 8)) {
            if (!wfi_str_int64(s + 8, n - 8, &number) || number < 1 || number > 1024)
                return fail(&w, "threads are 1 ... 1024", s, n);
            p->threads = (int32_t)number;
        } else {
            if (used + n + 2 > sizeof attr)
                return fail(&w, "too many attributes", s, n);
            memcpy(attr + used, s, n), used += n;
            attr[used++] = ' ', attr[used] = 0;
        }
    }
    const wfi_op_info *info = &wfi_op_table[op];
    if (p->nin < info->nin_min || p->nin > info->nin_max)
        return fail(&w, "the operator has another number of operands", name, strlen(name));
    return wfi_op_attr_parse(info, attr, &p->attr, NULL, 0, err, err_bytes) && results(p, err, err_bytes);
}

wfi_bind wfi_workload_bind(wfi_workload *p, void *params)
{
    for (int32_t i = 0; i < p->nout; i++)
        row_major(&p->out[i]);
    return (wfi_bind){ .op = p->op,
                       .attr = &p->attr,
                       .nin = p->nin,
                       .nout = p->nout,
                       .in = p->in,
                       .out = p->out,
                       .threads = p->threads,
                       .alias = -1,
                       .order = "",
                       .params = params };
}
