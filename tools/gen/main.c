/* weft_gen - the operator generator of the build.      usage: weft_gen OUT_DIR OPS_DIR [SRC_DIR]
 *
 * Reads ops.def, elementwise.def and the listed files in OPS_DIR, and what generated kernels take from the sources
 * below SRC_DIR. Writes below OUT_DIR (which exists) what changed. An error prints FILE:LINE: error: ..., writes
 * nothing and exits 1. */
#include "gen.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct output {
    const char *name;
    buf text;
} output;

static bool folder(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}
static int generate(int argc, char **argv)
{
    output out[] = { { "weft/ops.h", { 0 } },    { "ops_enum.h", { 0 } },  { "ops_table.c", { 0 } },
                     { "ops_rows.c", { 0 } },    { "ops_build.c", { 0 } }, { "ew_rows.inc", { 0 } },
                     { "ew_ref.inc", { 0 } },    { "samples.inc", { 0 } }, { "docs/ops.md", { 0 } },
                     { "code_prelude.c", { 0 } } };
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: weft_gen OUT_DIR OPS_DIR [SRC_DIR]\n");
        return 2;
    }
    read_all(argv[2]);
    for (int i = 0; i < nops; i++)
        check(&ops[i]);
    if (!errors) {
        out_header(&out[0].text);
        out_enum(&out[1].text);
        out_table(&out[2].text);
        out_rows(&out[3].text);
        out_build(&out[4].text);
        out_ew(&out[5].text, &out[6].text);
        out_samples(&out[7].text);
        out_index(&out[8].text);
        if (argc == 4)
            out_prelude(&out[9].text, argv[3]);
    }
    if (errors) {
        fprintf(stderr, "%d error%s in operator definitions\n", errors, errors == 1 ? "" : "s");
        return 1;
    }
    bool good = folder(argv[1], "weft") && folder(argv[1], "docs") && folder(argv[1], "docs/ops");
    for (size_t i = 0; good && i < sizeof out / sizeof *out; i++)
        good = out[i].text.n == 0 || write_if_changed(argv[1], out[i].name, &out[i].text);
    for (int i = 0; good && i < nops; i++) {
        char name[80];
        buf page = { 0 };
        snprintf(name, sizeof name, "docs/ops/%s.md", ops[i].name);
        out_page(&page, &ops[i]);
        good = write_if_changed(argv[1], name, &page);
        free(page.s);
    }
    return good ? 0 : 2;
}
int main(int argc, char **argv)
{
    int status = generate(argc, argv);
    fflush(NULL);
    _Exit(status); /* nothing was freed on the way, and a leak checker has nothing to say about that */
}
