// SPDX-License-Identifier: MIT
// Fake quantization in block formats. Adjacent threads have adjacent vectors of 16 bytes. A block
// of one row lies in adjacent lanes of a warp. For blocks of several rows a warp has 16 rows of 128
// columns, of which each thread has every vector of a column of vectors: 16 x 16 elements lie in
// a warp, 128 x 128 in a block of threads.
#include "blocks.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/lanes.h"
#include "common/parts.h"
#include "common/vector.h"
#include "step/step.h"

enum {
    WORDS = sizeof(struct block_row) / sizeof(uint64_t),
    LEARNED_WORDS = sizeof(struct block_learned_row) / sizeof(uint64_t),
    THREADS = 256,
    VECTORS = 4, // of a thread, where blocks have one row
    TILE = 128,  // rows and columns of a block of threads, where they have several
    TILE_ROWS = TILE / (THREADS / WARP), // of a warp
    MOST_VECTORS = TILE_ROWS,
};

static const struct {
    uint32_t fraction;
    int least, greatest; // exponents
    float largest;
} floats[] = {
#define ROW(name, fraction, least, greatest, largest) { fraction, least, greatest, largest },
    BLOCK_FLOATS(ROW)
#undef ROW
};

// A thread's vector.
struct vector {
    ptx_val i;  // u64: the index of its first element
    ptx_val in; // whether it is in the tensor
    struct ptxk_lanes x, d_output;
    ptx_val amax; // f32: learned, of its block
};

struct work {
    const struct blocks_spec *spec;
    unsigned lanes; // of a vector
    ptx_val block;  // u32: of threads, in the tensor
    ptx_ptr x, y;
    ptx_val rows, columns;   // u64
    ptx_val first;           // u64: element of the list
    ptx_val aligned;         // whether vectors begin at 16-byte boundaries
    ptx_val tensor, inverse; // f32: S and 1 / S; or P
    ptx_val key[2], offset[2];
    ptx_ptr amax; // u32, to be merged into
    ptx_ptr amaxes, d_output, d_amaxes;
    ptx_val factor; // f64
    struct vector vector[MOST_VECTORS];
    unsigned vectors;
};

static uint32_t words_of(const struct blocks_spec *spec)
{
    return spec->learning ? LEARNED_WORDS : WORDS;
}

// What a block's elements are multiplied by, before and after they are rounded; f32.
struct scale {
    ptx_val by, times;
};

// ---- floats -------------------------------------------------------------------------------------

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// a (f32, 0 to the largest) to the nearest float: from `unit`, the power of two at or below it but
// no less than the least normal float, comes a number whose last place is that of the float.
static ptx_val nearest(ptx_builder *b, enum block_float format, ptx_val a)
{
    const float shift = ldexpf(1, 23 - (int)floats[format].fraction);
    const float least = ldexpf(1, floats[format].least);
    ptx_val exponent = ptx_and(b, ptx_bitcast(b, PTX_U32, a), 0x7f800000);
    ptx_val power = ptx_max(b, exponent, bits_of(least));
    ptx_val unit = ptx_bitcast(b, PTX_F32, power);
    ptx_val sum = ptx_fma(b, unit, shift, a);

    return ptx_fma(b, unit, -shift, sum);
}

// The same by 16 random bits (u32), which carry into the fraction that is kept. Below the least
// normal float it is added first, so that the fraction has the same place.
static ptx_val stochastic(ptx_builder *b, enum block_float format, ptx_val a, ptx_val random)
{
    const uint32_t drops = 23 - floats[format].fraction;
    const float least = ldexpf(1, floats[format].least);
    ptx_val small = ptx_lt(b, a, least);
    ptx_val beside = ptx_select(b, small, ptx_f32(least), ptx_f32(0));
    ptx_val sum = ptx_op(b, PTX_OP_add, .x = a, .y = beside, .round = PTX_ROUND_RZ);
    ptx_val more = ptx_add(b, ptx_bitcast(b, PTX_U32, sum), ptx_shl(b, random, drops - 16));
    ptx_val kept = ptx_and(b, more, ~((UINT32_C(1) << drops) - 1));

    return ptx_sub(b, ptx_bitcast(b, PTX_F32, kept), beside);
}

