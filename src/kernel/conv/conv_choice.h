/* conv_choice.h - the other ways in which a convolution can be run, for kernel/choice.h. Included by conv.c.
 *
 * Blocks, panels and who takes them change no bit: an element of y and of dx is one chain, and the blocks of a weight
 * gradient are 8 rows in every case. */
static const char *const way_name[WAYS] = { "block", "order", "read", "pieces", "panels", "threads" };

static void add_way(wfi_knob *k, int32_t value)
{
    k->value[k->n++] = value;
}

/* Those that all three have. */
static int common_ways(const conv_core *c, int threads, wfi_knob *knob)
{
    for (int i = 0; i < WAYS; i++) {
        knob[i] = (wfi_knob){ .name = way_name[i] };
    }
    add_way(&knob[WAY_READ], 2);
    if (threads > 1) {
        add_way(&knob[WAY_THREADS], 1);
    }
    return c->n && c->oh && c->ow ? WAYS : 0;
}

static int dense_ways(int threads, wfi_knob *knob)
{
    static const int32_t kib[] = { 24, 48, 72, 96, 144, 288, 384, 768 };
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++) {
        add_way(&knob[WAY_BLOCK], kib[i]);
    }
    add_way(&knob[WAY_ORDER], 1);
    add_way(&knob[WAY_ORDER], 2);
    for (int32_t parts = 2; parts <= 4; parts *= 2) {
        add_way(&knob[WAY_PANELS], parts);
    }
    for (int32_t pieces = 1; pieces <= 8 && threads > 1; pieces *= 2) {
        if (pieces != 4) {
            add_way(&knob[WAY_PIECES], pieces);
        }
    }
    return WAYS;
}

static bool is_sound(const wfi_choice *way)
{
    const int32_t *of = way->of;
    return of[WAY_BLOCK] >= 0 && of[WAY_BLOCK] <= 1 << 16 && of[WAY_ORDER] >= 0 && of[WAY_ORDER] <= 2 &&
           of[WAY_READ] >= 0 && of[WAY_READ] <= 2 && of[WAY_PIECES] >= 0 && of[WAY_PIECES] <= 64 &&
           of[WAY_PANELS] >= 0 && of[WAY_PANELS] <= 1 << 16 && of[WAY_THREADS] >= 0;
}

/* Into a core that was prepared by rule. */
static void take_way(conv_core *c, const wfi_choice *way, int threads)
{
    c->way = *way;
    c->threads = way->of[WAY_THREADS] && way->of[WAY_THREADS] < threads ? way->of[WAY_THREADS]
                 : threads > 1                                          ? threads
                                                                        : 1;
}

/* ---- forward ---- */

static int fwd_knobs(const void *params, int threads, wfi_knob *knob)
{
    const fwd_params *p = params;
    const int n = common_ways(&p->core, threads, knob);
    return n ? dense_ways(threads, knob) : 0;
}

static const char *fwd_choose(void *params, const wfi_choice *way, int threads, size_t *scratch)
{
    fwd_params *p = params, q = *p;
    if (!is_sound(way)) {
        return "no such way of doing it";
    }
    take_way(&q.core, way, threads);
    if (!real_of(q.core.wtype)->room(&q.core, &q.room)) {
        return "sizes overflow";
    }
    *p = q, *scratch = q.room.all;
    return NULL;
}

static void fwd_traits(const void *params, wfi_traits *t)
{
    const fwd_params *p = params;
    real_of(p->core.wtype)->traits(&p->core, t);
}

/* ---- input gradient: the phases are all like the first ---- */

static int igrad_knobs(const void *params, int threads, wfi_knob *knob)
{
    const igrad_params *p = params;
    const int n = p->h && p->w ? common_ways(&p->core, threads, knob) : 0;
    return n ? dense_ways(threads, knob) : 0;
}

static const char *igrad_choose(void *params, const wfi_choice *way, int threads, size_t *scratch)
{
    igrad_params *p = params, q = *p;
    if (!is_sound(way)) {
        return "no such way of doing it";
    }
    take_way(&q.core, way, threads);
    if (!igrad_room(&q)) {
        return "sizes overflow";
    }
    *p = q, *scratch = q.room.all;
    return NULL;
}

static void igrad_traits(const void *params, wfi_traits *t)
{
    const igrad_params *p = params;
    conv_core c;
    phase_core(p, 0, 0, &c);
    real_of(c.wtype)->traits(&c, t);
    const double n = (double)(phases(p->at.stride_h, p->h) * phases(p->at.stride_w, p->w));
    t->flops *= n, t->useful *= n, t->moved *= n, t->packed *= n, t->again *= n;
}

/* ---- weight gradient ---- */

static int wgrad_knobs(const void *params, int threads, wfi_knob *knob)
{
    const wgrad_params *p = params;
    const int n = common_ways(&p->grad.c, threads, knob);
    for (int32_t kib = 20; kib <= 640 && n; kib *= 2) {
        if (kib != 160) {
            add_way(&knob[WAY_BLOCK], kib);
        }
    }
    for (int32_t waves = 1; waves <= 2 && n && threads > 1; waves++) {
        add_way(&knob[WAY_ORDER], waves);
    }
    for (int32_t panels = 1; panels <= 4 && n; panels *= 2) {
        add_way(&knob[WAY_PANELS], panels);
    }
    return n;
}

static const char *wgrad_choose(void *params, const wfi_choice *way, int threads, size_t *scratch)
{
    wgrad_params *p = params, q = *p;
    if (!is_sound(way)) {
        return "no such way of doing it";
    }
    take_way(&q.grad.c, way, threads);
    if (!real_of(q.grad.c.wtype)->wroom(&q.grad.c, &q.room)) {
        return "sizes overflow";
    }
    *p = q, *scratch = q.room.all;
    return NULL;
}

static void wgrad_traits(const void *params, wfi_traits *t)
{
    const wgrad_params *p = params;
    real_of(p->grad.c.wtype)->wtraits(&p->grad.c, t);
}

static const wfi_choices fwd_choices = { fwd_knobs, fwd_choose, fwd_traits },
                         igrad_choices = { igrad_knobs, igrad_choose, igrad_traits },
                         wgrad_choices = { wgrad_knobs, wgrad_choose, wgrad_traits };
