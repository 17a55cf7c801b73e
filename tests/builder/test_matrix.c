// SPDX-License-Identifier: MIT
// Fragments, mma, ldmatrix, stmatrix, cp.async: their text, and what is refused.
#include "builder_fixture.h"

TEST(products_are_spelled)
{
    static const struct {
        ptx_type a, b, c;
        unsigned k;
        bool satfinite;
        const char *text;
    } rows[] = {
        { PTX_F16, PTX_F16, PTX_F32, 16, false,
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {" },
        { PTX_F16, PTX_F16, PTX_F16, 8, false,
          "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {" },
        { PTX_BF16, PTX_BF16, PTX_F32, 8, false,
          "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32" },
        { PTX_TF32, PTX_TF32, PTX_F32, 4, false,
          "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32" },
        { PTX_TF32, PTX_TF32, PTX_F32, 8, false,
          "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" },
        { PTX_S8, PTX_U8, PTX_S32, 16, false, "mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32" },
        { PTX_U8, PTX_U8, PTX_S32, 32, true, "m16n8k32.row.col.satfinite.s32.u8.u8.s32" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ptx_builder *b = builder_at(80);
        const unsigned bits = 8 * ptx_type_bytes(rows[k].a) * rows[k].k;
        ptx_entry (b, "k") {
            ptx_val w = ptx_copy(b, ptx_b32(0));
            ptx_vec x = { { w, w, w, w }, bits / 64 }, y = { { w, w }, bits / 128 };
            ptx_fragment p = ptx_fragment_from(b, PTX_FRAGMENT_A, rows[k].a, rows[k].k, x);
            ptx_fragment q = ptx_fragment_from(b, PTX_FRAGMENT_B, rows[k].b, rows[k].k, y);
            ptx_fragment c = ptx_fragment_fill(b, ptx_zero(rows[k].c));
            ptx_fragment d = ptx_mma(b, p, q, c, .satfinite = rows[k].satfinite);
            ptx_vec words = ptx_fragment_words(b, ptx_mma(b, p, q, d));
            assert_int_equal(words.lanes, rows[k].c == PTX_F16 ? 2 : 4);
        }
        EXPECT_LINES(b, rows[k].text);
    }
    ptx_builder *b = builder_at(75);
    ptx_entry (b, "k") {
        ptx_val w = ptx_copy(b, ptx_b32(0));
        ptx_fragment c = ptx_fragment_fill(b, ptx_f32(1));
        ptx_mma(b, ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F16, 8, ptx_vec2(w, w)),
                ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 8, ((ptx_vec) { { w }, 1 })), c);
    }
    EXPECT_LINES(
        b, ".version 6.5",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1}, "
        "{%r4}, {%f1, %f1, %f1, %f1};");
}

