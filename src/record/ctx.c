/* Runtimes and contexts: making, options, closing. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/env.h"
#include "codegen/generator.h"
#include "record/record.h"
#include "tune/records.h"

/* ---- runtime ---- */

static int processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

static int env_threads(void)
{
    return (int)wfi_env_int("WEFT_THREADS", 1, 1024, processors(), NULL);
}

/* A page that the kernel wipes in a forked child: asking it is cheaper than asking for the process id. */
static void mark_process(wf_runtime *rt)
{
#ifdef MADV_WIPEONFORK
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    if (madvise(p, page, MADV_WIPEONFORK) != 0) {
        (void)munmap(p, page);
        return;
    }
    *p = 1;
    rt->ours = p;
    rt->page = page;
#else
    (void)rt;
#endif
}

static void unmark_process(wf_runtime *rt)
{
    union {
        const volatile int *in;
        void *out;
    } p = { rt->ours };
    if (rt->ours)
        (void)munmap(p.out, rt->page);
}

wf_runtime *wf_runtime_new(const wf_runtime_opts *o)
{
    static const wf_runtime_opts plain;
    if (!o)
        o = &plain;
    wfi_mem mem;
    wfi_mem_init(&mem, o->alloc, o->alloc_user, o->memory_limit);
    wf_runtime *rt = wfi_mem_zalloc(&mem, sizeof *rt);
    if (!rt)
        return NULL;
    wfi_mem_init(&rt->mem, o->alloc, o->alloc_user, o->memory_limit);
    atomic_store(&rt->refs, 1);
    mark_process(rt);
    rt->threads = o->threads > 0 ? o->threads : env_threads();
    rt->device = wfi_device_cpu.open(&rt->mem, 0, rt->threads);
    if (!rt->device) {
        unmark_process(rt);
        wfi_mem_free(&mem, rt);
        return NULL;
    }
    if (o->no_tuning) {
        wfi_records_free(rt->device->records);
        rt->device->records = NULL;
    }
    return rt;
}

void wf_runtime_free(wf_runtime *rt)
{
    if (!rt || atomic_fetch_sub(&rt->refs, 1) != 1)
        return;
    rt->device->api->close(rt->device);
    unmark_process(rt);
    wfi_mem mem;
    wfi_mem_init(&mem, rt->mem.fn, rt->mem.user, 0);
    wfi_mem_free(&mem, rt);
}

/* ---- context ---- */

static wf_mode mode_of(wf_ctx *c, const wf_ctx_opts *o)
{
    if (o->mode == WF_LAZY || o->mode == WF_EAGER)
        return o->mode;
    const char *s = wfi_env_get("WEFT_MODE");
    if (o->mode != WF_MODE_DEFAULT)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "mode %d is neither WF_LAZY nor WF_EAGER", (int)o->mode);
    else if (s && !strcmp(s, "eager"))
        return WF_EAGER;
    else if (s && *s && strcmp(s, "lazy"))
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "WEFT_MODE is \"%.40s\": eager or lazy was expected", s);
    return WF_LAZY;
}

static uint64_t seed_of(wf_ctx *c, const wf_ctx_opts *o)
{
    const char *bad = NULL;
    int64_t n = wfi_env_int("WEFT_SEED", 1, INT64_MAX, 1, &bad);
    if (bad && !o->seed)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "WEFT_SEED is \"%.40s\": a whole number from 1 was expected",
                      bad);
    return o->seed ? o->seed : (uint64_t)n;
}

static size_t budget_of(wf_ctx *c, const wf_ctx_opts *o)
{
    const char *bad = NULL;
    int64_t mib = wfi_env_int("WEFT_MEMORY_BUDGET", 1, (int64_t)1 << 40, 0, &bad);
    if (bad && !o->memory_budget)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL,
                      "WEFT_MEMORY_BUDGET is \"%.40s\": a whole number of MiB from 1 was expected", bad);
    return o->memory_budget ? o->memory_budget : (size_t)mib << 20;
}

static wf_dtype autocast_of(wf_ctx *c, const wf_ctx_opts *o)
{
    const char *s = wfi_env_get("WEFT_AUTOCAST");
    wf_dtype d = o->autocast ? o->autocast : s && *s ? wf_dtype_of(s) : WF_DTYPE_NONE;
    if (o->autocast && !wfi_autocast_allows(d))
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, ".autocast is %s: bf16, f16 or f32 was expected",
                      wf_dtype_name(d));
    else if (!o->autocast && s && *s && (!d || !wfi_autocast_allows(d)))
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "WEFT_AUTOCAST is \"%.40s\": bf16, f16 or f32 was expected",
                      s);
    return c->status == WF_OK ? wfi_autocast_of(d, WF_DTYPE_NONE) : WF_DTYPE_NONE;
}

