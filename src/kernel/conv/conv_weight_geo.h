/* conv_weight_geo.h - how a weight gradient is cut and what memory it takes. */

/* Threads take parts of dw, or, where dw is small or its parts do not divide among them, blocks, whose
 * results wait in memory (a wave of them) and are then added in order. */
enum { WAVE_SMALL = 32 * 1024, WAVE_LARGE = 256 * 1024, WAVE_BYTES = 4 << 20, WAVE_BLOCKS = 64, WAVE_SLICE = 4096 };

/* Of the sums of a part, which every block loads and stores: half of the smallest L2 in use. Channels are cut by whole
 * lines. A block of few pixels has no time to fetch the next one. */
enum { PART_BYTES = 160 * 1024, PART_CHAN = 16, NEAR_STEPS = 64 };

typedef struct wgt_cut {
    int64_t u, ky, k; /* panels, kernel rows and channels of a part */
} wgt_cut;

/* skip: rows of a tile are the channels at one (ky, kx), and columns outside are skipped; else they are (kx, channel).
 */
typedef struct wgt_geo {
    geo g; /* of the convolution whose output is dy: only the reading side is used */
    bool skip, waves;
    bool near; /* blocks of few pixels */
    wgt_cut cut;
} wgt_geo;

WFI_INLINE int64_t wave_blocks(int64_t acc_bytes)
{
    int64_t n = WAVE_BYTES / (acc_bytes > 0 ? acc_bytes : 1);
    return n < WAVE_BLOCKS ? n : WAVE_BLOCKS;
}

WFI_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Channels of a depthwise chunk. */
WFI_INLINE int64_t depth_width(const conv_core *c)
{
    int64_t all = ceil_div(c->groups, L) * L;
    return all < 4 * L ? all : 4 * L;
}

/* Elements of dw, padded to whole panels. */
WFI_INLINE int64_t acc_size(const conv_core *c)
{
    return c->kh * c->kw * c->ci *
           (c->groups > 1 && c->ci == 1 && c->co == 1 ? ceil_div(c->groups, L) * L : c->groups * padded(c->co));
}

static int64_t parts(const wgt_geo *w)
{
    const conv_core *c = &w->g.c;
    return ceil_div(w->g.units, w->cut.u) * ceil_div(c->kh, w->cut.ky) * ceil_div(c->ci, w->cut.k);
}

/* The threads get equally many parts, or nearly so. */
static bool is_even(const wgt_geo *w)
{
    int64_t threads = w->g.c.threads, n = parts(w);
    return n % threads == 0 || n >= 4 * threads;
}

/* ci channels in parts of at most `most`, but whole lines, and as equal as can be. */
static int64_t part_channels(int64_t ci, int64_t most)
{
    int64_t n = ceil_div(ci, most > PART_CHAN ? most : PART_CHAN);
    int64_t k = ceil_div(ceil_div(ci, n > 0 ? n : 1), PART_CHAN) * PART_CHAN;
    return k < ci ? k : ci > 0 ? ci : 1;
}

static void cut_parts(wgt_geo *w)
{
    const conv_core *c = &w->g.c;
    wgt_cut *cut = &w->cut;
    double part = c->way.of[WAY_BLOCK] ? c->way.of[WAY_BLOCK] * 1024.0 : PART_BYTES;
    double room = w->g.direct ? part : 2 * part;                  /* a copy of x shall serve more panels */
    double chan = (double)c->kh * (double)c->kw * NR * sizeof(T); /* one channel of one panel */
    *cut = (wgt_cut){ 1, c->kh > 0 ? c->kh : 1, c->ci > 0 ? c->ci : 1 };
    if (w->skip) {
        cut->k = part_channels(c->ci, (int64_t)(room / chan) / PART_CHAN * PART_CHAN);
    }
    room /= chan * (double)cut->k;
    cut->u = room < 1 || w->g.units == 0 ? 1 : room < (double)w->g.units ? (int64_t)room : w->g.units;
    if (c->way.of[WAY_PANELS] && cut->u > c->way.of[WAY_PANELS]) {
        cut->u = c->way.of[WAY_PANELS];
    }
    while (!is_even(w) && cut->u > 1) {
        cut->u = ceil_div(cut->u, 2);
    }
    while (!is_even(w) && w->skip && cut->k > PART_CHAN) {
        cut->k = part_channels(c->ci, cut->k / 2);
    }
    cut->ky = is_even(w) ? cut->ky : 1;
}

