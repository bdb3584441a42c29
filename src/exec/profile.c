#include "exec/profile.h"
#include "base/clock.h"

static double stamp_cost(void)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 64; i++) {
        uint64_t a = wfi_clock_ns(), b = wfi_clock_ns();
        best = b - a < best ? b - a : best;
    }
    return (double)best;
}

static void fill(wfi_profile *f, const wfi_plan *p)
{
    for (uint32_t i = 0; i <= p->nrun; i++) {
        f->stamp_arg[i] = &f->stamp[i];
        f->cmd[f->n++] = (wfi_cmd){ .kind = WFI_CMD_STAMP, .args = &f->stamp_arg[i] };
        if (i < p->nrun)
            f->cmd[f->n++] = p->run[i];
    }
}

wfi_profile *wfi_profile_of(wf_ctx *c, wfi_plan *p)
{
    const size_t n = (size_t)p->nrun + 1;
    wfi_profile *f = p->profile;
    if (f || !c->profile)
        return c->profile ? f : NULL;
    if (!(f = p->profile = wfi_mem_zalloc(c->mem, sizeof *f)))
        return NULL;
    f->cmd = wfi_mem_array(c->mem, n * 2, sizeof *f->cmd);
    f->stamp = wfi_mem_zalloc(c->mem, n * sizeof *f->stamp);
    f->stamp_arg = wfi_mem_array(c->mem, n, sizeof *f->stamp_arg);
    f->spent = wfi_mem_zalloc(c->mem, n * sizeof *f->spent);
    if (!f->cmd || !f->stamp || !f->stamp_arg || !f->spent) {
        wfi_profile_free(c, f);
        return p->profile = NULL;
    }
    f->stamp_ns = stamp_cost();
    fill(f, p);
    return f;
}

void wfi_profile_free(wf_ctx *c, wfi_profile *f)
{
    if (!f)
        return;
    void *const parts[] = { f->cmd, f->stamp, f->stamp_arg, f->spent };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(c->mem, parts[i]);
    wfi_mem_free(c->mem, f);
}

static void add(wfi_spent *s, double ns, bool first)
{
    ns = ns > 0 ? ns : 0;
    s->best = first || ns < s->best ? ns : s->best;
    s->sum = (first ? 0 : s->sum) + ns;
}

void wfi_profile_add(wfi_profile *f, const wfi_plan *p, uint64_t start_ns)
{
    const double stamps = f->stamp_ns * (p->nrun + 1);
    const bool first = p->runs <= 2; /* the second run takes the place of the first, which met cold memory */
    f->runs = first ? 1 : f->runs + 1;
    for (uint32_t i = 0; i < p->nrun; i++)
        add(&f->spent[i], (double)(f->stamp[i + 1] - f->stamp[i]) - f->stamp_ns, first);
    add(&f->whole, (double)(wfi_clock_ns() - start_ns) - stamps, first);
}
