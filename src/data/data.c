/* Data sets as tensors: the loader's batches in counted buffers, so that a step that is still open keeps its batch
 * while the next one is taken. The buffers come from the context's free lists: nothing is allocated once two batches
 * have gone round. */
#include <string.h>
#include "base/env.h"
#include "data/loader.h"
#include "record/record.h"

struct wf_data {
    wfi_owned owned;
    wf_ctx *ctx;
    wfi_loader *loader;
    const char *site;
    wf_tensor *x, *y; /* the batch handed out last: one reference each is ours */
};

static void give_back(wf_data *d)
{
    wfi_handle_unref(d->ctx, d->x);
    wfi_handle_unref(d->ctx, d->y);
    d->x = d->y = NULL;
}

static void drop(wfi_owned *o)
{
    wf_data *d = (wf_data *)o;
    give_back(d);
    wfi_loader_close(d->loader);
    wfi_mem_free(d->ctx->mem, d);
}

static wfi_loader *open_loader(wf_ctx *c, const char *name, const wf_data_opts *o, wfi_problem *p)
{
    wfi_dataset set;
    wfi_dataset_opts so = { .folder = wfi_env_get("WEFT_DATA"), .window = o->window };
    wfi_loader_opts lo = {
        .batch = o->batch, .shuffle = o->shuffle, .drop_last = o->drop_last, .seed = o->seed ? o->seed : c->seed
    };
    if (wfi_dataset_open(c->mem, name, &so, &set, p) != WF_OK)
        return NULL;
    return wfi_loader_open(c->mem, &set, &lo, p);
}

static bool check_opts(wf_ctx *c, const char *name, const wf_data_opts *o, const char *site)
{
    if (o->unnamed)
        wfi_error_set(c, WF_ERR_ARG, "wf_data_open", site, "options need names: .batch = 128");
    else if (!name)
        wfi_error_set(c, WF_ERR_ARG, "wf_data_open", site, "the name is NULL");
    else if (o->batch < 0 || o->window < 0)
        wfi_error_set(c, WF_ERR_ARG, "wf_data_open", site, "%s is %lld: 1 or more was expected (0: the default)",
                      o->batch < 0 ? "batch" : "window", (long long)(o->batch < 0 ? o->batch : o->window));
    return c->status == WF_OK;
}

wf_data *wf_data_open_(wf_ctx *c, const char *name, const wf_data_opts *o, const char *site)
{
    static const wf_data_opts plain;
    if (!c || c->status != WF_OK || !check_opts(c, name, o ? o : &plain, site))
        return NULL;
    wfi_problem p = { WF_OK, "" };
    wf_data *d = wfi_mem_zalloc(c->mem, sizeof *d);
    if (!d)
        return wfi_error_memory(c, "a data set", site), NULL;
    if (!(d->loader = open_loader(c, name, o ? o : &plain, &p))) {
        wfi_mem_free(c->mem, d);
        wfi_error_set(c, p.status != WF_OK ? p.status : WF_ERR_IO, "wf_data_open", site, "%s", p.text);
        return NULL;
    }
    d->ctx = c;
    d->site = site;
    d->owned = (wfi_owned){ .drop = drop, .order = 1 };
    wfi_ctx_own(c, &d->owned);
    return d;
}

/* A leaf of our own: no scope owns it. from: n samples of the part. */
static wf_tensor *leaf(wf_data *d, const wfi_part *part, int64_t n, const void *from)
{
    wf_ctx *c = d->ctx;
    int64_t dim[WF_RANK_MAX] = { n };
    memcpy(dim + 1, part->dims, (size_t)part->ndim * sizeof *dim);
    uint32_t type = wfi_ids_type(&c->ids, part->dtype, part->ndim + 1, dim),
             layout = type ? wfi_ids_dense(&c->ids, type) : 0;
    if (!layout)
        return wfi_error_memory(c, "a batch", d->site), NULL;
    size_t bytes = (size_t)n * part->bytes;
    wfi_buf *buf = wfi_buf_new(c, bytes);
    wf_tensor *h = buf ? wfi_handle_new(c) : NULL;
    if (!h) {
        wfi_buf_unref(c, buf);
        return NULL;
    }
    memcpy(buf->data, from, bytes);
    h->buf = buf;
    h->type = type;
    h->layout = layout;
    h->site = d->site;
    h->op = WFI_EV_INPUT;
    return h;
}

bool wf_data_next(wf_data *d, wf_batch *b)
{
    if (!d || !b)
        return false;
    *b = (wf_batch){ .x = NULL };
    wf_ctx *c = d->ctx;
    give_back(d);
    if (c->status != WF_OK)
        return false;
    wfi_batch got;
    wfi_problem p = { WF_OK, "" };
    if (wfi_loader_next(d->loader, &got, &p) != WF_OK) {
        wfi_error_set(c, p.status, "wf_data_next", d->site, "%s", p.text);
        return false;
    }
    if (!got.n)
        return false;
    const wfi_dataset *set = wfi_loader_data(d->loader);
    d->x = leaf(d, &set->x, got.n, got.x);
    if (got.y && d->x)
        d->y = leaf(d, &set->y, got.n, got.y);
    if (c->status != WF_OK) {
        give_back(d);
        return false;
    }
    *b =
        (wf_batch){ .x = d->x, .y = d->y, .count = got.n, .epoch = (int64_t)got.at.epoch, .position = got.at.position };
    return true;
}

int64_t wf_data_count(const wf_data *d)
{
    return d ? wfi_loader_samples(d->loader) : 0;
}

int64_t wf_data_batches(const wf_data *d)
{
    return d ? wfi_loader_batches(d->loader) : 0;
}

wf_status wf_data_seek(wf_data *d, int64_t epoch, int64_t position)
{
    if (!d)
        return WF_ERR_ARG;
    wf_ctx *c = d->ctx;
    if (c->status != WF_OK)
        return c->status;
    wfi_problem p = { WF_OK, "" };
    if (epoch < 0)
        wfi_error_set(c, WF_ERR_ARG, "wf_data_seek", d->site, "epoch %lld is below 0", (long long)epoch);
    else if (wfi_loader_seek(d->loader, (wfi_cursor){ (uint64_t)epoch, position }, &p) != WF_OK)
        wfi_error_set(c, p.status, "wf_data_seek", d->site, "%s", p.text);
    return c->status;
}

void wf_data_close(wf_data *d)
{
    if (!d)
        return;
    wfi_ctx_disown(d->ctx, &d->owned);
    drop(&d->owned);
}
