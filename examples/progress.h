/* progress.h - how far a training run is: one line that is redrawn on a terminal, plain lines elsewhere.
 *
 *     progress p = progress_begin(stdout, quiet, epochs, steps_per_epoch);
 *     for each epoch e: for each step s:
 *         progress_step(&p, e, s, images, loss, accuracy);
 *     after each epoch:
 *         progress_epoch(&p, e, test_accuracy);
 *     progress_end(&p);
 *
 * On a terminal: epoch 2/5 [=======>        ] 234/469  loss 0.312  acc 88.9 %  5,120 images/s  0:42 left
 * Piped: such a line without the bar every ten seconds. Both: one line that stays for each epoch. Quiet: nothing. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE *out;        /* NULL: quiet */
    const char *unit; /* of what a step counts: "images" unless it is set after progress_begin */
    double limit;     /* seconds after which the run ends; 0: it has none */
    bool terminal;
    int epochs;
    int64_t steps;           /* of an epoch */
    double start, last;      /* seconds: of the run, and of the last step or evaluation */
    double drawn;            /* when the line was drawn; 0: never */
    double epoch_start;      /* when the epoch began */
    double busy, evaluating; /* seconds in steps, and in evaluations */
    int64_t done;            /* steps so far */
    int64_t images, epoch_images;
    double loss, accuracy, weight; /* running means over the last steps, as sums with their weight */
    double epoch_loss;             /* sum over the epoch's steps */
    int64_t epoch_steps;
    double rate, rate_weight; /* seconds an image, the same way */
} progress;

progress progress_begin(FILE *out, bool quiet, int epochs, int64_t steps);
/* After a step: epoch and step count from 0; images are those of the batch; accuracy is that of the batch in 0..1, or
 * negative if it is not known. */
void progress_step(progress *p, int epoch, int64_t step, int64_t images, double loss, double accuracy);
/* After an epoch and its evaluation; test_accuracy in 0..1, or negative. */
void progress_epoch(progress *p, int epoch, double test_accuracy);
/* Ends the line, if one is being drawn: call it before anything else is printed. */
void progress_end(progress *p);
/* Seconds since progress_begin. */
double progress_seconds(const progress *p);

#endif
