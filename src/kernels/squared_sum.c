// SPDX-License-Identifier: MIT
#include "common/chunk.h"
#include "kernel_code.h"

// Small n uses short chunks, to keep more SMs busy. Large n uses long chunks, because each chunk
// ends with a sum over the block.
enum { BLOCK = CHUNK_BLOCK, CHUNK = 16384, SHORT_CHUNK = 4096, SHORT_MOST = 1 << 22 };
enum { OPTION_PARTIALS }; // f64, f32

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const ptx_type partial_type = spec->option[OPTION_PARTIALS] ? PTX_F32 : PTX_F64;

    ptx_ptr x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "the tensor", .length = "n",
                              .readonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of x");
    ptx_ptr partials = ptx_param_ptr(b, partial_type, "partials", .meaning = "one sum a block",
                                     .length = "blocks", .writeonly = true);

    ptx_comment(b, "this block's chunk and its length");
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val few = ptx_le(b, n, SHORT_MOST);
    ptx_val chunk = ptx_select(b, few, ptx_u32(SHORT_CHUNK), CHUNK);
    ptx_val first = ptx_mul_wide(b, block, chunk);
    ptx_val left = ptx_sub(b, n, first);
    left = ptx_min(b, left, ptx_cvt(b, PTX_U64, chunk));
    ptx_val length = ptx_cvt(b, PTX_S32, left);

    const struct chunk own = {
        .x = x, .first = first, .length = length, .most = CHUNK, .tid = tid
    };
    ptx_val sum = ptxk_chunk_square_sum(b, &own);
    ptx_val total = ptxk_block_sum(b, sum, BLOCK);
    ptx_if (b, ptx_eq(b, tid, 0))
        ptx_store(b, partials, block, ptxk_one_nan(b, ptx_cvt(b, partial_type, total)));
}

const ptx_kernel ptx_kernel_squared_sum = {
    .name = "squared_sum",
    .summary = "sums of squares of a tensor, one for each chunk of 4096 or 16384 elements",
    .formula = "partials[k] = sum of x[i]^2 over the k-th chunk of 4096 elements, of 16384 where n "
               "> 2^22",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { [OPTION_PARTIALS] = { "partials", { "f64", "f32" }, "type of the sums written" } },
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; bit-stable at any alignment; no f32, f16 or bf16 square is lost",
    .chunk = CHUNK,
    .short_chunk = SHORT_CHUNK,
    .short_most = SHORT_MOST,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
