/* conv_traits.h - how a convolution will run, as numbers (kernel/choice.h). */
static double ratio(int64_t a, int64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}

static void traits(const conv_core *core, wfi_traits *t)
{
    geo g;
    geometry(core, &g);
    const conv_core *c = &g.c;
    const double steps = (double)(c->kh * c->kw) * (double)c->ci, pixels = (double)(c->n * c->oh) * (double)c->ow;
    const double channels = (double)(g.depth ? ceil_div(c->groups, L) * L : c->groups * padded(c->co));
    const double blocks = (double)(ceil_div(c->n, g.images) * g.nrb) * (double)g.ncb;
    const double weights = steps * channels * sizeof(T), under = block_size(&g, g.cb, g.rb);
    *t = (wfi_traits){ .useful = 2 * pixels * steps * (double)(c->groups * c->co),
                       .flops = 2 * pixels * steps * channels };
    t->moved = ((double)(c->n * c->groups * c->ci) * (double)(c->ih * c->iw) + pixels * (double)(c->groups * c->co)) *
                   sizeof(T) +
               weights;
    t->packed = weights + (g.direct ? 0 : blocks * under);
    t->again = weights * (g.rows_first ? pixels / (double)(g.cb > 0 ? g.cb : 1) : blocks) +
               (g.rows_first ? 0 : blocks * under * ratio(g.units, g.nub));
    t->near = (double)(c->kh * pixels_under(c, MR2)) * (double)g.pix * sizeof(T);
    t->block = under + (g.rows_first ? weights : steps * NR * sizeof(T));
    t->loads = (double)(MR2 + NR / L) / (double)(MR2 * (NR / L));
    t->pieces = blocks * (double)g.nub;
    t->threads = c->threads;
    t->kind = (g.direct ? 1 : 0) + (g.rows_first ? 2 : 0);
    const int64_t all[] = { g.direct, g.by_image, g.rows_first, g.pix, g.cb, g.rb, g.nub, c->threads };
    t->alike = wfi_hash64(all, sizeof all, 0);
}

static void wtraits(const conv_core *core, wfi_traits *t)
{
    wgt_geo w;
    wgt_geometry(core, &w);
    const geo *g = &w.g;
    const conv_core *c = &g->c;
    const double steps = (double)(c->kh * c->kw) * (double)c->ci, pixels = (double)(c->n * c->oh) * (double)c->ow;
    const double sums = (double)acc_size(c) * sizeof(T),
                 blocks = (double)c->n * ratio(ceil_div(c->oh, g->rb > 0 ? g->rb : 1), 1);
    const double x = (double)(c->n * c->groups * c->ci) * (double)(c->ih * c->iw) * sizeof(T);
    const double dy = pixels * (double)(c->groups * c->co) * sizeof(T);
    *t = (wfi_traits){ .useful = 2 * pixels * steps * (double)(c->groups * c->co),
                       .flops = 2 * pixels * (double)acc_size(c) };
    t->moved = x + dy + sums;
    t->packed = dy * ratio(ceil_div(c->ci, w.cut.k), 1) + (g->direct ? 0 : x * ratio(ceil_div(g->units, w.cut.u), 1));
    t->again = 2 * sums * blocks + (x + dy) * (double)parts(&w);
    t->block = (double)(w.cut.u * w.cut.ky * c->kw) * (double)w.cut.k * NR * sizeof(T);
    t->near = (double)(g->rb * c->ow) * NR * sizeof(T);
    t->loads = 1;
    t->pieces = w.waves ? blocks : (double)parts(&w);
    t->threads = c->threads;
    t->kind = (g->direct ? 1 : 0) + (w.waves ? 2 : 0);
    const int64_t all[] = { g->direct, w.waves, w.cut.u, w.cut.ky, w.cut.k, c->threads };
    t->alike = wfi_hash64(all, sizeof all, 0);
}
