/* progress.c - see progress.h. */
#include "progress.h"
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 256, BAR_MIN = 10, BAR_MAX = 30 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

progress progress_begin(FILE *out, bool quiet, int epochs, int64_t steps)
{
    progress p = { .out = quiet ? NULL : out, .unit = "images", .epochs = epochs, .steps = steps };
    p.terminal = p.out && isatty(fileno(out));
    p.start = p.last = p.epoch_start = p.drawn = now();
    return p;
}

double progress_seconds(const progress *p)
{
    return now() - p->start;
}

/* 1234567 -> "1,234,567" */
static const char *grouped(double v, char out[32])
{
    char plain[32];
    int n = snprintf(plain, sizeof plain, "%.0f", v < 1e12 ? v : 1e12), o = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[o++] = ',';
        out[o++] = plain[i];
    }
    out[o] = 0;
    return out;
}

static const char *clock_of(double seconds, char out[32])
{
    int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        (void)snprintf(out, 32, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        (void)snprintf(out, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
    return out;
}

/* Steps that are left at the mean pace, and evaluations at theirs. */
static double time_left(const progress *p, int epoch)
{
    int64_t all = p->steps * p->epochs;
    double steps = p->done > 0 ? (double)(all - p->done) * p->busy / (double)p->done : 0;
    double left = steps + (epoch > 0 ? p->evaluating / epoch * (p->epochs - epoch) : 0);
    double limit = p->limit > 0 ? p->limit - (p->last - p->start) : left;
    return limit < left ? limit : left;
}

static int columns(const progress *p)
{
    struct winsize w;
    return ioctl(fileno(p->out), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* What stands behind the bar. */
static void describe(const progress *p, int epoch, char out[LINE])
{
    char rate[32], left[32], accuracy[32] = "";
    double seconds = p->rate_weight > 0 ? p->rate / p->rate_weight : 0;
    if (p->accuracy >= 0 && p->weight > 0)
        (void)snprintf(accuracy, sizeof accuracy, "  acc %.1f %%", 100 * p->accuracy / p->weight);
    (void)snprintf(out, LINE, "  loss %.3f%s  %s %s/s  %s left", p->weight > 0 ? p->loss / p->weight : 0.0, accuracy,
                   grouped(seconds > 0 ? 1 / seconds : 0, rate), p->unit, clock_of(time_left(p, epoch), left));
}

static void draw_bar(const progress *p, int epoch, int64_t step, const char *text)
{
    char head[64], count[64], bar[BAR_MAX + 1];
    int h = snprintf(head, sizeof head, "epoch %d/%d ", epoch + 1, p->epochs);
    int n = snprintf(count, sizeof count, " %lld/%lld", (long long)step, (long long)p->steps);
    int room = columns(p) - 1 - h - n - (int)strlen(text) - 2;
    int width = room > BAR_MAX ? BAR_MAX : room, full = 0;
    if (width >= BAR_MIN) {
        full = p->steps > 0 ? (int)(step * width / p->steps) : 0;
        for (int i = 0; i < width; i++)
            bar[i] = i < full ? '=' : i == full ? '>' : ' ';
        bar[width] = 0;
        (void)fprintf(p->out, "\r%s[%s]%s%s\033[K", head, bar, count, text);
    } else { /* a narrow window: what fits, without the bar */
        char line[LINE + 128];
        (void)snprintf(line, sizeof line, "%s%s%s", head, count + 1, text);
        (void)fprintf(p->out, "\r%.*s\033[K", columns(p) - 1, line);
    }
}

static void show(progress *p, int epoch, int64_t step)
{
    char text[LINE];
    double t = p->last;
    bool last = step == p->steps && p->terminal;
    if (!p->out || (!last && t - p->drawn < (p->terminal ? 0.1 : 10.0)))
        return;
    p->drawn = t;
    describe(p, epoch, text);
    if (p->terminal)
        draw_bar(p, epoch, step, text);
    else
        (void)fprintf(p->out, "epoch %d/%d, step %lld/%lld:%s\n", epoch + 1, p->epochs, (long long)step,
                      (long long)p->steps, text + 1);
    (void)fflush(p->out);
}

void progress_step(progress *p, int epoch, int64_t step, int64_t images, double loss, double accuracy)
{
    double t = now(), seconds = t - p->last, keep = 0.98;
    p->last = t;
    p->busy += seconds;
    p->done++;
    p->images += images;
    p->epoch_images += images;
    p->epoch_loss += loss;
    p->epoch_steps++;
    p->weight = p->weight * keep + 1;
    p->loss = p->loss * keep + loss;
    p->accuracy = accuracy < 0 ? -1 : p->accuracy * keep + accuracy;
    p->rate = p->rate * keep + seconds;
    p->rate_weight = p->rate_weight * keep + (double)images;
    show(p, epoch, step + 1);
}

void progress_epoch(progress *p, int epoch, double test_accuracy)
{
    char rate[32], accuracy[48] = "";
    double t = now(), seconds = p->last - p->epoch_start;
    p->evaluating += t - p->last;
    if (test_accuracy >= 0)
        (void)snprintf(accuracy, sizeof accuracy, ", test accuracy %.2f %%", 100 * test_accuracy);
    if (p->out) {
        (void)fprintf(p->out, "%sepoch %d/%d: mean loss %.4f%s, %s %s/s, %.1f s\n", p->terminal ? "\r\033[K" : "",
                      epoch + 1, p->epochs, p->epoch_steps ? p->epoch_loss / (double)p->epoch_steps : 0.0, accuracy,
                      grouped(seconds > 0 ? (double)p->epoch_images / seconds : 0, rate), p->unit, t - p->epoch_start);
        (void)fflush(p->out);
    }
    p->last = p->epoch_start = p->drawn = now();
    p->epoch_images = p->epoch_steps = 0;
    p->epoch_loss = 0;
}

void progress_end(progress *p)
{
    if (p->out && p->terminal)
        (void)fprintf(p->out, "\r\033[K");
    if (p->out)
        (void)fflush(p->out);
    p->out = NULL;
}
