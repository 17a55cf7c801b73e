// SPDX-License-Identifier: MIT
// Fragments, matrices, mma, ldmatrix, stmatrix, cp.async: their text. test_matrix_errors.c has what
// is refused.
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
        { PTX_E4M3X2, PTX_E5M2X2, PTX_F32, 32, false,
          "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {" },
        { PTX_E5M2X2, PTX_E5M2X2, PTX_F16, 16, false, "m16n8k16.row.col.f16.e5m2.e5m2.f16 {" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const bool eights = rows[k].a == PTX_E4M3X2 || rows[k].a == PTX_E5M2X2;
        ptx_builder *b = builder_at(eights ? 89 : 80);
        const unsigned bits = (eights ? 8 : 8 * ptx_type_bytes(rows[k].a)) * rows[k].k;
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
    NEW_ENTRY (b, 75) {
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
    NEW_ENTRY (b, 90) {
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

// ptxas 13.0 gives such a product a wrong sign where it knows B.
TEST(words_of_b_are_hidden)
{
    enum { CONSTANT, COPIED, PACKED, COMPUTED, VARIABLE, STORED, TILE, READ_ONLY, VOLATILE, WAYS };

    for (int way = 0; way < WAYS; way++)
        for (int type = 0; type < 2; type++)
            for (int deep = 0; deep < 2; deep++) {
                const unsigned k = deep ? 16 : 8;
                const ptx_type of = type ? PTX_F16 : PTX_BF16, pair = type ? PTX_F16X2 : PTX_BF16X2;
                OWNED(ptx_builder) *b = builder_at(80);
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
            }
}

// ---- matrices in shared memory ------------------------------------------------------------------

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

// A lane's address is made once, four tiles are loaded at a time, and what is left of them less.
TEST(matrices_have_one_address)
{
    static const struct {
        ptx_fragment_role role;
        ptx_type type;
        unsigned k, fragments, x4, x2, x1;
        bool trans;
        int sm;
    } rows[] = {
        { PTX_FRAGMENT_A, PTX_F16, 16, 3, 3, 0, 0, false, 80 },
        { PTX_FRAGMENT_A, PTX_BF16, 8, 3, 1, 1, 0, true, 80 },
        { PTX_FRAGMENT_A, PTX_F16, 8, 3, 0, 3, 0, false, 75 },
        { PTX_FRAGMENT_B, PTX_BF16, 16, 5, 2, 1, 0, true, 80 },
        { PTX_FRAGMENT_B, PTX_F16, 8, 7, 1, 1, 1, false, 80 },
        { PTX_FRAGMENT_B, PTX_S8, 32, 4, 2, 0, 0, false, 80 },
        { PTX_FRAGMENT_B, PTX_TF32, 4, 4, 1, 0, 0, false, 80 },
        { PTX_FRAGMENT_B, PTX_E4M3X2, 32, 2, 1, 0, 0, false, 89 },
    };

    for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++)
        for (unsigned loads = 1; loads <= 2; loads++) {
            OWNED(ptx_builder) *b = builder_at(rows[k].sm);
            ptx_fragment f[8];
            ptx_entry (b, "k", .block = { 32 }) {
                const ptx_type type = rows[k].type == PTX_E4M3X2 ? PTX_B8 : rows[k].type;
                ptx_ptr s = ptx_shared(b, type, 96 * 64);
                ptx_matrix m = ptx_matrix_from(b, rows[k].role, rows[k].type, rows[k].k, s, 64,
                                               .trans = rows[k].trans);
                for (unsigned i = 0; i < loads; i++)
                    ptx_matrix_load(b, m, 32 * i, 32, rows[k].fragments, f);
                for (unsigned i = 0; i < rows[k].fragments; i++)
                    assert_true(f[i].role == rows[k].role && f[i].type == rows[k].type &&
                                f[i].k == rows[k].k && f[i].words);
            }
            const char *text = strchr(finished(b), '{');
            const unsigned sums = count_of(text, "add.u32") + count_of(text, "mad.lo.u32") +
                                  count_of(text, "mul.lo.u32");
            if (count_of(text, ".x4.") != loads * rows[k].x4 ||
                count_of(text, ".x2.") != loads * rows[k].x2 ||
                count_of(text, ".x1.") != loads * rows[k].x1 || count_of(text, "%laneid") != 1 ||
                sums != 2)
                fail_msg("row %u, %u loads:\n%s", k, loads, text);
        }
}

// No instruction of a load has a result that nothing reads, and none multiplies by 0.
TEST(loads_write_nothing_unread)
{
    for (unsigned way = 0; way < 8; way++) {
        OWNED(ptx_builder) *b = builder_at(80);
        ptx_entry (b, "k", .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 1024);
            ptx_fragment_load(b, way & 1 ? PTX_FRAGMENT_A : PTX_FRAGMENT_B, PTX_F16,
                              way & 2 ? 16 : 8, s, 24, .trans = way & 4);
        }
        const char *text = finished(b);
        char name[16];
        for (const char *at = strstr(text, "%laneid"); at && (at = strstr(at, "\n    "));) {
            if (sscanf(at += 5, "%*s %15[%r0-9],", name) == 1) {
                const size_t length = strlen(name);
                const char *read = strstr(strstr(at, name) + length, name);
                while (read && read[length] >= '0' && read[length] <= '9')
                    read = strstr(read + length, name);
                if (!read)
                    fail_msg("way %u: %s is not read in\n%s", way, name, text);
            }
        }
        assert_null(strstr(text, ", 0, "));
    }
}

static unsigned instructions_of(const char *text)
{
    return count_of(text, ";\n") - count_of(text, ".reg ") - count_of(text, ".shared ");
}

// Loads of an array in straight code have one lane address; other strides, roles, sizes and the
// code after a label have their own.
TEST(single_loads_share_the_lane)
{
    for (unsigned way = 0; way < 6; way++) {
        OWNED(ptx_builder) *b = builder_at(80);
        ptx_entry (b, "k", .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 8192);
            ptx_val n = ptx_param(b, PTX_U32, "n", .unused = way != 1);
            ptx_val v = ptx_var(b, ptx_u32(64));
            ptx_val stride = way == 1 ? n : way == 2 ? v : ptx_u32(64);
            for (unsigned k = 0; k < 4; k++) {
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, ptx_at(b, s, 1024 * k), stride);
                if (way == 2)
                    ptx_set(b, v, 128);
                if (way == 3)
                    ptx_label_place(b, ptx_label_create(b, "next"));
                if (way == 4)
                    stride = ptx_u32(64 + 8 * (k + 1));
            }
            if (way == 5) {
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 8, s, stride);
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, s, stride, .trans = true);
                ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_F16, 16, s, stride);
            }
        }
        ptx_entry (b, "other", .block = { 32 })
            ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, ptx_shared(b, PTX_F16, 1024), 64);
        const char *text = finished(b);
        const unsigned lanes = count_of(text, "%laneid");
        if (lanes != (way < 2 ? 2 : 5))
            fail_msg("way %u: %u lanes in\n%s", way, lanes, text);
    }
}

