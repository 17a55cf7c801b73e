// SPDX-License-Identifier: MIT
// A tensor's report, from those of its chunks in their order.
#include "common/common.h"
#include "norm_parts.h"

#define CHUNK(member)  NORM_PLACE(uint32_t, struct norm_chunk_report, member)
#define ROW(member)    NORM_PLACE(uint64_t, struct norm_report_row, member)
#define REPORT(member) NORM_PLACE(uint64_t, struct ptx_gradient_report, member)

bool ptxk_norm_reports(const struct norm_spec *spec)
{
    return spec->reports;
}

// Of this thread's chunks, in variables: f64, f32, u64, u64.
struct folded {
    ptx_val sum, largest, zeros, first;
};

// Thread t takes chunks t, t + 256, ...
static struct folded fold(ptx_builder *b, const struct norm_spec *spec, ptx_ptr reports,
                          ptx_val tid, ptx_val count)
{
    const uint32_t length = NORM_LENGTH(double, struct norm_chunk_report);
    struct folded f = { ptx_var(b, ptx_f64(0)), ptx_var(b, ptx_f32(0)), ptx_var(b, ptx_u64(0)),
                        ptx_var(b, ptx_u64(UINT64_MAX)) };

    ptx_comment(b, "chunks t, t + %d, ... for thread t", NORM_BLOCK);
    ptx_for (b, k, tid, count, NORM_BLOCK) {
        ptx_ptr row = ptx_at(b, reports, ptx_mul_wide(b, k, length));
        ptx_ptr words = ptx_ptr_cast(b, PTX_U32, row);
        ptx_val sum = ptx_load(b, row, 0);
        ptx_val largest = ptx_load(b, ptx_ptr_cast(b, PTX_F32, row), CHUNK(largest));
        ptx_val zeros = ptx_load(b, words, CHUNK(zeros)), first = ptx_load(b, words, CHUNK(first));
        ptx_set(b, f.sum, ptx_add(b, f.sum, sum));
        ptx_set(b, f.largest, ptxk_larger(b, f.largest, largest));
        ptx_set(b, f.zeros, ptx_add(b, f.zeros, ptx_cvt(b, PTX_U64, zeros)));
        ptx_val wide = ptx_cvt(b, PTX_U64, first);
        ptx_val place = ptx_add(b, ptx_mul_wide(b, k, spec->chunk), wide);
        place = ptx_select(b, ptx_eq(b, first, UINT32_MAX), UINT64_MAX, place);
        ptx_set(b, f.first, ptx_min(b, f.first, place));
    }
    return f;
}

// The place in the whole parameter of element `i` of the tensor; UINT64_MAX stays.
static ptx_val place_in_whole(ptx_builder *b, ptx_ptr row, ptx_val i)
{
    ptx_val place = ptx_var(b, i);

    ptx_if (b, ptx_ne(b, i, UINT64_MAX)) {
        ptx_val run = ptx_load(b, row, ROW(run));
        ptx_val turn = ptx_div(b, i, run);
        ptx_val within = ptx_sub(b, i, ptx_mul(b, turn, run));
        ptx_val at = ptx_mul(b, turn, ptx_load(b, row, ROW(stride)));
        at = ptx_add(b, at, ptx_load(b, row, ROW(first)));
        ptx_set(b, place, ptx_add(b, at, within));
    }
    return place;
}

void ptxk_norm_report_emit(ptx_builder *b, const struct norm_spec *spec)
{
    ptx_comment(b, "a block for each tensor: its report from those of its chunks");
    ptx_ptr tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                    .meaning = "rows of 4: data, count, weight, type");
    ptx_ptr rows = ptx_param_ptr(b, PTX_U64, "report_rows", .readonly = true,
                                 .meaning = "rows of 4: place in the whole, first chunk, chunks");
    ptx_ptr of_chunks = ptx_param_ptr(b, PTX_F64, "chunk_reports", .readonly = true,
                                      .meaning = "rows of 3, one a chunk");
    ptx_ptr reports = ptx_param_ptr(b, PTX_U64, "reports_at", .writeonly = true,
                                    .meaning = "rows of 4, one a tensor: norm (f64), largest (f32) "
                                               "and absent (u32), zeros, first not finite");
    ptx_val tensor = ptx_ctaid(b, PTX_X), tid = ptx_tid(b, PTX_X);
    ptx_ptr row = ptx_at(b, rows, ptx_mul_wide(b, tensor, 4));
    ptx_vec chunks = ptx_unpack(b, PTX_U32, ptx_load(b, row, ROW(chunk)));
    const uint32_t length = NORM_LENGTH(double, struct norm_chunk_report);
    ptx_ptr first = ptx_at(b, of_chunks, ptx_mul_wide(b, chunks.lane[0], length));
    struct folded own = fold(b, spec, first, tid, chunks.lane[1]);

    ptx_ptr least = ptx_shared(b, PTX_U64, 1);
    ptx_if (b, ptx_eq(b, tid, 0))
        ptx_store(b, least, 0, UINT64_MAX);
    ptx_val sum =
        ptxk_one_nan(b, ptxk_block_sum(b, own.sum, NORM_BLOCK)); // its barrier: for `least`
    ptx_val largest = ptxk_block_extreme(b, own.largest, NORM_BLOCK, true);
    ptx_val zeros = ptxk_block_sum(b, own.zeros, NORM_BLOCK);
    ptx_comment(b, "the first element that is not finite");
    ptx_if (b, ptx_ne(b, own.first, UINT64_MAX))
        ptx_atomic_min(b, least, 0, own.first);
    ptx_barrier(b);
    ptx_comment(b, "the report");
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_val data = ptx_load(b, ptx_at(b, tensors, ptx_mul_wide(b, tensor, 4)), 0);
        ptx_val none = ptx_eq(b, chunks.lane[1], 0);
        ptx_val absent = ptx_or(b, none, ptx_eq(b, data, 0));
        ptx_val flag = ptx_select(b, absent, ptx_u32(1), 0);
        ptx_ptr to = ptx_at(b, reports, ptx_mul_wide(b, tensor, 4));
        ptx_ptr words = ptx_ptr_cast(b, PTX_U32, to);
        ptx_val bits = ptx_bitcast(b, PTX_U32, ptxk_one_nan(b, largest));
        ptx_val norm = ptxk_one_nan(b, ptx_sqrt(b, sum));
        ptx_store(b, ptx_ptr_cast(b, PTX_F64, to), REPORT(norm), norm);
        ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_gradient_report, largest), bits);
        ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_gradient_report, absent), flag);
        ptx_store(b, to, REPORT(zeros), zeros);
        ptx_val bad = place_in_whole(b, row, ptx_load(b, least, 0));
        ptx_store(b, to, REPORT(first_nonfinite), bad);
    }
}
