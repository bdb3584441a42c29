/* conv_weight_depth.h - the weight gradient of a depthwise convolution: vectors run over the channels. */
/* One block of width (<= chan) channels: rows of x, dy with pixels bp apart. acc: element [0, 0, first channel]. */
static void depth_weight_block(const geo *g, const T *rows, int64_t first, const T *dy, int64_t bp, int64_t oy0,
                               int64_t oy1, int64_t width, T *acc)
{
    const conv_core *c = &g->c;
    int64_t wl = ceil_div(c->groups, L) * L;
    even e = even_split(c->kw, DEPTH_ROWS);
    for (int64_t ky = 0; ky < c->kh; ky++) {
        int64_t a = oy0, b = oy1;
        inside(ky * c->dh - c->pt, c->sh, c->ih, &a, &b);
        for (int64_t j = 0, nr; a < b && j < width; j += nr) {
            nr = width - j > L ? NR : L;
            const T *x = rows + (a * c->sh - c->pt + ky * c->dh - first) * g->line + j;
            const depth_steps pixels = { .lines = b - a,
                                         .line = c->sh * g->line,
                                         .len = c->ow,
                                         .ap = c->sw * g->pix,
                                         .b = dy + (a - oy0) * c->ow * bp + j,
                                         .bp = bp };
            for (int64_t t = 0, kx = 0, m; t < e.tiles; t++, kx += m) {
                m = e.rows + (t < e.more);
                depth_weight_tiles[nr == NR][m - 1](x + kx * c->dw * g->pix, c->dw * g->pix, &pixels,
                                                    acc + (ky * c->kw + kx) * wl + j, wl);
            }
        }
    }
}

static void depth_weight_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->w.g.c;
    const geo *g = &job->w.g;
    char *buffer = job->buffers + (size_t)worker * job->buffer_bytes;
    T *buf = (T *)(void *)buffer, *pack = (T *)(void *)(buffer + job->pack);
    int64_t j0 = chunk * g->chan, nj = least(c->groups - j0, g->chan), bp, first;
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t oy0 = 0; oy0 < c->oh; oy0 += WFI_CONV_ROWS) {
            int64_t oy1 = c->oh - oy0 < WFI_CONV_ROWS ? c->oh : oy0 + WFI_CONV_ROWS;
            const void *x = at(job->x, n * c->x.s[0] + j0 * c->x.s[1], c->x.dtype);
            const T *rows = input_rows(g, x, nj, c->pl, oy0, oy1, buf, &first);
            const T *dy = dy_block(job, n, oy0, oy1, j0, nj, g->chan, pack, &bp);
            depth_weight_block(g, rows, first, dy, bp, oy0, oy1, ceil_div(nj, L) * L, job->acc + j0);
        }
    }
}

static void depth_weight(wgt_job *job, wfi_pool *pool)
{
    const conv_core *c = &job->w.g.c;
    const conv_plane *d = &job->p->dw;
    int64_t wl = ceil_div(c->groups, L) * L;
    memset(job->acc, 0, (size_t)acc_size(c) * sizeof(T));
    if (c->ow > 0) {
        wfi_pool_run(pool, ceil_div(c->groups, job->w.g.chan), depth_weight_chunk, job);
    }
    for (int64_t j = 0; j < c->groups; j++) {
        for (int64_t t = 0; t < c->kh * c->kw; t++) {
            narrow(job->dw, j * d->s[0] + t / c->kw * d->s[2] + t % c->kw * d->s[3], job->acc[t * wl + j], d->dtype);
        }
    }
}

static void run_weight(const conv_wgrad *p, const conv_wroom *r, void *const *args, const wfi_run *run)
{
    char *scratch = run->scratch;
    wgt_job job = { .p = p, .dw = args[0], .x = args[1], .dy = args[2], .pack = r->pack, .sums = r->sums };
    wfi_pool *pool = pool_of(&p->c, run);
    wgt_geometry(&p->c, &job.w);
    job.acc = (T *)(void *)(scratch + r->acc);
    job.part = (T *)(void *)(scratch + r->part);
    job.buffers = scratch + r->worker;
    job.buffer_bytes = r->worker_bytes;
    job.blocks = ceil_div(p->c.oh, WFI_CONV_ROWS);
    if (job.w.g.depth) {
        depth_weight(&job, pool);
    } else if (job.w.waves) {
        run_waves(&job, pool);
    } else {
        wfi_pool_run(pool, parts(&job.w), part_chunk, &job);
    }
}
