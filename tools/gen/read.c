/* read.c - from files to op records. It understands comments, string literals, words and single characters: enough
 * for `const wf_op_def wf_op_NAME = { .field = value, ... };` and for WF_ROW(...). */
#include "gen.h"
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

op *ops;
int nops;

typedef struct lexer {
    const char *file, *s;
    int line;    /* of *s */
    int at;      /* line on which tok begins */
    bool string; /* tok is the text of one or more string literals */
    buf tok;
    int npiece;
    piece piece[16];
    char *comment; /* the comment directly before tok, or NULL */
    char *first;   /* the comment that begins the file, or NULL */
    bool begun, bad;
} lexer;

/* The text of a comment: stars and indentation off. */
static char *comment_text(const char *b, const char *e)
{
    buf t = { 0 };
    put(&t, "%s", "");
    while (b < e && (*b == '*' || *b == ' ' || *b == '\n'))
        b++;
    for (bool start = false; b < e; b++) {
        if (start) {
            while (b < e && (*b == ' ' || *b == '\t'))
                b++;
            if (b < e && *b == '*') {
                b++;
                if (b < e && *b == ' ')
                    b++;
            }
            start = false;
            if (b >= e)
                break;
        }
        put(&t, "%c", *b);
        start = *b == '\n';
    }
    while (t.n && isspace((unsigned char)t.s[t.n - 1]))
        t.s[--t.n] = 0;
    return t.s;
}
static bool comment(lexer *l)
{
    const char *e = strstr(l->s + 2, "*/");
    if (!e) {
        error(l->file, l->line, "", "a comment does not end", "");
        l->bad = true;
        return false;
    }
    l->comment = comment_text(l->s + 2, e);
    if (!l->begun)
        l->first = l->comment;
    l->begun = true;
    for (; l->s < e + 2; l->s++)
        l->line += *l->s == '\n';
    return true;
}
static void literal(lexer *l)
{
    if (l->npiece < 16)
        l->piece[l->npiece++] = (piece){ l->tok.n, l->line };
    for (l->s++; *l->s && *l->s != '"' && *l->s != '\n'; l->s++) {
        if (*l->s == '\\' && l->s[1])
            l->s++;
        put(&l->tok, "%c", *l->s);
    }
    if (*l->s != '"') {
        error(l->file, l->line, "", "a string does not end", "");
        l->bad = true;
    } else
        l->s++;
}
/* tok: a word, joined string literals, or one character. False at the end. */
static bool next(lexer *l)
{
    l->tok.n = 0;
    put(&l->tok, "%s", "");
    l->string = false;
    l->npiece = 0;
    l->comment = NULL;
    for (;;) {
        while (isspace((unsigned char)*l->s))
            l->line += *l->s++ == '\n';
        if (l->s[0] == '/' && l->s[1] == '*') {
            if (!comment(l))
                return false;
        } else if (l->s[0] == '/' && l->s[1] == '/') {
            while (*l->s && *l->s != '\n')
                l->s++;
        } else if (*l->s == '#' && !l->string) {
            l->begun = true;
            for (; *l->s && *l->s != '\n'; l->s++)
                if (*l->s == '\\' && l->s[1] == '\n')
                    l->line++, l->s++;
        } else if (*l->s == '"') {
            if (!l->string)
                l->at = l->line;
            l->string = true;
            literal(l);
            if (l->bad)
                return false;
        } else
            break;
    }
    l->begun = true;
    if (l->string)
        return true;
    l->at = l->line;
    if (!*l->s)
        return false;
    do
        put(&l->tok, "%c", *l->s++);
    while ((isalnum((unsigned char)l->s[-1]) || l->s[-1] == '_') && (isalnum((unsigned char)*l->s) || *l->s == '_'));
    return true;
}
static bool is(const lexer *l, const char *word)
{
    return !l->string && strcmp(l->tok.s, word) == 0;
}

