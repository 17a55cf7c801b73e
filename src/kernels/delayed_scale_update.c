// SPDX-License-Identifier: MIT
#include <float.h>

#include "common/common.h"
#include "common/fp8.h"
#include "kernel_code.h"

// A block has COLUMNS adjacent tensors: 32 bytes of each row, a sector. Its threads are lanes of
// them, each with every LANES-th row of the history; STEPS rows are read at a time.
enum { UPDATE_BLOCK = 512, COLUMNS = 8, LANES = UPDATE_BLOCK / COLUMNS, STEPS = 8 };
enum { OPTION_AMAX, OPTION_FORMAT };
enum { AMAX_MAX, AMAX_MOST_RECENT };
enum { FORMAT_EACH = FP8_E5M2 + 1 };

// Entries of the history are counted from its first; all u64. Row r of tensor t is entry r n + t.
struct update {
    ptx_ptr history;
    ptx_val n;      // tensors, the length of a row
    ptx_val count;  // entries
    ptx_val tid;    // u32
    ptx_val tensor; // of the thread
    ptx_val exists; // there is that tensor
    ptx_val recent; // f32, a variable: row 0 before the update
};

static void find_tensor(ptx_builder *b, struct update *u)
{
    ptx_comment(b, "the thread's tensor, and its newest amax");
    ptx_val block = ptx_ctaid(b, PTX_X);
    u->tid = ptx_tid(b, PTX_X);
    ptx_val column = ptx_and(b, u->tid, COLUMNS - 1);
    ptx_val first = ptx_mul_wide(b, block, COLUMNS);

    u->tensor = ptx_add(b, first, ptx_cvt(b, PTX_U64, column));
    u->exists = ptx_lt(b, u->tensor, u->n);
    u->recent = ptx_var(b, ptx_f32(0));
    ptx_if (b, ptx_lt(b, u->tensor, ptx_min(b, u->n, u->count)))
        ptx_set(b, u->recent, ptx_load(b, u->history, u->tensor));
}

// Rolls the rows, with row 0 going last and 0 into row 0. Returns the greatest amax of the thread's
// rows. Row r takes row r + 1: a block reads STEPS * LANES rows, waits, and writes the rows before
// them, so each row is read before it is written.
static ptx_val roll(ptx_builder *b, const struct update *u)
{
    ptx_comment(b, "the history rolls by a row, %d rows of a thread at a time", STEPS);
    ptx_val greatest = ptx_var(b, ptx_f32(0));
    ptx_val end = ptx_select(b, u->exists, u->count, 0);
    ptx_val lane = ptxk_over_power_of_two(b, u->tid, COLUMNS);
    ptx_val stride = ptx_mul(b, u->n, LANES);
    ptx_val mine = ptx_mad(b, ptx_cvt(b, PTX_U64, lane), u->n, u->tensor);
    ptx_val many = ptx_mul(b, u->n, LANES * STEPS);

    ptx_for (b, base, 0, u->count, many) {
        ptx_val at[STEPS], next[STEPS];
        for (unsigned k = 0; k < STEPS; k++) {
            ptxk_comment_lanes(b, "reads the rows behind", k, 4, STEPS);
            at[k] = k ? ptx_add(b, at[k - 1], stride) : ptx_add(b, base, mine);
            next[k] = ptx_var(b, u->recent);
            ptx_val from = ptx_add(b, at[k], u->n);
            ptx_if (b, ptx_lt(b, from, end))
                ptx_set(b, next[k], ptx_load(b, u->history, from));
        }
        ptx_comment(b, "the greatest; then all have read, and may be written");
        for (unsigned k = 0; k < STEPS; k++)
            ptx_set(b, greatest, ptx_max(b, greatest, next[k]));
        ptx_barrier(b);
        for (unsigned k = 0; k < STEPS; k++) {
            ptxk_comment_lanes(b, "writes them, and 0 in the first row", k, 4, STEPS);
            ptx_val is_first = ptx_lt(b, at[k], u->n);
            ptx_val x = ptx_select(b, is_first, 0, next[k]);
            ptx_if (b, ptx_lt(b, at[k], end))
                ptx_store(b, u->history, at[k], x);
        }
    }
    return greatest;
}

// The greatest x of the block's threads with the same tensor, in the first COLUMNS threads.
static ptx_val greatest_of_columns(ptx_builder *b, const struct update *u, ptx_val x)
{
    ptx_ptr of_warp = ptx_shared(b, PTX_F32, UPDATE_BLOCK / WARP * COLUMNS);

    ptx_comment(b, "the greatest of each tensor: in the warp, then over the warps");
    x = ptxk_lanes_combine(b, ptx_max, x, WARP / COLUMNS, COLUMNS);
    ptx_val lane = ptx_and(b, u->tid, WARP - 1);
    ptx_val warp = ptx_shr(b, u->tid, 5);
    ptx_val at = ptx_mad(b, warp, COLUMNS, lane);
    ptx_if (b, ptx_lt(b, lane, COLUMNS))
        ptx_store(b, of_warp, at, x);
    ptx_barrier(b);
    ptx_val greatest = ptx_var(b, ptx_f32(0));
    ptx_if (b, ptx_lt(b, u->tid, COLUMNS)) {
        for (unsigned k = 0; k < UPDATE_BLOCK / WARP; k++) {
            ptxk_comment_lanes(b, "of the warps", k, 16, UPDATE_BLOCK / WARP);
            ptx_val other = ptx_load(b, ptx_at(b, of_warp, k * COLUMNS), u->tid);
            ptx_set(b, greatest, ptx_max(b, greatest, other));
        }
    }
    return greatest;
}

