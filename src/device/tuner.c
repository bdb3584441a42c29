#include "device/tuner.h"
#include <stdint.h>
#include <string.h>
#include "base/ck.h"
#include "base/clock.h"

enum { MOST = 512, TRIED_MOST = 8192, ALIGN = 64, LEAST_RUNS = 3 };
#define SAMPLE_NS 20000.0 /* of a sample, so that reading the clock does not count */
#define START_NS  2000.0  /* of a job that threads share */

/* ---- operands ---- */

/* Elements that a view spans, and those before element [0, 0, ...]. False: too many. */
static bool span(const wfi_view *v, size_t *all, size_t *before)
{
    size_t lo = 0, hi = 1, n;
    for (int32_t i = 0; i < v->ndim; i++) {
        const int64_t s = v->stride[i];
        if (v->dim[i] > 0 && (!wfi_ck_mul((size_t)(v->dim[i] - 1), (size_t)(s < 0 ? -s : s), &n) ||
                              !wfi_ck_add(s < 0 ? lo : hi, n, s < 0 ? &lo : &hi)))
            return false;
    }
    *before = lo;
    return wfi_ck_add(lo, hi, all);
}

/* Numbers like those of a network for floats, zeros for whole numbers, which may be indices. */
static void fill(wf_dtype t, void *p, size_t n)
{
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        const float v = (float)(x >> 8) * 0x1p-23f - 1;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        switch (t) {
        case WF_F32: ((float *)p)[i] = v; break;
        case WF_F64: ((double *)p)[i] = (double)v; break;
        case WF_BF16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
        case WF_F16: ((uint16_t *)p)[i] = (uint16_t)(0x3000u + (x >> 20 & 0x83ffu)); break;
        default: return;
        }
    }
}

static bool place(wfi_tuner *t, int i, const wfi_view *v)
{
    size_t n, before, bytes;
    if (v->dtype == WF_DTYPE_NONE)
        return true;
    if (!span(v, &n, &before) || !wfi_ck_mul(n, (size_t)wf_dtype_bytes(v->dtype), &bytes) ||
        !wfi_ck_add(bytes, 2 * ALIGN, &bytes) || !(t->room[i] = t->d->api->alloc(t->d, bytes)))
        return false;
    memset(t->room[i], 0, bytes);
    char *p = (char *)t->room[i] + (ALIGN - (uintptr_t)t->room[i] % ALIGN) % ALIGN;
    fill(v->dtype, p, n);
    t->arg[i] = p + before * (size_t)wf_dtype_bytes(v->dtype);
    return true;
}

/* ---- ways ---- */

static const char *bind(wfi_tuner *t, const wfi_choice *c, wfi_offer *offer, wfi_bind *b)
{
    char *p = t->params;
    *b = wfi_workload_bind(&t->problem, p + (ALIGN - (uintptr_t)p % ALIGN) % ALIGN);
    b->choice = c;
    b->offer = offer;
    return t->d->api->module_load(t->d, b);
}

/* The least time by the roofs of what a candidate computes and moves. */
static double prior(const wfi_traits *w, const wfi_roofs *r, wf_dtype dtype)
{
    const double threads = w->threads < w->pieces ? w->threads : w->pieces;
    const double share = (threads > 1 ? threads : 1) / (r->threads > 1 ? r->threads : 1);
    const double flops = r->flops[dtype] > 0 ? r->flops[dtype] : r->flops[WF_F32];
    const int l2 = r->levels > 1 ? 1 : 0;
    int at = 0;
    while (at + 1 < r->levels && w->moved > (double)r->level[at].bytes)
        at++;
    const double compute = w->flops / (flops * share), moving = w->moved / r->level[at].read;
    const double ns =
        ((compute > moving ? compute : moving) + (2 * w->packed + w->again) / (r->level[l2].read * share)) * 1e9;
    return ns + (threads > 1 ? START_NS : 0) + 1;
}

static bool known(const uint64_t *alike, uint32_t n, uint64_t v)
{
    for (uint32_t i = 0; i < n; i++)
        if (alike[i] == v)
            return true;
    return false;
}

