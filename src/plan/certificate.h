/* certificate.h - what was proved of a plan, as text that can be kept beside it and proved again without the program.
 *
 *     weft plan certificate 1
 *     plan 5e0c...                                     SHA-256 of the plan's text (wfi_plan_print), without its first
 *                                                      line and without the program's lines
 *     arena 4096
 *     storage 0 arena 0 1024                           place, offset and bytes; of others their number and bytes
 *     storage 1 var 3 2048
 *     leaf v0 1                                        storage 1 holds value v0 when the step begins
 *     command 0 cpu.gemm writes v5@0[0,1024) reads v0@1[0,2048)
 *     run 0 2                                          commands 0 and 1 are submitted as one
 *     strips 2 7                                       and these run strip by strip
 *     out v5@0[0,1024)                                 must be there when the step has ended
 *     end 91ab...                                      SHA-256 of all lines before
 *
 * Proved again is: every storage of the arena lies in it; every command touches bytes of its storages only; what it
 * reads was written before or is a leaf, and nothing that shares a byte with it was written since; no two results of a
 * command share a byte, nor a result and an operand unless they are one storage; commands of a run do not touch what
 * another one of them writes. What strips of one group keep apart was proved when the plan was made, and is not in
 * here. */
#ifndef WFI_PLAN_CERTIFICATE_H
#define WFI_PLAN_CERTIFICATE_H
#include "base/sha256.h"
#include "plan/plan.h"

/* Checks the plan and writes its certificate. False: it is wrong or memory is out, err says so, and t is as it was. */
bool wfi_certificate_write(const wfi_plan *p, wfi_text *t, char *err, size_t err_bytes);

typedef struct wfi_certificate {
    uint32_t commands, storages;
    size_t arena, most; /* bytes: of the arena; alive at once at most */
} wfi_certificate;

/* Proves again what a certificate says. plan: the plan's text as wf_explain_plan(.buffers) gives it, NULL: it is not
 * compared. False: err names the line. */
bool wfi_certificate_prove(wfi_mem *mem, const char *text, const char *plan, wfi_certificate *c, char *err,
                           size_t err_bytes);

/* Of a plan's text, as above. */
void wfi_certificate_plan_hash(const char *text, char hex[2 * WFI_SHA256_BYTES + 1]);

#endif