TEST(tiles_and_copies_are_spelled)
{
    ptx_builder *b = builder_at(90);
    ptx_entry (b, "k") {
        ptx_ptr s = ptx_shared(b, PTX_F16, 256), g = ptx_param_ptr(b, PTX_F16, "g");
        ptx_cp_async(b, s, g, 16, .bypass = true);
        ptx_cp_async(b, ptx_at(b, s, 2), g, 4, .taken = ptx_u32(2));
        ptx_cp_async_commit(b);
        ptx_cp_async_wait(b, 1);
        ptx_cp_async_wait_all(b);
        ptx_vec v = ptx_ldmatrix(b, s, 4, .trans = true);
        ptx_ldmatrix(b, ptx_at(b, s, 8), 1);
        ptx_stmatrix(b, s, v);
        ptx_stmatrix(b, s, ptx_vec2(v.lane[0], ptx_u32(7)), .trans = true);
    }
    EXPECT_LINES(
        b, "cp.async.cg.shared.global [$shared_1], [%rd", "], 16;",
        "cp.async.ca.shared.global [$shared_1+4], [%rd", "], 4, 2;", "cp.async.commit_group;",
        "cp.async.wait_group 1;", "cp.async.wait_all;",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [$shared_1];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [$shared_1+16];",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$shared_1], {%r1, %r2, %r3, %r4};",
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [$shared_1], {%r1, %r6};");
}

TEST(wrong_fragments_are_named)
{
    const ptx_fragment none = { 0 };
    const ptx_vec one = { { ptx_b32(0) }, 1 }, two = ptx_vec2(ptx_b32(0), ptx_b32(0));
    const ptx_vec four = { { ptx_b32(0), ptx_b32(0), ptx_b32(0), ptx_b32(0) }, 4 };
#define A(type, k, words)  ptx_fragment_from(b, PTX_FRAGMENT_A, type, k, words)
#define B(type, k, words)  ptx_fragment_from(b, PTX_FRAGMENT_B, type, k, words)
#define C(x)               ptx_fragment_fill(b, x)
#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)
    REFUSED(A(PTX_F32, 8, two), "fragment_from: there is no fragment A of f32 with k = 8");
    REFUSED(A(PTX_F16, 4, one), "there is no fragment A of f16 with k = 4");
    REFUSED(A(PTX_S8, 8, two), "there is no fragment A of s8 with k = 8");
    REFUSED(B(PTX_TF32, 16, four), "there is no fragment B of tf32 with k = 16");
    REFUSED(ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 8, four),
            "no fragment C of f32 with k = 8");
    REFUSED(ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_BF16, 0, two), "no fragment C of bf16");
    REFUSED(ptx_fragment_from(b, (ptx_fragment_role)9, PTX_F16, 8, two), "no fragment");
    REFUSED(A(PTX_F16, 8, four),
            "fragment_from: there are 4 words; fragment A of f16 with k = 8 has 2");
    REFUSED(A(PTX_F16, 8, ptx_vec2(h, h)), "fragment_from: word 0 is f16; it must be of 32 bits");
    REFUSED(ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, four),
            "word 0 is b32; it must be f32");
    REFUSED(C(u), "fragment_fill: there is no fragment C of u32");
    REFUSED(ptx_fragment_words(b, none), "fragment_words: the fragment was never set");
    REFUSED(ptx_mma(b, none, B(PTX_F16, 8, one), C(ptx_f32(0))), "mma: x was never set");
    REFUSED(ptx_mma(b, A(PTX_F16, 8, two), B(PTX_F16, 8, one), none), "mma: c was never set");
    REFUSED(ptx_mma(b, B(PTX_F16, 16, two), A(PTX_F16, 16, four), C(ptx_f32(0))),
            "mma: x, y and c are fragments B, A and C; they must be A, B and C");
    REFUSED(ptx_mma(b, A(PTX_F16, 8, two), B(PTX_F16, 16, two), C(ptx_f32(0))),
            "mma: A is of f16 with k = 8 and B of f16 with k = 16");
    REFUSED(ptx_mma(b, A(PTX_F16, 8, two), B(PTX_BF16, 8, one), C(ptx_f32(0))), "and B of bf16");
    REFUSED(ptx_mma(b, A(PTX_BF16, 8, two), B(PTX_BF16, 8, one), C(ptx_zero(PTX_F16))),
            "mma: a product of bf16 is not added to f16; it is f32");
    REFUSED(ptx_mma(b, A(PTX_S8, 16, two), B(PTX_S8, 16, one), C(ptx_f32(0))), "it is s32");
    REFUSED(ptx_mma(b, A(PTX_F16, 8, two), B(PTX_F16, 8, one), C(ptx_f32(0)), .satfinite = true),
            "mma: a product of f16 takes no .satfinite");
    REFUSED(ptx_fragment_var(b, none), "fragment_var: init was never set");
    REFUSED(ptx_fragment_set(b, none, C(ptx_f32(0))), "fragment_set: the variable was never set");
    REFUSED(ptx_fragment_set(b, ptx_fragment_var(b, C(ptx_f32(0))), none),
            "fragment_set: the value was never set");
    REFUSED(ptx_fragment_set(b, C(ptx_f32(0)), C(ptx_f32(1))),
            "fragment_set: the first fragment is not of variables; ptx_fragment_var() makes one");
    REFUSED(ptx_fragment_set(b, ptx_fragment_var(b, C(ptx_f32(0))), C(ptx_s32(1))),
            "fragment_set: the variable is a fragment C of f32 with k = 0 and the value C of s32");
    REFUSED(ptx_fragment_set(b, ptx_fragment_var(b, A(PTX_F16, 8, two)), A(PTX_BF16, 8, two)),
            "a fragment A of f16 with k = 8 and the value A of bf16 with k = 8");
