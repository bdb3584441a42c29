/* Plans: the text of small fixed steps word for word, in-place variables and donated buffers, the arena against its
 * bound, and a checker that finds every kind of damage. */
#include "refeval.h"
#include "plan/plan.h"

/* ---- the planner of memory alone ---- */

static void offsets(void **state)
{
    (void)state;
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    rng r = { 5 };
    double worst = 1;
    for (int round = 0; round < 300; round++) {
        wfi_memplan_item item[60];
        uint32_t n = (uint32_t)rng_below(&r, 60);
        size_t bound = 0, sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = (uint32_t)rng_below(&r, 40);
            item[i] =
                (wfi_memplan_item){ (size_t)rng_below(&r, 5000), first, first + (uint32_t)rng_below(&r, 12), SIZE_MAX };
            sum += (item[i].bytes + 63) & ~(size_t)63;
        }
        size_t arena = wfi_memplan(&mem, item, n, &bound);
        assert_true(arena != SIZE_MAX && arena >= bound && arena <= sum);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(item[i].offset % 64 == 0 && (!item[i].bytes || item[i].offset + item[i].bytes <= arena));
            for (uint32_t j = 0; j < i; j++)
                if (item[i].bytes && item[j].bytes && item[i].first <= item[j].last && item[j].first <= item[i].last)
                    assert_true(item[i].offset + item[i].bytes <= item[j].offset ||
                                item[j].offset + item[j].bytes <= item[i].offset);
        }
        if (bound && (double)arena / (double)bound > worst)
            worst = (double)arena / (double)bound;
    }
    print_message("arena over bound, at worst: %.3f\n", worst);
    assert_int_equal(atomic_load(&mem.live), 0);
    wfi_memplan_item huge[2] = { { SIZE_MAX / 2, 0, 1, 0 }, { SIZE_MAX / 2 + 5000, 0, 1, 0 } };
    size_t bound;
    assert_true(wfi_memplan(&mem, huge, 2, &bound) == SIZE_MAX);
}

/* ---- fixed steps ---- */

typedef struct made {
    wf_ctx *c;
    wf_var *v[2];
    const char *name;
} made;
static const float numbers[64] = { 1, -2, 3, 0.5f, 2, 1, -1, 4 };

static void chain(made *m) /* every result takes the buffer of the one before */
{
    wf_scope s = wf_scope_begin(m->c, "chain");
    wf_tensor *x = wf_tensor_from(m->c, WF_F32, WF_DIMS(4, 4), numbers);
    for (int i = 0; i < 3; i++)
        x = wf_tanh(x);
    x = wf_matmul(x, x);
    (void)wf_scope_return(m->c, s, wf_exp(x));
    assert_int_equal(wf_scope_end(m->c, s), WF_OK);
}
static void diamond(made *m)
{
    wf_scope s = wf_scope_begin(m->c, "diamond");
    wf_tensor *x = wf_tensor_from(m->c, WF_F32, WF_DIMS(4, 4), numbers), *a = wf_matmul(x, wf_transpose(x));
    wf_tensor *r = wf_relu(a), *e = wf_exp(a);
    (void)wf_scope_return(m->c, s, wf_add(r, e));
    (void)wf_softmax(a, 0); /* nobody wants it: it is not in the plan */
    assert_int_equal(wf_scope_end(m->c, s), WF_OK);
}
static void update(made *m) /* one variable is written in place, the other has readers of its old value */
{
    wf_scope s = wf_scope_begin(m->c, "update");
    wf_tensor *a = wf_value(m->v[0]), *b = wf_value(m->v[1]);
    wf_assign(m->v[0], wf_add(a, wf_scalar(m->c, 1)));
    wf_assign(m->v[1], wf_mul(b, b));
    (void)wf_scope_return(m->c, s, b);
    assert_int_equal(wf_scope_end(m->c, s), WF_OK);
}
static void updates(made *m) /* two run as one; the third needs what the second makes */
{
    wf_scope s = wf_scope_begin(m->c, "updates");
    static const double rate[8] = { 0.5 };
    wf_tensor *g = wf_tensor_from(m->c, WF_F32, WF_DIMS(32), numbers), *one = wf_scalar(m->c, 1);
    wf_tensor *h = wf_tensor_from(m->c, WF_F64, WF_DIMS(8), rate);
    wf_tensor *a = wf_sgd_step(wf_value(m->v[0]), g, one, h), *b = wf_sgd_step(wf_value(m->v[1]), g, one, h);
    (void)wf_scope_return(m->c, s, wf_sgd_step(g, b, one, h));
    wf_assign(m->v[0], a);
    wf_assign(m->v[1], b);
    assert_int_equal(wf_scope_end(m->c, s), WF_OK);
}

