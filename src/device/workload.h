/* workload.h - a node as it is asked of a device, as a line of text and back:
 *
 *     conv2d f32[8,64,56,56]@200704,1,3584,64 f32[64,64,3,3] stride=1 ... threads=2
 *
 * The operator; its operands, `_` for one that is not given, strides behind @ where they are not those of rows; its
 * attributes; the threads. Equal problems have equal lines: they name tuning records, and a program's log of them
 * (WEFT_LOG=tune) is what `weft tune --log` reads. */
#ifndef WFI_DEVICE_WORKLOAD_H
#define WFI_DEVICE_WORKLOAD_H
#include "device/device.h"
#include "ops/op.h"

typedef struct wfi_workload {
    uint32_t op;
    int32_t nin, nout, threads;
    wfi_attrs attr;
    wfi_view in[WFI_BIND_IN], out[WFI_BIND_OUT];
} wfi_workload;

void wfi_workload_print(const wfi_bind *b, wfi_text *t);
/* Missing attributes have their defaults; missing threads: `threads`. False: one error text. */
bool wfi_workload_parse(const char *line, int threads, wfi_workload *p, char *err, size_t err_bytes);
/* The question; params: WFI_BIND_PARAMS bytes. p->out is written to and must stay where it is. */
wfi_bind wfi_workload_bind(wfi_workload *p, void *params);

#endif
