// SPDX-License-Identifier: MIT
// Barriers, shuffles, votes.
#include "internal.h"

// ---- the index of a thread ----------------------------------------------------------------------

static bool axis_ok(ptx_builder *b, const char *call, ptx_axis axis)
{
    if (!ptxb_ready(b, call))
        return false;
    if ((unsigned)axis <= PTX_Z)
        return true;
    ptxb_fail(b, call, "%d is not an axis; there are PTX_X, PTX_Y and PTX_Z", (int)axis);
    return false;
}

// The threads of a block along the axis.
static ptx_val block_threads(ptx_builder *b, ptx_axis axis)
{
    const uint32_t *block = ptxb_entry(b)->decl.block;

    if (!block[0])
        return ptx_ntid(b, axis);
    return ptx_u32(block[axis] ? block[axis] : 1);
}

static bool is_one(ptx_val x)
{
    return x.kind == PTX_KIND_IMMEDIATE && x.bits == 1;
}

ptx_val ptx_global_index(ptx_builder *b, ptx_axis axis)
{
    if (!axis_ok(b, "global_index", axis))
        return (ptx_val) { 0 };
    ptx_val block = ptx_ctaid(b, axis);
    ptx_val threads = block_threads(b, axis);
    return is_one(threads) ? block : ptx_mad(b, block, threads, ptx_tid(b, axis));
}

static ptx_val wide_index(ptx_builder *b, ptx_axis axis, ptx_val threads)
{
    ptx_val block = ptx_ctaid(b, axis);

    if (is_one(threads))
        return ptx_cvt(b, PTX_U64, block);
    return ptx_mad_wide(b, block, threads, ptx_cvt(b, PTX_U64, ptx_tid(b, axis)));
}

ptx_val ptx_global_index_wide(ptx_builder *b, ptx_axis axis)
{
    if (!axis_ok(b, "global_index_wide", axis))
        return (ptx_val) { 0 };
    return wide_index(b, axis, block_threads(b, axis));
}

ptx_val ptx_grid_stride_begin(ptx_builder *b, ptx_val n)
{
    const ptx_val failed = { .kind = PTX_KIND_REGISTER, .type = n.type };
    const ptx_type type = (ptx_type)n.type;

    if (!ptxb_ready(b, "grid_stride") || !ptxb_usable(b, "grid_stride", "n", n)) {
        ptxb_not_opened(b);
        return failed;
    }
    if (!((PTX_TYPES_I32 | PTX_TYPES_I64) >> type & 1)) {
        ptxb_fail(b, "grid_stride", "n is %s; it must be u32, s32, u64 or s64",
                  ptx_type_name(type));
        ptxb_not_opened(b);
        return failed;
    }
    ptx_val threads = block_threads(b, PTX_X);
    ptx_val first = wide_index(b, PTX_X, threads);
    ptx_val step = ptx_mul_wide(b, ptx_nctaid(b, PTX_X), threads);
    // What 32 bits cannot hold becomes their maximum: such an index is not below n, and such a step
    // leads past it.
    const bool narrow = ptxb_bits(type) == 32;
    first = narrow ? ptx_cvt(b, type, first, .sat = true) : ptx_bitcast(b, type, first);
    step = narrow ? ptx_cvt(b, type, step, .sat = true) : ptx_bitcast(b, type, step);
    return ptx_for_begin(b, first, n, step);
}

// ---- barriers -----------------------------------------------------------------------------------

// Whether arrivals at a barrier and waits there count the same threads: `threads` of 0 are those of
// the block. Barriers of which no thread only arrives may have other counts one after another.
static bool counts_agree(ptx_builder *b, const char *call, unsigned id, unsigned threads,
                         bool arrives)
{
    struct entry *entry = ptxb_entry(b);
    const uint32_t block = entry->decl.block[0] ? (ptxb_block_threads(entry) + 31) / 32 * 32 : 0;
    const unsigned count = threads ? threads : block, first = entry->barrier_threads[id];

    entry->arrives[id] |= arrives;
    if (!first)
        entry->barrier_threads[id] = (uint16_t)count;
    if (!first || !count || first == count || !entry->arrives[id])
        return true;
    ptxb_fail(b, call,
              "barrier %u counts %u threads here and %u before, and threads arrive there without "
              "waiting; arrivals and waits give the same count, or use another barrier",
              id, count, first);
    return false;
}

void ptx_barrier(ptx_builder *b)
{
    const ptx_val zero = ptx_u32(0);

    if (!ptxb_ready(b, "barrier") || !counts_agree(b, "barrier", 0, 0, false))
        return;
    ptxb_emit_void(b, ptxb_opcode(b, "bar.sync"), 1, &zero);
    ptxb_meet(b, MEET_BLOCK);
}

