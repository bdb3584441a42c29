/* conv_weight.h - the weight gradient. Rows of a tile are neighbouring (kx, channel) of one kernel row, steps are the
 * pixels of a block of WFI_CONV_ROWS output rows; block results are added to `acc`, laid out as packed weights are:
 * [group][panel][ky][kx][k][width]. */
typedef struct wgt_job {
    const conv_wgrad *p;
    geo g; /* of the convolution whose output is dy: only the reading side is used */
    const void *x, *dy;
    void *dw;
    T *acc;  /* all groups */
    T *part; /* ... of each block of a wave, or unused */
    char *buffers;
    size_t buffer_bytes, pack;
    int64_t nu;     /* parts into which the units are cut, ... */
    int64_t nky;    /* ... and the kernel rows */
    int64_t block0; /* first block of the wave */
    int64_t count;  /* blocks in it */
    int64_t blocks; /* blocks of an image */
} wgt_job;

/* Several threads: each takes some panels, or, where dw is small or the panels do not divide among them, blocks, whose
 * results wait in memory (a wave of them) and are then added in order. */
enum { WAVE_SMALL = 32 * 1024, WAVE_LARGE = 256 * 1024, WAVE_BYTES = 4 << 20, WAVE_BLOCKS = 64, WAVE_SLICE = 4096 };

WFI_INLINE int64_t wave_blocks(int64_t acc_bytes)
{
    int64_t n = WAVE_BYTES / (acc_bytes > 0 ? acc_bytes : 1);
    return n < WAVE_BLOCKS ? n : WAVE_BLOCKS;
}

/* Channels of a depthwise chunk. */
WFI_INLINE int64_t depth_width(const conv_core *c)
{
    int64_t all = ceil_div(c->groups, L) * L;
    return all < 4 * L ? all : 4 * L;
}

WFI_INLINE int64_t acc_size(const conv_core *c)
{
    return c->kh * c->kw * c->ci *
           (c->groups > 1 && c->ci == 1 && c->co == 1 ? ceil_div(c->groups, L) * L : c->groups * padded(c->co));
}

static void wgt_geometry(const conv_core *core, geo *g)
{
    conv_core *c = &g->c;
    *c = *core;
    g->depth = c->groups > 1 && c->ci == 1 && c->co == 1;
    g->chan = g->depth ? depth_width(c) : c->ci;
    g->direct = can_read(c, 1) && (c->x.s[1] == 1 || g->chan == 1) && (!g->depth || c->groups % L == 0);
    g->pix = g->direct ? c->x.s[3] : g->chan;
    g->rb = WFI_CONV_ROWS < c->oh ? WFI_CONV_ROWS : c->oh;
    g->cb = c->ow;
    g->rows = rows_under(c, g->rb);
    g->pw = pixels_under(c, g->cb);
    g->line = g->direct ? c->x.s[2] : g->pw * g->pix;
    g->units = c->groups * panels(c->co);
    g->len = g->pix == c->ci && c->dw == 1 ? c->kw * c->ci : c->ci;
    g->per_row = g->pix == c->ci && c->dw == 1 ? 1 : c->kw;
}

static bool wroom(const conv_core *core, conv_wroom *r)
{
    geo g;
    size_t acc, part = 0, rows, pack;
    wgt_geometry(core, &g);
    if (!wfi_ck_mul((size_t)(g.c.kh * g.c.kw), (size_t)g.c.ci, &acc) ||
        !wfi_ck_mul(acc, (size_t)(g.depth ? ceil_div(g.c.groups, L) * L : padded(g.c.co)), &acc) ||
        !wfi_ck_mul(acc, (size_t)(g.depth ? 1 : g.c.groups) * sizeof(T), &acc) || !wfi_ck_align(acc, 64, &acc) ||
        !wfi_ck_mul((size_t)g.rows, g.direct ? 0 : (size_t)g.line, &rows) || !wfi_ck_mul(rows, sizeof(T), &rows) ||
        !wfi_ck_align(rows, 64, &rows) || !wfi_ck_mul((size_t)(g.rb * g.c.ow), sizeof(T), &pack) ||
        !wfi_ck_mul(pack, (size_t)(g.depth ? g.chan : NR), &pack) || !wfi_ck_align(pack, 64, &pack)) {
        return false;
    }
    if (g.c.threads > 1 && !g.depth &&
        (acc <= WAVE_SMALL || (acc <= WAVE_LARGE && g.units % g.c.threads != 0 && g.units < 4 * g.c.threads))) {
        part = acc * (size_t)wave_blocks((int64_t)acc);
    }
    r->acc = 0;
    r->part = acc;
    r->worker = acc + part;
    r->pack = rows;
    return wfi_ck_add(rows, pack, &r->worker_bytes) && wfi_ck_mul(r->worker_bytes, (size_t)g.c.threads, &r->all) &&
           wfi_ck_add(r->all, r->worker, &r->all);
}

