/* weft verify */
#include <string.h>
#include "base/file.h"
#include "cli/cli.h"
#include "plan/certificate.h"

static const char help[] =
    "usage: weft verify CERTIFICATE [PLAN]\n\n"
    "Proves again what the certificate of a plan says: that every command of a step finds in memory what it was "
    "promised,\n"
    "and that no two values that are alive at once share a byte. A program writes one with\n"
    "wf_explain_plan(c, .certificate = true).\n\n"
    "  PLAN       the plan's text, wf_explain_plan(c, .buffers = true), to which the certificate must belong\n\n"
    "examples:\n"
    "  weft verify step.cert\n"
    "  weft verify step.cert step.plan\n\n"
    "exit status: 0 proved, 1 it is not so, 2 wrong usage, 3 it could not be done\n";

enum { FILE_MAX_MB = 256 };

/* NULL: told. */
static char *text_of(wfi_mem *mem, const char *path, int *status)
{
    wfi_file f = { .mem = mem };
    void *data = NULL;
    size_t bytes = 0;
    const wf_status s = wfi_file_read(&f, path, (size_t)FILE_MAX_MB << 20, &data, &bytes);
    *status = CLI_OK;
    if (s != WF_OK)
        *status = cli_error(s == WF_ERR_FORMAT ? CLI_NO : CLI_FAILED, "verify", "%s", f.why);
    else if (memchr(data, 0, bytes))
        *status = cli_error(CLI_NO, "verify", "%s: no text", path);
    if (*status == CLI_OK)
        return data;
    wfi_mem_free(mem, data);
    return NULL;
}

static int prove(wfi_mem *mem, const char *path, const char *text, const char *plan)
{
    wfi_certificate c;
    char err[256];
    wfi_text t = { .mem = mem };
    if (!wfi_certificate_prove(mem, text, plan, &c, err, sizeof err))
        return cli_error(CLI_NO, "verify", "%s: %s", path, err);
    wfi_text_addf(&t,
                  "proved: %u commands find what they were promised in %u storages; an arena of %zu bytes, of which at "
                  "most %zu are alive at once%s\n",
                  c.commands, c.storages, c.arena, c.most, plan ? "; it is the certificate of this plan" : "");
    return cli_write(&t, "verify");
}

static int run(wfi_mem *mem, int argc, char **argv)
{
    int status;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-' && argv[i][1])
            return cli_error(CLI_USAGE, "verify", "there is no option %.60s; weft verify --help", argv[i]);
    if (argc < 2 || argc > 3)
        return cli_error(CLI_USAGE, "verify", "a certificate, and perhaps a plan, was expected; weft verify --help");
    char *text = text_of(mem, argv[1], &status), *plan = NULL;
    if (text && argc > 2)
        plan = text_of(mem, argv[2], &status);
    if (status == CLI_OK)
        status = prove(mem, argv[1], text, plan);
    wfi_mem_free(mem, text);
    wfi_mem_free(mem, plan);
    return status;
}

const cli_command cli_verify = { "verify", "proves again what the certificate of a plan says", help, run };
