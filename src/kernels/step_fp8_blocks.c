// SPDX-License-Identifier: MIT
// Copies of the weights in 8 bits with a scale a block, made of the weights that the step has left:
// a block of threads for each 128 x 128 elements of a matrix. Each thread keeps 16 rows of 4
// columns, or 8 where the block has twice as many; codes are transposed through shared memory.
#include "step_fp8_blocks.h"

#include "norm_parts.h"
#include "step_tile.h"

#include <float.h>

enum {
    TILE = STEP_CODES_TILE,
    EACH = STEP_CODES_EACH,   // adjacent elements of a thread: a word of codes
    LINES = STEP_CODES_LINES, // rows of a thread, at most
    UNIT_WORDS = 4,
    CODES = STEP_CODES_WORDS, // of shared memory; behind them a factor for each column
};

#define ROW(member) NORM_PLACE(uint64_t, struct step_fp8_row, member)
#define OF(member)  NORM_PLACE(uint64_t, struct step_tensor_row, member)

// ---- the tile -----------------------------------------------------------------------------------

unsigned ptxk_step_fp8_kind(ptx_type parameter, ptx_fp8_blocks blocks, ptx_fp8 format)
{
    const unsigned type = parameter == PTX_F32 ? 0 : parameter == PTX_BF16 ? 1 : 2;

    return (type * 2 + (blocks == PTX_FP8_BLOCKS_1X128)) * 2 + (format == PTX_FP8_E5M2);
}

// Whether blocks of the kind are of 1 x 128.
static bool is_of_lines(unsigned kind)
{
    return kind / 2 % 2;
}

bool ptxk_step_fp8_has_lines(uint32_t kinds)
{
    for (unsigned k = 0; k < PTXK_STEP_FP8_KINDS; k++)
        if (kinds >> k & 1 && is_of_lines(k))
            return true;
    return false;
}

// What says whether a run must leave the codes.
struct leave {
    ptx_ptr tensors, accumulators; // one of them
    ptx_ptr state;                 // with guards
    ptx_ptr records;               // without
    ptx_val groups, casts;
};

static struct leave leave_param(ptx_builder *b, const struct norm_spec *norm)
{
    struct leave l = { .groups = { 0 } };

    if (((const struct ptxk_step_spec *)norm->own)->accumulates)
        l.accumulators = ptxk_norm_accumulators_param(b);
    else
        l.tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                  .meaning = "rows of 4: gradient, count, weight, type");
    if (norm->guards) {
        l.state = ptx_param_ptr(b, PTX_U32, "guard_state", .readonly = true,
                                .meaning = "struct ptx_guard_state: skipped");
    } else {
        l.records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                                  .meaning = "rows of 4, one a norm group; then found_inf of all");
        l.groups = ptx_param(b, PTX_U32, "group_count");
    }
    l.casts = ptx_param(b, PTX_U32, "casts", .meaning = "1: also without a step");
    return l;
}

// The step was skipped, or the tensor has no gradient.
static ptx_val is_left(ptx_builder *b, const struct norm_spec *norm, const struct leave *l,
                       ptx_val tensor)
{
    ptx_val absent;

    ptx_comment(b, "left as they are where the step is skipped, or the tensor has no gradient");
    ptx_val skipped = norm->guards
                          ? ptxk_norm_guards_skipped(b, l->state)
                          : ptx_load(b, ptx_at(b, l->records, ptx_mul_wide(b, l->groups, 4)), 0);
    if (((const struct ptxk_step_spec *)norm->own)->accumulates) {
        ptx_vec sum = ptx_load_vec(b, ptx_at(b, l->accumulators, ptx_mul_wide(b, tensor, 2)), 0, 2);
        ptx_val taken = ptx_var(b, ptx_u32(0));
        ptx_if (b, ptx_ne(b, sum.lane[0], 0))
            ptx_set(b, taken, ptxk_norm_accumulated(b, sum.lane[1]));
        absent = ptx_eq(b, taken, 0);
    } else {
        ptx_val at = ptx_mul_wide(b, tensor, NORM_LENGTH(uint64_t, struct norm_tensor_row));
        absent = ptx_eq(b, ptx_load(b, ptx_at(b, l->tensors, at), 0), 0);
    }
    ptx_val left = ptx_or(b, ptx_ne(b, skipped, 0), absent);
    return ptx_and(b, left, ptx_eq(b, l->casts, 0));
}

