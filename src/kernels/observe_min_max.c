// SPDX-License-Identifier: MIT
#include <math.h>

#include "common/lanes.h"
#include "kernel_code.h"

enum { BLOCK = 256, CHUNK = 8192 };
enum { AHEAD = 4 }; // vectors that a thread loads before it compares them

// The part of a block: its vectors of `lanes` elements, from the first 16-byte boundary of x on,
// and the elements before and after them. Counts are s32.
struct observed {
    ptx_ptr x; // at the block's first element
    unsigned lanes;
    ptx_val tid, head, vectors, length;
    ptx_val least, greatest; // variables: of the thread
};

static void divide_work(ptx_builder *b, struct observed *o, ptx_val n)
{
    ptx_comment(b, "the block's elements: vectors from a 16-byte boundary on, and others");
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val start = ptx_mul_wide(b, block, CHUNK);
    ptx_val length = ptx_min(b, ptx_sub(b, n, start), CHUNK);
    o->length = ptx_cvt(b, PTX_S32, length);
    o->x = ptx_at(b, o->x, start);
    ptx_val skew = ptx_cvt(b, PTX_S32, ptxk_elements_beyond_boundary(b, o->x));
    ptx_val head = ptx_and(b, ptx_neg(b, skew), o->lanes - 1);
    ptx_val rest = ptx_max(b, ptx_sub(b, o->length, head), 0);
    o->head = ptx_min(b, head, o->length);
    o->vectors = ptx_shr(b, rest, ptxk_log2(o->lanes));
    o->tid = ptx_bitcast(b, PTX_S32, ptx_tid(b, PTX_X));
}

static void observe(ptx_builder *b, const struct observed *o, ptx_val x)
{
    x = ptx_cvt(b, PTX_F32, x);
    ptx_set(b, o->least, ptxk_smaller(b, o->least, x));
    ptx_set(b, o->greatest, ptxk_larger(b, o->greatest, x));
}

static void read_vector(ptx_builder *b, const struct observed *o, const struct ptxk_lanes *to,
                        ptx_val vector)
{
    ptx_val place = ptx_mad(b, vector, o->lanes, o->head);

    ptxk_lanes_read(b, to, ptx_at(b, o->x, place));
}

static void observe_vector(ptx_builder *b, const struct observed *o, const struct ptxk_lanes *from)
{
    ptx_vec x = ptxk_lanes_vec(b, from);

    for (unsigned k = 0; k < x.lanes; k++) {
        ptxk_comment_lanes(b, "compares a vector", k, ptxk_comment_each(b), x.lanes);
        observe(b, o, x.lane[k]);
    }
}

static void observe_vectors(ptx_builder *b, const struct observed *o)
{
    struct ptxk_lanes ahead[AHEAD];
    ptx_val vector = ptx_var(b, o->tid);
    ptx_val last = ptx_sub(b, o->vectors, BLOCK * (AHEAD - 1));

    ptx_comment(b, "%d vectors at a time, all read before the first is compared", AHEAD);
    for (unsigned k = 0; k < AHEAD; k++)
        ahead[k] = ptxk_lanes_var(b, (ptx_type)o->x.type, o->lanes);
    ptx_while (b, ptx_lt(b, vector, last)) {
        for (unsigned k = 0; k < AHEAD; k++) {
            ptx_val at = k ? ptx_add(b, vector, BLOCK * k) : vector;
            read_vector(b, o, &ahead[k], at);
        }
        for (unsigned k = 0; k < AHEAD; k++)
            observe_vector(b, o, &ahead[k]);
        ptx_set(b, vector, ptx_add(b, vector, BLOCK * AHEAD));
    }
    ptx_comment(b, "the other vectors");
    ptx_for (b, at, vector, o->vectors, BLOCK) {
        read_vector(b, o, &ahead[0], at);
        observe_vector(b, o, &ahead[0]);
    }
}

static void observe_others(ptx_builder *b, const struct observed *o)
{
    ptx_comment(b, "the elements before the vectors and after them");
    ptx_val inside = ptx_mul(b, o->vectors, o->lanes);
    ptx_val others = ptx_sub(b, o->length, inside);

    ptx_for (b, k, o->tid, others, BLOCK) {
        ptx_val before = ptx_lt(b, k, o->head);
        ptx_val i = ptx_add(b, k, ptx_select(b, before, 0, inside));
        observe(b, o, ptx_load(b, o->x, i));
    }
}

// Merges `x`, which is not -0, by atomics on its bits. Floats without a sign are ordered as s32,
// and those with one the other way round, as u32; a NaN has the bits beyond all others.
static void merge(ptx_builder *b, ptx_ptr to, int32_t place, ptx_val x, bool greatest)
{
    const uint32_t beyond = greatest ? UINT32_MAX >> 1 : UINT32_MAX;
    ptx_comment(b, "merges the %s by atomics on its bits", greatest ? "greatest" : "least");
    ptx_val is_nan = ptx_is_nan(b, x);
    ptx_val bits = ptx_bitcast(b, PTX_S32, ptx_select(b, is_nan, ptx_imm_bits(PTX_F32, beyond), x));
    ptx_ptr as_s32 = ptx_ptr_cast(b, PTX_S32, to), as_u32 = ptx_ptr_cast(b, PTX_U32, to);
    ptx_val signless = ptx_bitcast(b, PTX_U32, bits);
    ptx_val found = ptx_load(b, as_s32, place, .order = PTX_ORDER_RELAXED);

    ptx_if (b, ptx_ge(b, bits, 0)) {
        ptx_if (b, greatest ? ptx_gt(b, bits, found) : ptx_lt(b, bits, found)) {
            if (greatest)
                ptx_atomic_max(b, as_s32, place, bits);
            else
                ptx_atomic_min(b, as_s32, place, bits);
        }
    }
    ptx_else (b) {
        ptx_val bound = ptx_bitcast(b, PTX_U32, found);
        ptx_if (b, greatest ? ptx_lt(b, signless, bound) : ptx_gt(b, signless, bound)) {
            if (greatest)
                ptx_atomic_min(b, as_u32, place, signless);
            else
                ptx_atomic_max(b, as_u32, place, signless);
        }
    }
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct observed o = { .lanes = ptxk_vector_lanes(spec->dtype) };

    o.x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be observed", .length = "n",
                        .readonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of x");
    ptx_ptr extremes =
        ptx_param_ptr(b, PTX_F32, "extremes", .meaning = "merged with the least and the greatest x",
                      .length = "2");
    divide_work(b, &o, n);
    o.least = ptx_var(b, ptx_f32(INFINITY));
    o.greatest = ptx_var(b, ptx_f32(-INFINITY));
    observe_vectors(b, &o);
    observe_others(b, &o);
    ptx_val least = ptxk_block_extreme(b, o.least, BLOCK, false);
    ptx_val greatest = ptxk_block_extreme(b, o.greatest, BLOCK, true);
    ptx_if (b, ptx_eq(b, o.tid, 0)) {
        ptx_comment(b, "a zero is +0");
        merge(b, extremes, 0, ptx_add(b, least, 0), false);
        merge(b, extremes, 1, ptx_add(b, greatest, 0), true);
    }
}

const ptx_kernel ptx_kernel_observe_min_max = {
    .name = "observe_min_max",
    .summary = "the least and the greatest element",
    .formula = "extremes = min(extremes[0], x), max(extremes[1], x)",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .guarantees = "deterministic; a NaN makes both extremes NaN",
    .chunk = CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
