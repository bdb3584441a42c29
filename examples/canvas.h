/* canvas.h - a small RGB picture to draw on, and to save as PNG.
 *
 *     canvas *c = canvas_new(640, 480, 0xffffff);
 *     canvas_line(c, 10, 10, 600, 400, 2, 0xcc0000);
 *     canvas_text(c, 20, 20, 14, 0x222222, CANVAS_LEFT, "hello");
 *     if (!canvas_save(c, "hello.png", message, sizeof message)) ...
 *     canvas_free(c);
 *
 * Places are pixels from the upper left corner, and may lie outside: what does not fit is cut. Colours are 0xRRGGBB.
 * Lines, discs and letters have smooth edges. A canvas that is NULL is accepted everywhere and does nothing. */
#ifndef EXAMPLES_CANVAS_H
#define EXAMPLES_CANVAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct canvas canvas;
typedef enum canvas_align { CANVAS_LEFT, CANVAS_CENTRE, CANVAS_RIGHT } canvas_align;

canvas *canvas_new(int width, int height, uint32_t background); /* NULL: out of memory or a size below 1 */
void canvas_free(canvas *c);

void canvas_rect(canvas *c, int x, int y, int w, int h, uint32_t colour);
void canvas_frame(canvas *c, int x, int y, int w, int h, int thick, uint32_t colour); /* inside of the rectangle */
void canvas_line(canvas *c, double x0, double y0, double x1, double y1, double thick, uint32_t colour);
void canvas_disc(canvas *c, double x, double y, double radius, uint32_t colour);

/* A grey image, f32[h,w] in 0..1, each value a square of `scale` pixels; 0 gives colour `zero`, 1 gives `one`. */
void canvas_image(canvas *c, int x, int y, int scale, const float *pixels, int w, int h, uint32_t zero, uint32_t one);

/* y is the top of capital letters, size their height. x is the left end, the middle or the right end. */
void canvas_text(canvas *c, double x, double y, double size, uint32_t colour, canvas_align align, const char *s);
/* The same turned by a quarter to the left, upwards; x is the top of its letters, y the place to align at. */
void canvas_text_up(canvas *c, double x, double y, double size, uint32_t colour, canvas_align align, const char *s);
double canvas_text_width(double size, const char *s);

/* False: message says why, and no file is left. */
bool canvas_save(const canvas *c, const char *path, char *message, size_t bytes);

#endif
