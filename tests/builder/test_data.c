// SPDX-License-Identifier: MIT
// Named arrays of the module, and strings: their text, and what is refused.
#include "builder_fixture.h"

static const float quarters[] = { 0.25f, 0.5f, 0.75f, -1.0f, 1e-30f };

// Uses the array in an entry, at a constant and at a computed index.
static void use(ptx_builder *b, const char *entry, ptx_ptr p)
{
    ptx_entry (b, entry) {
        ptx_ptr out = ptx_local(b, (ptx_type)p.type, 1);
        ptx_store(b, out, 0, ptx_load(b, p, 1));
        ptx_store(b, out, 0, ptx_load(b, p, ptx_tid(b, PTX_X)));
    }
}

TEST(arrays_stand_before_the_entries)
{
    ptx_builder *b = builder_at(80);
    ptx_ptr lut =
        ptx_const(b, PTX_F32, "lut", .values = quarters, .bytes = sizeof quarters, .count = 9);
    ptx_ptr hits = ptx_global(b, PTX_U64, "hits", .count = 3, .align = 128);
    use(b, "first", lut);
    use(b, "second", lut);
    use(b, "third", hits);
    EXPECT_LINES(b, ".address_size 64\n\n.visible .const .align 16 .f32 lut[9] = {",
                 " 0f3E800000, 0f3F000000, 0f3F400000, 0fBF800000, // 0.25, 0.5, 0.75, -1.0",
                 " 0f0DA24260 // 1e-30\n};\n.visible .global .align 128 .u64 hits[3];\n\n",
                 ".entry first(", "mov.u64 %rd1, lut;", "ld.const.f32 %f1, [lut+4];",
                 "mad.wide.u32 %rd2, %r1, 4, %rd1;", "ld.const.f32 %f2, [%rd2];", ".entry second(",
                 "mov.u64 %rd1, lut;", ".entry third(", "ld.global.u64 %rd2, [hits+8];");
}

// Every type that memory holds, with its least and greatest bits; zeros at the end are left out.
TEST(every_type_has_values)
{
    static const struct {
        ptx_type type;
        const char *text;
    } rows[] = {
        { PTX_U8, ".u8 a[2] = { 255\n}" },
        { PTX_S8, ".s8 a[2] = { -1\n}" },
        { PTX_B8, ".b8 a[2] = { 255\n}" },
        { PTX_U16, ".u16 a[2] = { 65535\n}" },
        { PTX_S16, ".s16 a[2] = { -1\n}" },
        { PTX_B16, ".b16 a[2] = { 65535\n}" },
        { PTX_U32, ".u32 a[2] = { 0xffffffff\n}" },
        { PTX_S32, ".s32 a[2] = { -1\n}" },
        { PTX_B32, ".b32 a[2] = { 0xffffffff\n}" },
        { PTX_U64, ".u64 a[2] = { 0xffffffffffffffff\n}" },
        { PTX_S64, ".s64 a[2] = { -1\n}" },
        { PTX_B64, ".b64 a[2] = { 0xffffffffffffffff\n}" },
        { PTX_F16, ".b16 a[2] = { 0xFFFF // nan\n}" },
        { PTX_BF16, ".b16 a[2] = { 0xFFFF // nan\n}" },
        { PTX_F32, ".f32 a[2] = { 0fFFFFFFFF // nan\n}" },
        { PTX_F64, ".f64 a[2] = { 0dFFFFFFFFFFFFFFFF // nan\n}" },
        { PTX_F16X2, ".b32 a[2] = { 0xffffffff\n}" },
        { PTX_BF16X2, ".b32 a[2] = { 0xffffffff\n}" },
        { PTX_E4M3X2, ".b16 a[2] = { 65535\n}" },
        { PTX_E5M2X2, ".b16 a[2] = { 65535\n}" },
        { PTX_TF32, ".b32 a[2] = { 0xffffffff\n}" },
    };
    unsigned char bytes[16];

    assert_int_equal(sizeof rows / sizeof *rows, PTX_TYPE_COUNT - 2); // without none and pred
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const unsigned size = ptx_type_bytes(rows[k].type);
        char text[80] = "", *to = text;
        ptx_builder *b = builder_at(80);
        memset(bytes, 0, sizeof bytes);
        memset(bytes, 0xff, size);
        use(b, "k", ptx_global(b, rows[k].type, "a", .values = bytes, .bytes = 2 * size));
        memset(bytes, 0x55, sizeof bytes); // the values are copied
        for (const char *from = rows[k].text; *from; from++) {
            if (*from == ' ' && from[-1] == '{')
                *to++ = '\n';
            *to++ = *from;
        }
        EXPECT_LINES(b, text);
    }
}