ptx_ptr ptxk_step_fp8_tiles_param(ptx_builder *b, const char *name)
{
    return ptx_param_ptr(b, PTX_U32, name, .readonly = true,
                         .meaning = "rows of 2: matrix, place in it");
}

ptx_ptr ptxk_step_fp8_matrices_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "fp8_matrices", .readonly = true,
                         .meaning = "rows of 8: codes, scales, transposed codes, "
                                    "their scales, rows, columns, tensor and kind, "
                                    "scaling");
}

ptx_val ptxk_step_fp8_tile_read(ptx_builder *b, struct ptxk_step_blocks_tile *t, ptx_ptr tiles,
                                ptx_ptr matrices, ptx_val number)
{
    const uint32_t length = NORM_LENGTH(uint64_t, struct step_fp8_row);

    ptx_comment(b, "the tile, and the row of its matrix");
    ptx_val at = ptx_mul_wide(b, number, 2);
    ptx_vec tile = ptx_load_vec(b, tiles, at, 2);
    ptx_ptr row = ptx_at(b, matrices, ptx_mul_wide(b, tile.lane[0], length));
    ptx_vec to = ptx_load_vec(b, row, ROW(codes), 2);
    ptx_vec across = ptx_load_vec(b, row, ROW(transposed), 2);
    ptx_vec size = ptx_load_vec(b, row, ROW(rows), 2), rest = ptx_load_vec(b, row, ROW(tensor), 2);
    ptx_vec tensor_kind = ptx_unpack(b, PTX_U32, rest.lane[0]);

    t->codes = to.lane[0];
    t->scales = to.lane[1];
    t->transposed = across.lane[0];
    t->transposed_scales = across.lane[1];
    t->tile.rows = size.lane[0];
    t->tile.columns = size.lane[1];
    t->tensor = tensor_kind.lane[0];
    t->kind = tensor_kind.lane[1];
    t->scaling = ptx_cvt(b, PTX_U32, rest.lane[1]);
    return tile.lane[1];
}

// The block's tile, or the end of a block that has nothing to make.
static void begin(ptx_builder *b, struct ptxk_step_blocks_tile *t, const struct norm_spec *norm)
{
    const uint32_t words = ptxk_step_row_words(norm->own);

    ptx_ptr tiles = ptxk_step_fp8_tiles_param(b, "fp8_tiles");
    ptx_ptr matrices = ptxk_step_fp8_matrices_param(b);
    ptx_ptr rows =
        ptx_param_ptr(b, PTX_U64, "rows", .readonly = true, .meaning = "of the step: parameter");
    const struct leave leave = leave_param(b, norm);
    t->tile.threads = NORM_BLOCK;
    t->tile.tid = ptx_tid(b, PTX_X);
    t->tile.lane = ptx_and(b, t->tile.tid, WARP - 1);
    t->tile.warp = ptx_shr(b, t->tile.tid, 5);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val index = ptxk_step_fp8_tile_read(b, t, tiles, matrices, block);
    ptxk_norm_wait_for_last(b);
    ptx_return_if(b, is_left(b, norm, &leave, t->tensor));
    ptx_ptr of_step = ptx_at(b, rows, ptx_mul_wide(b, t->tensor, words));
    t->parameter = ptx_load(b, of_step, OF(parameter));

    ptxk_codes_place(b, &t->tile, index);
}

