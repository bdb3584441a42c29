/* conv_tiled.h - the dense core on the tile unit: pixels x (ky kx c) by output channels.
 *
 * A worker brings the input rows under a block of output rows into a buffer, in parts, each element once; tiles read
 * there, so nothing is repeated for the taps of a kernel. A row of a tile is a pixel. Two ways to find 16 of them at
 * equal distances:
 *  - along the rows: output pixels p = row * pitch + column, with pitch as wide as a padded input row, so that a tap is
 *    an offset whatever the row; what lies between the rows is computed and dropped. With strides the buffer has one
 *    plane for each remainder of row and column.
 *  - across images, where images are small: the same pixel of 16 images. Taps outside are left out. */
enum { BUFFER_BYTES = 768 * 1024, IMAGE_PIXELS = 256, RIGHT_BYTES = 640 * 1024 };

/* What a worker has seen of the two operands; at the beginning of its scratch. */
typedef struct worker_seen {
    wfi_amx_range left, right;
    char line[64 - 2 * sizeof(wfi_amx_range)];
} worker_seen;

typedef struct tiled {
    conv_core c;
    int parts;
    bool across;                  /* rows of a tile are images */
    int64_t nc, taps, right;      /* steps of 32 channels, taps; elements of a panel of weights */
    int64_t panels;               /* of 32 output channels */
    int64_t pitch, plane;         /* pixels of a buffered row, pixels of a plane */
    int64_t rb, nrb, groups, nub; /* output rows of a block, blocks; groups of images; parts of the panels */
    tile_left left;
    tile_right right_tiles;
    ptrdiff_t pixel;                                              /* elements from pixel to pixel in the buffer */
    size_t weights, runs, rows, spare, worker, worker_bytes, all; /* places in scratch; the last four in a worker's */
} tiled;

static void seen_clear(char *workers, size_t bytes, int32_t threads)
{
    for (int32_t i = 0; i < threads; i++) {
        *(worker_seen *)(void *)(workers + (size_t)i * bytes) =
            (worker_seen){ wfi_amx_range_none, wfi_amx_range_none, { 0 } };
    }
}

static worker_seen seen_all(const char *workers, size_t bytes, int32_t threads)
{
    worker_seen all = { wfi_amx_range_none, wfi_amx_range_none, { 0 } };
    for (int32_t i = 0; i < threads; i++) {
        const worker_seen *w = (const worker_seen *)(const void *)(workers + (size_t)i * bytes);
        wfi_amx_range_join(&all.left, &w->left);
        wfi_amx_range_join(&all.right, &w->right);
    }
    return all;
}