TEST(strings_are_shared)
{
    ptx_builder *b = builder_at(80);
    ptx_ptr x = ptx_string(b, "a\n\"\\\x7f"), empty = ptx_string(b, "");
    use(b, "k", x);
    assert_int_equal(ptx_string(b, "a\n\"\\\x7f").symbol, x.symbol);
    assert_int_equal(ptx_string(b, "").symbol, empty.symbol);
    assert_int_equal(x.count, 6);
    EXPECT_LINES(b,
                 ".global .align 1 .b8 $string_1[6] = { // \"a\\n\\\"\\\\?\"\n 97, 10, 34, 92, "
                 "127\n};\n.global .align 1 .b8 $string_2[1]; // \"\"\n",
                 "ld.global.u8 %rs1, [$string_1+1];");
}

// A generic address of each space that has one.
TEST(generic_addresses)
{
    ptx_builder *b = builder_at(80);
    ptx_ptr c = ptx_const(b, PTX_U32, "c", .count = 4);
    ptx_entry (b, "k") {
        ptx_ptr spaces[] = { c, ptx_shared(b, PTX_U32, 4), ptx_local(b, PTX_U32, 4),
                             ptx_global(b, PTX_U32, "g", .count = 4) };
        for (int k = 0; k < 4; k++)
            ptx_load(b,
                     ptx_ptr_from(b, PTX_U32, PTX_SPACE_GENERIC,
                                  ptx_ptr_generic(b, ptx_at(b, spaces[k], 1))),
                     0);
        ptx_load(b, ptx_ptr_from(b, PTX_U32, PTX_SPACE_CONST, ptx_ptr_address(b, c)), 0);
    }
    EXPECT_LINES(b, "add.u64 %rd4, %rd1, 4;", "cvta.const.u64 %rd5, %rd4;", "ld.u32 %r2, [%rd5];",
                 "cvt.u64.u32", "cvta.shared.u64", "cvta.local.u64", "cvta.global.u64",
                 "ld.const.u32 %r7, [%rd1];");
}

#define DATA_REFUSED(call, ...)                                                                    \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_ptr c = ptx_const(b, PTX_U32, "taken", .count = 4);                                    \
        ptx_entry (b, "entry") {                                                                   \
            ptx_val u = ptx_param(b, PTX_U32, "param");                                            \
            ptx_store(b, ptx_shared(b, PTX_U32, 1), 0, u);                                         \
        }                                                                                          \
        (void)c;                                                                                   \
        call;                                                                                      \
        EXPECT_ERROR(b, __FILE__, __VA_ARGS__);                                                    \
    } while (0)

