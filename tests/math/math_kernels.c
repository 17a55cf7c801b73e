// SPDX-License-Identifier: MIT
// A kernel for each row of math.h, out[i] = row(x[i]): for golden texts, ptxas and devices.
#include "math_kernels.h"

#define UNARY(name, ...)                                                                           \
    ptx_entry (b, #name, .block = { MATH_BLOCK }) {                                                \
        ptx_val n = ptx_param(b, PTX_U32, "n");                                                    \
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .length = "n", .readonly = true);               \
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .length = "n", .writeonly = true);          \
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), MATH_BLOCK, ptx_tid(b, PTX_X));                \
        ptx_return_if(b, ptx_ge(b, i, n));                                                         \
        ptx_store(b, out, i, ptx_math_##name(b, ptx_load(b, x, i)));                               \
    }
#define BINARY(name, ...)                                                                          \
    ptx_entry (b, #name, .block = { MATH_BLOCK }) {                                                \
        ptx_val n = ptx_param(b, PTX_U32, "n");                                                    \
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .length = "n", .readonly = true);               \
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .length = "n", .readonly = true);               \
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .length = "n", .writeonly = true);          \
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), MATH_BLOCK, ptx_tid(b, PTX_X));                \
        ptx_return_if(b, ptx_ge(b, i, n));                                                         \
        ptx_store(b, out, i, ptx_math_##name(b, ptx_load(b, x, i), ptx_load(b, y, i)));            \
    }

void math_kernels(ptx_builder *b)
{
    PTX_MATH_UNARY(UNARY)
    PTX_MATH_BINARY(BINARY)
}
