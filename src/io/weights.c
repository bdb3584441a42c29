/* Saving and loading a model's parameters as safetensors. Paths are those below the view that is saved or loaded. */
#include <stdio.h>
#include <string.h>
#include "io/safetensors.h"
#include "nn/model.h"

static wf_status from_problem(wf_ctx *c, const char *call, const wfi_problem *p)
{
    wfi_error_set(c, p->status, call, NULL, "%s", p->text);
    return c->status;
}

wf_status wf_model_save(wf_model *m, const char *path)
{
    if (!m)
        return WF_ERR_ARG;
    wf_ctx *c = m->root->ctx;
    if (!wfi_model_quiet(m, "wf_model_save"))
        return c->status;
    if (!path)
        wfi_error_set(c, WF_ERR_ARG, "wf_model_save", NULL, "the path is NULL");
    uint32_t first, n = wfi_params_of(m, &first);
    wfi_named *t = path ? wfi_mem_zalloc(c->mem, ((size_t)n + 1) * sizeof *t) : NULL;
    if (!t)
        return path ? wfi_error_memory(c, "the list of parameters", NULL) : c->status;
    for (uint32_t i = 0; i < n; i++) {
        const wfi_param *p = m->root->sorted[first + i];
        const wfi_type *ty = wfi_type_at(&c->ids, p->var->type);
        t[i] = (wfi_named){ .name = wfi_param_below(m, p),
                            .dtype = ty->dtype,
                            .ndim = ty->ndim,
                            .data = p->var->buf->data,
                            .bytes = ty->bytes };
        memcpy(t[i].dims, ty->dim, sizeof ty->dim);
    }
    wfi_problem problem = { WF_OK, "" };
    wf_status st = wfi_safetensors_write(c->mem, path, t, n, NULL, 0, &problem);
    wfi_mem_free(c->mem, t);
    if (st != WF_OK)
        from_problem(c, "wf_model_save", &problem);
    return c->status;
}

/* ---- loading: everything is read, checked and allocated, then nothing can fail any more ---- */

typedef struct loading {
    wf_model *m;
    const char *file;
    const wfi_safetensors *f;
    wfi_buf **buf;     /* of each tensor of the file: its contents */
    wfi_param **param; /* where they go */
    bool *fresh;       /* made for this file, not in the model yet */
} loading;

static bool bad(loading *l, const char *name, wf_status status, const char *got, const char *want, const wfi_param *p)
{
    wf_ctx *c = l->m->root->ctx;
    wfi_error_set(c, status, "wf_model_load", NULL, "%s: %s: got %s, want %s", l->file, name, got, want);
    if (p && c->status == status)
        wfi_error_add(c, "\n  %s: made at %s", p->path.text, p->site ? p->site : "?");
    return false;
}

static bool check_one(loading *l, const wfi_named *t, const wfi_param *p)
{
    wf_ctx *c = l->m->root->ctx;
    uint32_t type = wfi_ids_type(&c->ids, t->dtype, t->ndim, t->dims);
    char got[96], want[96];
    if (type == p->var->type && type)
        return true;
    if (!type)
        return wfi_error_memory(c, "a type", NULL), false;
    bool dtype = t->dtype != wfi_type_at(&c->ids, p->var->type)->dtype;
    return bad(l, t->name, dtype ? WF_ERR_DTYPE : WF_ERR_SHAPE, wfi_type_text(&c->ids, type, got, sizeof got),
               wfi_type_text(&c->ids, p->var->type, want, sizeof want), p);
}

/* Everything that the model has is there, with its type. */
static bool check_all(loading *l)
{
    const wf_model *m = l->m;
    uint32_t first, n = wfi_params_of(m, &first);
    char want[96];
    for (uint32_t i = 0; i < n; i++) {
        const wfi_param *p = m->root->sorted[first + i];
        const wfi_named *t = wfi_safetensors_find(l->f, wfi_param_below(m, p));
        if (!t)
            return bad(l, wfi_param_below(m, p), WF_ERR_FORMAT, "no such tensor",
                       wfi_type_text(&m->root->ctx->ids, p->var->type, want, sizeof want), p);
        if (!check_one(l, t, p))
            return false;
    }
    return true;
}

static bool stage(loading *l, size_t i)
{
    wf_model *m = l->m;
    wf_ctx *c = m->root->ctx;
    const wfi_named *t = &l->f->tensors[i];
    l->param[i] = wfi_param_find(m, t->name);
    if (!l->param[i]) {
        if (!wfi_path_check(c, m, t->name, "wf_model_load", l->file))
            return false;
        uint32_t type = wfi_ids_type(&c->ids, t->dtype, t->ndim, t->dims);
        if (!type)
            return wfi_error_memory(c, "a type", NULL), false;
        l->fresh[i] = true;
        if (!(l->param[i] = wfi_param_new(m->root, m, t->name, type, "wf_model_load")))
            return false;
    }
    if (!(l->buf[i] = wfi_buf_new(c, t->bytes)))
        return false;
    if (t->bytes)
        memcpy(l->buf[i]->data, t->data, t->bytes);
    return true;
}

static void commit(loading *l)
{
    wfi_root *r = l->m->root;
    for (size_t i = 0; i < l->f->n; i++) {
        wf_var *v = l->param[i]->var;
        wfi_buf_unref(r->ctx, v->buf);
        v->buf = l->buf[i];
        v->version++;
        if (l->fresh[i])
            wfi_param_add(r, l->param[i]);
    }
    r->ctx->vserial++; /* values handed out before are snapshots of the old contents */
}

static void forget(loading *l)
{
    wfi_root *r = l->m->root;
    for (size_t i = 0; i < l->f->n; i++) {
        wfi_buf_unref(r->ctx, l->buf[i]);
        if (l->fresh[i])
            wfi_param_free(r, l->param[i]);
    }
}

static bool load(loading *l)
{
    wfi_root *r = l->m->root;
    wf_ctx *c = r->ctx;
    size_t n = l->f->n;
    l->buf = wfi_mem_zalloc(c->mem, (n + 1) * sizeof *l->buf);
    l->param = wfi_mem_zalloc(c->mem, (n + 1) * sizeof *l->param);
    l->fresh = wfi_mem_zalloc(c->mem, n + 1);
    if (!l->buf || !l->param || !l->fresh || !wfi_params_reserve(r, n))
        return wfi_error_memory(c, "the parameters of a file", NULL), false;
    bool ok = check_all(l);
    for (size_t i = 0; ok && i < n; i++)
        ok = stage(l, i);
    if (ok)
        commit(l);
    else
        forget(l);
    return ok;
}

wf_status wf_model_load(wf_model *m, const char *path)
{
    if (!m)
        return WF_ERR_ARG;
    wf_ctx *c = m->root->ctx;
    if (!wfi_model_quiet(m, "wf_model_load"))
        return c->status;
    if (!path || m->root->thawed) {
        wfi_error_set(c, WF_ERR_ARG, "wf_model_load", NULL, path ? "frozen weights do not change" : "the path is NULL");
        return c->status;
    }
    wfi_safetensors f;
    wfi_problem problem = { WF_OK, "" };
    if (wfi_safetensors_read(c->mem, path, &f, &problem) != WF_OK)
        return from_problem(c, "wf_model_load", &problem);
    loading l = { .m = m, .file = path, .f = &f };
    (void)load(&l);
    wfi_mem_free(c->mem, l.buf);
    wfi_mem_free(c->mem, l.param);
    wfi_mem_free(c->mem, l.fresh);
    wfi_safetensors_free(&f);
    return c->status;
}