const char *get(const op *o, const char *key)
{
    for (int i = 0; i < o->nf; i++)
        if (strcmp(o->f[i].key, key) == 0)
            return o->f[i].val;
    return NULL;
}
int line_of(const op *o, const char *key)
{
    for (int i = 0; i < o->nf; i++)
        if (strcmp(o->f[i].key, key) == 0)
            return o->f[i].line;
    return o->line;
}
const op *find(const char *name)
{
    for (int i = 0; i < nops; i++)
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}
static op *add(const char *file, const char *name, int line)
{
    if (nops == MAX_OPS) {
        error(file, line, name, "too many operators", "raise MAX_OPS in tools/gen/gen.h");
        exit(1);
    }
    if (find(name))
        error(file, line, name, "defined twice", "");
    if (strlen(name) >= sizeof ops[0].name)
        error(file, line, name, "the name is too long", "");
    op *o = &ops[nops++];
    *o = (op){ .file = file, .line = line };
    snprintf(o->name, sizeof o->name, "%s", name);
    return o;
}
static field *set(op *o, const char *key, const lexer *l)
{
    static const char *const known[] = { "call",  "axes",   "outputs", "types",   "primitive", "reduce", "linear",
                                         "order", "nograd", "onnx",    "samples", "lower",     "grad",   "ref",
                                         "map",   "check",  "split",   "cost",    "autocast" };
    bool good = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        good |= strcmp(known[i], key) == 0;
    if (!good || o->nf == FIELDS) {
        char what[80];
        snprintf(what, sizeof what, "there is no field .%.40s", key);
        error(o->file, l->at, o->name, what, "src/ops/op.h has the list");
        return NULL;
    }
    if (get(o, key))
        error(o->file, l->at, o->name, "a field is given twice", key);
    field *f = &o->f[o->nf++];
    *f = (field){ .val = copy(l->tok.s, l->tok.n), .string = l->string, .line = l->at, .npiece = l->npiece };
    memcpy(f->piece, l->piece, sizeof f->piece);
    snprintf(f->key, sizeof f->key, "%.15s", key);
    return f;
}

/* After `wf_op_def wf_op_NAME`. */
static void definition(lexer *l, op *o)
{
    static const char *const words[] = { "lower", "grad", "ref", "map", "check", "split", "cost" };
    if (!next(l) || !is(l, "=") || !next(l) || !is(l, "{"))
        return;
    while (next(l) && !is(l, "}")) {
        char key[32];
        if (is(l, ","))
            continue;
        if (!is(l, ".") || !next(l)) {
            error(o->file, l->at, o->name, ".field = value was expected", "");
            return;
        }
        snprintf(key, sizeof key, "%s", l->tok.s);
        int at = l->at;
        if (!next(l) || !is(l, "=") || !next(l)) {
            error(o->file, at, o->name, ".field = value was expected", "");
            return;
        }
        field *f = set(o, key, l);
        bool word = false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            word |= strcmp(words[i], key) == 0;
        if (f && f->string == word)
            error(o->file, l->at, o->name, word ? "a function was expected" : "a string literal was expected", key);
    }
}
static void op_file(const char *dir, const char *name, const char *section, int line)
{
    char path[1024], file[80];
    snprintf(file, sizeof file, "%.70s.c", name);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    char *text = slurp(path);
    if (!text) {
        error("ops.def", line, name, "there is no such file in src/ops", "");
        return;
    }
    lexer l = { .file = copy(file, strlen(file)), .s = text, .line = 1 };
    char *before = NULL; /* the comment before `const` */
    bool first_used = false;
    int found = 0;
    while (next(&l)) {
        if (is(&l, "const"))
            before = l.comment;
        else if (!is(&l, "wf_op_def"))
            before = NULL;
        if (!is(&l, "wf_op_def") || !next(&l) || strncmp(l.tok.s, "wf_op_", 6) != 0)
            continue;
        op *o = add(l.file, l.tok.s + 6, l.at);
        o->doc = before ? before : first_used ? NULL : l.first;
        first_used |= o->doc == l.first;
        o->section = copy(section, strlen(section));
        definition(&l, o);
        before = NULL;
        found++;
    }
    if (!found && !l.bad)
        error(l.file, 1, name, "the file defines no operator", "write const wf_op_def wf_op_NAME = { ... };");
}

/* ---- rows ---- */

static const char *const columns[] = { "name", "types", "body", "grad", "onnx", "samples", "ref", "doc" };

