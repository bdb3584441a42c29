/* Look-ups by index tensors, and their gradients. An index outside is a fault of the command. */
#include "device/cpu/cpu.h"
#include "kernel/index/index.h"

static const char *index_(const wfi_cpu *d, wfi_bind *b, const wfi_index_spec *s)
{
    b->fn = d->index->run;
    b->params_bytes = WFI_PARAMS_MAX;
    b->faults = true;
    return d->index->prepare(s, b->params, &b->scratch);
}

static int32_t norm(int32_t axis, int32_t ndim)
{
    return axis < 0 ? axis + ndim : axis;
}

static const char *gather(const wfi_cpu *d, wfi_bind *b)
{
    wfi_index_spec s = { .kind = WFI_INDEX_ROWS, .threads = b->threads, .v = { b->out, &b->in[0], &b->in[1] } };
    return index_(d, b, &s);
}

static const char *take_along(const wfi_cpu *d, wfi_bind *b)
{
    wfi_index_spec s = { .kind = WFI_INDEX_TAKE,
                         .axis = norm(b->attr->take_along.axis, b->in->ndim),
                         .threads = b->threads,
                         .v = { b->out, &b->in[0], &b->in[1] } };
    return index_(d, b, &s);
}

/* The kernel's places: result, base (none), what is added, index; the operators have the index first. */
static const char *adding(const wfi_cpu *d, wfi_bind *b, const wfi_index_spec *s)
{
    static const int8_t from[] = { 0, -1, 2, 1 };
    const char *why = index_(d, b, s);
    if (!why)
        wfi_impl_placed(b, d->index->run, from, 4);
    return why;
}

static const char *scatter_add(const wfi_cpu *d, wfi_bind *b)
{
    wfi_index_spec s = { .kind = WFI_INDEX_ADD_ROWS,
                         .threads = b->threads,
                         .v = { b->out, NULL, &b->in[1], &b->in[0] } };
    return adding(d, b, &s);
}

static const char *put_along(const wfi_cpu *d, wfi_bind *b)
{
    wfi_index_spec s = { .kind = WFI_INDEX_ADD_TAKEN,
                         .axis = norm(b->attr->put_along.axis, b->in->ndim),
                         .threads = b->threads,
                         .v = { b->out, NULL, &b->in[1], &b->in[0] } };
    return adding(d, b, &s);
}

static const wfi_impl impls[] = {
    { WFI_OP_gather, "cpu.gather", "", gather },
    { WFI_OP_take_along, "cpu.take_along", "", take_along },
    { WFI_OP_scatter_add, "cpu.scatter_add", "ascending", scatter_add },
    { WFI_OP_put_along, "cpu.put_along", "ascending", put_along },
};
const wfi_impl_list wfi_impls_index = { impls, sizeof impls / sizeof *impls };
