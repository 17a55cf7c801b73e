// SPDX-License-Identifier: MIT
/// Layer 1: write a PTX module.
///
/// A builder takes typed calls, keeps a list of instructions, checks it, and prints the text once
/// at the end. It knows nothing of CUDA and touches no file.
///
/// Here are the builder, entries with their parameters, and values; memory.h has pointers, loads,
/// stores and atomics; threads.h barriers and what warps do; control.h blocks and branches. This
/// header includes the three.
///
/// Errors stick: the first one is kept, later calls do nothing and return poisoned values, and
/// ptx_builder_finish() returns NULL. So a kernel is written straight down and checked once.
///
/// A builder is used by one thread at a time; different builders are independent. The same calls
/// give the same bytes on every machine, compiler and locale - provided that at most one emitting
/// call stands among the arguments of another, since C leaves their order open.
#ifndef PTXGEN_BUILDER_H
#define PTXGEN_BUILDER_H

#include <ptxgen/control.h>
#include <ptxgen/memory.h>
#include <ptxgen/ops.h>
#include <ptxgen/threads.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

// ---- the builder --------------------------------------------------------------------------------

struct ptx_builder_params {
    struct ptx_target target; ///< zero: sm_80
    /// PTX ISA of the text, 80 for 8.0; an instruction that needs more is an error, and so is a
    /// version that never was (7.9, say). Zero: the least version that covers the target and every
    /// instruction used.
    int isa;
    /// Where memory comes from: resize `memory` (NULL to allocate) to `bytes` (0 to free), as
    /// realloc does. NULL: the C library. Called a few times a module, for pieces of some KiB, not
    /// once for every call that emits.
    void *(*resize)(void *user, void *memory, size_t bytes);
    void *user;
};

