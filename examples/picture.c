/* picture.c - see picture.h. */
#include "picture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "canvas.h"

/* The layout, in pixels. */
enum {
    WIDTH = 1280,
    MARGIN = 48,
    HEAD = 92,          /* title and subtitle */
    CHART_H = 380,      /* the plotted area */
    CHART_LEFT = 108,   /* of it: room for the left axis */
    CHART_RIGHT = 1172, /* room for the right axis behind it */
    CHART_FOOT = 122,   /* tick labels, the name of the axis, the legend */
    SHEET_HEAD = 58,
    COLUMNS = 12,
    SCALE = 3,
    CELL_FOOT = 42, /* two lines of text under an image */
    GAP = 16
};

/* Colours: blue and orange are told apart by those who do not see red and green. */
#define PAPER  0xffffffu
#define INK    0x1f2933u
#define SOFT   0x66707cu
#define GRID   0xe6e9edu
#define BLUE   0x1f6fb4u
#define PALE   0xbdd7eeu
#define ORANGE 0xd9700du
#define RED    0xd1242fu
#define CELL   0xf4f6f8u

typedef struct axis {
    double lo, hi, step; /* of values; ticks at multiples of step */
    int decimals;
} axis;

/* A step of 1, 2 or 5 times a power of ten that gives about `ticks` ticks. */
static axis nice_axis(double lo, double hi, int ticks)
{
    double raw = (hi - lo) / ticks, power = pow(10, floor(log10(raw))), part = raw / power;
    axis a = { .step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10) };
    a.lo = floor(lo / a.step + 1e-9) * a.step;
    a.hi = ceil(hi / a.step - 1e-9) * a.step;
    a.decimals = a.step >= 0.999 ? 0 : (int)ceil(-log10(a.step) - 1e-9);
    return a;
}

static double place(const axis *a, double v, double from, double to)
{
    double t = (v - a->lo) / (a->hi - a->lo);
    t = t < 0 ? 0 : t > 1 ? 1 : t; /* a NaN stays one, and is not drawn */
    return from + t * (to - from);
}

/* ---- the curves ---- */

typedef struct chart {
    canvas *c;
    const picture *p;
    int top, bottom;
    axis x, loss, accuracy;
} chart;

/* An average that forgets: over about 1 % of the run, right from the first step. */
static void smooth(const picture *p, double *out)
{
    double keep = 1 - 1 / fmax(8, p->steps / 100.0), sum = 0, weight = 0;
    for (int i = 0; i < p->steps; i++) {
        if (isfinite(p->loss[i])) {
            sum = sum * keep + (double)p->loss[i];
            weight = weight * keep + 1;
        }
        out[i] = weight > 0 ? sum / weight : NAN;
    }
}

/* The highest smoothed value after the first steps, whose fall would flatten the rest. */
static axis loss_axis(const double *smoothed, int steps)
{
    double highest = 0;
    for (int i = steps > 100 ? steps / 100 : 0; i < steps; i++)
        highest = smoothed[i] > highest ? smoothed[i] : highest;
    return nice_axis(0, highest > 0 ? highest * 1.1 : 1, 6);
}

static axis accuracy_axis(const picture *p)
{
    double lo = 1, hi = 0;
    for (int i = 0; i < p->epochs; i++) {
        lo = fmin(lo, (double)p->accuracy[i]);
        hi = fmax(hi, (double)p->accuracy[i]);
    }
    if (!(lo <= hi)) { /* nothing but NaN */
        lo = 0;
        hi = 1;
    }
    double room = fmax((hi - lo) * 0.35, 0.01);
    return nice_axis(fmax(0, lo - room), fmin(1, hi + room), 6);
}

static double x_of(const chart *k, double step)
{
    return place(&k->x, step, CHART_LEFT, CHART_RIGHT);
}

static double y_of(const chart *k, const axis *a, double v)
{
    return place(a, v, k->bottom, k->top);
}