// 4 A and 4 B, one by one and as matrices: what docs/matrices.md says of both.
TEST(loads_of_fragments_and_of_matrices)
{
    unsigned written[3];

    for (unsigned way = 0; way < 3; way++) {
        OWNED(ptx_builder) *b = builder_at(80);
        ptx_entry (b, "k", .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F16, 64 * 72), t = ptx_shared(b, PTX_F16, 64 * 72);
            ptx_fragment f[4];
            for (unsigned k = 0; k < 4 && way == 1; k++)
                ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, ptx_at(b, s, 16 * 72 * k), 72);
            for (unsigned k = 0; k < 4 && way == 1; k++)
                ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_F16, 16, ptx_at(b, t, 8 * 72 * k), 72);
            if (way == 2) {
                ptx_matrix_load(b, ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16, s, 72), 0, 0, 4,
                                f);
                ptx_matrix_load(b, ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_F16, 16, t, 72), 0, 0, 4,
                                f);
            }
        }
        written[way] = instructions_of(finished(b));
    }
    assert_int_equal(written[1] - written[0], 21);
    assert_int_equal(written[2] - written[0], 22); // with 6 loads for 8
}

// O = (Q K^T) V of 16 queries, 64 keys and a head of 64, a warp's part of attention without its
// softmax: fragment by fragment, with lane addresses and ldmatrix by hand, and from matrices.
enum attention_way { SINGLE, BY_HAND, MATRICES };
enum { KEYS = 64, HEAD = 64, APART = 72 };

static void two_of(ptx_builder *b, ptx_ptr at, bool trans, ptx_fragment y[2])
{
    ptx_vec w = ptx_ldmatrix(b, at, 4, .trans = trans);

    for (unsigned k = 0; k < 2; k++)
        y[k] = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_BF16, 16,
                                 ptx_vec2(w.lane[2 * k], w.lane[2 * k + 1]));
}

