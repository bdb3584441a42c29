/* canvas.c - see canvas.h. */
#include "canvas.h"
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "font.h"

struct canvas {
    int w, h;
    uint8_t rgb[]; /* [h, w, 3] */
};

canvas *canvas_new(int width, int height, uint32_t background)
{
    if (width < 1 || height < 1 || width > 20000 || height > 20000)
        return NULL;
    canvas *c = malloc(sizeof *c + (size_t)width * (size_t)height * 3);
    if (!c)
        return NULL;
    c->w = width;
    c->h = height;
    canvas_rect(c, 0, 0, width, height, background);
    return c;
}

void canvas_free(canvas *c)
{
    free(c);
}

/* ---- points and areas ---- */

/* cover in 0..1: how much of the pixel the shape covers. */
static void blend(canvas *c, int x, int y, uint32_t colour, double cover)
{
    if (x < 0 || y < 0 || x >= c->w || y >= c->h || cover <= 0)
        return;
    uint8_t *p = c->rgb + ((size_t)y * (size_t)c->w + (size_t)x) * 3;
    for (int k = 0; k < 3; k++) {
        double want = (double)(colour >> (16 - 8 * k) & 255);
        p[k] = (uint8_t)lround(p[k] + (want - p[k]) * (cover < 1 ? cover : 1));
    }
}

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

void canvas_rect(canvas *c, int x, int y, int w, int h, uint32_t colour)
{
    if (!c)
        return;
    int x1 = clamp(x + w, 0, c->w), y1 = clamp(y + h, 0, c->h);
    for (int i = clamp(y, 0, c->h); i < y1; i++)
        for (int k = clamp(x, 0, c->w); k < x1; k++)
            blend(c, k, i, colour, 1);
}

void canvas_frame(canvas *c, int x, int y, int w, int h, int thick, uint32_t colour)
{
    canvas_rect(c, x, y, w, thick, colour);
    canvas_rect(c, x, y + h - thick, w, thick, colour);
    canvas_rect(c, x, y, thick, h, colour);
    canvas_rect(c, x + w - thick, y, thick, h, colour);
}

void canvas_image(canvas *c, int x, int y, int scale, const float *pixels, int w, int h, uint32_t zero, uint32_t one)
{
    for (int i = 0; i < h; i++)
        for (int k = 0; k < w; k++) {
            double v = (double)pixels[i * w + k];
            uint32_t colour = 0;
            v = v > 0 ? v < 1 ? v : 1 : 0; /* a NaN is 0 */
            for (int s = 0; s <= 16; s += 8) {
                double a = (double)(zero >> s & 255), b = (double)(one >> s & 255);
                colour |= (uint32_t)lround(a + (b - a) * v) << s;
            }
            canvas_rect(c, x + k * scale, y + i * scale, scale, scale, colour);
        }
}

/* ---- strokes ---- */

typedef struct stroke {
    double x0, y0, x1, y1;
} stroke;

/* The distance of a point from a stroke's middle line. */
static double distance(const stroke *s, double x, double y)
{
    double dx = s->x1 - s->x0, dy = s->y1 - s->y0, len = dx * dx + dy * dy;
    double t = len > 0 ? ((x - s->x0) * dx + (y - s->y0) * dy) / len : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - s->x0 - t * dx, y - s->y0 - t * dy);
}

/* All strokes as one shape, so that joints are no darker. */
static void draw_strokes(canvas *c, const stroke *s, int n, double radius, uint32_t colour)
{
    double x0 = 1e9, y0 = 1e9, x1 = -1e9, y1 = -1e9;
    if (!c)
        return;
    for (int i = 0; i < n; i++) {
        x0 = fmin(x0, fmin(s[i].x0, s[i].x1));
        y0 = fmin(y0, fmin(s[i].y0, s[i].y1));
        x1 = fmax(x1, fmax(s[i].x0, s[i].x1));
        y1 = fmax(y1, fmax(s[i].y0, s[i].y1));
    }
    if (!(x1 >= x0 && y1 >= y0)) /* none, or a NaN */
        return;
    int left = (int)fmax(floor(x0 - radius - 1), 0), right = (int)fmin(ceil(x1 + radius + 1), c->w);
    int top = (int)fmax(floor(y0 - radius - 1), 0), bottom = (int)fmin(ceil(y1 + radius + 1), c->h);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            double near = 1e9;
            for (int i = 0; i < n; i++)
                near = fmin(near, distance(&s[i], x + 0.5, y + 0.5));
            blend(c, x, y, colour, radius + 0.5 - near);
        }
}

void canvas_line(canvas *c, double x0, double y0, double x1, double y1, double thick, uint32_t colour)
{
    draw_strokes(c, &(stroke){ x0, y0, x1, y1 }, 1, thick / 2, colour);
}

