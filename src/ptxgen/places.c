// SPDX-License-Identifier: MIT
// The place of the call under way, and the operands that its macro has handed over (places.h).
#include "internal.h"

#include <assert.h>

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
DEFINE(ptx_matrix, matrix)
#undef DEFINE

// Most operands are values, and most find room.
enum { VALUE_WORDS = 2 };
static_assert(sizeof(ptx_val) == VALUE_WORDS * sizeof(uint64_t), "a value fills its words");

static bool all_kept(const ptx_builder *b)
{
    return b && !b->lost_operands;
}

// Rare, and out of line: gcc would take `lost` for unset where it sees the loop.
static __attribute__((noinline)) const ptx_val *pop_each(ptx_builder *b, unsigned count,
                                                         ptx_val *lost)
{
    while (count)
        lost[--count] = pop_val(b);
    return lost;
}

// The last values, the first one first: where they lie until the next push, or in `lost`.
static inline const ptx_val *pop_values(ptx_builder *b, unsigned count, ptx_val *lost)
{
    const uint32_t words = VALUE_WORDS * count;

    if (all_kept(b) && b->operands.count >= words) {
        b->operands.count -= words;
        return (const ptx_val *)(const void *)&b->operands.at[b->operands.count];
    }
    return pop_each(b, count, lost);
}

// Whether there was room. If not, ptxb_push() makes some.
static inline bool push_quickly(ptx_builder *b, const void *from, size_t bytes)
{
    const uint32_t words = (uint32_t)((bytes + 7) / 8);

    if (!all_kept(b) || b->operands.capacity - b->operands.count < words)
        return false;
    memcpy(&b->operands.at[b->operands.count], from, bytes);
    b->operands.count += words;
    return true;
}

void ptxgen_push(ptx_builder *b, ptx_val x)
{
    if (push_quickly(b, &x, sizeof x))
        return;
    const ptx_val last = x; // so that `x` stays in registers
    ptxb_push(b, &last, sizeof last);
}

void ptxgen_push_signed(ptx_builder *b, int64_t x)
{
    ptxgen_push(b, ptx_number_signed(x));
}

void ptxgen_push_unsigned(ptx_builder *b, uint64_t x)
{
    ptxgen_push(b, ptx_number_unsigned(x));
}

void ptxgen_push_float(ptx_builder *b, double x)
{
    ptxgen_push(b, ptx_number_float(x));
}

void ptxgen_push_fragment(ptx_builder *b, ptx_fragment x)
{
    ptxb_push(b, &x, sizeof x);
}

void ptxgen_push_matrix(ptx_builder *b, ptx_matrix m)
{
    ptxb_push(b, &m, sizeof m);
}

void ptxgen_push_ptr(ptx_builder *b, ptx_ptr p)
{
    if (!push_quickly(b, &p, sizeof p))
        ptxb_push(b, &p, sizeof p);
}

// Returns the place before. NULL keeps it.
static const char *begin(ptx_builder *b, const char *place)
{
    const char *before = b ? b->place : NULL;

    if (b && b->failed)
        ptxb_recover(b);
    if (b && place)
        b->place = place;
    return before;
}

static void end(ptx_builder *b, const char *before)
{
    if (b)
        b->place = before;
}

uint32_t ptxgen_place_begin(ptx_builder *b, const char *place)
{
    const uint32_t height = b ? b->operands.count + b->lost_operands : 0;
    const char *before = begin(b, place);

    if (!push_quickly(b, &before, sizeof before))
        ptxb_push(b, &before, sizeof before);
    return height;
}

void ptxgen_place_end(ptx_builder *b)
{
    if (b)
        pop(b, &b->place, sizeof b->place);
}

void ptxgen_unwind(ptx_builder *b, uint32_t height)
{
    while (b && b->operands.count + b->lost_operands > height + 1) // a place is one word
        pop(b, &(uint64_t) { 0 }, sizeof(uint64_t));
    ptxgen_place_end(b);
}

// ---- calls --------------------------------------------------------------------------------------

// `x` is the call's result, and its place holds for it alone. Operands are popped before, the last
// one first.
#define CALL_AT(b, place, type, x)                                                                 \
    const char *const before = begin(b, place);                                                    \
    const type result = x;                                                                         \
    end(b, before);                                                                                \
    return result
