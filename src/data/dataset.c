/* dataset.c - the data sets that a name opens: see dataset.h. */
#include "data/dataset.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/ck.h"
#include "data/idx.h"
#include "data/order.h"

enum { PATH_BYTES = 4096, WINDOW = 128 };

bool wfi_dataset_part(wfi_part *p)
{
    int64_t elements;
    return wfi_ck_elements(p->dims, p->ndim, &elements) &&
           wfi_ck_mul((size_t)elements, wf_dtype_bytes(p->dtype), &p->bytes);
}

void wfi_dataset_close(wfi_dataset *d)
{
    if (!d)
        return;
    if (d->close)
        d->close(d->self);
    *d = (wfi_dataset){ 0 };
}

/* ---- images and labels ---- */

typedef struct images {
    wfi_mem *mem;
    wfi_idx x, y;
    size_t pixels;     /* of one image */
    float scaled[256]; /* value / 255 */
} images;

static wf_status images_fill(void *self, const wfi_pick *pick, void *x, void *y, wfi_problem *problem)
{
    const images *s = self;
    const uint8_t *from = (const uint8_t *)s->x.data + (size_t)pick->index * s->pixels;
    float *to = x;
    (void)problem;
    for (size_t i = 0; i < s->pixels; i++)
        to[i] = s->scaled[from[i]];
    *(int64_t *)y = ((const uint8_t *)s->y.data)[pick->index];
    return WF_OK;
}

static void images_close(void *self)
{
    images *s = self;
    wfi_idx_free(s->mem, &s->x);
    wfi_idx_free(s->mem, &s->y);
    wfi_mem_free(s->mem, s);
}

static wf_status expect(const char *file, const wfi_idx *x, int32_t ndim, wfi_problem *problem)
{
    if (x->dtype != WF_U8)
        return wfi_problem_at(problem, WF_ERR_FORMAT, file, 2, "element type", "got %s, want u8",
                              wf_dtype_name(x->dtype));
    if (x->ndim != ndim)
        return wfi_problem_at(problem, WF_ERR_FORMAT, file, 3, "number of dimensions", "got %d, want %d", x->ndim,
                              ndim);
    return WF_OK;
}

static wf_status images_read(images *s, const char *xfile, const char *yfile, wfi_problem *problem)
{
    wf_status st = wfi_idx_read(s->mem, xfile, &s->x, problem);
    if (!st)
        st = wfi_idx_read(s->mem, yfile, &s->y, problem);
    if (!st)
        st = expect(xfile, &s->x, 3, problem);
    if (!st)
        st = expect(yfile, &s->y, 1, problem);
    if (!st && s->x.dims[0] != s->y.dims[0])
        st = wfi_problem_at(problem, WF_ERR_FORMAT, yfile, 4, "number of labels", "got %lld, want %lld as in %.150s",
                            (long long)s->y.dims[0], (long long)s->x.dims[0], xfile);
    if (!st && (s->x.dims[1] == 0 || s->x.dims[2] == 0))
        st = wfi_problem_at(problem, WF_ERR_FORMAT, xfile, 8, "image size", "got %lld x %lld, want at least 1 x 1",
                            (long long)s->x.dims[1], (long long)s->x.dims[2]);
    return st;
}

wf_status wfi_dataset_images(wfi_mem *mem, const char *xfile, const char *yfile, wfi_dataset *out, wfi_problem *problem)
{
    *out = (wfi_dataset){ 0 };
    images *s = wfi_mem_zalloc(mem, sizeof *s);
    if (!s)
        return wfi_problem_memory(problem, xfile, "the data set", sizeof *s);
    s->mem = mem;
    for (int v = 0; v < 256; v++)
        s->scaled[v] = (float)v / 255.0f;
    wf_status st = images_read(s, xfile, yfile, problem);
    if (st) {
        images_close(s);
        return st;
    }
    wfi_dataset d = { .n = s->x.dims[0], .fill = images_fill, .close = images_close, .self = s };
    d.x = (wfi_part){ .dtype = WF_F32, .ndim = 3, .dims = { 1, s->x.dims[1], s->x.dims[2] } };
    d.y = (wfi_part){ .dtype = WF_I64, .ndim = 0 };
    if (!wfi_dataset_part(&d.x) || !wfi_dataset_part(&d.y)) {
        images_close(s);
        return wfi_problem_at(problem, WF_ERR_FORMAT, xfile, 8, "image size", "got a product over 2^47, want less");
    }
    s->pixels = d.x.bytes / sizeof(float);
    *out = d;
    return WF_OK;
}

