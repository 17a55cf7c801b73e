// SPDX-License-Identifier: MIT
// Rows of programs with a subject. Messages whose threads differ in whether they print or test, and
// constant factors B of 16 bits with k = 8, on each way from a constant to a word. Frozen, as the
// other rows.
#include "random_program_calls.h"

#define ROW(function) ptx_val function(struct emitter *e, const struct node *n, const ptx_val *x)

// ---- messages -----------------------------------------------------------------------------------

// Differs between threads and is at most 255, which no compiler knows.
static ptx_val small(struct emitter *e)
{
    return ptx_mul(e->b, e->tid, ptx_sub(e->b, ptx_nctaid(e->b, PTX_X), PROGRAM_GRID - 1));
}

// True in some threads.
static ptx_val some(struct emitter *e, const struct node *n, ptx_val x, uint32_t of)
{
    ptx_val mixed = ptx_mad(e->b, e->thread, n->b | 1, x);
    return ptx_eq(e->b, ptx_and(e->b, ptx_shr(e->b, mixed, 7), of - 1), 0);
}

ROW(program_print_some)
{
    return program_print_if(e, n, x, some(e, n, x[0], 32));
}

// The sides of a branch print, or compute and print.
ROW(program_print_sides)
{
    ptx_builder *b = e->b;
    ptx_val result = ptx_var(b, x[0]);

    ptx_if (b, some(e, n, x[0], 4)) {
        ptx_if (b, x[1])
            ptx_set(b, result, ptx_add(b, result, n->a));
        ptx_if (b, some(e, n, result, 16))
            ptx_printf(b, "%u\n", result);
    }
    ptx_else (b) {
        ptx_set(b, result, ptx_xor(b, result, e->tid));
        ptx_if (b, some(e, n, x[0], 64))
            ptx_printf(b, "%g %u\n", x[2], result);
    }
    return result;
}

ROW(program_assert_each)
{
    ptx_builder *b = e->b;

    ptx_assert(b, ptx_lt(b, small(e), PROGRAM_BLOCK), "it is small", .line = n->a & 1 ? 7 : 0);
    ptx_if (b, some(e, n, x[0], 2))
        ptx_assert(b, ptx_le(b, small(e), ptx_or(b, x[1], PROGRAM_BLOCK)), "it is not large");
    return program_placed(e, x[0]);
}

ROW(program_trap_never)
{
    ptx_builder *b = e->b;

    ptx_if (b, some(e, n, x[1], 2)) {
        ptx_if (b, ptx_gt(b, small(e), PROGRAM_BLOCK))
            ptx_trap_message(b, "it is large");
    }
    return program_placed(e, x[0]);
}

// ---- constants ----------------------------------------------------------------------------------

// Two finite elements of medium size, with signs.
static uint32_t two_elements(struct random *r, ptx_type type)
{
    uint32_t word = 0;

    for (unsigned k = 0; k < 2; k++) {
        const uint32_t bits = (uint32_t)random_u64(r), exponent = bits >> 16 & 7;
        const uint32_t half = type == PTX_F16 ? (bits & 0x83ff) | (12 + exponent) << 10
                                              : (bits & 0x807f) | (124 + exponent) << 7;
        word |= half << 16 * k;
    }
    return word;
}

static ptx_val half_of(ptx_type type, uint32_t word, unsigned k)
{
    return ptx_imm_bits(type, word >> 16 * k & 0xffff);
}

static ptx_val packed(struct emitter *e, ptx_type type, uint32_t word, bool copied)
{
    ptx_val low = half_of(type, word, 0), high = half_of(type, word, 1);

    if (copied) {
        low = ptx_copy(e->b, low);
        high = ptx_copy(e->b, high);
    }
    return ptx_pack(e->b, type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2, ptx_vec2(low, high));
}

// Set on one way only, which one depends on the warp; and in a loop.
static ptx_val chosen(struct emitter *e, ptx_val word, ptx_val other, bool in_loop)
{
    ptx_builder *b = e->b;
    ptx_val found = ptx_var(b, word);

    if (in_loop) {
        ptx_for (b, k, ptx_u32(0), 3, 1)
            ptx_set(b, found, ptx_xor(b, found, other));
    } else {
        ptx_if (b, ptx_lt(b, ptx_shr(b, e->tid, 5), 3))
            ptx_set(b, found, other);
    }
    return found;
}

