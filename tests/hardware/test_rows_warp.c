// SPDX-License-Identifier: MIT
// Lanes together: shuffles in every type, mode and width, votes, matches and reductions in every
// type, each with several masks, compared with plain C. On a GPU if there is one, and on the
// emulator in CI.
#include "rows.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

// From byte FROM of `out` on, each thread has 16 bytes of input: a value, and a lane or distance.
enum { THREADS = 64, FROM = 32768, MOST_ROWS = 4096 };

static const uint32_t masks[] = { UINT32_MAX, 0x55555555, 0x0000ffff, 0x80000001, 0x7a3c91e6 };
enum { MASKS = sizeof masks / sizeof *masks };

static struct rows rows;
static struct row list[MOST_ROWS];
static unsigned listed;

static struct row *add_row(enum op_case_kind kind, unsigned what, ptx_type type, unsigned lanes,
                           unsigned mask)
{
    assert_true(listed < MOST_ROWS);
    list[listed] = (struct row) { .c = { .kind = kind, .what = what, .type = type, .lanes = lanes },
                                  .threads = THREADS };
    list[listed].c.from = (ptx_type)mask; // the number of the mask
    return &list[listed++];
}

static uint32_t mask_of(const struct row *row)
{
    return masks[row->c.from];
}

static bool takes_part(const struct row *row, unsigned t)
{
    return mask_of(row) >> t % 32 & 1;
}

static uint64_t value_of(const struct rows *r, unsigned t)
{
    return rows_get(r->want + FROM + 16 * t, 8, 0);
}

static uint32_t second_of(const struct rows *r, unsigned t)
{
    return (uint32_t)rows_get(r->want + FROM + 16 * t + 8, 8, 0);
}

static uint64_t narrow(ptx_type type, uint64_t v)
{
    const unsigned width = 8 * ptx_type_bytes(type);
    return width < 64 ? v & ((UINT64_C(1) << width) - 1) : v;
}

// The thread's value as `type`, and its second word.
static ptx_val brought(ptx_builder *b, ptx_ptr out, ptx_type type, ptx_val *second)
{
    ptx_val tid = ptx_tid(b, PTX_X), place = ptx_mul(b, tid, ptx_u32(2));
    ptx_ptr from = ptx_at(b, ptx_at(b, out, ptx_u32(FROM / 8)), place);
    *second = ptx_load(b, ptx_ptr_cast(b, PTX_U32, from), ptx_u32(2));
    if (type != PTX_PRED)
        return ptx_load(b, ptx_ptr_cast(b, type, from), ptx_u32(0));
    ptx_val word = ptx_load(b, ptx_ptr_cast(b, PTX_U32, from), ptx_u32(0));
    word = ptx_and(b, word, ptx_u32(1));
    return ptx_ne(b, word, ptx_u32(0));
}

static ptx_val is_member(ptx_builder *b, const struct row *row)
{
    if (mask_of(row) == UINT32_MAX) // the builder cannot know this
        return ptx_bool(true);
    ptx_val bit = ptx_shr(b, ptx_u32(mask_of(row)), ptx_laneid(b));
    bit = ptx_and(b, bit, ptx_u32(1));
    return ptx_ne(b, bit, ptx_u32(0));
}

// ---- shuffles -----------------------------------------------------------------------------------

// The lane that lane i reads: itself if the distance leads out of its segment.
static unsigned source_of(unsigned mode, unsigned width, unsigned i, uint32_t distance)
{
    const unsigned first = i - i % width, last = first + width - 1, d = distance % 32;

    switch (mode) {
    case PTX_SHFL_DOWN:
        return i + d <= last ? i + d : i;
    case PTX_SHFL_UP:
        return i >= first + d ? i - d : i;
    case PTX_SHFL_BFLY:
        return (i ^ d) <= last ? i ^ d : i;
    default:
        return first + d % width;
    }
}

// Distances to lanes that take part: reading another lane is undefined.
static void bring_shuffle(struct rows *r, const struct row *row, unsigned char *out)
{
    struct random random = { row->c.what * 1000 + row->c.lanes * 10 + row->c.from };

    (void)r;
    for (unsigned t = 0; t < THREADS; t++) {
        uint32_t distance = (uint32_t)random_u64(&random) % 64;
        while (takes_part(row, t) &&
               !takes_part(row, source_of(row->c.what, row->c.lanes, t % 32, distance)))
            distance = (distance + 1) % 64;
        rows_put(out + FROM + 16 * t, 8, 0, random_u64(&random));
        rows_put(out + FROM + 16 * t, 8, 1, distance);
    }
}