/// A new builder; NULL parameters for the defaults. NULL only if memory runs out; every function
/// takes a NULL builder, so that this, too, is seen at ptx_builder_finish().
PTXGEN_API ptx_builder *ptx_builder_create(const struct ptx_builder_params *params);
/// Frees the builder with all that it returned, and sets *builder to NULL.
PTXGEN_API void ptx_builder_destroy(ptx_builder **builder);
/// Checks the module and returns its text, or NULL if anything failed: ptx_builder_error() says
/// what. The text lives as long as the builder. Nothing can be added afterwards: a call that tries
/// is an error that ptx_builder_error() names, and this function keeps returning the finished text.
PTXGEN_API const char *ptx_builder_finish(ptx_builder *b);
/// The first error, or NULL. Names the entry, the call, what it got and what it wanted. Lives as
/// long as the builder.
PTXGEN_API const char *ptx_builder_error(const ptx_builder *b);
/// Reports an error of the caller's own, under the same rule that the first one stays.
PTXGEN_API void ptx_builder_fail(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Least PTX ISA of what has been written (80 for 8.0), or the pinned one.
PTXGEN_API int ptx_builder_isa(const ptx_builder *b);
/// The instruction or target that forces that version, as text: "cvt.rn.bf16.f32"; "pinned" where
/// ptx_builder_params.isa said it. Never NULL.
PTXGEN_API const char *ptx_builder_isa_reason(const ptx_builder *b);
/// The target that the text is for.
PTXGEN_API struct ptx_target ptx_builder_target(const ptx_builder *b);
/// Most bytes that the builder has held so far, its text included.
PTXGEN_API size_t ptx_builder_peak_bytes(const ptx_builder *b);

// ---- entries and what they declare --------------------------------------------------------------

struct ptx_entry_params {
    const char *name;      ///< a PTX identifier, once in the module, and not a parameter's
    uint32_t block[3];     ///< .reqntid: the block must have exactly this shape; zero: any
    uint32_t max_block[3]; ///< .maxntid: at most so many threads; not with `block`
    uint32_t min_blocks;   ///< .minnctapersm: blocks wanted on a multiprocessor; needs one of both
};

/// Opens an entry (a kernel); use the block macro ptx_entry(b, "name", .block = { 256 }) { ... }.
PTXGEN_API int ptx_entry_begin(ptx_builder *b, struct ptx_entry_params params);
PTXGEN_API int ptx_entry_end(ptx_builder *b, int block);
#define ptx_entry(b, ...)                                                                          \
    PTXGEN_BLOCK(ptx_entry_begin(b, PTXGEN_STRUCT(ptx_entry_params, .name = __VA_ARGS__)),         \
                 ptx_entry_end, b)

/// What a host may pass for a parameter, bits to be combined. Documentation that travels with the
/// text and can be read back with ptx_builder_param(); the kernel itself does not check it.
enum ptx_range {
    PTX_RANGE_ANY = 0,
    PTX_RANGE_NOT_NAN = 1,
    PTX_RANGE_FINITE = 2,
    PTX_RANGE_POSITIVE = 4,
    PTX_RANGE_NOT_NEGATIVE = 8,
};

/// One declared parameter of an entry. Its strings are copied, and those that ptx_builder_param()
/// gives back live as long as the builder.
struct ptx_param_info {
    const char *name;
    const char *meaning; ///< printed as a comment beside the declaration
    const char *length;  ///< pointers: the number of elements: a count parameter's name, a number,
                         ///< or "blocks" for one an element of the grid
    const char *preset;  ///< scalars: the usual value, as text
    const char *low;     ///< scalars: inclusive bounds, a number or another parameter's name
    const char *high;
    uint8_t range;   ///< scalars: enum ptx_range
    bool readonly;   ///< pointers: the kernel never stores through it (checked)
    bool writeonly;  ///< pointers: the kernel never loads through it (checked)
    bool is_pointer; ///< set by ptx_param_ptr()
    uint8_t type;    ///< set by the call: of the value, or of the elements
    uint32_t count;  ///< set by ptx_param_array(): elements passed by value, else 0
};

/// A parameter passed by value. Every parameter must be used.
PTXGEN_API ptx_val ptx_param_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param(b, type, ...)                                                                    \
    ptx_param_emit(b, type, PTXGEN_STRUCT(ptx_param_info, .name = __VA_ARGS__))
/// A pointer to global memory, passed as a 64-bit address.
PTXGEN_API ptx_ptr ptx_param_ptr_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param_ptr(b, type, ...)                                                                \
    ptx_param_ptr_emit(b, type, PTXGEN_STRUCT(ptx_param_info, .name = __VA_ARGS__))
/// An array of `count` elements passed by value, read with ptx_load().
PTXGEN_API ptx_ptr ptx_param_array(ptx_builder *b, ptx_type type, const char *name, uint32_t count);
/// The k-th parameter of the e-th entry, in order of declaration. False past the last.
PTXGEN_API bool ptx_builder_param(const ptx_builder *b, unsigned e, unsigned k,
                                  struct ptx_param_info *info);

/// An array in shared memory, one a block, uninitialised. Aligned to 16 bytes.
PTXGEN_API ptx_ptr ptx_shared(ptx_builder *b, ptx_type type, uint32_t count);
/// The block's dynamic shared memory, whose size the launch gives. All of an entry's share it.
PTXGEN_API ptx_ptr ptx_shared_dynamic(ptx_builder *b, ptx_type type);
/// An array in local memory, one a thread, uninitialised. Aligned to 16 bytes.
PTXGEN_API ptx_ptr ptx_local(ptx_builder *b, ptx_type type, uint32_t count);

// ---- values -------------------------------------------------------------------------------------

/// A mutable value, set to `init` here; the only kind that ptx_set() takes. Use it as a value.
PTXGEN_API ptx_val ptx_var(ptx_builder *b, ptx_val init);
/// The variable is `x` from here on, which has its type.
PTXGEN_API void ptx_set(ptx_builder *b, ptx_val var, ptx_val x);
/// A fresh value equal to `x` now; what a variable holds, unaffected by a later ptx_set().
PTXGEN_API ptx_val ptx_copy(ptx_builder *b, ptx_val x);

/// One function a row of ops.h: ptx_add(b, x, y), ptx_sqrt(b, x), ptx_fma(b, x, y, z) ...
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x);
PTX_OPS_UNARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y);
PTX_OPS_BINARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z);
PTX_OPS_TERNARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z, ptx_val w);
PTX_OPS_QUATERNARY(PTX_DECLARE)
#undef PTX_DECLARE

typedef enum ptx_opcode {
    PTX_OP_NONE,
#define PTX_DECLARE(name, ...) PTX_OP_##name,
    PTX_OPS_UNARY(PTX_DECLARE) PTX_OPS_BINARY(PTX_DECLARE) PTX_OPS_TERNARY(PTX_DECLARE)
        PTX_OPS_QUATERNARY(PTX_DECLARE) PTX_OPS_SPECIAL(PTX_DECLARE)
#undef PTX_DECLARE
            PTX_OP_COUNT
} ptx_opcode;