// Whether the tile is whole, and lines of so many elements (u64) from an address on begin at
// multiples of so many bytes, a power of two.
static ptx_val in_units(ptx_builder *b, const struct ptxk_step_blocks_tile *t, ptx_val address,
                        ptx_val line, uint32_t bytes)
{
    ptx_val bits = ptx_and(b, ptx_or(b, address, line), bytes - 1);

    return ptx_and(b, t->tile.whole, ptx_eq(b, bits, 0));
}

// ---- the weights --------------------------------------------------------------------------------

static void weights_read(ptx_builder *b, struct ptxk_step_blocks_tile *t, ptx_type type)
{
    const uint32_t bytes = ptx_type_bytes(type);
    ptx_ptr p = ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, t->parameter);
    ptx_val first = ptx_cvt(b, PTX_U64, ptx_mul(b, t->tile.warp, LINES));
    ptx_val column = ptx_mul(b, t->tile.lane, EACH);
    ptx_val row = ptx_add(b, t->tile.row, first);
    ptx_ptr line = ptx_at(b, p, ptx_mad(b, row, t->tile.columns, t->tile.column));
    ptx_val pitch = ptx_mul(b, t->tile.columns, bytes);

    ptx_comment(b, "the thread's weights: 4 of each of 16 rows");
    for (unsigned k = 0; k < LINES; k++) {
        ptxk_comment_lanes(b, "rows of weights", k, 4, LINES);
        t->weight[k] = ptxk_lanes_var(b, type, EACH);
    }
    ptx_if (b, in_units(b, t, t->parameter, pitch, EACH * bytes)) {
        ptx_ptr at = ptx_at(b, line, column);
        for (unsigned k = 0; k < LINES; k++) {
            ptxk_comment_lanes(b, "reads rows", k, 4, LINES);
            ptxk_lanes_read(b, &t->weight[k], at);
            at = ptx_at(b, at, t->tile.columns);
        }
    }
    ptx_else (b) {
        ptx_val left = ptx_sub(b, ptx_bitcast(b, PTX_S32, t->tile.height),
                               ptx_bitcast(b, PTX_S32, ptx_mul(b, t->tile.warp, LINES)));
        ptx_val i = ptx_bitcast(b, PTX_S32, column), end = ptx_bitcast(b, PTX_S32, t->tile.width);
        for (unsigned k = 0; k < LINES; k++) {
            ptx_comment(b, "those of row %u that there are", k);
            ptx_if (b, ptx_gt(b, left, ptx_s32((int32_t)k)))
                ptxk_lanes_read_some(b, &t->weight[k], line, i, end);
            line = ptx_at(b, line, t->tile.columns);
        }
    }
}

static void weights_of(ptx_builder *b, const struct ptxk_step_blocks_tile *t, unsigned k,
                       ptx_val x[EACH])
{
    ptx_val value[PTXK_LANES];

    if (t->kept.type) {
        ptx_val row = ptx_mad(b, t->tile.warp, ptxk_codes_lines(&t->tile), k);
        ptx_val place = ptx_mad(b, row, TILE, ptx_mul(b, t->tile.lane, EACH));
        ptx_vec kept = ptx_load_vec(b, t->kept, place, EACH);
        for (unsigned n = 0; n < EACH; n++)
            x[n] = kept.lane[n];
        return;
    }
    ptxk_lanes_of(b, &t->weight[k], value);
    for (unsigned n = 0; n < EACH; n++)
        x[n] = ptx_cvt(b, PTX_F32, value[n]);
}

// ---- scales -------------------------------------------------------------------------------------

// What weights are multiplied by, and what their codes are: f32, variables.
struct scale {
    ptx_val by, inverse;
};

static struct scale scale_of(ptx_builder *b, const struct ptxk_step_blocks_tile *t, ptx_val amax)
{
    enum { EXPONENT = 0xff, FRACTION = 0x7fffff };
    const float largest = ptxk_fp8_max(t->format), least = 1e-4f;
    const uint32_t power = ~(uint32_t)FRACTION;
    struct scale s = { ptx_var(b, ptx_f32(0)), ptx_var(b, ptx_f32(0)) };
    ptx_val odd = ptx_and(b, t->scaling, 1);
    ptx_val is_power = ptx_ne(b, odd, 0);