/* dy of one block and panel: the tensor itself where it lies right, else packed. *bp: elements from pixel to pixel. */
static const T *dy_block(const wgt_job *job, int64_t n, int64_t oy0, int64_t oy1, int64_t chan, int64_t nj, int64_t nr,
                         T *pack, int64_t *bp)
{
    const conv_core *c = &job->g.c;
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

/* Output rows of oy0 .. oy1-1 whose input row under kernel row ky exists. */
static void valid_rows(const conv_core *c, int64_t ky, int64_t oy0, int64_t oy1, int64_t *a, int64_t *b)
{
    int64_t off = ky * c->dh - c->pt; /* the input row is oy * sh + off */
    int64_t lo = off < 0 ? ceil_div(-off, c->sh) : 0, hi = off < c->ih ? (c->ih - 1 - off) / c->sh + 1 : 0;
    *a = lo > oy0 ? lo : oy0;
    *b = hi < oy1 ? hi : oy1;
}

/* One kernel row of one panel over one block: acc[(kx, k), width] += sums over the block's pixels. */
static void kernel_row(const geo *g, const T *a, int64_t rows, const T *b, int64_t bp, int64_t nr, T *acc, ahead *next)
{
    const conv_core *c = &g->c;
    wgt_fn *const *tiles = wgt_tiles[nr == NR];
    even e = even_split(g->len, nr == NR ? MR2 : MR1);
    ptrdiff_t seg[WFI_CONV_ROWS];
    for (int64_t y = 0; y < rows; y++) {
        seg[y] = y * c->sh * g->line;
    }
    for (int64_t s = 0; s < g->per_row; s++) {
        for (int64_t t = 0, q = 0, m; t < e.tiles; t++, q += m, acc += m * nr) {
            m = e.rows + (t < e.more);
            tiles[m - 1](a + s * c->dw * g->pix + q, c->sw * g->pix, seg, rows, c->ow, b, bp, acc, nr, next);
        }
    }
}

/* What to fetch during a block: the input of the next one. times: kernel rows of all panels. */
static ahead wgt_ahead(const wgt_job *job, int64_t n, int64_t blk, int64_t times)
{
    const conv_core *c = &job->g.c;
    ahead next = { { job->x, job->x }, { 0, 0 }, 0 };
    int64_t steps = times * job->g.per_row * even_split(job->g.len, MR2).tiles * job->g.rb * c->ow;
    n += (blk + 1) / job->blocks;
    blk = (blk + 1) % job->blocks;
    int64_t oy = blk * WFI_CONV_ROWS, a = oy * c->sh - c->pt;
    fetch_rows(&next, 0, &c->x, job->x, n, c->n, a, a + job->g.rows, c->ih, c->iw, c->ci * c->groups, steps);
    fetch_rows(&next, 1, &c->y, job->dy, n, c->n, oy, oy + WFI_CONV_ROWS, c->oh, c->ow, c->co * c->groups, steps);
    return next;
}

/* Units u0 .. u1-1 (panels of all groups) and kernel rows ky0 .. ky1-1 over block blk of image n, added to acc. */
static void wgt_block(const wgt_job *job, int64_t n, int64_t blk, int64_t u0, int64_t u1, int64_t ky0, int64_t ky1,
                      T *acc, char *buffer)
{
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)buffer, *pack = (T *)(void *)(buffer + job->pack);
    int64_t oy0 = blk * WFI_CONV_ROWS, oy1 = c->oh - oy0 < WFI_CONV_ROWS ? c->oh : oy0 + WFI_CONV_ROWS;
    int64_t np = panels(c->co), steps = c->kw * c->ci, last_group = -1, first = 0;
    const T *rows = NULL;
    ahead next = wgt_ahead(job, n, blk, (u1 - u0) * (ky1 - ky0));
    for (int64_t u = u0; u < u1; u++) {
        int64_t grp = u / np, j0 = u % np * NR, nr = panel_width(c->co, u % np), bp;
        int64_t nj = c->co - j0 < nr ? c->co - j0 : nr;
        if (grp != last_group) {
            const void *x = at(job->x, n * c->x.s[0] + grp * c->ci * c->x.s[1], c->x.dtype);
            rows = block_rows(g, x, 0, oy0, oy1, buf, &first);
            last_group = grp;
        }
        const T *dy = dy_block(job, n, oy0, oy1, grp * c->co + j0, nj, nr, pack, &bp);
        T *sum = acc + c->kh * steps * (grp * padded(c->co) + j0);
        for (int64_t ky = ky0; ky < ky1; ky++) {
            int64_t a, b;
            valid_rows(c, ky, oy0, oy1, &a, &b);
            if (a < b) {
                kernel_row(g, rows + (a * c->sh - c->pt + ky * c->dh - first) * g->line, b - a,
                           dy + (a - oy0) * c->ow * bp, bp, nr, sum + ky * steps * nr, &next);
            }
        }
    }
}

