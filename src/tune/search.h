/* search.h - the fastest of many candidates, by measuring few of them.
 *
 *     wfi_search s;
 *     wfi_search_begin(&s, item, n);               item[0]: the kernel's own rule
 *     for (uint32_t i; (i = wfi_search_next(&s)) < n && trials--;)
 *         wfi_search_tell(&s, i, ...measured ns...);
 *     i = wfi_search_best(&s);
 *
 * Each candidate has a prior, the time by a roofline of what it moves and computes, and some 20 numbers that say how it
 * does that. What the prior gets wrong, log(time / prior), is learnt from the trials by ridge regression on those
 * numbers. The next trial is the one with the least (prediction - doubt), doubt being how far its numbers are from
 * those of all trials (the lower confidence bound of Li and others, arXiv:1003.0146); so what looks good is tried, and
 * now and then what is not like anything that was. Nothing is random. */
#ifndef WFI_TUNE_SEARCH_H
#define WFI_TUNE_SEARCH_H
#include "kernel/choice.h"

enum { WFI_SEARCH_FEATURES = 24 };

typedef struct wfi_search_item {
    wfi_choice choice;
    double prior; /* ns, > 0 */
    double ns;    /* measured; 0: not yet */
    double x[WFI_SEARCH_FEATURES];
} wfi_search_item;

typedef struct wfi_search {
    wfi_search_item *item;
    uint32_t n, trials;
    double inverse[WFI_SEARCH_FEATURES][WFI_SEARCH_FEATURES]; /* of the regression's matrix */
    double sum[WFI_SEARCH_FEATURES];                          /* of x * log(time / prior) */
} wfi_search;

/* The numbers of a candidate. l1, l2: bytes of the caches. */
void wfi_search_features(const wfi_traits *t, double l1, double l2, double x[WFI_SEARCH_FEATURES]);

/* Scales the numbers of all items. The items stay the caller's. */
void wfi_search_begin(wfi_search *s, wfi_search_item *item, uint32_t n);
uint32_t wfi_search_next(const wfi_search *s); /* n: all were measured */
void wfi_search_tell(wfi_search *s, uint32_t i, double ns);
/* The fastest that was measured; 0 if none was. */
uint32_t wfi_search_best(const wfi_search *s);

#endif
