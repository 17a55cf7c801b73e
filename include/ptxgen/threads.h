// SPDX-License-Identifier: MIT
/// Part of builder.h: the index of a thread, barriers and warp operations. The rules of builder.h
/// apply.
#ifndef PTXGEN_THREADS_H
#define PTXGEN_THREADS_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/control.h>
#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The index of the thread in the grid along an axis: block * threads of a block + thread. A u32,
/// which wraps in a grid of more than 2^32 threads; of ptx_global_index_wide() a u64, which never
/// wraps. The number of threads of a block is a constant of the text where the entry has a shape
/// (`.block`).
PTXGEN_API ptx_val ptx_global_index(ptx_builder *b, ptx_axis axis);
PTXGEN_API ptx_val ptx_global_index_wide(ptx_builder *b, ptx_axis axis);
/// A loop in which the threads of the grid along x share the numbers from 0 to n - 1, whatever the
/// size of the grid: for (i = global index; i < n; i += threads of the grid). `n` is a u32, s32,
/// u64 or s64, evaluated once, and `i` has its type. Neither the index nor the counter wraps, even
/// if n is the type's maximum or the grid has more threads than the type has numbers. ptx_break()
/// and ptx_continue() work as in ptx_for(). The body must not set `i`, which ends with the loop.
/// Threads of a warp may leave the loop after different rounds, so barriers and full-mask warp
/// operations belong after it.
#define ptx_grid_stride(b, i, n)                                                                   \
    for (ptx_val i = ptx_grid_stride_begin(b, n); i.kind; i = ptx_grid_stride_end(b, i))
PTXGEN_API ptx_val ptx_grid_stride_begin(ptx_builder *b, ptx_val n);
static inline ptx_val ptx_grid_stride_end(ptx_builder *b, ptx_val i)
{
    return ptx_for_end(b, i);
}

