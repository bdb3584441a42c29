/* out_prelude.c - code_prelude.c: the text that generated kernels begin with, taken from the sources of the library. */
#include "gen.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file, line by line; what it includes stands before it already. */
static bool take(buf *b, const char *src_dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", src_dir, name);
    char *text = slurp(path);
    if (!text) {
        fprintf(stderr, "weft_gen: cannot read %s\n", path);
        errors++;
        return false;
    }
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        char kept = *end;
        *end = 0;
        if (strncmp(line, "#include", 8) != 0 && *line != '\n') {
            put(b, "    ");
            put_quoted(b, line);
            put(b, ",\n");
        }
        *end = kept;
    }
    free(text);
    return true;
}

void out_prelude(buf *b, const char *src_dir)
{
    static const char *const file[] = { "kernel/isa.h",   "kernel/vmath_f32.h", "kernel/vmath_f64.h",
                                        "kernel/vmath.h", "kernel/ew/half.h",   "codegen/frame.h" };
    static const char *const type[][2] = { { "int8_t", "INT8" },     { "uint8_t", "UINT8" },  { "int16_t", "INT16" },
                                           { "uint16_t", "UINT16" }, { "int32_t", "INT32" },  { "uint32_t", "UINT32" },
                                           { "int64_t", "INT64" },   { "uint64_t", "UINT64" } };
    put(b, "/* code_prelude.c - how generated kernels begin. Generated from src/kernel and src/codegen/frame.h. */\n"
           "#include \"codegen/render.h\"\n\nconst char *const wfi_code_prelude[] = {\n");
    put(b, "    \"#undef __F16C__\\n\", /* its code needs a header; the plain code beside it gives the same bits */\n");
    for (size_t i = 0; i < sizeof type / sizeof *type; i++)
        put(b, "    \"typedef __%s_TYPE__ %s;\\n\",\n", type[i][1], type[i][0]);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++)
        if (!take(b, src_dir, file[i]))
            return;
    put(b, "    NULL,\n};\n");
}
