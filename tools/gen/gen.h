/* gen.h - the operator generator: definitions as text in, headers, tables, builders, pages and test lists out.
 *
 *     read.c   ops.def, elementwise.def and the operator files -> op records (it understands C tokens, not C)
 *     call.c   .call and .types -> parameters
 *     rules.c  what a definition must have; axis maps; linearity
 *     expr.c   expressions of rows -> calls of public builders
 *     out_*.c  one output each, all kept in memory; main.c writes them if there was no error
 */
#ifndef WEFT_GEN_H
#define WEFT_GEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/axis.h"

enum { FIELDS = 24, PARAMS = 28, RESULTS = 4, MAX_OPS = 512 };

typedef struct buf {
    char *s;
    size_t n, cap;
} buf;

typedef struct piece { /* a string literal of a field: where it begins in the value, and in the file */
    size_t at;
    int line;
} piece;

typedef struct field {
    char key[16];
    char *val;
    bool string;
    int line, npiece;
    piece piece[16];
} field;

typedef enum kind { TENSOR, TENSOR_OPT, TENSOR_MANY, CTX, ATTR } kind;

typedef struct param {
    char name[32];
    kind kind;
    int type;       /* WFI_ATTR_..., of an ATTR */
    bool named;     /* an option */
    bool shorthand; /* only the default of others: not stored */
    char def[40];   /* "" none; a number, "all", "true", a dtype or the name of an earlier option */
    int from;       /* index of that option, -1 */
} param;

typedef struct op {
    const char *file; /* base name */
    char name[32];
    char *doc, *section;
    int line, nf, np, nout;
    field f[FIELDS];
    param p[PARAMS];
    char out[RESULTS][32];
    bool row, composite, has_map;
    wfi_axis_map map;
    int nin, nin_min; /* operands; optional ones are last */
    bool many;
    unsigned flags, linear, joint, autocast;
    uint8_t tin[8], tout[4];
    int arity; /* of a row */
} op;

extern op *ops;
extern int nops;

/* buffer.c */
void put(buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_quoted(buf *b, const char *s); /* as a C string literal */
char *copy(const char *s, size_t n);
char *slurp(const char *path); /* NULL: cannot be read */
bool write_if_changed(const char *dir, const char *name, const buf *b);
/* FILE:LINE: error: operator NAME: what; cure */
void error(const char *file, int line, const char *name, const char *what, const char *cure);
extern int errors;

/* read.c */
void read_all(const char *ops_dir);
const char *get(const op *o, const char *key); /* NULL: not given */
int line_of(const op *o, const char *key);     /* the definition's line if it is not given */
const op *find(const char *name);

/* call.c */
bool read_call(op *o);
void read_types(op *o);
void read_outputs(op *o);
bool has_attrs(const op *o); /* stored ones */
bool has_opts(const op *o);
extern const char *const attr_type[6], *const attr_enum[6];

/* rules.c */
void check(op *o);
bool by_lowering(const op *o); /* a composite whose gradient is that of its lowering */

/* expr.c: appends the builder calls for a text; `like` is the tensor whose dtype numbers take */
bool expr(buf *b, const op *o, int line, const char *text, const char *like, bool zero_safe);
/* The n-th part of a gradient list, without blanks around it; NULL: none. The result is malloc'ed. */
char *part(const char *list, int n);
bool mentions(const char *text, const char *word);

/* out_*.c */
void out_header(buf *b);
void out_enum(buf *b);
void out_table(buf *b);
void out_rows(buf *b);
void out_build(buf *b);
void out_ew(buf *rows, buf *ref);
void out_samples(buf *b);
void out_page(buf *b, const op *o);
void out_index(buf *b);
void out_prelude(buf *b, const char *src_dir);

#endif
