/* isa.h - one kernel source, one object an instruction set.
 *
 * Kernel sources are compiled with -DWFI_ISA=portable, avx2 or avx512 and the matching machine flags. WFI_K(name)
 * gives a function or table the suffix of that set, so that all of them live in one library and one is chosen at
 * run time. WFI_LANES is the number of f32 lanes that one vector register holds. */
#ifndef WFI_KERNEL_ISA_H
#define WFI_KERNEL_ISA_H

#ifndef WFI_ISA
#define WFI_ISA portable
#endif
#define WFI_K_PASTE_(name, isa) name##_##isa
#define WFI_K_PASTE(name, isa)  WFI_K_PASTE_(name, isa)
#define WFI_K(name)             WFI_K_PASTE(name, WFI_ISA)

#if defined __AVX512F__
#define WFI_LANES 16
#elif defined __AVX2__
#define WFI_LANES 8
#else
#define WFI_LANES 4
#endif

/* A wanted fused multiply-add. Without the instruction it would be a slow library call: there two roundings. */
#ifdef __FMA__
#define WFI_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define WFI_FMA(a, b, c)  __builtin_fma(a, b, c)
#else
#define WFI_FMAF(a, b, c) ((a) * (b) + (c))
#define WFI_FMA(a, b, c)  ((a) * (b) + (c))
#endif

#define WFI_INLINE static inline __attribute__((always_inline))

/* Instrumented builds keep loops and functions: unrolled and inlined tiles take a compiler minutes there. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define WFI_ROLLED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define WFI_ROLLED 1
#endif
#endif

#ifdef WFI_ROLLED
#define WFI_SPECIAL static __attribute__((noinline)) /* a function that is made special by constant arguments */
#else
#define WFI_SPECIAL WFI_INLINE
#endif
#if defined WFI_ROLLED
#define WFI_UNROLL
#define WFI_KLOOP
#elif defined __clang__
#define WFI_UNROLL _Pragma("clang loop unroll(full)")
#define WFI_KLOOP  _Pragma("clang loop unroll(disable)")
#else
#define WFI_UNROLL _Pragma("GCC unroll 16")
#define WFI_KLOOP
#endif

#endif
