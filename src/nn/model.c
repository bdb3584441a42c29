/* Models: parameters by path, made at first use, shared by asking for the same path again. */
#include <string.h>
#include "nn/model.h"
#include "record/capture.h"

/* ---- paths ---- */

#define HASH_START 0xcbf29ce484222325u /* FNV-1a: it can go on where another hash stopped */

static uint64_t hash_on(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static uint64_t hash_dot(uint64_t h)
{
    return (h ^ '.') * 0x100000001b3u;
}

static uint32_t place(uint64_t h)
{
    return (uint32_t)(h ^ h >> 29);
}

/* What follows `word` in s, or NULL if s does not begin so. Words are short: a loop is quicker than two calls. */
static const char *behind(const char *s, const char *word)
{
    while (*word && *s == *word)
        s++, word++;
    return *word ? NULL : s;
}

/* Is it PREFIX.name or PREFIX.name.part? */
static bool reads(const wfi_path *p, const wf_model *m, const char *name, const char *part)
{
    const char *s = p->text;
    if (m->path.n) {
        if (p->n <= m->path.n || memcmp(s, m->path.text, m->path.n) || s[m->path.n] != '.')
            return false;
        s += m->path.n + 1;
    }
    s = behind(s, name);
    if (s && part)
        s = *s == '.' ? behind(s + 1, part) : NULL;
    return s && !*s;
}

static uint64_t hash_of(const wf_model *m, const char *name, const char *part)
{
    uint64_t h = hash_on(m->running, name);
    return part ? hash_on(hash_dot(h), part) : h;
}

static wfi_path *find(const wfi_paths *t, const wf_model *m, uint64_t h, const char *name, const char *part)
{
    for (uint32_t i = place(h); t->slot && t->slot[i & t->mask]; i++) {
        wfi_path *p = t->slot[i & t->mask];
        if (p->hash == h && reads(p, m, name, part))
            return p;
    }
    return NULL;
}

/* Was it asked for like this last time? The name's text decides, since the same address may hold another one by now;
 * parts are literals of the library. */
static inline bool asked_so(const wfi_param *p, const wf_model *m, const char *name, const char *part)
{
    return p->model == m && p->part == part && behind(p->path.text + p->at, name) == p->path.text + p->end;
}

/* As find, but looks first at what is expected. */
static wfi_param *find_again(wfi_root *r, const wf_model *m, const char *name, const char *part)
{
    wfi_param *p;
    uint64_t h = ((uint64_t)(uintptr_t)name ^ (uint64_t)(uintptr_t)part << 7 ^ (uint64_t)(uintptr_t)m) * HASH_START;
    wfi_param **near = &r->near[h >> 56];
    if (*near && asked_so(*near, m, name, part))
        return *near;
    if (!(p = (wfi_param *)find(&r->params, m, hash_of(m, name, part), name, part)))
        return NULL;
    p->model = m;
    p->part = part;
    p->at = m->path.n ? (uint32_t)m->path.n + 1 : 0;
    p->end = (uint32_t)(p->path.n - (part ? strlen(part) + 1 : 0));
    return *near = p;
}

static void put(wfi_paths *t, wfi_path *p)
{
    uint32_t i = place(p->hash);
    while (t->slot[i & t->mask])
        i++;
    t->slot[i & t->mask] = p;
}

static bool reserve(wfi_mem *mem, wfi_paths *t, size_t more)
{
    size_t want = 64;
    while (want < 2 * (t->n + more))
        want *= 2;
    if (t->slot && want <= (size_t)t->mask + 1)
        return true;
    wfi_path **slot = want > UINT32_MAX / 2 ? NULL : wfi_mem_zalloc(mem, want * sizeof *slot), **was = t->slot;
    if (!slot)
        return false;
    uint32_t old = t->mask;
    t->slot = slot;
    t->mask = (uint32_t)want - 1;
    for (uint32_t i = 0; was && i <= old; i++)
        if (was[i])
            put(t, was[i]);
    wfi_mem_free(mem, was);
    return true;
}

/* "PREFIX.name.part" of m */
static bool spell(wfi_mem *mem, wfi_path *p, const wf_model *m, const char *name, const char *part)
{
    size_t a = m->path.n, b = strlen(name), d = part ? strlen(part) : 0;
    char *s = p->text = wfi_mem_alloc(mem, a + b + d + 3);
    if (!s)
        return false;
    if (a) {
        memcpy(s, m->path.text, a);
        s += a;
        *s++ = '.';
    }
    memcpy(s, name, b);
    s += b;
    if (part) {
        *s++ = '.';
        memcpy(s, part, d);
        s += d;
    }
    *s = 0;
    p->n = (size_t)(s - p->text);
    p->hash = hash_of(m, name, part);
    return true;
}

bool wfi_path_check(wf_ctx *c, const wf_model *m, const char *name, const char *call, const char *site)
{
    const char *why = NULL;
    if (c->status != WF_OK)
        return false;
    if (!name || !*name)
        why = name ? "the name is empty" : "the name is NULL";
    else if (strlen(name) + m->path.n > WFI_PATH_MAX)
        why = "the path is longer than 1000 bytes";
    for (const char *s = name; !why && *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 0x7f)
            why = "a name holds no blanks and no control characters";
        else if (*s == '.' && (s == name || !s[1] || s[1] == '.'))
            why = "a part of the name is empty";
    if (!why)
        return true;
    if (!name || strlen(name) > WFI_PATH_MAX)
        wfi_error_set(c, WF_ERR_ARG, call, site, "%s", why);
    else
        wfi_error_set(c, WF_ERR_ARG, call, site, "%s: \"%.100s\"", why, name);
    return false;
}

/* ---- what a context has once ---- */

static void drop_nn(wfi_owned *o)
{
    wfi_nn *nn = (wfi_nn *)o;
    wf_ctx *c = nn->ctx;
    c->extra[0] = NULL;
    wfi_mem_free(c->mem, nn->opt);
    wfi_mem_free(c->mem, nn);
}

wfi_nn *wfi_nn_of(wf_ctx *c)
{
    wfi_nn *nn = c->extra[0];
    if (nn)
        return nn;
    if (!(nn = wfi_mem_zalloc(c->mem, sizeof *nn)))
        return wfi_error_memory(c, "a model", NULL), NULL;
    nn->ctx = c;
    nn->owned = (wfi_owned){ .drop = drop_nn, .order = 100 };
    c->extra[0] = nn;
    wfi_ctx_own(c, &nn->owned);
    return nn;
}

/* ---- models ---- */

void wfi_param_free(wfi_root *r, wfi_param *p)
{
    if (p)
        wfi_mem_free(r->ctx->mem, p->path.text);
    wfi_mem_free(r->ctx->mem, p);
}

static void drop_root(wfi_owned *o)
{
    wfi_root *r = (wfi_root *)o;
    wfi_mem *mem = r->ctx->mem;
    for (uint32_t i = 0; i < r->params.n; i++)
        wfi_param_free(r, r->sorted[i]);
    for (uint32_t i = 0; r->views.slot && i <= r->views.mask; i++)
        if (r->views.slot[i]) {
            wfi_mem_free(mem, r->views.slot[i]->text);
            wfi_mem_free(mem, r->views.slot[i]);
        }
    wfi_mem_free(mem, r->views.slot);
    wfi_mem_free(mem, r->params.slot);
    wfi_mem_free(mem, r->sorted);
    wfi_mem_free(mem, r);
}

static wf_model *view_new(wfi_root *r, const wf_model *of, const char *name)
{
    wf_ctx *c = r->ctx;
    wfi_nn *nn = wfi_nn_of(c);
    static const wf_model nothing = { .path = { .n = 0 }, .running = HASH_START };
    wf_model *m = nn ? wfi_mem_zalloc(c->mem, sizeof *m) : NULL;
    if (!m || !reserve(c->mem, &r->views, 1) || !spell(c->mem, &m->path, of ? of : &nothing, name, NULL)) {
        wfi_mem_free(c->mem, m);
        return wfi_error_memory(c, "a model", NULL), NULL;
    }
    m->root = r;
    m->running = of ? hash_dot(m->path.hash) : HASH_START;
    m->id = nn->views++;
    put(&r->views, &m->path);
    r->views.n++;
    return m;
}

wfi_root *wfi_root_new(wf_ctx *c, wf_model **m)
{
    wfi_root *r = wfi_mem_zalloc(c->mem, sizeof *r);
    if (!r)
        return wfi_error_memory(c, "a model", NULL), NULL;
    r->ctx = c;
    r->owned = (wfi_owned){ .drop = drop_root, .order = 10 };
    if (!(*m = view_new(r, NULL, ""))) {
        drop_root(&r->owned);
        return NULL;
    }
    wfi_ctx_own(c, &r->owned);
    return r;
}

wf_model *wf_model_new(wf_ctx *c)
{
    wf_model *m = NULL;
    if (!c || c->status != WF_OK || !wfi_root_new(c, &m))
        return NULL;
    return m;
}

wf_model *wf_model_sub(wf_model *m, const char *name)
{
    if (!m)
        return NULL;
    wf_ctx *c = m->root->ctx;
    if (name) {
        wfi_path *p = find(&m->root->views, m, hash_of(m, name, NULL), name, NULL);
        if (p && p->n)
            return (wf_model *)p;
    }
    return wfi_path_check(c, m, name, "wf_model_sub", NULL) ? view_new(m->root, m, name) : NULL;
}

wf_ctx *wf_model_ctx(const wf_model *m)
{
    return m ? m->root->ctx : NULL;
}

/* ---- parameters ---- */

bool wfi_params_reserve(wfi_root *r, size_t more)
{
    return reserve(r->ctx->mem, &r->params, more) &&
           wfi_mem_grow(r->ctx->mem, &r->sorted, &r->cap_sorted, r->params.n + more, sizeof *r->sorted);
}

/* The first in sorted order that is not below `text`. */
static uint32_t lower_bound(const wfi_root *r, const char *text)
{
    uint32_t lo = 0, hi = r->params.n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (strcmp(r->sorted[mid]->path.text, text) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void wfi_param_add(wfi_root *r, wfi_param *p)
{
    uint32_t at = lower_bound(r, p->path.text);
    memmove(r->sorted + at + 1, r->sorted + at, (r->params.n - at) * sizeof *r->sorted);
    r->sorted[at] = p;
    put(&r->params, &p->path);
    r->params.n++;
}

static wfi_param *param_new(wfi_root *r, const wf_model *m, const char *name, const char *part, uint32_t type,
                            const char *site)
{
    wfi_param *p = wfi_mem_zalloc(r->ctx->mem, sizeof *p);
    if (!p || !spell(r->ctx->mem, &p->path, m, name, part)) {
        wfi_mem_free(r->ctx->mem, p);
        return wfi_error_memory(r->ctx, "a parameter", site), NULL;
    }
    p->site = site;
    if (!(p->var = wfi_var_make(r->ctx, p->path.text, type, site))) {
        wfi_param_free(r, p);
        return NULL;
    }
    return p;
}

wfi_param *wfi_param_new(wfi_root *r, const wf_model *m, const char *name, uint32_t type, const char *site)
{
    return param_new(r, m, name, NULL, type, site);
}

static wfi_param *make(wf_model *m, const char *name, const char *part, const char *kind, const wf_dims *dims,
                       const wf_param_opts *o, const char *site)
{
    wfi_root *r = m->root;
    wf_ctx *c = r->ctx;
    wf_dtype dtype = o->dtype ? o->dtype : WF_F32;
    if (!wfi_path_check(c, m, name, "wf_nn_param", site))
        return NULL;
    if (r->thawed) {
        wfi_error_set(c, WF_ERR_ARG, "wf_nn_param", site, "the frozen weights have no %s%s%s", name, part ? "." : "",
                      part ? part : "");
        return NULL;
    }
    bool ok = dims->n >= 0 && dims->n <= WF_RANK_MAX && wf_dtype_bytes(dtype);
    for (int32_t i = 0; ok && i < dims->n; i++)
        ok = dims->d[i] >= 0;
    uint32_t type = ok ? wfi_ids_type(&c->ids, dtype, dims->n, dims->d) : 0;
    if (!type) {
        wfi_error_set(c, WF_ERR_SHAPE, "wf_nn_param", site, "%s%s%s: no such shape or element type", name,
                      part ? "." : "", part ? part : "");
        return NULL;
    }
    wfi_buf *buf = wfi_buf_new(c, wfi_type_at(&c->ids, type)->bytes);
    wfi_param *p = NULL;
    if (buf && wfi_params_reserve(r, 1))
        p = param_new(r, m, name, part, type, site);
    if (!p) {
        wfi_buf_unref(c, buf);
        return wfi_error_memory(c, "a parameter", site), NULL;
    }
    wfi_init_fill(c->seed, p->path.text, dtype, *dims, o, buf->data);
    p->kind = kind;
    p->frozen = o->frozen;
    p->var->buf = buf;
    p->var->trainable &= !o->frozen && !r->thawed;
    wfi_param_add(r, p);
    return p;
}

static wfi_param *mismatch(wfi_root *r, const wfi_param *p, const char *kind, const wf_dims *dims, wf_dtype dtype,
                           const char *site)
{
    wf_ctx *c = r->ctx;
    char have[96], want[96] = "?";
    uint32_t type = dims->n >= 0 && dims->n <= WF_RANK_MAX ? wfi_ids_type(&c->ids, dtype, dims->n, dims->d) : 0;
    if (type)
        wfi_type_text(&c->ids, type, want, sizeof want);
    wfi_type_text(&c->ids, p->var->type, have, sizeof have);
    wf_dtype had = wfi_type_at(&c->ids, p->var->type)->dtype;
    if (type == p->var->type)
        wfi_error_set(c, WF_ERR_ARG, "wf_nn_param", site, "%s was made as %s, asked for as %s", p->path.text, p->kind,
                      kind);
    else
        wfi_error_set(c, dtype != had ? WF_ERR_DTYPE : WF_ERR_SHAPE, "wf_nn_param", site, "%s is %s, asked for as %s",
                      p->path.text, have, want);
    wfi_error_add(c, "\n  %s: made at %s", p->path.text, p->site ? p->site : "?");
    return NULL;
}

wfi_param *wfi_param_get(wf_model *m, const char *name, const char *part, const char *kind, const wf_dims *dims,
                         const wf_param_opts *o, const char *site)
{
    static const wf_param_opts plain;
    if (!m)
        return NULL;
    o = o ? o : &plain;
    wfi_root *r = m->root;
    wfi_param *p = name ? find_again(r, m, name, part) : NULL;
    if (WFI_UNLIKELY(!p))
        return r->ctx->status == WF_OK ? make(m, name, part, kind, dims, o, site) : NULL;
    const wfi_type *t = wfi_type_at(&r->ctx->ids, p->var->type);
    bool same = t->ndim == dims->n && t->dtype == (o->dtype ? o->dtype : WF_F32);
    for (int32_t i = 0; same && i < dims->n; i++)
        same = t->dim[i] == dims->d[i];
    if (!p->kind && same) { /* it was read from a file: now a layer says what it is */
        p->kind = kind;
        p->frozen |= o->frozen;
        p->var->trainable &= !o->frozen;
    }
    if (!same || (kind && p->kind != kind && strcmp(p->kind, kind)))
        return mismatch(r, p, kind, dims, o->dtype ? o->dtype : WF_F32, site);
    return p;
}

wf_tensor *wfi_param_known(wf_model *m, const char *name, const char *part, const char *kind, wf_dtype dtype,
                           int64_t d0, int64_t d1, const char *site)
{
    wfi_param *p = name ? find_again(m->root, m, name, part) : NULL;
    if (!p || p->kind != kind)
        return NULL;
    const wfi_type *t = wfi_type_at(&m->root->ctx->ids, p->var->type);
    bool same = t->dtype == dtype && t->ndim == (d1 < 0 ? 1 : 2) && t->dim[0] == d0 && (d1 < 0 || t->dim[1] == d1);
    return same ? wf_value_(p->var, site) : NULL;
}

const wfi_param *wfi_param_seen(wf_model *m, const char *name, const char *part)
{
    return find_again(m->root, m, name, part);
}

wf_tensor *wfi_param_value(wf_model *m, const char *name, const char *part, const char *kind, const wf_dims *dims,
                           const wf_param_opts *o, const char *site)
{
    wfi_param *p = wfi_param_get(m, name, part, kind, dims, o, site);
    return p ? wf_value_(p->var, site) : NULL;
}

wf_tensor *wf_nn_param_(wf_model *m, const char *name, wf_dims dims, const wf_param_opts *o, const char *site)
{
    if (m && o && o->unnamed)
        wfi_error_set(m->root->ctx, WF_ERR_ARG, "wf_nn_param", site, "options need names: .init = WF_INIT_ZEROS");
    return wfi_param_value(m, name, NULL, NULL, &dims, o, site);
}

/* ---- listing ---- */

uint32_t wfi_params_of(const wf_model *m, uint32_t *first)
{
    const wfi_root *r = m->root;
    *first = 0;
    if (!m->path.n)
        return r->params.n;
    char text[2 * WFI_PATH_MAX];
    memcpy(text, m->path.text, m->path.n);
    text[m->path.n + 1] = 0;
    text[m->path.n] = '.';
    *first = lower_bound(r, text);
    text[m->path.n] = '.' + 1; /* everything below begins with "PREFIX." and stands together */
    return lower_bound(r, text) - *first;
}

const char *wfi_param_below(const wf_model *m, const wfi_param *p)
{
    return p->path.text + (m->path.n ? m->path.n + 1 : 0);
}

int32_t wf_model_param_count(const wf_model *m)
{
    uint32_t first;
    return m ? (int32_t)wfi_params_of(m, &first) : 0;
}

wf_var *wf_model_param(const wf_model *m, int32_t i)
{
    uint32_t first;
    if (!m || i < 0 || (uint32_t)i >= wfi_params_of(m, &first))
        return NULL;
    return m->root->sorted[first + (uint32_t)i]->var;
}

wfi_param *wfi_param_find(const wf_model *m, const char *name)
{
    return (wfi_param *)find(&m->root->params, m, hash_of(m, name, NULL), name, NULL);
}

wf_var *wf_model_find(const wf_model *m, const char *path)
{
    wfi_param *p = m && path ? wfi_param_find(m, path) : NULL;
    return p ? p->var : NULL;
}

int64_t wf_model_elements(const wf_model *m)
{
    int64_t sum = 0;
    uint32_t first, n = m ? wfi_params_of(m, &first) : 0;
    for (uint32_t i = 0; i < n; i++)
        sum += wfi_type_at(&m->root->ctx->ids, m->root->sorted[first + i]->var->type)->elements;
    return sum;
}

bool wfi_model_quiet(const wf_model *m, const char *call)
{
    wf_ctx *c = m->root->ctx;
    if (c->status == WF_OK && c->in_step)
        wfi_error_set(c, WF_ERR_STATE, call, c->frame[c->step_depth].site,
                      "a step is open, whose assignments are pending: end it first");
    return c->status == WF_OK;
}

/* ---- shapes only ---- */

static bool inputs(wf_ctx *c, int32_t nin, const wf_dtype *dtypes, const wf_dims *dims, wf_tensor **in)
{
    for (int32_t i = 0; i < nin; i++) {
        bool ok = wf_dtype_bytes(dtypes[i]) && dims[i].n >= 0 && dims[i].n <= WF_RANK_MAX;
        for (int32_t k = 0; ok && k < dims[i].n; k++)
            ok = dims[i].d[k] >= 0;
        uint32_t type = ok ? wfi_ids_type(&c->ids, dtypes[i], dims[i].n, dims[i].d) : 0;
        if (!type)
            wfi_error_set(c, WF_ERR_SHAPE, "wf_model_init", NULL, "input %d: no such shape or element type", (int)i);
        if (!type || !(in[i] = wfi_capture_input(c, type, "wf_model_init")))
            return false;
    }
    return true;
}

wf_status wf_model_init(wf_model *m, wf_net *net, void *user, int32_t nin, const wf_dtype *dtypes, const wf_dims *dims)
{
    if (!m)
        return WF_ERR_ARG;
    wf_ctx *c = m->root->ctx;
    if (c->status != WF_OK)
        return c->status;
    if (!net || nin < 0 || (nin && (!dtypes || !dims))) {
        wfi_error_set(c, WF_ERR_ARG, "wf_model_init", NULL, "%s", net ? "inputs are missing" : "the network is NULL");
        return c->status;
    }
    wf_tensor **in = wfi_mem_zalloc(c->mem, ((size_t)nin + 1) * sizeof *in);
    if (!in)
        return wfi_error_memory(c, "a model", NULL);
    wfi_aside aside;
    if (wfi_capture_begin(c, &aside, "wf_model_init", "wf_model_init") && inputs(c, nin, dtypes, dims, in))
        (void)net(user, m, in);
    wfi_capture_end(c, &aside);
    wfi_mem_free(c->mem, in);
    return c->status;
}