static bool is_empty(const conv_core *c)
{
    return c->n == 0 || c->oh == 0 || c->ow == 0 || c->kh == 0 || c->kw == 0;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t up_to(int64_t n, int64_t m)
{
    return (n + m - 1) / m;
}

/* Input rows and columns under n output rows or columns. */
static int64_t under(int64_t n, int64_t stride, int64_t kernel, int64_t dilation)
{
    return (n - 1) * stride + (kernel - 1) * dilation + 1;
}

/* Share of the rows of tiles that are wanted results. */
static double along_share(const conv_core *c, int64_t pitch)
{
    double all = (double)((c->oh - 1) * pitch + c->ow);
    return (double)c->oh * (double)c->ow / (all < 16 ? 16 : all);
}

/* Bytes of the rows of a block, less than 2^62 by the limits of declined(). */
static int64_t buffer_bytes(const tiled *t, int64_t rb)
{
    const conv_core *c = &t->c;
    int64_t rows = under(rb, c->sh, c->kh, c->dh);
    if (t->across) {
        return least_of(rows, c->ih) * c->iw * t->pixel * 2;
    }
    return (up_to(rows, c->sh) * c->sh * t->pitch * c->sw + 2 * SIDE) * t->pixel * 2;
}

static void tiled_cut(tiled *t)
{
    const conv_core *c = &t->c;
    int64_t most = t->across ? 2 * BUFFER_BYTES : BUFFER_BYTES, want = c->threads > 1 ? 3 * c->threads : 1;
    t->groups = t->across ? up_to(c->n, SIDE) : c->n;
    t->rb = c->oh;
    while (t->rb > 1 && buffer_bytes(t, t->rb) > most) {
        t->rb--;
    }
    t->nrb = up_to(c->oh, t->rb);
    if (t->groups * t->nrb < want) {
        t->nrb = least_of(c->oh, up_to(want, t->groups));
    }
    t->rb = up_to(c->oh, t->nrb);
    t->nrb = up_to(c->oh, t->rb);
    t->nub = t->groups * t->nrb < want ? least_of(t->panels, up_to(want, t->groups * t->nrb)) : 1;
}

static void tiled_plan(const conv_core *core, tiled *t)
{
    const conv_core *c = &t->c;
    *t = (tiled){ .c = *core, .parts = core->wtype == WF_BF16 ? 1 : 3, .taps = core->kh * core->kw };
    t->nc = c->ci / CHAN;
    t->right = t->taps * t->nc * t->parts * 2 * TILE;
    t->panels = c->co / SIDE;
    t->pitch = up_to(under(c->ow, c->sw, c->kw, c->dw), c->sw);
    double images = (double)c->n / (double)(up_to(c->n, 16) * 16);
    t->across = c->ih * c->iw <= 4 * IMAGE_PIXELS && c->oh * c->ow <= IMAGE_PIXELS && images > along_share(c, t->pitch);
    if (t->across) {
        t->left = (tile_left){ 64, 2 * TILE, t->parts * 2 * TILE };
    } else {
        t->left = (tile_left){ t->nc * t->parts * 64, 32, t->parts * 32 };
    }
    t->pixel = t->nc * t->left.next;
    t->right_tiles = (tile_right){ TILE, 2 * TILE, t->parts * 2 * TILE };
    tiled_cut(t);
    t->plane = t->across ? 0 : up_to(under(t->rb, c->sh, c->kh, c->dh), c->sh) * t->pitch;
    size_t row = (size_t)(c->iw * c->ci) * 4, pack = (size_t)(t->taps * c->ci * SIDE) * 4;
    t->weights = 0;
    t->worker = t->weights + (size_t)(t->panels * t->right) * 2;
    t->runs = sizeof(worker_seen);
    t->spare = t->runs + ((size_t)t->taps * sizeof(tile_run) + 63) / 64 * 64;
    t->rows = t->spare + SIDE * SIDE * 4;
    size_t room = (size_t)buffer_bytes(t, t->rb) + (row + 63) / 64 * 64; /* a gathered row behind the buffer */
    t->worker_bytes = t->rows + ((room > pack ? room : pack) + 63) / 64 * 64;
    t->all = t->worker + t->worker_bytes * (size_t)c->threads;
}

/* ---- the right operand: [panel][tap][32 channels][part][2][16 pairs][16][2] ---- */

typedef struct tiled_job {
    tiled t;
    const void *x, *w;
    void *y;
    uint16_t *right;
    char *workers;
} tiled_job;

/* One step: 32 channels by 32 outputs, rows of w 32 apart, widened where they are bf16. */
WFI_INLINE void pack_step(const float *w, const int parts, uint16_t *dst, seen *s)
{
    for (int p = 0; p < 16; p++) {
        for (int half = 0; half < 2; half++) {
            const float *even = w + 2 * p * SIDE + 16 * half;
            split_pixel a = parts == 3 ? split_16(even, 3, s) : wide_16(even);
            split_pixel b = parts == 3 ? split_16(even + SIDE, 3, s) : wide_16(even + SIDE);
            put_pair(&a, &b, parts, dst + half * TILE + p * 32, 2 * TILE);
        }
    }
}

static void right_chunk(void *arg, int64_t chunk, int worker)
{
    tiled_job *job = arg;
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    char *mine = job->workers + (size_t)worker * t->worker_bytes;
    float *panel = (float *)(void *)(mine + t->rows);
    uint16_t *dst = job->right + chunk * t->right;
    seen s = seen_none();
    pack_panel(c, job->w, chunk * SIDE * c->wj, SIDE, panel, SIDE);
    for (int64_t k = 0; k < t->taps * t->nc; k++, panel += CHAN * SIDE, dst += t->parts * 2 * TILE) {
        if (t->parts == 3) {
            pack_step(panel, 3, dst, &s);
        } else {
            pack_step(panel, 1, dst, &s);
        }
    }
    seen_end(&s, &((worker_seen *)(void *)mine)->right);
}

/* ---- the left operand ---- */

/* One pixel, all of its channels. */
WFI_INLINE void split_pixel_all(const void *src, const int parts, int64_t nc, uint16_t *dst, ptrdiff_t next,
                                ptrdiff_t part, seen *s)
{
    for (int64_t c = 0; c < nc; c++) {
        split_32(value_at(src, c * CHAN, parts), parts, dst + c * next, part, s);
    }
}

/* Pixels first, first + every, .. below end of an input row; pixel `first` goes to dst, the next `pixel` elements on.
 */
WFI_INLINE void split_row(const tiled *t, const int parts, const void *row, ptrdiff_t step, int64_t first, int64_t end,
                          int64_t every, uint16_t *dst, seen *s)
{
    for (int64_t i = first; i < end; i += every, dst += t->pixel) {
        split_pixel_all(value_at(row, i * step, parts), parts, t->nc, dst, t->left.next, t->left.part, s);
    }
}

/* Is input row r of a block (row 0: the first tap of the first output row) seen by one of rb output rows? */
static bool row_is_used(const conv_core *c, int64_t r, int64_t rb)
{
    for (int64_t ky = 0; ky < c->kh; ky++) {
        int64_t o = r - ky * c->dh;
        if (o >= 0 && o % c->sh == 0 && o / c->sh < rb) {
            return true;
        }
    }
    return false;
}

/* The rows of image n under output rows oy0 .. oy0+rb-1, with zero borders, by planes. */
WFI_INLINE void fill_along(const tiled_job *job, const int parts, int64_t n, int64_t oy0, int64_t rb, uint16_t *buf,
                           void *room, seen *s)
{
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    const void *image = value_at(job->x, n * c->x.s[0], parts);
    for (int64_t r = 0; r < under(rb, c->sh, c->kh, c->dh); r++) {
        int64_t iy = oy0 * c->sh - c->pt + r;
        ptrdiff_t step = 0;
        if (!row_is_used(c, r, rb)) {
            continue;
        }
        const bool inside = iy >= 0 && iy < c->ih;
        const void *row = inside ? pixel_row(&c->x, image, iy, c->iw, c->ci, parts, room, &step) : NULL;
        for (int64_t q = 0; q < c->sw; q++) { /* buffered pixel i is column q + i * sw - pl of the input */
            uint16_t *dst = buf + ((r % c->sh * c->sw + q) * t->plane + r / c->sh * t->pitch) * t->pixel;
            int64_t lo = c->pl > q ? up_to(c->pl - q, c->sw) : 0;
            int64_t hi = c->iw + c->pl > q ? up_to(c->iw + c->pl - q, c->sw) : 0;
            hi = inside ? least_of(hi, t->pitch) : 0;
            lo = least_of(lo, hi);
            memset(dst, 0, (size_t)(lo * t->pixel) * 2);
            memset(dst + hi * t->pixel, 0, (size_t)((t->pitch - hi) * t->pixel) * 2);
            split_row(t, parts, row, step, q + lo * c->sw - c->pl, q + (hi - 1) * c->sw - c->pl + 1, c->sw,
                      dst + lo * t->pixel, s);
        }
    }
}

/* Input rows first .. end-1 of up to 32 images: [row][column][channels / 32][part][image][32]. */
WFI_INLINE void fill_across(const tiled_job *job, const int parts, int64_t n, int64_t first, int64_t end, int64_t oy0,
                            int64_t rb, uint16_t *buf, void *room, seen *s)
{
    const tiled *t = &job->t;
    const conv_core *c = &t->c;
    for (int64_t i = 0; i < SIDE && n + i < c->n; i++) {
        const void *image = value_at(job->x, (n + i) * c->x.s[0], parts);
        for (int64_t iy = first; iy < end; iy++) {
            ptrdiff_t step;
            if (row_is_used(c, iy + c->pt - oy0 * c->sh, rb)) {
                const void *row = pixel_row(&c->x, image, iy, c->iw, c->ci, parts, room, &step);
                split_row(t, parts, row, step, 0, c->iw, 1, buf + (iy - first) * c->iw * t->pixel + i * 32, s);
            }
        }
    }
}
