// SPDX-License-Identifier: MIT
// Modules far larger than any kernel: long names, many instructions, blocks, entries and opcodes.
#include "builder_fixture.h"

#include <ctype.h>
#include <stdlib.h>

static size_t count_of(const char *text, const char *word)
{
    const size_t length = strlen(word);
    size_t count = 0;

    // Not strstr(): under sanitizers it measures the whole text each time.
    for (const char *at = text; *at; at++)
        count += *at == *word && !strncmp(at, word, length);
    return count;
}

TEST(names_are_long)
{
    enum { BRANCHES = 3000 };
    static char entry[1001], scalar[1001], array[1001], name[3001], label[3004];

    memset(entry, 'e', sizeof entry - 1);
    memset(scalar, 's', sizeof scalar - 1);
    memset(array, 'a', sizeof array - 1);
    memset(name, 'l', sizeof name - 1);
    snprintf(label, sizeof label, "$%s_1", name);
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, entry) {
        ptx_val x = ptx_param(b, PTX_U32, scalar);
        ptx_ptr p = ptx_param_array(b, PTX_U32, array, 4);
        ptx_label far = ptx_label_create(b, name);
        ptx_val here = ptx_eq(b, x, ptx_load(b, p, ptx_u32(1)));
        for (int k = 0; k < BRANCHES; k++)
            ptx_branch_if(b, here, far);
        ptx_label_place(b, far);
    }
    const char *text = finished(b);
    assert_int_equal(count_of(text, entry), 1);
    assert_int_equal(count_of(text, scalar), 2);
    assert_int_equal(count_of(text, array), 2);
    assert_int_equal(count_of(text, label), BRANCHES + 1);
    assert_int_equal(count_of(text, "@%p1 bra "), BRANCHES);
    assert_string_equal(text + strlen(text) - strlen("    ret;\n}\n"), "    ret;\n}\n");
}

// The entry's head alone is longer than the length that the builder estimates.
TEST(parameters_are_many)
{
    enum { PARAMS = 100, LONG = 1000 };
    static char names[PARAMS][LONG + 1], meaning[LONG + 1];

    memset(meaning, 'm', LONG);
    NEW_ENTRY (b, 80) {
        ptx_val sum = ptx_u64(0);
        for (int k = 0; k < PARAMS; k++) {
            snprintf(names[k], sizeof names[k], "p%03d%0*d", k, LONG - 4, 7);
            sum = ptx_add(b, ptx_param(b, PTX_U64, names[k], .meaning = meaning), sum);
        }
    }
    const char *text = finished(b);
    for (int k = 0; k < PARAMS; k++)
        assert_int_equal(count_of(text, names[k]), 2);
    assert_int_equal(count_of(text, "add.u64"), PARAMS - 1);
    EXPECT_LINES(b, "add.u64 %rd101, %rd2, %rd1;", "add.u64 %rd199, %rd100, %rd198;", "ret;");
}

TEST(instructions_are_many)
{
    enum { ROUNDS = 20000 };

    NEW_ENTRY (b, 80) {
        ptx_val sum = ptx_var(b, ptx_f64(0)), x = ptx_tid(b, PTX_X);
        for (int k = 0; k < ROUNDS; k++) {
            x = ptx_add(b, x, ptx_u32((uint32_t)k + 1));
            x = ptx_xor(b, x, ptx_u32(0x80000000u | (uint32_t)k));
            ptx_val wide = ptx_cvt(b, PTX_F64, x);
            ptx_val scaled = ptx_mul(b, wide, ptx_f64(1.0 / (k + 3)));
            ptx_set(b, sum, ptx_add(b, sum, scaled));
        }
    }
    const char *text = finished(b);
    assert_int_equal(count_of(text, ";"), 5 * ROUNDS + 3 + 2); // with two declarations
    assert_int_equal(count_of(text, ", 0d"), ROUNDS + 1);
    // x of a round is the sum and the value made from it, so the last is number 2 * ROUNDS + 1.
    EXPECT_LINES(b, ".reg .b32 %r<40002>;", "add.u32 %r2, %r1, 1;", "xor.b32 %r3, %r2, 0x80000000;",
                 "add.u32 %r40000, %r39999, 20000;", "xor.b32 %r40001, %r40000, 0x80004e1f;",
                 "cvt.rn.f64.u32 %fd40000, %r40001;", "ret;");
}

// Each label that a branch names must be placed once.
static void expect_placed_labels(const char *text, size_t labels)
{
    size_t placed = 0;

    for (const char *at = text; (at = strchr(at, '$')); at++) {
        size_t length = 1;
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        placed += at[length] == ':';
        if (at[length] != ':')
            assert_int_equal(at[length], ';');
    }
    assert_int_equal(placed, labels);
}

TEST(blocks_are_many)
{
    enum { BLOCKS = 10000 };

    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val tid = ptx_tid(b, PTX_X), var = ptx_var(b, tid);
        for (uint32_t k = 0; k < BLOCKS; k++) {
            ptx_if (b, ptx_eq(b, tid, ptx_u32(k)))
                ptx_set(b, var, ptx_u32(k));
            ptx_else (b)
                ptx_set(b, var, tid);
            ptx_barrier(b);
        }
        ptx_store(b, out, tid, var);
    }
    const char *text = finished(b);
    expect_placed_labels(text, 2 * BLOCKS);
    EXPECT_LINES(b, "bra $if_1_else;", "bra $if_1_end;",
                 "$if_1_else:", "$if_1_end:", "bra $if_10000_else;",
                 "$if_10000_else:", "$if_10000_end:", "st.global.u32", "ret;");
}