// A scale to e4m3, saturating; NaN stays.
static ptx_val as_e4m3(ptx_builder *b, ptx_val x)
{
    return nearest(b, BLOCK_E4M3, ptxk_smaller(b, x, ptx_f32(floats[BLOCK_E4M3].largest)));
}

// ---- scales -------------------------------------------------------------------------------------

// What the tensor's amax decides: S and 1 / S, or P.
static void find_tensor_scale(ptx_builder *b, struct work *w, ptx_val amax)
{
    const float most = 2688; // 448 * 6

    ptx_comment(b, "the tensor's scale");
    if (w->spec->scaling == BLOCK_NVFP4_TORCHAO) {
        w->tensor = ptx_div(b, amax, most);
        return;
    }
    ptx_val quotient = ptxk_smaller(b, ptx_div(b, ptx_f32(most), amax), ptx_f32(FLT_MAX));
    ptx_val is_none = ptx_or(b, ptx_eq(b, amax, 0), ptx_eq(b, quotient, 0));
    ptx_val tensor = ptx_select(b, is_none, ptx_f32(1), quotient);
    w->inverse = ptx_rcp(b, tensor);
    w->tensor = ptx_mul(b, tensor, 1.0f / 6);
}

static struct scale scale_nvfp4(ptx_builder *b, const struct work *w, ptx_val amax)
{
    struct scale s;

    if (w->spec->scaling == BLOCK_NVFP4_TORCHAO) {
        ptx_val part = ptx_div(b, ptx_div(b, amax, 6), w->tensor);
        s.times = ptx_mul(b, as_e4m3(b, ptxk_larger(b, part, ptx_f32(0x1p-6f))), w->tensor);
        s.by = s.times; // which divides
        return s;
    }
    ptx_val part = ptxk_smaller(b, ptx_mul(b, amax, w->tensor), ptx_f32(FLT_MAX));
    s.times = ptx_mul(b, as_e4m3(b, part), w->inverse);
    ptx_val by = ptx_rcp(b, s.times);
    // y has the NaN of `times`.
    s.by = w->spec->learning == BLOCK_GRADIENT ? ptxk_smaller(b, by, ptx_f32(FLT_MAX))
                                               : ptx_min(b, by, FLT_MAX);
    return s;
}

// From the biased exponent (u32), and whether there is one.
static struct scale scale_of_exponent(ptx_builder *b, ptx_val e, ptx_val is_number)
{
    const uint32_t least = UINT32_C(1) << 22, nan = 0x7fc00000; // 2^-127
    struct scale s;

    ptx_val above = ptx_select(b, ptx_eq(b, e, 0), ptx_u32(least), ptx_shl(b, e, 23));
    ptx_val times = ptx_select(b, is_number, above, ptx_u32(nan));
    s.times = ptx_bitcast(b, PTX_F32, times);
    ptx_val other = ptx_shl(b, ptx_sub(b, ptx_u32(254), e), 23);
    ptx_val by = ptx_select(b, ptx_eq(b, e, 254), ptx_u32(least), other);
    s.by = ptx_bitcast(b, PTX_F32, by);
    return s;
}

static struct scale scale_mx(ptx_builder *b, const struct work *w, ptx_val amax)
{
    const uint32_t greatest = (uint32_t)floats[w->spec->element].greatest;
    const float largest = floats[w->spec->element].largest;
    ptx_val bits = ptx_bitcast(b, PTX_U32, amax);

    if (w->spec->scaling == BLOCK_MX_FLOOR) {
        ptx_val is_number = ptx_lt(b, bits, 0x7f800000);
        ptx_val exponent = ptx_max(b, ptx_shr(b, bits, 23), greatest);
        return scale_of_exponent(b, ptx_sub(b, exponent, greatest), is_number);
    }
    const bool te = w->spec->scaling == BLOCK_MX_RCEIL_TE;
    ptx_val is_number = te ? ptx_le(b, bits, 0x7f800000) : ptx_lt(b, bits, 0x7f800000);
    ptx_val part = ptx_bitcast(b, PTX_U32, ptx_mul(b, amax, 1 / largest));
    ptx_val up = ptx_shr(b, ptx_add(b, part, 0x7fffff), 23);
    ptx_val is_least = ptx_le(b, part, 0x400000); // 2^-127
    ptx_val e = ptx_select(b, is_least, ptx_u32(0), up);
    return scale_of_exponent(b, ptx_min(b, e, 254), is_number);
}