/* All combinations of what the offer has, those that come to the same once. */
static void list_ways(wfi_tuner *t, const wfi_roofs *r, wfi_offer *offer)
{
    uint64_t alike[MOST];
    const double l1 = (double)r->level[0].bytes / (r->threads > 0 ? r->threads : 1),
                 l2 = (double)r->level[r->levels > 1].bytes / (r->threads > 0 ? r->threads : 1);
    wfi_bind b;
    int at[WFI_KNOBS] = { 0 }, k = 0;
    for (int tried = 0; tried < TRIED_MOST && t->n < MOST && k < t->nknob; tried++) {
        wfi_choice c = { { 0 } };
        for (int i = 0; i < t->nknob; i++)
            c.of[i] = at[i] ? t->knob[i].value[at[i] - 1] : 0;
        if (!bind(t, &c, offer, &b) && !known(alike, t->n, offer->traits.alike)) {
            alike[t->n] = offer->traits.alike;
            wfi_search_item *item = &t->item[t->n++];
            *item = (wfi_search_item){ .choice = c, .prior = prior(&offer->traits, r, b.out->dtype) };
            wfi_search_features(&offer->traits, l1, l2, item->x);
        }
        for (k = 0; k < t->nknob && ++at[k] > t->knob[k].n; k++)
            at[k] = 0;
    }
}

const char *wfi_tuner_open(wfi_tuner *t, wfi_device *d, const wfi_roofs *r, const wfi_workload *p)
{
    wfi_offer offer = { .nknob = 0 };
    wfi_bind b;
    const wfi_choice rule = { { 0 } };
    memset(t, 0, sizeof *t);
    t->d = d;
    t->problem = *p;
    t->params = wfi_mem_alloc(d->mem, WFI_BIND_PARAMS + ALIGN);
    t->item = wfi_mem_array(d->mem, MOST, sizeof *t->item);
    t->q = d->api->queue_new(d);
    if (!t->params || !t->item || !t->q)
        return "out of memory";
    const char *why = bind(t, &rule, &offer, &b);
    if (why)
        return why;
    if (!b.tunable || !offer.nknob)
        return "there is one way only to do it";
    t->nknob = offer.nknob;
    memcpy(t->knob, offer.knob, sizeof t->knob);
    bool good = true;
    for (int32_t i = 0; i < p->nout && good; i++)
        good = place(t, i, &b.out[i]);
    for (int32_t i = 0; i < p->nin && good; i++)
        good = place(t, p->nout + i, &p->in[i]);
    if (!good)
        return "out of memory";
    list_ways(t, r, &offer);
    wfi_search_begin(&t->search, t->item, t->n);
    return t->n > 1 ? NULL : "there is one way only to do it";
}

void wfi_tuner_close(wfi_tuner *t)
{
    for (int i = 0; i < WFI_BIND_OUT + WFI_BIND_IN; i++)
        t->d->api->free(t->d, t->room[i]);
    t->d->api->queue_del(t->q);
    wfi_mem_free(t->d->mem, t->item);
    wfi_mem_free(t->d->mem, t->params);
}

/* ---- runs ---- */

static bool ready(wfi_tuner *t, uint32_t i, wfi_bind *b, wfi_cmd *cmd)
{
    if (bind(t, &t->item[i].choice, NULL, b) || !wfi_queue_reserve(t->q, b->scratch > ALIGN ? b->scratch : ALIGN))
        return false;
    *cmd = (wfi_cmd){ .fn = b->fn, .params = b->params, .args = t->arg, .bytes = b->scratch, .kind = WFI_CMD_KERNEL };
    return true;
}

bool wfi_tuner_run(wfi_tuner *t, uint32_t i)
{
    wfi_bind b;
    wfi_cmd cmd;
    return ready(t, i, &b, &cmd) && t->d->api->submit(t->q, &cmd, 1, NULL, 0, 0) == WF_OK;
}

double wfi_tuner_time(wfi_tuner *t, uint32_t i, double seconds)
{
    wfi_bind b;
    wfi_cmd cmd;
    double best = 0;
    if (!ready(t, i, &b, &cmd))
        return 0;
    (void)t->d->api->submit(t->q, &cmd, 1, NULL, 0, 0);
    const uint64_t begin = wfi_clock_ns();
    uint64_t now = begin;
    for (int run = 0, times = 1; run < LEAST_RUNS || (double)(now - begin) < seconds * 1e9; run++) {
        const uint64_t from = now;
        for (int k = 0; k < times; k++)
            (void)t->d->api->submit(t->q, &cmd, 1, NULL, 0, 0);
        now = wfi_clock_ns();
        const double ns = (double)(now - from) / times;
        best = best > 0 && best < ns ? best : ns;
        if (ns * times < SAMPLE_NS && times < 1 << 20)
            times *= 2;
    }
    return best > 0 ? best : 1;
}

void wfi_tuner_print(const wfi_tuner *t, uint32_t i, wfi_text *text)
{
    const wfi_choice *c = &t->item[i].choice;
    bool any = false;
    for (int k = 0; k < t->nknob; k++)
        if (c->of[k]) {
            wfi_text_addf(text, "%s%s=%d", any ? " " : "", t->knob[k].name, c->of[k]);
            any = true;
        }
    if (!any)
        wfi_text_add(text, "by rule");
}
