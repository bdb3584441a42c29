/* cpu.h - the CPU as a device: which kernels this processor gets, and how operators are bound to them.
 *
 * Each file impl_*.c has a list of implementations; impls.c has the list of lists, in order of preference. The first
 * whose bind accepts is taken. An implementation states its order class; those that one node may use in `strict` must
 * have the same. */
#ifndef WFI_DEVICE_CPU_CPU_H
#define WFI_DEVICE_CPU_CPU_H
#include "device/device.h"
#include "ops/op.h"

typedef enum wfi_isa {
    WFI_ISA_PORTABLE = 0,
    WFI_ISA_AVX2 = 1,
    WFI_ISA_AVX512 = 2,
    WFI_ISA_AVX512BF16 = 3,
    WFI_ISA_AMX = 4,
    WFI_ISAS = 5
} wfi_isa;

struct wfi_gemm_kernels;
struct wfi_conv_kernels;
struct wfi_pool2d_kernels;
struct wfi_ew_kernels;
struct wfi_fused_kernels;
struct wfi_copy_kernels;
struct wfi_reduce_kernels;
struct wfi_row_kernels;
struct wfi_batchnorm_kernels;
struct wfi_index_kernels;
struct wfi_optim_kernels;
struct wfi_attention_kernels;
struct wfi_roof_kernels;

typedef struct wfi_cpu {
    wfi_device base;
    wfi_isa isa;
    const struct wfi_gemm_kernels *gemm;
    const struct wfi_gemm_kernels *gemm_pairs, *gemm_amx, *gemm_split; /* NULL: not on this machine */
    const struct wfi_conv_kernels *conv, *conv_amx;                    /* the latter as gemm_amx */
    const struct wfi_pool2d_kernels *pool2d;
    const struct wfi_ew_kernels *ew;
    const struct wfi_fused_kernels *fused;
    const struct wfi_copy_kernels *copy;
    const struct wfi_reduce_kernels *reduce;
    const struct wfi_row_kernels *row;
    const struct wfi_batchnorm_kernels *batchnorm;
    const struct wfi_index_kernels *index;
    const struct wfi_optim_kernels *optim;
    const struct wfi_attention_kernels *attention, *attention_amx; /* amx NULL: not on this machine */
    const struct wfi_roof_kernels *roof;
} wfi_cpu;

typedef struct wfi_impl {
    uint32_t op; /* wfi_op, or WFI_IMPL_EW: every element-wise primitive */
    const char *name;
    const char *order; /* "" where nothing is summed */
    /* Fills b (device.h) or says why not, a const string. */
    const char *(*bind)(const wfi_cpu *d, wfi_bind *b);
} wfi_impl;

#define WFI_IMPL_EW 0xfffffffeu

typedef struct wfi_impl_list {
    const wfi_impl *impl;
    uint32_t n;
} wfi_impl_list;

extern const wfi_impl_list *const wfi_impl_lists[]; /* ends with NULL */

/* isa.c */
wfi_isa wfi_isa_best(void); /* by feature bits, capped by WEFT_ISA */
const char *wfi_isa_name(wfi_isa isa);
void wfi_cpu_choose(wfi_cpu *d, wfi_isa isa); /* sets the tables */

/* What can make a difference to which way of doing something is fastest: model, caches, kernels. */
void wfi_cpu_identity(const void *cpu /* wfi_cpu */, char *text, size_t bytes);

/* roofs.c */
bool wfi_cpu_roofs(wfi_device *d, wfi_roofs *r);

/* What several files of implementations need. */
/* A view of `v` broadcast to the shape of `like`: stride 0 where it repeats. */
void wfi_impl_broadcast(const wfi_view *v, const wfi_view *like, wfi_view *out);
/* Gives `out` the layout of `like` if that has its shape and is dense: true; else out stays row-major. */
bool wfi_impl_keep_layout(const wfi_view *like, wfi_view *out);
/* Gives all results, which have one shape, the layout of the first operand that has that shape and no holes (channels
 * last stays channels last). */
void wfi_impl_first_layout(wfi_bind *b);
/* Bit mask of axes (negative ones counted from the end; n < 0 or an empty list: all of ndim). */
uint32_t wfi_impl_axes(wf_dims axes, int32_t ndim);
/* Some kernels have a fixed place for every operand, NULL where one is not given. b->params holds such a kernel's own
 * parameters (WFI_PARAMS_MAX bytes); from[i] is the argument of the command that goes to place i, -1: NULL. */
void wfi_impl_placed(wfi_bind *b, wfi_kernel_fn *fn, const int8_t *from, int n);
/* Behind prepare: params are those of a kernel that has choices (NULL: none). Takes the one that is asked for or was
 * found best before. Declines only what is asked for. */
const char *wfi_impl_choose(const wfi_cpu *d, wfi_bind *b, const wfi_choices *choices, void *params);
bool wfi_impl_dense(const wfi_view *v); /* covers elements 0 .. n-1 in some order of its axes */

#endif