// The same without a result.
#define VOID_AT(b, place, call)                                                                    \
    const char *const before = begin(b, place);                                                    \
    call;                                                                                          \
    end(b, before)

ptx_val ptxgen_popped1(ptx_builder *b, const char *place, ptx_val (*f)(ptx_builder *, ptx_val))
{
    const ptx_val x = pop_val(b);
    CALL_AT(b, place, ptx_val, f(b, x));
}

ptx_val ptxgen_popped2(ptx_builder *b, const char *place,
                       ptx_val (*f)(ptx_builder *, ptx_val, ptx_val))
{
    ptx_val lost[2];
    const ptx_val *x = pop_values(b, 2, lost);
    CALL_AT(b, place, ptx_val, f(b, x[0], x[1]));
}

ptx_val ptxgen_popped3(ptx_builder *b, const char *place,
                       ptx_val (*f)(ptx_builder *, ptx_val, ptx_val, ptx_val))
{
    ptx_val lost[3];
    const ptx_val *x = pop_values(b, 3, lost);
    CALL_AT(b, place, ptx_val, f(b, x[0], x[1], x[2]));
}

ptx_val ptxgen_popped_op(ptx_builder *b, const char *place, ptx_opcode op)
{
    ptx_val lost[4];
    const ptx_val *x = pop_values(b, ptxb_op_operands[op], lost);
    CALL_AT(b, place, ptx_val, ptxb_op_emit(b, op, x));
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
    ptx_val lost[2];
    const ptx_val *x = pop_values(b, 2, lost);
    VOID_AT(b, place, ptx_set(b, x[0], x[1]));
}

ptx_ptr ptxgen_popped_at(ptx_builder *b, const char *place)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_ptr, ptx_at(b, p, i));
}

ptx_val ptxgen_popped_load(ptx_builder *b, const char *place)
{
    return ptxgen_popped_load_emit(b, place, (struct ptx_load_params) { .index = pop_val(b) });
}

ptx_val ptxgen_popped_load_emit(ptx_builder *b, const char *place, struct ptx_load_params params)
{
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_val, ptx_load_emit(b, p, params));
}

ptx_vec ptxgen_popped_load_vec(ptx_builder *b, const char *place, struct ptx_load_vec_params params)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_vec, ptx_load_vec_emit(b, p, i, params));
}

void ptxgen_popped_store(ptx_builder *b, const char *place)
{
    ptxgen_popped_store_emit(b, place, (struct ptx_store_params) { .x = pop_val(b) });
}

void ptxgen_popped_store_emit(ptx_builder *b, const char *place, struct ptx_store_params params)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    VOID_AT(b, place, ptx_store_emit(b, p, i, params));
}

void ptxgen_popped_store_vec(ptx_builder *b, const char *place, struct ptx_store_vec_params params)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    VOID_AT(b, place, ptx_store_vec_emit(b, p, i, params));
}

ptx_val ptxgen_popped_atomic(ptx_builder *b, const char *place, ptx_atomic_op op)
{
    return ptxgen_popped_atomic_emit(b, place, op, (struct ptx_atomic_params) { .x = pop_val(b) });
}

ptx_val ptxgen_popped_atomic_cas(ptx_builder *b, const char *place)
{
    const ptx_val x = pop_val(b), compare = pop_val(b);
    const struct ptx_atomic_params params = { .x = x, .compare = compare };

    return ptxgen_popped_atomic_emit(b, place, PTX_ATOMIC_cas, params);
}

ptx_val ptxgen_popped_atomic_emit(ptx_builder *b, const char *place, ptx_atomic_op op,
                                  struct ptx_atomic_params params)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_val, ptx_atomic_emit(b, op, p, i, params));
}

ptx_vec ptxgen_popped_atomic_vec(ptx_builder *b, const char *place, ptx_atomic_op op,
                                 struct ptx_atomic_vec_params params)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_vec, ptx_atomic_vec_emit(b, op, p, i, params));
}

void ptxgen_popped_prefetch(ptx_builder *b, const char *place, ptx_prefetch_kind kind)
{
    const ptx_val i = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    VOID_AT(b, place, ptx_prefetch(b, p, i, kind));
}

