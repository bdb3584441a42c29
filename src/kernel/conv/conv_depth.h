/* conv_depth.h - depthwise convolution, one filter a channel: vectors run over the channels. Weights: [ky][kx][chan],
 * chan = groups rounded up to whole vectors. */
enum { DEPTH_ROWS = 4 };

/* The tile of both directions: mr rows, ai apart in a, by nv vectors of channels. Steps are `lines` runs, `line` apart
 * in a, of `len` each, ap apart there; the right operand runs on, bp apart. add: the result is added to c. Forward:
 * rows are pixels, steps are taps, the right operand is the weights. Weight gradient: rows are taps, steps are pixels,
 * the right operand is dy. */
typedef struct depth_steps {
    int64_t lines, line, len, ap;
    const T *b;
    int64_t bp;
} depth_steps;

WFI_INLINE void depth_tile(const int mr, const int nv, const int add, const T *a, int64_t ai, const depth_steps *s,
                           T *c, int64_t ldc)
{
    const T *b = s->b;
    V r[DEPTH_ROWS][2];
    UNROLL for (int i = 0; i < mr; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            r[i][j] = (V){ 0 };
        }
    }
    for (int64_t y = 0; y < s->lines; y++) {
        const T *x = a + y * s->line;
        for (int64_t k = 0; k < s->len; k++, x += s->ap, b += s->bp) {
            UNROLL for (int j = 0; j < nv; j++)
            {
                V right = load(b + j * L);
                UNROLL for (int i = 0; i < mr; i++)
                {
                    r[i][j] = fma_(load(x + i * ai + j * L), right, r[i][j]);
                }
            }
        }
    }
    UNROLL for (int i = 0; i < mr; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            T *p = c + i * ldc + j * L;
            store(p, add ? load(p) + r[i][j] : r[i][j]);
        }
    }
}

typedef void depth_fn(const T *a, int64_t ai, const depth_steps *s, T *c, int64_t ldc);
#define DEPTH(name, mr, nv, add)                                                                                       \
    static void name##_##mr##_##nv(const T *a, int64_t ai, const depth_steps *s, T *c, int64_t ldc)                    \
    {                                                                                                                  \
        depth_tile(mr, nv, add, a, ai, s, c, ldc);                                                                     \
    }
#define DEPTHS(name, add)                                                                                              \
    DEPTH(name, 1, 1, add)                                                                                             \
    DEPTH(name, 2, 1, add)                                                                                             \
    DEPTH(name, 3, 1, add)                                                                                             \
    DEPTH(name, 4, 1, add)                                                                                             \
    DEPTH(name, 1, 2, add)                                                                                             \
    DEPTH(name, 2, 2, add)                                                                                             \
    DEPTH(name, 3, 2, add)                                                                                             \
    DEPTH(name, 4, 2, add)                                                                                             \
    static depth_fn *const name##_tiles[2][DEPTH_ROWS] = { { name##_1_1, name##_2_1, name##_3_1, name##_4_1 },         \
                                                           { name##_1_2, name##_2_2, name##_3_2, name##_4_2 } };
DEPTHS(depth, 0)
DEPTHS(depth_weight, 1)

/* cols pixels of an output row in channels j0 .. j0+nr-1, of which nj exist. */
static void depth_row(const fwd_job *job, const T *a, int64_t nky, const T *w, int64_t cols, int64_t nr, int64_t nj,
                      int64_t wl, void *y)
{
    const geo *g = &job->g;
    const conv_plane *p = &g->c.y;
    bool whole = is_native(p->dtype) && p->s[1] == 1 && nj == nr;
    const int64_t ai = g->c.sw * g->pix;
    const depth_steps taps = {
        .lines = nky, .line = g->c.dh * g->line, .len = g->c.kw, .ap = g->c.dw * g->pix, .b = w, .bp = wl
    };
    T tmp[DEPTH_ROWS * NR] __attribute__((aligned(64)));
    even e = even_split(cols, DEPTH_ROWS);
    for (int64_t t = 0, q = 0, m; t < e.tiles; t++, q += m) {
        m = e.rows + (t < e.more);
        depth_fn *f = depth_tiles[nr == NR][m - 1];
        if (whole) {
            f(a + q * ai, ai, &taps, (T *)y + q * p->s[3], p->s[3]);
        } else {
            f(a + q * ai, ai, &taps, tmp, nr);
            put_pixels(at_mut(y, q * p->s[3], p->dtype), p->s[3], p->s[1], tmp, nr, m, nj, p->dtype);
        }
    }
}

static void depth_chunk(void *arg, int64_t chunk, int worker)
{
    const fwd_job *job = arg;
    const geo *g = &job->g;
    const conv_core *c = &g->c;
    T *buf = (T *)(void *)(job->buffers + (size_t)worker * job->buffer_bytes);
    int64_t cblk = chunk % g->ncb, rblk = chunk / g->ncb % g->nrb, n = chunk / g->ncb / g->nrb;
    int64_t ox0 = cblk * g->cb, cols = c->ow - ox0 < g->cb ? c->ow - ox0 : g->cb, first;
    int64_t oy0 = rblk * g->rb, oy1 = c->oh - oy0 < g->rb ? c->oh : oy0 + g->rb, wl = ceil_div(c->groups, L) * L;
    const T *rows = block_rows(g, at(job->x, n * c->x.s[0], c->x.dtype), ox0, oy0, oy1, buf, &first);
    for (int64_t oy = oy0; oy < oy1; oy++) {
        int64_t ky0, ky1;
        kernel_rows(c, oy, &ky0, &ky1);
        const T *a = ky0 < ky1 ? rows + (oy * c->sh - c->pt + ky0 * c->dh - first) * g->line : rows;
        for (int64_t j = 0, nr; j < c->groups; j += nr) {
            nr = c->groups - j > L ? NR : L;
            int64_t nj = c->groups - j < nr ? c->groups - j : nr;
            int64_t o = c->y0 + n * c->y.s[0] + j * c->y.s[1] + oy * c->y.s[2] + ox0 * c->y.s[3];
            depth_row(job, a + j, ky1 - ky0, job->wp + ky0 * c->kw * wl + j, cols, nr, nj, wl,
                      at_mut(job->y, o, c->y.dtype));
        }
    }
}

static void depth_run(fwd_job *job, T *wp, const void *w, wfi_pool *pool)
{
    const conv_core *c = &job->g.c;
    int64_t wl = ceil_div(c->groups, L) * L;
    for (int64_t y = 0; y < c->kh; y++) {
        for (int64_t x = 0; x < c->kw; x++, wp += wl) {
            int64_t o = (c->k0h + y * c->kdh) * c->wh + (c->k0w + x * c->kdw) * c->ww;
            copy_pixels(wp, 1, at(w, o, c->wtype), c->wg, 1, c->groups, 1, c->wtype);
            memset(wp + c->groups, 0, (size_t)(wl - c->groups) * sizeof(T));
        }
    }
    wfi_pool_run(pool, c->n * job->g.nrb * job->g.ncb, depth_chunk, job);
}
