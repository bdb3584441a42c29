/* tuner.h - the ways in which a device can do one problem, measured one at a time.
 *
 *     wfi_tuner t;
 *     const char *why = wfi_tuner_open(&t, device, &roofs, &problem);
 *     while (!why && trials--) {
 *         uint32_t i = wfi_search_next(&t.search);
 *         wfi_search_tell(&t.search, i, wfi_tuner_time(&t, i, 0.002));
 *     }
 *     wfi_tuner_close(&t);
 *
 * t.item[0 .. t.n-1] are the ways, [0] the device's rule. It is closed in either case.
 *
 * Which to measure is the search's business (tune/search.h), what becomes of it the caller's. */
#ifndef WFI_DEVICE_TUNER_H
#define WFI_DEVICE_TUNER_H
#include "device/workload.h"
#include "tune/search.h"

typedef struct wfi_tuner {
    wfi_device *d;
    wfi_queue *q;
    wfi_workload problem;
    wfi_search_item *item;
    uint32_t n;
    wfi_search search;
    int nknob;
    wfi_knob knob[WFI_KNOBS];
    void *params; /* as allocated */
    void *room[WFI_BIND_OUT + WFI_BIND_IN];
    void *arg[WFI_BIND_OUT + WFI_BIND_IN];
} wfi_tuner;

/* NULL, or why there is nothing to be tuned: the device declines, there is one way only, no memory. */
const char *wfi_tuner_open(wfi_tuner *t, wfi_device *d, const wfi_roofs *r, const wfi_workload *p);
void wfi_tuner_close(wfi_tuner *t);

/* ns: the best of the runs that fit into so many seconds, of at least three. 0: out of memory. */
double wfi_tuner_time(wfi_tuner *t, uint32_t i, double seconds);
/* One run; then the results lie in t->arg[0 .. nout-1]. False: out of memory. */
bool wfi_tuner_run(wfi_tuner *t, uint32_t i);
/* "tier=6 k=256"; "by rule" */
void wfi_tuner_print(const wfi_tuner *t, uint32_t i, wfi_text *text);

#endif
