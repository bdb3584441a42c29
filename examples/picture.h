/* picture.h - what a training run looks like: its curves, and a sheet of pictures with what was seen in them.
 *
 *     picture p = { .title = "...", .loss = loss, .steps = n, .accuracy = acc, .epochs = e,
 *                   .samples = samples, .count = 60, .classes = names, .class_count = 10 };
 *     if (!picture_write("out/training.png", &p, message, sizeof message))
 *         fprintf(stderr, "%s\n", message);
 */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct picture_sample {
    const float *pixels;  /* f32[height, width] in 0..1 */
    int predicted, label; /* in 0 .. class_count-1 */
} picture_sample;

typedef struct picture {
    const char *title, *subtitle; /* ASCII; NULL: none */
    const float *loss;            /* [steps], of each training step */
    int steps;
    const float *accuracy; /* [epochs], on the test set after each epoch, 0..1; the steps are spread evenly over them */
    int epochs;
    const picture_sample *samples;
    int count;         /* of samples; twelve stand in a row */
    int width, height; /* of a sample; 0: 28 */
    const char *const *classes;
    int class_count;
} picture;

/* False: message says why (a place that cannot be written, no memory), and no file is left. */
bool picture_write(const char *path, const picture *p, char *message, size_t bytes);

#endif