    ptx_comment(b, "the scale");
    ptx_if (b, ptx_lt(b, t->scaling, PTX_FP8_SCALING_DEEPGEMM)) {
        ptx_comment(b, "as Transformer Engine");
        ptx_val below_1 = ptx_sub(b, ptx_bitcast(b, PTX_U32, amax), 1);
        ptx_val plain = ptx_lt(b, below_1, ((uint32_t)EXPONENT << 23) - 1); // not 0, and finite
        ptx_val scale = ptx_min(b, ptx_div(b, ptx_f32(largest), amax), ptx_f32(FLT_MAX));
        ptx_val bits = ptx_bitcast(b, PTX_U32, scale);
        ptx_val rounded = ptx_select(b, is_power, ptx_and(b, bits, power), bits);
        ptx_set(b, s.by, ptx_select(b, plain, ptx_bitcast(b, PTX_F32, rounded), ptx_f32(1)));
        ptx_set(b, s.inverse, ptx_rcp(b, s.by));
    }
    ptx_else (b) {
        ptx_comment(b, "as DeepGEMM");
        ptx_val inverse = ptx_div(b, ptxk_larger(b, amax, ptx_f32(least)), ptx_f32(largest));
        ptx_val bits = ptx_bitcast(b, PTX_U32, inverse);
        ptx_val finite = ptx_lt(b, bits, (uint32_t)EXPONENT << 23);
        ptx_val up = ptx_and(b, ptx_add(b, bits, FRACTION), power);
        ptx_val rounds = ptx_and(b, is_power, finite);
        ptx_val rounded = ptx_select(b, rounds, up, bits);
        ptx_set(b, s.inverse, ptx_bitcast(b, PTX_F32, rounded));
        ptx_set(b, s.by, ptx_rcp(b, s.inverse));
    }
    return s;
}

// The scale of a block, to its place (u64) among those at an address. It stays in L2 as codes do.
static void scale_store(ptx_builder *b, const struct ptxk_step_blocks_tile *t, ptx_val address,
                        ptx_val place, ptx_val inverse)
{
    ptx_ptr at = ptx_at(b, ptx_ptr_from(b, PTX_B32, PTX_SPACE_GLOBAL, address), place);

    ptxk_codes_store(b, t->tile.keeps, at,
                     (ptx_vec) { .lanes = 1, .lane = { ptx_bitcast(b, PTX_B32, inverse) } });
}

// Of the lanes of a warp, in all of them. `x`: f32, 0 or more, or one NaN.
static ptx_val warp_largest(ptx_builder *b, ptx_val x)
{
    ptx_comment(b, "the largest of a warp");
    if (ptx_builder_target(b).sm < 80)
        return ptxk_lanes_combine_all(b, ptxk_larger, x, WARP);
    ptx_val bits = ptx_redux_max(b, ptx_bitcast(b, PTX_U32, x), ptx_full_warp());
    return ptx_bitcast(b, PTX_F32, bits);
}

// The largest magnitude of a thread's weights of a row.
static ptx_val row_largest(ptx_builder *b, const struct ptxk_step_blocks_tile *t, unsigned k)
{
    ptx_val x[EACH], largest = { 0 };

    ptx_comment(b, "the largest of row %u", k);
    weights_of(b, t, k, x);
    for (unsigned n = 0; n < EACH; n++) {
        ptxk_comment_lanes(b, "magnitudes", n, ptxk_comment_each(b), EACH);
        ptx_val magnitude = ptx_abs(b, x[n]);
        largest = n ? ptxk_larger(b, largest, magnitude) : magnitude;
    }
    return ptxk_one_nan(b, largest);
}

