/* weft show */
#include <string.h>
#include "cli/show.h"

static const char help[] =
    "usage: weft show [--passes] [--json] FILE\n\n"
    "Shows what is in a file: the nodes of a graph as text (WEFT_DUMP writes such files), with the operations and "
    "bytes\n"
    "of each, or the tensors of a safetensors file.\n\n"
    "  --passes  a graph: also what each pass makes of it, and what was not fused and why\n"
    "  --json    one JSON object\n\n"
    "examples:\n"
    "  weft show out/fashion.safetensors\n"
    "  WEFT_DUMP=recording WEFT_DUMP_DIR=/tmp ./train && weft show --passes /tmp/step-1-recording-after.txt\n"
    "  weft show --json model.safetensors | jq '.tensors[].name'\n\n"
    "exit status: 0 done, 1 the file is damaged or of no known kind, 2 wrong usage, 3 it cannot be read\n";

enum { FILE_MAX_MB = 64, ROW = 44 };

/* ---- safetensors ---- */

static void shape(const wfi_named *w, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = 0;
    for (int32_t i = 0; i < w->ndim; i++) {
        (void)wfi_str_print(text + n, bytes - n, "%s%lld", i ? "," : "", (long long)w->dims[i]);
        n = strlen(text);
    }
}

static void tensors_text(const char *path, const wfi_safetensors *f, wfi_text *t)
{
    uint64_t bytes = 0;
    char dims[256], type[320];
    for (size_t i = 0; i < f->n; i++)
        bytes += f->tensors[i].bytes;
    wfi_text_addf(t, "%s: %zu tensors, %llu bytes; %s\n", path, f->n, (unsigned long long)bytes,
                  f->checked ? "the checksum is right" : "without a checksum");
    for (size_t i = 0; i < f->nmeta; i++) {
        wfi_text_add(t, "  ");
        wfi_text_quote(t, f->meta[i].key);
        wfi_text_add(t, ": ");
        wfi_text_quote(t, f->meta[i].value);
        wfi_text_addc(t, '\n');
    }
    for (size_t i = 0; i < f->n; i++) {
        const wfi_named *w = &f->tensors[i];
        const size_t from = t->n;
        wfi_text_add(t, "  ");
        for (const char *c = w->name; *c; c++)
            wfi_text_addc(t, (unsigned char)*c < 32 || *c == 127 ? '?' : *c);
        if (t->n - from < ROW)
            wfi_text_fill(t, ' ', ROW - (t->n - from));
        shape(w, dims, sizeof dims);
        (void)wfi_str_print(type, sizeof type, "%s[%s]", wf_dtype_name(w->dtype), dims);
        wfi_text_addf(t, " %-24s %12zu bytes\n", type, w->bytes);
    }
}

static void tensors_json(const char *path, const wfi_safetensors *f, wfi_text *t)
{
    char dims[256];
    wfi_text_add(t, "{\"file\":");
    wfi_text_json(t, path);
    wfi_text_addf(t, ",\"kind\":\"safetensors\",\"checked\":%s,\"metadata\":{", f->checked ? "true" : "false");
    for (size_t i = 0; i < f->nmeta; i++) {
        wfi_text_add(t, i ? "," : "");
        wfi_text_json(t, f->meta[i].key);
        wfi_text_addc(t, ':');
        wfi_text_json(t, f->meta[i].value);
    }
    wfi_text_add(t, "},\"tensors\":[");
    for (size_t i = 0; i < f->n; i++) {
        shape(&f->tensors[i], dims, sizeof dims);
        wfi_text_add(t, i ? ",\n {\"name\":" : "\n {\"name\":");
        wfi_text_json(t, f->tensors[i].name);
        wfi_text_addf(t, ",\"dtype\":\"%s\",\"shape\":[%s],\"bytes\":%zu}", wf_dtype_name(f->tensors[i].dtype), dims,
                      f->tensors[i].bytes);
    }
    wfi_text_add(t, "]}\n");
}

static int show_tensors(const cli_show_job *j, const void *data, size_t bytes)
{
    wfi_safetensors f;
    wfi_problem problem = { .status = WF_OK };
    wfi_text t = { .mem = j->mem };
    if (j->passes)
        return cli_error(CLI_USAGE, "show", "%s holds tensors; --passes is for graphs", j->path);
    if (wfi_safetensors_parse(j->mem, j->path, data, bytes, &f, &problem) != WF_OK)
        return cli_error(CLI_NO, "show", "%s", problem.text);
    (j->json ? tensors_json : tensors_text)(j->path, &f, &t);
    wfi_safetensors_free(&f);
    return cli_write(&t, "show");
}

/* ---- the command ---- */

/* A safetensors file begins with a length of eight bytes and an object of JSON; no text has a NUL in it. */
static bool is_safetensors(const char *data, size_t bytes)
{
    return bytes > 8 && data[8] == '{' && memchr(data, 0, 8);
}

static int show(cli_show_job *j)
{
    wfi_file f = { .mem = j->mem };
    void *data;
    size_t bytes;
    wf_status s = wfi_file_read(&f, j->path, SIZE_MAX / 4, &data, &bytes);
    if (s != WF_OK)
        return cli_error(s == WF_ERR_FORMAT ? CLI_NO : CLI_FAILED, "show", "%s", f.why);
    int status;
    if (is_safetensors(data, bytes))
        status = show_tensors(j, data, bytes);
    else if (memchr(data, 0, bytes) || bytes > (size_t)FILE_MAX_MB << 20)
        status = cli_error(CLI_NO, "show", "%s: neither a graph as text nor a safetensors file", j->path);
    else
        status = cli_show_graph(j, data);
    wfi_mem_free(j->mem, data);
    return status;
}

static int run(wfi_mem *mem, int argc, char **argv)
{
    cli_show_job j = { .mem = mem };
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json"))
            j.json = true;
        else if (!strcmp(argv[i], "--passes"))
            j.passes = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return cli_error(CLI_USAGE, "show", "there is no option %.60s; weft show --help", argv[i]);
        else if (j.path)
            return cli_error(CLI_USAGE, "show", "one file at a time: %.60s was not expected", argv[i]);
        else
            j.path = argv[i];
    if (!j.path)
        return cli_error(CLI_USAGE, "show", "a file was expected; weft show --help");
    return show(&j);
}

const cli_command cli_show = { "show", "what is in a file: a graph, or tensors", help, run };