/* ---- windows of a text's bytes ---- */

typedef struct text {
    wfi_mem *mem;
    void *file;
    const uint8_t *part; /* of file: the training or the test part */
    int64_t size;        /* of the part */
    int64_t t;           /* positions in a sample; it takes one byte more */
    bool whole;
} text;

static wf_status text_fill(void *self, const wfi_pick *pick, void *x, void *y, wfi_problem *problem)
{
    const text *s = self;
    int64_t t = s->t, start = pick->index * t, *xs = x, *ys = y;
    (void)problem;
    if (pick->shuffle)
        start = wfi_order_draw(pick->seed, pick->epoch, pick->position, s->size - t);
    const uint8_t *from = s->part + start;
    for (int64_t i = 0; i < t + s->whole; i++)
        xs[i] = from[i];
    for (int64_t i = 0; !s->whole && i < t; i++)
        ys[i] = from[i + 1];
    return WF_OK;
}

static void text_close(void *self)
{
    text *s = self;
    wfi_mem_free(s->mem, s->file);
    wfi_mem_free(s->mem, s);
}

static wf_status text_read(text *s, const char *path, bool test, wfi_problem *problem)
{
    size_t size;
    wf_status st = wfi_problem_read(s->mem, path, &s->file, &size, problem);
    if (st)
        return st;
    size_t held_out = size / 20, train = size - held_out;
    s->part = (const uint8_t *)s->file + (test ? train : 0);
    s->size = (int64_t)(test ? held_out : train);
    if (s->size <= s->t)
        return wfi_problem_set(problem, WF_ERR_FORMAT, "%.200s: the %s part has %lld bytes, want at least %lld", path,
                               test ? "test" : "train", (long long)s->size, (long long)s->t + 1);
    return WF_OK;
}

wf_status wfi_dataset_text(wfi_mem *mem, const char *path, bool test, const wfi_dataset_opts *opts, wfi_dataset *out,
                           wfi_problem *problem)
{
    *out = (wfi_dataset){ 0 };
    int64_t t = opts && opts->window ? opts->window : WINDOW;
    if (t < 1 || t >= WFI_DIM_MAX)
        return wfi_problem_set(problem, WF_ERR_ARG, "data: window is %lld, want 1 or more", (long long)t);
    text *s = wfi_mem_zalloc(mem, sizeof *s);
    if (!s)
        return wfi_problem_memory(problem, path, "the data set", sizeof *s);
    s->mem = mem;
    s->t = t;
    s->whole = opts && opts->whole;
    wf_status st = text_read(s, path, test, problem);
    if (st) {
        text_close(s);
        return st;
    }
    wfi_dataset d = { .n = (s->size - 1) / t, .fill = text_fill, .close = text_close, .self = s };
    d.x = (wfi_part){ .dtype = WF_I64, .ndim = 1, .dims = { t + s->whole } };
    (void)wfi_dataset_part(&d.x); /* t is below 2^47: this cannot overflow */
    if (!s->whole)
        d.y = d.x;
    *out = d;
    return WF_OK;
}

/* ---- names ---- */

typedef struct known {
    const char *name, *system_folder, *package; /* package: Debian's */
    const char *images[2], *labels[2];          /* train, test */
} known;

#define MNIST_FILES                                                                                                    \
    { "train-images-idx3-ubyte", "t10k-images-idx3-ubyte" },                                                           \
    {                                                                                                                  \
        "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"                                                            \
    }

static const known table[] = {
    { "fashion-mnist", "/usr/share/datasets/fashion-mnist", "dataset-fashion-mnist", MNIST_FILES },
    { "mnist", "/usr/share/datasets/mnist", NULL, MNIST_FILES },
};