void ptxgen_popped_fragment_set(ptx_builder *b, const char *place, ptx_fragment x)
{
    const ptx_fragment var = pop_fragment(b);
    VOID_AT(b, place, ptx_fragment_set(b, var, x));
}

ptx_fragment ptxgen_popped_fragment_load(ptx_builder *b, const char *place, ptx_fragment_role role,
                                         ptx_type type, unsigned k,
                                         struct ptx_fragment_load_params params)
{
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_fragment, ptx_fragment_load_emit(b, role, type, k, p, params));
}

ptx_matrix ptxgen_popped_matrix_from(ptx_builder *b, const char *place, ptx_fragment_role role,
                                     ptx_type type, unsigned k,
                                     struct ptx_fragment_load_params params)
{
    const ptx_ptr p = pop_ptr(b);
    CALL_AT(b, place, ptx_matrix, ptx_matrix_from_emit(b, role, type, k, p, params));
}

ptx_matrix ptxgen_popped_matrix_at(ptx_builder *b, const char *place)
{
    const ptx_val i = pop_val(b);
    const ptx_matrix m = pop_matrix(b);
    CALL_AT(b, place, ptx_matrix, ptx_matrix_at(b, m, i));
}

void ptxgen_popped_fragment_store(ptx_builder *b, const char *place)
{
    const ptx_val stride = pop_val(b);
    const ptx_ptr p = pop_ptr(b);
    const ptx_fragment x = pop_fragment(b);
    VOID_AT(b, place, ptx_fragment_store(b, x, p, stride));
}

ptx_fragment ptxgen_popped_mma(ptx_builder *b, const char *place, struct ptx_mma_params params)
{
    const ptx_fragment y = pop_fragment(b), x = pop_fragment(b);
    CALL_AT(b, place, ptx_fragment, ptx_mma_emit(b, x, y, params));
}

void ptxgen_popped_stmatrix(ptx_builder *b, const char *place, struct ptx_stmatrix_params params)
{
    const ptx_ptr p = pop_ptr(b);
    VOID_AT(b, place, ptx_stmatrix_emit(b, p, params));
}

void ptxgen_popped_cp_async(ptx_builder *b, const char *place, struct ptx_cp_async_params params)
{
    const ptx_ptr from = pop_ptr(b), to = pop_ptr(b);
    VOID_AT(b, place, ptx_cp_async_emit(b, to, from, params));
}

ptx_val ptxgen_popped_shfl(ptx_builder *b, const char *place, ptx_shfl_mode mode,
                           struct ptx_shfl_params params)
{
    const ptx_val x = pop_val(b);
    CALL_AT(b, place, ptx_val, ptx_shfl_emit(b, mode, x, params));
}

void ptxgen_popped_branch_if(ptx_builder *b, const char *place, ptx_label label)
{
    const ptx_val cond = pop_val(b);
    VOID_AT(b, place, ptx_branch_if(b, cond, label));
}

void ptxgen_popped_assert(ptx_builder *b, const char *place, struct ptx_message_params params)
{
    const ptx_val cond = pop_val(b);
    VOID_AT(b, place, ptx_assert_emit(b, cond, params));
}

void ptxgen_popped_printf(ptx_builder *b, const char *place, const char *format, unsigned count)
{
    ptx_val lost[16];
    const ptx_val *x = pop_values(b, count, lost);
    VOID_AT(b, place, ptx_printf_emit(b, format, x, count));
}

void ptxgen_popped_return_values(ptx_builder *b, const char *place, const char *text,
                                 unsigned count)
{
    ptx_val lost[16];
    const ptx_val *x = pop_values(b, count, lost);
    (void)text;
    VOID_AT(b, place, ptx_return_values_emit(b, x, count));
}

ptx_vec ptxgen_popped_call_many(ptx_builder *b, const char *place, const char *name, unsigned count)
{
    ptx_val lost[16];
    const ptx_val *x = pop_values(b, count, lost);
    CALL_AT(b, place, ptx_vec, ptx_call_many_emit(b, name, x, count));
}

ptx_val ptxgen_popped_call(ptx_builder *b, const char *place, const char *name, unsigned count)
{
    ptx_val lost[16];
    const ptx_val *x = pop_values(b, count, lost);
    CALL_AT(b, place, ptx_val, ptx_call_emit(b, name, x, count));
}
