// SPDX-License-Identifier: MIT
// Atomics: every operation, type, space, order and scope that the builder accepts, as atom and as
// red, compared with plain C; then with all threads on one cell. On a GPU if there is one, and on
// the emulator in CI.
#include "rows.h"
#include "sanitized.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/half.h"

// One cell for each thread at the start of `out`; then the old values, 8 bytes each.
enum { THREADS = 256, OLD = THREADS * 8, MOST_ROWS = 8192 };

static struct rows rows;
static struct row list[MOST_ROWS];
static unsigned listed;

// ---- plain C ------------------------------------------------------------------------------------

static uint64_t extend(ptx_type type, uint64_t v)
{
    const unsigned width = 8 * ptx_type_bytes(type);
    const bool is_signed = type >= PTX_S8 && type <= PTX_S64;

    if (width == 64)
        return v;
    v &= (UINT64_C(1) << width) - 1;
    return is_signed && v >> (width - 1) ? v | UINT64_MAX << width : v;
}

static bool below(ptx_type type, uint64_t x, uint64_t y)
{
    const bool is_signed = type >= PTX_S8 && type <= PTX_S64;
    x = extend(type, x);
    y = extend(type, y);
    return is_signed ? (int64_t)x < (int64_t)y : x < y;
}

static uint32_t flush(uint32_t x)
{
    return x & 0x7f800000 ? x : x & 0x80000000;
}

// f32 flushes subnormals in global memory and keeps them in shared memory. There is one NaN.
static uint64_t add_f32(uint32_t x, uint32_t y, bool flushes)
{
    if (flushes) {
        x = flush(x);
        y = flush(y);
    }
    const float sum = f32_of_bits(x) + f32_of_bits(y);
    const uint32_t bits = isnan(sum) ? 0x7fffffff : bits_of_f32(sum);
    return flushes ? flush(bits) : bits;
}

// The result is the NaN operand, as a quiet NaN. Of two, shared memory keeps its own, and global
// memory takes the other. Neither is documented.
static uint64_t add_f64(uint64_t old, uint64_t x, bool shared)
{
    const uint64_t quiet = UINT64_C(0x0008000000000000), first = shared ? old : x;
    const uint64_t second = shared ? x : old;
    const double sum = f64_of_bits(old) + f64_of_bits(x);

    if (!isnan(sum))
        return bits_of_f64(sum);
    return isnan(f64_of_bits(first))    ? first | quiet
           : isnan(f64_of_bits(second)) ? second | quiet
                                        : UINT64_C(0xfff8000000000000);
}

static uint64_t add_half(ptx_type type, uint64_t x, uint64_t y)
{
    const int bits = type == PTX_F16 || type == PTX_F16X2 ? F16_EXPONENT_BITS : BF16_EXPONENT_BITS;
    return half_from_f64(bits, half_to_f64(bits, (uint16_t)x) + half_to_f64(bits, (uint16_t)y));
}

static uint64_t add(const struct op_case *c, uint64_t x, uint64_t y)
{
    switch (c->type) {
    case PTX_F32:
        return add_f32((uint32_t)x, (uint32_t)y, c->space != PTX_SPACE_SHARED);
    case PTX_F64:
        return add_f64(x, y, c->space == PTX_SPACE_SHARED);
    case PTX_F16:
    case PTX_BF16:
        return add_half(c->type, x, y);
    case PTX_F16X2:
    case PTX_BF16X2:
        return add_half(c->type, x, y) | add_half(c->type, x >> 16, y >> 16) << 16;
    default:
        return x + y;
    }
}

static uint64_t after(const struct op_case *c, uint64_t old, uint64_t x, uint64_t compare)
{
    switch (c->what) {
    case PTX_ATOMIC_add:
        return add(c, old, x);
    case PTX_ATOMIC_min:
        return below(c->type, x, old) ? x : old;
    case PTX_ATOMIC_max:
        return below(c->type, old, x) ? x : old;
    case PTX_ATOMIC_inc:
        return old >= x ? 0 : old + 1;
    case PTX_ATOMIC_dec:
        return old == 0 || old > x ? x : old - 1;
    case PTX_ATOMIC_and:
        return old & x;
    case PTX_ATOMIC_or:
        return old | x;
    case PTX_ATOMIC_xor:
        return old ^ x;
    case PTX_ATOMIC_exch:
        return x;
    case PTX_ATOMIC_cas:
        return old == compare ? x : old;
    default:
        fail_msg("atomic operation %u has no expectation in plain C", c->what);
        return 0;
    }
}

