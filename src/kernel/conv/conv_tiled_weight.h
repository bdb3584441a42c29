/* conv_tiled_weight.h - the weight gradient on the tile unit: for each tap, output channels x channels, summed over
 * pixels.
 *
 * Blocks go one after the other: all workers bring x and dy into shared buffers, in parts, then each takes pieces of dw
 * (32 output channels by 32 channels, the taps of a kernel row), whose sums wait in memory for the next block. Rows of
 * the left operand are output channels, so dy is turned; the right operand has pairs of pixels of x. The 32 pixels of a
 * step are
 *  - along the rows: those of p = row * pitch + column, where dy has zeros between the rows; a tap is an offset in x.
 *    As an offset may be odd, x is there twice, the pairs of the second copy beginning at odd pixels. With strides
 * there is a plane for each remainder of row and column.
 *  - across images: the same pixel of 32 images. Taps outside are left out.
 *
 * The plain kernel sums over 8 rows of an image and adds those sums, so its errors are small, and those here must not
 * be larger: the sums of a block begin at zero and are added to what the blocks before made, blocks have at most
 * ROWS_MOST rows, and across images, where its sums are shortest, small products are summed before large ones. */
enum { TURNED_BYTES = 1200 * 1024, ACROSS_PIXELS = 81, ROWS_MOST = 32 };

typedef struct turned {
    conv_core c;
    int parts;
    bool across;
    int64_t pci, pco, taps;         /* panels of 32 channels, taps */
    int64_t copies;                 /* of x: 2 where pairs may begin at an odd pixel */
    int64_t pitch, plane;           /* pixels of a row, of a plane */
    int64_t pairs;                  /* along: of a copy of x */
    int64_t rb, nrb, groups;        /* output rows of a block, blocks, groups of images */
    int64_t steps;                  /* of 32 pixels in a block */
    int64_t copy, x_panel, y_panel; /* elements */
    tile_left left;
    tile_right right;
    size_t x, y, sums, worker, worker_bytes, all; /* places in scratch */
} turned;

static void turned_size(turned *t, int64_t rb)
{
    const conv_core *c = &t->c;
    t->rb = rb;
    if (t->across) {
        t->plane = c->ih * c->iw;
        t->steps = c->oh * c->ow;
        t->copy = t->plane * t->parts * 2 * TILE;
    } else {
        t->plane = up_to(under(rb, c->sh, c->kh, c->dh), c->sh) * t->pitch;
        t->steps = up_to((rb - 1) * t->pitch + c->ow, 32);
        t->pairs = t->plane * c->sh * c->sw / 2 + 16; /* the last step may run over the end */
        t->copy = t->pairs * 32 * 2 * t->parts;
    }
    t->x_panel = t->copies * t->copy;
    t->y_panel = t->steps * t->parts * 2 * TILE;
}

static void turned_plan(const conv_core *core, turned *t)
{
    const conv_core *c = &t->c;
    *t = (turned){ .c = *core, .parts = core->wtype == WF_BF16 ? 1 : 3, .taps = core->kh * core->kw, .copies = 1 };
    t->pci = c->ci / CHAN;
    t->pco = c->co / SIDE;
    t->pitch = up_to(under(c->ow, c->sw, c->kw, c->dw), c->sw);
    t->pitch += t->pitch % 2;
    double images = (double)c->n / (double)(up_to(c->n, SIDE) * SIDE);
    t->across =
        c->ih * c->iw <= 4 * ACROSS_PIXELS && c->oh * c->ow <= ACROSS_PIXELS && images > along_share(c, t->pitch);
    for (int64_t kx = 0; !t->across && kx < c->kw; kx++) {
        t->copies += t->copies == 1 && kx * c->dw / c->sw % 2 != 0;
    }
    t->groups = t->across ? up_to(c->n, SIDE) : c->n;
    int64_t rb = least_of(c->oh, t->across ? c->oh : ROWS_MOST);
    turned_size(t, rb);
    while (!t->across && rb > 1 && (t->pci * t->x_panel + t->pco * t->y_panel) * 2 > TURNED_BYTES) {
        turned_size(t, --rb);
    }
    t->nrb = t->across ? 1 : up_to(c->oh, rb);
    turned_size(t, t->across ? c->oh : up_to(c->oh, t->nrb));
    t->left = (tile_left){ 64, 2 * TILE, t->parts * 2 * TILE };
    t->right = t->across ? (tile_right){ TILE, 2 * TILE, t->parts * 2 * TILE }
                         : (tile_right){ t->pairs * 32, t->pairs * 64, TILE };
    t->x = 0;
    t->y = t->x + (size_t)(t->pci * t->x_panel) * 2;
    t->sums = t->y + (size_t)(t->pco * t->y_panel) * 2;
    t->worker = t->sums + (size_t)(t->taps * c->ci * c->co) * 4;
    int64_t row = (c->iw > c->ow ? c->iw : c->ow) * CHAN; /* gathered */
    t->worker_bytes =
        sizeof(worker_seen) + ((size_t)t->steps * sizeof(tile_run) + 63) / 64 * 64 + ((size_t)row * 4 + 63) / 64 * 64;
    t->all = t->worker + t->worker_bytes * (size_t)c->threads;
}