// A barrier of whole warps that can end.
static bool is_barrier(ptx_builder *b, const char *call, unsigned id, unsigned threads)
{
    if (id > 15 || threads % 32 || threads > 1024) {
        ptxb_fail(
            b, call,
            "barrier %u for %u threads: there are 16 barriers, for 32 to 1024 threads in whole "
            "warps",
            id, threads);
        return false;
    }
    struct entry *entry = ptxb_entry(b);
    const uint32_t all = ptxb_block_threads(entry);
    if (all && threads > (all + 31) / 32 * 32) {
        ptxb_fail(b, call,
                  "barrier %u waits for %u threads, and a block of the entry has %u: it would wait "
                  "for ever",
                  id, threads, all);
        return false;
    }
    if (threads > entry->named_threads)
        entry->named_threads = (uint16_t)threads;
    return true;
}

void ptx_barrier_named(ptx_builder *b, unsigned id, unsigned threads)
{
    const ptx_val src[] = { ptx_u32(id), ptx_u32(threads) };

    if (!ptxb_ready(b, "barrier_named") || !is_barrier(b, "barrier_named", id, threads) ||
        !counts_agree(b, "barrier_named", id, threads, false))
        return;
    ptxb_emit_void(b, ptxb_opcode(b, "bar.sync"), threads ? 2 : 1, src);
    if (!threads)
        ptxb_meet(b, MEET_BLOCK);
}

void ptx_barrier_arrive(ptx_builder *b, unsigned id, unsigned threads)
{
    const ptx_val src[] = { ptx_u32(id), ptx_u32(threads) };

    if (!ptxb_ready(b, "barrier_arrive") || !is_barrier(b, "barrier_arrive", id, threads))
        return;
    if (!threads) {
        ptxb_fail(b, "barrier_arrive",
                  "barrier %u needs the number of threads that arrive and wait, 32 to 1024", id);
        return;
    }
    if (!counts_agree(b, "barrier_arrive", id, threads, true))
        return;
    ptxb_emit_void(b, ptxb_opcode(b, "bar.arrive"), 2, src);
    ptxb_meet_whole_warps(b);
}

static ptx_val reduce_barrier(ptx_builder *b, const char *call, const char *opcode, ptx_type type,
                              ptx_val pred)
{
    if (!ptxb_is_condition(b, call, pred))
        return (ptx_val) { 0 };
    const ptx_val src[] = { ptx_u32(0), ptxb_in_register(b, pred) };
    ptx_val result = ptxb_emit(b, type, ptxb_opcode(b, opcode), 2, src);
    ptxb_meet(b, MEET_BLOCK);
    return result;
}

ptx_val ptx_barrier_all(ptx_builder *b, ptx_val pred)
{
    return reduce_barrier(b, "barrier_all", "bar.red.and.pred", PTX_PRED, pred);
}

ptx_val ptx_barrier_any(ptx_builder *b, ptx_val pred)
{
    return reduce_barrier(b, "barrier_any", "bar.red.or.pred", PTX_PRED, pred);
}

ptx_val ptx_barrier_count(ptx_builder *b, ptx_val pred)
{
    return reduce_barrier(b, "barrier_count", "bar.red.popc.u32", PTX_U32, pred);
}

static bool is_u32(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    if (!ptxb_usable(b, call, name, x))
        return false;
    if (x.type == PTX_U32)
        return true;
    ptxb_fail(b, call, "%s is %s; it must be u32", name, ptx_type_name((ptx_type)x.type));
    return false;
}

static bool mask_ok(ptx_builder *b, const char *call, ptx_val mask)
{
    if (!is_u32(b, call, "the mask", mask))
        return false;
    if (mask.kind != PTX_KIND_IMMEDIATE || mask.bits)
        return true;
    ptxb_fail(b, call, "the mask is 0; it must have the bits of the lanes that take part");
    return false;
}

// With the full mask, all lanes of the warp must execute the newest instruction.
static void note_mask(ptx_builder *b, ptx_val mask)
{
    if (mask.kind == PTX_KIND_IMMEDIATE && mask.bits == UINT32_MAX)
        ptxb_meet(b, MEET_WARP);
}

void ptx_barrier_warp(ptx_builder *b, ptx_val mask)
{
    if (!ptxb_ready(b, "barrier_warp"))
        return;
    mask = ptxb_typed(b, "barrier_warp", "the mask", mask, PTX_U32);
    if (!mask_ok(b, "barrier_warp", mask))
        return;
    ptxb_emit_void(b, ptxb_opcode(b, "bar.warp.sync"), 1, &mask);
    note_mask(b, mask);
}

void ptx_assume_warp_uniform(ptx_builder *b, ptx_val x)
{
    if (ptxb_ready(b, "assume_warp_uniform") && ptxb_usable(b, "assume_warp_uniform", "x", x) &&
        x.kind != PTX_KIND_IMMEDIATE)
        b->regs.at[x.reg].assumed = 1;
}