static void draw_axes(const chart *k)
{
    char text[64];
    canvas *c = k->c;
    for (int i = 0; i <= (int)lround((k->loss.hi - k->loss.lo) / k->loss.step); i++) {
        double v = k->loss.lo + i * k->loss.step, y = y_of(k, &k->loss, v);
        canvas_line(c, CHART_LEFT, round(y) + 0.5, CHART_RIGHT, round(y) + 0.5, 1, GRID);
        (void)snprintf(text, sizeof text, "%.*f", k->loss.decimals, v);
        canvas_text(c, CHART_LEFT - 10, y - 5, 11, BLUE, CANVAS_RIGHT, text);
    }
    for (int i = 0; k->p->epochs && i <= (int)lround((k->accuracy.hi - k->accuracy.lo) / k->accuracy.step); i++) {
        double v = k->accuracy.lo + i * k->accuracy.step, y = y_of(k, &k->accuracy, v);
        canvas_line(c, CHART_RIGHT, round(y) + 0.5, CHART_RIGHT + 5, round(y) + 0.5, 1, SOFT);
        (void)snprintf(text, sizeof text, "%.*f %%", k->accuracy.decimals > 2 ? k->accuracy.decimals - 2 : 0, 100 * v);
        canvas_text(c, CHART_RIGHT + 10, y - 5, 11, ORANGE, CANVAS_LEFT, text);
    }
    for (int i = 0; i <= (int)lround((k->x.hi - k->x.lo) / k->x.step); i++) {
        double v = i * k->x.step, x = x_of(k, v);
        if (v > k->x.hi + 1e-9)
            break;
        canvas_line(c, round(x) + 0.5, k->bottom, round(x) + 0.5, k->bottom + 5, 1, SOFT);
        (void)snprintf(text, sizeof text, "%.*f", k->x.decimals, v);
        canvas_text(c, x, k->bottom + 12, 11, SOFT, CANVAS_CENTRE, text);
    }
    canvas_line(c, CHART_LEFT, k->bottom + 0.5, CHART_RIGHT, k->bottom + 0.5, 1, SOFT);
    canvas_line(c, CHART_LEFT + 0.5, k->top, CHART_LEFT + 0.5, k->bottom, 1, SOFT);
    canvas_text(c, (CHART_LEFT + CHART_RIGHT) / 2.0, k->bottom + 36, 12, SOFT, CANVAS_CENTRE, "training step");
    canvas_text_up(c, MARGIN - 8, (k->top + k->bottom) / 2.0, 12, BLUE, CANVAS_CENTRE, "training loss");
    if (k->p->epochs) {
        canvas_line(c, CHART_RIGHT + 0.5, k->top, CHART_RIGHT + 0.5, k->bottom, 1, SOFT);
        canvas_text_up(c, WIDTH - MARGIN - 4, (k->top + k->bottom) / 2.0, 12, ORANGE, CANVAS_CENTRE, "test accuracy");
    }
}

/* The ends of epochs, as faint lines with their number. */
static void draw_epochs(const chart *k)
{
    char text[32];
    int each = (k->p->epochs + 19) / 20; /* at most twenty labels */
    for (int e = 1; e <= k->p->epochs; e++) {
        double x = round(x_of(k, (double)k->p->steps * e / k->p->epochs)) + 0.5;
        for (int y = k->top; e < k->p->epochs && y < k->bottom; y += 6)
            canvas_line(k->c, x, y, x, y + 1, 1, 0xb8c0c9u);
        (void)snprintf(text, sizeof text, k->p->epochs <= 10 ? "epoch %d" : "%d", e);
        if (e % each == 0)
            canvas_text(k->c, x - 6, k->top - 16, 10, SOFT, CANVAS_RIGHT, text);
    }
}

static void draw_loss(const chart *k, const double *smoothed)
{
    for (int pass = 0; pass < 2; pass++) {
        double before_x = 0, before_y = NAN;
        for (int i = 0; i < k->p->steps; i++) {
            double x = x_of(k, i + 1), y = y_of(k, &k->loss, pass ? smoothed[i] : (double)k->p->loss[i]);
            if (!isnan(before_y) && !isnan(y))
                canvas_line(k->c, before_x, before_y, x, y, pass ? 2.6 : 1.2, pass ? BLUE : PALE);
            before_x = x;
            before_y = y;
        }
    }
}

static void draw_accuracy(const chart *k)
{
    const picture *p = k->p;
    double before_x = 0, before_y = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int e = 0; e < p->epochs; e++) {
            double x = x_of(k, (double)p->steps * (e + 1) / p->epochs);
            double y = y_of(k, &k->accuracy, (double)p->accuracy[e]);
            if (pass == 0 && e)
                canvas_line(k->c, before_x, before_y, x, y, 2.2, ORANGE);
            if (pass == 1) {
                canvas_disc(k->c, x, y, 6.5, PAPER);
                canvas_disc(k->c, x, y, 4.8, ORANGE);
            }
            before_x = x;
            before_y = y;
        }
    if (p->epochs) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.2f %%", 100 * (double)p->accuracy[p->epochs - 1]);
        canvas_text(k->c, before_x - 12, before_y - 26, 13, ORANGE, CANVAS_RIGHT, text);
    }
}

static double legend_entry(const chart *k, double x, uint32_t colour, double thick, bool disc, const char *text)
{
    double y = k->bottom + 72;
    canvas_line(k->c, x, y + 5, x + 28, y + 5, thick, colour);
    if (disc)
        canvas_disc(k->c, x + 14, y + 5, 4.8, colour);
    canvas_text(k->c, x + 40, y, 11, INK, CANVAS_LEFT, text);
    return x + 40 + canvas_text_width(11, text) + 48;
}

