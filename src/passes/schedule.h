/* schedule.h - the order of nodes: what frees more memory than it takes runs as soon as it can, where memory is short.
 *
 * An optimiser's updates stand behind all gradients, as they were called, and run as one command there. Where the
 * gradients that wait for them raise the peak, each large one is used up right behind the node that makes it, and
 * behind the last use of the parameter's old value, whose memory the new one takes. So are other nodes that free much.
 * Small ones stay together.
 *
 * Without a budget this is done where it lowers the peak of a step of 32 MiB and more by 2 %; with one, where the step
 * does not fit. Nodes stay what they are, and so do bits. */
#ifndef WFI_PASSES_SCHEDULE_H
#define WFI_PASSES_SCHEDULE_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty). False: out of memory. */
bool wfi_schedule(const wfi_graph *g, wfi_graph *out);

#endif
