// SPDX-License-Identifier: MIT
// Entries and what they declare.
#include "builder_fixture.h"

static ptx_builder *pinned(int sm, char suffix, int isa)
{
    return ptx_builder_create(
        &(struct ptx_builder_params) { .target = { sm, suffix }, .isa = isa });
}

static void an_empty_kernel(ptx_builder *b, const char *name)
{
    ptx_entry (b, name) {}
}

TEST(a_module_holds_several_entries)
{
    struct ptx_param_info info;

    ptx_builder *b = builder_at(80);
    for (int k = 0; k < 2; k++)
        ptx_entry (b, k ? "second" : "first", .max_block = { 8, 4, 2 }) {
            ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p", .meaning = "here", .length = "n");
            ptx_val n = ptx_param(b, PTX_U64, "n", .preset = "5", .low = "0", .high = "9",
                                  .range = PTX_RANGE_NOT_NEGATIVE);
            ptx_ptr s = ptx_shared(b, PTX_F32, 4), d = ptx_shared_dynamic(b, PTX_F32);
            ptx_store(b, s, ptx_u32(0), ptx_load(b, p, n));
            ptx_store(b, d, ptx_u32(0), ptx_load(b, p, n));
            ptx_if (b, ptx_eq(b, n, ptx_u64(0)))
                ptx_return(b);
        }
    assert_true(ptx_builder_param(b, 1, 0, &info));
    assert_true(info.is_pointer && info.type == PTX_F32 && !info.count);
    assert_string_equal(info.length, "n");
    assert_true(ptx_builder_param(b, 0, 1, &info));
    assert_true(!info.is_pointer && info.type == PTX_U64 && info.range == PTX_RANGE_NOT_NEGATIVE);
    assert_string_equal(info.high, "9");
    assert_true(ptx_builder_param(b, 0, 1, NULL));
    assert_false(ptx_builder_param(b, 0, 2, &info));
    assert_false(ptx_builder_param(b, 2, 0, &info));
    assert_false(ptx_builder_param(NULL, 0, 0, &info));
    // Registers, labels and arrays have their own numbers in each entry. The dynamic array belongs
    // to the module.
    EXPECT_LINES(b, ".extern .shared .align 16 .b8 $dynamic_shared[];", ".entry first(",
                 ".maxntid 8, 4, 2", "%rd<", "$shared_1[4];", "ld.param.u64 %rd1, [p];",
                 "$if_1_end:", ".entry second(", "$shared_1[4];", "ld.param.u64 %rd1, [p];",
                 "$if_1_end:");
}

// A dimension that is not given is 1.
TEST(block_shapes_have_three_dimensions)
{
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "deep", .block = { 8, 0, 2 }) {}
    ptx_entry (b, "flat", .max_block = { 8, 4 }) {}
    EXPECT_LINES(b, ".entry deep(", ".reqntid 8, 1, 2", ".entry flat(", ".maxntid 8, 4, 1");
}

// The caller may free or change a string as soon as the call returns.
TEST(strings_are_copied)
{
    char text[6][16];
    struct ptx_param_info info;

    for (int unused = 0; unused < 2; unused++) {
        ptx_builder *b = builder_at(80);
#define LEND(k, s) strcpy(text[k], s)
        LEND(0, "entry");
        ptx_entry (b, text[0]) {
            LEND(0, "p"), LEND(1, "meaning"), LEND(2, "n");
            ptx_ptr p = ptx_param_ptr(b, PTX_F32, text[0], .meaning = text[1], .length = text[2]);
            LEND(0, "n"), LEND(1, "counted"), LEND(3, "5"), LEND(4, "1"), LEND(5, "9");
            ptx_val n = ptx_param(b, PTX_U32, text[0], .meaning = text[1], .preset = text[3],
                                  .low = text[4], .high = text[5]);
            LEND(0, "a");
            ptx_ptr a = ptx_param_array(b, PTX_F32, text[0], 4);
            LEND(0, "label");
            ptx_label label = ptx_label_create(b, text[0]);
            memset(text, 'X', sizeof text);
            ptx_label_place(b, label);
            ptx_store(b, p, n, ptx_load(b, a, ptx_u32(1)));
            ptx_branch_if(b, ptx_eq(b, n, ptx_u32(0)), label);
            LEND(0, "idle");
            if (unused)
                ptx_param(b, PTX_U32, text[0]);
            memset(text, 'X', sizeof text);
        }
        if (unused) {
            EXPECT_ERROR(b, "entry: ptx_param: parameter 'idle' is never used");
            continue;
        }
        finished(b);
        assert_true(ptx_builder_param(b, 0, 0, &info));
        assert_string_equal(info.name, "p");
        assert_string_equal(info.meaning, "meaning");
        assert_string_equal(info.length, "n");
        assert_true(ptx_builder_param(b, 0, 1, &info));
        assert_string_equal(info.preset, "5");
        assert_string_equal(info.low, "1");
        assert_string_equal(info.high, "9");
        EXPECT_LINES(b, ".entry entry(", ".param .u64 p, // f32[n]: meaning",
                     ".param .u32 n, // counted", ".f32 a[4]", "ld.param.u64 %rd1, [p];",
                     "$label_1:", "ld.param.f32 %f1, [a+4];", "bra $label_1;");
#undef LEND
    }
}

