/* cli.h - what the subcommands of `weft` share. */
#ifndef WFI_CLI_CLI_H
#define WFI_CLI_CLI_H
#include "base/text.h"

/* Exit status. */
enum { CLI_OK = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_FAILED = 3 };

typedef struct cli_command {
    const char *name, *brief, *help;
    int (*run)(wfi_mem *mem, int argc, char **argv); /* argv[0]: the subcommand's name */
} cli_command;
extern const cli_command cli_info, cli_show, cli_verify, cli_bisect, cli_tune;

/* "weft show: ...", one line on standard error; returns the status. */
int cli_error(int status, const char *command, const char *format, ...) WFI_PRINTF(3, 4);
/* Writes t to standard output and frees it; CLI_FAILED if memory ran out or it could not be written. */
int cli_write(wfi_text *t, const char *command);
/* Progress, for people: one line on standard error. */
void cli_say(const char *format, ...) WFI_PRINTF(1, 2);
/* The same without the end of the line: a bar that grows. */
void cli_progress(const char *format, ...) WFI_PRINTF(1, 2);

/* ---- running a program (child.c) ---- */

typedef struct cli_child {
    char *const *argv;      /* argv[0] is looked for in PATH; NULL at the end */
    const char *const *set; /* "NAME=value" for its environment; "NAME" takes one away; NULL at the end */
    int out;                /* descriptor of its standard output; -1: nowhere */
    bool quiet;             /* standard error goes nowhere, too */
    int status;             /* out: exit status, or 128 + the signal that ended it */
} cli_child;

/* False: it could not be started; *why has the system's word for it. */
bool cli_child_run(wfi_mem *mem, cli_child *c, const char **why);
/* A file in memory for its output; -1: none to be had. */
int cli_child_file(void);
/* The same bytes in two such files? */
bool cli_child_same(int a, int b);

#endif