// The largest value of the tensor's format.
static ptx_val format_max(ptx_builder *b, unsigned format, ptx_ptr formats, ptx_val tensor)
{
    const float e4m3 = ptxk_fp8_max(FP8_E4M3), e5m2 = ptxk_fp8_max(FP8_E5M2);

    if (format != FORMAT_EACH)
        return ptx_f32(ptxk_fp8_max((enum fp8_format)format));
    ptx_val is_e4m3 = ptx_eq(b, ptx_load(b, formats, tensor), FP8_E4M3);
    return ptx_select(b, is_e4m3, ptx_f32(e4m3), e5m2);
}

static void set_scale(ptx_builder *b, const struct update *u, ptx_ptr scale, ptx_ptr scale_inv,
                      ptx_val amax, ptx_val aim)
{
    ptx_val old = ptx_load(b, scale, u->tensor);
    ptx_val useful = ptx_and(b, ptx_gt(b, amax, 0), ptx_is_finite(b, amax));
    ptx_val next = ptx_select(b, useful, ptx_div(b, aim, amax), old);

    next = ptx_select(b, ptx_is_infinite(b, next), FLT_MAX, next);
    ptx_store(b, scale, u->tensor, next);
    ptx_store(b, scale_inv, u->tensor, ptx_rcp(b, next));
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const unsigned format = spec->option[OPTION_FORMAT];
    struct update u = { .tid = { 0 } };
    ptx_ptr formats = { .symbol = 0 };

    ptx_ptr scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "of each tensor", .length = "n");
    ptx_ptr scale_inv = ptx_param_ptr(b, PTX_F32, "scale_inv", .meaning = "becomes 1 / scale",
                                      .length = "n", .writeonly = true);
    u.history = ptx_param_ptr(b, spec->dtype, "history",
                              .meaning = "rows of n amax, the newest first", .length = "count");
    if (format == FORMAT_EACH)
        formats = ptx_param_ptr(b, PTX_U32, "formats", .meaning = "0: e4m3; else e5m2",
                                .length = "n", .readonly = true);
    u.n = ptx_param(b, PTX_U64, "n", .meaning = "tensors");
    u.count =
        ptx_param(b, PTX_U64, "count", .meaning = "of the history, a multiple of n", .low = "n");
    ptx_val margin = ptx_param(b, PTX_S32, "margin", .meaning = "aims at the largest / 2^margin",
                               .preset = "0", .low = "-100", .high = "100");

    find_tensor(b, &u);
    ptx_val amax = roll(b, &u);
    amax = spec->option[OPTION_AMAX] == AMAX_MAX ? greatest_of_columns(b, &u, amax) : u.recent;
    ptx_val first_lane = ptx_lt(b, u.tid, COLUMNS);
    ptx_if (b, ptx_and(b, first_lane, u.exists)) {
        ptx_comment(b, "the new scale, unless amax is 0 or not finite");
        ptx_val exponent = ptx_sub(b, 127, margin);
        ptx_val power = ptx_bitcast(b, PTX_F32, ptx_shl(b, exponent, 23));
        ptx_val aim = ptx_mul(b, format_max(b, format, formats, u.tensor), power);
        set_scale(b, &u, scale, scale_inv, amax, aim);
    }
}

const ptx_kernel ptx_kernel_delayed_scale_update = {
    .name = "delayed_scale_update",
    .summary = "the scales of a model's tensors in e4m3 and e5m2, from the history of their amax",
    .formula = "amax > 0, finite: scale = largest / 2^margin / amax; scale_inv = 1 / scale",
    .dtypes = PTX_TYPE_BIT(F32),
    .options = {
        [OPTION_AMAX] = { "amax",
                          { [AMAX_MAX] = "max", [AMAX_MOST_RECENT] = "most_recent" },
                          "the greatest of the history, or its newest" },
        [OPTION_FORMAT] = { "format",
                            { "e4m3", "e5m2", [FORMAT_EACH] = "each" },
                            "of all tensors, or of each by an array" },
    },
    .grid = PTX_GRID_CHUNKS,
    .block = UPDATE_BLOCK,
    .guarantees = "deterministic; the same bits as Transformer Engine's recipe",
    .chunk = COLUMNS,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
