/* conv_geo.h - how a core is cut into blocks of output pixels, and the rows of input under a block: buffered with their
 * zero borders, or the input itself where nothing must be padded, turned or widened. */
enum { BLOCK_BYTES = 192 * 1024, FLAT_STEPS = 16, PANEL_BYTES = 512 * 1024, ALIAS_BYTES = 4096, LINE = 64 };
enum { IMAGES_BYTES = 1 << 20 }; /* of the images that are the rows of tiles */

/* The panels of co output channels: NR wide, the last one L wide where that is enough. */
WFI_INLINE int64_t panels(int64_t co)
{
    return (co + NR - 1) / NR;
}

WFI_INLINE int64_t panel_width(int64_t co, int64_t panel)
{
    return co - panel * NR > L ? NR : L;
}

WFI_INLINE int64_t padded(int64_t co)
{
    int64_t last = co % NR;
    return last == 0 ? co : co - last + (last > L ? NR : L);
}

/* How a core is cut. Nothing in here changes a result. */
typedef struct geo {
    conv_core c;              /* the core, 1 x 1 images merged into one row */
    bool depth;               /* depthwise: vectors run over the groups */
    bool direct;              /* tiles read x itself */
    bool rows_first;          /* all panels of an output row, then the next row: the weights stay in L2 */
    int64_t chan;             /* channels in a buffered row */
    int64_t pix;              /* elements from pixel to pixel, */
    int64_t pw;               /* pixels of a buffered row, */
    int64_t line;             /* elements from row to row */
    int64_t rb, nrb, cb, ncb; /* rows and columns of a block, numbers of blocks */
    int64_t units, nub;       /* panels of all groups; parts into which they are cut */
    int64_t len, per_row;     /* steps of a segment, segments of a kernel row */
    int64_t rows;             /* buffered rows */
    int64_t images, image;    /* images of a block, elements from one to the next in its buffer */
    bool by_image;            /* rows of a tile are images, not pixels of a row */
} geo;

WFI_INLINE int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* A 1 x 1 kernel over whole images sees one long row. */
static void merge(conv_core *c)
{
    if (c->kh == 1 && c->kw == 1 && c->sh == 1 && c->sw == 1 && c->pt == 0 && c->pl == 0 && c->oh == c->ih &&
        c->ow == c->iw && c->x.s[2] == c->iw * c->x.s[3] && c->y.s[2] == c->ow * c->y.s[3]) {
        c->iw = c->ow = c->oh * c->ow;
        c->ih = c->oh = 1;
    }
}

/* Tiles can read pixels of x as they lie, ... */
static bool is_dense(const conv_core *c, int64_t chan)
{
    int64_t step = c->sw * c->x.s[3] * (int64_t)sizeof(T);
    return is_native(c->x.dtype) && (c->x.s[1] == 1 || chan == 1) && (chan < L || step % ALIAS_BYTES != 0);
}

/* ... and every window lies inside. */
static bool can_read(const conv_core *c, int64_t chan)
{
    return is_dense(c, chan) && c->pl <= 0 && c->kw > 0 && (c->ow - 1) * c->sw + (c->kw - 1) * c->dw - c->pl < c->iw;
}

/* Input rows under rb output rows, padding included. */
static int64_t rows_under(const conv_core *c, int64_t rb)
{
    int64_t n = (rb - 1) * c->sh + (c->kh > 0 ? (c->kh - 1) * c->dh : 0) + 1;
    return n < c->ih ? n : c->ih;
}

static int64_t pixels_under(const conv_core *c, int64_t cb)
{
    return (cb - 1) * c->sw + (c->kw > 0 ? (c->kw - 1) * c->dw : 0) + 1;
}

/* Bytes of the input under a block; in doubles, which cannot overflow. */
static double block_size(const geo *g, int64_t cb, int64_t rb)
{
    return (double)pixels_under(&g->c, cb) * (double)g->pix * (double)rows_under(&g->c, rb) * (double)sizeof(T);
}

/* Images narrower than a tile are high: its rows are then one pixel of several images, which fill it. Whole images are
 * buffered, a line apart from a multiple of 4 KiB. */
