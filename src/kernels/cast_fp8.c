// SPDX-License-Identifier: MIT
#include "common/fp8.h"
#include "common/lanes.h"
#include "kernel_code.h"

enum { CAST_BLOCK = 256, CAST_CHUNK = 8192 };
enum { OPTION_FORMAT, OPTION_SCALE, OPTION_AMAX };
enum { AMAX_MERGE, AMAX_NONE };

// The part of a block: its vectors of `lanes` elements, from the first 16-byte boundary of x on,
// and the elements before and after them.
struct cast {
    enum fp8_format format;
    bool measures;
    unsigned lanes;
    ptx_ptr x, y;     // at the block's first element
    ptx_val length;   // s32, of the block
    ptx_val head;     // s32, elements before the vectors
    ptx_val vectors;  // s32; 0 if the vectors of x are at no boundary of y
    ptx_val tid;      // s32
    ptx_val scale;    // f32
    ptx_val greatest; // a variable: the greatest |x| of the thread so far
};

static void divide_work(ptx_builder *b, struct cast *c, ptx_val n)
{
    const uint32_t mask = c->lanes - 1;
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val start = ptx_mul_wide(b, block, CAST_CHUNK);
    ptx_val length = ptx_min(b, ptx_sub(b, n, start), CAST_CHUNK);
    c->length = ptx_cvt(b, PTX_S32, length);
    c->x = ptx_at(b, c->x, start);
    c->y = ptx_at(b, c->y, start);

    ptx_comment(b, "vectors begin at a 16-byte boundary of x, and there y has one of %u bytes",
                c->lanes);
    ptx_val skew = ptx_cvt(b, PTX_U32, ptxk_elements_beyond_boundary(b, c->x));
    ptx_val head = ptx_and(b, ptx_neg(b, ptx_bitcast(b, PTX_S32, skew)), mask);
    ptx_val y = ptx_cvt(b, PTX_S32, ptx_ptr_address(b, c->y));
    ptx_val beyond = ptx_and(b, ptx_add(b, y, head), mask);
    ptx_val rest = ptx_max(b, ptx_sub(b, c->length, head), 0);
    ptx_val vectors = ptx_shr(b, rest, ptxk_log2(c->lanes));
    ptx_val alike = ptx_eq(b, beyond, 0);
    c->head = head;
    c->vectors = ptx_select(b, alike, vectors, 0);
    c->tid = ptx_bitcast(b, PTX_S32, ptx_tid(b, PTX_X));
}

static ptx_val scaled(ptx_builder *b, const struct cast *c, ptx_val x)
{
    x = ptx_cvt(b, PTX_F32, x);
    if (c->measures)
        ptx_set(b, c->greatest, ptx_max(b, c->greatest, ptx_abs(b, x)));
    return ptx_mul(b, x, c->scale);
}

// The place of vector `k`, in elements.
static ptx_val place_of(ptx_builder *b, const struct cast *c, ptx_val k)
{
    return ptx_mad(b, k, c->lanes, c->head);
}

static void cast_vector(ptx_builder *b, const struct cast *c, ptx_val place,
                        const struct ptxk_lanes *from)
{
    ptx_vec in = ptxk_lanes_vec(b, from), out = { .lanes = c->lanes / 4 };
    ptx_ptr to = ptx_ptr_cast(b, PTX_B32, ptx_at(b, c->y, place));

    for (unsigned w = 0; w < out.lanes; w++) {
        ptx_val x[4];
        ptx_comment(b, c->measures ? "four elements, scaled, and the greatest magnitude so far"
                                   : "four elements, scaled");
        for (unsigned k = 0; k < 4; k++)
            x[k] = scaled(b, c, in.lane[4 * w + k]);
        out.lane[w] = ptxk_fp8_word(b, c->format, x);
    }
    ptx_store_vec(b, to, 0, out);
}