static void attention_tile(ptx_builder *b, enum attention_way way)
{
    ptx_ptr q = ptx_shared(b, PTX_BF16, 16 * APART), keys = ptx_shared(b, PTX_BF16, KEYS * APART);
    ptx_ptr values = ptx_shared(b, PTX_BF16, KEYS * APART), out = ptx_param_ptr(b, PTX_F32, "out");
    ptx_matrix qm = { 0 }, km = { 0 }, vm = { 0 };
    ptx_fragment a, y[8], s[8], o[8];

    if (way == MATRICES) {
        qm = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, q, APART);
        km = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, keys, APART);
        vm = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, values, APART, .trans = true);
    }
    if (way == BY_HAND) { // lane l has row l % 8 of tile l / 8
        ptx_val lane = ptx_laneid(b), low = ptx_and(b, lane, 7), high = ptx_shr(b, lane, 4);
        ptx_val odd = ptx_and(b, ptx_shr(b, lane, 3), 1);
        ptx_val down = ptx_mul(b, ptx_mad(b, odd, 8, low), APART);
        ptx_val at = ptx_add(b, down, ptx_mul(b, high, 8));
        ptx_val along = ptx_mul(b, ptx_mad(b, high, 8, low), APART);
        q = ptx_at(b, q, at);
        values = ptx_at(b, values, at);
        keys = ptx_at(b, keys, ptx_add(b, along, ptx_mul(b, odd, 8)));
    }
    for (unsigned n = 0; n < 8; n++)
        s[n] = o[n] = ptx_fragment_fill(b, ptx_f32(0));
    for (unsigned d = 0; d < HEAD; d += 16) {
        if (way == BY_HAND)
            a = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_BF16, 16,
                                  ptx_ldmatrix(b, ptx_at(b, q, d), 4));
        else if (way == SINGLE)
            a = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, ptx_at(b, q, d), APART);
        else
            ptx_matrix_load(b, qm, 0, d, 1, &a);
        if (way == MATRICES)
            ptx_matrix_load(b, km, d, 0, 8, y);
        for (unsigned n = 0; way == BY_HAND && n < 8; n += 2)
            two_of(b, ptx_at(b, keys, 8 * n * APART + d), false, &y[n]);
        for (unsigned n = 0; way == SINGLE && n < 8; n++)
            y[n] = ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_BF16, 16,
                                     ptx_at(b, keys, 8 * n * APART + d), APART);
        for (unsigned n = 0; n < 8; n++)
            s[n] = ptx_mma(b, a, y[n], s[n]);
    }
    for (unsigned j = 0; j < KEYS; j += 16) {
        a = ptx_fragment_to_a(b, PTX_BF16, 16, &s[j / 8]);
        if (way == MATRICES)
            ptx_matrix_load(b, vm, j, 0, 8, y);
        for (unsigned n = 0; way == BY_HAND && n < 8; n += 2)
            two_of(b, ptx_at(b, values, j * APART + 8 * n), true, &y[n]);
        for (unsigned n = 0; way == SINGLE && n < 8; n++)
            y[n] = ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_BF16, 16,
                                     ptx_at(b, values, j * APART + 8 * n), APART, .trans = true);
        for (unsigned n = 0; n < 8; n++)
            o[n] = ptx_mma(b, a, y[n], o[n]);
    }
    if (way == MATRICES)
        ptx_matrix_store(b, ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, out, HEAD), 0, 0, 8, o);
    for (unsigned n = 0; way != MATRICES && n < 8; n++)
        ptx_fragment_store(b, o[n], ptx_at(b, out, 8 * n), HEAD);
}

TEST(attention_is_as_short_as_by_hand)
{
    static const struct {
        unsigned instructions, loads;
    } rows[] = { [SINGLE] = { 241, 68 }, [BY_HAND] = { 210, 36 }, [MATRICES] = { 171, 36 } };

    for (unsigned way = SINGLE; way <= MATRICES; way++) {
        OWNED(ptx_builder) *b = builder_at(80);
        ptx_entry (b, "k", .block = { 32 })
            attention_tile(b, (enum attention_way)way);
        const char *text = finished(b);
        assert_int_equal(count_of(text, "mma.sync"), 64);
        const unsigned count =
            count_of(text, ";") - count_of(text, ".reg ") - count_of(text, ".shared .align");
        if (count != rows[way].instructions || count_of(text, "ldmatrix.") != rows[way].loads)
            fail_msg("way %u: %u instructions\n%s", way, count, text);
    }
}