static struct scale scale_fp8(ptx_builder *b, const struct work *w, ptx_val amax)
{
    const uint32_t power = 0xff800000, infinite = 0x7f800000;
    const enum block_scaling scaling = w->spec->scaling;
    const float largest = floats[w->spec->element].largest;
    struct scale s;

    if (scaling == BLOCK_FP8_TE || scaling == BLOCK_FP8_TE_POWER) {
        ptx_val below_1 = ptx_sub(b, ptx_bitcast(b, PTX_U32, amax), 1);
        ptx_val plain = ptx_lt(b, below_1, infinite - 1); // not 0, and finite
        ptx_val by = ptx_min(b, ptx_div(b, ptx_f32(largest), amax), FLT_MAX);
        if (scaling == BLOCK_FP8_TE_POWER)
            by = ptx_bitcast(b, PTX_F32, ptx_and(b, ptx_bitcast(b, PTX_U32, by), power));
        s.by = ptx_select(b, plain, by, ptx_f32(1));
        s.times = ptx_rcp(b, s.by);
        return s;
    }
    s.times = ptx_div(b, ptxk_larger(b, amax, ptx_f32(1e-4f)), largest);
    if (scaling == BLOCK_FP8_DEEPGEMM_POWER) {
        ptx_val bits = ptx_bitcast(b, PTX_U32, s.times);
        ptx_val up = ptx_and(b, ptx_add(b, bits, ~power), power);
        ptx_val finite = ptx_lt(b, bits, infinite);
        s.times = ptx_bitcast(b, PTX_F32, ptx_select(b, finite, up, bits));
    }
    s.by = ptx_rcp(b, s.times);
    return s;
}

static struct scale scale_of(ptx_builder *b, const struct work *w, ptx_val amax)
{
    ptx_comment(b, "the block's scale");
    switch (w->spec->scaling) {
    case BLOCK_NVFP4_TE:
    case BLOCK_NVFP4_TORCHAO:
        return scale_nvfp4(b, w, amax);
    case BLOCK_MX_FLOOR:
    case BLOCK_MX_RCEIL:
    case BLOCK_MX_RCEIL_TE:
        return scale_mx(b, w, amax);
    default:
        return scale_fp8(b, w, amax);
    }
}

// ---- the greatest magnitude ---------------------------------------------------------------------

// Of vectors of the thread; f32, NaN if any is. Lanes of 16 bits are compared in pairs.
static ptx_val thread_amax(ptx_builder *b, const struct work *w, const struct vector *vectors,
                           unsigned count)
{
    const ptx_type pair = w->spec->dtype == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
    const bool pairs = w->spec->dtype != PTX_F32;
    ptx_val most = { 0 };

    for (unsigned v = 0; v < count; v++) {
        ptx_comment(b, "magnitudes of a vector");
        for (unsigned k = 0; k < vectors[v].x.words; k++) {
            ptx_val word = vectors[v].x.word[k];
            ptx_val magnitude = ptx_abs(b, pairs ? ptx_bitcast(b, pair, word) : word);
            most = v || k ? ptxk_larger(b, most, magnitude) : magnitude;
        }
    }
    if (!pairs)
        return most;
    ptx_vec halves = ptx_unpack(b, w->spec->dtype, most);
    ptx_val low = ptx_cvt(b, PTX_F32, halves.lane[0]);
    return ptxk_larger(b, low, ptx_cvt(b, PTX_F32, halves.lane[1]));
}