typedef struct turned_job {
    turned t;
    const conv_wgrad *grad;
    const void *x, *dy;
    void *dw;
    char *scratch;
    int64_t n, oy0, rb; /* the block: first image, first output row, output rows */
    bool more;          /* sums of a block before wait in memory */
} turned_job;

static char *turned_worker(const turned_job *job, int worker)
{
    return job->scratch + job->t.worker + (size_t)worker * job->t.worker_bytes;
}

/* ---- x: along [copy][part][half][pair][16][2], across [pixel][part][half][pair of images][16][2] ---- */

/* A buffered row of 16 channels: pixel i is column q + i * sw - pl, zero outside. dst: the row's first pair in the
 * first copy. */
WFI_INLINE void pair_row(const turned *t, const int parts, const void *row, ptrdiff_t step, int64_t q, uint16_t *dst,
                         seen *s)
{
    const conv_core *c = &t->c;
    int64_t lo = c->pl > q ? up_to(c->pl - q, c->sw) : 0;
    int64_t hi = row != NULL && c->iw + c->pl > q ? up_to(c->iw + c->pl - q, c->sw) : 0;
    split_pixel before = split_nothing();
    for (int64_t i = 0; i < t->pitch; i++) {
        split_pixel now = i >= lo && i < hi ? split_16(value_at(row, (q + i * c->sw - c->pl) * step, parts), parts, s)
                                            : split_nothing();
        if (i % 2 != 0) {
            put_pair(&before, &now, parts, dst + i / 2 * 32, t->right.part);
        } else if (i > 0 && t->copies > 1) {
            put_pair(&before, &now, parts, dst + t->copy + (i / 2 - 1) * 32, t->right.part);
        }
        before = now;
    }
    if (t->copies > 1) { /* its second pixel meets a zero of dy */
        split_pixel zero = split_nothing();
        put_pair(&before, &zero, parts, dst + t->copy + (t->pitch / 2 - 1) * 32, t->right.part);
    }
}

WFI_INLINE void pair_along(const turned_job *job, const int parts, int64_t u, void *room, seen *s)
{
    const turned *t = &job->t;
    const conv_core *c = &t->c;
    uint16_t *dst = (uint16_t *)(void *)(job->scratch + t->x) + u * t->x_panel;
    const void *image = value_at(job->x, job->n * c->x.s[0] + u * CHAN * c->x.s[1], parts);
    for (int64_t r = 0; r < t->plane / t->pitch * c->sh; r++) {
        int64_t iy = job->oy0 * c->sh - c->pt + r;
        ptrdiff_t step = 0;
        const void *row = NULL;
        if (iy >= 0 && iy < c->ih && row_is_used(c, r, job->rb)) {
            row = pixel_row(&c->x, image, iy, c->iw, CHAN, parts, room, &step);
        }
        for (int64_t q = 0; q < c->sw * 2; q++) { /* column planes, halves of the channels */
            int64_t pixel = (r % c->sh * c->sw + q / 2) * t->plane + r / c->sh * t->pitch;
            pair_row(t, parts, row == NULL ? NULL : value_at(row, q % 2 * 16, parts), step, q / 2,
                     dst + q % 2 * t->right.half + pixel / 2 * 32, s);
        }
    }
    for (int64_t k = 0; k < t->copies * parts * 2;
         k++) { /* finite numbers behind the last row, which meet zeros of dy */
        memset(dst + (k + 1) * t->pairs * 32 - TILE, 0, TILE * 2);
    }
}

