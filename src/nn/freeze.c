/* Frozen weights: one block of memory that any context of the runtime reads. It is counted: the program holds one
 * reference, every variable that reads it another one. */
#include <stdatomic.h>
#include <string.h>
#include "base/ck.h"
#include "nn/model.h"

typedef struct frozen_param {
    char *path;
    wf_dtype dtype;
    int32_t ndim;
    int64_t dim[WF_RANK_MAX];
    size_t at, bytes; /* in the block */
} frozen_param;

struct wf_frozen {
    _Atomic size_t refs;
    wf_runtime *rt;
    frozen_param *param;
    uint32_t n;
    char *paths; /* text of all paths */
    char *data;
};

void wfi_frozen_unref(void *keep); /* memory.c calls it when a buffer that reads the block is dropped */

static void destroy(wf_frozen *f)
{
    wf_runtime *rt = f->rt;
    wfi_mem_free(&rt->mem, f->param);
    wfi_mem_free(&rt->mem, f->paths);
    wfi_mem_free(&rt->mem, f->data);
    wfi_mem_free(&rt->mem, f);
    wf_runtime_free(rt);
}

void wfi_frozen_unref(void *keep)
{
    wf_frozen *f = keep;
    if (f && atomic_fetch_sub(&f->refs, 1) == 1)
        destroy(f);
}

void wf_frozen_free(wf_frozen *f)
{
    wfi_frozen_unref(f);
}

/* Sizes of the block and the texts. */
static bool measure(const wf_model *m, uint32_t first, uint32_t n, size_t *bytes, size_t *text)
{
    *bytes = *text = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wfi_param *p = m->root->sorted[first + i];
        size_t aligned;
        if (!wfi_ck_align(wfi_type_at(&m->root->ctx->ids, p->var->type)->bytes, 64, &aligned) ||
            !wfi_ck_add(*bytes, aligned, bytes) || !wfi_ck_add(*text, strlen(wfi_param_below(m, p)) + 1, text))
            return false;
    }
    return true;
}

static void fill(wf_frozen *f, const wf_model *m, uint32_t first)
{
    size_t at = 0;
    char *text = f->paths;
    for (uint32_t i = 0; i < f->n; i++) {
        const wfi_param *p = m->root->sorted[first + i];
        const wfi_type *t = wfi_type_at(&m->root->ctx->ids, p->var->type);
        size_t len = strlen(wfi_param_below(m, p)) + 1;
        frozen_param *q = &f->param[i];
        *q = (frozen_param){ .path = text, .dtype = t->dtype, .ndim = t->ndim, .at = at, .bytes = t->bytes };
        memcpy(q->dim, t->dim, sizeof t->dim);
        memcpy(text, wfi_param_below(m, p), len);
        if (t->bytes)
            memcpy(f->data + at, p->var->buf->data, t->bytes);
        text += len;
        at += (t->bytes + 63) & ~(size_t)63;
    }
}

wf_frozen *wf_model_freeze(wf_model *m)
{
    if (!m || !wfi_model_quiet(m, "wf_model_freeze"))
        return NULL;
    wf_ctx *c = m->root->ctx;
    wf_runtime *rt = c->rt;
    size_t bytes, text;
    uint32_t first, n = wfi_params_of(m, &first);
    wf_frozen *f = wfi_mem_zalloc(&rt->mem, sizeof *f);
    if (f && measure(m, first, n, &bytes, &text)) {
        atomic_store(&f->refs, 1);
        f->n = n;
        f->param = wfi_mem_zalloc(&rt->mem, ((size_t)n + 1) * sizeof *f->param);
        f->paths = wfi_mem_alloc(&rt->mem, text + 1);
        f->data = wfi_mem_alloc(&rt->mem, bytes + 64);
        f->rt = rt;
        atomic_fetch_add(&rt->refs, 1);
        if (f->param && f->paths && f->data) {
            fill(f, m, first);
            return f;
        }
        destroy(f);
    } else
        wfi_mem_free(&rt->mem, f);
    wfi_error_memory(c, "frozen weights", NULL);
    return NULL;
}

static bool thaw(wfi_root *r, const wf_model *m, wf_frozen *f, const frozen_param *q)
{
    wf_ctx *c = r->ctx;
    uint32_t type = wfi_ids_type(&c->ids, q->dtype, q->ndim, q->dim);
    wfi_buf *buf = wfi_mem_zalloc(c->mem, sizeof *buf);
    wfi_param *p = type && buf ? wfi_param_new(r, m, q->path, type, "wf_model_freeze") : NULL;
    if (!p) {
        wfi_mem_free(c->mem, buf);
        return wfi_error_memory(c, "a parameter", NULL), false;
    }
    atomic_fetch_add(&f->refs, 1);
    *buf = (wfi_buf){ .refs = 1, .data = f->data + q->at, .bytes = q->bytes, .keep = f };
    p->var->buf = buf;
    p->var->trainable = false;
    p->frozen = true;
    wfi_param_add(r, p);
    return true;
}

wf_model *wf_model_thawed(wf_ctx *c, wf_frozen *f)
{
    if (!c || c->status != WF_OK)
        return NULL;
    if (!f || f->rt != c->rt) {
        wfi_error_set(c, WF_ERR_ARG, "wf_model_thawed", NULL,
                      f ? "the frozen weights belong to another runtime" : "the frozen weights are NULL");
        return NULL;
    }
    wf_model *m;
    wfi_root *r = wfi_root_new(c, &m);
    if (!r)
        return NULL;
    r->thawed = true;
    if (!wfi_params_reserve(r, f->n))
        return wfi_error_memory(c, "a model", NULL), NULL;
    for (uint32_t i = 0; i < f->n; i++)
        if (!thaw(r, m, f, &f->param[i]))
            return NULL;
    return m;
}
