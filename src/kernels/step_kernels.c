// SPDX-License-Identifier: MIT
// The kernels of a step plan beside the step: the norm's, which derives what follows from the
// clocks, and those that change the values that a step reads.
#include "norm_parts.h"
#include "step_apply.h"

// The first blocks compute what depends only on scalars and counts, and end. The others sum.
static void squares_emit(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_squares n = ptxk_norm_squares_param(b, spec);
    const uint32_t rules = ptxk_step_rules(spec->own);
    const struct ptxk_step_clocks clocks = ptxk_step_clocks_param(b, rules);
    ptx_val block = ptxk_norm_squares_begin(b, &n);

    ptx_comment(b, "the first blocks: what follows from scalars and counts alone");
    ptx_val derives = ptx_lt(b, block, clocks.blocks);
    ptx_if (b, derives) {
        ptx_val clock = ptx_mad(b, block, ptx_u32(NORM_BLOCK), n.tid);
        ptx_if (b, ptx_eq(b, clock, ptx_u32(0)))
            ptxk_norm_squares_note_scale(b, &n);
        ptx_if (b, ptx_lt(b, clock, clocks.count))
            ptxk_step_derive(b, rules, &clocks, clock);
    }
    ptx_return_if(b, derives);
    n.may_lack = n.notes_scale = true;
    ptxk_norm_squares_sum(b, &n, ptx_sub(b, block, clocks.blocks));
}

static void set_hyper_emit(ptx_builder *b, const struct norm_spec *spec)
{
    (void)spec;
    ptx_ptr hyper = ptx_param_ptr(b, PTX_F64, "hyper", .writeonly = true, .length = "16",
                                  .meaning = "a group's scalars");
    ptx_ptr values = ptx_param_array(b, PTX_F64, "values", STEP_SCALARS);
    ptx_val k = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_lt(b, k, ptx_u32(STEP_SCALARS)))
        ptx_store(b, hyper, k, ptx_load(b, values, k));
}

static void set_rows_emit(ptx_builder *b, const struct norm_spec *spec)
{
    ptx_ptr rows = ptx_param_ptr(b, PTX_U64, "rows", .writeonly = true,
                                 .meaning = ptxk_step_row_words(spec->own) == STEP_ROW_WORDS
                                                ? "rows of 16, from the first to set"
                                                : "rows of 12, from the first to set");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "words to set");
    ptx_ptr words = ptx_param_array(b, PTX_U64, "words", STEP_SET_ROWS_WORDS);
    ptx_for (b, k, ptx_tid(b, PTX_X), count, ptx_u32(NORM_BLOCK))
        ptx_store(b, rows, k, ptx_load(b, words, k));
}

const struct norm_entry ptxk_step_entries[NORM_ENTRIES] = {
    NORM_COMMON_ENTRIES,
    [NORM_SQUARES] = { "clip_norm", squares_emit, 4 },
    [NORM_LAST] = { "step_apply", ptxk_step_apply_emit },
    [STEP_SET_HYPER] = { "step_set_hyper", set_hyper_emit, 1 },
    [STEP_SET_ROWS] = { "step_set_rows", set_rows_emit, 1 },
};