// ---- shuffles -----------------------------------------------------------------------------------

static ptx_val shuffle_word(ptx_builder *b, const char *opcode, ptx_val x, ptx_val lane,
                            uint32_t clamp, ptx_val mask)
{
    const ptx_val src[] = { ptxb_in_register(b, x), lane, ptx_u32(clamp), mask };
    ptx_val result = ptxb_emit(b, PTX_B32, ptxb_opcode(b, opcode), 4, src);
    ptxb_mark_varying(b);
    note_mask(b, mask);
    return result;
}

// The call for errors: that of the mode, but where only ptx_shfl() has the options.
static const char *shuffle_call(ptx_shfl_mode mode, const struct ptx_shfl_params *p)
{
    static const char *const calls[] = { "shfl_down", "shfl_up", "shfl_bfly", "shfl_idx" };

    return (unsigned)mode > PTX_SHFL_IDX || ptxb_is_given(p->mask) || p->width ? "shfl"
                                                                               : calls[mode];
}

static bool shuffle_ok(ptx_builder *b, const char *call, ptx_shfl_mode mode, ptx_val x,
                       const struct ptx_shfl_params *p)
{
    if (!ptxb_usable(b, call, "x", x) || !is_u32(b, call, "the lane", p->lane) ||
        (ptxb_is_given(p->mask) && !mask_ok(b, call, p->mask)))
        return false;
    if ((unsigned)mode > PTX_SHFL_IDX) {
        ptxb_fail(b, call,
                  "%d is not a mode; there are PTX_SHFL_DOWN, PTX_SHFL_UP, PTX_SHFL_BFLY and "
                  "PTX_SHFL_IDX",
                  (int)mode);
        return false;
    }
    if (x.type == PTX_PRED) {
        ptxb_fail(b, call, "x is %s; a predicate goes through ptx_ballot",
                  ptx_type_name((ptx_type)x.type));
        return false;
    }
    if (p->lane.kind == PTX_KIND_IMMEDIATE && p->lane.bits > 31) {
        ptxb_fail(b, call, "the lane is %u; a warp has 32 lanes, and PTX takes the lower 5 bits",
                  (unsigned)p->lane.bits);
        return false;
    }
    if (p->width > 32 || (p->width & (p->width - 1))) {
        ptxb_fail(b, call, ".width is %u; it must be 1, 2, 4, 8, 16 or 32", p->width);
        return false;
    }
    return true;
}

ptx_val ptx_shfl_emit(ptx_builder *b, ptx_shfl_mode mode, ptx_val x, struct ptx_shfl_params p)
{
    static const char *const opcodes[] = { "shfl.sync.down.b32", "shfl.sync.up.b32",
                                           "shfl.sync.bfly.b32", "shfl.sync.idx.b32" };
    const ptx_type type = (ptx_type)x.type;
    const char *const call = shuffle_call(mode, &p);

    if (!ptxb_ready(b, call))
        return (ptx_val) { 0 };
    p.lane = ptxb_typed(b, call, "the lane", p.lane, PTX_U32);
    p.mask = ptxb_typed(b, call, "the mask", p.mask, PTX_U32);
    if (!shuffle_ok(b, call, mode, x, &p))
        return (ptx_val) { 0 };
    const uint32_t width = p.width ? p.width : 32;
    const uint32_t clamp = (32 - width) << 8 | (mode == PTX_SHFL_UP ? 0u : 31u);
    const ptx_val mask = ptxb_is_given(p.mask) ? p.mask : ptx_full_warp();
    const char *opcode = opcodes[mode];

    switch (ptxb_bits(type)) {
    case 64: {
        ptx_vec half = ptx_unpack(b, PTX_B32, x);
        ptx_val lo = shuffle_word(b, opcode, half.lane[0], p.lane, clamp, mask);
        ptx_val hi = shuffle_word(b, opcode, half.lane[1], p.lane, clamp, mask);
        return ptx_pack(b, type, ptx_vec2(lo, hi));
    }
    case 32:
        return ptx_bitcast(b, type, shuffle_word(b, opcode, x, p.lane, clamp, mask));
    default: {
        const bool byte = ptxb_bits(type) == 8;
        ptx_val narrow = ptx_bitcast(b, byte ? PTX_U8 : PTX_U16, x);
        ptx_val word = ptx_cvt(b, PTX_U32, narrow);
        ptx_val moved = shuffle_word(b, opcode, word, p.lane, clamp, mask);
        ptx_val back = ptx_cvt(b, byte ? PTX_U8 : PTX_U16, ptx_bitcast(b, PTX_U32, moved));
        return ptx_bitcast(b, type, back);
    }
    }
}

// ---- votes, matches, reductions -----------------------------------------------------------------

