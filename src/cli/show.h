/* show.h - between the two files of `weft show`. */
#ifndef WFI_CLI_SHOW_H
#define WFI_CLI_SHOW_H
#include "base/file.h"
#include "cli/cli.h"
#include "io/safetensors.h"

typedef struct cli_show_job {
    wfi_mem *mem;
    const char *path;
    bool json, passes;
} cli_show_job;

/* text: the whole file, with a NUL behind it. Returns the exit status. */
int cli_show_graph(const cli_show_job *j, const char *text);

#endif