// Nested deeper than the indentation goes, with a barrier in the innermost block.
static void nest(ptx_builder *b, unsigned depth, ptx_val n, ptx_val cond)
{
    if (!depth) {
        ptx_barrier(b);
        return;
    }
    switch (depth % 3) {
    case 0:
        ptx_if (b, cond)
            nest(b, depth - 1, n, cond);
        ptx_else (b)
            ptx_copy(b, n);
        return;
    case 1:
        ptx_for (b, i, ptx_u32(0), n, ptx_u32(1))
            nest(b, depth - 1, i, cond);
        return;
    default:
        ptx_loop (b) {
            ptx_break_if(b, cond);
            nest(b, depth - 1, n, cond);
        }
    }
}

static void write_nest(ptx_builder *b, bool uniform)
{
    enum { DEPTH = 900 };

    ptx_entry (b, "k") {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        nest(b, DEPTH, n, ptx_eq(b, uniform ? ptx_ctaid(b, PTX_X) : ptx_tid(b, PTX_X), n));
    }
}

TEST(blocks_are_deep)
{
    ptx_builder *b = builder_at(80);
    write_nest(b, true);
    expect_placed_labels(finished(b), 3 * 600); // for, loop and if with two labels each
    ptx_builder_destroy(&b);
    b = builder_at(80);
    write_nest(b, false);
    EXPECT_ERROR(b, "k: ptx_barrier: barrier 1 of the entry is in code that only some threads");
}

TEST(returns_are_many)
{
    enum { RETURNS = 50000 };

    for (int varying = 0; varying < 2; varying++) {
        NEW_ENTRY (b, 80) {
            ptx_val n = ptx_param(b, PTX_U32, "n");
            ptx_val tid = ptx_tid(b, PTX_X), zero = ptx_u32(0);
            ptx_val passed = ptx_eq(b, varying ? tid : n, zero);
            ptx_return_if(b, ptx_eq(b, n, ptx_u32(1)));
            ptx_barrier(b);
            ptx_for (b, i, zero, n, ptx_u32(1))
                for (int k = 0; k < RETURNS; k++)
                    ptx_return_if(b, passed);
            ptx_barrier(b);
        }
        if (varying)
            EXPECT_ERROR(b, "barrier 2 of the entry", "the branch to a return");
        else
            EXPECT_LINES(b, "@%p2 ret;", "bar.sync 0;", "@%p1 ret;", "bar.sync 0;", "ret;");
    }
}

// Each entry has a loop of raw labels. The check takes memory for it.
static size_t bytes_of_entries(unsigned entries)
{
    OWNED(ptx_builder) *b = builder_at(80);
    char name[32];

    for (unsigned e = 0; e < entries; e++) {
        snprintf(name, sizeof name, "k%u", e);
        ptx_entry (b, name) {
            ptx_val n = ptx_param(b, PTX_U32, "n");
            ptx_label again = ptx_label_create(b, "again");
            ptx_val i = ptx_var(b, n);
            ptx_label_place(b, again);
            ptx_set(b, i, ptx_sub(b, i, ptx_u32(1)));
            ptx_branch_if(b, ptx_ne(b, i, ptx_u32(0)), again);
        }
    }
    assert_int_equal(count_of(finished(b), "$again_1:"), entries);
    const size_t bytes = ptx_builder_get_info(b).peak_bytes;
    return bytes;
}

TEST(entries_are_many)
{
    const size_t some = bytes_of_entries(1000), twice = bytes_of_entries(2000);
    if (twice > some * 5 / 2)
        fail_msg("1000 entries take %zu bytes, 2000 take %zu", some, twice);
}

struct size {
    size_t peak, text;
};

// Every instruction of one or two operands, in each of its types, `rounds` times.
static struct size size_of_opcodes(unsigned rounds)
{
    OWNED(ptx_builder) *b = builder_at(90);

    ptx_entry (b, "k") {
        for (unsigned k = 0; k < rounds; k++)
            for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
                const ptx_val x = ptx_imm((ptx_type)t, 1);
                const uint32_t types[] = {
#define ONE(name, ...) PTX_OP_##name,
                    PTX_OPS_UNARY(ONE) PTX_OPS_BINARY(ONE)
#undef ONE
                };
                for (size_t o = 0; o < sizeof types / sizeof *types; o++) {
                    const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)types[o]);
                    uint32_t set = 0;
                    for (size_t f = 0; f < info->form_count; f++)
                        if (info->forms[f].sm <= 90)
                            set |= info->forms[f].types;
                    const bool same = !strcmp(info->shape, "T=T") || !strcmp(info->shape, "T=TT");
                    if (!(set >> t & 1) || !same)
                        continue;
                    ptx_op_emit(
                        b, (struct ptx_op_params) { .op = (ptx_opcode)types[o],
                                                    .x = x,
                                                    .y = info->shape[3] ? x : (ptx_val) { 0 } });
                }
                if (PTX_TYPES_I >> t & 1) {
                    ptx_cvt(b, PTX_S64, x, .sat = true);
                    ptx_cvt(b, PTX_BF16, x);
                }
                ptx_fence(b, t & 1 ? PTX_ORDER_ACQ_REL : PTX_ORDER_SEQ_CST, PTX_SCOPE_SYSTEM);
                ptx_redux_min(b, t & 1 ? ptx_u32(t) : ptx_s32((int32_t)t), ptx_full_warp());
            }
    }
    const size_t text = strlen(finished(b));
    const struct size size = { ptx_builder_get_info(b).peak_bytes, text };
    return size;
}

TEST(opcodes_are_kept_once)
{
    const struct size once = size_of_opcodes(1), some = size_of_opcodes(40);
    const size_t text = some.text - once.text, taken = some.peak - once.peak;
    assert_true(text > 100000);
    if (taken > 3 * text) // the text, and the instructions that it comes from
        fail_msg("%zu more bytes of text take %zu", text, taken);
}
