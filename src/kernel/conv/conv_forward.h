/* conv_forward.h - the dense core: for each block of output pixels, panels of output channels, register tiles. */
/* A block of output pixels at work. */
typedef struct block {
    int64_t n, images;                  /* the first image, how many */
    int64_t ox0, cols, oy0, oy1, first; /* first: the input row at `rows` */
    const T *rows;
    ahead next;
} block;

static block block_of(const fwd_job *job, int64_t chunk)
{
    const geo *g = &job->g;
    int64_t cblk = chunk / g->nub % g->ncb, rblk = chunk / g->nub / g->ncb % g->nrb;
    block k = { .n = chunk / g->nub / g->ncb / g->nrb * g->images, .ox0 = cblk * g->cb, .oy0 = rblk * g->rb };
    k.images = g->c.n - k.n < g->images ? g->c.n - k.n : g->images;
    k.cols = g->c.ow - k.ox0 < g->cb ? g->c.ow - k.ox0 : g->cb;
    k.oy1 = g->c.oh - k.oy0 < g->rb ? g->c.oh : k.oy0 + g->rb;
    return k;
}

/* What a worker should fetch while it computes a block: the input of its next chunk, and the output one tile ahead.
 * Without it a worker alternates between waiting for memory and computing. */
static void look_ahead(const fwd_job *job, int64_t chunk, block *k)
{
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    int64_t rows = k->oy1 - k->oy0, last = panels(c->co);
    int64_t steps = rows * even_split(k->cols, MR2).tiles * last * c->kh * c->kw * c->ci;
    block b = block_of(job, chunk + job->threads * g->nub);
    int64_t top = b.oy0 * c->sh - c->pt, left = b.ox0 * c->sw - c->pl;
    k->next = (ahead){ { job->x, job->x }, { 0, 0 }, 0 };
    if (g->by_image || g->nub > 1 || c->groups > 1 || (g->ncb > 1 && c->oh > 1)) {
        return;
    }
    fetch_rows(&k->next, 0, &c->x, job->x, b.n, c->n, top, top + rows_under(c, g->rb), c->ih, c->iw, c->ci, steps);
    if (g->ncb > 1) { /* one long row, a piece of it */
        k->next.p[0] += left * c->x.s[3] * (int64_t)sizeof(T);
        k->next.step[0] = k->next.step[0] / g->ncb + 1;
    }
    if (g->rows_first) {
        fetch_rows(&k->next, 1, &c->y, job->y, k->n, c->n, k->oy0, k->oy0 + rows, c->oh, c->ow, c->co, steps);
        k->next.p[1] += (k->ox0 + MR2) * c->y.s[3] * (int64_t)sizeof(T);
        k->next.step[1] = k->next.step[1] / g->ncb + 1;
    }
}

/* m pixels, ai and yi apart, one panel. a: the first row of their windows; y: the first pixel's first channel of the
 * panel. */
WFI_INLINE void one_tile(const fwd_job *job, const T *a, int64_t ai, int64_t nky, const T *b, int64_t m, int64_t nr,
                         int64_t nj, void *y, int64_t yi, ahead *next)
{
    const geo *g = &job->g;
    const conv_plane *p = &g->c.y;
    fwd_fn *f = (g->len == 1 ? flat_tiles : fwd_tiles)[nr == NR][m - 1];
    T tmp[MR_MAX * NR] __attribute__((aligned(64)));
    if (is_native(p->dtype) && p->s[1] == 1 && nj == nr) {
        f(a, ai, job->seg, nky * g->per_row, g->len, b, y, yi, next);
        return;
    }
    f(a, ai, job->seg, nky * g->per_row, g->len, b, tmp, nr, next);
    put_pixels(y, yi, p->s[1], tmp, nr, m, nj, p->dtype);
}

/* Output row oy of units u0 .. u1-1 (panels of groups, all of the group in k->rows): for each tile of pixels its
 * panels, so that its windows stay in L1. The pixels of a tile are neighbours in the row, or one of each image. */
static void unit_row(const fwd_job *job, block *k, int64_t u0, int64_t u1, int64_t oy)
{
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    int64_t np = panels(c->co), grp = u0 / np, steps = c->kw * c->ci, across = c->sw * g->pix, ky0, ky1;
    int64_t most = u1 - u0 == 1 && panel_width(c->co, u0 % np) == L ? MR1 : MR2;
    int64_t ai = g->by_image ? g->image : across, yi = g->by_image ? c->y.s[0] : c->y.s[3];
    const T *weights = job->wp + c->kh * steps * grp * padded(c->co);
    kernel_rows(c, oy, &ky0, &ky1);
    const T *a = ky0 < ky1 ? k->rows + (oy * c->sh - c->pt + ky0 * c->dh - k->first) * g->line : k->rows;
    int64_t o = c->y0 + k->n * c->y.s[0] + grp * c->co * c->y.s[1] + oy * c->y.s[2] + k->ox0 * c->y.s[3];
    even e = even_split(g->by_image ? k->images : k->cols, most);
    for (int64_t v = g->by_image ? k->cols : 1; v > 0; v--, a += across, o += c->y.s[3]) {
        for (int64_t t = 0, q = 0, m; t < e.tiles; t++, q += m) {
            m = e.rows + (t < e.more);
            for (int64_t u = u0; u < u1; u++) {
                int64_t j0 = (u - grp * np) * NR, nr = panel_width(c->co, u - grp * np);
                int64_t nj = c->co - j0 < nr ? c->co - j0 : nr;
                one_tile(job, a + q * ai, ai, ky1 - ky0, weights + c->kh * steps * j0 + ky0 * steps * nr, m, nr, nj,
                         at_mut(job->y, o + j0 * c->y.s[1] + q * yi, c->y.dtype), yi, &k->next);
            }
        }
    }
}

