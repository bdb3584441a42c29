/* types.h - element types, lists of sizes, status codes: what every other header of Weft speaks in.
 *
 *     wf_dims shape = WF_DIMS(2, 3, 4);          a list is passed by value
 *     if (wf_dtype_bytes(WF_BF16) == 2) ...
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C++" {
template <class T> inline const T *wf_addr_(const T &t)
{
    return &t;
}
}
#define WF_OPTS(T, ...) wf_addr_(T{ .size = sizeof(T), __VA_ARGS__ })
#define WF_Z                                                                                                           \
    {                                                                                                                  \
    }
extern "C" {
#else
#define WF_OPTS(T, ...) (&(const T){ .size = sizeof(T), __VA_ARGS__ })
#define WF_Z
#endif

#if defined __GNUC__
#define WF_API __attribute__((visibility("default")))
#else
#define WF_API
#endif

/* The caller's place, one string literal: "train.c:41". Builders are macros that pass it as their last argument. */
#define WF_STR_(x) #x
#define WF_STR(x)  WF_STR_(x)
#define WF_SITE    __FILE__ ":" WF_STR(__LINE__)

/* Every option struct begins so. The zero value of each option is its default; `unnamed` catches a positional value. */
#define WF_HEAD                                                                                                        \
    uint32_t size;                                                                                                     \
    const struct wf_name_your_options *unnamed WF_Z

/* An explicit zero for a real-valued option whose default is another number: .eps = WF_ZERO. */
#define WF_ZERO 0x1p-1022

#define WF_RANK_MAX 8

/* A list of sizes, axes or positions. */
typedef struct wf_dims {
    int32_t n; /* 0 .. WF_RANK_MAX */
    int64_t d[WF_RANK_MAX];
} wf_dims;

#define WF_NARGS_(a, b, c, d, e, f, g, h, n, ...) n
#define WF_NARGS(...)                             WF_NARGS_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#ifdef __cplusplus
#define WF_DIMS(...) (wf_dims{ WF_NARGS(__VA_ARGS__), { __VA_ARGS__ } })
#define WF_NO_DIMS   (wf_dims{ 0, {} })
#else
#define WF_DIMS(...) ((wf_dims){ WF_NARGS(__VA_ARGS__), { __VA_ARGS__ } })
#define WF_NO_DIMS   ((wf_dims){ 0, { 0 } })
#endif

/* Element types. The numbers are never reused. Computed in: f64 f32 bf16 f16 i64 i32 u8 bool; the others are stored
 * and cast only. f8e4m3 and f8e5m2 are the OCP 8-bit formats. */
typedef enum wf_dtype {
    WF_DTYPE_NONE = 0,
    WF_F32 = 1,
    WF_F64 = 2,
    WF_F16 = 3,
    WF_BF16 = 4,
    WF_I64 = 5,
    WF_I32 = 6,
    WF_U8 = 7,
    WF_BOOL = 8, /* one byte, 0 or 1 */
    WF_I8 = 9,
    WF_I16 = 10,
    WF_U16 = 11,
    WF_U32 = 12,
    WF_U64 = 13,
    WF_F8E4M3 = 14,
    WF_F8E5M2 = 15,
    WF_DTYPE_COUNT = 16
} wf_dtype;

/* Bytes of one element; 0 for what is no type. */
WF_API size_t wf_dtype_bytes(wf_dtype t);
/* "f32", "bf16", ...; "?" for what is no type. */
WF_API const char *wf_dtype_name(wf_dtype t);
/* The type of that name, or WF_DTYPE_NONE. */
WF_API wf_dtype wf_dtype_of(const char *name);

/* What a call with an effect returns. The text of the error stays in the context (wf_error). */
typedef enum wf_status {
    WF_OK = 0,
    WF_ERR_ARG = 1,         /* a wrong argument: NULL, an unknown name, a bad option */
    WF_ERR_SHAPE = 2,       /* sizes do not fit */
    WF_ERR_DTYPE = 3,       /* element types do not fit */
    WF_ERR_INDEX = 4,       /* an index outside its axis, found while running */
    WF_ERR_MEMORY = 5,      /* out of memory, or over the limit */
    WF_ERR_IO = 6,          /* a file could not be read or written */
    WF_ERR_FORMAT = 7,      /* a file is damaged or not what it should be */
    WF_ERR_UNSUPPORTED = 8, /* right, but not possible here */
    WF_ERR_STATE = 9,       /* the wrong moment: an ended scope, a lost handle, a child after fork */
    WF_ERR_INTERRUPTED = 10 /* wf_interrupt was called */
} wf_status;

#ifdef __cplusplus
}
#endif
#endif
