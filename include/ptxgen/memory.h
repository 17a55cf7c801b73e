// SPDX-License-Identifier: MIT
/// Part of builder.h: pointers, loads, stores, atomics, fences. The rules of builder.h apply.
#ifndef PTXGEN_MEMORY_H
#define PTXGEN_MEMORY_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// A pointer from a computed address: u64, or u32 in shared memory. A PTX_SPACE_GLOBAL address is a
/// generic address, as the host and cuMemAlloc give it.
PTXGEN_API ptx_ptr ptx_ptr_from(ptx_builder *b, ptx_type type, ptx_space space, ptx_val address);
/// The address in `p`: u64, or u32 in shared memory.
PTXGEN_API ptx_val ptx_ptr_address(ptx_builder *b, ptx_ptr p);
/// The generic address in `p`, u64, as hosts and other functions know it. Of any space except
/// parameters.
PTXGEN_API ptx_val ptx_ptr_generic(ptx_builder *b, ptx_ptr p);
/// `p + i`, in elements. `i` is an integer of 32 or 64 bits.
PTXGEN_API ptx_ptr ptx_at(ptx_builder *b, ptx_ptr p, ptx_val i);
/// `p` as a pointer to elements of another type.
PTXGEN_API ptx_ptr ptx_ptr_cast(ptx_builder *b, ptx_type type, ptx_ptr p);

/// A cache hint.
typedef enum ptx_cache {
    PTX_CACHE_DEFAULT,
    PTX_CACHE_STREAMING,   ///< .cs: read or written once
    PTX_CACHE_ALL,         ///< .ca, loads
    PTX_CACHE_L2,          ///< .cg: bypasses L1
    PTX_CACHE_WRITE_BACK,  ///< .wb, stores
    PTX_CACHE_NO_ALLOCATE, ///< .L1::no_allocate
    PTX_CACHE_EVICT_FIRST, ///< .L1::evict_first
    PTX_CACHE_EVICT_LAST,  ///< .L1::evict_last
} ptx_cache;

/// The memory ordering of an access, as in PTX's memory consistency model.
typedef enum ptx_order {
    PTX_ORDER_WEAK, ///< the default: no other thread writes there concurrently
    PTX_ORDER_VOLATILE,
    PTX_ORDER_RELAXED,
    PTX_ORDER_ACQUIRE, ///< loads and atomics
    PTX_ORDER_RELEASE, ///< stores and atomics
    PTX_ORDER_ACQ_REL, ///< atomics and fences
    PTX_ORDER_SEQ_CST, ///< fences
} ptx_order;

/// The set of threads to which an ordering applies.
typedef enum ptx_scope {
    PTX_SCOPE_DEFAULT, ///< gpu
    PTX_SCOPE_BLOCK,
    PTX_SCOPE_CLUSTER, ///< sm_90 and up
    PTX_SCOPE_GPU,
    PTX_SCOPE_SYSTEM,
} ptx_scope;

/// How memory is accessed; the same four fields in every load and store, set by their names.
/// `cache` and `nc` are allowed only with weak accesses. The first field has no use but that a
/// compiler refuses an argument without a name.
#define PTX_ACCESS_FIELDS                                                                          \
    const struct ptx_options_have_names *ptx_options_have_names;                                   \
    bool nc; /* loads: nobody writes this global memory while the kernel runs; a write through */  \
             /* a pointer from the same parameter or array is refused */                           \
    ptx_cache cache;                                                                               \
    ptx_order order;                                                                               \
    ptx_scope scope; /* with relaxed, acquire and release */

struct ptx_options_have_names;

struct ptx_load_params {
    ptx_val index; ///< in elements: u32, s32, u64 or s64
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

/// Loads p[i]: ptx_load(b, p, i, .cache = PTX_CACHE_STREAMING).
PTXGEN_API ptx_val ptx_load_emit(ptx_builder *b, ptx_ptr p, struct ptx_load_params params);
#define ptx_load(b, p, ...)                                                                        \
    ptx_load_emit(b, p, PTXGEN_STRUCT(ptx_load_params, PTXGEN_FIELDS(index, __VA_ARGS__)))
/// Stores p[i] = x: ptx_store(b, p, i, x, .cache = PTX_CACHE_STREAMING).
PTXGEN_API void ptx_store_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                               struct ptx_store_params params);
#define ptx_store(b, p, i, ...)                                                                    \
    ptx_store_emit(b, p, i, PTXGEN_STRUCT(ptx_store_params, PTXGEN_FIELDS(x, __VA_ARGS__)))
/// Loads p[i] to p[i + lanes - 1] in one access: 1, 2, 4 or 8 lanes, at most 16 bytes in all (32 in
/// global memory on sm_100 and up). The address must be a multiple of the bytes accessed.
PTXGEN_API ptx_vec ptx_load_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                                     struct ptx_load_vec_params params);
#define ptx_load_vec(b, p, i, ...)                                                                 \
    ptx_load_vec_emit(b, p, i, PTXGEN_STRUCT(ptx_load_vec_params, .lanes = __VA_ARGS__))