// ---- each thread at its own cell ----------------------------------------------------------------

// The index of thread t's operand in `in`: pairs of corner values, and of a corner value and random
// bits.
static uint32_t place_of(uint32_t t)
{
    return t * 7 + 300 + t / 30;
}

static uint64_t compared(struct rows *r, unsigned bytes, unsigned t)
{
    return rows_in(r, bytes, t % 4 ? t : place_of(t)); // usually the value in memory
}

static void emit_own(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const struct op_case *c = &row->c;
    const ptx_val none = { 0 };
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_ptr from = ptx_ptr_cast(b, c->type, in), cell = ptx_ptr_cast(b, c->type, out);
    ptx_val place = ptx_div(b, tid, ptx_u32(30));
    place = ptx_mad(b, tid, ptx_u32(7), place);
    place = ptx_add(b, place, ptx_u32(300));
    ptx_val x = ptx_load(b, from, place), before = ptx_load(b, from, tid), compare = none;

    if (c->what == PTX_ATOMIC_cas) {
        ptx_val fourth = ptx_and(b, tid, ptx_u32(3));
        ptx_val i = ptx_select(b, ptx_eq(b, fourth, ptx_u32(0)), place, tid);
        compare = ptx_load(b, from, i);
    }
    if (c->space == PTX_SPACE_SHARED)
        cell = ptx_shared(b, c->type, THREADS);
    ptx_store(b, cell, tid, before);
    if (c->space == PTX_SPACE_GENERIC)
        cell = ptx_ptr_from(b, c->type, PTX_SPACE_GENERIC, ptx_ptr_address(b, cell));
    ptx_val old = ptx_atomic(b, (ptx_atomic_op)c->what, cell, tid, x, .compare = compare,
                             .order = c->order, .scope = c->scope);
    if (c->used) {
        ptx_ptr to = ptx_at(b, out, ptx_u32(OLD / 8));
        to = ptx_ptr_cast(b, c->type, ptx_at(b, to, tid));
        ptx_store(b, to, ptx_u32(0), old);
    }
    if (c->space == PTX_SPACE_SHARED) {
        ptx_val now = ptx_load(b, cell, tid);
        ptx_store(b, ptx_ptr_cast(b, c->type, out), tid, now);
    }
}

static void expect_own(struct rows *r, const struct row *row)
{
    const unsigned bytes = ptx_type_bytes(row->c.type);

    for (unsigned t = 0; t < THREADS; t++) {
        const uint64_t old = rows_in(r, bytes, t), x = rows_in(r, bytes, place_of(t));
        rows_put(r->want, bytes, t, after(&row->c, old, x, compared(r, bytes, t)));
        if (row->c.used)
            rows_put(r->want + OLD + 8 * t, bytes, 0, old);
    }
}

static const struct row_test own = { emit_own, expect_own, NULL };

// ---- all threads at one cell --------------------------------------------------------------------

static uint32_t start_of(const struct op_case *c)
{
    return c->what == PTX_ATOMIC_min || c->what == PTX_ATOMIC_and ? 0x7fff : 3;
}

// Thread t adds t + 1, or a bound that all threads share.
static uint64_t brought(const struct op_case *c, unsigned t)
{
    return c->what == PTX_ATOMIC_inc || c->what == PTX_ATOMIC_dec ? 100 : t + 1;
}

