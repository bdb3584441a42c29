/* conv_weight.h - the weight gradient. Rows of a tile are neighbouring channels, steps are the pixels of a block of
 * WFI_CONV_ROWS output rows. A part of dw goes through all blocks, its sums lying as packed weights do:
 * [panel][ky][kx][k][width]; it is so small that they stay in the cache from block to block. */
typedef struct wgt_part {
    int64_t u0, u1;   /* panels of all groups, */
    int64_t ky0, ky1; /* kernel rows, */
    int64_t k0, k1;   /* channels of a group */
} wgt_part;

typedef struct wgt_job {
    const conv_wgrad *p;
    wgt_geo w;
    const void *x, *dy;
    void *dw;
    T *acc;  /* waves, depthwise: all of dw */
    T *part; /* waves: ... of each block */
    char *buffers;
    size_t buffer_bytes, pack, sums;
    int64_t block0; /* first block of the wave */
    int64_t count;  /* blocks in it */
    int64_t blocks; /* blocks of an image */
} wgt_job;

/* dy of one block and panel: the tensor itself where it lies right, else packed. *bp: elements from pixel to pixel. */
static const T *dy_block(const wgt_job *job, int64_t n, int64_t oy0, int64_t oy1, int64_t chan, int64_t nj, int64_t nr,
                         T *pack, int64_t *bp)
{
    const conv_core *c = &job->w.g.c;
    const conv_plane *p = &c->y;
    const void *dy = at(job->dy, n * p->s[0] + chan * p->s[1] + oy0 * p->s[2], p->dtype);
    if (is_native(p->dtype) && p->s[1] == 1 && nj == nr && p->s[2] == c->ow * p->s[3] && p->s[3] > 0 &&
        p->s[3] <= 4 * NR) { /* further apart, the pixels would crowd into a few sets of the cache; tiles count by bp */
        *bp = p->s[3];
        return dy;
    }
    *bp = nr;
    if (nj < nr) {
        memset(pack, 0, (size_t)((oy1 - oy0) * c->ow * nr) * sizeof(T));
    }
    for (int64_t y = 0; y < oy1 - oy0; y++) {
        copy_pixels(pack + y * c->ow * nr, nr, at(dy, y * p->s[2], p->dtype), p->s[3], p->s[1], c->ow, nj, p->dtype);
    }
    return pack;
}

/* Of the outputs *a .. *b-1 along one axis, those whose input, `off` behind output * stride, exists. */
static void inside(int64_t off, int64_t stride, int64_t in, int64_t *a, int64_t *b)
{
    int64_t lo = off < 0 ? stride - 1 - off : 0, hi = off < in ? in - 1 - off + stride : 0;
    if (stride > 1) { /* a division takes as long as a step of a tile */
        lo /= stride;
        hi /= stride;
    }
    *a = lo > *a ? lo : *a;
    *b = hi < *b ? hi : *b;
}

/* What to fetch during a block: the input of the next one, where the part needs all of its channels. */
static ahead part_ahead(const wgt_job *job, int64_t n, int64_t blk, const wgt_part *w)
{
    const geo *g = &job->w.g;
    const conv_core *c = &g->c;
    ahead next = { { job->x, job->x }, { 0, 0 }, 0 };
    int64_t nk = w->k1 - w->k0, tiles = g->per_row * even_split(job->w.skip ? nk : g->len, MR2).tiles;
    int64_t steps = (w->u1 - w->u0) * (w->ky1 - w->ky0) * tiles * g->rb * c->ow;
    n += (blk + 1) / job->blocks;
    blk = (blk + 1) % job->blocks;
    int64_t oy = blk * WFI_CONV_ROWS, a = oy * c->sh - c->pt, last = oy + WFI_CONV_ROWS;
    if (nk == c->ci) {
        fetch_rows(&next, 0, &c->x, job->x, n, c->n, a, a + g->rows, c->ih, c->iw, c->ci * c->groups, steps);
        fetch_rows(&next, 1, &c->y, job->dy, n, c->n, oy, last, c->oh, c->ow, c->co * c->groups, steps);
    }
    return next;
}

/* One kernel row of one panel over one block: acc[kx][k][width] += sums over the block's pixels. a: the first input
 * row; nk: channels; dy: the block's pixels, bp apart. */
