/* gemm_pack.h - packing: panels [steps of k][lines], lines being rows of a or columns of b. Part of the template
 * gemm_loops.h. A step is an S, PER values of k; zeros follow the last value. */
#define ROW_GROUPS ((MR + VL - 1) / VL) /* vectors that hold a column of a packed panel of a */
#define STEPS(k)   (((k) + PER - 1) / PER)

/* Vector g, row q of dst[p*step + ..] gets lines g*VL.. of step q: full vectors of steps, or the last few. */
WFI_INLINE void put_across(int groups, int64_t step, SV v[3][VL], int64_t steps, S *dst)
{
    if (steps == VL) {
        WFI_UNROLL for (int q = 0; q < VL; q++) WFI_UNROLL for (int g = 0; g < groups; g++)
            sts(dst + q * step + g * VL, v[g][q]);
    } else {
        for (int64_t q = 0; q < steps; q++)
            for (int g = 0; g < groups; g++)
                sts(dst + q * step + g * VL, v[g][q]);
    }
}
/* dst[p*step + q] = step p of line src + q*ld, which lies along k, q < lines <= VL * groups. Lanes from `lines` on get
 * copies of the last line: of a panel of a the next column overwrites them (dst has VL elements of slack), of b nobody
 * stores what they become. */
WFI_SPECIAL void pack_across(int groups, int64_t step, const E *src, int64_t ld_, int64_t lines, int64_t k, S *dst)
{
    const E *line[3 * VL];
    for (int64_t q = 0; q < groups * VL; q++)
        line[q] = src + least(q, lines - 1) * ld_;
    for (int64_t p = 0; p < k; p += VL * PER, dst += VL * step) {
        SV v[3][VL];
        const int64_t left = least(k - p, VL * PER);
        WFI_UNROLL for (int g = 0; g < groups; g++)
        {
            if (left == VL * PER) {
                WFI_UNROLL for (int q = 0; q < VL; q++) v[g][q] = LDK(line[g * VL + q] + p);
            } else {
                WFI_UNROLL for (int q = 0; q < VL; q++) v[g][q] = LDKM(line[g * VL + q] + p, left);
            }
            TRANSPOSE(v[g]);
        }
        put_across(groups, step, v, STEPS(left), dst);
    }
}
#define PACK_AHEAD 8 /* rows: they are far apart, so that the hardware does not read ahead */
/* dst[p*step + q] = step p of line src + q, whose values are ld apart, q < lines <= VL * groups. `room` elements of a
 * row may be read. */
WFI_SPECIAL void pack_along(int groups, int64_t step, const E *src, int64_t ld_, int64_t lines, int64_t room, int64_t k,
                            S *dst)
{
    for (; k >= PER && room >= groups * VL; k -= PER, src += PER * ld_, dst += step) {
        WFI_UNROLL for (int g = 0; g < groups; g++)
        {
            WFI_UNROLL for (int i = 0; i < PER; i++) __builtin_prefetch(src + (PACK_AHEAD * PER + i) * ld_ + g * VL);
            sts(dst + g * VL, LDL(src + g * VL, ld_));
        }
    }
    for (; k > 0; k -= PER, src += PER * ld_, dst += step)
        for (int g = 0; g < groups; g++)
            sts(dst + g * VL, LDLM(src + g * VL, ld_, least(k, PER), lines - g * VL));
}
#if defined LDK4 && WFI_GEMM_MR == 8 && LANE == 4
/* Eight lines along k: dst[p*8 + q] = step p of line src + q*ld. Four columns of four lines make a quarter of the 4 x 4
 * transposes. */
WFI_INLINE void pack_eight(const E *src, int64_t ld_, int64_t k, S *dst)
{
    const E *low = src, *high = src + 4 * ld_;
#if PER > 1
    for (; k >= VL * PER; k -= VL * PER, low += VL * PER, high += VL * PER, dst += 8 * VL) {
        SV v[8];
        WFI_UNROLL for (int q = 0; q < 4; q++) v[q] = LDK(low + q * ld_), v[q + 4] = LDK(high + q * ld_);
        wfi_transpose4_eight((wfi_vi4 *)v);
        WFI_UNROLL for (int q = 0; q < 8; q++) sts(dst + q * VL, v[q]);
    }
#endif
    for (; k >= 4 * PER; k -= 4 * PER, low += 4 * PER, high += 4 * PER, dst += 32) {
        __m256 y[4], t[4];
        WFI_UNROLL for (int q = 0; q < 4; q++) y[q] = _mm256_set_m128(LDK4(high + q * ld_), LDK4(low + q * ld_));
        WFI_UNROLL for (int q = 0; q < 4; q += 2)
        {
            t[q] = _mm256_unpacklo_ps(y[q], y[q + 1]);
            t[q + 1] = _mm256_unpackhi_ps(y[q], y[q + 1]);
        }
        _mm256_storeu_ps((float *)(void *)dst, _mm256_shuffle_ps(t[0], t[2], 0x44));
        _mm256_storeu_ps((float *)(void *)(dst + 8), _mm256_shuffle_ps(t[0], t[2], 0xee));
        _mm256_storeu_ps((float *)(void *)(dst + 16), _mm256_shuffle_ps(t[1], t[3], 0x44));
        _mm256_storeu_ps((float *)(void *)(dst + 24), _mm256_shuffle_ps(t[1], t[3], 0xee));
    }
    for (; k > 0; k -= PER, low += PER, high += PER, dst += 8)
        for (int q = 0; q < 4; q++) {
            dst[q] = STEP(low + q * ld_, 1, least(k, PER));
            dst[q + 4] = STEP(high + q * ld_, 1, least(k, PER));
        }
}
#define EIGHT 1
#endif
WFI_INLINE void pack_any(int64_t step, const E *src, int64_t sl, int64_t sk, int64_t lines, int64_t k, S *dst)
{
    for (; k > 0; k -= PER, src += PER * sk, dst += step)
        for (int64_t q = 0; q < lines; q++)
            dst[q] = STEP(src + q * sl, sk, least(k, PER));
}
static __attribute__((noinline)) void pack_a(const wfi_gemm *g, const E *a, int64_t rows, int64_t room, int64_t k,
                                             S *dst)
{
#ifdef EIGHT
    if (g->a_k == 1 && rows == 8) {
        pack_eight(a, g->a_m, k, dst);
        return;
    }
#endif
    if (g->a_k == 1)
        pack_across(ROW_GROUPS, rows, a, g->a_m, rows, k, dst);
    else if (g->a_m == 1)
        pack_along(ROW_GROUPS, rows, a, g->a_k, rows, room, k, dst);
    else
        pack_any(rows, a, g->a_m, g->a_k, rows, k, dst);
}
static __attribute__((noinline)) void pack_b(const wfi_gemm *g, const E *b, int64_t cols, int64_t room, int64_t k,
                                             S *dst)
{
    if (g->b_n == 1)
        pack_along(NV, NR, b, g->b_k, cols, room, k, dst);
    else if (g->b_k == 1)
        for (int j = 0; j < NV && cols > j * VL; j++)
            pack_across(1, NR, b + j * VL * g->b_n, g->b_n, least(cols - j * VL, VL), k, dst + j * VL);
    else
        pack_any(NR, b, g->b_n, g->b_k, cols, k, dst);
}
