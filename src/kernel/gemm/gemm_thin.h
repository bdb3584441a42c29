/* gemm_thin.h - the tiers for m <= 4, which read b once from where it lies. Part of the template gemm_loops.h. */
/* q rows of b, m <= 4 of a: c[i][j] goes on with x[i + 4*s] * b[s][j], s < q. */
WFI_SPECIAL void rows_step(int m, int q, bool first, const T *x, const E *b, int64_t bs, int64_t n, T *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        V r[4][2];
        WFI_UNROLL for (int i = 0; i < m; i++) WFI_UNROLL for (int v = 0; v < 2; v++) r[i][v] =
            first ? (V){ 0 } : ld(c + i * ldc + j + VL * v);
        WFI_UNROLL for (int s = 0; s < q; s++)
        {
            V y = LDE(b + s * bs + j), z = LDE(b + s * bs + j + VL);
            WFI_PIN(y);
            WFI_PIN(z);
            WFI_UNROLL for (int i = 0; i < m; i++)
            {
                V w = set1(x[i + 4 * s]);
                WFI_PIN(w);
                FMA(r[i][0], w, y);
                FMA(r[i][1], w, z);
            }
        }
        WFI_UNROLL for (int i = 0; i < m; i++) WFI_UNROLL for (int v = 0; v < 2; v++)
            st(c + i * ldc + j + VL * v, r[i][v]);
    }
    for (; j < n; j += VL)
        for (int i = 0; i < m; i++) {
            V r = first ? (V){ 0 } : LDM(c + i * ldc + j, LANES(n - j));
            for (int s = 0; s < q; s++)
                FMA(r, set1(x[i + 4 * s]), LDEM(b + s * bs + j, n - j));
            STM(c + i * ldc + j, LANES(n - j), r);
        }
}
#define ROWS_AT_ONCE                                                                                                   \
    8 /* so many streams for the hardware's read-ahead; c is read and written once for so many rows                    \
       */
WFI_SPECIAL void rows_all(const wfi_gemm *g, int m, const E *a, const E *b, int64_t n, T *c, int64_t ldc)
{
    T x[4 * ROWS_AT_ONCE];
    for (int64_t p = 0; p < g->k; p += ROWS_AT_ONCE, b += ROWS_AT_ONCE * g->b_k) {
        int q = (int)least(ROWS_AT_ONCE, g->k - p);
        for (int s = 0; s < q; s++)
            for (int i = 0; i < m; i++)
                x[i + 4 * s] = WIDE(a[i * g->a_m + (p + s) * g->a_k]);
        if (q == ROWS_AT_ONCE)
            rows_step(m, ROWS_AT_ONCE, !p && !g->onto, x, b, g->b_k, n, c, ldc);
        else
            for (int s = 0; s < q; s++)
                rows_step(m, 1, !(p + s) && !g->onto, x + 4 * s, b + s * g->b_k, g->b_k, n, c, ldc);
    }
}
/* m <= 4, b_n == 1, k > 0: b is read once. */
static void rows(const wfi_gemm *g, const wfi_gemm_part *p)
{
    const E *a = (const E *)(const void *)p->a, *b = (const E *)(const void *)p->b;
    for (int64_t j = 0, n; j < p->n; j += n) {
        n = least(WFI_GEMM_COLUMNS / p->m / (2 * VL) * (2 * VL), p->n - j);
        char *c = p->c + j * g->c_n * out_bytes(g);
        T *d = g->plain ? (T *)(void *)c : (T *)(void *)p->scratch;
        int64_t ldc = g->plain ? g->c_m : n;
        if (g->onto && !g->plain)
            get(g, c, p->m, n, d, ldc);
        switch (p->m) {
        case 1: rows_all(g, 1, a, b + j, n, d, ldc); break;
        case 2: rows_all(g, 2, a, b + j, n, d, ldc); break;
        case 3: rows_all(g, 3, a, b + j, n, d, ldc); break;
        default: rows_all(g, 4, a, b + j, n, d, ldc); break;
        }
        if (!g->plain)
            put(g, d, ldc, p->m, n, c);
    }
}

/* VL columns of b, which lie along k: transposed in registers, so that each lane is one ascending chain. */
WFI_SPECIAL void cols_all(const wfi_gemm *g, int m, const E *a, const E *b, int64_t n, T *c, int64_t ldc)
{
    const E *line[VL];
    _Alignas(64) T x[4][VL]; /* a, widened */
    V r[4];
    for (int q = 0; q < VL; q++)
        line[q] = b + least(q, n - 1) * g->b_n;
    WFI_UNROLL for (int i = 0; i < m; i++) r[i] = g->onto ? LDM(c + i * ldc, LANES(n)) : (V){ 0 };
    for (int64_t p = 0; p < g->k; p += VL) {
        V v[VL];
        const int64_t steps = least(g->k - p, VL);
        const E *from = a + p * g->a_k;
        if (steps == VL) {
            WFI_UNROLL for (int q = 0; q < VL; q++)
            {
                v[q] = LDE(line[q] + p);
                __builtin_prefetch(line[q] + p + 256 / sizeof(E));
            }
        } else {
            WFI_UNROLL for (int q = 0; q < VL; q++) v[q] = LDEM(line[q] + p, steps);
        }
        TRANSPOSE(v);
        if (steps == VL && g->a_k == 1) {
            WFI_UNROLL for (int i = 0; i < m; i++) st(x[i], LDE(from + i * g->a_m));
        } else {
            for (int i = 0; i < m; i++)
                for (int64_t q = 0; q < steps; q++)
                    x[i][q] = WIDE(from[i * g->a_m + q * g->a_k]);
        }
        if (steps == VL) {
            WFI_UNROLL for (int q = 0; q < VL; q++) WFI_UNROLL for (int i = 0; i < m; i++)
                FMA(r[i], set1(x[i][q]), v[q]);
        } else {
            for (int q = 0; q < steps; q++)
                for (int i = 0; i < m; i++)
                    FMA(r[i], set1(x[i][q]), v[q]);
        }
    }
    WFI_UNROLL for (int i = 0; i < m; i++) STM(c + i * ldc, LANES(n), r[i]);
}
static void cols(const wfi_gemm *g, const wfi_gemm_part *p)
{
    const E *a = (const E *)(const void *)p->a;
    _Alignas(64) T spare[4 * VL];
    for (int64_t j = 0; j < p->n; j += VL) {
        const E *b = (const E *)(const void *)p->b + j * g->b_n;
        char *c = p->c + j * g->c_n * out_bytes(g);
        int64_t n = least(VL, p->n - j), ldc = g->plain ? g->c_m : VL;
        T *d = g->plain ? (T *)(void *)c : spare;
        if (g->onto && !g->plain)
            get(g, c, p->m, n, d, ldc);
        switch (p->m) {
        case 1: cols_all(g, 1, a, b, n, d, ldc); break;
        case 2: cols_all(g, 2, a, b, n, d, ldc); break;
        case 3: cols_all(g, 3, a, b, n, d, ldc); break;
        default: cols_all(g, 4, a, b, n, d, ldc); break;
        }
        if (!g->plain)
            put(g, d, ldc, p->m, n, c);
    }
}
