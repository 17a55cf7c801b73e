// SPDX-License-Identifier: MIT
// A kernel for each row of math.h that makes its inputs itself and adds up the hashes of the
// results, so that nothing but 8 bytes leaves the device. math_inputs.h has the same in C.
#include "math_kernels.h"

static ptx_val random_bits(ptx_builder *b, ptx_val state)
{
    ptx_val z =
        ptx_mul(b, ptx_xor(b, state, ptx_shr(b, state, 30)), ptx_u64(UINT64_C(0xbf58476d1ce4e5b9)));
    z = ptx_mul(b, ptx_xor(b, z, ptx_shr(b, z, 27)), ptx_u64(UINT64_C(0x94d049bb133111eb)));
    return ptx_xor(b, z, ptx_shr(b, z, 31));
}

// A float of y's sign and significand with this exponent field.
static ptx_val with_exponent(ptx_builder *b, ptx_val y, ptx_val exponent)
{
    return ptx_or(b, ptx_and(b, y, 0x807fffff), ptx_shl(b, exponent, 23));
}

// math_pair(): x and y are variables.
static void pair(ptx_builder *b, ptx_val i, ptx_val x, ptx_val y)
{
    const ptx_val step = ptx_u64(UINT64_C(0x9e3779b97f4a7c15));
    ptx_val state = ptx_add(b, ptx_mul(b, i, ptx_u64(UINT64_C(0xd1342543de82ef95))), step);
    ptx_val bits = random_bits(b, state);
    ptx_val half = ptx_cvt(b, PTX_U32, ptx_shr(b, bits, 32));
    ptx_val more = ptx_cvt(b, PTX_U32, random_bits(b, ptx_add(b, state, step)));
    ptx_val kind = ptx_and(b, ptx_cvt(b, PTX_U32, i), 3);

    ptx_set(b, x, ptx_cvt(b, PTX_U32, bits));
    ptx_set(b, y, half);
    ptx_if (b, ptx_eq(b, kind, 1)) {
        ptx_val exponent = ptx_and(b, ptx_shr(b, x, 23), 255);
        ptx_val distance = ptx_abs(b, ptx_sub(b, ptx_bitcast(b, PTX_S32, exponent), 127));
        ptx_val log = ptx_bfind(b, ptx_max(b, distance, 1));
        ptx_val field = ptx_sub(b, ptx_sub(b, ptx_u32(127 + 7), log), ptx_rem(b, more, 9));
        ptx_set(b, x, ptx_and(b, x, 0x7fffffff));
        ptx_set(b, y, with_exponent(b, half, field));
    }
    ptx_else_if (b, ptx_eq(b, kind, 2)) {
        ptx_val mask = ptx_sub(b, ptx_shl(b, ptx_u32(1), ptx_rem(b, more, 24)), 1);
        ptx_val distance = ptx_and(b, ptx_shr(b, half, 8), mask);
        ptx_val above = ptx_ne(b, ptx_and(b, x, 1), 0);
        ptx_val change = ptx_select(b, above, distance, ptx_sub(b, ptx_u32(0), distance));
        ptx_val field = ptx_add(b, ptx_rem(b, ptx_shr(b, more, 8), 26), 127 + 6);
        ptx_set(b, x, ptx_add(b, change, 0x3f800000));
        ptx_set(b, y, with_exponent(b, half, field));
    }
    ptx_else_if (b, ptx_eq(b, kind, 3)) {
        ptx_val whole = ptx_sub(b, ptx_bitcast(b, PTX_S32, ptx_rem(b, half, 300)), 150);
        ptx_val odd = ptx_ne(b, ptx_and(b, more, 1), 0);
        ptx_val by = ptx_select(b, odd, ptx_f32(1), ptx_f32(0.5f));
        ptx_set(b, y, ptx_bitcast(b, PTX_U32, ptx_mul(b, ptx_cvt(b, PTX_F32, whole), by)));
    }
}

// math_hash()
static ptx_val hash(ptx_builder *b, ptx_val x, ptx_val y, ptx_val result)
{
    ptx_val word = ptx_or(b, ptx_shl(b, ptx_cvt(b, PTX_U64, x), 32),
                          ptx_cvt(b, PTX_U64, ptx_bitcast(b, PTX_U32, result)));
    ptx_val z = ptx_mad(b, ptx_cvt(b, PTX_U64, y), ptx_u64(UINT64_C(0x9e3779b97f4a7c15)), word);

    z = ptx_mul(b, ptx_xor(b, z, ptx_shr(b, z, 31)), ptx_u64(UINT64_C(0xbf58476d1ce4e5b9)));
    return ptx_xor(b, z, ptx_shr(b, z, 29));
}

#define CALL_1(name, x, y) ptx_math_##name(b, ptx_bitcast(b, PTX_F32, x))
#define CALL_2(name, x, y)                                                                         \
    ptx_math_##name(b, ptx_bitcast(b, PTX_F32, x), ptx_bitcast(b, PTX_F32, y))
#define KERNEL(name, operands)                                                                     \
    ptx_entry (b, "hash_" #name, .block = { MATH_BLOCK }) {                                        \
        ptx_val n = ptx_param(b, PTX_U64, "n");                                                    \
        ptx_val step = ptx_param(b, PTX_U64, "step");                                              \
        ptx_ptr sum = ptx_param_ptr(b, PTX_U64, "sum", .length = "1");                             \
        ptx_val own = ptx_var(b, ptx_u64(0));                                                      \
        ptx_grid_stride (b, k, n) {                                                                \
            ptx_val i = ptx_mul(b, k, step);                                                       \
            ptx_val x = ptx_var(b, ptx_cvt(b, PTX_U32, i)), y = ptx_var(b, ptx_u32(0));            \
            if (operands == 2)                                                                     \
                pair(b, i, x, y);                                                                  \
            ptx_set(b, own, ptx_add(b, own, hash(b, x, y, CALL_##operands(name, x, y))));          \
        }                                                                                          \
        ptx_atomic_add(b, sum, ptx_u32(0), own);                                                   \
    }
#define UNARY(name, ...)  KERNEL(name, 1)
#define BINARY(name, ...) KERNEL(name, 2)

void math_hash_kernels(ptx_builder *b)
{
    PTX_MATH_UNARY(UNARY)
    PTX_MATH_BINARY(BINARY)
}
