/* The sixteen functions of the CPU. Commands run on the submitting thread, which the worker pool helps inside each
 * command; work on the CPU is therefore done when submit returns, and its timeline is moved at once. */
#include "device/cpu/cpu.h"
#include <sched.h>
#include <string.h>
#include "base/clock.h"
#include "base/env.h"
#include "codegen/generator.h"
#include "tune/records.h"

static int probe(void)
{
    return 1;
}

static void device_close(wfi_device *d)
{
    wfi_generator_free(d->generator);
    wfi_records_free(d->records);
    wfi_pool_free(d->pool);
    wfi_mem_free(d->mem, d);
}

static wfi_device *device_open(wfi_mem *mem, int index, int threads)
{
    wfi_cpu *d = index == 0 ? wfi_mem_zalloc(mem, sizeof *d) : NULL;
    if (!d)
        return NULL;
    d->base = (wfi_device){ .api = &wfi_device_cpu, .mem = mem, .threads = threads };
    wfi_cpu_choose(d, wfi_isa_best());
    d->base.generator = wfi_generator_new(mem, wfi_isa_name(d->isa < WFI_ISA_AVX512 ? d->isa : WFI_ISA_AVX512));
    d->base.records = wfi_records_new(mem, wfi_cpu_identity, d);
    if (!d->base.generator || !d->base.records || (threads > 1 && !(d->base.pool = wfi_pool_new(mem, threads)))) {
        device_close(&d->base);
        return NULL;
    }
    return &d->base;
}

static void *memory_alloc(wfi_device *d, size_t bytes)
{
    return wfi_mem_alloc(d->mem, bytes);
}

static void memory_free(wfi_device *d, void *p)
{
    wfi_mem_free(d->mem, p);
}

static void *memory_map(wfi_device *d, void *p)
{
    (void)d;
    return p;
}

static wfi_queue *queue_new(wfi_device *d)
{
    wfi_queue *q = wfi_mem_zalloc(d->mem, sizeof *q);
    if (q)
        q->device = d;
    return q;
}

static void queue_del(wfi_queue *q)
{
    if (!q)
        return;
    wfi_mem_free(q->device->mem, q->scratch);
    wfi_mem_free(q->device->mem, q);
}

bool wfi_queue_reserve(wfi_queue *q, size_t bytes)
{
    if (bytes <= q->scratch_bytes)
        return true;
    void *p = q->device->api->alloc(q->device, bytes);
    if (!p)
        return false;
    q->device->api->free(q->device, q->scratch);
    q->scratch = p;
    q->scratch_bytes = bytes;
    return true;
}

static wf_status queue_wait(wfi_queue *q, uint64_t value)
{
    while (atomic_load_explicit(&q->value, memory_order_acquire) < value)
        sched_yield();
    return WF_OK;
}

static uint64_t queue_poll(const wfi_queue *q)
{
    return atomic_load_explicit(&q->value, memory_order_acquire);
}

static void run_commands(wfi_queue *q, const wfi_cmd *cmd, uint32_t n, const wfi_run *run);

/* Everything that is no kernel. */
static void run_other(wfi_queue *q, const wfi_cmd *k, const wfi_run *run)
{
    switch ((wfi_cmd_kind)k->kind) {
    case WFI_CMD_COPY: memcpy(k->args[0], k->args[1], k->bytes); break;
    case WFI_CMD_FILL: memset(k->args[0], 0, k->bytes); break;
    case WFI_CMD_STAMP: {
        uint64_t ns = wfi_clock_ns();
        memcpy(k->args[0], &ns, sizeof ns);
        break;
    }
    case WFI_CMD_EXEC: {
        const wfi_cmd_batch *b = k->params;
        run_commands(q, b->cmd, b->n, run);
        break;
    }
    case WFI_CMD_HOST: k->fn(k->params, k->args, run); break;
    default: break; /* a barrier: commands run in order as it is */
    }
}

static void run_commands(wfi_queue *q, const wfi_cmd *cmd, uint32_t n, const wfi_run *run)
{
    for (const wfi_cmd *k = cmd, *end = cmd + n; k < end; k++) {
        if (__builtin_expect(k->kind == WFI_CMD_KERNEL, 1))
            k->fn(k->params, k->args, run);
        else
            run_other(q, k, run);
        if (__builtin_expect(k->faults, 0) && atomic_load_explicit(&q->fault.set, memory_order_relaxed)) {
            q->fault.node = k->node;
            return;
        }
    }
}

static wf_status submit(wfi_queue *q, const wfi_cmd *cmd, uint32_t n, const wfi_event *waits, uint32_t nwaits,
                        uint64_t signal)
{
    const wfi_run run = { .pool = q->device->pool, .scratch = q->scratch, .fault = &q->fault };
    for (uint32_t i = 0; i < nwaits; i++)
        (void)waits[i].queue->device->api->wait(waits[i].queue, waits[i].value);
    run_commands(q, cmd, n, &run);
    uint64_t now = atomic_load_explicit(&q->value, memory_order_relaxed);
    atomic_store_explicit(&q->value, signal ? signal : now + 1, memory_order_release);
    return __builtin_expect(atomic_load_explicit(&q->fault.set, memory_order_relaxed), 0) ? q->fault.status : WF_OK;
}

static const char *bind(wfi_device *device, wfi_bind *b)
{
    const wfi_cpu *d = (const wfi_cpu *)device;
    const char *why = "no implementation";
    bool ew = b->op < WFI_OP_COUNT && wfi_op_table[b->op].flags & WFI_OP_EW;
    for (const wfi_impl_list *const *l = wfi_impl_lists; *l; l++)
        for (uint32_t i = 0; i < (*l)->n; i++) {
            const wfi_impl *k = &(*l)->impl[i];
            if (k->op != b->op && !(k->op == WFI_IMPL_EW && ew))
                continue;
            b->fn = NULL;
            b->params_bytes = b->scratch = 0;
            b->alias = -1;
            b->alias_offset = 0;
            b->inplace = 0;
            b->faults = b->tunable = b->tuned = false;
            if (b->offer)
                b->offer->nknob = 0;
            b->keep = (wfi_keep){ .bytes = 0 };
            b->how = NULL;
            memset(b->inplace_of, 0, sizeof b->inplace_of);
            b->impl = k->name;
            b->order = k->order;
            if (!(why = k->bind(d, b)))
                return NULL;
            if (b->declined)
                wfi_text_addf(b->declined, ", not %s: %s", k->name, why);
        }
    return why;
}

static wfi_kernel_fn *kernel(wfi_device *d, const wfi_bind *b)
{
    (void)d;
    return b->fn;
}

static void unbind(wfi_device *d, wfi_bind *b)
{
    (void)d;
    b->fn = NULL; /* kernels are part of the library: nothing to unload */
}

const wfi_device_api wfi_device_cpu = {
    .version = 2,
    .name = "cpu",
    .probe = probe,
    .open = device_open,
    .close = device_close,
    .alloc = memory_alloc,
    .free = memory_free,
    .map = memory_map,
    .queue_new = queue_new,
    .queue_del = queue_del,
    .submit = submit,
    .wait = queue_wait,
    .poll = queue_poll,
    .module_load = bind,
    .kernel = kernel,
    .module_free = unbind,
    .record = NULL,
    .roofs = wfi_cpu_roofs,
};
