// SPDX-License-Identifier: MIT
// The operands of a call: evaluated in order and once, kept for their call, nested to any depth.
#include "builder_fixture.h"

static int evaluated;

static ptx_val counted(ptx_val x)
{
    evaluated++;
    return x;
}

// Left to right under every compiler, and each argument once.
TEST(arguments_have_an_order)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_shared(b, PTX_U32, 64);
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_ntid(b, PTX_X), ptx_tid(b, PTX_X));
        ptx_store(b, ptx_at(b, p, ptx_laneid(b)), ptx_warpid(b), ptx_add(b, i, ptx_smid(b)));
        ptx_set(b, counted(ptx_var(b, i)), counted(i));
    }
    assert_int_equal(evaluated, 2);
    EXPECT_LINES(b, "mov.u32 %r2, %ctaid.x;", "mov.u32 %r3, %ntid.x;", "mov.u32 %r4, %tid.x;",
                 "mad.lo.u32 %r5, %r2, %r3, %r4;", "%laneid", "mad.lo.u32", "%warpid", "%smid",
                 "add.u32", "mad.lo.u32", "st.shared.u32");
    // The last argument, which stands in the call, comes after the others.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr p = ptx_shared(b, PTX_U32, 64);
        ptx_val i = ptx_tid(b, PTX_X);
        ptx_load(b, ptx_at(b, p, ptx_laneid(b)), ptx_warpid(b));
        ptx_load_vec(b, ptx_at(b, p, ptx_smid(b)), ptx_nsmid(b), 2);
        ptx_shfl(b, PTX_SHFL_IDX, ptx_add(b, i, 7), ptx_xor(b, i, 9));
        ptx_atomic(b, PTX_ATOMIC_add, ptx_at(b, p, ptx_mul(b, i, 5)), ptx_sub(b, i, 3),
                   ptx_or(b, i, 4));
        ptx_assert(b, ptx_eq(b, ptx_not(b, i), 1), (ptx_popc(b, i), "a text"));
    }
    EXPECT_LINES(b, "%laneid;", "%warpid;", "ld.shared.u32", "%smid;", "%nsmid;",
                 "ld.shared.v2.u32", "add.u32", "xor.b32", "shfl.sync.idx.b32", "mul.lo.u32",
                 "sub.u32", "or.b32", "red.shared.add.u32", "not.b32", "setp.eq.u32", "popc.b32",
                 "@%p1 bra");
}

// So have options, in the order of their fields: that of C++, and what the compilers of C do.
TEST(options_have_an_order)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_shared(b, PTX_U32, 64);
        ptx_val i = ptx_tid(b, PTX_X);
        ptx_op(b, PTX_OP_mad, .z = ptx_xor(b, i, 3), .x = ptx_add(b, i, 1), .y = ptx_sub(b, i, 2));
        ptx_atomic(b, PTX_ATOMIC_cas, p, ptx_and(b, i, 4), ptx_or(b, i, 5),
                   .compare = ptx_min(b, i, 6));
        ptx_asm(b, "bfe.u32 %0, %1, %2, %3;", .result = { PTX_U32 },
                .in = { ptx_max(b, i, 7), ptx_shl(b, i, 1), ptx_shr(b, i, 2) });
    }
    EXPECT_LINES(b, "add.u32", "sub.u32", "xor.b32", "mad.lo.u32", "and.b32", "or.b32", "min.u32",
                 "atom.shared.cas", "max.u32", "shl.b32", "shr.u32", "bfe.u32");
}

// A call takes back what was pushed for it: after errors, in the other builder, and without one.
TEST(operands_stay_with_their_call)
{
    ptx_builder *b = builder_at(80), *other = builder_at(80);
    ptx_entry (other, "o") {
        ptx_val y = ptx_tid(other, PTX_X);
        ptx_entry (b, "k") {
            ptx_ptr p = ptx_shared(b, PTX_U32, 64);
            ptx_val x = ptx_tid(b, PTX_X);
            // A call of the other builder among the operands of a store, and calls of none.
            ptx_store(b, p, ptx_sub(b, x, (ptx_set(other, ptx_var(other, y), 3), 5)),
                      ptx_add(b, x, 7));
            ptx_val null = ptx_add(NULL, ptx_mul(NULL, x, 2), ptx_load(NULL, p, 3));
            assert_int_equal(null.kind, PTX_KIND_POISON);
            ptx_store(NULL, p, 1, ptx_cvt(NULL, PTX_F32, x));
            ptx_store(b, p, 0, (ptx_fma(NULL, x, x, x), x));
        }
    }
    EXPECT_LINES(other, "mov.u32 %r1, 3;");
    EXPECT_LINES(b, "sub.u32 %r3, %r2, 5;", "add.u32 %r4, %r2, 7;", "[%r5], %r4;", "st.shared.u32");
    b = builder_at(80), other = builder_at(80);
    const char *place = NULL;
    ptx_entry (other, "o") {
        ptx_val y = ptx_tid(other, PTX_X);
        ptx_entry (b, "k") {
            ptx_val x = ptx_tid(b, PTX_X);
            // clang-format off
            place = HERE; ptx_add(b, x, ptx_add(b, x, y));
            // clang-format on
            ptx_add(b, ptx_sqrt(b, x), ptx_select(b, x, x, y)); // the first error stays
        }
        ptx_sub(other, ptx_mul(other, y, 3), 4);
    }
    EXPECT_LINES(other, "mul.lo.u32 %r2, %r1, 3;", "sub.u32 %r3, %r2, 4;");
    EXPECT_PLACE(b, place, "k: ptx_add: y ");
}

// Deeper than the stack of operands is at first.
static ptx_val deep(ptx_builder *b, ptx_val x, unsigned depth)
{
    return depth ? ptx_add(b, x, deep(b, x, depth - 1)) : x;
}

TEST(calls_nest_deep)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val x = ptx_tid(b, PTX_X);
        ptx_store(b, ptx_shared(b, PTX_U32, 4), 0, deep(b, x, 3000));
    }
    if (!ptx_builder_finish(b))
        fail_msg("%s", ptx_builder_error(b));
    assert_non_null(strstr(ptx_builder_finish(b), "%r3001, %r1, %r3000;"));
}
