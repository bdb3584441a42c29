/* conv_forward.h - the dense core: for each block of output pixels, panels of output channels, register tiles. */
/* What a worker that computes this chunk should fetch while it does: the input of its next chunk, and output rows one
 * row ahead. Without it a worker alternates between waiting for memory and computing. */
static ahead look_ahead(const fwd_job *job, int64_t chunk, int64_t n, int64_t oy, int64_t steps)
{
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    int64_t rblk = (chunk + job->threads) % g->nrb, a = rblk * g->rb * c->sh - c->pt;
    ahead next = { { job->x, job->x }, { 0, 0 }, 0 };
    if (g->ncb > 1 || g->nub > 1 || c->groups > 1 || steps == 0) {
        return next;
    }
    fetch_rows(&next, 0, &c->x, job->x, (chunk + job->threads) / g->nrb, c->n, a, a + rows_under(c, g->rb), c->ih, c->iw,
               c->ci, g->rb * steps);
    if (g->rows_first) {
        fetch_rows(&next, 1, &c->y, job->y, n, c->n, oy + 1, oy + 2, c->oh, c->ow, c->co, steps);
    }
    return next;
}

/* One output row, columns ox0 .. ox1-1, one panel. a: its first valid input row at ox0; y: element [n, j0, oy, ox0]. */
static void panel_row(const fwd_job *job, const T *a, int64_t nky, const T *b, int64_t cols, int64_t nr, int64_t nj,
                      void *y, ahead *next)
{
    const geo *g = &job->g;
    const conv_plane *p = &g->c.y;
    bool whole = is_native(p->dtype) && p->s[1] == 1 && nj == nr;
    fwd_fn *const *tiles = (g->len == 1 ? flat_tiles : fwd_tiles)[nr == NR];
    int64_t most = nr == NR ? MR2 : MR1, ai = g->c.sw * g->pix;
    T tmp[MR_MAX * NR] __attribute__((aligned(64)));
    even e = even_split(cols, most);
    for (int64_t t = 0, q = 0, m; t < e.tiles; t++, q += m) {
        m = e.rows + (t < e.more);
        if (whole) {
            tiles[m - 1](a + q * ai, ai, job->seg, nky * g->per_row, g->len, b, (T *)y + q * p->s[3], p->s[3],
                         next);
        } else {
            tiles[m - 1](a + q * ai, ai, job->seg, nky * g->per_row, g->len, b, tmp, nr, next);
            put_pixels(at_mut(y, q * p->s[3], p->dtype), p->s[3], p->s[1], tmp, nr, m, nj, p->dtype);
        }
    }
}

/* A block of output pixels at work. */
typedef struct block {
    int64_t n, ox0, cols, oy0, oy1, first; /* first: the input row at `rows` */
    const T *rows;
    ahead next;
} block;

/* Unit u (panel of a group), output rows oy0 .. oy1-1. */
static void unit_rows(const fwd_job *job, block *k, int64_t u, int64_t oy0, int64_t oy1)
{
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    int64_t np = panels(c->co), grp = u / np, j0 = u % np * NR, nr = panel_width(c->co, u % np);
    int64_t nj = c->co - j0 < nr ? c->co - j0 : nr, steps = c->kw * c->ci;
    const T *b = job->wp + c->kh * steps * (grp * padded(c->co) + j0);
    int64_t o = c->y0 + k->n * c->y.s[0] + (grp * c->co + j0) * c->y.s[1] + k->ox0 * c->y.s[3];
    for (int64_t oy = oy0; oy < oy1; oy++) {
        int64_t ky0, ky1;
        kernel_rows(c, oy, &ky0, &ky1);
        const T *a = ky0 < ky1 ? k->rows + (oy * c->sh - c->pt + ky0 * c->dh - k->first) * g->line : k->rows;
        panel_row(job, a, ky1 - ky0, b + ky0 * steps * nr, k->cols, nr, nj,
                  at_mut(job->y, o + oy * c->y.s[2], c->y.dtype), &k->next);
    }
}

static void fwd_chunk(void *arg, int64_t chunk, int worker)
{
    const fwd_job *job = arg;
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)(job->buffers + (size_t)worker * job->buffer_bytes);
    int64_t ub = chunk % g->nub, cblk = chunk / g->nub % g->ncb, rblk = chunk / g->nub / g->ncb % g->nrb;
    int64_t u0 = g->units * ub / g->nub, u1 = g->units * (ub + 1) / g->nub, np = panels(c->co), last_group = -1;
    block k = { .n = chunk / g->nub / g->ncb / g->nrb, .ox0 = cblk * g->cb, .oy0 = rblk * g->rb };
    k.cols = c->ow - k.ox0 < g->cb ? c->ow - k.ox0 : g->cb;
    k.oy1 = c->oh - k.oy0 < g->rb ? c->oh : k.oy0 + g->rb;
    k.next = look_ahead(job, chunk, k.n, k.oy0, even_split(k.cols, MR2).tiles * np * c->kh * c->kw * c->ci);
    for (int64_t u = u0; u < u1; u++) {
        if (u / np != last_group) {
            const void *x = at(job->x, k.n * c->x.s[0] + u / np * c->ci * c->x.s[1], c->x.dtype);
            k.rows = block_rows(g, x, k.ox0, k.oy0, k.oy1, buf, &k.first);
            last_group = u / np;
        }
        if (!g->rows_first) {
            unit_rows(job, &k, u, k.oy0, k.oy1);
        }
    }
    for (int64_t oy = k.oy0; g->rows_first && oy < k.oy1; oy++) {
        for (int64_t u = u0; u < u1; u++) {
            unit_rows(job, &k, u, oy, oy + 1);
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

static void run_core(const conv_core *core, const conv_room *r, void *const *args, const wfi_run *run)
{
    fwd_job job;
    geo *g = &job.g;
    char *scratch = run->scratch;
    ptrdiff_t *seg = (ptrdiff_t *)(void *)(scratch + r->seg);
    T *wp = (T *)(void *)(scratch + r->weights);
    wfi_pool *pool = wfi_pool_threads(run->pool) <= core->threads ? run->pool : NULL;
    job.threads = pool != NULL ? wfi_pool_threads(pool) : 1;
    geometry(core, g);
    if (g->c.n == 0 || g->c.oh == 0 || g->c.ow == 0 || g->c.co == 0) {
        return;
    }
    job.x = args[1];
    job.y = args[0];
    job.seg = seg;
    job.wp = wp;
    job.buffers = scratch + r->worker;
    job.buffer_bytes = r->worker_bytes;
    if (g->depth) {
        depth_run(&job, wp, args[2], pool);
        return;
    }
    segments(g, seg);
    wfi_pool_run(pool, g->c.groups * panels(g->c.co), pack_chunk, &(pack_job){ .c = &g->c, .w = args[2], .wp = wp });
    wfi_pool_run(pool, g->c.n * g->nrb * g->ncb * g->nub, fwd_chunk, &job);
}
