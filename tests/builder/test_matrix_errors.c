// SPDX-License-Identifier: MIT
// Fragments, matrices, tiles and copies: what is refused, each at its line.
#include "builder_fixture.h"

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
        NEW_ENTRY_WITH (b, 80, .block = { 64 }) {
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
    NEW_ENTRY_WITH (b, 90, .block = { 32 }) {
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
        NEW_ENTRY_WITH (b, 80, .block = { 64 }) {
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
            EXPECT_ERROR(b, "test_matrix_errors.c:",
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
            EXPECT_ERROR(b, "test_matrix_errors.c:", "ptx_fragment_store: the pointer differs");
        }
    }
}

// ---- misuse -------------------------------------------------------------------------------------

// Makes mistake `k` and says what its error must name. The line of the call; 0: there are no more.
static unsigned misuse(ptx_builder *b, unsigned k, const char *words[2])
{
    const ptx_matrix none = { .role = 0 };
    const ptx_fragment no_fragment = { 0 };
    ptx_ptr s = ptx_shared(b, PTX_F16, 1024);
    ptx_ptr g = ptx_param_ptr(b, PTX_F16, "g");
    ptx_val f = ptx_var(b, ptx_f32(1));
    ptx_matrix a = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16, s, 32);
    ptx_matrix t = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16, s, 32, .trans = true);
    ptx_matrix w = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_F16, 16, s, 32);
    ptx_fragment to[64], c = ptx_fragment_fill(b, ptx_f32(0)), two[2] = { c, no_fragment };
    ptx_fragment half = ptx_fragment_fill(b, ptx_zero(PTX_F16));
    ptx_fragment whole = ptx_fragment_fill(b, ptx_s32(0)), wide = ptx_fragment_fill(b, ptx_f64(0));
    const ptx_val zero = ptx_copy(b, ptx_b32(0)), d = ptx_copy(b, ptx_f64(0));
    const ptx_vec words4 = ptx_vec4(zero, zero, zero, zero), words2 = ptx_vec2(zero, zero);
    ptx_fragment e4m3 = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_E4M3X2, 32, words4);
    ptx_fragment e5m2 = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_E5M2X2, 32, words2);
    ptx_fragment s8 = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_S8, 32, words2);
    ptx_fragment x64 = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F64, 4, ptx_vec2(d, d));
    ptx_fragment y64 = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F64, 4, (ptx_vec) { { d }, 1 });
    const ptx_val unset = { .kind = PTX_KIND_POISON };

#define FROM(role, type, k, ...) ptx_matrix_from(b, PTX_FRAGMENT_##role, PTX_##type, k, __VA_ARGS__)
    MISUSE(ptx_fragment_load(b, PTX_FRAGMENT_C, PTX_F16, 0, s, 8), "fragment C of f16", "A and B");
    MISUSE(FROM(A, F16, 4, s, 8), "matrix_from: there is no fragment A of f16 with k = 4",
           "f16 or bf16 (k = 8, 16)");
    MISUSE(FROM(A, F64, 32, s, 8), "no fragment A of f64 with k = 32", "f64 (4, 8, 16)");
    MISUSE(FROM(B, E4M3X2, 8, s, 8), "no fragment B of e4m3x2 with k = 8", "e5m2x2 (16, 32)");
    MISUSE(FROM(A, F16, 16, g, 16), "from f16 in global memory", "in shared memory");
    MISUSE(FROM(A, TF32, 8, s, 16), "A of tf32 from f16", "elements of their width");
    MISUSE(FROM(B, E4M3X2, 32, ptx_ptr_cast(b, PTX_E4M3X2, s), 32), "B of e4m3x2 from e4m3x2",
           "of 8 bits (ptx_ptr_cast to PTX_B8)");
    MISUSE(FROM(B, S8, 32, ptx_ptr_cast(b, PTX_S8, s), 32, .trans = true), "memory with .trans",
           ".trans is for elements of 16 and 64 bits");
    MISUSE(FROM(A, F16, 16, s, 20), "the stride is 20 elements", "must be a multiple of 8");
    MISUSE(FROM(A, F16, 16, s, f), "the stride is f32", "it must be u32");
    MISUSE(FROM(A, F16, 16, s, unset), "matrix_from: the stride", "");
    MISUSE(FROM(A, F16, 16, s, 72), "past the array's end", "which is at 2048");
    MISUSE(FROM(A, F16, 16, ptx_at(b, s, 3), 16), "byte 6 of the array", "multiple of the 16");
    MISUSE(FROM(A, F16, 16, (ptx_ptr) { .symbol = 0 }, 16), "matrix_from: the pointer", "");
    MISUSE(ptx_matrix_at(b, none, 8), "matrix_at: the matrix was never set", "ptx_matrix_from()");
    MISUSE(ptx_matrix_at(b, a, 4), "matrix_at: the index is 4", "must be a multiple of 8");
    MISUSE(ptx_matrix_at(b, a, f), "matrix_at: the index is f32", "");
    MISUSE(ptx_matrix_at(b, a, 8192), "matrix_at: index 8192", "outside the array of 2048 bytes");
    MISUSE(ptx_matrix_load(b, none, 0, 0, 1, to), "matrix_load: the matrix was never set",
           "ptx_matrix_from() makes one");
    MISUSE(ptx_matrix_load(b, a, 0, 0, 0, to), "there are 0 fragments", "it must be 1 to 64");
    MISUSE(ptx_matrix_load(b, a, 0, 0, 65, to), "there are 65 fragments", "it must be 1 to 64");
    MISUSE(ptx_matrix_load(b, a, 0, 0, 3, NULL), "`to` is NULL", "points to the 3 fragments");
    MISUSE(ptx_matrix_load(b, a, 0, 4, 1, to), "column 4 begins at byte 8", "multiple of 8 elem");
    MISUSE(ptx_matrix_load(b, t, 12, 0, 1, to), "row 12 begins at byte 24", "multiple of 8 elem");
    MISUSE(ptx_matrix_load(b, w, 4, 8, 1, to), "row 4 begins at byte 8", "multiple of 8 elements");
    MISUSE(ptx_matrix_load(b, a, 24, 0, 1, to), "matrix_load: ", "past the array's end");
    MISUSE(ptx_matrix_load(b, a, 0, 16, 3, to), "matrix_load: ", "past the array's end");
    MISUSE(ptx_matrix_load(b, w, 0, 32, 1, to), "matrix_load: ", "past the array's end");
    MISUSE(ptx_matrix_load(b, a, 1 << 25, 0, 1, to), "row 33554432", "too far from the matrix's");
    MISUSE(ptx_fragment_to_a(b, PTX_TF32, 8, &c), "fragment_to_a: A of tf32", "ptx_fragment_store");
    MISUSE(ptx_fragment_to_a(b, PTX_E4M3X2, 32, to), "in other lanes than C", "ptx_fragment_load");
    MISUSE(ptx_fragment_to_a(b, PTX_BF16, 4, &c), "no fragment A of bf16 with k = 4", "(k = 8, 16");
    MISUSE(ptx_fragment_to_a(b, PTX_F16, 16, NULL), "c is NULL", "points to 2 fragments of C");
    MISUSE(ptx_fragment_to_a(b, PTX_F16, 16, two), "fragment_to_a: c[1] was never set", "");
    MISUSE(ptx_fragment_to_a(b, PTX_BF16, 8, &half), "c[0] is a fragment C of f16", "of C of f32");
    MISUSE(ptx_fragment_to_a(b, PTX_F16, 8, &whole), "C of s32", "is made of C of f32 or f16");
    MISUSE(ptx_fragment_to_a(b, PTX_F16, 8, &e4m3), "c[0] is a fragment A of e4m3x2", "f32 or f16");
    MISUSE(ptx_mma(b, e4m3, s8, c), "A is of e4m3x2 with k = 32 and B of s8", "do not go together");
    MISUSE(ptx_mma(b, e4m3, e5m2, whole), "of e4m3x2 is not added to s32", "it is f32 or f16");
    MISUSE(ptx_mma(b, x64, y64, c), "a product of f64 is not added to f32", "it is f64");
    MISUSE(ptx_mma(b, x64, y64, wide, .satfinite = true), "f64 takes no .satfinite", "integers do");
    MISUSE(ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F64, 4, words2), "word 0 is b32", "be f64");
    MISUSE(ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F64, 16, words4), "there are 4 words", "has 8");
