/* conv_tiled_run.h - the dense core on the tile unit: blocks of results, weights that are kept, the run; and what is
 * done where operands do not fit (kernel/gemm/amx_pack.h): everything once more, otherwise. */

/* rows x 32 sums to y, pixels yi apart. */
static void put_rows(const tiled *t, float *src, int64_t rows, void *y, int64_t yi)
{
    const conv_plane *p = &t->c.y;
    const V by = splat(unscale(t->parts));
    const bool whole = p->dtype == WF_F32 && p->s[1] == 1;
    for (int64_t i = 0; i < rows; i++) {
        float *to = whole ? (float *)y + i * yi : src + i * SIDE;
        UNROLL for (int j = 0; j < SIDE; j += L)
        {
            store(to + j, load(src + i * SIDE + j) * by);
        }
    }
    if (!whole) {
        put_pixels(y, yi, p->s[1], src, SIDE, rows, SIDE, p->dtype);
    }
}

/* A block of pixels as it is computed. */
typedef struct tiled_block {
    int64_t n, oy0, rb, first; /* across: first input row in the buffer */
    const uint16_t *buf;
    tile_run *runs;
    float *spare;
    wfi_tile_file *file;
} tiled_block;

/* Output pixels p .. p+31 (p = row * pitch + column) of panel u. */
static void along_tile(const tiled_job *job, const tiled_block *k, int64_t p, int64_t u)
{
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    const conv_plane *y = &c->y;
    int64_t last = (k->rb - 1) * t->pitch + c->ow, count = least_of(SIDE, last - p), row = p / t->pitch;
    int64_t col = p % t->pitch, base = c->y0 + k->n * y->s[0] + k->oy0 * y->s[2] + u * SIDE * y->s[1];
    const uint16_t *a = k->buf + p * t->pixel;
    block_fn *f = blocks[t->parts == 3][count <= 16];
    f(k->file, &t->left, a, a + 16 * t->pixel, &t->right_tiles, job->right + u * t->right, k->runs, t->taps, k->spare);
    for (int64_t i = 0; i < count; row++, col = 0) {
        int64_t m = c->ow - col < count - i ? c->ow - col : count - i;
        if (m > 0) {
            put_rows(t, k->spare + i * SIDE, m, at_mut(job->y, base + row * y->s[2] + col * y->s[3], y->dtype),
                     y->s[3]);
        }
        i += t->pitch - col;
    }
}

static void along_block(const tiled_job *job, const tiled_block *k, int64_t u0, int64_t u1)
{
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    int64_t last = (k->rb - 1) * t->pitch + c->ow;
    for (int64_t y = 0, i = 0; y < c->kh; y++) {
        for (int64_t x = 0; x < c->kw; x++, i++) {
            int64_t py = y * c->dh, px = x * c->dw;
            int64_t pixel = (py % c->sh * c->sw + px % c->sw) * t->plane + py / c->sh * t->pitch + px / c->sw;
            k->runs[i] = (tile_run){ pixel * t->pixel, i * t->nc * t->parts * 2 * TILE, t->nc };
        }
    }
    if ((u1 - u0) * t->right * 2 <= RIGHT_BYTES) {
        for (int64_t p = 0; p < last; p += SIDE) {
            for (int64_t u = u0; u < u1; u++) {
                along_tile(job, k, p, u);
            }
        }
        return;
    }
    for (int64_t u = u0; u < u1; u++) {
        for (int64_t p = 0; p < last; p += SIDE) {
            along_tile(job, k, p, u);
        }
    }
}

/* Output pixel (oy, ox) of up to 32 images. */
static void across_pixel(const tiled_job *job, const tiled_block *k, int64_t oy, int64_t ox, int64_t u0, int64_t u1)
{
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    const conv_plane *y = &c->y;
    int64_t ky0, ky1, kx0, kx1, runs = 0, images = least_of(SIDE, c->n - k->n);
    int64_t iy = oy * c->sh - c->pt, ix = ox * c->sw - c->pl;
    wfi_window_taps(&(wfi_window){ .in = c->ih, .kernel = c->kh, .dilation = c->dh }, iy, &ky0, &ky1);
    wfi_window_taps(&(wfi_window){ .in = c->iw, .kernel = c->kw, .dilation = c->dw }, ix, &kx0, &kx1);
    for (int64_t ky = ky0; ky < ky1; ky++) {
        for (int64_t kx = kx0; kx < kx1; kx++) {
            int64_t pixel = (iy + ky * c->dh - k->first) * c->iw + ix + kx * c->dw;
            k->runs[runs++] = (tile_run){ pixel * t->pixel, (ky * c->kw + kx) * t->nc * t->parts * 2 * TILE, t->nc };
        }
    }
    int64_t base = c->y0 + k->n * y->s[0] + oy * y->s[2] + ox * y->s[3];
    for (int64_t u = u0; u < u1; u++) {
        blocks[t->parts == 3][images <= 16](k->file, &t->left, k->buf, k->buf + TILE, &t->right_tiles,
                                            job->right + u * t->right, k->runs, runs, k->spare);
        put_rows(t, k->spare, images, at_mut(job->y, base + u * SIDE * y->s[1], y->dtype), y->s[0]);
    }
}