static char *first_sentence(const char *s)
{
    size_t n = strcspn(s, ".\n");
    return copy(s, n);
}
static void column(op *o, const char *key, const lexer *l)
{
    field *f = &o->f[o->nf++];
    *f = (field){ .val = copy(l->tok.s, l->tok.n), .string = true, .line = l->at, .npiece = l->npiece };
    memcpy(f->piece, l->piece, sizeof f->piece);
    snprintf(f->key, sizeof f->key, "%.15s", key);
}
static void row(lexer *l, const char *section)
{
    int line = l->at;
    op *o = NULL;
    if (!next(l) || !is(l, "("))
        return;
    for (int c = 0; c < 8; c++) {
        if (!next(l) || (c > 0 && !l->string)) {
            error(l->file, l->at, o ? o->name : "", "a row has eight columns", "WF_ROW(name, \"types\", ...)");
            return;
        }
        if (c == 0) {
            o = add(l->file, l->tok.s, line);
            o->row = true;
            o->section = copy(section, strlen(section));
        } else
            column(o, columns[c], l);
        if (!next(l) || !is(l, c == 7 ? ")" : ",")) {
            error(l->file, l->at, o->name, "a row has eight columns",
                  "name, types, body, grad, onnx, samples, ref, doc");
            return;
        }
    }
    o->doc = copy(get(o, "doc"), strlen(get(o, "doc")));
    const char *body = get(o, "body");
    o->composite = *body == '=';
    o->arity = mentions(body, "c") ? 3 : mentions(body, "b") ? 2 : 1;
}
static void rows(const char *dir)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/elementwise.def", dir);
    char *text = slurp(path);
    if (!text)
        return;
    lexer l = { .file = "elementwise.def", .s = text, .line = 1 };
    char *section = copy("Element-wise", 12);
    bool first = true;
    while (next(&l)) {
        if (l.comment && l.comment != l.first && strncmp(l.comment, "clang-format", 12) != 0)
            section = first_sentence(l.comment);
        if (is(&l, "WF_ROW"))
            row(&l, section);
        else if (first)
            error(l.file, l.at, "", "WF_ROW(...) was expected", "");
        first = is(&l, ")");
    }
    free(text);
}

/* ops.def: the name of a file a line, in the order of the manual; "# Title" begins a section of it. */
static void list(const char *dir)
{
    char path[1024], section[80] = "Operators";
    snprintf(path, sizeof path, "%s/ops.def", dir);
    char *text = slurp(path);
    int line = 0;
    if (!text) {
        error("ops.def", 1, "", "cannot be read", path);
        return;
    }
    for (char *s = text, *e; *s; s = *e ? e + 1 : e) {
        char word[80];
        e = s + strcspn(s, "\n");
        line++;
        while (isspace((unsigned char)*s) && s < e)
            s++;
        char *w = s;
        while (w < e && (isalnum((unsigned char)*w) || *w == '_'))
            w++;
        if (*s == '#') {
            char *t = s + 1 + strspn(s + 1, " ");
            snprintf(section, sizeof section, "%.*s", (int)(e - t), t);
        } else if (w > s) {
            snprintf(word, sizeof word, "%.*s", (int)(w - s), s);
            op_file(dir, word, section, line);
            w += strspn(w, " \t");
            if (*w && w < e && *w != '#')
                error("ops.def", line, word, "one name a line", "");
        } else if (s < e)
            error("ops.def", line, "", "a name was expected", "");
    }
    free(text);
}
/* A file that defines an operator but is not listed would fail later, with worse words. */
static void unlisted(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char path[1024];
        size_t n = strlen(e->d_name);
        bool listed = n < 3 || strcmp(e->d_name + n - 2, ".c") != 0;
        for (int i = 0; i < nops && !listed; i++)
            listed = strcmp(ops[i].file, e->d_name) == 0;
        if (listed)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        char *text = slurp(path);
        if (text && strstr(text, "const wf_op_def wf_op_"))
            fprintf(stderr, "%s: warning: defines an operator, but ops.def does not list it\n", e->d_name);
        free(text);
    }
    if (d)
        closedir(d);
}
void read_all(const char *ops_dir)
{
    ops = calloc(MAX_OPS, sizeof *ops);
    if (!ops)
        exit(2);
    rows(ops_dir);
    list(ops_dir);
    unlisted(ops_dir);
}
