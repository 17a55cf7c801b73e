// SPDX-License-Identifier: MIT
/// Layer 1: write a PTX module.
///
/// A builder takes typed calls, keeps a list of instructions, checks it, and prints the text once
/// at the end. It knows nothing of CUDA and touches no file.
///
/// Errors stick: the first one is kept, later calls do nothing and return poisoned values, and
/// ptx_builder_finish() returns NULL. So a kernel is written straight down and checked once.
///
/// A builder is used by one thread at a time; different builders are independent. The same calls
/// give the same bytes on every machine, compiler and locale - provided that at most one emitting
/// call stands among the arguments of another, since C leaves their order open.
#ifndef PTXGEN_BUILDER_H
#define PTXGEN_BUILDER_H

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

typedef struct ptx_builder ptx_builder;

// ---- the builder --------------------------------------------------------------------------------

struct ptx_builder_params {
    struct ptx_target target; ///< zero: sm_80
    /// PTX ISA of the text, 80 for 8.0; an instruction that needs more is an error, and so is a
    /// version that never was (7.9, say). Zero: the least
    /// version that covers the target and every instruction used.
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
/// Checks the module and returns its text, or NULL if anything failed. The text is the builder's
/// own. No instruction can be added afterwards; a second call returns the same.
PTXGEN_API const char *ptx_builder_finish(ptx_builder *b);
/// The first error, or NULL. Names the entry, the call, what it got and what it wanted.
PTXGEN_API const char *ptx_builder_error(const ptx_builder *b);
/// Reports an error of the caller's own, under the same rule that the first one stays.
PTXGEN_API void ptx_builder_fail(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Least PTX ISA of what has been written (80 for 8.0), or the pinned one.
PTXGEN_API int ptx_builder_isa(const ptx_builder *b);
/// The instruction or target that forces that version, as text: "cvt.rn.bf16.f32".
PTXGEN_API const char *ptx_builder_isa_reason(const ptx_builder *b);
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

/// What a host may pass for a parameter. Documentation that travels with the text and can be read
/// back with ptx_builder_param(); the kernel itself does not check it.
enum ptx_range {
    PTX_ANY_VALUE = 0,
    PTX_NOT_NAN = 1,
    PTX_FINITE = 2,
    PTX_POSITIVE = 4,
    PTX_NOT_NEGATIVE = 8,
};

/// One declared parameter of an entry. Strings must outlive the builder.
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
PTXGEN_API ptx_val ptx_param_value(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param(b, type, ...)                                                                    \
    ptx_param_value(b, type, PTXGEN_STRUCT(ptx_param_info, .name = __VA_ARGS__))
/// A pointer to global memory, passed as a 64-bit address.
PTXGEN_API ptx_ptr ptx_param_pointer(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param_ptr(b, type, ...)                                                                \
    ptx_param_pointer(b, type, PTXGEN_STRUCT(ptx_param_info, .name = __VA_ARGS__))
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
    PTX_RN, ///< nearest, ties to even
    PTX_RZ, ///< towards zero
    PTX_RM, ///< towards minus infinity
    PTX_RP, ///< towards plus infinity
} ptx_round;

struct ptx_op_params {
    ptx_opcode op;
    ptx_val x, y, z, w;
    ptx_round round;
    bool ftz;
    bool sat;
};

/// Any row of ops.h with its modifiers: ptx_op(b, PTX_OP_add, .x = x, .y = y, .round = PTX_RZ).
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
    bool ftz;
    bool sat; ///< floats: clamped to [0, 1], NaN to +0; integers: to the range of the result
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

// ---- memory -------------------------------------------------------------------------------------

/// A pointer from a computed address: u64, or u32 in shared memory. A PTX_GLOBAL address is taken
/// as generic, as hosts and cuMemAlloc give it.
PTXGEN_API ptx_ptr ptx_pointer(ptx_builder *b, ptx_type type, ptx_space space, ptx_val address);
/// The address that `p` holds: u64, or u32 in shared memory.
PTXGEN_API ptx_val ptx_address(ptx_builder *b, ptx_ptr p);
/// `p + i`, in elements. `i` is any integer of 32 or 64 bits.
PTXGEN_API ptx_ptr ptx_at(ptx_builder *b, ptx_ptr p, ptx_val i);
/// `p` counting in elements of another type.
PTXGEN_API ptx_ptr ptx_ptr_cast(ptx_builder *b, ptx_type type, ptx_ptr p);

typedef enum ptx_cache {
    PTX_CACHE_DEFAULT,
    PTX_STREAM,      ///< .cs: read or written once
    PTX_CACHE_ALL,   ///< .ca, loads
    PTX_CACHE_L2,    ///< .cg: past L1
    PTX_CACHE_BACK,  ///< .wb, stores
    PTX_NO_ALLOCATE, ///< .L1::no_allocate
    PTX_EVICT_FIRST, ///< .L1::evict_first
    PTX_EVICT_LAST,  ///< .L1::evict_last
} ptx_cache;

typedef enum ptx_order {
    PTX_WEAK,
    PTX_VOLATILE,
    PTX_RELAXED,
    PTX_ACQUIRE, ///< loads and atomics
    PTX_RELEASE, ///< stores and atomics
    PTX_ACQ_REL, ///< atomics and fences
    PTX_SEQ_CST, ///< fences
} ptx_order;

typedef enum ptx_scope {
    PTX_SCOPE_DEFAULT, ///< gpu
    PTX_SCOPE_BLOCK,
    PTX_SCOPE_CLUSTER, ///< sm_90 and up
    PTX_SCOPE_GPU,
    PTX_SCOPE_SYSTEM,
} ptx_scope;

/// How memory is accessed; the same four fields in every load and store.
#define PTX_ACCESS_FIELDS                                                                          \
    bool nc; /* loads: nobody writes this global memory while the kernel runs */                   \
    ptx_cache cache;                                                                               \
    ptx_order order;                                                                               \
    ptx_scope scope; /* with relaxed, acquire and release */

struct ptx_load_params {
    ptx_val index; ///< in elements; u32, s32, u64 or s64
    PTX_ACCESS_FIELDS
};

struct ptx_load_vec_params {
    unsigned lanes;
    PTX_ACCESS_FIELDS
};

struct ptx_store_params {
    ptx_val x;
    PTX_ACCESS_FIELDS
};

struct ptx_store_vec_params {
    ptx_vec x;
    PTX_ACCESS_FIELDS
};

/// p[i]: ptx_load(b, p, i, .cache = PTX_STREAM).
PTXGEN_API ptx_val ptx_load_emit(ptx_builder *b, ptx_ptr p, struct ptx_load_params params);
#define ptx_load(b, p, ...)                                                                        \
    ptx_load_emit(b, p, PTXGEN_STRUCT(ptx_load_params, .index = __VA_ARGS__))
/// p[i] = x: ptx_store(b, p, i, x, .cache = PTX_STREAM).
PTXGEN_API void ptx_store_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                               struct ptx_store_params params);
#define ptx_store(b, p, i, ...)                                                                    \
    ptx_store_emit(b, p, i, PTXGEN_STRUCT(ptx_store_params, .x = __VA_ARGS__))
/// p[i] to p[i + lanes - 1] in one access: 1, 2, 4 or 8 lanes, at most 16 bytes together (32 in
/// global memory on sm_100 and up). The address must be a multiple of the bytes accessed.
PTXGEN_API ptx_vec ptx_load_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                                     struct ptx_load_vec_params params);
#define ptx_load_vec(b, p, i, ...)                                                                 \
    ptx_load_vec_emit(b, p, i, PTXGEN_STRUCT(ptx_load_vec_params, .lanes = __VA_ARGS__))
PTXGEN_API void ptx_store_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                                   struct ptx_store_vec_params params);
#define ptx_store_vec(b, p, i, ...)                                                                \
    ptx_store_vec_emit(b, p, i, PTXGEN_STRUCT(ptx_store_vec_params, .x = __VA_ARGS__))

