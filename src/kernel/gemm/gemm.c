/* gemm.c - products of every element type on one instruction set. */
#include "kernel/gemm/gemm_choice.h"

static const wfi_gemm_type *const kinds[] = {
    &WFI_K(wfi_gemm_f32), &WFI_K(wfi_gemm_f64),  &WFI_K(wfi_gemm_i32),
    &WFI_K(wfi_gemm_i64), &WFI_K(wfi_gemm_bf16), &WFI_K(wfi_gemm_f16),
};
enum { F32, F64, I32, I64, BF16, F16 };

static int kind_of(wf_dtype t)
{
    switch (t) {
    case WF_F32: return F32;
    case WF_F64: return F64;
    case WF_I32: return I32;
    case WF_I64: return I64;
    case WF_BF16: return BF16;
    case WF_F16: return F16;
    default: return -1;
    }
}

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    const int kind = kind_of(a->dtype);
    const char *why = kind < 0 ? "no product of this element type" : fits(a, b, c);
    if (why)
        return why;
    wfi_gemm g;
    size_t all = 0;
    if (describe(&g, a, b, c)) {
        g.kind = kind, g.pool = threads;
        if (!choose(kinds[kind], &g, threads, &by_rule, &all))
            return "too large";
    }
    *out = g, *scratch = all;
    return NULL;
}

bool WFI_K(wfi_gemm_plan)(wfi_gemm *g, size_t *scratch)
{
    g->kind = F32;
    return choose(kinds[F32], g, g->pool, &by_rule, scratch);
}

static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    if (g->tier != WFI_GEMM_NOTHING)
        run_all(g, kinds[g->kind]->tier[g->tier], args, (wfi_kept_b){ NULL, NULL }, r);
}

/* ---- b packed once for many runs ---- */

static size_t keep_bytes(const wfi_gemm *g)
{
    return kept_size(kinds[g->kind], g);
}

static void keep(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    (void)r;
    fill_kept(kinds[g->kind], g, args[2], args[3]);
}

static void run_kept(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    run_with_kept(kinds[g->kind], g, args, r);
}

/* ---- other ways ---- */

static int knobs(const void *params, int threads, wfi_knob *knob)
{
    const wfi_gemm *g = params;
    return ways(kinds[g->kind], g, threads, knob);
}

static const char *choose_way(void *params, const wfi_choice *way, int threads, size_t *scratch)
{
    wfi_gemm *g = params;
    return take_way(kinds[g->kind], g, way, threads, scratch);
}

static void traits(const void *params, wfi_traits *t)
{
    const wfi_gemm *g = params;
    describe_way(kinds[g->kind], g, t);
}

static const wfi_choices choices = { knobs, choose_way, traits };

#define WFI_GEMM_TEXT_(x) #x
#define WFI_GEMM_TEXT(x)  WFI_GEMM_TEXT_(x)
const wfi_gemm_kernels WFI_K(wfi_gemm) = {
    .name = "gemm " WFI_GEMM_TEXT(WFI_ISA),
    .order = "chain",
    .prepare = prepare,
    .run = run,
    .keep_bytes = keep_bytes,
    .keep = keep,
    .run_kept = run_kept,
    .choices = &choices,
};