#undef REFUSED
    REFUSED_AT(75, ptx_mma(b, A(PTX_BF16, 8, two), B(PTX_BF16, 8, one), C(ptx_f32(0))),
               "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 needs sm_80", "sm_75");
}

TEST(wrong_tiles_and_copies_are_named)
{
#define SHARED_ARRAY       ptx_shared(b, PTX_F16, 256)
#define GLOBAL             ptx_param_ptr(b, PTX_F16, "g")
#define REFUSED(call, ...) REFUSED_AT(90, call, __VA_ARGS__)
    REFUSED(ptx_ldmatrix(b, GLOBAL, 1), "ldmatrix: the pointer is to f16 in global memory");
    REFUSED(ptx_ldmatrix(b, ptx_shared(b, PTX_F32, 64), 1), "ldmatrix: the pointer is to f32");
    REFUSED(ptx_ldmatrix(b, SHARED_ARRAY, 3), "ldmatrix: there are 3 tiles; it must be 1, 2 or 4");
    REFUSED(ptx_ldmatrix(b, SHARED_ARRAY, 0), "ldmatrix: there are 0 tiles");
    REFUSED(ptx_ldmatrix(b, ptx_at(b, SHARED_ARRAY, 4), 1), "not a multiple of the 16 bytes");
    REFUSED(ptx_ldmatrix(b, ptx_at(b, SHARED_ARRAY, 256), 1), "past the array's end");
    REFUSED(ptx_stmatrix(b, SHARED_ARRAY, ptx_vec2(h, h)), "stmatrix: word 0 is f16");
    REFUSED(ptx_stmatrix(b, SHARED_ARRAY, ((ptx_vec) { { u, u, u }, 3 })), "there are 3 tiles");
    REFUSED(ptx_cp_async(b, GLOBAL, SHARED_ARRAY, 16), "it copies from shared to global memory");
    REFUSED(ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 5), "cp_async: it copies 5 bytes");
    REFUSED(ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 8, .bypass = true), "16 with .bypass");
    REFUSED(ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 8, .taken = f), ".taken is f32; it must be u32");
    REFUSED(ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 8, .taken = ptx_u32(9)),
            ".taken is 9; it must be at most the 8 bytes");
    REFUSED(ptx_cp_async(b, ptx_at(b, SHARED_ARRAY, 2), GLOBAL, 8),
            "not a multiple of the 8 bytes");
    REFUSED(ptx_fragment_load(b, PTX_FRAGMENT_C, PTX_F32, 0, SHARED_ARRAY, 8), "A and B come from");
    REFUSED(ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_TF32, 8, SHARED_ARRAY, 8), "of their width");
    REFUSED(ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, SHARED_ARRAY, 12), "multiple of 8");
    REFUSED(ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, SHARED_ARRAY, f), "stride is f32");
    REFUSED(ptx_fragment_store(b, ptx_fragment_fill(b, ptx_s32(0)), SHARED_ARRAY, 8),
            "fragment C of s32 cannot be stored as f16");
    REFUSED(
        ptx_fragment_store(b, ptx_fragment_fill(b, ptx_zero(PTX_F16)), ptx_shared(b, PTX_BF16, 256),
                           8),
        "fragment C of f16 cannot be stored as bf16; C is stored as its own type, f32 also as f16");
    REFUSED(ptx_fragment_store(b, ptx_fragment_fill(b, ptx_f32(0)), ptx_shared(b, PTX_U16, 256), 8),
            "fragment C of f32 cannot be stored as u16");
    // Known arrays hold all rows, and rows begin at multiples of what is accessed.
