// SPDX-License-Identifier: MIT
// The place of the call under way, and the operands that its macro has handed over (places.h).
#include "internal.h"

// Operands that found no memory count, so that what is taken back is what was pushed.
static uint32_t push(ptx_builder *b, const void *from, size_t bytes)
{
    const uint32_t words = (uint32_t)((bytes + 7) / 8);

    if (!b)
        return 0;
    const uint32_t height = b->operands.count + b->lost_operands;
    if (b->lost_operands || !ROOM_FOR(b, b->operands, words)) {
        b->lost_operands += words;
        return height;
    }
    memcpy(&b->operands.at[b->operands.count], from, bytes);
    b->operands.count += words;
    return height;
}

static void pop(ptx_builder *b, void *to, size_t bytes)
{
    const uint32_t words = (uint32_t)((bytes + 7) / 8);

    memset(to, 0, bytes);
    if (b && b->lost_operands >= words) {
        b->lost_operands -= words;
    } else if (b && b->operands.count >= words) {
        b->operands.count -= words;
        memcpy(to, &b->operands.at[b->operands.count], bytes);
    }
}

#define DEFINE(type, name)                                                                         \
    static type pop_##name(ptx_builder *b)                                                         \
    {                                                                                              \
        type x;                                                                                    \
        pop(b, &x, sizeof x);                                                                      \
        return x;                                                                                  \
    }
DEFINE(ptx_val, val)
DEFINE(ptx_ptr, ptr)
DEFINE(ptx_fragment, fragment)
#undef DEFINE

uint32_t ptxgen_push(ptx_builder *b, ptx_val x)
{
    return push(b, &x, sizeof x);
}

uint32_t ptxgen_push_signed(ptx_builder *b, int64_t x)
{
    return ptxgen_push(b, ptx_number_signed(x));
}

uint32_t ptxgen_push_unsigned(ptx_builder *b, uint64_t x)
{
    return ptxgen_push(b, ptx_number_unsigned(x));
}

uint32_t ptxgen_push_float(ptx_builder *b, double x)
{
    return ptxgen_push(b, ptx_number_float(x));
}

uint32_t ptxgen_push_fragment(ptx_builder *b, ptx_fragment x)
{
    return push(b, &x, sizeof x);
}

uint32_t ptxgen_push_ptr(ptx_builder *b, const char *place, ptx_ptr p)
{
    const uint32_t height = ptxgen_place_begin(b, place);

    push(b, &p, sizeof p);
    return height;
}

uint32_t ptxgen_place_begin(ptx_builder *b, const char *place)
{
    if (!b)
        return 0;
    const uint32_t height = push(b, &b->place, sizeof b->place);
    b->place = place;
    return height;
}

void ptxgen_place_end(ptx_builder *b)
{
    if (b)
        pop(b, &b->place, sizeof b->place);
}

void ptxgen_unwind(ptx_builder *b, uint32_t height, bool placed)
{
    const uint32_t kept = height + placed; // a place is one word

    while (b && b->operands.count + b->lost_operands > kept)
        pop(b, &(uint64_t) { 0 }, sizeof(uint64_t));
    if (placed)
        ptxgen_place_end(b);
}

// ---- calls --------------------------------------------------------------------------------------

// `x` is the call's result. The place has begun.
#define RETURN(b, type, x)                                                                         \
    const type result = x;                                                                         \
    ptxgen_place_end(b);                                                                           \
    return result
// The same at a place. Operands are popped before, the last one first.
#define CALL_AT(b, place, type, x)                                                                 \
    ptxgen_place_begin(b, place);                                                                  \
    RETURN(b, type, x)

ptx_val ptxgen_popped1(ptx_builder *b, const char *place, ptx_val (*f)(ptx_builder *, ptx_val))
{
    const ptx_val x = pop_val(b);
    CALL_AT(b, place, ptx_val, f(b, x));
}

ptx_val ptxgen_popped2(ptx_builder *b, const char *place,
                       ptx_val (*f)(ptx_builder *, ptx_val, ptx_val))
{
    const ptx_val y = pop_val(b), x = pop_val(b);
    CALL_AT(b, place, ptx_val, f(b, x, y));
}

ptx_val ptxgen_popped3(ptx_builder *b, const char *place,
                       ptx_val (*f)(ptx_builder *, ptx_val, ptx_val, ptx_val))
{
    const ptx_val z = pop_val(b), y = pop_val(b), x = pop_val(b);
    CALL_AT(b, place, ptx_val, f(b, x, y, z));
}

ptx_val ptxgen_popped_op(ptx_builder *b, const char *place, ptx_opcode op)
{
    const struct ptx_op_info *info = ptx_op_get_info(op);
    struct ptx_op_params params = { .op = op };
    ptx_val *const operands[] = { &params.x, &params.y, &params.z, &params.w };

    for (size_t k = strlen(info->shape + 2); k; k--) // the letters after "T="
        *operands[k - 1] = pop_val(b);
    CALL_AT(b, place, ptx_val, ptx_op_emit(b, params));
}

int ptxgen_popped_block(ptx_builder *b, const char *place, int (*f)(ptx_builder *, ptx_val))
{
    const ptx_val cond = pop_val(b);
    CALL_AT(b, place, int, f(b, cond));
}

ptx_val ptxgen_popped_cvt(ptx_builder *b, const char *place, ptx_type type)
{
    const ptx_val x = pop_val(b);
    CALL_AT(b, place, ptx_val, ptx_cvt(b, type, x));
}