WFI_INLINE void pair_across(const turned_job *job, const int parts, int64_t u, seen *s)
{
    const turned *t = &job->t;
    const conv_core *c = &t->c;
    const conv_plane *p = &c->x;
    uint16_t *dst = (uint16_t *)(void *)(job->scratch + t->x) + u * t->x_panel;
    for (int64_t i = 0; i < t->plane; i++, dst += t->right.next) {
        const void *x = value_at(job->x, i / c->iw * p->s[2] + i % c->iw * p->s[3] + u * CHAN * p->s[1], parts);
        for (int64_t k = 0; k < 32; k++) { /* pairs, halves of the channels */
            split_pixel pair[2];
            for (int64_t j = 0; j < 2; j++) {
                int64_t n = job->n + k / 2 * 2 + j;
                pair[j] = n < c->n ? split_any(p, value_at(x, n * p->s[0] + k % 2 * 16 * p->s[1], parts), parts, s)
                                   : split_nothing();
            }
            put_pair(&pair[0], &pair[1], parts, dst + k % 2 * TILE + k / 2 * 32, t->right.part);
        }
    }
}

/* ---- dy: [step][part][half][16 channels][32 pixels] ---- */

WFI_INLINE void turn_along(const turned_job *job, const int parts, int64_t u, void *room, seen *s)
{
    const turned *t = &job->t;
    const conv_core *c = &t->c;
    uint16_t *dst = (uint16_t *)(void *)(job->scratch + t->y) + u * t->y_panel;
    const void *image = value_at(job->dy, job->n * c->y.s[0] + job->oy0 * c->y.s[2] + u * SIDE * c->y.s[1], parts);
    ptrdiff_t step = 0;
    const void *row = NULL;
    int64_t have = -1;
    for (int64_t p = 0; p < t->steps * 32; p += 16) {
        turned_16 v[2] = { turned_nothing(), turned_nothing() };
        for (int64_t i = 0; i < 16;) { /* the rows that these pixels lie in */
            int64_t oy = (p + i) / t->pitch, ox = (p + i) % t->pitch, end = least_of(16, i + t->pitch - ox);
            int64_t hi = least_of(end, i + c->ow - ox);
            if (oy < job->rb && hi > i) {
                if (oy != have) {
                    row = pixel_row(&c->y, image, oy, c->ow, SIDE, parts, room, &step);
                    have = oy;
                }
                for (int64_t h = 0; h < 2; h++) {
                    turned_load(&v[h], value_at(row, ox * step + h * 16, parts), step, (int)i, (int)hi, parts);
                }
            }
            i = end;
        }
        for (int64_t h = 0; h < 2; h++) {
            turned_put(&v[h], parts, dst + p / 32 * t->left.next + h * TILE + p % 32, t->left.part, s);
        }
    }
}

WFI_INLINE void turn_across(const turned_job *job, const int parts, int64_t u, seen *s)
{
    const turned *t = &job->t;
    const conv_core *c = &t->c;
    const conv_plane *p = &c->y;
    uint16_t *dst = (uint16_t *)(void *)(job->scratch + t->y) + u * t->y_panel;
    for (int64_t i = 0; i < t->steps; i++, dst += t->left.next) {
        for (int64_t k = 0; k < 4; k++) { /* halves of channels, of images */
            int64_t n = job->n + k % 2 * 16, left = c->n - n;
            const void *dy = value_at(
                job->dy, n * p->s[0] + (u * SIDE + k / 2 * 16) * p->s[1] + i / c->ow * p->s[2] + i % c->ow * p->s[3],
                parts);
            turned_16 v = turned_nothing();
            if (left > 0) {
                turned_any(&v, p, dy, left > 16 ? 16 : (int)left, parts);
            }
            turned_put(&v, parts, dst + k / 2 * TILE + k % 2 * 16, t->left.part, s);
        }
    }
}