static void cut_images(geo *g)
{
    const conv_core *c = &g->c;
    even images = even_split(c->n, MR2);
    double pixels = (double)pixels_under(c, c->ow) * (double)rows_under(c, c->oh);
    g->images = 1;
    g->by_image = !g->depth && 5 * c->ow <= 4 * images.rows && /* rows of a tile either way */
                  pixels * (double)c->ci * (double)(images.rows + 1) * (double)sizeof(T) <= IMAGES_BYTES;
    if (g->by_image) {
        g->images = images.rows + (images.more > 0);
        g->direct = false;
        g->pix = c->ci;
    }
}

static void cut(geo *g)
{
    const conv_core *c = &g->c;
    const double most = c->way.of[WAY_BLOCK] ? c->way.of[WAY_BLOCK] * 1024.0 : BLOCK_BYTES;
    const int64_t each = c->way.of[WAY_PIECES] ? c->way.of[WAY_PIECES] : 4;
    int64_t want, blocks;
    g->cb = c->ow > 0 ? c->ow : 1;
    while (g->cb > 4 * MR2 && block_size(g, g->cb, 1) > most) {
        g->cb = ceil_div(ceil_div(g->cb, 2), MR2) * MR2;
    }
    g->rb = c->oh > 0 ? c->oh : 1;
    while (g->rb > 1 && block_size(g, g->cb, g->rb) > most) {
        g->rb = g->rb > 16 ? g->rb / 2 : g->rb - 1;
    }
    want = c->n > 0 ? ceil_div(c->threads > 1 ? each * c->threads : 1, c->n) : 1; /* blocks of an image */
    if (g->by_image) {
        g->rb = c->oh;
    } else if (g->ncb = ceil_div(c->ow, g->cb), ceil_div(c->oh, g->rb) * g->ncb < want && c->oh > 1) {
        g->rb = ceil_div(c->oh, ceil_div(want, g->ncb) < c->oh ? ceil_div(want, g->ncb) : c->oh);
    } else if (g->ncb < want && c->oh == 1) {
        g->cb = ceil_div(ceil_div(c->ow, want), MR2) * MR2;
    }
    g->ncb = ceil_div(c->ow > 0 ? c->ow : 1, g->cb);
    g->nrb = ceil_div(c->oh > 0 ? c->oh : 1, g->rb);
    g->units = g->depth ? 1 : c->groups * panels(c->co);
    g->nub = 1;
    blocks = ceil_div(c->n, g->images) * g->nrb * g->ncb;
    if (blocks < 2 * c->threads && c->threads > 1) {
        g->nub = ceil_div(2 * c->threads, blocks > 0 ? blocks : 1);
        g->nub = g->nub < g->units ? g->nub : g->units;
    }
    if (c->way.of[WAY_PANELS] > g->nub) {
        g->nub = c->way.of[WAY_PANELS] < g->units ? c->way.of[WAY_PANELS] : g->units;
    }
}

static void geometry(const conv_core *core, geo *g)
{
    conv_core *c = &g->c;
    *c = *core;
    merge(c);
    g->depth = c->groups > 1 && c->ci == 1 && c->co == 1;
    g->chan = g->depth ? c->groups : c->ci;
    g->direct = can_read(c, g->chan) && (!g->depth || c->groups % L == 0) && c->way.of[WAY_READ] != 2;
    g->pix = g->direct ? c->x.s[3] : g->depth ? ceil_div(c->groups, L) * L : c->ci;
    cut_images(g);
    if (!g->direct && !g->depth && !g->by_image && c->ci > 0 && c->sw * c->ci * (int64_t)sizeof(T) % ALIAS_BYTES == 0) {
        g->pix += 64 / (int64_t)sizeof(T); /* pixels of a tile in different sets of the cache */
    }
    cut(g);
    g->rows = rows_under(c, g->rb);
    g->pw = pixels_under(c, g->cb);
    g->line = g->direct ? c->x.s[2] : g->pw * g->pix;
    g->image = g->by_image ? g->rows * g->line + LINE / (int64_t)sizeof(T) : 0;
    g->rows_first =
        c->groups == 1 && (double)(c->kh * c->kw * c->ci) * (double)padded(c->co) * sizeof(T) <= PANEL_BYTES;
    if (c->way.of[WAY_ORDER]) {
        g->rows_first = c->groups == 1 && c->way.of[WAY_ORDER] == 1;
    }
    g->len = c->ci;
    g->per_row = c->kw;
    if (c->dw == 1 && g->pix == c->ci) {
        g->len *= c->kw;
        g->per_row = c->kw > 0;
    }
    if (g->len < FLAT_STEPS) {
        g->per_row *= g->len;
        g->len = 1;
    }
}

