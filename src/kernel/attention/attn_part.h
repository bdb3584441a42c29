/* attn_part.h - what the files of this folder share. */
#ifndef WFI_KERNEL_ATTENTION_PART_H
#define WFI_KERNEL_ATTENTION_PART_H
#include "kernel/attention/attention.h"
#include "kernel/isa.h"

#ifndef WFI_ATTN_ORDER
#define WFI_ATTN_ORDER "attention"
#endif
#ifndef WFI_ATTN_PLAIN
#define WFI_ATTN_PLAIN(name) WFI_K(name) /* whose attn_plain.c */
#endif

typedef struct operand {
    int64_t step[WFI_ATTENTION_BATCH]; /* strides in elements: batch dimensions, ... */
    int64_t row, col;                  /* ... the last but one (of lse: the last), the last */
} operand;

typedef struct params {
    operand o[WFI_ATTN_SLOTS];
    int64_t batch[WFI_ATTENTION_BATCH];
    int64_t batches, s, t, e, d, wide;
    int64_t qb, blocks; /* queries a block, blocks a batch element; f64: one block */
    double scale;
    size_t each; /* bytes of scratch a worker */
    int32_t nbatch, threads;
    bool causal, mask;
    uint8_t type[WFI_ATTN_SLOTS];
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

/* One batch element: the address of [0, 0] of every operand, NULL where it is not given. */
typedef struct head {
    char *at[WFI_ATTN_SLOTS];
} head;

static inline int64_t keys_seen(const params *p, int64_t i)
{
    int64_t n = p->causal ? i + 1 + p->t - p->s : p->t;
    return n < 0 ? 0 : n;
}

/* attn_f32.c, attn_amx.c: the fast path; NULL or why it cannot be; `desk` is scratch of one worker, its size in bytes
 * is that of wfi_attn_desk. */
const char *WFI_K(wfi_attn_declines)(const params *p, bool grad);
size_t WFI_K(wfi_attn_desk)(const params *p, bool grad);
int64_t WFI_K(wfi_attn_block)(int64_t s, bool grad); /* queries a block, of s */
void WFI_K(wfi_attn_forward)(const params *p, const head *h, int64_t q0, char *desk);
void WFI_K(wfi_attn_grad)(const params *p, const head *h, char *desk);

/* attn_plain.c: one query at a time in f64; desk: f64[plain_desk(p)] */
static inline int64_t plain_desk(const params *p)
{
    return 2 * p->t + 4 * p->wide;
}
void WFI_ATTN_PLAIN(wfi_attn_plain_row)(const params *p, const head *h, int64_t i, double *desk);
void WFI_ATTN_PLAIN(wfi_attn_plain_grad)(const params *p, const head *h, double *desk);
/* to[i] = m[i] * log(2) + log(l[i]) */
void WFI_ATTN_PLAIN(wfi_attn_lse)(int64_t n, const float *m, const float *l, float *to);

#endif
