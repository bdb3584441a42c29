/* op_types.h - codes in the table of operators that the generator and the library share. */
#ifndef WFI_OPS_OP_TYPES_H
#define WFI_OPS_OP_TYPES_H

/* wfi_op_info.flags */
enum {
    WFI_OP_EW = 1,        /* element-wise primitive: a row with scalar code; `ew` is its index */
    WFI_OP_COMPOSITE = 2, /* has a lowering */
    WFI_OP_PRIMITIVE = 4,
    WFI_OP_MOVE = 8,    /* moves elements of one kind of operand, computes nothing: permute, slice, concat ... */
    WFI_OP_REDUCE = 16, /* a primitive with .reduce */
    WFI_OP_MANY = 32,   /* any number of operands */
    WFI_OP_NOGRAD = 64  /* .nograd says why */
};

typedef enum wfi_attr_type {
    WFI_ATTR_I32 = 0,
    WFI_ATTR_I64 = 1,
    WFI_ATTR_F64 = 2,
    WFI_ATTR_BOOL = 3,
    WFI_ATTR_DTYPE = 4,
    WFI_ATTR_DIMS = 5
} wfi_attr_type;

enum { WFI_ATTR_SHORTHAND = 0xffff };

/* Type codes of operands and results (wfi_op_info.tin, tout). */
enum {
    WFI_T_END = 0,
    WFI_T_FLOAT = 1, /* f64 f32 bf16 f16 */
    WFI_T_NUM = 2,   /* float and i64 i32 u8 */
    WFI_T_INT = 3,   /* i64 i32 u8 */
    WFI_T_BOOL = 4,
    WFI_T_ALL = 5,   /* num and bool */
    WFI_T_ANY = 6,   /* every storable type */
    WFI_T_WIDE = 7,  /* f64 where the operands of class float are, else f32: what statistics are kept in */
    WFI_T_ATTR = 32, /* results: what the attribute `dtype` says */
    WFI_T_EXACT = 64 /* + wf_dtype */
};

/* wfi_op_info.autocast: what happens to float operands where a scope asks for 16-bit arithmetic. */
enum {
    WFI_AUTOCAST_NONE = 0,  /* nothing: one operand, any type is right */
    WFI_AUTOCAST_LOW = 1,   /* f32 becomes the 16-bit type: products, convolutions, attention */
    WFI_AUTOCAST_FULL = 2,  /* 16-bit types become f32: softmax, norms, losses, sums */
    WFI_AUTOCAST_WIDEST = 3 /* those that must be of one type get the widest among them */
};

#endif