WFI_INLINE void bring(const turned_job *job, const int parts, int64_t u, void *room, seen *left, seen *right)
{
    const turned *t = &job->t;
    if (u < t->pci && t->across) {
        pair_across(job, parts, u, right);
    } else if (u < t->pci) {
        pair_along(job, parts, u, room, right);
    } else if (t->across) {
        turn_across(job, parts, u - t->pci, left);
    } else {
        turn_along(job, parts, u - t->pci, room, left);
    }
}

static void bring_chunk(void *arg, int64_t chunk, int worker)
{
    const turned_job *job = arg;
    worker_seen *w = (worker_seen *)(void *)turned_worker(job, worker);
    void *room = (char *)(w + 1) + ((size_t)job->t.steps * sizeof(tile_run) + 63) / 64 * 64;
    seen left = seen_none(), right = seen_none();
    if (job->t.parts == 3) {
        bring(job, 3, chunk, room, &left, &right);
    } else {
        bring(job, 1, chunk, room, &left, &right);
    }
    seen_end(&left, &w->left);
    seen_end(&right, &w->right);
}

/* ---- the products ---- */

/* The runs of tap (ky, kx) of a block; the number of them. */
static int64_t tap_runs(const turned *t, int64_t ky, int64_t kx, tile_run *run)
{
    const conv_core *c = &t->c;
    int64_t py = ky * c->dh, px = kx * c->dw, n = 0;
    if (!t->across) {
        int64_t pixel = (py % c->sh * c->sw + px % c->sw) * t->plane + py / c->sh * t->pitch + px / c->sw;
        run[0] = (tile_run){ 0, pixel % 2 * t->copy + pixel / 2 * 32, t->steps };
        return 1;
    }
    for (int64_t i = 0; i < t->steps; i++) {
        int64_t iy = i / c->ow * c->sh - c->pt + py, ix = i % c->ow * c->sw - c->pl + px;
        if (iy >= 0 && iy < c->ih && ix >= 0 && ix < c->iw) {
            run[n++] = (tile_run){ i * t->left.next, (iy * c->iw + ix) * t->right.next, 1 };
        }
    }
    return n;
}

/* Kernel row ky of 32 output channels by 32 channels. Sums: [output channels / 32][tap][channels / 32][32][32]. */
static void product_chunk(void *arg, int64_t chunk, int worker)
{
    const turned_job *job = arg;
    const turned *t = &job->t;
    const conv_core *c = &t->c;
    int64_t ky = chunk % c->kh, ui = chunk / c->kh % t->pci, uo = chunk / c->kh / t->pci;
    tile_run *run = (tile_run *)(void *)(turned_worker(job, worker) + sizeof(worker_seen));
    const uint16_t *a = (const uint16_t *)(const void *)(job->scratch + t->y) + uo * t->y_panel;
    const uint16_t *b = (const uint16_t *)(const void *)(job->scratch + t->x) + ui * t->x_panel;
    float *sums = (float *)(void *)(job->scratch + t->sums), spare[SIDE * SIDE] __attribute__((aligned(64)));
    block_fn *f = t->parts == 1 ? block_whole : t->across ? block_passes : block_steps;
    WFI_TILES_ON();
    for (int64_t kx = 0; kx < c->kw; kx++) {
        float *piece = sums + ((uo * t->taps + ky * c->kw + kx) * t->pci + ui) * SIDE * SIDE;
        int64_t runs = tap_runs(t, ky, kx, run);
        f(WFI_TILE_FILE, &t->left, a, a + TILE, &t->right, b, run, runs, job->more ? spare : piece);
        for (int64_t i = 0; job->more && i < SIDE * SIDE; i += L) {
            store(piece + i, load(piece + i) + load(spare + i));
        }
    }
    WFI_TILES_OFF();
}

