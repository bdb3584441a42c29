/* norm_params_kernels.h - the passes of norm_params.c for one accumulator type. */

static void FN(moments_rows)(const job *j, char *desk, int64_t r, int64_t end)
{
    const params *p = j->p;
    FN(moments) *m = (FN(moments) *)(void *)j->moments;
    FT *line = (FT *)(void *)desk, *part = line + p->pitch;
    bool direct = is_native(p->type[SLOT_X]) && p->step[SLOT_X] == (int64_t)sizeof(FT);
    cursor c;
    nest_at(&p->rows, r, &c);
    for (; r < end; r++) {
        const char *x = j->args[SLOT_X] + c.off[OP_X];
        if (!direct) {
            load_line(p->as, line, x, p->type[SLOT_X], p->n, p->step[SLOT_X]);
        }
        const FT *from = direct ? (const FT *)(const void *)x : line;
        FN(moments_of)
        (&m[r], from, p->n, p->eps, part, (int64_t)(round64((size_t)p->part_room * sizeof(FT)) / sizeof(FT)), NULL);
        nest_next(&p->rows, &c, 1);
    }
}

/* acc[0]: sums of dy * h, acc[1]: of dy, 32 lanes of w columns each. */
WFI_INLINE void FN(add_row)(FT *g, FT *b, const FT *dy, const FT *h, int64_t w)
{
    int64_t i = 0;
    for (; i + FN(VN) <= w; i += FN(VN)) {
        FN(vec) d = FN(ld)(dy + i);
        FN(st)(g + i, FN(FMA)(d, FN(ld)(h + i), FN(ld)(g + i)));
        FN(st)(b + i, FN(ld)(b + i) + d);
    }
    for (; i < w; i++) {
        g[i] = FN(SCALAR_FMA)(dy[i], h[i], g[i]);
        b[i] += dy[i];
    }
}

/* Columns of tile t over the rows of block b: results to part[which][column][block]. */
static void FN(tile_block)(const job *j, char *desk, int64_t t, int64_t b)
{
    const params *p = j->p;
    const FN(moments) *m = (const FN(moments) *)(const void *)j->moments;
    int64_t c0 = t * TILE, w = least(TILE, p->n - c0), r = b * BLOCK, end = least(p->nrows, r + BLOCK), first = r;
    FT *acc = (FT *)(void *)desk, *x = acc + 2 * LANES * TILE, *dy = x + TILE, *h = dy + TILE;
    memset(acc, 0, 2 * LANES * TILE * sizeof(FT));
    cursor c;
    nest_at(&p->rows, r, &c);
    for (; r < end; r++) {
        const char *px = j->args[SLOT_X] + c.off[OP_X] + c0 * p->step[SLOT_X];
        const char *pdy = j->args[SLOT_DY] + c.off[OP_DY] + c0 * p->step[SLOT_DY];
        load_line(p->as, dy, pdy, p->type[SLOT_DY], w, p->step[SLOT_DY]);
        if (p->wanted[SLOT_DGAMMA]) {
            load_line(p->as, x, px, p->type[SLOT_X], w, p->step[SLOT_X]);
            FN(standard)(h, x, w, &m[r]);
        } else {
            memset(h, 0, (size_t)w * sizeof(FT));
        }
        int64_t lane = (r - first) & (LANES - 1);
        FN(add_row)(acc + lane * TILE, acc + (LANES + lane) * TILE, dy, h, w);
        nest_next(&p->rows, &c, 1);
    }
    FT *part = (FT *)(void *)j->part;
    for (int which = 0; which < 2; which++) {
        FT *a = acc + which * LANES * TILE;
        FN(column_tree)(OP_SUM, a, TILE, LANES, w);
        for (int64_t i = 0; i < w; i++) {
            part[(which * p->n + c0 + i) * p->blocks + b] = a[i];
        }
    }
}

/* The sums of all columns, side by side. */
static char *FN(columns_of)(const job *j, int which)
{
    const params *p = j->p;
    FT *part = (FT *)(void *)j->part + which * p->n * p->blocks;
    for (int64_t i = 0; i < p->n; i++) {
        part[i] = FN(parts)(OP_SUM, part + i * p->blocks, p->blocks);
    }
    return (char *)part;
}
