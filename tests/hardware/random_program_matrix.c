// SPDX-License-Identifier: MIT
// Products of matrices, tiles and copies into shared memory in random programs. Each warp has 512
// bytes of the shared array `own`, 16 of each lane: four tiles of 8 x 8 halves.
#include "random_program_calls.h"

// ---- words --------------------------------------------------------------------------------------

// The warp's part of `own`, the same in all lanes.
static ptx_ptr part(struct emitter *e, ptx_type type)
{
    ptx_builder *b = e->b;
    ptx_val first = ptx_and(b, e->tid, ~31u);

    ptx_assume_warp_uniform(b, first);
    return ptx_ptr_cast(b, type, ptx_at(b, e->own, ptx_mul(b, first, 2)));
}

static void store_own(struct emitter *e, ptx_val x, ptx_val y)
{
    ptx_builder *b = e->b;

    ptx_barrier_warp(b, ptx_full_warp());
    ptx_store_vec(b, program_own(e, PTX_SPACE_SHARED, PTX_B64), 0,
                  ptx_vec2(ptx_bitcast(b, PTX_B64, x), ptx_bitcast(b, PTX_B64, y)));
    ptx_barrier_warp(b, ptx_full_warp());
}

static ptx_val load_own(struct emitter *e, uint32_t index)
{
    ptx_barrier_warp(e->b, ptx_full_warp());
    ptx_val found = ptx_load(e->b, program_own(e, PTX_SPACE_SHARED, PTX_U64), index & 1);
    ptx_barrier_warp(e->b, ptx_full_warp());
    return found;
}

ptx_vec program_fragment_words(struct emitter *e, ptx_val x, unsigned count)
{
    ptx_builder *b = e->b;
    ptx_vec v = { .lanes = count };

    x = ptx_bitcast(b, PTX_B32, x.kind == PTX_KIND_IMMEDIATE ? ptx_copy(b, x) : x);
    for (unsigned k = 0; k < count; k++) // the sign and the least bits of each half change
        v.lane[k] = k ? ptx_xor(b, x, ptx_b32(0x80010003u * k ^ (k & 2 ? 0x8000 : 0))) : x;
    return v;
}

// ---- copies, tiles ------------------------------------------------------------------------------

ptx_val program_copy(struct emitter *e, const struct node *n, const ptx_val *x)
{
    static const unsigned sizes[] = { 4, 8, 16, 16 };
    const unsigned bytes = sizes[n->a & 3];
    ptx_builder *b = e->b;
    ptx_ptr to = program_own(e, PTX_SPACE_SHARED, PTX_U64);
    ptx_val i = ptx_and(b, x[0], (PROGRAM_INPUTS - 1) & ~1);
    ptx_ptr from = ptx_at(b, program_input_array(e, PTX_U64), i);

    ptx_store_vec(b, to, 0, ptx_vec2(ptx_u64(0), ptx_u64(n->b)));
    if (n->a & 4)
        ptx_cp_async(b, to, from, bytes, .taken = ptx_rem(b, x[0], ptx_u32(bytes + 1)));
    else
        ptx_cp_async(b, to, from, bytes, .bypass = bytes == 16 && n->a & 8);
    if (n->a & 16) {
        ptx_cp_async_commit(b);
        ptx_cp_async_wait(b, 0);
    } else {
        ptx_cp_async_wait_all(b);
    }
    return ptx_load(b, to, n->a >> 5 & 1);
}

static ptx_ptr row_of_tile(struct emitter *e)
{
    return ptx_ptr_cast(e->b, PTX_B16, ptx_at(e->b, e->own, ptx_mul(e->b, e->tid, 2)));
}

ptx_val program_load_tiles(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const unsigned tiles = 1u << n->a % 3;

    store_own(e, x[0], x[1]);
    return ptx_ldmatrix(e->b, row_of_tile(e), tiles, .trans = n->b & 1).lane[n->b / 2 % tiles];
}

