#include "tune/search.h"
#include <math.h>
#include <string.h>

enum { F = WFI_SEARCH_FEATURES, KINDS = 8 };
#define RIDGE 0.3 /* how much the first trials are believed: as so many of each number's own variance */
#define DOUBT 0.5

static double log2_of(double v)
{
    return log2(v > 1 ? v : 1);
}

void wfi_search_features(const wfi_traits *t, double l1, double l2, double x[F])
{
    const double near = log2_of(t->near) - log2(l1), block = log2_of(t->block) - log2(l2);
    const double threads = t->threads > 1 ? t->threads : 1, pieces = t->pieces > 1 ? t->pieces : 1;
    const double moved = t->moved > 1 ? t->moved : 1;
    int i = 0;
    memset(x, 0, F * sizeof *x);
    x[i++] = 1;
    x[i++] = t->useful > 0 ? t->flops / t->useful - 1 : 0;
    x[i++] = near;
    x[i++] = near > 0 ? near : 0;
    x[i++] = near * near;
    x[i++] = block;
    x[i++] = block > 0 ? block : 0;
    x[i++] = block * block;
    x[i++] = log2(1 + t->packed / moved);
    x[i++] = log2(1 + t->again / moved);
    x[i++] = t->loads;
    x[i++] = ceil(pieces / threads) * threads / pieces - 1;
    x[i++] = log2(pieces);
    x[i++] = log2(pieces) * log2(pieces);
    x[i++] = threads > 1;
    x[i++] = near * block;
    x[i + t->kind % KINDS] = 1;
}

/* Mean 0, variance 1; what is the same for all becomes 0. The first one stays 1. */
static void standardise(wfi_search_item *item, uint32_t n)
{
    for (int f = 1; f < F; f++) {
        double mean = 0, var = 0;
        for (uint32_t i = 0; i < n; i++)
            mean += item[i].x[f] / n;
        for (uint32_t i = 0; i < n; i++)
            var += (item[i].x[f] - mean) * (item[i].x[f] - mean) / n;
        for (uint32_t i = 0; i < n; i++)
            item[i].x[f] = var > 1e-12 ? (item[i].x[f] - mean) / sqrt(var) : 0;
    }
}

void wfi_search_begin(wfi_search *s, wfi_search_item *item, uint32_t n)
{
    *s = (wfi_search){ .item = item, .n = n };
    standardise(item, n);
    for (int f = 0; f < F; f++)
        s->inverse[f][f] = 1 / RIDGE;
    s->inverse[0][0] = 1e4; /* the level of the times is not known at all */
}

/* inverse * x; returns x' * inverse * x. */
static double apply(const wfi_search *s, const double *x, double *y)
{
    double q = 0;
    for (int i = 0; i < F; i++) {
        y[i] = 0;
        for (int k = 0; k < F; k++)
            y[i] += s->inverse[i][k] * x[k];
        q += x[i] * y[i];
    }
    return q;
}

void wfi_search_tell(wfi_search *s, uint32_t i, double ns)
{
    wfi_search_item *t = &s->item[i];
    double y[F];
    const double q = 1 + apply(s, t->x, y), value = log(ns / t->prior);
    t->ns = ns;
    s->trials++;
    for (int a = 0; a < F; a++) { /* Sherman and Morrison */
        for (int b = 0; b < F; b++)
            s->inverse[a][b] -= y[a] * y[b] / q;
        s->sum[a] += t->x[a] * value;
    }
}

/* How far the trials so far lie apart: the doubt is in parts of that. */
static double spread(const wfi_search *s)
{
    double sum = 0, squares = 0, n = s->trials;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->item[i].ns > 0) {
            double v = log(s->item[i].ns / s->item[i].prior);
            sum += v, squares += v * v;
        }
    double var = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
    return var > 1e-4 ? sqrt(var) : 1e-2;
}

uint32_t wfi_search_next(const wfi_search *s)
{
    double w[F], least = INFINITY;
    uint32_t best = s->n;
    if (s->n && !(s->item[0].ns > 0))
        return 0;
    const double doubt = s->trials > 1 ? DOUBT * spread(s) : 0;
    (void)apply(s, s->sum, w);
    for (uint32_t i = 0; i < s->n; i++) {
        const wfi_search_item *t = &s->item[i];
        double y[F], value = log(t->prior);
        if (t->ns > 0)
            continue;
        for (int f = 0; f < F; f++)
            value += w[f] * t->x[f];
        const double q = apply(s, t->x, y);
        value -= doubt * sqrt(q > 0 ? q : 0);
        if (value < least)
            least = value, best = i;
    }
    return best;
}

uint32_t wfi_search_best(const wfi_search *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->n; i++)
        if (s->item[i].ns > 0 && (!(s->item[best].ns > 0) || s->item[i].ns < s->item[best].ns))
            best = i;
    return best;
}