#define LOAD(role, k, p, ...) ptx_fragment_load(b, PTX_FRAGMENT_##role, PTX_F16, k, p, __VA_ARGS__)
    REFUSED(LOAD(A, 16, ptx_at(b, SHARED_ARRAY, 3), 16), "not a multiple of the 16 bytes");
    REFUSED(LOAD(A, 16, ptx_at(b, SHARED_ARRAY, 8), 16), "past the array's end, which is at 512");
    REFUSED(LOAD(B, 8, SHARED_ARRAY, 40), "past the array's end");
    REFUSED(LOAD(B, 16, SHARED_ARRAY, 24, .trans = true), "past the array's end");
#undef LOAD
#define STORE(p, stride) ptx_fragment_store(b, ptx_fragment_fill(b, ptx_f32(0)), p, stride)
    REFUSED(STORE(ptx_shared(b, PTX_F32, 64), 8), "past the array's end, which is at 256");
    REFUSED(STORE(ptx_at(b, ptx_shared(b, PTX_F32, 256), 1), 8), "multiple of the 8 bytes");
    REFUSED(STORE(ptx_shared(b, PTX_F32, 256), 6), "the stride is 6 elements; rows have 8");
#undef STORE
    REFUSED(ptx_fragment_from(b, (ptx_fragment_role)0, PTX_F16, 8, ptx_vec2(u, u)),
            "there is no fragment (no role) of f16");
    REFUSED(ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 8, .taken = { 5 }),
            ".taken is the C number 5, which has no type here; write ptx_u32(5), ptx_f32(5) or ");
#undef REFUSED
    REFUSED_AT(80, ptx_stmatrix(b, SHARED_ARRAY, ptx_vec2(u, u)), "needs sm_90");
    REFUSED_AT(75, ptx_cp_async(b, SHARED_ARRAY, GLOBAL, 8), "needs sm_80");
}

TEST(whole_warps_are_required)
{
    for (unsigned k = 0; k < 2; k++) {
        ptx_builder *b = builder_at(80);
        ptx_entry (b, "k", .block = { 64 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 256);
            ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), ptx_u32(k ? 32 : 7)))
                ptx_ldmatrix(b, s, 1);
        }
        if (k)
            EXPECT_LINES(b, "ldmatrix.sync.aligned.m8n8.x1.shared.b16");
        else
            EXPECT_ERROR(b, "k: ldmatrix.sync.aligned.m8n8.x1.shared.b16 needs all lanes of a warp",
                         "only some lanes of a warp may reach", "tid / 32");
    }
}

TEST(blocks_of_part_of_a_warp_are_refused)
{
    const ptx_vec words = { { ptx_b32(0), ptx_b32(0), ptx_b32(0), ptx_b32(0) }, 4 };

    for (unsigned way = 0; way < 4; way++)
        for (unsigned threads = 48; threads <= 64; threads += 16) {
            ptx_builder *b = builder_at(90);
            ptx_func (b, "inner") {
                ptx_ldmatrix(b, ptx_shared(b, PTX_F16, 256), 1);
            }
            ptx_func (b, "outer") {
                ptx_call(b, "inner");
            }
            ptx_entry (b, "k", .block = { threads / 8, 8 }) {
                if (way != 3)
                    ptx_return(b);
                if (way == 0)
                    ptx_ldmatrix(b, ptx_shared(b, PTX_F16, 256), 1);
                if (way == 1)
                    ptx_stmatrix(b, ptx_shared(b, PTX_F16, 256),
                                 ptx_vec2(words.lane[0], ptx_b32(1)));
                if (way == 2)
                    ptx_mma(b, ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F16, 16, words),
                            ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 16,
                                              ptx_vec2(words.lane[0], words.lane[1])),
                            ptx_fragment_fill(b, ptx_f32(0)));
                ptx_call(b, "outer");
            }
            if (threads == 64)
                EXPECT_LINES(b, "{ // outer, inline");
            else
                EXPECT_ERROR(b,
                             way == 3   ? "ptx_call: 'outer' needs all lanes of a warp"
                             : way == 2 ? "ptx_mma: it needs all lanes"
                                        : "matrix: it needs all lanes of a warp",
                             "blocks of 6 x 8 x 1 threads end with a warp of 16");
        }
}