static const struct {
    const char *name;
    void (*run)(made *);
    const char *text;
} fixed[] = {
    { "chain", chain,
      "plan: 3 commands, 5 nodes; arena 128 bytes, at most 128 are live at once (1.000); ran 1 times\n"
      "   0  cpu.fused                v1@arena+0 = fused(tanh i0; tanh t0; tanh t1) v0@input.0 : f32[4,4]\n"
      "   1  cpu.gemm                 v2@arena+64 = matmul v1@arena+0 v1@arena+0 : f32[4,4]\n"
      "   2  cpu.ew                   v3@fresh.0 = exp v2@arena+64 : f32[4,4]\n"
      "result 5 from fresh.0\n" },
    { "diamond", diamond,
      "plan: 2 commands, 5 nodes; arena 64 bytes, at most 64 are live at once (1.000); ran 1 times\n"
      "   0  cpu.gemm                 v2@arena+0 = matmul v0@input.0 v1@input.0~ : f32[4,4]\n"
      "   1  cpu.fused                v3@fresh.0 = fused(relu i0; exp i0; add t0 t1) v2@arena+0 : f32[4,4]\n"
      "result 5 from fresh.0\n" },
    { "update", update,
      "plan: 2 commands, 8 nodes; arena 0 bytes, at most 0 are live at once; ran 1 times\n"
      "   0  cpu.ew                   v3@var.0 = add v0@var.0 v2@scalar.2 : f32[32]\n"
      "   1  cpu.ew                   v4@fresh.0 = mul v1@var.1 v1@var.1 : f32[32]\n"
      "assign 0 from var.0, in place\n"
      "assign 1 from fresh.0\n"
      "result 1 from var.1\n" },
    { "updates", updates,
      "plan: 3 commands, 13 nodes; arena 0 bytes, at most 0 are live at once; ran 1 times\n"
      "   0  cpu.optim.sgd            v4@var.0 = sgd_step v2@var.0 v0@input.0 v3@scalar.3 v1@input.1 : f32[32]\n"
      "   1+ cpu.optim.sgd            v7@var.1 = sgd_step v5@var.1 v0@input.0 v6@scalar.7 v1@input.1 : f32[32]\n"
      "   2  cpu.optim.sgd            v9@fresh.0 = sgd_step v0@input.0 v7@var.1 v8@scalar.10 v1@input.1 : f32[32]\n"
      "result 12 from fresh.0\n"
      "assign 0 from var.0, in place\n"
      "assign 1 from var.1, in place\n" },
};

static made open_made(const char *name)
{
    made m = { .c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1 }), .name = name };
    assert_non_null(m.c);
    for (int i = 0; i < 2; i++)
        assert_non_null(m.v[i] = wf_var_new(m.c, i ? "b" : "a", WF_F32, WF_DIMS(32), numbers));
    return m;
}
static void close_made(made *m)
{
    assert_int_equal(wf_ctx_close(m->c), WF_OK);
}

static void golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        made m = open_made(fixed[i].name);
        for (int k = 0; k < 2; k++) {
            wf_scope around = wf_scope_begin(m.c, "around", .group = true);
            fixed[i].run(&m);
            wf_scope_end(m.c, around);
        }
        assert_non_null(m.c->last_plan);
        wfi_text t = { .mem = m.c->mem };
        wfi_plan_print(m.c->last_plan, false, &t);
        assert_string_equal(wfi_text_str(&t), fixed[i].text);
        wfi_text_free(&t);
        assert_non_null(strstr(wf_explain_plan(m.c), "test_plan.c:")); /* the user's form has source lines */
        close_made(&m);
    }
}

