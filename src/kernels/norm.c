// SPDX-License-Identifier: MIT
// The module of a plan, and the kernels that change the values that other kernels read.
#include "norm_parts.h"

const struct norm_entry *ptxk_norm_entry(const struct norm_spec *spec, unsigned k)
{
    const struct norm_entry *e = &spec->entries[k];

    return e->name && (!e->is_needed || e->is_needed(spec)) ? e : NULL;
}

void ptxk_norm_emit(ptx_builder *b, const struct norm_spec *spec)
{
    for (unsigned k = 0; k < NORM_ENTRIES; k++) {
        const struct norm_entry *e = ptxk_norm_entry(spec, k);
        const bool is_own = k == NORM_LAST && spec->last_threads;
        const unsigned threads = e && e->threads ? e->threads(spec) : NORM_BLOCK;
        const int sm = ptx_builder_target(b).sm;
        const unsigned blocks = e && e->blocks ? e->blocks(spec, sm) : e ? e->min_blocks : 0;
        if (e)
            ptx_entry (b, e->name, .block = { is_own ? spec->last_threads : threads },
                       .min_blocks = blocks ? (blocks * NORM_BLOCK + threads - 1) / threads
                                            : spec->last_blocks)
                e->emit(b, spec);
    }
}

// ---- setting ------------------------------------------------------------------------------------

static ptx_val thread(ptx_builder *b)
{
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    return ptx_mad(b, block, NORM_BLOCK, tid);
}

void ptxk_norm_setter_begin(ptx_builder *b)
{
    ptxk_norm_let_next_start(b);
    ptxk_norm_wait_for_last(b);
}

void ptxk_norm_set_max_norm_emit(ptx_builder *b, const struct norm_spec *spec)
{
    (void)spec;
    ptx_ptr records = ptx_param_ptr(b, PTX_F32, "records", .writeonly = true,
                                    .meaning = "rows of 4: factor, norm, found_inf, max_norm");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "records to set");
    ptx_val max_norm =
        ptx_param(b, PTX_F32, "max_norm", .range = PTX_RANGE_NOT_NAN | PTX_RANGE_NOT_NEGATIVE);
    ptxk_norm_setter_begin(b);
    ptx_val k = thread(b);
    ptx_if (b, ptx_lt(b, k, count)) {
        ptx_val row = ptx_mul_wide(b, k, NORM_LENGTH(float, struct ptx_clip_record));
        const uint32_t place = NORM_PLACE(float, struct ptx_clip_record, max_norm);
        ptx_store(b, ptx_at(b, records, row), place, max_norm);
    }
}

void ptxk_norm_set_loss_scale_emit(ptx_builder *b, const struct norm_spec *spec)
{
    (void)spec;
    ptx_ptr state = ptx_param_ptr(b, PTX_B32, "state", .writeonly = true, .length = "2",
                                  .meaning = "scale (f32), growth_tracker (s32)");
    ptx_val scale = ptx_param(b, PTX_F32, "scale", .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    ptx_val tracker = ptx_param(b, PTX_S32, "growth_tracker");
    ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), 0)) {
        const uint32_t scale_at = NORM_PLACE(float, struct ptx_loss_scale_state, scale);
        const uint32_t tracker_at =
            NORM_PLACE(int32_t, struct ptx_loss_scale_state, growth_tracker);
        ptx_store(b, state, scale_at, ptx_bitcast(b, PTX_B32, scale));
        ptx_store(b, state, tracker_at, ptx_bitcast(b, PTX_B32, tracker));
    }
}

void ptxk_norm_set_data_emit(ptx_builder *b, const struct norm_spec *spec)
{
    (void)spec;
    ptx_ptr tensors =
        ptx_param_ptr(b, PTX_U64, "tensors", .writeonly = true,
                      .meaning = "rows of 4, the first of which is the tensor's address");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "rows to set");
    ptx_ptr data = ptx_param_array(b, PTX_U64, "data", NORM_SET_DATA_BATCH);
    ptxk_norm_setter_begin(b);
    ptx_for (b, k, ptx_tid(b, PTX_X), count, NORM_BLOCK) {
        ptx_val address = ptx_load(b, data, k);
        ptx_val row = ptx_mul(b, k, NORM_LENGTH(uint64_t, struct norm_tensor_row));
        ptx_store(b, tensors, row, address);
    }
}