static bool split_of(wf_ctx *c, const wf_ctx_opts *o)
{
    const char *s = wfi_env_get("WEFT_F32_PRODUCTS");
    if (o->f32_products < WF_F32_DEFAULT || o->f32_products > WF_F32_BF16X3)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL,
                      ".f32_products is %d: WF_F32_FMA or WF_F32_BF16X3 was expected", (int)o->f32_products);
    if (o->f32_products || !s || !*s)
        return o->f32_products == WF_F32_BF16X3;
    if (strcmp(s, "fma") && strcmp(s, "bf16x3"))
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "WEFT_F32_PRODUCTS is \"%.40s\": fma or bf16x3 was expected",
                      s);
    return !strcmp(s, "bf16x3");
}

static void start_log(wf_ctx *c, const wf_ctx_opts *o)
{
    size_t n;
    c->log = (wfi_log){ c->mem, o->log ? o->log : wfi_env_get("WEFT_LOG"), NULL, o->log_fn, o->log_user };
    if (!o->log || !o->log_fn)
        c->log.file = wfi_env_get("WEFT_LOG_FILE");
    const char *word = wfi_log_unknown(c->log.topics, &n);
    if (word)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL,
                      "%s names \"%.*s\": plan, passes, fusion, dispatch, memory, tune or all was expected",
                      o->log ? "log" : "WEFT_LOG", (int)(n < 40 ? n : 40), word);
    c->profile = o->profile || wfi_log_on(&c->log, "plan");
}

static bool start(wf_ctx *c)
{
    c->r.cursor = &wfi_record_sentinel;
    c->r.owner = WFI_NONE;
    c->captured = c->r;
    c->run_now = true;
    c->vserial = 1;
    wfi_arena_init(&c->bound_data, c->mem);
    if (!wfi_ids_init(&c->ids, c->mem))
        return false;
    c->scalar[WF_F32] = wfi_ids_type(&c->ids, WF_F32, 0, NULL);
    c->queue = c->rt->device->api->queue_new(c->rt->device);
    wfi_step_tag(c);
    c->bind_params = wfi_mem_alloc(c->mem, WFI_BIND_PARAMS);
    return c->queue && c->scalar[WF_F32] && c->bind_params && wfi_steprec_grow(c, 256);
}

wf_ctx *wf_ctx_new(const wf_ctx_opts *o)
{
    static const wf_ctx_opts plain;
    if (!o)
        o = &plain;
    wf_runtime *rt = o->runtime;
    if (rt)
        atomic_fetch_add(&rt->refs, 1);
    else if (!(rt = wf_runtime_new(WF_OPTS(wf_runtime_opts, .threads = o->threads))))
        return NULL;
    wf_ctx *c = wfi_mem_zalloc(&rt->mem, sizeof *c);
    if (!c) {
        wf_runtime_free(rt);
        return NULL;
    }
    c->rt = rt;
    c->mem = &rt->mem;
    c->pid = (int32_t)getpid();
    if (!start(c)) {
        c->error_read = true;
        (void)wf_ctx_close(c);
        return NULL;
    }
    if (o->unnamed)
        wfi_error_set(c, WF_ERR_ARG, "wf_ctx_new", NULL, "options need names: .threads = 2");
    c->mode = mode_of(c, o);
    start_log(c, o);
    c->seed = seed_of(c, o);
    c->budget = budget_of(c, o);
    c->autocast = autocast_of(c, o);
    c->split = split_of(c, o);
    if (o->device && strcmp(o->device, "cpu"))
        wfi_error_set(c, WF_ERR_UNSUPPORTED, "wf_ctx_new", NULL, "device \"%.40s\" is not known; there is: cpu",
                      o->device);
    return c;
}

void wfi_ctx_own(wf_ctx *c, wfi_owned *o)
{
    wfi_owned **at = &c->owned;
    while (*at && (*at)->order < o->order)
        at = &(*at)->next;
    o->next = *at;
    *at = o;
}

void wfi_ctx_disown(wf_ctx *c, wfi_owned *o)
{
    for (wfi_owned **at = &c->owned; *at; at = &(*at)->next)
        if (*at == o) {
            *at = o->next;
            return;
        }
}

static void say(const wf_ctx *c)
{
    if (c->status == WF_OK || c->error_read)
        return;
    size_t n = strlen(c->error);
    const char *p = c->error;
    while (n) { /* best effort: there is nobody left to tell */
        ssize_t k = write(2, p, n);
        if (k <= 0)
            return;
        p += k;
        n -= (size_t)k;
    }
    (void)!write(2, "\n", 1);
}

