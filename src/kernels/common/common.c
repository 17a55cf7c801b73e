// SPDX-License-Identifier: MIT
#include "common.h"

#include <math.h>

ptx_type ptxk_compute_type(ptx_type dtype)
{
    return dtype == PTX_F64 ? PTX_F64 : PTX_F32;
}

unsigned ptxk_vector_lanes(ptx_type dtype)
{
    // After a builder error pointers are poisoned and have no type.
    const unsigned bytes = ptx_type_bytes(dtype);
    return bytes ? VECTOR_BYTES / bytes : 1;
}

ptx_val ptxk_team_for(ptx_builder *b, ptx_val count, uint32_t share, uint32_t most)
{
    ptx_val team = ptx_u32(1);

    for (uint32_t threads = 1; threads < most; threads *= 2) {
        ptx_val more = ptx_gt(b, count, (uint64_t)threads * share);
        team = ptx_select(b, more, 2 * threads, team);
    }
    return team;
}

unsigned ptxk_log2(uint32_t power)
{
    unsigned exponent = 0;

    while (UINT32_C(1) << exponent < power)
        exponent++;
    return exponent;
}

unsigned ptxk_comment_each(ptx_builder *b)
{
    return ptx_builder_target(b).sm >= 80 ? 4 : 2;
}

void ptxk_comment_lanes(ptx_builder *b, const char *what, unsigned k, unsigned each, unsigned lanes)
{
    if (k % each || k >= lanes)
        return;
    if (lanes <= each)
        ptx_comment(b, "%s", what);
    else if (each == 1)
        ptx_comment(b, "%s, %u", what, k);
    else
        ptx_comment(b, "%s, %u to %u", what, k, k + each - 1);
}

ptx_val ptxk_over_power_of_two(ptx_builder *b, ptx_val x, uint32_t power)
{
    const unsigned shift = ptxk_log2(power);

    return shift ? ptx_shr(b, x, shift) : x;
}

ptx_val ptxk_tree_sum(ptx_builder *b, const ptx_val *x, unsigned count)
{
    if (count == 1)
        return *x;
    ptx_val left = ptxk_tree_sum(b, x, count / 2);
    ptx_val right = ptxk_tree_sum(b, x + count / 2, count / 2);
    return ptx_add(b, left, right);
}

static ptx_val sum_apart(ptx_builder *b, const ptx_val *x, unsigned count, unsigned apart)
{
    if (count == apart)
        return *x;
    ptx_val left = sum_apart(b, x, count, 2 * apart);
    ptx_val right = sum_apart(b, x + apart, count, 2 * apart);
    return ptx_add(b, left, right);
}

ptx_val ptxk_team_sum_of(ptx_builder *b, const ptx_val *x, unsigned team)
{
    return sum_apart(b, x, team, 1);
}

ptx_val ptxk_larger(ptx_builder *b, ptx_val x, ptx_val y)
{
    if (ptx_builder_target(b).sm >= 80)
        return ptx_max_nan(b, x, y);
    ptx_val nan = ptx_is_nan(b, x);
    return ptx_select(b, ptx_or(b, ptx_gt(b, x, y), nan), x, y);
}

ptx_val ptxk_smaller(ptx_builder *b, ptx_val x, ptx_val y)
{
    if (ptx_builder_target(b).sm >= 80)
        return ptx_min_nan(b, x, y);
    ptx_val nan = ptx_is_nan(b, x);
    return ptx_select(b, ptx_or(b, ptx_lt(b, x, y), nan), x, y);
}

ptx_val ptxk_one_nan(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;
    const uint64_t all_ones = type == PTX_F64 ? UINT64_MAX >> 1 : UINT32_MAX >> 1;
    ptx_val is_nan = ptx_is_nan(b, x);

    return ptx_select(b, is_nan, ptx_imm_bits(type, all_ones), x);
}

ptx_val ptxk_lanes_combine(ptx_builder *b, ptxk_combine *combine, ptx_val x, uint32_t team,
                           uint32_t apart)
{
    for (uint32_t d = team / 2 * apart; d >= apart; d /= 2)
        x = PTXGEN_PLACED(val, b, combine(b, x, ptx_shfl_down(b, x, ptx_u32(d))));
    return x;
}

