// SPDX-License-Identifier: MIT
// Kernels that change the values that a step reads.
#include "step_apply.h"

void ptxk_step_set_hyper_emit(ptx_builder *b, const struct clip_spec *spec)
{
    (void)spec;
    ptx_ptr hyper = ptx_param_ptr(b, PTX_F64, "hyper", .writeonly = true, .length = "8",
                                  .meaning = "a group's scalars");
    ptx_ptr values = ptx_param_array(b, PTX_F64, "values", STEP_SCALARS);
    ptx_val k = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_lt(b, k, ptx_u32(STEP_SCALARS)))
        ptx_store(b, hyper, k, ptx_load(b, values, k));
}

void ptxk_step_set_rows_emit(ptx_builder *b, const struct clip_spec *spec)
{
    (void)spec;
    ptx_ptr rows = ptx_param_ptr(b, PTX_U64, "rows", .writeonly = true,
                                 .meaning = "rows of 12, from the first to set");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "words to set");
    ptx_ptr words = ptx_param_array(b, PTX_U64, "words", STEP_ROW_WORDS * STEP_SET_ROWS_BATCH);
    ptx_for (b, k, ptx_tid(b, PTX_X), count, ptx_u32(CLIP_BLOCK))
        ptx_store(b, rows, k, ptx_load(b, words, k));
}