ptx_val ptxgen_popped_cvt_pack(ptx_builder *b, const char *place, ptx_type type)
{
    const ptx_val hi = pop_val(b), lo = pop_val(b);
    CALL_AT(b, place, ptx_val, ptx_cvt_pack(b, type, lo, hi));
}

void ptxgen_popped_set(ptx_builder *b, const char *place)
{
    const ptx_val x = pop_val(b), var = pop_val(b);

    ptxgen_place_begin(b, place);
    ptx_set(b, var, x);
    ptxgen_place_end(b);
}

ptx_ptr ptxgen_popped_at(ptx_builder *b, ptx_val i)
{
    RETURN(b, ptx_ptr, ptx_at(b, pop_ptr(b), i));
}

ptx_val ptxgen_popped_load(ptx_builder *b)
{
    return ptxgen_popped_load_emit(b, (struct ptx_load_params) { .index = pop_val(b) });
}

ptx_val ptxgen_popped_load_emit(ptx_builder *b, struct ptx_load_params params)
{
    RETURN(b, ptx_val, ptx_load_emit(b, pop_ptr(b), params));
}

ptx_vec ptxgen_popped_load_vec(ptx_builder *b, struct ptx_load_vec_params params)
{
    const ptx_val i = pop_val(b);
    RETURN(b, ptx_vec, ptx_load_vec_emit(b, pop_ptr(b), i, params));
}

void ptxgen_popped_store(ptx_builder *b)
{
    ptxgen_popped_store_emit(b, (struct ptx_store_params) { .x = pop_val(b) });
}

void ptxgen_popped_store_emit(ptx_builder *b, struct ptx_store_params params)
{
    const ptx_val i = pop_val(b);
    ptx_store_emit(b, pop_ptr(b), i, params);
    ptxgen_place_end(b);
}

void ptxgen_popped_store_vec(ptx_builder *b, struct ptx_store_vec_params params)
{
    const ptx_val i = pop_val(b);
    ptx_store_vec_emit(b, pop_ptr(b), i, params);
    ptxgen_place_end(b);
}

ptx_val ptxgen_popped_atomic(ptx_builder *b, ptx_atomic_op op)
{
    return ptxgen_popped_atomic_emit(b, op, (struct ptx_atomic_params) { .x = pop_val(b) });
}

ptx_val ptxgen_popped_atomic_cas(ptx_builder *b)
{
    const ptx_val x = pop_val(b), compare = pop_val(b);
    const struct ptx_atomic_params params = { .x = x, .compare = compare };

    return ptxgen_popped_atomic_emit(b, PTX_ATOMIC_cas, params);
}

ptx_val ptxgen_popped_atomic_emit(ptx_builder *b, ptx_atomic_op op, struct ptx_atomic_params params)
{
    const ptx_val i = pop_val(b);
    RETURN(b, ptx_val, ptx_atomic_emit(b, op, pop_ptr(b), i, params));
}

void ptxgen_popped_fragment_set(ptx_builder *b, ptx_fragment x)
{
    ptx_fragment_set(b, pop_fragment(b), x);
    ptxgen_place_end(b);
}

ptx_fragment ptxgen_popped_fragment_load(ptx_builder *b, ptx_fragment_role role, ptx_type type,
                                         unsigned k, struct ptx_fragment_load_params params)
{
    RETURN(b, ptx_fragment, ptx_fragment_load_emit(b, role, type, k, pop_ptr(b), params));
}

void ptxgen_popped_fragment_store(ptx_builder *b, ptx_val stride)
{
    const ptx_ptr p = pop_ptr(b);
    ptxgen_place_end(b);
    ptx_fragment_store(b, pop_fragment(b), p, stride);
    ptxgen_place_end(b);
}

ptx_fragment ptxgen_popped_mma(ptx_builder *b, struct ptx_mma_params params)
{
    const ptx_fragment y = pop_fragment(b);
    RETURN(b, ptx_fragment, ptx_mma_emit(b, pop_fragment(b), y, params));
}

void ptxgen_popped_stmatrix(ptx_builder *b, struct ptx_stmatrix_params params)
{
    ptx_stmatrix_emit(b, pop_ptr(b), params);
    ptxgen_place_end(b);
}

void ptxgen_popped_cp_async(ptx_builder *b, struct ptx_cp_async_params params)
{
    const ptx_ptr from = pop_ptr(b);
    ptxgen_place_end(b);
    ptx_cp_async_emit(b, pop_ptr(b), from, params);
    ptxgen_place_end(b);
}

ptx_val ptxgen_popped_shfl(ptx_builder *b, ptx_shfl_mode mode, struct ptx_shfl_params params)
{
    RETURN(b, ptx_val, ptx_shfl_emit(b, mode, pop_val(b), params));
}

void ptxgen_popped_branch_if(ptx_builder *b, ptx_label label)
{
    ptx_branch_if(b, pop_val(b), label);
    ptxgen_place_end(b);
}

void ptxgen_popped_assert(ptx_builder *b, struct ptx_message_params params)
{
    ptx_assert_emit(b, pop_val(b), params);
    ptxgen_place_end(b);
}

static void pop_values(ptx_builder *b, ptx_val values[16], unsigned count)
{
    while (count)
        values[--count] = pop_val(b);
}

void ptxgen_popped_printf(ptx_builder *b, const char *format, unsigned count)
{
    ptx_val values[16];

    pop_values(b, values, count);
    ptx_printf_emit(b, format, values, count);
    ptxgen_place_end(b);
}

ptx_val ptxgen_popped_call(ptx_builder *b, const char *name, unsigned count)
{
    ptx_val values[16];

    pop_values(b, values, count);
    RETURN(b, ptx_val, ptx_call_emit(b, name, values, count));
}
