// SPDX-License-Identifier: MIT
// ptx_matrix_store(): its text, what is refused, and what an attention kernel gets wrong.
#include "builder_fixture.h"

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;

    while ((text = strstr(text, word)))
        text++, count++;
    return count;
}

static const struct {
    ptx_type of, memory;
    bool global, runtime;
    int sm;
    unsigned tiles4, tiles2, stores; // instructions for five fragments
} stores[] = {
    { PTX_F32, PTX_F32, true, false, 80, 0, 0, 10 },
    { PTX_F32, PTX_BF16, true, true, 90, 0, 0, 10 },
    { PTX_F32, PTX_BF16, false, false, 80, 0, 0, 10 },
    { PTX_F32, PTX_BF16, false, false, 90, 2, 1, 0 },
    { PTX_F16, PTX_F16, false, true, 90, 2, 1, 0 },
    { PTX_F32, PTX_F32, false, false, 90, 0, 0, 10 },
    { PTX_F64, PTX_F64, false, false, 90, 0, 0, 10 },
    { PTX_S32, PTX_S32, true, false, 80, 0, 0, 10 },
};

TEST(stores_share_an_address)
{
    for (unsigned k = 0; k < sizeof stores / sizeof *stores; k++)
        for (unsigned calls = 1; calls <= 2; calls++) {
            OWNED(ptx_builder) *b = builder_at(stores[k].sm);
            ptx_entry (b, "k", .block = { 32 }) {
                ptx_ptr p = stores[k].global ? ptx_param_ptr(b, stores[k].memory, "p")
                                             : ptx_shared(b, stores[k].memory, 48 * 64);
                ptx_val stride = stores[k].runtime ? ptx_param(b, PTX_U32, "n") : ptx_u32(64);
                ptx_fragment c[5];
                for (unsigned f = 0; f < 5; f++)
                    c[f] = ptx_fragment_fill(b, ptx_zero(stores[k].of));
                ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_C, stores[k].of, 0, p, stride);
                for (unsigned n = 0; n < calls; n++)
                    ptx_matrix_store(b, m, 16 * n, 8, 5, c);
            }
            const char *text = strchr(finished(b), '{');
            if (count_of(text, "stmatrix.sync.aligned.m8n8.x4") != calls * stores[k].tiles4 ||
                count_of(text, "stmatrix.sync.aligned.m8n8.x2") != calls * stores[k].tiles2 ||
                count_of(text, "st.shared") + count_of(text, "st.global") !=
                    calls * stores[k].stores ||
                count_of(text, "%laneid") != 1)
                fail_msg("row %u, %u calls:\n%s", k, calls, text);
        }
}

// A row and column on, by constant offsets; rows of a stride that is no constant by a sum each.
TEST(stores_are_spelled)
{
    NEW_ENTRY_WITH (b, 90, .block = { 32 }) {
        ptx_ptr g = ptx_param_ptr(b, PTX_F32, "g");
        ptx_fragment c[2];
        c[0] = c[1] = ptx_fragment_fill(b, ptx_f32(0));
        ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, g, 24);
        ptx_matrix_store(b, m, 16, 8, 2, c);
        ptx_ptr s = ptx_shared(b, PTX_F16, 1024);
        m = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, s, 40);
        ptx_matrix_store(b, ptx_matrix_at(b, m, 80), 2, 8, 2, c);
    }
    EXPECT_LINES(b, "mov.u32 %r2, %laneid;", "shr.u32 %r3, %r2, 2;", "and.b32 %r4, %r2, 3;",
                 "shl.b32 %r5, %r4, 1;", "mad.lo.u32 %r6, %r3, 24, %r5;",
                 "mad.wide.u32 %rd3, %r6, 4, %rd2;", "st.global.v2.f32 [%rd3+1568], {%f1, %f1};",
                 "[%rd3+1600], {%f1, %f1};", "[%rd3+2336], {%f1, %f1};", "[%rd3+2368], {%f1, %f1};",
                 "and.b32 %r8, %r7, 15;", "and.b32 %r9, %r7, 16;", "mad.lo.u32 %r10, %r8, 80, %r9;",
                 "add.u32 %r11, %r1, %r10;", "cvt.rn.f16x2.f32 %r12, %f1, %f1;",
                 "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r11+336], {%r12, %r13, %r14, %r15};",
                 "ret;");
}