/* 32 channels of all taps (src: taps `apart`) to element o of dw. */
static void put_taps(const conv_plane *d, int64_t kw, int64_t taps, const float *src, int64_t apart, float by, void *dw,
                     int64_t o)
{
#if WFI_LANES == 16
    if (d->dtype == WF_F32 && taps <= 16 && d->s[1] == taps && (d->s[3] == 1 || kw == 1) &&
        (d->s[2] == kw || taps == kw)) {
        const __mmask16 kept = (__mmask16)((1u << taps) - 1);
        for (int64_t c = 0; c < CHAN; c += 16) {
            V r[16];
            UNROLL for (int i = 0; i < 16; i++)
            {
                r[i] = i < taps ? load(src + i * apart + c) * splat(by) : (V){ 0 };
            }
            transpose(r);
            UNROLL for (int i = 0; i < 16; i++)
            {
                _mm512_mask_storeu_ps((float *)dw + o + (c + i) * taps, kept, (__m512)r[i]);
            }
        }
        return;
    }
#endif
    for (int64_t k = 0; k < CHAN; k++) {
        for (int64_t t = 0; t < taps; t++) {
            narrow(dw, o + k * d->s[1] + t / kw * d->s[2] + t % kw * d->s[3], src[t * apart + k] * by, d->dtype);
        }
    }
}

/* Output channels 32 * uo .. of channels 32 * ui .. to dw. */
static void turned_unpack(void *arg, int64_t chunk, int worker)
{
    const turned_job *job = arg;
    const turned *t = &job->t;
    const conv_plane *d = &job->grad->dw;
    const float *sums = (const float *)(const void *)(job->scratch + t->sums);
    int64_t ui = chunk % t->pci, uo = chunk / t->pci;
    (void)worker;
    for (int64_t j = 0; j < SIDE; j++) {
        const float *src = sums + (uo * t->taps * t->pci + ui) * SIDE * SIDE + j * SIDE;
        put_taps(d, t->c.kw, t->taps, src, t->pci * SIDE * SIDE, unscale(t->parts), job->dw,
                 (uo * SIDE + j) * d->s[0] + ui * CHAN * d->s[1]);
    }
}

static bool tiled_wroom(const conv_core *core, conv_wroom *r)
{
    turned t;
    if (!OTHERWISE.wroom(core, r)) {
        return false;
    }
    if (!is_empty(core)) {
        turned_plan(core, &t);
        r->all = t.all > r->all ? t.all : r->all;
    }
    return true;
}

static void otherwise_weight(const conv_wgrad *g, void *const *args, const wfi_run *run)
{
    conv_wroom plain;
    if (OTHERWISE.wroom(&g->c, &plain)) {
        OTHERWISE.wrun(g, &plain, args, run);
    }
}

static void tiled_wrun(const conv_wgrad *g, const conv_wroom *r, void *const *args, const wfi_run *run)
{
    turned_job job = { .grad = g, .dw = args[0], .x = args[1], .dy = args[2], .scratch = run->scratch };
    turned *t = &job.t;
    wfi_pool *pool = pool_for(&g->c, run);
    (void)r;
    if (is_empty(&g->c)) {
        otherwise_weight(g, args, run);
        return;
    }
    turned_plan(&g->c, t);
    seen_clear(turned_worker(&job, 0), t->worker_bytes, g->c.threads);
    for (int64_t b = 0; b < t->groups * t->nrb; b++) {
        job.n = b / t->nrb * (t->across ? SIDE : 1);
        job.oy0 = b % t->nrb * t->rb;
        job.rb = least_of(t->rb, g->c.oh - job.oy0);
        job.more = b > 0;
        wfi_pool_run(pool, t->pci + t->pco, bring_chunk, &job);
        wfi_pool_run(pool, t->pci * t->pco * g->c.kh, product_chunk, &job);
    }
    worker_seen all = seen_all(turned_worker(&job, 0), t->worker_bytes, g->c.threads);
    if (t->parts == 3 && !wfi_amx_range_fits(&all.left, &all.right, g->c.n * g->c.oh * g->c.ow)) {
        otherwise_weight(g, args, run);
        return;
    }
    wfi_pool_run(pool, t->pci * t->pco, turned_unpack, &job);
}