static void across_block(const tiled_job *job, const tiled_block *k, int64_t u0, int64_t u1)
{
    const tiled *t = &job->t;
    bool together = (u1 - u0) * t->right * 2 <= RIGHT_BYTES;
    for (int64_t u = u0; u < u1; u += together ? u1 - u0 : 1) {
        for (int64_t oy = k->oy0; oy < k->oy0 + k->rb; oy++) {
            for (int64_t ox = 0; ox < t->c.ow; ox++) {
                across_pixel(job, k, oy, ox, u, together ? u1 : u + 1);
            }
        }
    }
}

static void tiled_chunk(void *arg, int64_t chunk, int worker)
{
    tiled_job *job = arg;
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    char *mine = job->workers + (size_t)worker * t->worker_bytes;
    uint16_t *buf = (uint16_t *)(void *)(mine + t->rows);
    int64_t ub = chunk % t->nub, rblk = chunk / t->nub % t->nrb, group = chunk / t->nub / t->nrb;
    void *room = mine + t->rows + buffer_bytes(t, t->rb);
    tiled_block k = { .n = t->across ? group * SIDE : group,
                      .oy0 = rblk * t->rb,
                      .buf = buf,
                      .runs = (tile_run *)(void *)(mine + t->runs),
                      .spare = (float *)(void *)(mine + t->spare) };
    seen s = seen_none();
    WFI_TILES_ON();
    k.rb = least_of(t->rb, c->oh - k.oy0);
    k.file = WFI_TILE_FILE;
    if (t->across) {
        int64_t top = k.oy0 * c->sh - c->pt, end = top + under(k.rb, c->sh, c->kh, c->dh);
        k.first = top > 0 ? top : 0;
        end = least_of(end, c->ih);
        if (t->parts == 3) {
            fill_across(job, 3, k.n, k.first, end, k.oy0, k.rb, buf, room, &s);
        } else {
            fill_across(job, 1, k.n, k.first, end, k.oy0, k.rb, buf, room, &s);
        }
        across_block(job, &k, t->panels * ub / t->nub, t->panels * (ub + 1) / t->nub);
    } else {
        if (t->parts == 3) {
            fill_along(job, 3, k.n, k.oy0, k.rb, buf, room, &s);
        } else {
            fill_along(job, 1, k.n, k.oy0, k.rb, buf, room, &s);
        }
        along_block(job, &k, t->panels * ub / t->nub, t->panels * (ub + 1) / t->nub);
    }
    WFI_TILES_OFF();
    seen_end(&s, &((worker_seen *)(void *)mine)->left);
}

/* Weights that are kept: what was seen of them, then their panels. Those that no operand fits (they are infinite, say)
 * are kept as they are: every run is then done otherwise. */
typedef struct kept_weights {
    wfi_amx_range seen;
    int32_t plain;
    char line[64 - sizeof(wfi_amx_range) - sizeof(int32_t)];
} kept_weights;

static size_t dense_bytes(const conv_core *c)
{
    return (size_t)(c->kh * c->kw * c->ci * c->co) * sizeof(float);
}

static bool tiled_room(const conv_core *core, conv_room *r)
{
    conv_room plain;
    tiled t;
    if (!OTHERWISE.room(core, &plain)) {
        return false;
    }
    *r = (conv_room){ .all = plain.all };
    if (is_empty(core)) {
        return true;
    }
    tiled_plan(core, &t);
    size_t again = (plain.all + 63) / 64 * 64 + dense_bytes(core); /* f32 weights made of their parts */
    r->all = t.all > again ? t.all : again;
    r->kept = sizeof(kept_weights) + (size_t)(t.panels * t.right) * 2;
    return true;
}

static void otherwise(const conv_core *core, void *const *args, const wfi_run *run)
{
    conv_room plain;
    if (OTHERWISE.room(core, &plain)) {
        OTHERWISE.run(core, &plain, args, NULL, run);
    }
}