// ---- misuse -------------------------------------------------------------------------------------

// Makes mistake `k` and says what its error must name. The line of the call; 0: there are no more.
static unsigned misuse(ptx_builder *b, unsigned k, const char *words[2])
{
    const ptx_matrix none = { .role = 0 };
    const ptx_fragment no_fragment = { 0 };
    ptx_ptr s = ptx_shared(b, PTX_F16, 1024), g = ptx_param_ptr(b, PTX_F16, "g");
    ptx_ptr wide = ptx_ptr_cast(b, PTX_F32, g), local = ptx_local(b, PTX_F32, 256);
    ptx_ptr q = ptx_param_ptr(b, PTX_F32, "q", .readonly = true);
    ptx_val f = ptx_var(b, ptx_f32(1)), lane = ptx_laneid(b);
    ptx_fragment c[2];
    c[0] = c[1] = ptx_fragment_fill(b, ptx_f32(0));
    const ptx_fragment two[2] = { c[0], no_fragment };
    const ptx_fragment half = ptx_fragment_fill(b, ptx_zero(PTX_F16));
    ptx_matrix a = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16, s, 32);
    ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, s, 32);
    ptx_matrix o = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, wide, 64);
    const ptx_fragment x =
        ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, ptx_vec4(lane, lane, lane, lane));
    const ptx_fragment y = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, ptx_vec2(lane, lane));
    ptx_fragment sum = ptx_fragment_var(b, c[0]), to[2];
    const ptx_val unset = { .kind = PTX_KIND_POISON };