// What is written where, for a matrix of two stages in a buffer.
TEST(matrices_are_spelled)
{
    ptx_builder *b = builder_at(80);
    ptx_fragment f[4];
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr s = ptx_shared(b, PTX_BF16, 4096);
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, s, 40);
        ptx_matrix_load(b, m, 16, 16, 2, f);
        ptx_matrix_load(b, ptx_matrix_at(b, m, 640), 0, 0, 1, f);
        ptx_matrix_load(b, ptx_matrix_at(b, m, n), 0, 16, 1, f);
        ptx_matrix w = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, s, n, .trans = true);
        ptx_matrix_load(b, w, 16, 8, 2, f);
    }
    EXPECT_LINES(b, "mov.u32 %r3, %laneid;", "and.b32 %r4, %r3, 15;", "and.b32 %r5, %r3, 16;",
                 "mad.lo.u32 %r6, %r4, 80, %r5;", "add.u32 %r7, %r2, %r6;",
                 "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r7+1312];",
                 "%r15}, [%r7+2592];", "%r19}, [%r7+1280];", "mad.lo.u32 %r20, %r1, 2, %r7;",
                 "%r24}, [%r20+32];", "mov.u32 %r25, %laneid;", "and.b32 %r26, %r25, 15;",
                 "and.b32 %r27, %r25, 16;", "mul.lo.u32 %r28, %r1, 2;",
                 "mad.lo.u32 %r29, %r26, %r28, %r27;", "add.u32 %r30, %r2, %r29;",
                 "mul.lo.u32 %r31, %r1, 16;", "mad.lo.u32 %r32, %r31, 2, %r30;",
                 "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r33, %r34, %r35, %r36}, "
                 "[%r32+16];",
                 "ret;");
}

// f64: loads of words; products of 8 x 4 before sm_90.
TEST(products_of_f64_are_spelled)
{
    for (int sm = 80; sm <= 90; sm += 10) {
        ptx_builder *b = builder_at(sm);
        ptx_fragment x, y;
        ptx_entry (b, "k", .block = { 32 }) {
            ptx_ptr s = ptx_shared(b, PTX_F64, 16 * 18);
            ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F64, 8, s, 18);
            ptx_matrix n = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_F64, 8, s, 18, .trans = true);
            ptx_matrix_load(b, m, 0, 0, 1, &x);
            ptx_matrix_load(b, n, 0, 8, 1, &y);
            ptx_mma(b, x, y, ptx_fragment_fill(b, ptx_f64(0)));
        }
        if (sm == 90)
            EXPECT_LINES(b, "ld.shared.f64 %fd1, [%r", "];", "ld.shared.f64 %fd2, [%r", "+1152];",
                         "ld.shared.f64 %fd3, [%r", "+32];", "+1184];", "+64];", "+640];",
                         "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%fd8, %fd9, %fd10, "
                         "%fd11}, {%fd1, %fd2, %fd3, %fd4}, {%fd5, %fd6}, {%fd7, %fd7, %fd7, "
                         "%fd7};");
        else
            EXPECT_LINES(b,
                         "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd8, %fd9}, {%fd1}, "
                         "{%fd5}, {%fd7, %fd7};",
                         "{%fd10, %fd11}, {%fd3}, {%fd6}, {%fd8, %fd9};",
                         "{%fd12, %fd13}, {%fd2}, {%fd5}, {%fd7, %fd7};",
                         "{%fd14, %fd15}, {%fd4}, {%fd6}, {%fd12, %fd13};");
    }
}

TEST(sums_become_factors)
{
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_param(b, PTX_F32, "x"), y = ptx_param(b, PTX_F32, "y");
        ptx_fragment c[2];
        for (unsigned n = 0; n < 2; n++)
            c[n] = ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, ptx_vec4(x, y, y, x));
        ptx_fragment a = ptx_fragment_to_a(b, PTX_BF16, 16, c);
        assert_true(a.role == PTX_FRAGMENT_A && a.type == PTX_BF16 && a.k == 16 && a.words == 4);
    }
    EXPECT_LINES(b, "cvt.rn.bf16x2.f32 %r1, %f2, %f1;", "cvt.rn.bf16x2.f32 %r2, %f1, %f2;",
                 "cvt.rn.bf16x2.f32 %r3, %f2, %f1;", "cvt.rn.bf16x2.f32 %r4, %f1, %f2;");
}