/* The same with f32 weights that lie [tap][channel][output channel]. */
static void otherwise_dense(const conv_core *core, void *const *args, const float *dense, const wfi_run *run)
{
    conv_core c = *core;
    c.wj = 1;
    c.wk = c.co;
    c.ww = c.ci * c.co;
    c.wh = c.kw * c.ww;
    c.k0h = c.k0w = 0;
    c.kdh = c.kdw = 1;
    c.fh = c.kh;
    c.fw = c.kw;
    otherwise(&c, (void *[]){ args[0], args[1], (void *)(uintptr_t)dense }, run);
}

/* Panels of parts back to f32, exactly. */
static const float *dense_again(const tiled *t, const uint16_t *panels, float *dense)
{
    const conv_core *c = &t->c;
    for (int64_t u = 0; u < t->panels; u++) {
        for (int64_t k = 0; k < t->taps * c->ci; k++) {
            const uint16_t *row = panels + u * t->right + k / 32 * t->right_tiles.next + k % 32 / 2 * 32 + k % 2;
            for (int64_t j = 0; j < SIDE; j++) {
                const uint16_t *p = row + j / 16 * TILE + j % 16 * 2;
                float big = widen_bf16(p[0]), rest = widen_bf16(p[2 * TILE]) + widen_bf16(p[4 * TILE]);
                dense[k * c->co + u * SIDE + j] = (rest != 0 ? big + rest : big) * (1.0f / (1 << WFI_AMX_SCALE));
            }
        }
    }
    return dense;
}

static wfi_pool *pool_for(const conv_core *c, const wfi_run *run)
{
    return wfi_pool_threads(run->pool) <= c->threads ? run->pool : NULL;
}

static void tiled_job_begin(tiled_job *job, const conv_core *core, void *const *args, const wfi_run *run)
{
    char *scratch = run->scratch;
    tiled_plan(core, &job->t);
    job->y = args[0];
    job->x = args[1];
    job->w = args[2];
    job->right = (uint16_t *)(void *)(scratch + job->t.weights);
    job->workers = scratch + job->t.worker;
    seen_clear(job->workers, job->t.worker_bytes, core->threads);
}

static void tiled_keep(const conv_core *core, const void *w, void *weights, const wfi_run *run)
{
    static const wfi_amx_range one = { 0x3f800000, 0x3f800000 - 1 };
    tiled_job job;
    kept_weights *head = weights;
    if (is_empty(core)) {
        return;
    }
    tiled_job_begin(&job, core, (void *[]){ NULL, NULL, (void *)(uintptr_t)w }, run);
    job.right = (uint16_t *)(void *)(head + 1);
    wfi_pool_run(pool_for(core, run), job.t.panels, right_chunk, &job);
    *head = (kept_weights){ .seen = seen_all(job.workers, job.t.worker_bytes, core->threads).right };
    head->plain = job.t.parts == 3 && !wfi_amx_range_fits(&one, &head->seen, 1);
    for (int64_t i = 0; head->plain && i < core->kh * core->kw * core->ci; i++) {
        int64_t tap = i / core->ci, o = (core->k0h + tap / core->kw * core->kdh) * core->wh +
                                        (core->k0w + tap % core->kw * core->kdw) * core->ww + i % core->ci * core->wk;
        side_by_side(value_at(w, o, 3), core->wj, core->co, 3, (float *)(void *)(head + 1) + i * core->co);
    }
}

static void tiled_run(const conv_core *core, const conv_room *r, void *const *args, const void *weights,
                      const wfi_run *run)
{
    tiled_job job;
    const tiled *t = &job.t;
    const kept_weights *head = weights;
    const float *dense = (const float *)(const void *)(head + 1);
    wfi_pool *pool = pool_for(core, run);
    (void)r;
    if (is_empty(core)) {
        otherwise(core, args, run);
        return;
    }
    if (head != NULL && head->plain) {
        otherwise_dense(core, args, dense, run);
        return;
    }
    tiled_job_begin(&job, core, args, run);
    if (head != NULL) {
        job.right = (uint16_t *)(uintptr_t)(const void *)(head + 1);
    } else {
        wfi_pool_run(pool, t->panels, right_chunk, &job);
    }
    wfi_pool_run(pool, t->groups * t->nrb * t->nub, tiled_chunk, &job);
    worker_seen all = seen_all(job.workers, t->worker_bytes, core->threads);
    if (t->parts == 1 || wfi_amx_range_fits(&all.left, head != NULL ? &head->seen : &all.right, t->taps * core->ci)) {
        return;
    }
    if (head == NULL) {
        otherwise(core, args, run);
        return;
    }
    conv_room plain;
    if (OTHERWISE.room(core, &plain)) {
        char *room = (char *)run->scratch + (plain.all + 63) / 64 * 64;
        otherwise_dense(core, args, dense_again(t, job.right, (float *)(void *)room), run);
    }
}
