/* contexts.h - what tests of whole programs ask of a context: that nothing is wrong, or just that. Behind cmocka.h. */
#ifndef WEFT_TEST_CONTEXTS_H
#define WEFT_TEST_CONTEXTS_H
#include <string.h>
#include "weft/weft.h"

static inline void ok(wf_ctx *c)
{
    if (wf_error(c))
        fail_msg("%s", wf_error(c));
}

static inline void close_ctx(wf_ctx *c)
{
    ok(c);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* There is this error, and its text has `what`; then it is forgotten. */
static inline void wrong(wf_ctx *c, wf_status status, const char *what)
{
    if (!wf_error(c) || !strstr(wf_error(c), what))
        fail_msg("\"%s\" is not in: %s", what, wf_error(c) ? wf_error(c) : "nothing");
    assert_int_equal(wf_error_status(c), status);
    wf_error_clear(c);
}

#endif