static void kernel_row(const wgt_geo *w, const T *a, int64_t nk, int64_t rows, const T *dy, int64_t bp, int64_t nr,
                       T *acc, ahead *next)
{
    const geo *g = &w->g;
    const conv_core *c = &g->c;
    wgt_fn *const *tiles = (w->near ? near_tiles : wgt_tiles)[nr == NR];
    int64_t len = w->skip ? nk : g->len;
    even e = even_split(len, nr == NR ? MR2 : MR1);
    ptrdiff_t seg[WFI_CONV_ROWS];
    for (int64_t y = 0; y < rows; y++) {
        seg[y] = y * c->sh * g->line;
    }
    for (int64_t s = 0; s < g->per_row; s++, acc += len * nr) {
        int64_t x0 = 0, x1 = c->ow, left = w->skip ? c->pl : 0;
        if (w->skip) {
            inside(s * c->dw - c->pl, c->sw, c->iw, &x0, &x1);
        }
        if (x0 < x1) {
            const wgt_steps steps = { .ap = c->sw * g->pix,
                                      .seg = seg,
                                      .nseg = rows,
                                      .len = x1 - x0,
                                      .b = dy + x0 * bp,
                                      .bp = bp,
                                      .gap = (c->ow - (x1 - x0)) * bp };
            const T *p = a + (x0 * c->sw + s * c->dw - left) * g->pix;
            for (int64_t t = 0, q = 0, m; t < e.tiles; t++, q += m) {
                m = e.rows + (t < e.more);
                tiles[m - 1](&steps, p + q, acc + q * nr, nr, next);
            }
        }
    }
}

/* Block blk of image n, added to the sums of a part. */
static void wgt_block(const wgt_job *job, int64_t n, int64_t blk, const wgt_part *w, T *sums, char *buffer)
{
    const geo *g = &job->w.g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)buffer, *pack = (T *)(void *)(buffer + job->pack);
    int64_t oy0 = blk * WFI_CONV_ROWS, oy1 = c->oh - oy0 < WFI_CONV_ROWS ? c->oh : oy0 + WFI_CONV_ROWS;
    int64_t np = panels(c->co), nk = w->k1 - w->k0, last_group = -1, first = 0;
    const T *rows = NULL;
    ahead next = part_ahead(job, n, blk, w);
    for (int64_t u = w->u0; u < w->u1; u++) {
        int64_t grp = u / np, j0 = u % np * NR, nr = panel_width(c->co, u % np), bp;
        int64_t nj = c->co - j0 < nr ? c->co - j0 : nr;
        if (grp != last_group) {
            const void *x = at(job->x, n * c->x.s[0] + (grp * c->ci + w->k0) * c->x.s[1], c->x.dtype);
            rows = input_rows(g, x, nk, job->w.skip ? 0 : c->pl, oy0, oy1, buf, &first);
            last_group = grp;
        }
        const T *dy = dy_block(job, n, oy0, oy1, grp * c->co + j0, nj, nr, pack, &bp);
        for (int64_t ky = w->ky0; ky < w->ky1; ky++, sums += c->kw * nk * nr) {
            int64_t a = oy0, b = oy1;
            inside(ky * c->dh - c->pt, c->sh, c->ih, &a, &b);
            if (a < b) {
                kernel_row(&job->w, rows + (a * c->sh - c->pt + ky * c->dh - first) * g->line, nk, b - a,
                           dy + (a - oy0) * c->ow * bp, bp, nr, sums, &next);
            }
        }
    }
}

#if T_IS_FLOAT
/* nj rows of dw, each a dense run over (k, tap), from a panel whose rows are (tap, k): tiles turned in registers. */
static void unpack_dense(const T *src, int64_t nr, int64_t nj, int64_t ci, int64_t taps, T *dst, int64_t dj)
{
    int64_t cols = ci * taps, k = 0, tap = 0;
    for (int64_t f = 0; f < cols; f += L) {
        int64_t row[L], left = cols - f < L ? cols - f : L;
        for (int64_t t = 0; t < left; t++) {
            row[t] = (tap * ci + k) * nr;
            if (++tap == taps) {
                tap = 0;
                k++;
            }
        }
        for (int64_t j = 0; j < nj; j += L) {
            V r[L];
            UNROLL for (int t = 0; t < L; t++)
            {
                r[t] = t < left ? load(src + row[t] + j) : (V){ 0 };
            }
            transpose(r);
            UNROLL for (int i = 0; i < L; i++)
            {
                if (left == L && j + i < nj) {
                    store(dst + (j + i) * dj + f, r[i]);
                } else if (j + i < nj) {
                    V v = r[i];
                    memcpy(dst + (j + i) * dj + f, &v, (size_t)left * sizeof(T));
                }
            }
        }
    }
}
#endif