static ptx_val kept_largest(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    ptx_val largest = t->largest[0];

    for (unsigned n = 1; n < EACH; n++)
        largest = ptxk_larger(b, largest, t->largest[n]);
    return ptxk_one_nan(b, largest);
}

// The largest of the tile, in all threads.
static ptx_val tile_largest(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    ptx_val largest = t->kept.type ? kept_largest(b, t) : row_largest(b, t, 0);

    for (unsigned k = 1; k < ptxk_codes_lines(&t->tile) && !t->kept.type; k++)
        largest = ptxk_larger(b, largest, row_largest(b, t, k));
    largest = warp_largest(b, largest);
    ptx_comment(b, "the largest of the tile");
    ptx_ptr of_warps = ptx_ptr_cast(b, PTX_F32, ptx_at(b, t->tile.shared, CODES));
    ptx_if (b, ptx_eq(b, t->tile.lane, 0))
        ptx_store(b, of_warps, t->tile.warp, largest);
    ptx_barrier(b);
    for (uint32_t k = 0; k < t->tile.threads / WARP; k += 4) {
        ptx_comment(b, "and of warps %u to %u", k, k + 3);
        ptx_vec four = ptx_load_vec(b, of_warps, k, 4);
        for (unsigned n = 0; n < four.lanes; n++)
            largest = ptxk_larger(b, largest, four.lane[n]);
    }
    return largest;
}

// ---- codes --------------------------------------------------------------------------------------

// Writes the codes of rows: `word` has a thread's of each.
static void rows_write(ptx_builder *b, const struct ptxk_step_blocks_tile *t,
                       const ptx_val word[LINES])
{
    ptx_ptr p = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, t->codes);
    ptx_ptr to = ptx_at(b, p, ptx_mad(b, t->tile.row, t->tile.columns, t->tile.column));
    ptx_val first = ptx_mul(b, t->tile.warp, ptxk_codes_lines(&t->tile));

    ptx_if (b, in_units(b, t, t->codes, t->tile.columns, EACH)) {
        ptx_comment(b, "writes words of codes");
        ptx_val row = ptx_cvt(b, PTX_U64, first);
        ptx_val column = ptx_cvt(b, PTX_U64, ptx_mul(b, t->tile.lane, EACH));
        ptx_ptr at = ptx_at(b, to, ptx_mad(b, row, t->tile.columns, column));
        for (unsigned k = 0; k < ptxk_codes_lines(&t->tile); k++) {
            ptxk_codes_store(b, t->tile.keeps, ptx_ptr_cast(b, PTX_B32, at),
                             (ptx_vec) { .lanes = 1, .lane = { word[k] } });
            at = ptx_at(b, at, t->tile.columns);
        }
    }
    ptx_else (b) {
        if (t->has_own) // where others may still have copies under way
            ptx_barrier(b);
        ptx_comment(b, "rows of codes into shared memory");
        ptx_val unit = ptx_shr(b, t->tile.lane, 2), rest = ptx_and(b, t->tile.lane, UNIT_WORDS - 1);
        for (uint32_t k = 0; k < ptxk_codes_lines(&t->tile); k++) {
            ptxk_comment_lanes(b, "rows", k, 4, ptxk_codes_lines(&t->tile));
            ptx_val at = ptxk_codes_unit_at(b, ptx_add(b, first, k), unit);
            ptx_store(b, t->tile.shared, ptx_add(b, at, rest), word[k]);
        }
        ptx_barrier(b);
        ptxk_codes_write(b, &t->tile, to, t->tile.columns, t->tile.height, t->tile.width);
        ptx_barrier(b);
    }
}

void ptxk_step_fp8_turn(ptx_builder *b, const struct ptxk_step_blocks_tile *t, ptx_val word[LINES])
{
    ptx_ptr p = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, t->transposed);
    ptx_ptr to = ptx_at(b, p, ptx_mad(b, t->tile.column, t->tile.rows, t->tile.row));

    ptxk_codes_turn(b, &t->tile, word);
    ptx_barrier(b);
    ptxk_codes_write(b, &t->tile, to, t->tile.rows, t->tile.width, t->tile.height);
}