/// Atomic p[i] = f(p[i], x) in global or shared memory; the value before it is returned.
/// ptx_atomic_add(b, p, i, x) is relaxed at gpu scope; ptx_atomic() takes order and scope. Floats
/// keep subnormals, but for f32 in global memory.
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_atomic_##name(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val x);
PTX_ATOMICS(PTX_DECLARE)
#undef PTX_DECLARE
/// p[i] becomes x where it equals `compare`.
PTXGEN_API ptx_val ptx_atomic_cas(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val compare, ptx_val x);

typedef enum ptx_atomic_op {
#define PTX_DECLARE(name, ...) PTX_ATOMIC_##name,
    PTX_ATOMICS(PTX_DECLARE) PTX_ATOMIC_CAS(PTX_DECLARE)
#undef PTX_DECLARE
        PTX_ATOMIC_COUNT
} ptx_atomic_op;

struct ptx_atomic_params {
    ptx_val x;
    ptx_val compare; ///< cas alone, which needs it
    ptx_order order; ///< default relaxed
    ptx_scope scope;
};

PTXGEN_API ptx_val ptx_atomic_emit(ptx_builder *b, ptx_atomic_op op, ptx_ptr p, ptx_val i,
                                   struct ptx_atomic_params params);
#define ptx_atomic(b, op, p, i, ...)                                                               \
    ptx_atomic_emit(b, op, p, i, PTXGEN_STRUCT(ptx_atomic_params, .x = __VA_ARGS__))