static void emit_one(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const struct op_case *c = &row->c;
    const ptx_val none = { 0 }, start = ptx_imm(c->type, start_of(c));
    const bool bound = c->what == PTX_ATOMIC_inc || c->what == PTX_ATOMIC_dec;
    ptx_ptr cell = ptx_ptr_cast(b, c->type, out);
    ptx_val tid = ptx_tid(b, PTX_X), x = ptx_add(b, tid, ptx_u32(1));

    (void)in;
    x = bound ? ptx_u32(100) : ptx_cvt(b, ptx_type_bytes(c->type) == 8 ? PTX_U64 : PTX_U32, x);
    if (ptx_type_bytes(c->type) == 2)
        x = ptx_cvt(b, PTX_U16, x);
    if (x.type != c->type)
        x = ptx_bitcast(b, c->type, x);
    if (c->space == PTX_SPACE_SHARED)
        cell = ptx_shared(b, c->type, 8);
    ptx_if (b, ptx_eq(b, tid, ptx_u32(0))) {
        ptx_store(b, cell, ptx_u32(0), start);
    }
    ptx_barrier(b);
    ptx_val old = ptx_atomic(b, (ptx_atomic_op)c->what, cell, ptx_u32(0), x,
                             .compare = c->what == PTX_ATOMIC_cas ? start : none);
    ptx_ptr to = ptx_at(b, out, ptx_u32(OLD / 8));
    to = ptx_ptr_cast(b, c->type, ptx_at(b, to, tid));
    ptx_store(b, to, ptx_u32(0), old);
    ptx_barrier(b);
    ptx_val now = ptx_load(b, cell, ptx_u32(0));
    ptx_store(b, ptx_ptr_cast(b, c->type, out), ptx_u32(0), now);
}

static int by_value(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

// The device chooses the order. The old values and the last one must fit some order: a chain from
// old to new value through all threads.
static void expect_one(struct rows *r, const struct row *row)
{
    const struct op_case *c = &row->c;
    const unsigned bytes = ptx_type_bytes(c->type);
    uint64_t from[THREADS + 1], to[THREADS + 1];
    unsigned others = 0;

    for (unsigned t = 0; t < THREADS; t++) {
        from[t] = rows_get(r->out + OLD + 8 * t, bytes, 0);
        to[t] = after(c, from[t], brought(c, t), start_of(c));
        if (bytes < 8)
            to[t] &= (UINT64_C(1) << 8 * bytes) - 1;
        others += c->what == PTX_ATOMIC_cas && from[t] == start_of(c);
    }
    from[THREADS] = rows_get(r->out, bytes, 0);
    to[THREADS] = start_of(c);
    qsort(from, THREADS + 1, sizeof *from, by_value);
    qsort(to, THREADS + 1, sizeof *to, by_value);
    // Each value that was read, or left at the end, was stored once.
    if (memcmp(from, to, sizeof from))
        fail_msg("%s: old values that no order of the threads gives", row->name);
    if (c->what == PTX_ATOMIC_cas)
        assert_int_equal(others, 1);
    memcpy(r->want, r->out, OLD + 8 * THREADS);
    memset(r->want + bytes, 0xcc, OLD - bytes);
    for (unsigned t = 0; t < THREADS; t++)
        memset(r->want + OLD + 8 * t + bytes, 0xcc, 8 - bytes);
}

static const struct row_test one = { emit_one, expect_one, NULL, .varies = true };

// ---- all of them --------------------------------------------------------------------------------

struct choice {
    const struct row_test *test;
    bool plain; // integers, without an order and a scope
};

static unsigned accepted;

static void collect(void *user, const struct op_case *c)
{
    static const char *const spaces[] = { "generic", "global", "shared" };
    const struct choice *choice = user;
    struct row row = { .c = *c, .threads = THREADS };

    if (c->kind != CASE_ATOMIC ||
        (choice->plain && (c->order || c->scope || !c->used || c->type >= PTX_F16)) ||
        !rows_accepts(&rows, choice->test, &row))
        return;
    if (!choice->plain && accepted++ % SANITIZED_EVERY(7)) // orders and scopes are the innermost
        return;
    assert_true(listed < MOST_ROWS);
    snprintf(row.name, sizeof row.name, "%s.%s %s %s order %d scope %d", c->used ? "atom" : "red",
             ptx_atomic_get_info((ptx_atomic_op)c->what)->name, ptx_type_name(c->type),
             spaces[c->space], c->order, c->scope);
    list[listed++] = row;
}

static void run(const struct choice *choice, unsigned least)
{
    listed = 0;
    op_cases(collect, (void *)(uintptr_t)choice);
    assert_true(listed > least);
    rows_run(&rows, choice->test, list, listed);
    printf("%u rows\n", listed);
}

TEST(own_cells)
{
    run(&(const struct choice) { &own, false }, 1000 / SANITIZED_EVERY(7));
}

TEST(one_cell)
{
    run(&(const struct choice) { &one, true }, 60);
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}