// The codes of row `k`, of which each element has a factor.
static ptx_val word_of(ptx_builder *b, const struct ptxk_step_blocks_tile *t, unsigned k,
                       const ptx_val by[EACH])
{
    ptx_val x[EACH];

    ptx_comment(b, "the codes of row %u", k);
    weights_of(b, t, k, x);
    for (unsigned n = 0; n < EACH; n++)
        x[n] = ptx_mul(b, x[n], by[n]);
    return ptxk_fp8_word(b, t->format, x);
}

// ---- blocks of 128 x 128 ------------------------------------------------------------------------

static void squares(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    ptx_val word[LINES];
    const struct scale s = scale_of(b, t, tile_largest(b, t));
    const ptx_val by[EACH] = { s.by, s.by, s.by, s.by };
    ptx_val is_wanted = ptx_ne(b, t->transposed, 0);

    ptx_if (b, ptx_eq(b, t->tile.tid, 0)) {
        scale_store(b, t, t->scales, ptx_mad(b, t->tile.down, t->tile.rights, t->tile.right),
                    s.inverse);
        ptx_if (b, is_wanted)
            scale_store(b, t, t->transposed_scales,
                        ptx_mad(b, t->tile.right, t->tile.downs, t->tile.down), s.inverse);
    }
    for (unsigned k = 0; k < ptxk_codes_lines(&t->tile); k++)
        word[k] = word_of(b, t, k, by);
    rows_write(b, t, word);
    ptx_if (b, is_wanted)
        ptxk_step_fp8_turn(b, t, word);
}

// ---- blocks of 1 x 128 --------------------------------------------------------------------------

// Lane k of a warp has the scale of its row k.
static void rows_make(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    ptx_val word[LINES], largest = ptx_f32(0);

    for (uint32_t k = 0; k < ptxk_codes_lines(&t->tile); k++) {
        ptx_val own = warp_largest(b, row_largest(b, t, k));
        largest = k ? ptx_select(b, ptx_eq(b, t->tile.lane, k), own, largest) : own;
    }
    const struct scale s = scale_of(b, t, largest);
    ptx_val row = ptx_mad(b, t->tile.warp, ptxk_codes_lines(&t->tile), t->tile.lane);
    ptx_val is_row = ptx_lt(b, t->tile.lane, ptxk_codes_lines(&t->tile));
    ptx_if (b, ptx_and(b, is_row, ptx_lt(b, row, t->tile.height))) {
        ptx_val at = ptx_add(b, t->tile.row, ptx_cvt(b, PTX_U64, row));
        scale_store(b, t, t->scales, ptx_mad(b, at, t->tile.rights, t->tile.right), s.inverse);
    }
    for (uint32_t k = 0; k < ptxk_codes_lines(&t->tile); k++) {
        ptx_val one = ptx_shfl_idx(b, s.by, ptx_u32(k));
        word[k] = word_of(b, t, k, (const ptx_val[EACH]) { one, one, one, one });
    }
    rows_write(b, t, word);
}