/// Orders the memory accesses before it against those after it. `order` is PTX_ACQ_REL or
/// PTX_SEQ_CST.
PTXGEN_API void ptx_fence(ptx_builder *b, ptx_order order, ptx_scope scope);

// ---- threads together ---------------------------------------------------------------------------

/// Waits for every thread of the block. Refused where only some threads may come by.
PTXGEN_API void ptx_barrier(ptx_builder *b);
/// One of the block's 16 barriers, for `threads` threads (a multiple of 32; 0 for all). With a
/// count given, threads may come from different places, so that divergence is not refused.
PTXGEN_API void ptx_barrier_named(ptx_builder *b, unsigned id, unsigned threads);
/// Barriers that tell every thread whether all, or any, of the block's predicates hold, or how many
/// do (u32).
PTXGEN_API ptx_val ptx_barrier_all(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_any(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_count(ptx_builder *b, ptx_val pred);

/// Warp operations take the mask of lanes that take part as a u32; `ptx_full_warp` is all 32.
static inline ptx_val ptx_full_warp(void)
{
    return ptx_u32(UINT32_MAX);
}
PTXGEN_API void ptx_barrier_warp(ptx_builder *b, ptx_val mask);

/// The value of another lane, of any type but predicates; `x` itself where that lane does not
/// exist. All 32 lanes take part unless ptx_shfl_emit() is given a mask.
typedef enum ptx_shfl_mode {
    PTX_SHFL_DOWN, ///< of lane + delta
    PTX_SHFL_UP,   ///< of lane - delta
    PTX_SHFL_BFLY, ///< of lane ^ mask
    PTX_SHFL_IDX,  ///< of lane idx
} ptx_shfl_mode;

struct ptx_shfl_params {
    ptx_val lane;   ///< u32: delta, mask or index
    ptx_val mask;   ///< lanes that take part; poisoned (the default): all
    unsigned width; ///< the warp in segments of 1, 2, 4, 8, 16 or 32 lanes; 0: 32
};
PTXGEN_API ptx_val ptx_shfl_emit(ptx_builder *b, ptx_shfl_mode mode, ptx_val x,
                                 struct ptx_shfl_params params);
#define ptx_shfl(b, mode, x, ...)                                                                  \
    ptx_shfl_emit(b, mode, x, PTXGEN_STRUCT(ptx_shfl_params, .lane = __VA_ARGS__))
PTXGEN_API ptx_val ptx_shfl_down(ptx_builder *b, ptx_val x, ptx_val delta);
PTXGEN_API ptx_val ptx_shfl_up(ptx_builder *b, ptx_val x, ptx_val delta);
PTXGEN_API ptx_val ptx_shfl_bfly(ptx_builder *b, ptx_val x, ptx_val mask);
PTXGEN_API ptx_val ptx_shfl_idx(ptx_builder *b, ptx_val x, ptx_val lane);

/// Whether the predicate holds in all, in any lane of the mask, or is the same in all.
PTXGEN_API ptx_val ptx_vote_all(ptx_builder *b, ptx_val pred, ptx_val mask);
PTXGEN_API ptx_val ptx_vote_any(ptx_builder *b, ptx_val pred, ptx_val mask);
PTXGEN_API ptx_val ptx_vote_uniform(ptx_builder *b, ptx_val pred, ptx_val mask);
/// The lanes of the mask in which it holds, as a u32.
PTXGEN_API ptx_val ptx_ballot(ptx_builder *b, ptx_val pred, ptx_val mask);
/// The lanes of the mask that hold the same 32 or 64 bits as this one; _all: the mask if all do,
/// else 0.
PTXGEN_API ptx_val ptx_match_any(ptx_builder *b, ptx_val x, ptx_val mask);
PTXGEN_API ptx_val ptx_match_all(ptx_builder *b, ptx_val x, ptx_val mask);
/// The lanes that execute together now; a hint, not a synchronisation.
PTXGEN_API ptx_val ptx_activemask(ptx_builder *b);
/// ptx_redux_add(b, x, mask) ...: a 32-bit integer reduced over the lanes of the mask. sm_80 and
/// up.
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_redux_##name(ptx_builder *b, ptx_val x, ptx_val mask);
PTX_WARP_REDUCTIONS(PTX_DECLARE)
#undef PTX_DECLARE

// ---- control flow -------------------------------------------------------------------------------

/// Block macros. Each opens a C block: ptx_if (b, cond) { ... } ptx_else (b) { ... }. They are C
/// `for` loops that run once: leave them by their end alone. A C break, return or goto out of one
/// is caught and reported; use ptx_break_if() and ptx_return_if().
#define PTXGEN_JOIN_(x, y) x##y
#define PTXGEN_JOIN(x, y)  PTXGEN_JOIN_(x, y)
#define PTXGEN_BLOCK(begin, end, b)                                                                \
    for (int PTXGEN_JOIN(ptx_block_, __LINE__) = begin; PTXGEN_JOIN(ptx_block_, __LINE__);         \
         PTXGEN_JOIN(ptx_block_, __LINE__) = end(b, PTXGEN_JOIN(ptx_block_, __LINE__)))

#define ptx_entry(b, ...)                                                                          \
    PTXGEN_BLOCK(ptx_entry_begin(b, PTXGEN_STRUCT(ptx_entry_params, .name = __VA_ARGS__)),         \
                 ptx_entry_end, b)
#define ptx_if(b, cond) PTXGEN_BLOCK(ptx_if_begin(b, cond), ptx_if_end, b)
/// Directly after the block of a ptx_if.
#define ptx_else(b)     PTXGEN_BLOCK(ptx_else_begin(b), ptx_if_end, b)
/// For i = lo, lo + step, ... while i < hi; an integer of 32 or 64 bits, step > 0. Never wraps,
/// even where hi is within step of the type's end. hi and step are taken once, as they are before
/// the loop; `i` must not be set in the body.
#define ptx_for(b, i, lo, hi, step)                                                                \
    for (ptx_val i = ptx_for_begin(b, lo, hi, step); i.kind; i = ptx_for_end(b, i))
/// While cond holds; the expression is emitted at the loop's head and tested before each turn.
#define ptx_while(b, cond)                                                                         \
    for (int PTXGEN_JOIN(ptx_block_, __LINE__) = ptx_loop_begin(b);                                \
         PTXGEN_JOIN(ptx_block_, __LINE__) && ptx_while_test(b, cond);                             \
         PTXGEN_JOIN(ptx_block_, __LINE__) = ptx_loop_end(b, PTXGEN_JOIN(ptx_block_, __LINE__)))
/// For ever; leave it with ptx_break_if() or ptx_return_if().
#define ptx_loop(b) PTXGEN_BLOCK(ptx_loop_begin(b), ptx_loop_end, b)

/// What the macros call. A begin returns the block's number, an end takes it and returns 0.
PTXGEN_API int ptx_if_begin(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_else_begin(ptx_builder *b);
PTXGEN_API int ptx_if_end(ptx_builder *b, int block);
PTXGEN_API ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step);
PTXGEN_API ptx_val ptx_for_end(ptx_builder *b, ptx_val i);
PTXGEN_API int ptx_loop_begin(ptx_builder *b);
PTXGEN_API bool ptx_while_test(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_loop_end(ptx_builder *b, int block);

/// Leaves the innermost loop.
PTXGEN_API void ptx_break(ptx_builder *b);
PTXGEN_API void ptx_break_if(ptx_builder *b, ptx_val cond);
/// Ends the thread.
PTXGEN_API void ptx_return(ptx_builder *b);
PTXGEN_API void ptx_return_if(ptx_builder *b, ptx_val cond);

/// Raw control flow, for what the blocks do not express. `name` becomes part of the label. A label
/// is placed once; branches may come before or after it, but not into a block from outside.
PTXGEN_API ptx_label ptx_label_create(ptx_builder *b, const char *name);
PTXGEN_API void ptx_label_place(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label);

/// Aborts the kernel: the host sees a launch failure.
PTXGEN_API void ptx_trap(ptx_builder *b);
/// Sleeps for between 0 and twice `nanoseconds` (u32).
PTXGEN_API void ptx_nanosleep(ptx_builder *b, ptx_val nanoseconds);
/// Programmatic dependent launch, sm_90 and up: waits for the grids before this one and sees what
/// they wrote; lets the grids after this one start, which makes nothing visible to them.
PTXGEN_API void ptx_griddepcontrol_wait(ptx_builder *b);
PTXGEN_API void ptx_griddepcontrol_launch_dependents(ptx_builder *b);

/// A comment on a line of its own, at this place of the code. PTX is ASCII: other characters become
/// '?', and line breaks spaces.
PTXGEN_API void ptx_comment(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);

// ---- the table, as data -------------------------------------------------------------------------

/// A form of an instruction; see ops.h.
struct ptx_form {
    uint32_t types;
    const char *text;
    unsigned modifiers;
    int isa;
    int sm;
};

/// A row of ops.h.
struct ptx_op_info {
    const char *name;
    const char *shape; ///< NULL for a special row
    const char *meaning;
    const struct ptx_form *forms;
    size_t form_count;
};

/// The row of `op`; NULL for what is none.
PTXGEN_API const struct ptx_op_info *ptx_op_info(ptx_opcode op);
/// The row of an atomic operation; its shape is NULL.
PTXGEN_API const struct ptx_op_info *ptx_atomic_info(ptx_atomic_op op);

PTXGEN_END

#endif