/// Waits for all threads of the block. Refused in divergent code.
PTXGEN_API void ptx_barrier(ptx_builder *b);
/// Barrier `id` of the block, 0 to 15 (ptx_barrier() uses 0), for `threads` threads: a multiple of
/// 32, or 0 for the whole block. With a thread count, threads may arrive from different branches,
/// so divergent code is allowed. More threads than a block of the entry has are refused: the
/// barrier would never end.
PTXGEN_API void ptx_barrier_named(ptx_builder *b, unsigned id, unsigned threads);
/// Arrives at barrier `id` and goes on: the threads that wait there, by ptx_barrier_named() with
/// the same `threads`, see what this one wrote before. `threads`, 32 to 1024, counts those that
/// arrive and those that wait. Warps arrive as a whole, so code that only some lanes of one may
/// reach is refused. Arrivals at a barrier where no thread ever waits order nothing, and nothing
/// reports them.
PTXGEN_API void ptx_barrier_arrive(ptx_builder *b, unsigned id, unsigned threads);
/// Barriers that give every thread whether the predicate holds in all threads of the block, in any
/// thread, or in how many (u32).
PTXGEN_API ptx_val ptx_barrier_all(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_any(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_count(ptx_builder *b, ptx_val pred);

/// The mask of all 32 lanes. Warp operations take the mask of participating lanes as a u32.
/// Mask 0 is refused. The full mask is refused in code that may diverge within a warp: after a
/// condition or return that may differ between lanes. The builder recognises conditions that are
/// uniform in a warp (tid < 64, tid / 32 == 0, the result of a vote); for an entry without a block
/// shape it assumes rows of whole warps. Declare other warp-uniform values with
/// ptx_assume_warp_uniform().
static inline ptx_val ptx_full_warp(void)
{
    return ptx_u32(UINT32_MAX);
}
/// Asserts that `x` is the same in all lanes of a warp, whatever values its variables are set to,
/// so that conditions computed from it do not diverge. Emits nothing; the caller is responsible.
PTXGEN_API void ptx_assume_warp_uniform(ptx_builder *b, ptx_val x);
/// Waits for the lanes of the mask. Their earlier writes are visible to each other afterwards.
PTXGEN_API void ptx_barrier_warp(ptx_builder *b, ptx_val mask);

/// The lane that a shuffle reads.
typedef enum ptx_shfl_mode {
    PTX_SHFL_DOWN, ///< from lane + delta
    PTX_SHFL_UP,   ///< from lane - delta
    PTX_SHFL_BFLY, ///< from lane ^ mask
    PTX_SHFL_IDX,  ///< from lane idx
} ptx_shfl_mode;

struct ptx_shfl_params {
    ptx_val lane; ///< u32: delta, mask or index
    ptx_val mask; ///< participating lanes, a u32 and not a plain number; left out: all
    unsigned
        width; ///< the warp is split into independent segments of 1, 2, 4, 8, 16 or 32 lanes; 0: 32
};
/// The value of `x` in another lane, as ptx_shfl_mode says: ptx_shfl(b, PTX_SHFL_DOWN, x, delta,
/// .width = 16). `x` is of any type except predicates; the result is `x` itself if that lane does
/// not exist. All 32 lanes participate unless a mask is given. Of a delta, mask or index PTX takes
/// the lower 5 bits: a delta of 33 is one of 1. A constant above 31 is refused.
PTXGEN_API ptx_val ptx_shfl_emit(ptx_builder *b, ptx_shfl_mode mode, ptx_val x,
                                 struct ptx_shfl_params params);
#define ptx_shfl(b, mode, x, ...)                                                                  \
    ptx_shfl_emit(b, mode, x, PTXGEN_STRUCT(ptx_shfl_params, PTXGEN_FIELDS(lane, __VA_ARGS__)))
/// The same with all lanes and the whole warp.
static inline ptx_val ptx_shfl_down(ptx_builder *b, ptx_val x, ptx_val delta)
{
    struct ptx_shfl_params params = { delta, { 0, 0, 0, 0 }, 0 };
    return ptx_shfl_emit(b, PTX_SHFL_DOWN, x, params);
}
static inline ptx_val ptx_shfl_up(ptx_builder *b, ptx_val x, ptx_val delta)
{
    struct ptx_shfl_params params = { delta, { 0, 0, 0, 0 }, 0 };
    return ptx_shfl_emit(b, PTX_SHFL_UP, x, params);
}
static inline ptx_val ptx_shfl_bfly(ptx_builder *b, ptx_val x, ptx_val mask)
{
    struct ptx_shfl_params params = { mask, { 0, 0, 0, 0 }, 0 };
    return ptx_shfl_emit(b, PTX_SHFL_BFLY, x, params);
}
static inline ptx_val ptx_shfl_idx(ptx_builder *b, ptx_val x, ptx_val lane)
{
    struct ptx_shfl_params params = { lane, { 0, 0, 0, 0 }, 0 };
    return ptx_shfl_emit(b, PTX_SHFL_IDX, x, params);
}

/// Whether the predicate holds in all lanes of the mask, in any of them, or has the same value in
/// all of them.
PTXGEN_API ptx_val ptx_vote_all(ptx_builder *b, ptx_val pred, ptx_val mask);
PTXGEN_API ptx_val ptx_vote_any(ptx_builder *b, ptx_val pred, ptx_val mask);
PTXGEN_API ptx_val ptx_vote_uniform(ptx_builder *b, ptx_val pred, ptx_val mask);
/// The lanes of the mask in which the predicate holds, as a u32.
PTXGEN_API ptx_val ptx_ballot(ptx_builder *b, ptx_val pred, ptx_val mask);
/// match_any: the lanes of the mask that have the same 32 or 64 bits as this lane. match_all: the
/// mask if all its lanes have the same bits, else 0.
PTXGEN_API ptx_val ptx_match_any(ptx_builder *b, ptx_val x, ptx_val mask);
PTXGEN_API ptx_val ptx_match_all(ptx_builder *b, ptx_val x, ptx_val mask);
/// The lanes that execute together at this point; a hint, not a synchronisation.
PTXGEN_API ptx_val ptx_activemask(ptx_builder *b);
/// ptx_redux_add(b, x, mask) ...: reduces a 32-bit integer over the lanes of the mask. sm_80 and
/// up.
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_redux_##name(ptx_builder *b, ptx_val x, ptx_val mask);
PTX_WARP_REDUCTIONS(PTX_DECLARE)
#undef PTX_DECLARE

PTXGEN_END

#endif