// Of the block of the thread's vectors, which have all rows of the block that are the thread's.
static ptx_val block_amax(ptx_builder *b, const struct work *w, ptx_val most)
{
    const uint32_t across = TILE / w->lanes;

    if (w->spec->width < TILE || w->spec->height == 1)
        most = ptxk_lanes_combine_all(b, ptxk_larger, most, w->spec->width / w->lanes);
    if (w->spec->height == 1)
        return most;
    if (w->spec->width < TILE) {
        if (across < WARP)
            most = ptxk_larger(b, most, ptx_shfl_bfly(b, most, across));
        return most;
    }
    ptx_comment(b, "the largest of a warp, then of all");
    most = ptxk_lanes_combine_all(b, ptxk_larger, most, WARP);
    ptx_ptr of_warps = ptx_shared(b, PTX_F32, THREADS / WARP);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_eq(b, ptx_and(b, tid, WARP - 1), 0))
        ptx_store(b, of_warps, ptx_shr(b, tid, 5), most);
    ptx_barrier(b);
    for (uint32_t k = 0; k < THREADS / WARP; k += 4) {
        ptx_vec four = ptx_load_vec(b, of_warps, k, 4);
        for (unsigned n = 0; n < four.lanes; n++)
            most = ptxk_larger(b, most, four.lane[n]);
    }
    return most;
}

// ---- the transform ------------------------------------------------------------------------------

// Of 16 elements, of which adjacent lanes have 8 each, to bf16.
static void transform(ptx_builder *b, struct vector *v)
{
    static const bool negative[PTXK_LANES] = { 0, 0, 0, 1, 0, 1, 1, 1 }; // in the first lane
    enum { FLIPPED = 6, LANES = 8 }; // the signs of these are others in the second
    ptx_val x[PTXK_LANES];

    ptx_comment(b, "signs of the transform");
    ptxk_lanes_of(b, &v->x, x);
    ptx_val flip = ptx_shl(b, ptx_tid(b, PTX_X), 31);
    for (unsigned k = 0; k < LANES; k++) {
        if (k < FLIPPED)
            x[k] = ptx_bitcast(b, PTX_F32, ptx_xor(b, ptx_bitcast(b, PTX_U32, x[k]), flip));
        if (negative[k])
            x[k] = ptx_neg(b, x[k]);
    }
    for (unsigned apart = 1; apart < LANES; apart *= 2) {
        ptx_comment(b, "sums and differences at distance %u", apart);
        for (unsigned k = 0; k < LANES; k++) {
            if (k & apart)
                continue;
            const ptx_val low = x[k], high = x[k + apart];
            x[k] = ptx_add(b, low, high);
            x[k + apart] = ptx_sub(b, low, high);
        }
    }
    for (unsigned k = 0; k < LANES; k++) {
        ptxk_comment_lanes(b, "with the other lane", k, 4, LANES);
        ptx_val other = ptx_shfl_bfly(b, x[k], 1);
        ptx_val own = ptx_bitcast(b, PTX_F32, ptx_xor(b, ptx_bitcast(b, PTX_U32, x[k]), flip));
        x[k] = ptx_mul(b, ptx_add(b, other, own), 0.25);
    }
    ptx_comment(b, "as bf16");
    for (unsigned k = 0; k < LANES; k += 2)
        v->x.word[k / 2] = ptx_bitcast(b, PTX_B32, ptx_cvt_pack(b, PTX_BF16X2, x[k], x[k + 1]));
}

// amax[0] = max(amax[0], x) over a block of threads. Magnitudes are ordered as integers, NaN above.
static void merge(ptx_builder *b, const struct work *w, ptx_val x)
{
    ptx_val most = ptxk_one_nan(b, ptxk_block_extreme(b, x, THREADS, true));

    ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), 0)) {
        ptx_comment(b, "most blocks find an amax that is no less, and need no atomic");
        ptx_val bits = ptx_bitcast(b, PTX_U32, most);
        ptx_val found = ptx_load(b, w->amax, 0, .order = PTX_ORDER_RELAXED);
        ptx_if (b, ptx_gt(b, bits, found))
            ptx_atomic_max(b, w->amax, 0, bits);
    }
}

// ---- elements -----------------------------------------------------------------------------------