/* The sums of a part, rounded, to dw. */
static void unpack(const wgt_job *job, const wgt_part *w, const T *src)
{
    const conv_core *c = &job->w.g.c;
    const conv_plane *d = &job->p->dw;
    int64_t nk = w->k1 - w->k0, taps = (w->ky1 - w->ky0) * c->kw, np = panels(c->co);
    for (int64_t u = w->u0, nr; u < w->u1; u++, src += taps * nk * nr) {
        int64_t j0 = u % np * NR, o = (u / np * c->co + j0) * d->s[0] + w->k0 * d->s[1] + w->ky0 * d->s[2];
        nr = panel_width(c->co, u % np);
        int64_t nj = c->co - j0 < nr ? c->co - j0 : nr;
#if T_IS_FLOAT
        if (d->dtype == WF_F32 && (d->s[3] == 1 || c->kw == 1) && (d->s[2] == c->kw || w->ky1 - w->ky0 == 1) &&
            (d->s[1] == taps || nk == 1)) {
            unpack_dense(src, nr, nj, nk, taps, (T *)job->dw + o, d->s[0]);
            continue;
        }
#endif
        for (int64_t j = 0; j < nj; j++) {
            for (int64_t k = 0; k < nk; k++) {
                for (int64_t t = 0; t < taps; t++) {
                    narrow(job->dw, o + j * d->s[0] + k * d->s[1] + t / c->kw * d->s[2] + t % c->kw * d->s[3],
                           src[(t * nk + k) * nr + j], d->dtype);
                }
            }
        }
    }
}

/* A chunk is a part, over all blocks. */
static void part_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->w.g.c;
    const wgt_cut *cut = &job->w.cut;
    char *buffer = job->buffers + (size_t)worker * job->buffer_bytes;
    T *sums = (T *)(void *)(buffer + job->sums);
    int64_t nky = ceil_div(c->kh, cut->ky), nk = ceil_div(c->ci, cut->k);
    int64_t u = chunk / nky / nk * cut->u, k = chunk / nky % nk * cut->k, y = chunk % nky * cut->ky;
    wgt_part w = { u, least(u + cut->u, job->w.g.units), y, least(y + cut->ky, c->kh), k, least(k + cut->k, c->ci) };
    memset(sums, 0, (size_t)(cut->u * cut->ky * c->kw * (w.k1 - w.k0) * NR) * sizeof(T));
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t blk = 0; blk < job->blocks; blk++) {
            wgt_block(job, n, blk, &w, sums, buffer);
        }
    }
    unpack(job, &w, sums);
}

/* Small results: a chunk is one block of the wave, with a place of its own. */
static void wave_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->w.g.c;
    int64_t blk = job->block0 + chunk, size = acc_size(c);
    T *part = job->part + chunk * size;
    memset(part, 0, (size_t)size * sizeof(T));
    wgt_block(job, blk / job->blocks, blk % job->blocks, &(wgt_part){ 0, job->w.g.units, 0, c->kh, 0, c->ci }, part,
              job->buffers + (size_t)worker * job->buffer_bytes);
}

static void add_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    int64_t size = acc_size(&job->w.g.c), a = chunk * WAVE_SLICE, b = least(size, a + WAVE_SLICE);
    (void)worker;
    for (int64_t i = 0; i < job->count; i++) {
        const T *part = job->part + i * size;
        for (int64_t j = a; j < b; j++) {
            job->acc[j] += part[j];
        }
    }
}

static void unpack_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->w.g.c;
    int64_t np = panels(c->co);
    (void)worker;
    unpack(job, &(wgt_part){ chunk, chunk + 1, 0, c->kh, 0, c->ci },
           job->acc + c->kh * c->kw * c->ci * (chunk / np * padded(c->co) + chunk % np * NR));
}

static void run_waves(wgt_job *job, wfi_pool *pool)
{
    int64_t size = acc_size(&job->w.g.c), all = job->w.g.c.n * job->blocks;
    int64_t wave = wave_blocks((size * (int64_t)sizeof(T) + 63) / 64 * 64);
    memset(job->acc, 0, (size_t)size * sizeof(T));
    for (job->block0 = 0; job->block0 < all; job->block0 += wave) {
        job->count = least(all - job->block0, wave);
        wfi_pool_run(pool, job->count, wave_chunk, job);
        wfi_pool_run(pool, ceil_div(size, WAVE_SLICE), add_chunk, job);
    }
    wfi_pool_run(pool, job->w.g.units, unpack_chunk, job);
}
