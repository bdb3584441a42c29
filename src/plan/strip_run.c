#include "plan/strip_run.h"

typedef struct job {
    const wfi_strips *s;
    void *const *args;
    const wfi_run *run;
} job;

static void one_strip(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const wfi_strips *s = j->s;
    char *scratch = (char *)j->run->scratch + (size_t)worker * s->each;
    const wfi_run run = { NULL, scratch + s->scratch_at, j->run->fault };
    for (uint32_t k = 0; k < s->n; k++) {
        const wfi_strip_kernel *e = &s->kernel[k];
        void *at[WFI_STRIP_ARGS];
        for (uint32_t i = 0; i < e->nargs; i++) {
            const wfi_strip_arg *a = &s->arg[e->arg0 + i];
            char *whole = j->args[e->arg0 + i];
            at[i] = a->local != WFI_STRIP_SHARED ? scratch + a->local : whole ? whole + number * a->step : NULL;
        }
        e->fn(e->params, at, &run);
    }
}

void wfi_strips_run(const void *params, void *const *args, const wfi_run *run)
{
    const wfi_strips *s = params;
    job j = { s, args, run };
    const int threads = wfi_pool_threads(run->pool);
    wfi_pool_run(threads > 1 && threads <= s->threads ? run->pool : NULL, s->count, one_strip, &j);
}