/* A chunk is some panels (and perhaps one kernel row) over all blocks. */
static void tiles_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->g.c;
    int64_t parts = job->nky, ky0 = c->kh * (chunk % parts) / parts, ky1 = c->kh * (chunk % parts + 1) / parts;
    int64_t nu = job->nu, u0 = job->g.units * (chunk / parts) / nu, u1 = job->g.units * (chunk / parts + 1) / nu;
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t blk = 0; blk < job->blocks; blk++) {
            wgt_block(job, n, blk, u0, u1, ky0, ky1, job->acc, job->buffers + (size_t)worker * job->buffer_bytes);
        }
    }
}

/* Small results: a chunk is one block of the wave, with a place of its own. */
static void wave_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->g.c;
    int64_t blk = job->block0 + chunk, size = acc_size(c);
    T *part = job->part + chunk * size;
    memset(part, 0, (size_t)size * sizeof(T));
    wgt_block(job, blk / job->blocks, blk % job->blocks, 0, job->g.units, 0, c->kh, part,
              job->buffers + (size_t)worker * job->buffer_bytes);
}

static void add_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    int64_t size = acc_size(&job->g.c), a = chunk * WAVE_SLICE, b = size - a < WAVE_SLICE ? size : a + WAVE_SLICE;
    (void)worker;
    for (int64_t i = 0; i < job->count; i++) {
        const T *part = job->part + i * size;
        for (int64_t j = a; j < b; j++) {
            job->acc[j] += part[j];
        }
    }
}