// Random bits of the lanes of a vector, u32 below 2^16.
static void random_of(ptx_builder *b, const struct work *w, ptx_val i, ptx_val random[PTXK_LANES])
{
    ptx_val place = ptx_add(b, w->first, i);
    ptx_vec eighth = ptx_unpack(b, PTX_U32, ptx_shr(b, place, 3));
    const ptx_val counter[4] = { eighth.lane[0], eighth.lane[1], w->offset[0], w->offset[1] };
    struct ptxk_philox words = ptxk_philox(b, counter, w->key);

    if (w->lanes < PTXK_LANES) {
        ptx_val odd = ptx_ne(b, ptx_and(b, ptx_cvt(b, PTX_U32, place), w->lanes), 0);
        for (unsigned k = 0; k < 2; k++)
            words.word[k] = ptx_select(b, odd, words.word[2 + k], words.word[k]);
    }
    for (unsigned k = 0; k < w->lanes; k++)
        random[k] =
            k % 2 ? ptx_shr(b, words.word[k / 2], 16) : ptx_and(b, words.word[k / 2], 0xffff);
}

static ptx_val quantize(ptx_builder *b, const struct work *w, const struct scale *s, ptx_val x,
                        ptx_val random)
{
    const enum block_float format = w->spec->element;
    const enum block_scaling scaling = w->spec->scaling;
    ptx_val scaled = scaling == BLOCK_NVFP4_TORCHAO ? ptx_div(b, x, s->by) : ptx_mul(b, x, s->by);
    ptx_val a = ptxk_smaller(b, ptx_abs(b, scaled), ptx_f32(floats[format].largest));
    ptx_val q;

    if (!w->spec->stochastic) {
        q = nearest(b, format, a);
    } else {
        q = stochastic(b, format, a, random);
        // With the other scales the block's is NaN.
        if (scaling == BLOCK_NVFP4_TORCHAO || scaling == BLOCK_FP8_TE ||
            scaling == BLOCK_FP8_TE_POWER)
            q = ptx_select(b, ptx_is_nan(b, a), a, q);
    }
    return ptx_copysign(b, x, ptx_mul(b, q, s->times));
}

static void write_vector(ptx_builder *b, const struct work *w, const struct vector *v,
                         const ptx_val x[PTXK_LANES])
{
    ptx_ptr to = ptx_at(b, w->y, v->i);

    ptx_if (b, w->aligned)
        ptxk_lanes_write(b, w->spec->dtype, to, x, w->lanes);
    ptx_else (b)
        for (unsigned k = 0; k < w->lanes; k++) {
            ptxk_comment_lanes(b, "writes one by one", k, 4, w->lanes);
            ptx_store(b, to, k, ptxk_narrow(b, w->spec->dtype, x[k]));
        }
}

static void quantize_vector(ptx_builder *b, const struct work *w, const struct vector *v,
                            const struct scale *s)
{
    ptx_val x[PTXK_LANES], random[PTXK_LANES] = { { 0 } };

    ptx_comment(b, "the elements");
    ptxk_lanes_of(b, &v->x, x);
    if (w->spec->stochastic)
        random_of(b, w, v->i, random);
    for (unsigned k = 0; k < w->lanes; k++) {
        ptxk_comment_lanes(b, "quantizes and scales back", k, w->spec->stochastic ? 1 : 2,
                           w->lanes);
        x[k] = quantize(b, w, s, ptx_cvt(b, PTX_F32, x[k]), random[k]);
    }
    ptx_if (b, v->in)
        write_vector(b, w, v, x);
}

// ---- amaxes that are learned --------------------------------------------------------------------

// Each lane reads that of its block. Below 0 they count as 0; NaN stays.
static void read_amaxes(ptx_builder *b, struct work *w)
{
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "the amax of vector %u", v);
        w->vector[v].amax = ptx_var(b, ptx_f32(0));
        ptx_if (b, w->vector[v].in) {
            ptx_val block = ptxk_over_power_of_two(b, w->vector[v].i, w->spec->width);
            ptx_val amax = ptx_load(b, w->amaxes, block, .nc = true);
            ptx_set(b, w->vector[v].amax, ptxk_larger(b, amax, ptx_f32(0)));
        }
    }
}