static ptx_val through_memory(struct emitter *e, ptx_val word, ptx_space space)
{
    ptx_ptr p = program_own(e, space, PTX_B32);

    ptx_store(e->b, p, 0, word);
    return ptx_load(e->b, p, 0);
}

static ptx_val constant_word(struct emitter *e, const struct node *n, ptx_type type,
                             const ptx_val *x)
{
    ptx_builder *b = e->b;
    struct random r = { n->b };
    const ptx_type pair = type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
    const bool floats = (n->a >> 4 & 15) == 12; // bf16 is the upper half of an f32
    const uint32_t word = two_elements(&r, floats ? PTX_BF16 : type);
    const uint32_t other = two_elements(&r, type);
    ptx_val copy = ptx_copy(b, ptx_b32(word));

    switch (n->a >> 4 & 15) {
    case 0:
        return ptx_b32(word);
    case 1:
        return copy;
    case 2:
        return packed(e, type, word, false);
    case 3:
        return packed(e, type, word, true);
    case 4:
        return ptx_xor(b, copy, ptx_b32(0x80008000 & other));
    case 5:
        return ptx_or(b, ptx_and(b, copy, ptx_b32(0x7fff7fff)), ptx_b32(0x80008000 & other));
    case 6:
        return ptx_neg(b, ptx_bitcast(b, pair, copy));
    case 7:
        return ptx_mul(b, ptx_bitcast(b, pair, copy), packed(e, type, other, true));
    case 8:
        return chosen(e, copy, ptx_b32(other), false);
    case 9:
        return chosen(e, copy, ptx_b32(other), true);
    case 10:
        return through_memory(e, copy, PTX_SPACE_LOCAL);
    case 11:
        return through_memory(e, copy, n->a & 8 ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL);
    case 12:
        return ptx_cvt_pack(b, pair, ptx_copy(b, ptx_imm_bits(PTX_F32, word & 0xffff0000)),
                            ptx_imm_bits(PTX_F32, (uint64_t)word << 16 & 0xffff0000));
    case 13:
        return ptx_shfl(b, PTX_SHFL_IDX, copy, 0);
    case 14: // the same in all threads, but not constant
        return ptx_add(b, ptx_bitcast(b, PTX_U32, copy), ptx_u32(n->a & 0xf));
    default: // the upper element alone
        return ptx_or(b,
                      ptx_and(b, ptx_bitcast(b, PTX_B32, program_placed(e, x[0])), ptx_b32(0xffff)),
                      ptx_b32(word & 0xffff0000));
    }
}

static ptx_val product(struct emitter *e, const struct node *n, ptx_type type, const ptx_val *x)
{
    ptx_builder *b = e->b;
    const bool half = type == PTX_F16 && n->a & 2;
    ptx_vec word = { { constant_word(e, n, type, x) }, 1 };
    ptx_fragment first =
        ptx_fragment_from(b, PTX_FRAGMENT_A, type, 8, program_fragment_words(e, x[0], 2));
    ptx_fragment second = ptx_fragment_from(b, PTX_FRAGMENT_B, type, 8, word);
    ptx_fragment c = ptx_fragment_fill(b, half ? ptx_zero(PTX_F16) : program_placed(e, x[1]));

    if (n->a & 4) // in variables, and used again
        second = ptx_fragment_var(b, second);
    c = ptx_mma(b, first, second, c);
    if (n->a & 1)
        c = ptx_mma(b, first, second, c);
    return ptx_bitcast(b, PTX_U32, ptx_fragment_words(b, c).lane[n->b % (half ? 2 : 4)]);
}

ROW(program_constant_f16)
{
    return product(e, n, PTX_F16, x);
}

ROW(program_constant_bf16)
{
    return ptx_bitcast(e->b, PTX_F32, product(e, n, PTX_BF16, x));
}