static void run_waves(wgt_job *job, wfi_pool *pool)
{
    int64_t size = acc_size(&job->g.c), all = job->g.c.n * job->blocks;
    int64_t wave = wave_blocks((size * (int64_t)sizeof(T) + 63) / 64 * 64);
    for (job->block0 = 0; job->block0 < all; job->block0 += wave) {
        job->count = all - job->block0 < wave ? all - job->block0 : wave;
        wfi_pool_run(pool, job->count, wave_chunk, job);
        wfi_pool_run(pool, ceil_div(size, WAVE_SLICE), add_chunk, job);
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

/* acc to dw, rounded. */
static void unpack_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->g.c;
    const conv_plane *d = &job->p->dw;
    int64_t taps = c->kh * c->kw, np = panels(c->co), grp = chunk / np, j0 = chunk % np * NR;
    int64_t nr = panel_width(c->co, chunk % np), nj = c->co - j0 < nr ? c->co - j0 : nr;
    const T *src = job->acc + taps * c->ci * (grp * padded(c->co) + j0);
    (void)worker;
#if T_IS_FLOAT
    if (d->dtype == WF_F32 && (d->s[3] == 1 || c->kw == 1) && (d->s[2] == c->kw || c->kh == 1) &&
        (d->s[1] == taps || c->ci == 1)) {
        unpack_dense(src, nr, nj, c->ci, taps, (T *)job->dw + (grp * c->co + j0) * d->s[0], d->s[0]);
        return;
    }
#endif
    for (int64_t j = 0; j < nj; j++) {
        for (int64_t k = 0; k < c->ci; k++) {
            for (int64_t t = 0; t < taps; t++) {
                int64_t o = (grp * c->co + j0 + j) * d->s[0] + k * d->s[1] + t / c->kw * d->s[2] + t % c->kw * d->s[3];
                narrow(job->dw, o, src[(t * c->ci + k) * nr + j], d->dtype);
            }
        }
    }
}

/* Depthwise: mt neighbouring taps of a kernel row by nv vectors of channels. acc: taps wl apart. */
WFI_INLINE void depth_weight_tile(const int mt, const int nv, const T *a, int64_t step, int64_t ap, int64_t line,
                                  const T *b, int64_t bp, int64_t rows, int64_t cols, T *acc, int64_t wl)
{
    V r[DEPTH_ROWS][2];
    UNROLL for (int i = 0; i < mt; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            r[i][j] = (V){ 0 };
        }
    }
    for (int64_t y = 0; y < rows; y++) {
        const T *x = a + y * line;
        for (int64_t p = 0; p < cols; p++, x += ap, b += bp) {
            UNROLL for (int j = 0; j < nv; j++)
            {
                V d = load(b + j * L);
                UNROLL for (int i = 0; i < mt; i++)
                {
                    r[i][j] = fma_(load(x + i * step + j * L), d, r[i][j]);
                }
            }
        }
    }
    UNROLL for (int i = 0; i < mt; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            T *p = acc + i * wl + j * L;
            store(p, load(p) + r[i][j]);
        }
    }
}

typedef void depth_weight_fn(const T *a, int64_t step, int64_t ap, int64_t line, const T *b, int64_t bp, int64_t rows,
                             int64_t cols, T *acc, int64_t wl);
#define DEPTH_WEIGHT(mt, nv)                                                                                           \
    static void depth_weight_##mt##_##nv(const T *a, int64_t step, int64_t ap, int64_t line, const T *b, int64_t bp,   \
                                         int64_t rows, int64_t cols, T *acc, int64_t wl)                               \
    {                                                                                                                  \
        depth_weight_tile(mt, nv, a, step, ap, line, b, bp, rows, cols, acc, wl);                                      \
    }
DEPTH_WEIGHT(1, 1)
DEPTH_WEIGHT(2, 1)
DEPTH_WEIGHT(3, 1)
DEPTH_WEIGHT(4, 1)
DEPTH_WEIGHT(1, 2)
DEPTH_WEIGHT(2, 2)
DEPTH_WEIGHT(3, 2)
DEPTH_WEIGHT(4, 2)
static depth_weight_fn *const depth_weight_tiles[2][DEPTH_ROWS] = {
    { depth_weight_1_1, depth_weight_2_1, depth_weight_3_1, depth_weight_4_1 },
    { depth_weight_1_2, depth_weight_2_2, depth_weight_3_2, depth_weight_4_2 },
};