/// Rounding. Zero is what the instruction does when C does it: nearest even for floats, towards
/// zero for float to integer.
typedef enum ptx_round {
    PTX_ROUND_DEFAULT,
    PTX_ROUND_RN, ///< nearest, ties to even
    PTX_ROUND_RZ, ///< towards zero
    PTX_ROUND_RM, ///< towards minus infinity
    PTX_ROUND_RP, ///< towards plus infinity
} ptx_round;

struct ptx_op_params {
    ptx_opcode op;
    ptx_val x, y, z, w; ///< as many as the row has operands
    ptx_round round;
    bool ftz; ///< subnormal inputs and results become zero
    bool sat; ///< clamped to [0, 1] (floats) or to the type's range (integers)
};

/// Any row of ops.h with the modifiers that it allows:
/// ptx_op(b, PTX_OP_add, .x = x, .y = y, .round = PTX_ROUND_RZ).
PTXGEN_API ptx_val ptx_op_emit(ptx_builder *b, struct ptx_op_params params);
#define ptx_op(b, ...) ptx_op_emit(b, PTXGEN_STRUCT(ptx_op_params, .op = __VA_ARGS__))

/// cond ? x : y, for every type but predicates. Both are evaluated.
static inline ptx_val ptx_select(ptx_builder *b, ptx_val cond, ptx_val x, ptx_val y)
{
    return ptx_selp(b, x, y, cond);
}

struct ptx_cvt_params {
    ptx_val x;
    ptx_round round; ///< float to integer: default towards zero; else nearest even
    bool ftz;        ///< subnormal inputs and results become zero
    bool sat;        ///< floats: clamped to [0, 1], NaN to +0; integers: to the range of the result
};

/// Converts to another type. Float to integer clamps to the range; NaN gives what PTX gives. A
/// conversion to the type it has is the value itself. bf16 to f32 and f32 to bf16 work on every
/// target; below sm_80 they are written with integer arithmetic, and bf16 to other types goes
/// through f32, exactly.
PTXGEN_API ptx_val ptx_cvt_emit(ptx_builder *b, ptx_type type, struct ptx_cvt_params params);
#define ptx_cvt(b, type, ...) ptx_cvt_emit(b, type, PTXGEN_STRUCT(ptx_cvt_params, .x = __VA_ARGS__))
/// Two f32 rounded to nearest even into PTX_F16X2 or PTX_BF16X2, `lo` in the lower half.
PTXGEN_API ptx_val ptx_cvt_pack(ptx_builder *b, ptx_type type, ptx_val lo, ptx_val hi);
/// The same bits as another type of the same width.
PTXGEN_API ptx_val ptx_bitcast(ptx_builder *b, ptx_type type, ptx_val x);
/// Lanes of 16 or 32 bits side by side as one value of 32 or 64 bits, lane 0 lowest.
PTXGEN_API ptx_val ptx_pack(ptx_builder *b, ptx_type type, ptx_vec lanes);
/// The reverse: `x` cut into lanes of `type`.
PTXGEN_API ptx_vec ptx_unpack(ptx_builder *b, ptx_type type, ptx_val x);
/// A vector of the given values; for ptx_pack() and ptx_store_vec().
static inline ptx_vec ptx_vec2(ptx_val x, ptx_val y)
{
    ptx_vec v = { { x, y }, 2 };
    return v;
}

/// Special registers: ptx_tid(b, PTX_X), ptx_laneid(b) ...
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_axis axis);
PTX_SPECIAL_VECTORS(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b);
PTX_SPECIAL_SCALARS(PTX_DECLARE)
#undef PTX_DECLARE

// ---- the table, as data -------------------------------------------------------------------------

/// A form of an instruction; see ops.h.
struct ptx_op_form {
    uint32_t types;     ///< PTX_TYPE_BIT() bits
    const char *text;   ///< the spelling, without modifiers and type
    unsigned modifiers; ///< enum ptx_modifier bits
    int isa;            ///< least PTX ISA: 80 for 8.0
    int sm;             ///< least target: 90 for sm_90
};

/// A row of ops.h.
struct ptx_op_info {
    const char *name;
    const char *shape; ///< NULL for a special row
    const char *meaning;
    const struct ptx_op_form *forms;
    size_t form_count;
};

/// The row of `op`; NULL for what is none.
PTXGEN_API const struct ptx_op_info *ptx_op_get_info(ptx_opcode op);
/// The row of an atomic operation; its shape is NULL.
PTXGEN_API const struct ptx_op_info *ptx_atomic_get_info(ptx_atomic_op op);

PTXGEN_END

#endif
