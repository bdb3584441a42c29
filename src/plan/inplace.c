/* Which storages may be one. Storages are joined by a pointer from one to the other and values are moved over once, at
 * the end, so that the time is that of the graph and not of its square. */
#include "plan/builder.h"

typedef struct joiner {
    const wfi_plan_builder *b;
    wfi_plan *p;
    const wfi_graph *g;
    uint32_t *to;       /* of each storage: the one that it became, or itself */
    uint32_t *first;    /* of each storage: the first value in it, the one that was computed; views come later */
    uint32_t *leaves;   /* of each storage: how often it leaves the step */
    uint32_t *assigned; /* of each variable: how often */
} joiner;

static uint32_t now(const joiner *j, uint32_t s)
{
    while (j->to[s] != s)
        s = j->to[s] = j->to[j->to[s]];
    return s;
}

static uint32_t storage_of(const joiner *j, uint32_t v)
{
    return v == WFI_NO_VALUE ? v : now(j, j->p->value_storage[v]);
}

static void become(joiner *j, uint32_t from, uint32_t to)
{
    j->to[from] = to;
    j->leaves[to] += j->leaves[from];
    j->p->storage[from].place = WFI_PLACE_NONE;
}

/* May the value assigned by out[i] be born in the variable's own buffer? Once assigned, kept by nobody else, the old
 * value kept by nobody. */
static bool born_in_var(const joiner *j, uint32_t i, uint32_t *var_s)
{
    const wfi_plan_out *o = &j->p->out[i];
    const uint32_t at = now(j, o->storage);
    const wfi_storage *s = &j->p->storage[at];
    const wfi_layout *l = wfi_layout_at(j->g->ids, o->layout);
    if (s->place != WFI_PLACE_FRESH || !l->contiguous || l->offset || s->first + 1 < j->b->last_fault ||
        (*var_s = j->b->of_var[o->id]) == WFI_NO_VALUE)
        return false;
    return wfi_type_at(j->g->ids, l->type)->bytes == s->bytes && j->leaves[at] == 1 && j->leaves[*var_s] == 0 &&
           j->assigned[o->id] == 1;
}

/* Is operand storage `s` of a node one that its result may overwrite, element by element? */
static bool overwrites(const joiner *j, uint32_t node, uint32_t result, uint32_t s, uint32_t layout)
{
    const wfi_node *n = &j->g->node[node];
    uint32_t bits = j->b->bound[node]->out[result].inplace;
    bool found = false;
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = j->g->in[n->in0 + i];
        if (storage_of(j, v) != s)
            continue;
        if (!(i < 32 && bits >> i & 1) || j->p->value_layout[v] != layout)
            return false; /* also read in another way */
        found = true;
    }
    return found;
}

static void inplace_vars(joiner *j)
{
    wfi_plan *p = j->p;
    for (uint32_t i = 0; i < p->nout; i++) {
        uint32_t vs;
        if (!p->out[i].assign || !born_in_var(j, i, &vs))
            continue;
        uint32_t s = now(j, p->out[i].storage), value = j->first[s], node = j->g->value[value].node;
        uint32_t at = p->storage[s].first;
        bool dead = p->storage[vs].last < at;
        if (p->storage[vs].last == at)
            dead = overwrites(j, node, value - j->g->node[node].out0, vs, p->out[i].layout);
        if (!dead)
            continue;
        p->storage[vs].written = true;
        p->storage[vs].last = p->ncmd;
        become(j, s, vs);
    }
}

/* Result o of node k takes the buffer of an operand that dies there, if one may be had. */
static void donate(joiner *j, uint32_t k, uint32_t o)
{
    wfi_plan *p = j->p;
    const wfi_node *n = &j->g->node[k];
    const uint32_t mine = storage_of(j, n->out0 + o), cmd = j->b->cmd_of[k];
    if (p->storage[mine].place != WFI_PLACE_ARENA || p->storage[mine].first != cmd)
        return;
    for (uint32_t i = 0; i < n->nin && i < 32; i++) {
        uint32_t s = storage_of(j, j->g->in[n->in0 + i]);
        if (s == WFI_NO_VALUE || s == mine || p->storage[s].place != WFI_PLACE_ARENA || p->storage[s].last != cmd ||
            p->storage[s].bytes != p->storage[mine].bytes || !overwrites(j, k, o, s, p->value_layout[n->out0 + o]))
            continue;
        p->storage[s].last = p->storage[mine].last;
        become(j, mine, s);
        return;
    }
}

static void count(joiner *j)
{
    for (uint32_t s = 0; s < j->p->nstorage; s++)
        j->to[s] = s;
    for (size_t v = j->g->nvalue; v-- > 0;)
        j->first[j->p->value_storage[v]] = (uint32_t)v;
    for (uint32_t i = 0; i < j->p->nout; i++) {
        j->leaves[j->p->out[i].storage]++;
        j->assigned[j->p->out[i].id] += j->p->out[i].assign;
    }
}

static void move_values(joiner *j)
{
    for (size_t v = 0; v < j->g->nvalue; v++)
        j->p->value_storage[v] = storage_of(j, (uint32_t)v);
    for (uint32_t i = 0; i < j->p->nout; i++)
        j->p->out[i].storage = now(j, j->p->out[i].storage);
}

bool wfi_plan_inplace(wfi_plan_builder *b)
{
    wfi_mem *m = b->c->mem;
    const size_t ns = (size_t)b->p->nstorage + 1;
    uint32_t ids = (uint32_t)b->c->nvar; /* of variables and, in out[], of records */
    for (uint32_t i = 0; i < b->p->nout; i++)
        ids = b->p->out[i].id > ids ? b->p->out[i].id : ids;
    joiner j = { .b = b,
                 .p = b->p,
                 .g = b->g,
                 .to = wfi_mem_array(m, ns, sizeof *j.to),
                 .first = wfi_mem_zalloc(m, ns * sizeof *j.first),
                 .leaves = wfi_mem_zalloc(m, ns * sizeof *j.leaves),
                 .assigned = wfi_mem_zalloc(m, ((size_t)ids + 1) * sizeof *j.assigned) };
    bool ok = j.to && j.first && j.leaves && j.assigned;
    if (ok) {
        count(&j);
        inplace_vars(&j);
        for (uint32_t k = 0; k < b->g->nnode; k++)
            for (uint32_t o = 0; b->bound[k] && b->cmd_of[k] != WFI_NO_VALUE && o < b->g->node[k].nout; o++)
                donate(&j, k, o);
        move_values(&j);
    }
    void *const parts[] = { j.to, j.first, j.leaves, j.assigned };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(m, parts[i]);
    return ok;
}