static void wgt_geometry(const conv_core *core, wgt_geo *w)
{
    geo *g = &w->g;
    conv_core *c = &g->c;
    *c = *core;
    g->depth = c->groups > 1 && c->ci == 1 && c->co == 1;
    g->rb = WFI_CONV_ROWS < c->oh ? WFI_CONV_ROWS : c->oh;
    g->cb = c->ow;
    g->rows = rows_under(c, g->rb);
    g->units = c->groups * panels(c->co);
    w->skip = c->ci >= WFI_CONV_SKIP;
    w->near = g->rb * c->ow < NEAR_STEPS;
    g->direct = (w->skip ? is_dense(c, c->ci) : can_read(c, 1)) && (c->x.s[1] == 1 || (c->ci == 1 && !g->depth)) &&
                (!g->depth || c->groups % L == 0) && c->way.of[WAY_READ] != 2;
    cut_parts(w);
    w->waves = c->threads > 1 && c->way.of[WAY_ORDER] != 1 && !g->depth &&
               acc_size(c) * (int64_t)sizeof(T) <= WAVE_LARGE &&
               (c->way.of[WAY_ORDER] == 2 || acc_size(c) * (int64_t)sizeof(T) <= WAVE_SMALL ||
                (g->units % c->threads != 0 && g->units < 4 * c->threads));
    g->chan = g->depth ? depth_width(c) : w->waves ? c->ci : w->cut.k;
    g->pix = g->direct ? c->x.s[3] : g->chan;
    g->pw = w->skip ? c->iw : pixels_under(c, g->cb);
    g->line = g->direct ? c->x.s[2] : g->pw * g->pix;
    g->len = !w->skip && g->pix == c->ci && c->dw == 1 ? c->kw * c->ci : c->ci;
    g->per_row = !w->skip && g->pix == c->ci && c->dw == 1 ? 1 : c->kw;
}

/* factors[0] * ... * sizeof(T), up to whole lines; false: overflow */
static bool room_for(const int64_t *factors, int count, size_t *bytes)
{
    *bytes = sizeof(T);
    for (int i = 0; i < count; i++) {
        if (!wfi_ck_mul(*bytes, (size_t)factors[i], bytes)) {
            return false;
        }
    }
    return wfi_ck_align(*bytes, LINE, bytes);
}

static bool wroom(const conv_core *core, conv_wroom *r)
{
    wgt_geo w;
    size_t acc, part, rows, pack, sums;
    const geo *g = &w.g;
    const conv_core *c = &w.g.c;
    const int64_t chans = core->groups > 1 && core->ci == 1 && core->co == 1 ? ceil_div(core->groups, L) * L : 0;
    if (!room_for((int64_t[]){ core->kh, core->kw, core->ci, chans > 0 ? 1 : core->groups,
                               chans > 0 ? chans : padded(core->co) },
                  5, &acc)) {
        return false;
    }
    wgt_geometry(core, &w);
    if (!room_for((int64_t[]){ g->rows, g->direct ? 0 : g->line }, 2, &rows) ||
        !room_for((int64_t[]){ g->rb, c->ow, g->depth ? g->chan : NR }, 3, &pack) ||
        !room_for((int64_t[]){ w.cut.u, w.cut.ky, c->kw, w.cut.k, NR }, 5, &sums)) {
        return false;
    }
    acc = w.waves || g->depth ? acc : 0;
    sums = w.waves || g->depth ? 0 : sums;
    part = w.waves ? acc * (size_t)wave_blocks((int64_t)acc) : 0;
    *r = (conv_wroom){ .part = acc, .worker = acc + part, .pack = rows };
    return wfi_ck_add(rows, pack, &r->sums) && wfi_ck_add(r->sums, sums, &r->worker_bytes) &&
           wfi_ck_mul(r->worker_bytes, (size_t)c->threads, &r->all) && wfi_ck_add(r->all, r->worker, &r->all);
}