/* With reuse off no two storages share a byte, and the arena is the sum of all. */
static void no_reuse(void **state)
{
    (void)state;
    setenv("WEFT_REUSE", "0", 1);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        made m = open_made(fixed[i].name);
        for (int k = 0; k < 2; k++)
            fixed[i].run(&m);
        const wfi_plan *p = m.c->last_plan;
        assert_true(p && !p->reuse);
        for (uint32_t a = 0; a < p->nstorage; a++)
            for (uint32_t b = 0; b < a; b++)
                if (p->storage[a].place == WFI_PLACE_ARENA && p->storage[b].place == WFI_PLACE_ARENA)
                    assert_true(p->storage[a].offset + p->storage[a].bytes <= p->storage[b].offset ||
                                p->storage[b].offset + p->storage[b].bytes <= p->storage[a].offset);
        close_made(&m);
    }
    unsetenv("WEFT_REUSE");
}

/* ---- damage ---- */

/* A step with enough in it: forward, gradients, an update. */
static void rich(made *m)
{
    wf_scope s = wf_scope_begin(m->c, "rich");
    wf_tensor *w = wf_value(m->v[0]), *x = wf_tensor_from(m->c, WF_F32, WF_DIMS(8, 8), numbers), *g = NULL;
    wf_tensor *h = wf_tanh(wf_matmul(x, wf_reshape(w, WF_DIMS(8, 4))));
    wf_tensor *y = wf_layer_norm(wf_add(wf_relu(h), wf_exp(h)));
    wf_tensor *loss = wf_sum(wf_mul(wf_softmax(y, -1), wf_slice(x, 1, 0, 4)), WF_NO_DIMS);
    assert_int_equal(wf_grad(loss, 1, &w, &g), WF_OK);
    wf_assign(m->v[0], wf_sub(w, wf_mul(g, wf_scalar(m->c, 0.1))));
    (void)wf_scope_return(m->c, s, loss);
    assert_int_equal(wf_scope_end(m->c, s), WF_OK);
}

static void must_find(wf_ctx *c, wfi_plan *p, const char *what)
{
    char err[256] = "";
    if (wfi_plan_check(c->mem, p, err, sizeof err))
        fail_msg("the checker did not find: %s", what);
    assert_true(strlen(err) > 10 && strstr(err, "command "));
}
static void must_pass(wf_ctx *c, wfi_plan *p)
{
    char err[256] = "";
    if (!wfi_plan_check(c->mem, p, err, sizeof err))
        fail_msg("a plan that is right was refused: %s", err);
}

