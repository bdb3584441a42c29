/* weft: what is here, what is in a file, who is to blame. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "weft/weft.h"

static const cli_command *const commands[] = { &cli_info, &cli_show, &cli_verify, &cli_bisect, &cli_tune };
enum { COMMANDS = sizeof commands / sizeof *commands };

int cli_error(int status, const char *command, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    (void)dprintf(STDERR_FILENO, "weft%s%s: %s\n", command ? " " : "", command ? command : "", line);
    return status;
}

static void put(const char *end, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void put(const char *end, const char *format, va_list args)
{
    char line[1024];
    (void)vsnprintf(line, sizeof line, format, args);
    (void)dprintf(STDERR_FILENO, "%s%s", line, end);
}

void cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put("\n", format, args);
    va_end(args);
}

void cli_progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put("", format, args);
    va_end(args);
}

int cli_write(wfi_text *t, const char *command)
{
    int status = CLI_OK;
    const char *p = t->p;
    if (t->oom)
        status = cli_error(CLI_FAILED, command, "out of memory");
    for (size_t n = t->n; n && status == CLI_OK;) {
        ssize_t k = write(STDOUT_FILENO, p, n);
        if (k <= 0)
            status = cli_error(CLI_FAILED, command, "standard output cannot be written");
        else
            p += k, n -= (size_t)k;
    }
    wfi_text_free(t);
    return status;
}

static int help(wfi_mem *mem)
{
    wfi_text t = { .mem = mem };
    wfi_text_add(&t, "usage: weft COMMAND [OPTION...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        wfi_text_addf(&t, "  %-8s %s\n", commands[i]->name, commands[i]->brief);
    wfi_text_add(&t, "\nweft COMMAND --help has options and examples; weft --version the version.\n"
                     "Exit status: 0 done, 1 the answer is no, 2 wrong usage, 3 it could not be done.\n");
    return cli_write(&t, NULL);
}

static int version(wfi_mem *mem)
{
    wfi_text t = { .mem = mem };
    wfi_text_addf(&t, "weft %d.%d.%d\n", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    return cli_write(&t, NULL);
}

/* Is help asked for, before a "--"? */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    if (argc < 2)
        return cli_error(CLI_USAGE, NULL, "a command was expected; weft --help lists them");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(&mem);
    if (!strcmp(argv[1], "--version"))
        return version(&mem);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i]->name) != 0)
            continue;
        if (!wants_help(argc - 1, argv + 1))
            return commands[i]->run(&mem, argc - 1, argv + 1);
        wfi_text t = { .mem = &mem };
        wfi_text_add(&t, commands[i]->help);
        return cli_write(&t, NULL);
    }
    return cli_error(CLI_USAGE, NULL, "there is no command \"%.60s\"; weft --help lists them", argv[1]);
}