ptx_val ptxk_lanes_combine_all(ptx_builder *b, ptxk_combine *combine, ptx_val x, uint32_t team)
{
    for (uint32_t d = team / 2; d > 0; d /= 2)
        x = PTXGEN_PLACED(val, b, combine(b, x, ptx_shfl_bfly(b, x, d)));
    return x;
}

ptx_val ptxk_team_sum(ptx_builder *b, ptx_val x, ptx_val team)
{
    if (team.kind == PTX_KIND_IMMEDIATE)
        return ptxk_lanes_combine(b, ptx_add, x, (uint32_t)team.bits, 1);
    ptxk_team_sums(b, &x, 1, team);
    return x;
}

void ptxk_team_sums(ptx_builder *b, ptx_val *x, unsigned count, ptx_val team)
{
    ptx_comment(b,
                count > 1 ? "sums over the lanes of the team" : "sum over the lanes of the team");
    for (uint32_t d = WARP / 2; d > 0; d /= 2) {
        if (count > 1 && d < WARP / 2)
            ptx_comment(b, "of lanes %u apart", d);
        for (unsigned k = 0; k < count; k++) {
            ptx_val other = ptx_shfl_down(b, x[k], ptx_u32(d));
            ptx_val both = ptx_add(b, x[k], other);
            x[k] = ptx_select(b, ptx_gt(b, team, ptx_u32(d)), both, x[k]);
        }
    }
}

// In lane 0 of warp 0. Lanes without a value have `empty`.
static ptx_val block_combine(ptx_builder *b, ptxk_combine *combine, ptx_val x, unsigned threads,
                             ptx_val empty)
{
    const unsigned warps = threads / WARP;
    const ptx_type type = (ptx_type)x.type;
    ptx_ptr of_warps = ptx_shared(b, type, warps);

    ptx_val total = ptx_var(b, ptxk_lanes_combine(b, combine, x, WARP, 1));
    ptx_comment(b, "lane 0 of each warp leaves its result in shared memory");
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val lane = ptx_and(b, tid, WARP - 1);
    ptx_val warp = ptx_shr(b, tid, 5);
    ptx_if (b, ptx_eq(b, lane, 0))
        ptx_store(b, of_warps, warp, total);
    ptx_barrier(b);
    ptx_if (b, ptx_lt(b, tid, WARP)) {
        ptx_set(b, total, empty);
        ptx_if (b, ptx_lt(b, tid, warps))
            ptx_set(b, total, ptx_load(b, of_warps, tid));
        ptx_comment(b, "the first warp combines them");
        ptx_set(b, total, ptxk_lanes_combine(b, combine, total, warps, 1));
    }
    return total;
}

ptx_val ptxk_block_sum(ptx_builder *b, ptx_val x, unsigned threads)
{
    ptx_comment(b, "sum over the lanes of the warp, then over the %u warps", threads / WARP);
    return block_combine(b, ptx_add, x, threads, ptx_zero((ptx_type)x.type));
}

ptx_val ptxk_block_max(ptx_builder *b, ptx_val x, unsigned threads)
{
    ptx_comment(b, "greatest of the lanes of the warp, then of the %u warps", threads / WARP);
    return block_combine(b, ptx_max, x, threads, ptx_zero((ptx_type)x.type));
}

ptx_val ptxk_block_extreme(ptx_builder *b, ptx_val x, unsigned threads, bool greatest)
{
    ptx_comment(b, "%s of the lanes of the warp, then of the %u warps",
                greatest ? "greatest" : "least", threads / WARP);
    return block_combine(b, greatest ? ptxk_larger : ptxk_smaller, x, threads,
                         ptx_f32(greatest ? -INFINITY : INFINITY));
}

// In the first lane of so many.
static void lanes_reduce(ptx_builder *b, struct ptxk_reduced *r, unsigned count, unsigned lanes)
{
    for (unsigned k = 0; k < count; k++) {
        ptx_comment(b, "%s over %u lanes", r[k].what, lanes);
        r[k].value = ptxk_lanes_combine(b, r[k].combine, r[k].value, lanes, 1);
    }
}