static void emit_shuffle(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    ptx_val distance, x = brought(b, out, row->c.type, &distance);

    (void)in;
    ptx_if (b, is_member(b, row)) {
        ptx_val got = ptx_shfl(b, (ptx_shfl_mode)row->c.what, x, distance,
                               .mask = ptx_u32(mask_of(row)), .width = row->c.lanes);
        rows_store_result(b, out, got);
    }
}

static void expect_shuffle(struct rows *r, const struct row *row)
{
    for (unsigned t = 0; t < THREADS; t++) {
        const unsigned from =
            t - t % 32 + source_of(row->c.what, row->c.lanes, t % 32, second_of(r, t));
        if (takes_part(row, t))
            rows_put(r->want + 8 * t, ptx_type_bytes(row->c.type), 0, value_of(r, from));
    }
}

TEST(every_shuffle)
{
    static const struct row_test test = { emit_shuffle, expect_shuffle, bring_shuffle };

    listed = 0;
    for (unsigned mode = 0; mode < 4; mode++)
        for (unsigned t = PTX_PRED + 1; t < PTX_TYPE_COUNT; t++)
            for (unsigned width = 1; width <= 32; width *= 2)
                for (unsigned m = 0; m < MASKS; m++) {
                    struct row *row = add_row(CASE_WARP, mode, (ptx_type)t, width, m);
                    snprintf(row->name, sizeof row->name, "shfl %u of %s, width %u, mask %08x",
                             mode, ptx_type_name((ptx_type)t), width, masks[m]);
                }
    rows_run(&rows, &test, list, listed);
    printf("%u rows\n", listed);
}

// ---- votes, matches, reductions -----------------------------------------------------------------

typedef ptx_val reduction(ptx_builder *b, ptx_val x, ptx_val mask);
#define ROW(name, meaning, types) REDUX_##name,
enum { PTX_WARP_REDUCTIONS(ROW) MATCH_ANY, MATCH_ALL, BALLOT, ALL, ANY, UNIFORM, REDUCTIONS };
#undef ROW
static const struct {
    const char *name;
    reduction *call;
    uint32_t types;
    ptx_type result; // PTX_NONE: the type of the operand
} reductions[REDUCTIONS] = {
#define ROW(name, meaning, types) { "redux " #name, ptx_redux_##name, types, PTX_NONE },
    PTX_WARP_REDUCTIONS(ROW)
#undef ROW
        [MATCH_ANY] = { "match any", ptx_match_any, PTX_TYPES_W32 | PTX_TYPES_W64, PTX_U32 },
    [MATCH_ALL] = { "match all", ptx_match_all, PTX_TYPES_W32 | PTX_TYPES_W64, PTX_U32 },
    [BALLOT] = { "ballot", ptx_ballot, PTX_TYPE_BIT(PRED), PTX_U32 },
    [ALL] = { "vote all", ptx_vote_all, PTX_TYPE_BIT(PRED), PTX_U32 },
    [ANY] = { "vote any", ptx_vote_any, PTX_TYPE_BIT(PRED), PTX_U32 },
    [UNIFORM] = { "vote uniform", ptx_vote_uniform, PTX_TYPE_BIT(PRED), PTX_U32 },
};

// Four kinds: random values; few different values; one value for a warp, and for all but one lane
// of the other; 64-bit values that differ only in the upper word.
static void bring_values(struct rows *r, const struct row *row, unsigned char *out)
{
    struct random random = { row->c.what * 100 + row->c.lanes };

    (void)r;
    for (unsigned t = 0; t < THREADS; t++) {
        const uint64_t bits = random_u64(&random);
        const uint64_t v = row->c.lanes == 0   ? bits
                           : row->c.lanes == 1 ? bits % 3
                           : row->c.lanes == 2 ? (t == 40 ? 0 : UINT64_MAX)
                                               : (bits & 1) << 32 | 0x80000001;
        rows_put(out + FROM + 16 * t, 8, 0, v);
        rows_put(out + FROM + 16 * t, 8, 1, 0);
    }
}