void canvas_disc(canvas *c, double x, double y, double radius, uint32_t colour)
{
    draw_strokes(c, &(stroke){ x, y, x, y }, 1, radius, colour);
}

/* ---- letters ---- */

enum { STROKES_MAX = 4 * FONT_ROWS * FONT_COLUMNS };

static const uint8_t *glyph(char ch)
{
    return font[(ch >= FONT_FIRST && ch <= FONT_LAST ? ch : '?') - FONT_FIRST];
}

static bool dot(const uint8_t *g, int column, int row)
{
    return column >= 0 && column < FONT_COLUMNS && row >= 0 && row < FONT_ROWS && (g[row] >> (4 - column) & 1);
}

/* The first column with a dot, and the columns up to the last one; digits are all as wide as a zero. */
static int glyph_left(char ch, int *columns)
{
    const uint8_t *g = glyph(ch);
    unsigned all = 0;
    for (int row = 0; row < FONT_ROWS; row++)
        all |= g[row];
    int left = 0, right = FONT_COLUMNS - 1;
    *columns = ch >= '0' && ch <= '9' ? FONT_COLUMNS : 2; /* 2: a blank */
    if (!all || (ch >= '0' && ch <= '9'))
        return 0;
    while (!(all >> (4 - left) & 1))
        left++;
    while (!(all >> (4 - right) & 1))
        right--;
    *columns = right - left + 1;
    return left;
}

/* Joins each dot with its neighbours right and below; a slanting pair only where no corner joins it already. */
static int glyph_strokes(const uint8_t *g, stroke out[STROKES_MAX])
{
    static const int step[4][2] = { { 1, 0 }, { 0, 1 }, { 1, 1 }, { -1, 1 } };
    int n = 0;
    for (int row = 0; row < FONT_ROWS; row++)
        for (int col = 0; col < FONT_COLUMNS; col++) {
            if (!dot(g, col, row))
                continue;
            out[n++] = (stroke){ col, row, col, row };
            for (int i = 0; i < 4; i++) {
                int x = col + step[i][0], y = row + step[i][1];
                if (dot(g, x, y) && (i < 2 || (!dot(g, x, row) && !dot(g, col, y))) && n < STROKES_MAX)
                    out[n++] = (stroke){ col, row, x, y };
            }
        }
    return n;
}

double canvas_text_width(double size, const char *s)
{
    double unit = size / FONT_CAP, width = 0;
    for (; *s; s++) {
        int columns;
        (void)glyph_left(*s, &columns);
        width += (columns + 1.5) * unit;
    }
    return width > 0 ? width - 1.5 * unit : 0;
}

static void draw_text(canvas *c, double x, double y, double size, uint32_t colour, canvas_align align, const char *s,
                      bool up)
{
    double unit = size / FONT_CAP, at = 0, width = canvas_text_width(size, s);
    double from = align == CANVAS_LEFT ? 0 : align == CANVAS_CENTRE ? -width / 2 : -width;
    for (; *s; s++) {
        stroke st[STROKES_MAX];
        int columns, left = glyph_left(*s, &columns), n = glyph_strokes(glyph(*s), st);
        for (int i = 0; i < n; i++) {
            double p[4] = { from + at + (st[i].x0 - left + 0.5) * unit, (st[i].y0 + 0.5) * unit,
                            from + at + (st[i].x1 - left + 0.5) * unit, (st[i].y1 + 0.5) * unit };
            st[i] = up ? (stroke){ x + p[1], y - p[0], x + p[3], y - p[2] }
                       : (stroke){ x + p[0], y + p[1], x + p[2], y + p[3] };
        }
        draw_strokes(c, st, n, unit * 0.54, colour);
        at += (columns + 1.5) * unit;
    }
}

void canvas_text(canvas *c, double x, double y, double size, uint32_t colour, canvas_align align, const char *s)
{
    draw_text(c, x, y, size, colour, align, s, false);
}

void canvas_text_up(canvas *c, double x, double y, double size, uint32_t colour, canvas_align align, const char *s)
{
    draw_text(c, x, y, size, colour, align, s, true);
}

/* ---- PNG ---- */

bool canvas_save(const canvas *c, const char *path, char *message, size_t bytes)
{
    if (!c) {
        (void)snprintf(message, bytes, "%s: out of memory", path);
        return false;
    }
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = (png_uint_32)c->w, .height = (png_uint_32)c->h, .format = PNG_FORMAT_RGB
    };
    if (png_image_write_to_file(&image, path, 0, c->rgb, 0, NULL))
        return true;
    (void)snprintf(message, bytes, "%s: %s", path, image.message);
    (void)remove(path);
    return false;
}