TEST(names_that_ptx_refuses_are_refused)
{
    static const char *const names[] = { "9a",  "a-b", "a b",     "$a",  "%a",
                                         "a.b", "_",   "WARP_SZ", "a\n", "\xc3\xa9" };
    static char longer[1026];

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        ptx_builder *b = builder_at(80);
        an_empty_kernel(b, names[k]);
        EXPECT_ERROR(b, "ptx_entry: '", names[k], "name");
        b = builder_at(80);
        ptx_entry (b, "k")
            ptx_param(b, PTX_U32, names[k]);
        EXPECT_ERROR(b, "k: ptx_param: '", names[k], "name");
    }
    ptx_builder *b = builder_at(80);
    an_empty_kernel(b, NULL);
    EXPECT_ERROR(b, "ptx_entry: the name is missing");
    b = builder_at(80);
    ptx_entry (b, "k")
        ptx_param_ptr(b, PTX_U32, "");
    EXPECT_ERROR(b, "ptx_param_ptr: the name is missing");
    memset(longer, 'x', 1025);
    b = builder_at(80);
    an_empty_kernel(b, longer);
    EXPECT_ERROR(b, "ptx_entry: 'xxx", "a name that PTX refuses");
    b = builder_at(80);
    an_empty_kernel(b, "_k1");
    EXPECT_LINES(b, ".entry _k1(");
}

#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        call;                                                                                      \
        EXPECT_ERROR(b, __VA_ARGS__);                                                              \
    } while (0)
#define ENTRY_WITH(...)                                                                            \
    ptx_entry (b, "k", __VA_ARGS__) {}
#define PARAMS(call)                                                                               \
    ptx_entry (b, "k") {                                                                           \
        call;                                                                                      \
    }

TEST(wrong_entries_are_named)
{
    REFUSED(an_empty_kernel(b, "k");
            an_empty_kernel(b, "k"), "ptx_entry: the module already has an entry 'k'");
    REFUSED(ptx_entry (b, "k") an_empty_kernel(b, "l"), "k: ptx_entry: entry 'k' is still open");
    REFUSED(ENTRY_WITH(.block = { 1025 }), "ptx_entry: .block = {1025, 0, 0}", "1 to 1024 threads");
    REFUSED(ENTRY_WITH(.block = { 0, 8 }), "ptx_entry: .block = {0, 8, 0}");
    REFUSED(ENTRY_WITH(.block = { 0, 0, 8 }), "ptx_entry: .block = {0, 0, 8}");
    REFUSED(ENTRY_WITH(.max_block = { 32, 32, 2 }), ".max_block = {32, 32, 2}");
    REFUSED(ENTRY_WITH(.block = { 1, 1, 65 }), "ptx_entry: .block = {1, 1, 65}", "at most 64 in z");
    REFUSED(ENTRY_WITH(.block = { UINT32_C(1) << 31, UINT32_C(1) << 31, 4 }),
            ".block = {2147483648");
    REFUSED(ENTRY_WITH(.block = { 32 }, .max_block = { 32 }), ".block and .max_block exclude");
    REFUSED(ENTRY_WITH(.min_blocks = 2), ".min_blocks needs .block or .max_block");
    REFUSED(ENTRY_WITH(.block = { 32, 32 }, .min_blocks = 3),
            ".min_blocks = 3 of 1024 threads: a multiprocessor has at most 2048 threads");
    REFUSED(ENTRY_WITH(.max_block = { 256 }, .min_blocks = UINT32_MAX), ".min_blocks = 4294967295");
    REFUSED(, "ptx_builder_finish: the module has no entry");
    REFUSED(ptx_tid(b, PTX_X), "ptx_tid: there is no open entry", "ptx_entry (b");
    REFUSED(an_empty_kernel(b, "k"); ptx_tid(b, PTX_X), "ptx_tid: there is no open entry");
    ptx_builder *b = builder_at(80);
    for (int k = 0; k <= 10000; k++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", k);
        an_empty_kernel(b, name);
    }
    EXPECT_ERROR(b, "ptx_entry: a module has at most 10000 entries");
}