static void fwd_chunk(void *arg, int64_t chunk, int worker)
{
    const fwd_job *job = arg;
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)(job->buffers + (size_t)worker * job->buffer_bytes);
    int64_t ub = chunk % g->nub, np = panels(c->co), last_group = -1;
    int64_t u0 = g->units * ub / g->nub, u1 = g->units * (ub + 1) / g->nub;
    block k = block_of(job, chunk);
    look_ahead(job, chunk, &k);
    for (int64_t u = u0, ue; u < u1; u = ue) {
        ue = g->rows_first ? u1 : u + 1; /* rows_first: there is one group */
        if (u / np != last_group) {
            for (int64_t i = 0; i < k.images; i++) {
                const void *x = at(job->x, (k.n + i) * c->x.s[0] + u / np * c->ci * c->x.s[1], c->x.dtype);
                const T *rows = block_rows(g, x, k.ox0, k.oy0, k.oy1, buf + i * g->image, &k.first);
                k.rows = i == 0 ? rows : k.rows;
            }
            last_group = u / np;
        }
        for (int64_t oy = k.oy0; oy < k.oy1; oy++) {
            unit_row(job, &k, u, ue, oy);
        }
    }
}

/* Where each segment of the window begins, relative to its first row. */
static void segments(const geo *g, ptrdiff_t *seg)
{
    const conv_core *c = &g->c;
    for (int64_t y = 0; y < c->kh; y++) {
        for (int64_t s = 0; s < g->per_row; s++) {
            int64_t step = s * g->len; /* steps of (kx, channel) before this segment */
            *seg++ = y * c->dh * g->line + (c->ci > 0 ? step / c->ci * c->dw * g->pix + step % c->ci : 0);
        }
    }
}

typedef struct pack_job {
    const conv_core *c;
    const void *w;
    T *wp;
} pack_job;

static void pack_chunk(void *arg, int64_t chunk, int worker)
{
    const pack_job *job = arg;
    const conv_core *c = job->c;
    int64_t np = panels(c->co), g = chunk / np, panel = chunk % np, j0 = panel * NR;
    int64_t nr = panel_width(c->co, panel), nj = c->co - j0 < nr ? c->co - j0 : nr, rows = c->kh * c->kw * c->ci;
    (void)worker;
    pack_panel(c, job->w, g * c->wg + j0 * c->wj, nj, job->wp + g * rows * padded(c->co) + rows * j0, nr);
}

static void pack_weights(const geo *g, const void *w, T *wp, wfi_pool *pool)
{
    wfi_pool_run(pool, g->c.groups * panels(g->c.co), pack_chunk, &(pack_job){ .c = &g->c, .w = w, .wp = wp });
}

static wfi_pool *pool_of(const conv_core *c, const wfi_run *run)
{
    return wfi_pool_threads(run->pool) <= c->threads ? run->pool : NULL;
}

static void pack_core(const conv_core *core, const void *w, void *weights, const wfi_run *run)
{
    geo g;
    geometry(core, &g);
    pack_weights(&g, w, weights, pool_of(core, run));
}

static void run_core(const conv_core *core, const conv_room *r, void *const *args, const void *weights,
                     const wfi_run *run)
{
    fwd_job job;
    geo *g = &job.g;
    char *scratch = run->scratch;
    ptrdiff_t *seg = (ptrdiff_t *)(void *)(scratch + r->seg);
    T *wp = (T *)(void *)(scratch + r->weights);
    wfi_pool *pool = pool_of(core, run);
    job.threads = pool != NULL ? wfi_pool_threads(pool) : 1;
    geometry(core, g);
    if (g->c.n == 0 || g->c.oh == 0 || g->c.ow == 0 || g->c.co == 0) {
        return;
    }
    job.x = args[1];
    job.y = args[0];
    job.seg = seg;
    job.wp = weights != NULL ? weights : wp;
    job.buffers = scratch + r->worker;
    job.buffer_bytes = r->worker_bytes;
    if (g->depth) {
        depth_run(&job, wp, args[2], pool);
        return;
    }
    segments(g, seg);
    if (weights == NULL) {
        pack_weights(g, args[2], wp, pool);
    }
    wfi_pool_run(pool, ceil_div(g->c.n, g->images) * g->nrb * g->ncb * g->nub, fwd_chunk, &job);
}
