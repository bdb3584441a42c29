/* sym.h - sizes that are not known yet.
 *
 * A size is an int64_t everywhere. A plain number is itself; a symbol is encoded far below every number that a size,
 * offset or coefficient can be, so that code which only knows numbers fails its range checks instead of computing
 * with it. Symbols live in a small table of the graph, each with a range; what is computed from symbols is a new
 * symbol, interned, so that equal expressions are the same number. Two sizes are equal if the int64_t are. */
#ifndef WFI_GRAPH_SYM_H
#define WFI_GRAPH_SYM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WFI_SYM_MAX  64
#define WFI_SYM_BASE INT64_MIN /* symbol i is WFI_SYM_BASE + 1 + i */

static inline bool wfi_sym_is(int64_t size)
{
    return size < INT64_MIN + 4096;
}

typedef struct wfi_sym {
    char name[16]; /* "" where it is computed */
    char op;       /* 0: free; + - * / and m (min) of a and b */
    int64_t a, b;
    int64_t lo, hi; /* inclusive */
} wfi_sym;

typedef struct wfi_syms {
    int32_t n;
    wfi_sym s[WFI_SYM_MAX];
} wfi_syms;

/* A free symbol, or the one of that name (its range must be the same). False: table full or a bad range. */
bool wfi_sym_new(wfi_syms *t, const char *name, int64_t lo, int64_t hi, int64_t *size);
/* a op b for op in + - * / (floor) m (min); numbers stay numbers. False: overflow, division by zero, table full, or a
 * symbol and t NULL. */
bool wfi_sym_op(wfi_syms *t, char op, int64_t a, int64_t b, int64_t *r);
/* The range; a number's is itself. t NULL: symbols have 0 .. WFI_DIM_MAX. */
int64_t wfi_sym_lo(const wfi_syms *t, int64_t size);
int64_t wfi_sym_hi(const wfi_syms *t, int64_t size);
/* Replaces symbols: value[i] of free symbol i; computed ones follow. False: overflow or out of its range. */
bool wfi_sym_value(const wfi_syms *t, const int64_t *value, int64_t size, int64_t *r);
/* "12", "n", "(n+2)/2"; always terminated; returns text. */
const char *wfi_sym_text(const wfi_syms *t, int64_t size, char *text, size_t bytes);

#endif
