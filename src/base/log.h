/* log.h - what the library tells when it is asked to: by topic, as whole lines of text. Asked by nobody it says
 * nothing.
 *
 *     if (wfi_log_on(&c->log, "plan"))
 *         wfi_log_text(&c->log, "plan", wfi_text_str(&t));
 */
#ifndef WFI_BASE_LOG_H
#define WFI_BASE_LOG_H
#include "base/mem.h"
#include "weft/ctx.h"

typedef struct wfi_log {
    wfi_mem *mem;
    const char *topics; /* "plan,passes" or "all", borrowed; NULL: nothing is told */
    const char *file;   /* where it goes, borrowed; NULL: to fn */
    wf_log_fn *fn;      /* NULL: to standard error */
    void *user;
} wfi_log;

/* Is `topic` asked for? */
bool wfi_log_on(const wfi_log *l, const char *topic);
/* Tells it, whether it was asked for or not. What the file does not take goes the other
 * way, what that does not take is lost. */
void wfi_log_text(const wfi_log *l, const char *topic, const char *text);

/* The first word of a list of topics that is none, or NULL; *n: its length. */
const char *wfi_log_unknown(const char *topics, size_t *n);

/* Is the word `name` of n characters in the list "a,b,c"? list may be NULL. */
bool wfi_list_has(const char *list, const char *name, size_t n);

#endif