static void damage(const char *skip, int enough)
{
    if (skip)
        setenv("WEFT_SKIP", skip, 1);
    made m = open_made("rich");
    for (int k = 0; k < 3; k++) {
        wf_scope around = wf_scope_begin(m.c, "around", .group = true);
        rich(&m);
        wf_scope_end(m.c, around);
    }
    wfi_plan *p = m.c->last_plan;
    int overlaps = 0, swaps = 0, wrong = 0;
    assert_true(p && (int)p->ncmd > enough);
    must_pass(m.c, p);
    for (uint32_t a = 0; a < p->nstorage; a++) {
        wfi_storage *s = &p->storage[a], was = *s;
        if (s->place != WFI_PLACE_ARENA || !s->bytes)
            continue;
        for (uint32_t b = 0; b < p->nstorage; b++) { /* moved onto one that is alive at the same time */
            const wfi_storage *o = &p->storage[b];
            if (b == a || o->place != WFI_PLACE_ARENA || !o->bytes || o->first > s->last || s->first > o->last)
                continue;
            s->offset = o->offset;
            if (s->offset + s->bytes <= p->arena) {
                must_find(m.c, p, "two values that live at once share memory");
                overlaps++;
            }
            s->offset = o->offset + o->bytes - 1; /* by one byte */
            if (s->offset + s->bytes <= p->arena) {
                must_find(m.c, p, "two values share one byte");
                overlaps++;
            }
            *s = was;
        }
        s->offset = p->arena - s->bytes + 1;
        must_find(m.c, p, "a storage outside the arena");
        *s = was;
        s->bytes--;
        must_find(m.c, p, "a value larger than its storage");
        *s = was;
        s->place = WFI_PLACE_NONE;
        must_find(m.c, p, "a value without memory");
        *s = was;
        must_pass(m.c, p);
    }
    for (uint32_t q = 0; q + 1 < p->ncmd; q++) { /* commands change places */
        uint32_t n = p->cmd_node[q];
        p->cmd_node[q] = p->cmd_node[q + 1];
        p->cmd_node[q + 1] = n;
        must_find(m.c, p, "two commands changed places");
        p->cmd_node[q + 1] = p->cmd_node[q];
        p->cmd_node[q] = n;
        swaps++;
    }
    for (uint32_t q = 1; q < p->ncmd; q++) { /* an operand is looked for in another storage */
        const wfi_node *n = &p->graph.node[p->cmd_node[q]];
        uint32_t v = n->out0, s = p->value_storage[v];
        if (p->storage[s].place != WFI_PLACE_ARENA || p->storage[s].first == p->storage[s].last ||
            p->storage[s].first != q)
            continue;
        for (uint32_t t = 0; t < p->nstorage; t++)
            if (t != s && p->storage[t].place == WFI_PLACE_ARENA && p->storage[t].bytes >= p->storage[s].bytes &&
                p->storage[t].first < q && p->storage[t].last > q) {
                p->value_storage[v] = t;
                must_find(m.c, p, "a value in a storage that another one needs");
                p->value_storage[v] = s;
                wrong++;
            }
    }
    p->ncmd--;
    must_find(m.c, p, "a command is missing");
    p->ncmd++;
    p->arena -= 64;
    must_find(m.c, p, "an arena that is too small");
    p->arena += 64;
    for (uint32_t r = 0; r + 1 < p->nrun; r++) { /* every command needs one before it */
        uint32_t was = p->run0[r + 1];
        p->run0[r + 1] = p->run0[r];
        must_find(m.c, p, "a run of nothing");
        p->run0[r + 1] = was;
    }
    uint32_t was = p->nrun, end = p->run0[1];
    p->nrun = 1;
    must_find(m.c, p, "commands that are not submitted");
    p->run0[1] = p->ncmd;
    must_find(m.c, p, "commands side by side that need each other");
    p->nrun = was, p->run0[1] = end;
    must_pass(m.c, p);
    assert_true(overlaps > enough && swaps >= enough && wrong > 0);
    close_made(&m);
    unsetenv("WEFT_SKIP");
}
static void damaged(void **state)
{
    (void)state;
    damage("simplify,fuse", 10);
    damage(NULL, 5);
}

/* An assignment whose old value is read later must not be written in place; one without readers is. */
static void in_place(void **state)
{
    (void)state;
    made m = open_made("in place");
    for (int k = 0; k < 3; k++) {
        wf_scope around = wf_scope_begin(m.c, "around", .group = true);
        update(&m);
        wf_scope_end(m.c, around);
    }
    const wfi_plan *p = m.c->last_plan;
    int written = 0, fresh = 0;
    for (uint32_t i = 0; i < p->nout; i++)
        if (p->out[i].assign) {
            const wfi_storage *s = &p->storage[p->out[i].storage];
            written += s->place == WFI_PLACE_VAR && s->written && s->id == p->out[i].id;
            fresh += s->place == WFI_PLACE_FRESH;
        }
    assert_true(written == 1 && fresh == 1);
    float a[32], b[32];
    assert_int_equal(wf_read(m.c, wf_value(m.v[0]), a, sizeof a), WF_OK);
    assert_int_equal(wf_read(m.c, wf_value(m.v[1]), b, sizeof b), WF_OK);
    assert_true(a[0] == 4 && a[1] == 1 && b[1] == 256 && b[2] == 6561);
    close_made(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(offsets), cmocka_unit_test(golden), cmocka_unit_test(no_reuse),
                                        cmocka_unit_test(damaged), cmocka_unit_test(in_place) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