// Thread n has the scale of column n.
static void columns_make(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    ptx_ptr factors = ptx_ptr_cast(b, PTX_F32, ptx_at(b, t->tile.shared, CODES));
    ptx_vec own = { .lanes = EACH };
    ptx_val word[LINES], x[EACH];

    for (unsigned n = 0; n < EACH && t->kept.type; n++)
        own.lane[n] = t->largest[n];
    for (unsigned k = 0; k < ptxk_codes_lines(&t->tile) && !t->kept.type; k++) {
        ptx_comment(b, "the largest of columns, with row %u", k);
        weights_of(b, t, k, x);
        for (unsigned n = 0; n < EACH; n++) {
            ptxk_comment_lanes(b, "columns", n, ptxk_comment_each(b), EACH);
            ptx_val magnitude = ptx_abs(b, x[n]);
            own.lane[n] = k ? ptxk_larger(b, own.lane[n], magnitude) : magnitude;
        }
    }
    ptx_val column = ptx_mul(b, t->tile.lane, EACH);
    ptx_store_vec(b, t->of_warps, ptx_mad(b, t->tile.warp, TILE, column), own);
    ptx_barrier(b);
    ptx_if (b, ptx_lt(b, t->tile.tid, TILE)) {
        ptx_comment(b, "the largest of a column");
        ptx_val largest = ptx_load(b, t->of_warps, t->tile.tid);
        for (uint32_t k = 1; k < t->tile.threads / WARP; k++) {
            ptxk_comment_lanes(b, "of the warps", k, 4, t->tile.threads / WARP);
            ptx_val other = ptx_load(b, ptx_at(b, t->of_warps, k * TILE), t->tile.tid);
            largest = ptxk_larger(b, largest, other);
        }
        const struct scale s = scale_of(b, t, ptxk_one_nan(b, largest));
        ptx_store(b, factors, t->tile.tid, s.by);
        ptx_if (b, ptx_lt(b, t->tile.tid, t->tile.width)) {
            ptx_val at = ptx_add(b, t->tile.column, ptx_cvt(b, PTX_U64, t->tile.tid));
            scale_store(b, t, t->transposed_scales, ptx_mad(b, at, t->tile.downs, t->tile.down),
                        s.inverse);
        }
    }
    ptx_barrier(b);
    ptx_vec by = ptx_load_vec(b, factors, column, EACH);
    for (unsigned k = 0; k < ptxk_codes_lines(&t->tile); k++)
        word[k] = word_of(b, t, k, by.lane);
    ptxk_step_fp8_turn(b, t, word);
}

// ---- the kernel ---------------------------------------------------------------------------------

static void make(ptx_builder *b, struct ptxk_step_blocks_tile *t, unsigned kind)
{
    static const ptx_type types[] = { PTX_F32, PTX_BF16, PTX_F16 };
    const bool of_rows = is_of_lines(kind);

    t->format = kind % 2 ? FP8_E5M2 : FP8_E4M3;
    ptx_comment(b, "%s, blocks of %s, %s", ptx_type_name(types[kind / 4]),
                of_rows ? "1 x 128" : "128 x 128", kind % 2 ? "e5m2" : "e4m3");
    if (!t->kept.type)
        weights_read(b, t, types[kind / 4]);
    else if (!of_rows || !t->has_own)
        ptx_barrier(b);
    if (!of_rows) {
        squares(b, t);
        return;
    }
    rows_make(b, t);
    ptx_if (b, ptx_ne(b, t->transposed, 0))
        columns_make(b, t);
}

void ptxk_step_fp8_make(ptx_builder *b, struct ptxk_step_blocks_tile *t, uint32_t kinds)
{
    for (unsigned k = 0; k < PTXK_STEP_FP8_KINDS; k++) {
        if (!(kinds >> k & 1))
            continue;
        if (kinds == UINT32_C(1) << k) {
            make(b, t, k);
            continue;
        }
        ptx_if (b, ptx_eq(b, t->kind, k))
            make(b, t, k);
    }
}

void ptxk_step_fp8_blocks_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;
    struct ptxk_step_blocks_tile t = { .format = FP8_E4M3 };

    ptx_comment(b,
                "a block for each 128 x 128 weights of a matrix: their codes, with their scales");
    begin(b, &t, norm);
    t.tile.shared = ptx_ptr_cast(b, PTX_B32, ptx_shared(b, PTX_U32, STEP_FP8_SHARED_WORDS));
    t.of_warps = ptx_ptr_cast(b, PTX_F32, t.tile.shared);
    ptxk_step_fp8_make(b, &t, spec->fp8_blocks);
}