// What an element adds to the sum of its block, and its own gradient. A NaN is out of range, and
// counts as the least.
static ptx_val element_gradient(ptx_builder *b, const struct work *w, const struct scale *s,
                                ptx_val x, ptx_val d_output, ptx_val sum)
{
    const float largest = floats[w->spec->element].largest;
    const bool divides = w->spec->scaling == BLOCK_NVFP4_TORCHAO;
    ptx_val scaled = divides ? ptx_div(b, x, s->by) : ptx_mul(b, x, s->by);
    ptx_val within = ptx_min(b, ptx_max(b, scaled, -largest), largest);
    ptx_val inside = ptx_eq(b, within, scaled);
    ptx_val q = ptx_copysign(b, within, nearest(b, w->spec->element, ptx_abs(b, within)));
    ptx_val residual = ptx_select(b, inside, ptx_sub(b, q, scaled), q);
    ptx_val wide = ptx_cvt(b, PTX_F64, residual);

    ptx_set(b, sum, ptx_fma(b, ptx_cvt(b, PTX_F64, d_output), wide, sum));
    return ptx_select(b, inside, d_output, ptx_f32(0));
}

static void pass_vector(ptx_builder *b, const struct work *w, const struct vector *v)
{
    const struct scale s = scale_of(b, w, v->amax);
    const uint32_t team = w->spec->width / w->lanes;
    ptx_val x[PTXK_LANES], dy[PTXK_LANES], sum = ptx_var(b, ptx_f64(0));

    ptx_comment(b, "x, and the gradient of y");
    ptxk_lanes_of(b, &v->x, x);
    ptxk_lanes_of(b, &v->d_output, dy);
    for (unsigned k = 0; k < w->lanes; k++) {
        ptxk_comment_lanes(b, "the gradient, and a term of the sum", k, 2, w->lanes);
        ptx_val wide = ptx_cvt(b, PTX_F32, x[k]);
        x[k] = element_gradient(b, w, &s, wide, ptx_cvt(b, PTX_F32, dy[k]), sum);
    }
    ptx_comment(b, "the sum of the block");
    ptx_val whole = ptxk_team_sum(b, sum, ptx_u32(team));
    ptx_if (b, v->in) {
        write_vector(b, w, v, x);
        ptx_val begins = ptx_eq(b, ptx_and(b, ptx_tid(b, PTX_X), team - 1), 0);
        ptx_if (b, begins) {
            ptx_comment(b, "the lane with its first element writes its gradient");
            ptx_val block = ptxk_over_power_of_two(b, v->i, w->spec->width);
            ptx_val gradient = ptx_cvt(b, PTX_F32, ptx_mul(b, whole, w->factor));
            ptx_store(b, w->d_amaxes, block, ptxk_one_nan(b, gradient));
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

static void read_with(ptx_builder *b, const struct work *w,
                      void (*read)(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at))
{
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "reads vector %u", v);
        ptx_if (b, w->vector[v].in) {
            read(b, &w->vector[v].x, ptx_at(b, w->x, w->vector[v].i));
            if (w->spec->learning == BLOCK_GRADIENT)
                read(b, &w->vector[v].d_output, ptx_at(b, w->d_output, w->vector[v].i));
        }
    }
}

// The vectors of the thread, whose places are known; 0 where there is none.
static void read_vectors(ptx_builder *b, struct work *w)
{
    for (unsigned v = 0; v < w->vectors; v++) {
        ptxk_comment_lanes(b, "vectors; 0 where there is none", v, 4, w->vectors);
        w->vector[v].x = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
        if (w->spec->learning == BLOCK_GRADIENT)
            w->vector[v].d_output = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
    }
    ptx_if (b, w->aligned)
        read_with(b, w, ptxk_lanes_read);
    ptx_else (b)
        read_with(b, w, ptxk_lanes_read_each);
}

static void quantize_rows(ptx_builder *b, struct work *w)
{
    ptx_val end = w->spec->learning ? w->rows : ptx_mul(b, w->rows, w->columns);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mul(b, ptx_tid(b, PTX_X), w->lanes));
    ptx_val first = ptx_mad_wide(b, w->block, THREADS * VECTORS * w->lanes, mine);

    w->vectors = VECTORS;
    ptx_comment(b, "their places");
    for (unsigned v = 0; v < VECTORS; v++) {
        w->vector[v].i = v ? ptx_add(b, first, v * THREADS * w->lanes) : first;
        w->vector[v].in = ptx_lt(b, w->vector[v].i, end);
    }
    read_vectors(b, w);
    if (w->spec->learning)
        read_amaxes(b, w);
    for (unsigned v = 0; v < VECTORS && w->spec->hadamard; v++)
        transform(b, &w->vector[v]);
    if (w->spec->measure) {
        merge(b, w, thread_amax(b, w, w->vector, VECTORS));
        return;
    }
    for (unsigned v = 0; v < VECTORS; v++) {
        struct vector *vector = &w->vector[v];
        ptx_comment(b, "vector %u", v);
        if (w->spec->learning == BLOCK_GRADIENT) {
            pass_vector(b, w, vector);
            continue;
        }
        if (!w->spec->learning)
            vector->amax = block_amax(b, w, thread_amax(b, w, vector, 1));
        const struct scale s = scale_of(b, w, vector->amax);
        quantize_vector(b, w, vector, &s);
    }
}

