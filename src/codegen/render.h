/* render.h - a fused group as C: one function over n elements, each op one line, values between ops in registers.
 *
 *     wfi_code_spec s = ...;                 what the function does
 *     wfi_text t = { .mem = m };
 *     wfi_code_render(&s, &t);               only what differs from kernel to kernel ...
 *     ... wfi_code_prelude[0 .. NULL]        ... stands behind this: types and the vector mathematics of src/kernel
 *
 * The text is that of the rows of elementwise.def and of kernel/vmath*.h, word for word, compiled with the flags of the
 * library, so its results have the same bits. It includes no header and needs no library. */
#ifndef WFI_CODEGEN_RENDER_H
#define WFI_CODEGEN_RENDER_H
#include "base/text.h"
#include "kernel/fused/fused.h"

typedef struct wfi_code_op {
    uint8_t row;   /* WFI_ROWOF_..., WFI_FUSED_CAST */
    uint8_t dtype; /* of the operands (of the last one) and, unless the row compares, of the result */
    uint8_t in[3]; /* as in wfi_fused_op */
    uint8_t to;    /* of the result of a cast; 0 */
} wfi_code_op;

/* Plain data without holes: equal kernels are equal bytes. */
typedef struct wfi_code_spec {
    uint32_t splat; /* bit i: input i is one element for all */
    uint8_t nin, nout, nop, spare;
    uint8_t dtype[WFI_FUSED_IN]; /* of the inputs; 0 from nin on */
    uint8_t out[WFI_FUSED_OUT];
    wfi_code_op op[WFI_FUSED_OPS];
} wfi_code_spec;

/* Is it made of rows, and of casts between real types, and to them, that round once? */
bool wfi_code_can(const wfi_code_spec *s);
void wfi_code_render(const wfi_code_spec *s, wfi_text *t);

/* Pieces of text, NULL at the end. Generated from src/kernel. */
extern const char *const wfi_code_prelude[];

#define WFI_CODE_SYMBOL "weft_kernel" /* of type wfi_fused_fn */

#endif