TEST(errors_name_the_call_that_was_written)
{
    REFUSED_AT(90,
               ptx_fragment_store(b, ptx_fragment_fill(b, ptx_f32(0)),
                                  ptx_param_ptr(b, PTX_F32, "p", .readonly = true), 8),
               "ptx_fragment_store: the pointer is declared readonly");
    REFUSED_AT(72,
               ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, ptx_shared(b, PTX_F16, 256), 16),
               "ptx_fragment_load: ldmatrix.sync.aligned.m8n8.x4.shared.b16 needs sm_75");
    // The next call has its own name again.
    ptx_builder *b = builder_at(90);
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, ptx_shared(b, PTX_F16, 256), 16);
        ptx_fragment_store(b, ptx_fragment_fill(b, ptx_f32(0)), ptx_shared(b, PTX_F32, 128), 8);
        ptx_cvt_pack(b, PTX_E4M3X2, ptx_f32(1), ptx_f32(2));
        ptx_add(b, ptx_u32(1), ptx_f32(1));
    }
    EXPECT_ERROR(b, "ptx_add: x is u32 and y is f32");
}

// Pointers and strides of fragments: what differs between lanes of a warp is refused, at the call.
TEST(fragments_are_those_of_a_warp)
{
    enum { ZERO, WARP, PARAM, LOADED, ASSUMED, ACCEPTED, LANE = ACCEPTED, TID, VARIABLE, PLACES };

    for (int k = 0; k < 3 * PLACES; k++) {
        const int place = k / 3, way = k % 3; // the pointer of a load, its stride, both of a store
        ptx_builder *b = builder_at(80);
        ptx_entry (b, "k", .block = { 64 }) {
            ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out"), s = ptx_shared(b, PTX_BF16, 4096);
            ptx_val n = ptx_param(b, PTX_U32, "n"), tid = ptx_tid(b, PTX_X);
            ptx_val v = ptx_var(b, n), same = ptx_mul(b, tid, 3);
            ptx_if (b, ptx_eq(b, tid, 3))
                ptx_set(b, v, 8);
            ptx_assume_warp_uniform(b, same);
            const ptx_val i[PLACES] = { ptx_u32(0), ptx_shr(b, tid, 5),
                                        n,          ptx_load(b, ptx_ptr_cast(b, PTX_U32, out), n),
                                        same,       ptx_laneid(b),
                                        tid,        v };
            ptx_val eights = ptx_mul(b, i[place], 8);
            ptx_fragment c = ptx_fragment_fill(b, ptx_f32(0));
            if (way == 0)
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, ptx_at(b, s, eights), 16);
            else if (way == 1)
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, s, i[place]);
            else
                ptx_fragment_store(b, c, ptx_at(b, out, eights), ptx_add(b, eights, 8));
            ptx_fragment_store(b, c, out, ptx_add(b, n, n));
        }
        if (place < ACCEPTED)
            EXPECT_LINES(b, way < 2 ? "ldmatrix" : "st.global.v2.f32");
        else
            EXPECT_ERROR(b, "test_matrix.c:",
                         way < 2 ? "ptx_fragment_load: the " : "ptx_fragment_store: the ",
                         way == 1 ? "stride differs" : "pointer differs", "between lanes of a warp",
                         "ptx_assume_warp_uniform()");
    }
    // What a function gets is its callers' matter; what it computes from lanes is not.
    for (int lanes = 0; lanes < 2; lanes++) {
        ptx_builder *b = builder_at(80);
        ptx_func (b, "put") {
            ptx_ptr to = ptx_param_ptr(b, PTX_F32, "to");
            ptx_val i = lanes ? ptx_laneid(b) : ptx_param(b, PTX_U32, "i");
            ptx_fragment_store(b, ptx_fragment_fill(b, ptx_f32(0)), ptx_at(b, to, i), 8);
        }
        if (!lanes) {
            ptx_entry (b, "k", .block = { 64 }) {
                ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
                ptx_call(b, "put", ptx_ptr_address(b, out), ptx_u32(8));
            }
            EXPECT_LINES(b, "{ // put, inline", "st.global.v2.f32");
        } else {
            EXPECT_ERROR(b, "test_matrix.c:", "ptx_fragment_store: the pointer differs");
        }
    }
}