static void quantize_tiles(ptx_builder *b, struct work *w)
{
    const uint32_t across = TILE / w->lanes, step = WARP / across;

    ptx_comment(b, "the tile, and the thread's place in it");
    ptx_val tiles = ptxk_over_power_of_two(b, ptx_add(b, w->columns, TILE - 1), TILE);
    ptx_val in_row = ptx_cvt(b, PTX_U32, tiles);
    ptx_val down = ptx_div(b, w->block, in_row);
    ptx_val right = ptx_sub(b, w->block, ptx_mul(b, down, in_row));
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val lane = ptx_and(b, tid, WARP - 1);
    ptx_val beside = ptx_mul(b, ptx_and(b, lane, across - 1), w->lanes);
    ptx_val below = ptx_mad(b, ptx_shr(b, tid, 5), TILE_ROWS, ptx_shr(b, lane, ptxk_log2(across)));
    ptx_val column = ptx_mad_wide(b, right, TILE, ptx_cvt(b, PTX_U64, beside));
    ptx_val row = ptx_mad_wide(b, down, TILE, ptx_cvt(b, PTX_U64, below));
    ptx_val inside = ptx_lt(b, column, w->columns);
    ptx_val place = ptx_mad(b, row, w->columns, column);
    ptx_val pitch = ptx_mul(b, w->columns, step);

    w->vectors = TILE_ROWS / step;
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "the place of vector %u", v);
        if (v)
            place = ptx_add(b, place, pitch);
        ptx_val of_row = v ? ptx_add(b, row, v * step) : row;
        w->vector[v].i = place;
        w->vector[v].in = ptx_and(b, ptx_lt(b, of_row, w->rows), inside);
    }
    read_vectors(b, w);
    ptx_val most = thread_amax(b, w, w->vector, w->vectors);
    const struct scale s = scale_of(b, w, block_amax(b, w, most));
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "vector %u", v);
        quantize_vector(b, w, &w->vector[v], &s);
    }
}

// A u64 of the random state, by value or at an address, as two words.
static void random_param(ptx_builder *b, const char *name, const char *at, ptx_val words[2])
{
    ptx_val value = ptx_param(b, PTX_U64, name, .meaning = "of the random bits");
    ptx_val address = ptx_param(b, PTX_U64, at, .meaning = "its address; 0: by value");
    ptx_val state = ptx_var(b, value);

    ptx_if (b, ptx_ne(b, address, 0))
        ptx_set(b, state, ptx_load(b, ptx_ptr_from(b, PTX_U64, PTX_SPACE_GLOBAL, address), 0));
    ptx_vec halves = ptx_unpack(b, PTX_U32, state);
    words[0] = halves.lane[0];
    words[1] = halves.lane[1];
}

static ptx_ptr array_at(ptx_builder *b, ptx_type type, ptx_val address)
{
    return ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, address);
}

// What learned amaxes add to a row, but for y and the amax; its elements are one row.
static void find_learned(ptx_builder *b, struct work *w, ptx_ptr row)
{
#define OF(member) (offsetof(struct block_learned_row, member) / sizeof(uint64_t))
    const ptx_type type = w->spec->dtype;
    ptx_val x = ptx_load(b, row, OF(x)), y = ptx_load(b, row, OF(y));
    ptx_val bits = ptx_or(b, x, y);

    w->rows = ptx_load(b, row, OF(count));
    w->x = array_at(b, type, x);
    w->y = array_at(b, type, y);
    w->amaxes = array_at(b, PTX_F32, ptx_load(b, row, OF(amaxes)));
    if (w->spec->learning == BLOCK_GRADIENT) {
        ptx_val d_output = ptx_load(b, row, OF(d_output));
        w->d_output = array_at(b, type, d_output);
        w->d_amaxes = array_at(b, PTX_F32, ptx_load(b, row, OF(d_amaxes)));
        bits = ptx_or(b, bits, d_output);
    }
    w->aligned = ptx_eq(b, ptx_and(b, bits, VECTOR_BYTES - 1), 0);
    ptx_ptr at = array_at(b, PTX_F32, ptx_load(b, row, OF(amax)));
    find_tensor_scale(b, w, ptx_load(b, at, 0));
#undef OF
}

