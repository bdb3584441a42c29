/* axis_tmpl.h - an axis map unpacked: what the parser fills and the binder reads. Between the two it is packed bytes.
 */
#ifndef WFI_GRAPH_AXIS_TMPL_H
#define WFI_GRAPH_AXIS_TMPL_H
#include "graph/axis.h"

enum { AXIS_ITEMS = 40, AXIS_ALL_TERMS = 56, AXIS_RULES = 8, AXIS_CODES = 96, AXIS_NAME = 16 };

typedef struct axis_term { /* sign * factor * coefficient, or sign * coefficient */
    int8_t name;           /* factor, -1: none */
    int8_t coef;           /* attribute or dim, -1: num */
    int8_t sign;
    uint8_t marks; /* of a factor inside ( ) */
    int32_t num;
} axis_term;

typedef struct axis_item {
    bool run, merged;
    uint8_t marks;
    int8_t dim;       /* own name, -1 */
    int8_t at;        /* attribute that places it, -1 */
    int8_t when;      /* attribute that must not be 0, -1 */
    int8_t look;      /* name of the operand that holds the index, -1 */
    uint8_t first, n; /* terms; 0: a dimension of size 1 */
} axis_item;

typedef struct axis_operand {
    int8_t name;
    bool many;
    uint8_t first, n; /* items */
} axis_operand;

typedef struct axis_code { /* postfix */
    char op;               /* n(umber) v(alue of a name) + - * / m(in) */
    int32_t arg;
} axis_code;

typedef struct axis_rule {
    int8_t name;
    uint8_t first, n; /* codes */
} axis_rule;

typedef struct axis_tmpl {
    uint8_t nattr, nname, nslot, nin, nrule, nitem, nterm, ncode;
    const char *name[WFI_AXIS_NAMES]; /* attributes first */
    axis_operand op[WFI_AXIS_OPERANDS];
    axis_item item[AXIS_ITEMS];
    axis_term term[AXIS_ALL_TERMS];
    axis_rule rule[AXIS_RULES];
    axis_code code[AXIS_CODES];
} axis_tmpl;

/* name[] points into b. */
void wfi_axis_tmpl_unpack(const uint8_t *b, axis_tmpl *t);

/* The name of a run: that of its first factor; -1: no run. */
static inline int axis_run_name(const axis_tmpl *t, const axis_item *it)
{
    for (int j = 0; it->run && j < it->n; j++)
        if (t->term[it->first + j].name >= 0)
            return t->term[it->first + j].name;
    return -1;
}
/* ".." without a name: broadcasts. */
static inline bool axis_is_bcast(const axis_tmpl *t, const axis_item *it)
{
    int id = axis_run_name(t, it);
    return id >= 0 && !*t->name[id];
}

#endif