// ptxas 13.0 gives such a product a wrong sign where it knows B.
TEST(words_of_b_are_hidden)
{
    enum { CONSTANT, COPIED, PACKED, COMPUTED, VARIABLE, STORED, TILE, READ_ONLY, VOLATILE, WAYS };

    for (int way = 0; way < WAYS; way++)
        for (int type = 0; type < 2; type++)
            for (int deep = 0; deep < 2; deep++) {
                const unsigned k = deep ? 16 : 8;
                const ptx_type of = type ? PTX_F16 : PTX_BF16, pair = type ? PTX_F16X2 : PTX_BF16X2;
                ptx_builder *b = builder_at(80);
                ptx_entry (b, "k", .block = { 32 }) {
                    ptx_ptr p = ptx_param_ptr(b, PTX_B32, "p");
                    ptx_ptr q = ptx_param_ptr(b, PTX_B32, "q", .readonly = true);
                    ptx_ptr s = ptx_shared(b, of, 128);
                    ptx_val half = ptx_imm_bits(of, 0xbc00), word = ptx_b32(0xbc003c00);
                    ptx_store(b, p, 0, word);
                    ptx_store(b, p, 1, ptx_load(b, q, 0));
                    word = way == COPIED      ? ptx_copy(b, word)
                           : way == PACKED    ? ptx_pack(b, pair, ptx_vec2(half, half))
                           : way == COMPUTED  ? ptx_not(b, ptx_copy(b, word))
                           : way == VARIABLE  ? ptx_var(b, word)
                           : way == STORED    ? ptx_load(b, p, 0)
                           : way == TILE      ? ptx_ldmatrix(b, s, 1).lane[0]
                           : way == READ_ONLY ? ptx_load(b, q, 0, .nc = true)
                           : way == VOLATILE  ? ptx_load(b, p, 0, .order = PTX_ORDER_VOLATILE)
                                              : word;
                    ptx_fragment c = ptx_fragment_fill(b, ptx_f32(0));
                    ptx_val one = ptx_copy(b, ptx_b32(1));
                    ptx_vec a = deep ? ptx_vec4(one, one, one, one) : ptx_vec2(one, one);
                    ptx_fragment x = ptx_fragment_from(b, PTX_FRAGMENT_A, of, k, a);
                    ptx_vec v = { { word, word }, deep ? 2 : 1 };
                    ptx_mma(b, x, ptx_fragment_from(b, PTX_FRAGMENT_B, of, k, v), c);
                    // Loaded, by the builder itself.
                    ptx_mma(b, x, ptx_fragment_load(b, PTX_FRAGMENT_B, of, k, s, 8), c);
                }
                const char *text = ptx_builder_finish(b);
                if (!text)
                    fail_msg("%s", ptx_builder_error(b));
                const char *zero = strstr(text, "%nsmid");
                assert_true(!zero == (deep || way >= TILE));
                if (zero) {
                    const char *hidden = strstr(zero, "xor.b32"), *product = strstr(zero, "mma.");
                    char name[8] = "", as_b[16];
                    assert_true(strstr(zero, "shr.s32") && hidden && product && hidden < product);
                    assert_int_equal(sscanf(hidden, "xor.b32 %7[%r0-9],", name), 1);
                    snprintf(as_b, sizeof as_b, "}, {%s}, {", name);
                    assert_true(strstr(product, as_b) && !strstr(zero + 1, "%nsmid"));
                }
                ptx_builder_destroy(&b);
            }
}