// The tensor of the block of threads.
static void find_tensor(ptx_builder *b, struct work *w, ptx_ptr tensors, ptx_ptr firsts)
{
#define OF(member) (offsetof(struct block_row, member) / sizeof(uint64_t))
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val k = ptx_u32(0);

    for (uint32_t step = BLOCKS_TENSORS / 2; step > 0; step /= 2) {
        ptx_comment(b, "the tensor: %u further?", step);
        ptx_val next = ptx_add(b, k, step);
        ptx_val begins = ptx_le(b, ptx_load(b, firsts, next), block);
        k = ptx_select(b, begins, next, k);
    }
    ptx_comment(b, "its row");
    ptx_ptr row = ptx_at(b, tensors, ptx_mul(b, k, words_of(w->spec)));
    w->block = ptx_sub(b, block, ptx_load(b, firsts, k));
    if (w->spec->learning) {
        find_learned(b, w, row);
        return;
    }
    ptx_val x = ptx_load(b, row, OF(x));
    ptx_val y = w->spec->measure ? x : ptx_load(b, row, OF(y));
    w->rows = ptx_load(b, row, OF(rows));
    w->columns = ptx_load(b, row, OF(columns));
    w->x = array_at(b, w->spec->dtype, x);
    w->y = array_at(b, w->spec->dtype, y);
    ptx_val bits = ptx_or(b, x, y);
    if (w->spec->height > 1)
        bits = ptx_or(b, bits, ptx_mul(b, w->columns, ptx_type_bytes(w->spec->dtype)));
    w->aligned = ptx_eq(b, ptx_and(b, bits, VECTOR_BYTES - 1), 0);
    if (w->spec->stochastic)
        w->first = ptx_load(b, row, OF(first));
    if (w->spec->measure) {
        w->amax = array_at(b, PTX_U32, ptx_load(b, row, OF(amax)));
    } else if (ptxk_blocks_amax(w->spec)) {
        ptx_ptr at = array_at(b, PTX_F32, ptx_load(b, row, OF(amax)));
        find_tensor_scale(b, w, ptx_load(b, at, 0));
    }
#undef OF
}

void ptxk_blocks_emit(ptx_builder *b, const struct blocks_spec *spec)
{
    struct work w = { .spec = spec, .lanes = ptxk_vector_lanes(spec->dtype) };

    ptx_entry (b, BLOCKS_ENTRY, .block = { THREADS }) {
        ptx_ptr tensors = ptx_param_array(b, PTX_U64, "tensors", BLOCKS_TENSORS * words_of(spec));
        ptx_ptr firsts = ptx_param_array(b, PTX_U32, "firsts", BLOCKS_TENSORS);
        if (spec->stochastic) {
            random_param(b, "seed", "seed_at", w.key);
            random_param(b, "offset", "offset_at", w.offset);
        }
        if (spec->learning == BLOCK_GRADIENT)
            w.factor = ptx_param(b, PTX_F64, "factor", .meaning = "of the gradients of amaxes");
        find_tensor(b, &w, tensors, firsts);
        if (spec->height == 1)
            quantize_rows(b, &w);
        else
            quantize_tiles(b, &w);
    }
}

uint64_t ptxk_blocks_grid(const struct blocks_spec *spec, uint64_t rows, uint64_t columns)
{
    const uint64_t each = (uint64_t)THREADS * VECTORS * ptxk_vector_lanes(spec->dtype);

    if (spec->height > 1)
        return parts_of(rows, TILE) * parts_of(columns, TILE);
    return parts_of(rows * columns, each);
}
