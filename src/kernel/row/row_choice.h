/* row_choice.h - the other ways in which rows can be run, for kernel/choice.h. Included by row.c.
 *
 * Rows do not know of each other: how many are taken together, by whom and how they are written changes no bit. */
enum {
    WAY_TOGETHER, /* rows that one call of the kernel takes */
    WAY_WRITE,    /* results: 1 through the caches, 2 past them */
    WAY_CHUNK,    /* elements of a piece of work, in thousands */
    WAY_TURN,     /* rows brought in together */
    WAY_THREADS,  /* at most */
    WAYS
};
_Static_assert((int)WAYS <= (int)WFI_KNOBS, "WAYS");

/* Number in company[].several of the function for so many rows; -1: there is none, or the rows are too long. */
static int several_of(const params *p, int32_t rows)
{
    const struct company *c = &company[p->kind];
    for (int i = 0; i < 2; i++) {
        if (c->several[i].rows == rows && c->several[i].fn[p->as == AS_F64] && p->in_place && p->n > 0 &&
            p->n * bytes_of(p->type[0]) <= c->several[i].most) {
            return i;
        }
    }
    return -1;
}

static void add_way(wfi_knob *k, int32_t value)
{
    k->value[k->n++] = value;
}

static int knobs(const void *params_, int threads, wfi_knob *knob)
{
    static const char *const name[WAYS] = { "together", "write", "chunk", "turn", "threads" };
    const params *p = params_;
    if (p->kind == WFI_ROW_NORM_PARAM_GRAD || !p->nrows || !p->n) {
        return 0;
    }
    for (int i = 0; i < WAYS; i++) {
        knob[i] = (wfi_knob){ .name = name[i] };
    }
    for (int32_t rows = 1; rows <= MOST_TOGETHER; rows *= 2) {
        if (rows != p->together && (rows == 1 ? p->together > 1 : several_of(p, rows) >= 0)) {
            add_way(&knob[WAY_TOGETHER], rows);
        }
    }
    if (p->can_stream) {
        add_way(&knob[WAY_WRITE], p->stream ? 1 : 2);
    }
    for (int32_t chunk = 8; chunk <= 1024 && chunk * 500 < p->nrows * p->n; chunk *= 2) {
        add_way(&knob[WAY_CHUNK], chunk);
    }
    for (int32_t turn = 4; turn < TURN && !p->in_place; turn *= 2) {
        add_way(&knob[WAY_TURN], turn);
    }
    if (threads > 1) {
        add_way(&knob[WAY_THREADS], 1);
    }
    return WAYS;
}

static const char *choose(void *params_, const wfi_choice *way, int threads, size_t *scratch)
{
    params *p = params_, q;
    const int32_t *of = way->of;
    if (p->kind == WFI_ROW_NORM_PARAM_GRAD || !p->nrows || !p->n) {
        return "nothing can be chosen";
    }
    if (of[WAY_TOGETHER] < 0 || (of[WAY_TOGETHER] > 1 && several_of(p, of[WAY_TOGETHER]) < 0) || of[WAY_WRITE] < 0 ||
        of[WAY_WRITE] > 2 || (of[WAY_WRITE] == 2 && !p->can_stream) || of[WAY_CHUNK] < 0 || of[WAY_CHUNK] > 1 << 16 ||
        of[WAY_TURN] < 0 || of[WAY_TURN] > TURN || of[WAY_THREADS] < 0) {
        return "no such way of doing it";
    }
    q = *p;
    if (of[WAY_TOGETHER]) {
        q.together = of[WAY_TOGETHER];
        q.several = q.together > 1 ? several_of(p, q.together) : 0;
    }
    q.turn = q.in_place ? q.together : of[WAY_TURN] ? of[WAY_TURN] : q.turn;
    q.stream = of[WAY_WRITE] ? of[WAY_WRITE] == 2 : q.stream;
    q.threads = (int32_t)least(threads > 0 ? threads : 1, of[WAY_THREADS] ? of[WAY_THREADS] : threads);
    q.threads = q.threads > 0 ? q.threads : 1;
    q.per = items_a_chunk(q.nrows, q.n, q.threads);
    if (of[WAY_CHUNK]) {
        q.per = least(q.nrows, of[WAY_CHUNK] * INT64_C(1000) / q.n + 1);
    }
    *scratch = scratch_bytes(&q);
    memcpy(p, &q, sizeof q);
    return NULL;
}

static void traits(const void *params_, wfi_traits *t)
{
    const params *p = params_;
    const double all = (double)p->nrows * (double)p->n, row_bytes = (double)p->n * (double)bytes_of(p->type[0]);
    *t = (wfi_traits){ .flops = all, .useful = all, .kind = (p->stream ? 4 : 0) + p->together / 2, .loads = 1 };
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        const bool rows = p->role[i] == 'X' || p->role[i] == 'Y';
        t->moved += rows ? all * (double)bytes_of(p->type[i]) : 0;
        t->packed += rows && !p->direct[i] ? all * (double)element_bytes(p) : 0;
    }
    t->again = p->stream ? 0 : all * (double)bytes_of(p->type[0]); /* a line that is written is read first */
    t->near = row_bytes * (double)p->turn;
    t->block = (double)p->per * row_bytes;
    t->pieces = (double)((p->nrows + p->per - 1) / p->per);
    t->threads = p->threads;
    t->alike = wfi_hash64(p, sizeof *p, 0);
}

static const wfi_choices choices = { knobs, choose, traits };