/* In a row of its own below the chart, where it hides no curve. */
static void draw_legend(const chart *k)
{
    static const char *const texts[] = { "training loss, each step", "training loss, smoothed",
                                         "test accuracy, each epoch" };
    double x, width = -48;
    for (int i = 0; i < (k->p->epochs ? 3 : 2); i++)
        width += 40 + canvas_text_width(11, texts[i]) + 48;
    x = (CHART_LEFT + CHART_RIGHT - width) / 2;
    x = legend_entry(k, x, PALE, 1.6, false, texts[0]);
    x = legend_entry(k, x, BLUE, 2.6, false, texts[1]);
    if (k->p->epochs)
        (void)legend_entry(k, x, ORANGE, 2.2, true, texts[2]);
}

static bool draw_chart(canvas *c, const picture *p)
{
    double *smoothed = malloc(sizeof *smoothed * (size_t)(p->steps + 1));
    if (!smoothed)
        return false;
    smooth(p, smoothed);
    chart k = { .c = c, .p = p, .top = HEAD + 22, .bottom = HEAD + 22 + CHART_H };
    k.x = nice_axis(0, p->steps > 0 ? p->steps : 1, 8);
    k.x.hi = p->steps > 0 ? p->steps : 1;
    if (k.x.step < 1)
        k.x = (axis){ 0, k.x.hi, 1, 0 };
    k.loss = loss_axis(smoothed, p->steps);
    k.accuracy = p->epochs ? accuracy_axis(p) : (axis){ 0, 1, 1, 0 };
    draw_axes(&k);
    draw_epochs(&k);
    draw_loss(&k, smoothed);
    draw_legend(&k);
    draw_accuracy(&k);
    free(smoothed);
    return true;
}

/* ---- the sheet ---- */

static const char *class_of(const picture *p, int k)
{
    return k >= 0 && k < p->class_count ? p->classes[k] : "?";
}

/* Text that fits into w pixels: smaller, where it would not. */
static void fitted_text(canvas *c, double x, double y, double w, double size, uint32_t colour, const char *s)
{
    double need = canvas_text_width(size, s), use = need > w ? size * w / need : size;
    canvas_text(c, x, y + (size - use) / 2, use, colour, CANVAS_CENTRE, s);
}

static void draw_sample(canvas *c, const picture *p, const picture_sample *s, int x, int y, int w, int h)
{
    char text[64];
    int iw = w * SCALE, ih = h * SCALE;
    bool wrong = s->predicted != s->label;
    canvas_image(c, x, y, SCALE, s->pixels, w, h, CELL, INK);
    if (wrong)
        canvas_frame(c, x - 4, y - 4, iw + 8, ih + 8, 3, RED);
    fitted_text(c, x + iw / 2.0, y + ih + 10, iw + GAP - 8, 10, wrong ? RED : INK, class_of(p, s->predicted));
    (void)snprintf(text, sizeof text, wrong ? "is %.40s" : "%.40s", class_of(p, s->label));
    fitted_text(c, x + iw / 2.0, y + ih + 25, iw + GAP - 8, 10, SOFT, text);
}

static void draw_sheet(canvas *c, const picture *p, int top)
{
    char text[160];
    int w = p->width ? p->width : 28, h = p->height ? p->height : 28, wrong = 0;
    int across = COLUMNS * w * SCALE + (COLUMNS - 1) * GAP, left = (WIDTH - across) / 2;
    for (int i = 0; i < p->count; i++)
        wrong += p->samples[i].predicted != p->samples[i].label;
    canvas_text(c, left, top, 14, INK, CANVAS_LEFT, "Test images");
    (void)snprintf(text, sizeof text, "first line: predicted, second line: true; %d of %d wrong, framed in red", wrong,
                   p->count);
    canvas_text(c, left + canvas_text_width(14, "Test images") + 24, top + 3, 11, SOFT, CANVAS_LEFT, text);
    for (int i = 0; i < p->count; i++)
        draw_sample(c, p, &p->samples[i], left + i % COLUMNS * (w * SCALE + GAP),
                    top + SHEET_HEAD - 20 + i / COLUMNS * (h * SCALE + CELL_FOOT + 8), w, h);
}

bool picture_write(const char *path, const picture *p, char *message, size_t bytes)
{
    int h = p->height ? p->height : 28, rows = (p->count + COLUMNS - 1) / COLUMNS;
    int curves = p->steps > 0 ? 22 + CHART_H + CHART_FOOT : 0;
    int sheet = p->count > 0 ? SHEET_HEAD + rows * (h * SCALE + CELL_FOOT + 8) : 0;
    canvas *c = canvas_new(WIDTH, HEAD + curves + sheet + MARGIN / 2, PAPER);
    canvas_text(c, MARGIN, 32, 20, INK, CANVAS_LEFT, p->title ? p->title : "");
    canvas_text(c, MARGIN, 64, 12, SOFT, CANVAS_LEFT, p->subtitle ? p->subtitle : "");
    bool ok = !curves || !c || draw_chart(c, p);
    if (ok && sheet)
        draw_sheet(c, p, HEAD + curves);
    if (!ok)
        (void)snprintf(message, bytes, "%s: out of memory", path);
    else
        ok = canvas_save(c, path, message, bytes);
    canvas_free(c);
    return ok;
}