static void emit_reduction(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    ptx_val unused, x = brought(b, out, row->c.type, &unused);

    (void)in;
    (void)unused;
    ptx_if (b, is_member(b, row)) {
        rows_store_result(b, out, reductions[row->c.what].call(b, x, ptx_u32(mask_of(row))));
    }
}

static uint32_t fold(unsigned what, ptx_type type, uint32_t x, uint32_t y)
{
    const bool less = type == PTX_S32 ? (int32_t)x < (int32_t)y : x < y;

    switch (what) {
    case REDUX_add:
        return x + y;
    case REDUX_min:
        return less ? x : y;
    case REDUX_max:
        return less ? y : x;
    case REDUX_and:
        return x & y;
    case REDUX_or:
        return x | y;
    case REDUX_xor:
        return x ^ y;
    default:
        fail_msg("reduction %s has no expectation in plain C", reductions[what].name);
        return 0;
    }
}

static uint32_t reduced(const struct rows *r, const struct row *row, unsigned t)
{
    const ptx_type type = row->c.type;
    uint32_t same = 0, set = 0, members = 0, total = 0;

    for (unsigned i = t - t % 32; i < t - t % 32 + 32; i++) {
        if (!takes_part(row, i))
            continue;
        const uint64_t v = type == PTX_PRED ? value_of(r, i) & 1 : narrow(type, value_of(r, i));
        const uint32_t bit = 1u << i % 32;
        if (row->c.what < MATCH_ANY)
            total = members ? fold(row->c.what, type, total, (uint32_t)v) : (uint32_t)v;
        members |= bit;
        same |= v == narrow(type, value_of(r, t)) ? bit : 0;
        set |= v & 1 ? bit : 0;
    }
    switch (row->c.what) {
    case MATCH_ANY:
        return same;
    case MATCH_ALL:
        return same == members ? members : 0;
    case BALLOT:
        return set;
    case ALL:
        return set == members;
    case ANY:
        return set != 0;
    case UNIFORM:
        return set == members || !set;
    default:
        return total;
    }
}

static void expect_reduction(struct rows *r, const struct row *row)
{
    for (unsigned t = 0; t < THREADS; t++)
        if (takes_part(row, t))
            rows_put(r->want + 8 * t, 4, 0, reduced(r, row, t));
}

TEST(every_reduction)
{
    static const struct row_test test = { emit_reduction, expect_reduction, bring_values };

    listed = 0;
    for (unsigned what = 0; what < REDUCTIONS; what++)
        for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
            for (unsigned k = 0; k < 4 * MASKS && reductions[what].types >> t & 1; k++) {
                struct row *row = add_row(CASE_WARP, what, (ptx_type)t, k % 4, k / 4);
                snprintf(row->name, sizeof row->name, "%s of %s, values %u, mask %08x",
                         reductions[what].name, ptx_type_name((ptx_type)t), k % 4, masks[k / 4]);
                if (!rows_accepts(&rows, &test, row)) // redux needs sm_80
                    listed--;
            }
    assert_true(listed > 300);
    rows_run(&rows, &test, list, listed);
    printf("%u rows\n", listed);
}

// ---- activemask ---------------------------------------------------------------------------------

static void emit_active(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    (void)in;
    ptx_if (b, is_member(b, row)) {
        rows_store_result(b, out, ptx_activemask(b));
    }
}

// Only a hint: some of the lanes that are here, this one among them.
static void expect_active(struct rows *r, const struct row *row)
{
    for (unsigned t = 0; t < THREADS; t++) {
        const uint32_t got = (uint32_t)rows_get(r->out + 8 * t, 4, 0);
        if (!takes_part(row, t))
            continue;
        assert_true(got >> t % 32 & 1);
        assert_int_equal(got & ~mask_of(row), 0);
        rows_put(r->want + 8 * t, 4, 0, got);
    }
}

TEST(active_lanes)
{
    static const struct row_test test = { emit_active, expect_active, NULL, .varies = true };

    listed = 0;
    for (unsigned m = 0; m < MASKS; m++)
        snprintf(add_row(CASE_WARP, 0, PTX_U32, 1, m)->name, sizeof list->name, "activemask %08x",
                 masks[m]);
    rows_run(&rows, &test, list, listed);
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}
