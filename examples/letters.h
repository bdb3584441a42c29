/* letters.h - text for the examples: where it comes from, and how the next byte is drawn. */
#ifndef EXAMPLES_LETTERS_H
#define EXAMPLES_LETTERS_H
#include <stdbool.h>
#include <stdint.h>

enum { SYMBOLS = 256 };

/* The King James Bible into the file `path`, by Debian's command `bible`; false: there is none, which has been said on
 * standard error in the name of `program`. */
bool letters_fetch(const char *program, const char *path);

/* A byte with probability softmax(logits / heat). state: of the generator, any number. */
int letters_draw(const float *logits, double heat, uint64_t *state);

/* Prints it; what is not ASCII as a question mark. */
void letters_put(int byte);

#endif