TEST(wrong_parameters_are_named)
{
    REFUSED(PARAMS(ptx_param(b, PTX_U32, "n"); ptx_param_ptr(b, PTX_U32, "n")),
            "k: ptx_param_ptr: the entry already has a parameter 'n'");
    REFUSED(PARAMS(ptx_param(b, PTX_U32, "k")), "k: ptx_param: 'k' names a parameter and an entry");
    REFUSED(ptx_entry (b, "j") ptx_return_if(b, ptx_eq(b, ptx_param(b, PTX_U32, "k"), ptx_u32(0)));
            an_empty_kernel(b, "k"), "ptx_entry: 'k' names a parameter and an entry");
    REFUSED(PARAMS(ptx_param(b, PTX_PRED, "n")), "ptx_param: parameter 'n' cannot be pred");
    REFUSED(PARAMS(ptx_param_ptr(b, PTX_NONE, "n")), "ptx_param_ptr: parameter 'n' needs a type");
    REFUSED(PARAMS(ptx_param_ptr(b, PTX_U8, "n", .readonly = true, .writeonly = true)),
            "ptx_param_ptr: 'n' is readonly and writeonly");
    REFUSED(PARAMS(ptx_param_array(b, PTX_U32, "n", 0)),
            "ptx_param_array: parameter 'n' has no elements");
    REFUSED(PARAMS(ptx_param_array(b, PTX_U8, "n", 32765)), "'n' of 32765 bytes", "32764");
    REFUSED(PARAMS(ptx_param_array(b, PTX_F64, "n", UINT32_MAX)), "'n' of 34359738360 bytes");
    REFUSED(PARAMS(ptx_param_array(b, PTX_U8, "m", 30000); ptx_param_array(b, PTX_U8, "n", 3000)),
            "'n' of 3000 bytes makes 33000 bytes");
    REFUSED(ptx_param(b, PTX_U32, "n"), "ptx_param: there is no open entry");
}

// If all parameters together are larger than 4352 bytes, they need ISA 8.1.
TEST(large_parameters_have_an_isa)
{
    for (int isa = 0; isa <= 80; isa += 80)
        for (uint32_t count = 2176; count <= 2177; count++) {
            ptx_builder *b = pinned(80, 0, isa);
            ptx_entry (b, "k") {
                ptx_ptr x = ptx_param_array(b, PTX_U8, "x", 2176);
                ptx_ptr y = ptx_param_array(b, PTX_U8, "y", count);
                ptx_store(b, ptx_shared(b, PTX_U8, 1), ptx_u32(0), ptx_load(b, x, ptx_u32(0)));
                ptx_load(b, y, ptx_u32(0));
            }
            if (isa && count > 2176)
                EXPECT_ERROR(b, "ptx_param_array: more than 4352 bytes of parameters",
                             "needs PTX ISA 8.1", "pinned to 8.0");
            else
                EXPECT_LINES(b, isa            ? "pinned.\n.version 8.0"
                                : count > 2176 ? "more than 4352 bytes of parameters.\n.version 8.1"
                                               : "the least that has sm_80.\n.version 7.0");
        }
}

// A length or bound is a number, or the name of another parameter of one value.
TEST(lengths_and_bounds_are_there)
{
    static const struct {
        const char *length, *low, *error;
        bool computed;
    } cases[] = {
        { "n", "1", NULL, false },
        { "late", "-1.5e-3", NULL, false },
        { "64", "n", NULL, false },
        { "blocks", NULL, NULL, false },
        { "groups", NULL, NULL, true },
        { "m", NULL, ".length of 'p' is \"m\", and the entry has no such parameter", false },
        { "groups", NULL, ".length of 'p' is \"groups\"", false },
        { "", NULL, ".length of 'p' is \"\"", false },
        { "n ", NULL, ".length of 'p' is \"n \"", false },
        { "4n", NULL, ".length of 'p' is \"4n\"", false },
        { "-3", NULL, ".length of 'p' is \"-3\"", false },
        { "3.5", NULL, ".length of 'p' is \"3.5\"", false },
        { "99999999999999999999", NULL, ".length of 'p' is \"9999", false },
        { "real", NULL,
          ".length of 'p' is \"real\", and the entry has no such parameter of one integer", false },
        { "p", NULL, ".length of 'p' is \"p\"", false },
        { "many", NULL, ".length of 'p' is \"many\"", false },
        { "n", "m", ".low of 'late' is \"m\"", false },
        { "n", "blocks", ".low of 'late' is \"blocks\"", false },
        { "n", "late", ".low of 'late' is \"late\"", false },
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NEW_ENTRY (b, 80) {
            ptx_val n = ptx_param(b, PTX_U32, "n");
            ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p", .length = cases[k].length,
                                      .computed_length = cases[k].computed);
            ptx_ptr many = ptx_param_array(b, PTX_U32, "many", 4);
            ptx_val late = ptx_param(b, PTX_U32, "late", .low = cases[k].low);
            ptx_val real =
                ptx_cvt(b, PTX_U32, ptx_param(b, PTX_F32, "real"), .round = PTX_ROUND_RZ);
            late = ptx_add(b, late, real);
            ptx_store(b, p, n, ptx_add(b, late, ptx_load(b, many, n)));
        }
        if (cases[k].error)
            EXPECT_ERROR(b, cases[k].error);
        else
            EXPECT_LINES(b, ".visible .entry k(");
    }
}