#undef FROM
    return 0;
}

TEST(misuse_is_named_with_its_line)
{
    assert_true(misuse_checked(misuse, __FILE__) > 40);
}

// What the target or the version lacks is named; so are code and indices that differ in a warp.
TEST(products_and_matrices_have_least_targets)
{
    const ptx_vec four = { { ptx_b32(0), ptx_b32(0), ptx_b32(0), ptx_b32(0) }, 4 };
    const ptx_vec two = ptx_vec2(ptx_b32(0), ptx_b32(0));
#define EIGHTS(k, a, b_words, c)                                                                   \
    ptx_mma(b, ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_E4M3X2, k, a),                             \
            ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_E5M2X2, k, b_words), c)
    REFUSED_AT(80, EIGHTS(32, four, two, ptx_fragment_fill(b, ptx_f32(0))),
               "mma: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 needs sm_89", "sm_80");
    REFUSED_AT(
        75,
        {
            const ptx_val d = ptx_copy(b, ptx_f64(0));
            ptx_mma(b, ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F64, 4, ptx_vec2(d, d)),
                    ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F64, 4, ((ptx_vec) { { d }, 1 })),
                    ptx_fragment_fill(b, ptx_f64(0)));
        },
        "mma: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 needs sm_80", "sm_75");
    for (unsigned half = 0; half < 2; half++) {
        ptx_builder *b = ptx_builder_create(
            &(struct ptx_builder_params) { .target = { .sm = 90 }, .isa = half ? 86 : 83 });
        ptx_entry (b, "k")
            EIGHTS(32, four, two, ptx_fragment_fill(b, ptx_zero(half ? PTX_F16 : PTX_F32)));
        EXPECT_ERROR(b, "ptx_mma: mma.sync", half ? "needs PTX ISA 8.7" : "needs PTX ISA 8.4");
    }
#undef EIGHTS
    ptx_fragment part;
    REFUSED_AT(
        72,
        {
            ptx_matrix m =
                ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 8, ptx_shared(b, PTX_F16, 256), 16);
            ptx_matrix_load(b, m, 0, 0, 1, &part);
        },
        "ptx_matrix_load: ldmatrix.sync.aligned.m8n8.x2.shared.b16 needs sm_75");
    for (unsigned way = 0; way < 3; way++) {
        NEW_ENTRY_WITH (b, 80, .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 1024);
            ptx_val lane = ptx_laneid(b), eights = ptx_mul(b, lane, 8);
            ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16,
                                           way == 1 ? ptx_at(b, s, eights) : s, 16);
            if (way == 0)
                m = ptx_matrix_at(b, m, eights);
            if (way == 2)
                ptx_if (b, ptx_lt(b, lane, 5))
                    ptx_matrix_load(b, m, 0, 0, 1, &part);
        }
        EXPECT_ERROR(b, "test_matrix_errors.c:",
                     way == 0   ? "ptx_matrix_at: the index differs between lanes of a warp"
                     : way == 1 ? "ptx_matrix_from: the pointer differs between lanes of a warp"
                                : "needs all lanes of a warp");
    }
}