// The vectors of a thread: all loaded before the first is used, or one by one near the tensor's
// end.
static void cast_vectors(ptx_builder *b, const struct cast *c)
{
    enum { MOST = 8 };
    const unsigned count = CAST_CHUNK / (CAST_BLOCK * c->lanes);
    ptx_val last = ptx_add(b, c->tid, CAST_BLOCK * (count - 1));
    const ptx_type type = (ptx_type)c->x.type;
    struct ptxk_lanes in[MOST];
    ptx_val place[MOST];

    ptx_if (b, ptx_lt(b, last, c->vectors)) {
        ptx_comment(b, "the vectors of the thread, all read before the first is converted");
        for (unsigned k = 0; k < count; k++) {
            ptx_val vector = ptx_add(b, c->tid, CAST_BLOCK * k);
            place[k] = place_of(b, c, vector);
            in[k] = ptxk_lanes_load(b, type, c->lanes, ptx_at(b, c->x, place[k]));
        }
        for (unsigned k = 0; k < count; k++)
            cast_vector(b, c, place[k], &in[k]);
    }
    ptx_else (b) {
        ptx_comment(b, "near the tensor's end: one vector after the other");
        ptx_for (b, vector, c->tid, c->vectors, CAST_BLOCK) {
            ptx_val at = place_of(b, c, vector);
            in[0] = ptxk_lanes_load(b, type, c->lanes, ptx_at(b, c->x, at));
            cast_vector(b, c, at, &in[0]);
        }
    }
}

static void cast_others(ptx_builder *b, const struct cast *c)
{
    ptx_comment(b, "the elements before the vectors and after them");
    ptx_val inside = ptx_mul(b, c->vectors, c->lanes);
    ptx_val others = ptx_sub(b, c->length, inside);

    ptx_for (b, k, c->tid, others, CAST_BLOCK) {
        ptx_val before = ptx_lt(b, k, c->head);
        ptx_val i = ptx_add(b, k, ptx_select(b, before, 0, inside));
        ptx_val x = scaled(b, c, ptx_load(b, c->x, i));
        ptx_store(b, c->y, i, ptxk_fp8_code(b, c->format, x));
    }
}

// amax[0] = max(amax[0], x). Magnitudes are ordered as integers, and a NaN in amax is above all.
static void merge(ptx_builder *b, ptx_ptr amax, ptx_val x)
{
    ptx_ptr bits = ptx_ptr_cast(b, PTX_S32, amax);

    ptx_comment(b, "most blocks find an amax that is no less, and need no atomic");
    ptx_val found = ptx_load(b, bits, 0, .order = PTX_ORDER_RELAXED);
    x = ptx_bitcast(b, PTX_S32, x);
    ptx_if (b, ptx_gt(b, x, found))
        ptx_atomic_max(b, bits, 0, x);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct cast c = { .format = (enum fp8_format)spec->option[OPTION_FORMAT],
                      .measures = spec->option[OPTION_AMAX] == AMAX_MERGE,
                      .lanes = ptxk_vector_lanes(spec->dtype) };
    ptx_ptr amax = { .symbol = 0 };

    c.x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be converted", .length = "n",
                        .readonly = true);
    c.y = ptx_param_ptr(b, PTX_U8, "y", .meaning = "codes of x * scale", .length = "n",
                        .writeonly = true, .format = c.format == FP8_E4M3 ? "e4m3" : "e5m2");
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    c.scale = ptxk_scalar_param(
        b, PTX_F32, spec->option[OPTION_SCALE],
        (struct ptx_param_info) { .name = "scale",
                                  .meaning = "factor before the conversion",
                                  .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE });
    if (c.measures) {
        amax = ptx_param_ptr(b, PTX_F32, "amax", .meaning = "becomes max(amax, greatest |x|)",
                             .length = "1");
        c.greatest = ptx_var(b, ptx_f32(0));
    }
    divide_work(b, &c, n);
    cast_vectors(b, &c);
    cast_others(b, &c);
    if (c.measures) {
        ptx_val greatest = ptxk_block_max(b, c.greatest, CAST_BLOCK);
        ptx_if (b, ptx_eq(b, c.tid, 0))
            merge(b, amax, greatest);
    }
}

const ptx_kernel ptx_kernel_cast_fp8 = {
    .name = "cast_fp8",
    .summary = "a scaled conversion to e4m3 or e5m2, with the greatest magnitude",
    .formula = "y = fp8(x * scale), saturating; amax = max(amax, |x|)",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = {
        [OPTION_FORMAT] = { "format", { "e4m3", "e5m2" }, "of y" },
        [OPTION_SCALE] = { "scale", { "value", "device" }, "by value, or by its address" },
        [OPTION_AMAX] = { "amax",
                          { [AMAX_MERGE] = "merge", [AMAX_NONE] = "none" },
                          "merged with the one at an address, or not wanted" },
    },
    .grid = PTX_GRID_CHUNKS,
    .block = CAST_BLOCK,
    .guarantees = "deterministic; correctly rounded and saturating; amax leaves NaN out",
    .chunk = CAST_CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