/* One block of width (<= chan) channels: rows of x, dy with pixels bp apart. acc: element [0, 0, first channel]. */
static void depth_weight_block(const geo *g, const T *rows, int64_t first, const T *dy, int64_t bp, int64_t oy0,
                               int64_t oy1, int64_t width, T *acc)
{
    const conv_core *c = &g->c;
    int64_t wl = ceil_div(c->groups, L) * L;
    even e = even_split(c->kw, DEPTH_ROWS);
    for (int64_t ky = 0; ky < c->kh; ky++) {
        int64_t a, b;
        valid_rows(c, ky, oy0, oy1, &a, &b);
        for (int64_t j = 0, nr; a < b && j < width; j += nr) {
            nr = width - j > L ? NR : L;
            const T *x = rows + (a * c->sh - c->pt + ky * c->dh - first) * g->line + j;
            for (int64_t t = 0, kx = 0, m; t < e.tiles; t++, kx += m) {
                m = e.rows + (t < e.more);
                depth_weight_tiles[nr == NR][m - 1](x + kx * c->dw * g->pix, c->dw * g->pix, c->sw * g->pix,
                                                    c->sh * g->line, dy + (a - oy0) * c->ow * bp + j, bp, b - a, c->ow,
                                                    acc + (ky * c->kw + kx) * wl + j, wl);
            }
        }
    }
}

static void depth_weight_chunk(void *arg, int64_t chunk, int worker)
{
    const wgt_job *job = arg;
    const conv_core *c = &job->g.c;
    geo g = job->g;
    char *buffer = job->buffers + (size_t)worker * job->buffer_bytes;
    T *buf = (T *)(void *)buffer, *pack = (T *)(void *)(buffer + job->pack);
    int64_t j0 = chunk * g.chan, nj = c->groups - j0 < g.chan ? c->groups - j0 : g.chan, bp, first;
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t oy0 = 0; oy0 < c->oh; oy0 += WFI_CONV_ROWS) {
            int64_t oy1 = c->oh - oy0 < WFI_CONV_ROWS ? c->oh : oy0 + WFI_CONV_ROWS;
            g.chan = nj; /* what is read; the rows stay pix wide */
            const void *x = at(job->x, n * c->x.s[0] + j0 * c->x.s[1], c->x.dtype);
            const T *rows = block_rows(&g, x, 0, oy0, oy1, buf, &first);
            g.chan = job->g.chan;
            const T *dy = dy_block(job, n, oy0, oy1, j0, nj, g.chan, pack, &bp);
            depth_weight_block(&g, rows, first, dy, bp, oy0, oy1, ceil_div(nj, L) * L, job->acc + j0);
        }
    }
}

static void depth_weight(wgt_job *job, wfi_pool *pool)
{
    const conv_core *c = &job->g.c;
    const conv_plane *d = &job->p->dw;
    int64_t wl = ceil_div(c->groups, L) * L;
    if (c->ow > 0) {
        wfi_pool_run(pool, ceil_div(c->groups, job->g.chan), depth_weight_chunk, job);
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
    wgt_job job = { .p = p, .dw = args[0], .x = args[1], .dy = args[2], .pack = r->pack };
    int threads = wfi_pool_threads(run->pool);
    wfi_pool *pool = threads <= p->c.threads ? run->pool : NULL;
    threads = pool == NULL ? 1 : threads;
    wgt_geometry(&p->c, &job.g);
    job.acc = (T *)(void *)(scratch + r->acc);
    job.part = (T *)(void *)(scratch + r->part);
    job.buffers = scratch + r->worker;
    job.buffer_bytes = r->worker_bytes;
    job.blocks = ceil_div(p->c.oh, WFI_CONV_ROWS);
    memset(job.acc, 0, (size_t)acc_size(&p->c) * sizeof(T));
    if (job.g.depth) {
        depth_weight(&job, pool);
        return;
    }
    if (p->c.ow > 0 && threads > 1 && r->worker > r->part) {
        run_waves(&job, pool);
    } else if (p->c.ow > 0 && job.g.units > 0) {
        int64_t units = job.g.units;
        job.nky = units % threads == 0 || units >= 4 * threads || p->c.kh == 0 ? 1 : p->c.kh;
        job.nu = threads == 1 ? 1 : units < 4 * threads ? units : 4 * threads;
        wfi_pool_run(pool, job.nu * job.nky, tiles_chunk, &job);
    }
    wfi_pool_run(pool, job.g.units, unpack_chunk, &job);
}
