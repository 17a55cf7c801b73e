// SPDX-License-Identifier: MIT
/// Part of builder.h, which says what holds for all of it: what the threads of a block or a warp do
/// together.
#ifndef PTXGEN_THREADS_H
#define PTXGEN_THREADS_H

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// Waits for every thread of the block. Refused where only some threads may come by.
PTXGEN_API void ptx_barrier(ptx_builder *b);
/// One of the block's 16 barriers, 0 to 15, of which 0 is ptx_barrier()'s, for `threads` threads (a
/// multiple of 32; 0 for all). With a count given, threads may come from different places, so that
/// divergence is not refused.
PTXGEN_API void ptx_barrier_named(ptx_builder *b, unsigned id, unsigned threads);
/// Barriers that tell every thread whether all, or any, of the block's predicates hold, or how many
/// do (u32).
PTXGEN_API ptx_val ptx_barrier_all(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_any(ptx_builder *b, ptx_val pred);
PTXGEN_API ptx_val ptx_barrier_count(ptx_builder *b, ptx_val pred);

/// Warp operations take the mask of lanes that take part as a u32; ptx_full_warp() is all 32. The
/// mask 0 is refused. So is the full one where the lanes of a warp may part: behind a condition or
/// a return that may differ between them. Conditions for whole warps are seen as such (tid < 64,
/// tid / 32 == 0, the result of a vote); for them, a block whose shape the entry does not say is
/// taken to have whole warps in every row. ptx_assume_warp_uniform() tells of others.
static inline ptx_val ptx_full_warp(void)
{
    return ptx_u32(UINT32_MAX);
}
/// The caller vouches that `x` is the same in all lanes of a warp, whatever a variable is set to,
/// so that conditions made of it do not part them. Emits nothing.
PTXGEN_API void ptx_assume_warp_uniform(ptx_builder *b, ptx_val x);
/// Waits for the lanes of the mask, which then see what each of them has written.
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
    unsigned width; ///< the warp in segments that keep to themselves, of 1, 2, 4, 8, 16 or 32
                    ///< lanes; 0: 32
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

PTXGEN_END

#endif