/* FOLDER[/SUB]/FILE[.gz], whichever is there. */
static bool find(char path[PATH_BYTES], const char *folder, const char *sub, const char *file)
{
    for (int i = 0; i < 4; i++) {
        bool in_sub = i < 2;
        if (in_sub && !sub)
            continue;
        int n = snprintf(path, PATH_BYTES, "%s%s%s/%s%s", folder, in_sub ? "/" : "", in_sub ? sub : "", file,
                         i & 1 ? ".gz" : "");
        if (n > 0 && n < PATH_BYTES && !access(path, F_OK))
            return true;
    }
    return false;
}

static wf_status not_there(const known *k, const char *folder, const char *file, wfi_problem *problem)
{
    if (folder)
        return wfi_problem_set(
            problem, WF_ERR_IO,
            "data set %s: no file %s or %s.gz in %.120s/%s or %.120s (the folder that WEFT_DATA names)", k->name, file,
            file, folder, k->name, folder);
    return wfi_problem_set(problem, WF_ERR_IO,
                           "data set %s: no file %s or %s.gz in %s; %s%s%sset WEFT_DATA to the folder that holds it",
                           k->name, file, file, k->system_folder, k->package ? "install the Debian package " : "",
                           k->package ? k->package : "", k->package ? " or " : "");
}

static wf_status open_known(wfi_mem *mem, const known *k, bool test, const char *folder, wfi_dataset *out,
                            wfi_problem *problem)
{
    char xfile[PATH_BYTES], yfile[PATH_BYTES];
    const char *in = folder ? folder : k->system_folder, *sub = folder ? k->name : NULL;
    if (!find(xfile, in, sub, k->images[test]))
        return not_there(k, folder, k->images[test], problem);
    if (!find(yfile, in, sub, k->labels[test]))
        return not_there(k, folder, k->labels[test], problem);
    return wfi_dataset_images(mem, xfile, yfile, out, problem);
}

/* A copy of file[0..length) as a path. */
static wf_status path_of(char path[PATH_BYTES], const char *file, size_t length, wfi_problem *problem)
{
    if (length == 0 || length >= PATH_BYTES)
        return wfi_problem_set(problem, WF_ERR_ARG, "data set: got a file name of %zu bytes, want 1 to %d", length,
                               PATH_BYTES - 1);
    memcpy(path, file, length);
    path[length] = 0;
    return WF_OK;
}

/* IMAGES:LABELS */
static wf_status open_idx(wfi_mem *mem, const char *files, wfi_dataset *out, wfi_problem *problem)
{
    char xfile[PATH_BYTES];
    const char *labels = strchr(files, ':');
    if (!labels)
        return wfi_problem_set(problem, WF_ERR_ARG, "data set idx: got one file, want idx:IMAGES:LABELS");
    wf_status st = path_of(xfile, files, (size_t)(labels - files), problem);
    return st ? st : wfi_dataset_images(mem, xfile, labels + 1, out, problem);
}

static wf_status unknown(const char *name, wfi_problem *problem)
{
    char quoted[WFI_QUOTED];
    return wfi_problem_set(
        problem, WF_ERR_ARG,
        "no data set %s; there are fashion-mnist:train, fashion-mnist:test, mnist:train, mnist:test, "
        "idx:IMAGES:LABELS, text:FILE:train, text:FILE:test",
        wfi_problem_quote(quoted, name ? name : "", name ? strlen(name) : 0));
}

wf_status wfi_dataset_open(wfi_mem *mem, const char *name, const wfi_dataset_opts *opts, wfi_dataset *out,
                           wfi_problem *problem)
{
    *out = (wfi_dataset){ 0 };
    if (name && !strncmp(name, "idx:", 4))
        return open_idx(mem, name + 4, out, problem);
    const char *split = name ? strrchr(name, ':') : NULL;
    bool test = split && !strcmp(split, ":test");
    if (!split || (!test && strcmp(split, ":train") != 0))
        return unknown(name, problem);
    size_t length = (size_t)(split - name);
    if (length >= 5 && !strncmp(name, "text:", 5)) {
        char path[PATH_BYTES];
        wf_status st = path_of(path, name + 5, length - 5, problem);
        return st ? st : wfi_dataset_text(mem, path, test, opts, out, problem);
    }
    const char *folder = opts && opts->folder && *opts->folder ? opts->folder : NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == length && !strncmp(name, table[i].name, length))
            return open_known(mem, &table[i], test, folder, out, problem);
    return unknown(name, problem);
}