static bool room(const conv_core *core, conv_room *r)
{
    geo g;
    size_t seg, w, rows, all;
    geometry(core, &g);
    if (!wfi_ck_mul((size_t)g.c.kh, (size_t)g.per_row, &seg) || !wfi_ck_mul(seg, sizeof(ptrdiff_t), &seg) ||
        !wfi_ck_align(seg + sizeof(T), 64, &seg) || !wfi_ck_mul((size_t)(g.c.kh * g.c.kw), (size_t)g.c.ci, &w) ||
        !wfi_ck_mul(w, (size_t)(g.depth ? ceil_div(g.c.groups, L) * L : padded(g.c.co)), &w) ||
        !wfi_ck_mul(w, (size_t)(g.depth ? 1 : g.c.groups) * sizeof(T), &w) || !wfi_ck_align(w, 64, &w) ||
        !wfi_ck_mul((size_t)g.rows, g.direct ? 0 : (size_t)g.line, &rows) ||
        !wfi_ck_mul(g.by_image ? (size_t)(g.images * g.image) : rows, sizeof(T), &rows) ||
        !wfi_ck_align(rows, 64, &rows) || !wfi_ck_mul(rows, (size_t)g.c.threads, &all) || !wfi_ck_add(all, seg, &all) ||
        !wfi_ck_add(all, w, &all)) {
        return false;
    }
    *r = (conv_room){ .seg = 0, .weights = seg, .worker = seg + w, .worker_bytes = rows, .all = all };
    r->kept = g.depth ? 0 : w;
    return true;
}

typedef struct fwd_job {
    geo g;
    const void *x;
    void *y;
    const ptrdiff_t *seg;
    const T *wp;
    char *buffers;
    size_t buffer_bytes;
    int threads;
} fwd_job;

/* Kernel rows ky0 .. ky1-1 of output row oy lie inside the input. */
WFI_INLINE void kernel_rows(const conv_core *c, int64_t oy, int64_t *ky0, int64_t *ky1)
{
    wfi_window w = { .in = c->ih, .kernel = c->kh, .stride = c->sh, .dilation = c->dh };
    wfi_window_taps(&w, oy * c->sh - c->pt, ky0, ky1);
}

/* The rows under output rows oy0 .. oy1-1, buffered or not: the first goes to *first, the address is that of the pixel
 * px left of it. chan: channels to be read. */
static const T *input_rows(const geo *g, const void *x, int64_t chan, int64_t px, int64_t oy0, int64_t oy1, T *buf,
                           int64_t *first)
{
    const conv_core *c = &g->c;
    int64_t a = oy0 * c->sh - c->pt, b = (oy1 - 1) * c->sh - c->pt + (c->kh - 1) * c->dh + 1;
    a = a > 0 ? a : 0;
    b = b < c->ih ? b : c->ih;
    *first = a;
    if (g->direct) {
        return (const T *)x + (a < b ? a * c->x.s[2] : 0) - px * c->x.s[3];
    }
    for (int64_t i = a; i < b; i++) {
        fill_row(buf + (i - a) * g->line, g->pw, g->pix, at(x, i * c->x.s[2], c->x.dtype), &c->x, c->iw, chan, px);
    }
    return buf;
}

/* ... beginning where the windows of column ox0 do. */
static const T *block_rows(const geo *g, const void *x, int64_t ox0, int64_t oy0, int64_t oy1, T *buf, int64_t *first)
{
    return input_rows(g, x, g->chan, g->c.pl - ox0 * g->c.sw, oy0, oy1, buf, first);
}

/* Stream i of `next` shall fetch rows a .. b-1 of image n within `steps` steps, if all their channels lie densely. */
static void fetch_rows(ahead *next, int i, const conv_plane *p, const void *base, int64_t n, int64_t images, int64_t a,
                       int64_t b, int64_t h, int64_t w, int64_t chan, int64_t steps)
{
    a = a > 0 ? a : 0;
    b = b < h ? b : h;
    if (n < images && a < b && steps > 0 && is_native(p->dtype) && p->s[2] == w * chan && p->s[3] == chan &&
        (p->s[1] == 1 || chan == 1)) {
        int64_t step = 2 * (b - a) * p->s[2] * (int64_t)sizeof(T) / steps + 1;
        next->p[i] = at(base, n * p->s[0] + a * p->s[2], p->dtype);
        next->step[i] = step < 64 ? step : 64;
    }
}