TEST(bad_arrays_are_refused)
{
    static const char bytes[64];

    DATA_REFUSED(ptx_global(b, PTX_U32, NULL, .count = 1), "ptx_global: the name is missing");
    DATA_REFUSED(ptx_global(b, PTX_U32, "1x", .count = 1), "'1x' is not a name");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x"), "'x' has no elements; give it a .count, or .values");
    DATA_REFUSED(ptx_global(b, PTX_PRED, "x", .count = 1), "elements of type pred");
    DATA_REFUSED(ptx_const(b, PTX_NONE, "x", .count = 1), "ptx_const: an array cannot have");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .values = bytes), ".values and no .bytes");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .bytes = 4), "and no .values");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .values = bytes, .bytes = 7), "not whole elements");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .values = bytes, .bytes = 64, .count = 15),
                 "'x' has 15 elements and 16 values");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .count = 1, .align = 8), "aligned to 8 bytes");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .count = 1, .align = 48), "aligned to 48 bytes");
    DATA_REFUSED(ptx_global(b, PTX_U32, "x", .count = 1, .align = 512), "aligned to 512 bytes");
    DATA_REFUSED(ptx_global(b, PTX_U64, "x", .count = 1 << 28), "less than 2 GiB");
    DATA_REFUSED(ptx_const(b, PTX_U32, "x", .count = 16381),
                 "'x' of 65524 bytes makes 65540 bytes of constants; a module has at most 65536");
    DATA_REFUSED(ptx_global(b, PTX_U32, "taken", .count = 1), "already has an array 'taken'");
    DATA_REFUSED(ptx_const(b, PTX_U32, "entry", .count = 1), "already has an entry 'entry'");
    DATA_REFUSED(ptx_const(b, PTX_U32, "param", .count = 1),
                 "already has a parameter 'param', of entry 'entry'");
    DATA_REFUSED(ptx_entry (b, "taken") {}, "ptx_entry: the module already has an array 'taken'");
    DATA_REFUSED(ptx_string(b, NULL), "ptx_string: the text is NULL");
    DATA_REFUSED(ptx_global(b, PTX_U32, "$string_1", .count = 1), "'$string_1' is not a name");
    ptx_builder *b = builder_at(80);
    use(b, "k", ptx_string(b, "xy"));
    (void)finished(b);
    assert_int_equal(ptx_string(b, "x").symbol, 0);
    assert_non_null(strstr(ptx_builder_error(b), "ptx_string: the module is finished"));
    ptx_builder_destroy(&b);
    assert_int_equal(ptx_global(NULL, PTX_U32, "x", .count = 1).symbol, 0);
    assert_int_equal(ptx_string(NULL, "x").symbol, 0);
}

#define USE_REFUSED(call, ...)                                                                     \
    DATA_REFUSED(                                                                                  \
        ptx_entry (b, "k") { call; }, "k: ", __VA_ARGS__)

TEST(bad_uses_are_refused)
{
    USE_REFUSED(ptx_store(b, c, 0, 1), "constant memory is only read");
    USE_REFUSED(
        ptx_store(b, ptx_ptr_from(b, PTX_U32, PTX_SPACE_CONST, ptx_ptr_address(b, c)), 0, 1),
        "constant memory is only read");
    USE_REFUSED(ptx_atomic_add(b, c, 0, 1), "an atomic reads and writes global or shared memory");
    USE_REFUSED(ptx_load(b, c, 0, .order = PTX_ORDER_RELAXED), "have no order");
    USE_REFUSED(ptx_load(b, c, 0, .cache = PTX_CACHE_STREAMING), "have no cache operator");
    USE_REFUSED(ptx_load(b, c, 0, .nc = true), ".nc is for loads from global memory");
    USE_REFUSED(ptx_load(b, c, 4), "would end past the array's end");
    USE_REFUSED(ptx_load_vec(b, ptx_at(b, c, 1), 0, 2), "is not a multiple of the 8 bytes");
    USE_REFUSED(ptx_store(b, ptx_string(b, "x"), 0, ptx_imm_bits(PTX_U8, 1)), "readonly");
    USE_REFUSED(ptx_load(b, ptx_ptr_cast(b, PTX_U16, ptx_string(b, "xyz")), 0),
                "2 bytes are accessed, and the array is aligned to 1");
    USE_REFUSED(ptx_param(b, PTX_U32, "taken"), "already has an array 'taken'");
    USE_REFUSED(ptx_ptr_generic(b, ptx_param_array(b, PTX_U32, "a", 2)), "no generic address");
    USE_REFUSED(ptx_ptr_from(b, PTX_U32, (ptx_space)6, ptx_u64(0)), "the space is none");
}