static void free_step(wf_ctx *c, const wfi_steprec *r)
{
    wfi_mem_free(c->mem, r->H);
    wfi_mem_free(c->mem, r->scratch);
    wfi_mem_free(c->mem, r->live);
    wfi_mem_free(c->mem, r->host);
}

static void drop_values(wf_ctx *c)
{
    for (size_t i = 0; i < c->nown; i++)
        if (c->own[i])
            wfi_handle_unref(c, c->own[i]);
    for (size_t i = 0; i < c->nvar; i++) {
        if (c->var[i]->buf)
            wfi_buf_unref(c, c->var[i]->buf);
        wfi_autocast_forget(c->var[i]);
        wfi_mem_free(c->mem, c->var[i]->name);
        wfi_mem_free(c->mem, c->var[i]);
    }
    for (size_t i = 0; i < c->nhchunk; i++) /* retained and never released */
        for (wf_tensor *h = c->hchunk[i], *end = h + 256; h < end; h++)
            if (h->buf) {
                wfi_buf_unref(c, h->buf);
                h->buf = NULL;
            }
}

int wf_ctx_close(wf_ctx *c)
{
    if (!c)
        return WF_ERR_ARG;
    while (c->depth)
        (void)wf_scope_end(c, (wf_scope){ 1, c->frame[1].serial });
    while (c->owned) {
        wfi_owned *o = c->owned;
        c->owned = o->next;
        o->drop(o);
    }
    say(c);
    int status = (int)c->status;
    wf_runtime *rt = c->rt;
    if (c->queue)
        rt->device->api->queue_del(c->queue);
    wfi_trace_free_all(c);
    wfi_flow_drop(c);
    wfi_flow_forget(c);
    drop_values(c);
    wfi_buf_trim(c);
    free_step(c, &c->r);
    free_step(c, &c->captured);
    for (size_t i = 0; i < c->nhchunk; i++)
        wfi_mem_free(c->mem, c->hchunk[i]);
    void *const lists[] = { c->hchunk,  c->own, c->var,  c->bound, c->infer,      c->arena,
                            c->explain, c->adj, c->mark, c->kept,  c->bind_params };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        wfi_mem_free(c->mem, lists[i]);
    wfi_arena_free(&c->bound_data);
    wfi_ids_free(&c->ids);
    wfi_mem_free(c->mem, c);
    wf_runtime_free(rt);
    return status;
}

int32_t wf_ctx_threads(const wf_ctx *c)
{
    return c ? c->rt->threads : 0;
}
wf_mode wf_ctx_mode(const wf_ctx *c)
{
    return c ? c->mode : WF_MODE_DEFAULT;
}
uint64_t wf_ctx_seed(const wf_ctx *c)
{
    return c ? c->seed : 0;
}

void wf_interrupt(wf_ctx *c)
{
    if (c)
        atomic_store(&c->interrupted, 1);
}

bool wf_interrupted(wf_ctx *c)
{
    return c && atomic_exchange(&c->interrupted, 0);
}

void wfi_contract_note(wf_ctx *c)
{
    if (c->r.contract == c->contract || !wfi_step_tells(c))
        return;
    c->r.contract = c->contract;
    wfi_emit_record(c, WFI_KEY(WFI_EV_CONTRACT, c->contract, 0), WFI_NONE, WFI_NONE, WFI_NONE, 0, NULL);
}

wf_status wf_set_contract(wf_ctx *c, wf_contract contract)
{
    if (!c)
        return WF_ERR_ARG;
    if (contract != WF_STRICT && contract != WF_FAST)
        wfi_error_set(c, WF_ERR_ARG, "wf_set_contract", NULL, "%d is no contract", (int)contract);
    else {
        c->contract = contract;
        wfi_contract_note(c);
    }
    return c->status;
}

wf_stats wf_ctx_stats(const wf_ctx *c)
{
    wf_stats s = c->st;
    s.traces = c->ntrace;
    s.allocations = atomic_load(&c->mem->calls);
    s.live_bytes = atomic_load(&c->mem->live);
    s.peak_bytes = atomic_load(&c->mem->peak);
    if (c->rt->device->generator) {
        wfi_generator_stats g = wfi_generator_counts(c->rt->device->generator);
        s.codes = g.asked, s.compiled = g.compiled, s.loaded = g.loaded, s.failed = g.failed;
    }
    return s;
}

void wf_compile_wait(wf_ctx *c)
{
    if (c && c->rt->device->generator)
        wfi_generator_wait(c->rt->device->generator);
}
