/* conv_forward.h - the dense core: for each block of output pixels, panels of output channels, register tiles. */
/* One output row, columns ox0 .. ox1-1, one panel. a: its first valid input row at ox0; y: element [n, j0, oy, ox0]. */
static void panel_row(const fwd_job *job, const T *a, int64_t nky, const T *b, int64_t cols, int64_t nr, int64_t nj,
                      void *y)
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
            tiles[m - 1](a + q * ai, ai, job->seg, nky * g->per_row, g->len, b, (T *)y + q * p->s[3], p->s[3]);
        } else {
            tiles[m - 1](a + q * ai, ai, job->seg, nky * g->per_row, g->len, b, tmp, nr);
            put_pixels(at_mut(y, q * p->s[3], p->dtype), p->s[3], p->s[1], tmp, nr, m, nj, p->dtype);
        }
    }
}

static void fwd_chunk(void *arg, int64_t chunk, int worker)
{
    const fwd_job *job = arg;
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)(job->buffers + (size_t)worker * job->buffer_bytes);
    int64_t ub = chunk % g->nub, cblk = chunk / g->nub % g->ncb, rblk = chunk / g->nub / g->ncb % g->nrb;
    int64_t n = chunk / g->nub / g->ncb / g->nrb, np = panels(c->co), steps = c->kh * c->kw * c->ci;
    int64_t ox0 = cblk * g->cb, cols = c->ow - ox0 < g->cb ? c->ow - ox0 : g->cb;
    int64_t oy0 = rblk * g->rb, oy1 = c->oh - oy0 < g->rb ? c->oh : oy0 + g->rb, first = 0, last_group = -1;
    const T *rows = NULL;
    for (int64_t u = g->units * ub / g->nub, ue = g->units * (ub + 1) / g->nub; u < ue; u++) {
        int64_t grp = u / np, j0 = u % np * NR, nr = panel_width(c->co, u % np);
        int64_t nj = c->co - j0 < nr ? c->co - j0 : nr;
        if (grp != last_group) {
            const void *x = at(job->x, n * c->x.s[0] + grp * c->ci * c->x.s[1], c->x.dtype);
            rows = block_rows(g, x, ox0, oy0, oy1, buf, &first);
            last_group = grp;
        }
        const T *b = job->wp + grp * steps * padded(c->co) + steps * j0;
        for (int64_t oy = oy0; oy < oy1; oy++) {
            int64_t ky0, ky1, o = c->y0 + n * c->y.s[0] + (grp * c->co + j0) * c->y.s[1] + oy * c->y.s[2] + ox0 * c->y.s[3];
            kernel_rows(c, oy, &ky0, &ky1);
            const T *a = ky0 < ky1 ? rows + (oy * c->sh - c->pt + ky0 * c->dh - first) * g->line : rows;
            panel_row(job, a, ky1 - ky0, b + ky0 * c->kw * c->ci * nr, cols, nr, nj, at_mut(job->y, o, c->y.dtype));
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
