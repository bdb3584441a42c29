/* label.c - loads weights that fashion.c saved, labels test images with them, and draws a sheet of what it saw beside
 * the curves of the training run.
 *
 * usage: label WEIGHTS [--curves FILE] [--picture FILE] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fashion_net.h"
#include "picture.h"

enum { COUNT = 60, PIXELS = 28 * 28, STEPS_MAX = 1 << 20, EPOCHS_MAX = 4096 };

typedef struct curves {
    float *loss, *accuracy;
    int steps, epochs;
} curves;

static curves read_curves(const char *path)
{
    curves k = { calloc(STEPS_MAX, sizeof(float)), calloc(EPOCHS_MAX, sizeof(float)), 0, 0 };
    FILE *f = path ? fopen(path, "r") : NULL;
    char word[16];
    float v;
    while (f && k.loss && k.accuracy && fscanf(f, "%15s %f", word, &v) == 2)
        if (!strcmp(word, "step") && k.steps < STEPS_MAX)
            k.loss[k.steps++] = v;
        else if (!strcmp(word, "epoch") && k.epochs < EPOCHS_MAX)
            k.accuracy[k.epochs++] = v;
    if (f)
        fclose(f);
    return k;
}

/* The first images of the test set, and what the network takes them for. */
static int label_images(wf_ctx *c, wf_model *m, float *pixels, picture_sample *sample)
{
    wf_data *d = wf_data_open(c, "fashion-mnist:test", .batch = COUNT);
    wf_batch b;
    int64_t seen[COUNT] = { 0 }, label[COUNT] = { 0 };
    if (!wf_data_next(d, &b))
        return 0;
    wf_tensor *best = wf_argmax(fashion_net(m, b.x), 1);
    if (wf_read(c, best, seen, sizeof seen) != WF_OK || wf_read(c, b.y, label, sizeof label) != WF_OK ||
        wf_read(c, b.x, pixels, COUNT * PIXELS * sizeof *pixels) != WF_OK)
        return 0;
    int right = 0;
    for (int i = 0; i < COUNT; i++) {
        sample[i] = (picture_sample){ pixels + i * PIXELS, (int)seen[i], (int)label[i] };
        right += seen[i] == label[i];
    }
    printf("label: %d of the first %d test images are right\n", right, COUNT);
    return COUNT;
}

static bool draw(const char *path, const curves *k, const picture_sample *sample, int count)
{
    char subtitle[128], message[256];
    snprintf(subtitle, sizeof subtitle, "%d steps, %d epochs, test accuracy %.2f %%", k->steps, k->epochs,
             k->epochs ? 100.0 * (double)k->accuracy[k->epochs - 1] : 0.0);
    picture p = { .title = "Fashion-MNIST",
                  .subtitle = subtitle,
                  .loss = k->loss,
                  .steps = k->steps,
                  .accuracy = k->accuracy,
                  .epochs = k->epochs,
                  .samples = sample,
                  .count = count,
                  .classes = fashion_classes,
                  .class_count = 10 };
    if (picture_write(path, &p, message, sizeof message))
        return true;
    fprintf(stderr, "label: %s\n", message);
    return false;
}

int main(int argc, char **argv)
{
    const char *weights = argc > 1 ? argv[1] : NULL, *curve_path = NULL, *path = NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--curves"))
            curve_path = argv[i + 1];
        else if (!strcmp(argv[i], "--picture"))
            path = argv[i + 1];
    }
    if (!weights || weights[0] == '-') {
        fprintf(stderr, "usage: label WEIGHTS [--curves FILE] [--picture FILE]\n");
        return 2;
    }
    static float pixels[COUNT * PIXELS];
    static picture_sample sample[COUNT];
    wf_ctx *c = wf_ctx_new(NULL);
    wf_model *m = wf_model_new(c);
    curves k = read_curves(curve_path);
    int count = wf_model_load(m, weights) == WF_OK ? label_images(c, m, pixels, sample) : 0;
    bool ok = count && (!path || draw(path, &k, sample, count));
    free(k.loss);
    free(k.accuracy);
    int status = wf_ctx_close(c);
    return status ? status : !ok;
}