void ptxk_block_reduce(ptx_builder *b, struct ptxk_reduced *r, unsigned count, unsigned threads)
{
    const unsigned warps = threads / WARP;
    struct ptxk_reduced of_warps[PTXK_MOST_REDUCED];
    ptx_ptr shared[PTXK_MOST_REDUCED];

    for (unsigned k = 0; k < count; k++)
        shared[k] = ptx_shared(b, (ptx_type)r[k].value.type, warps);
    lanes_reduce(b, r, count, WARP);
    for (unsigned k = 0; k < count; k++)
        r[k].value = ptx_var(b, r[k].value);
    ptx_comment(b, "lane 0 of each warp leaves its results in shared memory");
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val lane = ptx_and(b, tid, WARP - 1);
    ptx_val warp = ptx_shr(b, tid, 5);
    ptx_if (b, ptx_eq(b, lane, 0))
        for (unsigned k = 0; k < count; k++)
            ptx_store(b, shared[k], warp, r[k].value);
    ptx_barrier(b);
    ptx_if (b, ptx_lt(b, tid, WARP)) {
        ptx_comment(b, "the first warp combines them");
        ptx_val from = ptx_and(b, tid, warps - 1);
        for (unsigned k = 0; k < count; k++)
            of_warps[k] =
                (struct ptxk_reduced) { ptx_load(b, shared[k], from), r[k].combine, r[k].what };
        lanes_reduce(b, of_warps, count, warps);
        for (unsigned k = 0; k < count; k++)
            ptx_set(b, r[k].value, of_warps[k].value);
    }
}

ptx_val ptxk_elements_beyond_boundary(ptx_builder *b, ptx_ptr p)
{
    ptx_val offset = ptx_and(b, ptx_ptr_address(b, p), VECTOR_BYTES - 1);

    return ptxk_over_power_of_two(b, offset, ptx_type_bytes((ptx_type)p.type));
}

ptx_val ptxk_skew_of_address(ptx_builder *b, ptx_val address, ptx_type dtype)
{
    ptx_val offset = ptx_and(b, ptx_cvt(b, PTX_U32, address), VECTOR_BYTES - 1);

    return ptxk_over_power_of_two(b, offset, ptx_type_bytes(dtype));
}

ptx_val ptxk_aligned_alike(ptx_builder *b, const ptx_ptr *p, unsigned count)
{
    ptx_val first = ptx_ptr_address(b, p[0]);
    ptx_val differ = { 0 };

    for (unsigned t = 1; t < count; t++) {
        ptx_val other = ptx_ptr_address(b, p[t]);
        if (other.reg == first.reg)
            continue;
        ptx_val bits = ptx_xor(b, first, other);
        differ = differ.kind == PTX_KIND_POISON ? bits : ptx_or(b, differ, bits);
    }
    if (differ.kind == PTX_KIND_POISON)
        return differ;
    differ = ptx_and(b, differ, VECTOR_BYTES - 1);
    return ptx_eq(b, differ, 0);
}

ptx_val ptxk_scalar_param(ptx_builder *b, ptx_type type, bool device, struct ptx_param_info info)
{
    if (!device)
        return ptx_param_emit(b, type, info);
    info.readonly = true;
    info.length = "1";
    ptx_ptr p = ptx_param_ptr_emit(b, type, info);
    return ptx_load(b, p, 0);
}

ptx_val ptxk_clip_scale(ptx_builder *b, ptx_val total, ptx_val root, ptx_val norm, ptx_val max_norm,
                        ptx_val eps)
{
    ptx_val divisor = ptx_add(b, norm, eps);

    ptx_comment(
        b, "2^-149 in place of 0: max_norm / divisor is 0 for a max_norm of 0, else 1 or more");
    ptx_val none = ptx_eq(b, divisor, 0);
    divisor = ptx_select(b, none, 0x1p-149, divisor);
    ptx_val ratio = ptx_var(b, ptx_div(b, max_norm, divisor));

    ptx_comment(b, "a finite sum whose divisor is beyond f32 is divided in f64");
    ptx_if (b, ptx_and(b, ptx_is_finite(b, total), ptx_is_infinite(b, divisor))) {
        ptx_val wide = ptx_add(b, root, ptx_cvt(b, PTX_F64, eps));
        wide = ptx_div(b, ptx_cvt(b, PTX_F64, max_norm), wide);
        ptx_set(b, ratio, ptx_cvt(b, PTX_F32, wide));
    }

    ptx_comment(b, "1 at most, and 1 where there is nothing");
    ptx_val clips = ptx_ltu(b, ratio, 1);
    ptx_val scale = ptx_select(b, clips, ratio, 1);
    ptx_val empty = ptx_eq(b, total, 0);
    return ptx_select(b, empty, 1, scale);
}