#define C_OF(type, p, ...) ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_##type, 0, p, __VA_ARGS__)
    MISUSE(C_OF(BF16, s, 32), "matrix_from: there is no fragment C of bf16", "C is f32, f16, s32");
    MISUSE(ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 16, s, 32), "C of f32 with k = 16", "k = 0");
    MISUSE(C_OF(S32, s, 32), "C of s32 cannot be stored as f16", "f32 also as f16 and bf16");
    MISUSE(C_OF(F16, wide, 32), "C of f16 cannot be stored as f32", "stored as its own type");
    MISUSE(C_OF(F32, s, 32, .trans = true), "C takes no .trans", "row after row");
    MISUSE(C_OF(F32, local, 16), "C is in other memory", "to shared or global memory");
    MISUSE(C_OF(F32, s, 36), "the stride is 36 elements", "must be a multiple of 8");
    MISUSE(C_OF(F32, wide, 33), "the stride is 33 elements", "must be a multiple of 2");
    MISUSE(C_OF(F32, wide, 4), "the stride is 4 elements", "would overlap");
    MISUSE(C_OF(F32, s, 72), "past the array's end", "which is at 2048");
    MISUSE(C_OF(F32, ptx_at(b, s, 4), 32), "byte 8 of the array", "multiple of the 16");
    MISUSE(C_OF(F32, wide, f), "the stride is f32", "it must be u32");
    MISUSE(C_OF(F32, wide, unset), "matrix_from: the stride", "");
    MISUSE(ptx_matrix_at(b, m, 4), "the index is 4 elements", "must be a multiple of 8");
    MISUSE(ptx_matrix_at(b, o, 3), "the index is 3 elements", "must be a multiple of 2");
    MISUSE(ptx_matrix_store(b, none, 0, 0, 1, c), "matrix_store: the matrix was never set",
           "ptx_matrix_from() makes one");
    MISUSE(ptx_matrix_store(b, a, 0, 0, 1, c), "of fragments A, which are loaded",
           "ptx_matrix_from() with PTX_FRAGMENT_C");
    MISUSE(ptx_matrix_load(b, m, 0, 0, 1, to), "of fragments C, which are stored", "matrix_store");
    MISUSE(ptx_matrix_store(b, m, 0, 0, 0, c), "there are 0 fragments", "it must be 1 to 64");
    MISUSE(ptx_matrix_store(b, m, 0, 0, 65, c), "there are 65 fragments", "it must be 1 to 64");
    MISUSE(ptx_matrix_store(b, m, 0, 0, 2, NULL), "`from` is NULL", "the 2 fragments");
    MISUSE(ptx_matrix_store(b, m, 0, 0, 2, two), "matrix_store: from[1] was never set", "");
    MISUSE(ptx_matrix_store(b, o, 0, 0, 1, &half), "from[0] is a fragment C of f16", "C of f32");
    MISUSE(ptx_matrix_store(b, o, 0, 0, 1, &x), "from[0] is a fragment A of bf16", "C of f32");
    MISUSE(ptx_matrix_store(b, m, 0, 4, 1, c), "column 4 begins at byte 8", "multiple of 8 elem");
    MISUSE(ptx_matrix_store(b, o, 0, 3, 1, c), "column 3 begins at byte 12", "multiple of 2 elem");
    MISUSE(ptx_matrix_store(b, m, 24, 0, 1, c), "matrix_store: ", "past the array's end");
    MISUSE(ptx_matrix_store(b, m, 16, 24, 2, c), "matrix_store: ", "past the array's end");
    MISUSE(ptx_matrix_store(b, o, 1 << 25, 0, 1, c), "row 33554432", "too far from the matrix's");
    // What else attention is made of.
    MISUSE(ptx_matrix_store(b, C_OF(F32, q, 64), 0, 0, 1, c), "", "read");
    MISUSE(ptx_mma(b, y, x, sum), "x, y and c are fragments B, A and C", "must be A, B and C");
    MISUSE(ptx_mma(b, c[0], y, sum), "x, y and c are fragments C, B and C", "must be A, B and C");
    MISUSE(ptx_fragment_set(b, c[0], ptx_mma(b, x, y, sum)), "is not of variables", "fragment_var");
    MISUSE(ptx_fragment_set(b, sum, x), "C of f32 with k = 0", "the value A of bf16");
    MISUSE(ptx_set(b, c[0].word[0], f), "ptx_set", "ptx_var");
    MISUSE(ptx_cp_async(b, g, s, 16), "copies from shared to global memory", "global to shared");
    MISUSE(ptx_cp_async(b, s, g, 32), "it copies 32 bytes", "must be 4, 8 or 16");
    MISUSE(ptx_cp_async(b, ptx_at(b, s, 4), g, 16), "byte 8 of the array", "multiple of the 16");
    MISUSE(ptx_vote_any(b, f, UINT32_MAX), "vote", "pred");
    MISUSE(ptx_fragment_to_a(b, PTX_BF16, 16, &x), "c[0] is a fragment A of bf16", "C of f32");
#undef C_OF
    (void)unset;
    return 0;
}

TEST(misuse_is_named_with_its_line)
{
    assert_int_equal(misuse_checked(misuse, __FILE__), 40);
}

// Pointers that differ in a warp; tiles in code that not all lanes execute.
TEST(stores_are_of_whole_warps)
{
    for (unsigned way = 0; way < 4; way++) {
        NEW_ENTRY_WITH (b, 90, .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 4096);
            ptx_val lane = ptx_laneid(b), eights = ptx_mul(b, lane, 8);
            ptx_fragment c = ptx_fragment_fill(b, ptx_f32(0));
            ptx_matrix m =
                ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, way == 1 ? ptx_at(b, s, eights) : s,
                                way == 2 ? eights : ptx_u32(16));
            if (way == 0)
                m = ptx_matrix_at(b, m, eights);
            if (way == 3)
                ptx_if (b, ptx_lt(b, lane, 5))
                    ptx_matrix_store(b, m, 0, 0, 1, &c);
        }
        EXPECT_ERROR(b, "test_matrix_store.c:",
                     way == 0   ? "ptx_matrix_at: the index differs between lanes of a warp"
                     : way == 1 ? "ptx_matrix_from: the pointer differs between lanes of a warp"
                     : way == 2 ? "ptx_matrix_from: the stride differs between lanes of a warp"
                                : "needs all lanes of a warp");
    }
}