static ptx_val combine(ptx_builder *b, const char *call, uint32_t opcode, ptx_type type, ptx_val x,
                       ptx_val mask)
{
    mask = ptxb_typed(b, call, "the mask", mask, PTX_U32);
    if (!mask_ok(b, call, mask))
        return (ptx_val) { 0 };
    const ptx_val src[] = { ptxb_in_register(b, x), mask };
    ptx_val result = ptxb_emit(b, type, opcode, 2, src);
    ptxb_mark_varying(b);
    note_mask(b, mask);
    return result;
}

static ptx_val vote(ptx_builder *b, const char *call, const char *opcode, ptx_type type,
                    ptx_val pred, ptx_val mask)
{
    if (!ptxb_is_condition(b, call, pred))
        return (ptx_val) { 0 };
    return combine(b, call, ptxb_opcode(b, opcode), type, pred, mask);
}

ptx_val ptx_vote_all(ptx_builder *b, ptx_val pred, ptx_val mask)
{
    return vote(b, "vote_all", "vote.sync.all.pred", PTX_PRED, pred, mask);
}

ptx_val ptx_vote_any(ptx_builder *b, ptx_val pred, ptx_val mask)
{
    return vote(b, "vote_any", "vote.sync.any.pred", PTX_PRED, pred, mask);
}

ptx_val ptx_vote_uniform(ptx_builder *b, ptx_val pred, ptx_val mask)
{
    return vote(b, "vote_uniform", "vote.sync.uni.pred", PTX_PRED, pred, mask);
}

ptx_val ptx_ballot(ptx_builder *b, ptx_val pred, ptx_val mask)
{
    return vote(b, "ballot", "vote.sync.ballot.b32", PTX_U32, pred, mask);
}

static ptx_val match(ptx_builder *b, const char *call, const char *const opcodes[2], ptx_val x,
                     ptx_val mask)
{
    if (!ptxb_ready(b, call) || !ptxb_usable(b, call, "x", x))
        return (ptx_val) { 0 };
    const unsigned bits = ptxb_bits((ptx_type)x.type);
    if (bits < 32) {
        ptxb_fail(b, call, "x is %s; it must have 32 or 64 bits", ptx_type_name((ptx_type)x.type));
        return (ptx_val) { 0 };
    }
    x = ptx_bitcast(b, bits == 32 ? PTX_B32 : PTX_B64, x);
    return combine(b, call, ptxb_opcode(b, opcodes[bits == 64]), PTX_U32, x, mask);
}

ptx_val ptx_match_any(ptx_builder *b, ptx_val x, ptx_val mask)
{
    static const char *const opcodes[] = { "match.any.sync.b32", "match.any.sync.b64" };
    return match(b, "match_any", opcodes, x, mask);
}

ptx_val ptx_match_all(ptx_builder *b, ptx_val x, ptx_val mask)
{
    static const char *const opcodes[] = { "match.all.sync.b32", "match.all.sync.b64" };
    return match(b, "match_all", opcodes, x, mask);
}

ptx_val ptx_activemask(ptx_builder *b)
{
    const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_activemask)->forms;

    if (!ptxb_ready(b, "activemask") ||
        !ptxb_require(b, "activemask", form->isa, form->sm, form->text))
        return (ptx_val) { 0 };
    ptx_val result = ptxb_emit(b, PTX_U32, ptxb_opcode(b, "activemask.b32"), 0, NULL);
    ptxb_mark_varying(b);
    return result;
}

static ptx_val redux(ptx_builder *b, const char *call, const char *name, uint32_t types, ptx_val x,
                     ptx_val mask)
{
    const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_redux)->forms;
    char list[160];

    if (!ptxb_ready(b, call) || !ptxb_usable(b, call, "x", x))
        return (ptx_val) { 0 };
    const ptx_type type = (ptx_type)x.type;
    if (!(types >> type & 1)) {
        ptxb_fail(b, call, "x is %s; the instruction takes %s", ptx_type_name(type),
                  ptxb_type_list(types, list));
        return (ptx_val) { 0 };
    }
    const bool bits = types >> PTX_B32 & 1;
    const uint32_t opcode =
        ptxb_spell(b, form->text, ".", name, ".", bits ? "b32" : ptx_type_name(type), NULL);
    if (!ptxb_required(b, call, form->isa, form->sm, opcode))
        return (ptx_val) { 0 };
    return combine(b, call, opcode, type, x, mask);
}

#define DEFINE(name, meaning, types)                                                               \
    ptx_val ptx_redux_##name(ptx_builder *b, ptx_val x, ptx_val mask)                              \
    {                                                                                              \
        return redux(b, "redux_" #name, #name, types, x, mask);                                    \
    }
PTX_WARP_REDUCTIONS(DEFINE)
#undef DEFINE