/// Stores x to p[i] ... p[i + x.lanes - 1] in one access, under the same rules.
PTXGEN_API void ptx_store_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i,
                                   struct ptx_store_vec_params params);
#define ptx_store_vec(b, p, i, ...)                                                                \
    ptx_store_vec_emit(                                                                            \
        b, p, i,                                                                                   \
        PTXGEN_STRUCT(ptx_store_vec_params, PTXGEN_FIELDS_AS(ptxgen_as_vec, x, __VA_ARGS__)))

struct ptx_atomic_params {
    ptx_val x;
    ptx_val compare; ///< required by cas, not allowed elsewhere; not a plain number
    ptx_order order; ///< default: relaxed
    ptx_scope scope;
};

/// An atomic operation with an order and a scope; returns the old value. ptx_atomic(b,
/// PTX_ATOMIC_add, p, i, x, .order = PTX_ORDER_ACQUIRE, .scope = PTX_SCOPE_SYSTEM).
PTXGEN_API ptx_val ptx_atomic_emit(ptx_builder *b, ptx_atomic_op op, ptx_ptr p, ptx_val i,
                                   struct ptx_atomic_params params);
#define ptx_atomic(b, op, p, i, ...)                                                               \
    ptx_atomic_emit(b, op, p, i, PTXGEN_STRUCT(ptx_atomic_params, PTXGEN_FIELDS(x, __VA_ARGS__)))
/// Atomic p[i] = f(p[i], x) in global or shared memory; returns the old value. ptx_atomic_add(b, p,
/// i, x) is relaxed at gpu scope; ptx_atomic() takes order and scope. Floats keep subnormals,
/// except f32 in global memory.
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_val ptx_atomic_##name(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val x)       \
    {                                                                                              \
        struct ptx_atomic_params params = {                                                        \
            x, { 0, 0, 0, 0 }, PTX_ORDER_WEAK, PTX_SCOPE_DEFAULT                                   \
        };                                                                                         \
        return ptx_atomic_emit(b, PTX_ATOMIC_##name, p, i, params);                                \
    }
PTX_ATOMICS(PTX_DECLARE)
#undef PTX_DECLARE
/// Atomic compare and swap: p[i] = x if p[i] equals `compare`; returns the old value.
static inline ptx_val ptx_atomic_cas(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val compare,
                                     ptx_val x)
{
    struct ptx_atomic_params params = { x, compare, PTX_ORDER_WEAK, PTX_SCOPE_DEFAULT };
    return ptx_atomic_emit(b, PTX_ATOMIC_cas, p, i, params);
}

/// The same for each of the elements p[i] to p[i + x.lanes - 1], in one access of global memory:
/// ptx_atomic_vec(b, PTX_ATOMIC_add, p, i, ptx_vec4(x, y, z, w)). Each element is atomic, the
/// whole is not. 2 or 4 lanes of f32 (add alone), f16x2 and bf16x2, or 2, 4 or 8 of f16 and bf16;
/// add, min and max. The address must be a multiple of the bytes accessed. sm_90 and up.
struct ptx_atomic_vec_params {
    ptx_vec x;
    const struct ptx_options_have_names *ptx_options_have_names; ///< as in PTX_ACCESS_FIELDS
    ptx_order order;                                             ///< default: relaxed
    ptx_scope scope;
};
PTXGEN_API ptx_vec ptx_atomic_vec_emit(ptx_builder *b, ptx_atomic_op op, ptx_ptr p, ptx_val i,
                                       struct ptx_atomic_vec_params params);
#define ptx_atomic_vec(b, op, p, i, ...)                                                           \
    ptx_atomic_vec_emit(                                                                           \
        b, op, p, i,                                                                               \
        PTXGEN_STRUCT(ptx_atomic_vec_params, PTXGEN_FIELDS_AS(ptxgen_as_vec, x, __VA_ARGS__)))

/// Where a prefetch brings a line of memory.
typedef enum ptx_prefetch_kind {
    PTX_PREFETCH_L1,
    PTX_PREFETCH_L2,
    PTX_PREFETCH_L2_EVICT_LAST,   ///< to be evicted last; global memory, sm_80 and up
    PTX_PREFETCH_L2_EVICT_NORMAL, ///< as other lines are; global memory, sm_80 and up
    PTX_PREFETCH_UNIFORM,         ///< the cache of loads that are the same in all threads of a warp
} ptx_prefetch_kind;

/// Brings the line of p[i] to a cache, as a hint: no thread waits, and nothing changes but the
/// time that later accesses take. Global or local memory, or a generic address. An index beyond a
/// declared array is refused.
PTXGEN_API void ptx_prefetch(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_prefetch_kind kind);

/// Orders the memory accesses before the fence and after it. `order` is PTX_ORDER_ACQ_REL or
/// PTX_ORDER_SEQ_CST.
PTXGEN_API void ptx_fence(ptx_builder *b, ptx_order order, ptx_scope scope);

PTXGEN_END

#endif