ptx_val program_store_tiles(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_vec v = { { x[0], x[1], x[2], x[3] }, 1u << n->a % 3 };

    store_own(e, ptx_b64(n->a), ptx_b64(n->b));
    ptx_stmatrix(e->b, row_of_tile(e), v, .trans = n->b & 1);
    return load_own(e, n->b >> 1);
}

// ---- products -----------------------------------------------------------------------------------

static ptx_val product(struct emitter *e, const struct node *n, ptx_type a, ptx_type b_type,
                       const ptx_val *x, unsigned least_k, ptx_fragment c)
{
    ptx_builder *b = e->b;
    const unsigned k = n->a & 1 ? least_k : 2 * least_k;
    ptx_fragment first = ptx_fragment_from(b, PTX_FRAGMENT_A, a, k,
                                           program_fragment_words(e, x[0], n->a & 1 ? 2 : 4));
    ptx_fragment second = ptx_fragment_from(b, PTX_FRAGMENT_B, b_type, k,
                                            program_fragment_words(e, x[1], n->a & 1 ? 1 : 2));
    ptx_fragment sum = ptx_mma(b, first, second, c, .satfinite = a == PTX_S8 && n->b & 16);
    ptx_vec v = ptx_fragment_words(b, sum);
    return v.lanes ? v.lane[n->b % v.lanes] : x[0];
}

static ptx_fragment sums(struct emitter *e, const struct node *n, ptx_type type, ptx_val x)
{
    ptx_vec v = { .lanes = 4 };

    if (n->b & 8)
        return ptx_fragment_fill(e->b, ptx_zero(type));
    x = x.kind == PTX_KIND_IMMEDIATE ? ptx_copy(e->b, x) : x;
    for (unsigned k = 0; k < 4; k++)
        v.lane[k] = k & 1 ? ptx_neg(e->b, x) : x;
    return ptx_fragment_from(e->b, PTX_FRAGMENT_C, type, 0, v);
}

ptx_val program_product_f16(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const bool half = n->a & 2;
    ptx_fragment c = half ? ptx_fragment_from(e->b, PTX_FRAGMENT_C, PTX_F16, 0,
                                              program_fragment_words(e, x[3], 2))
                          : sums(e, n, PTX_F32, x[2]);
    return ptx_bitcast(e->b, PTX_U32, product(e, n, PTX_F16, PTX_F16, x, 8, c));
}

ptx_val program_product_bf16(struct emitter *e, const struct node *n, const ptx_val *x)
{
    return product(e, n, PTX_BF16, PTX_BF16, x, 8, sums(e, n, PTX_F32, x[2]));
}

ptx_val program_product_tf32(struct emitter *e, const struct node *n, const ptx_val *x)
{
    return product(e, n, PTX_TF32, PTX_TF32, x, 4, sums(e, n, PTX_F32, x[2]));
}

ptx_val program_product_s8(struct emitter *e, const struct node *n, const ptx_val *x)
{
    return product(e, n, n->a & 2 ? PTX_S8 : PTX_U8, n->a & 4 ? PTX_S8 : PTX_U8, x, 16,
                   sums(e, n, PTX_S32, x[2]));
}

// Both factors from shared memory, the sum to shared memory: 16 x 8 f32.
ptx_val program_product_in_memory(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const ptx_type type = n->a & 1 ? PTX_F16 : PTX_BF16;
    ptx_builder *b = e->b;
    ptx_ptr p = part(e, type);

    store_own(e, x[0], x[1]);
    ptx_fragment first = ptx_fragment_load(b, PTX_FRAGMENT_A, type, 16, p, 16, .trans = n->a & 2);
    ptx_fragment second = ptx_fragment_load(b, PTX_FRAGMENT_B, type, 16, p, 16, .trans = n->a & 4);
    ptx_fragment sum = ptx_mma(b, first, second, sums(e, n, PTX_F32, x[2]));
    ptx_barrier_warp(b, ptx_full_warp());
    ptx_fragment_store(b, sum, part(e, PTX_F32), 8);
    return load_own(e, n->b);
}
