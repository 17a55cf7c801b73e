// SPDX-License-Identifier: MIT
// FlashOptim's compressed states: a parameter with a correction of 8 bits beside it, and states of
// 8 bits in blocks of 32.
#include "../format.h"

#include <stdlib.h>

#include "../../common/division.h"
#include "../blocks.h"

enum {
    ELEMENTS = 32,
    LANES_OF_BLOCK = ELEMENTS / PTXK_LANES,
    EXPONENT = 0x7f800000,
    MAGIC_EXPONENT = 0x4b000000, // a byte below it is 2^23 and the byte
    SIGNS = -0x7f7f7f80,         // 0x80808080: of the bytes of a word
    BITS_OF_LARGEST_128TH = 0x3f7e0000,
};
#define MAGIC     0x1p23f
#define INTEGER   0x1.8p23f // added, leaves the nearest integer in the lowest byte
#define LARGEST   127.0f    // of a correction, and of a state with signs
#define LARGEST_V 255.0f
#define MOST_EACH 0x1p100f // of 255 parts of a scale that is infinite: its square is, too

// ---- bytes --------------------------------------------------------------------------------------

// Byte `n` of a word as 2^23 and the byte, an f32.
static ptx_val byte_above_magic(ptx_builder *b, ptx_val word, uint32_t n)
{
    ptx_val bits = ptx_prmt(b, word, ptx_b32((uint32_t)MAGIC_EXPONENT), 0x7440 + n);

    return ptx_bitcast(b, PTX_F32, bits);
}

// The signed bytes of a thread's words, in f32.
static void bytes_of(ptx_builder *b, const struct ptxk_lanes *bytes, ptx_val value[PTXK_LANES])
{
    ptx_val word = { 0 };

    for (uint32_t n = 0; n < PTXK_LANES; n++) {
        ptxk_comment_lanes(b, "signed bytes as numbers", n, 4, PTXK_LANES);
        if (n % 4 == 0)
            word = ptx_xor(b, bytes->word[n / 4], (uint32_t)SIGNS);
        value[n] = ptx_sub(b, byte_above_magic(b, word, n % 4), MAGIC + 128);
    }
}

// A byte of each of a thread's values as words: that which is the lowest but `byte`. Each value
// becomes the word that it is in.
static void words_of(ptx_builder *b, uint32_t byte, ptx_val value[PTXK_LANES])
{
    const uint32_t of_two = byte | (byte + 4) << 4;

    for (unsigned k = 0; k < PTXK_LANES; k += 4) {
        ptx_val pair[2];
        ptx_comment(b, "four codes as a word");
        for (unsigned n = 0; n < 2; n++)
            pair[n] = ptx_prmt(b, ptx_bitcast(b, PTX_B32, value[k + 2 * n]),
                               ptx_bitcast(b, PTX_B32, value[k + 2 * n + 1]), of_two);
        value[k] = ptx_prmt(b, pair[0], pair[1], 0x5410);
        for (unsigned n = 1; n < 4; n++)
            value[k + n] = value[k];
    }
}

// ---- the parameter ------------------------------------------------------------------------------

// The bits of half the distance of two parameters at one whose f32 has these bits (s32), but at
// least 2^-126; of an f16, 2^-25.
static ptx_val half_apart(ptx_builder *b, ptx_type type, ptx_val bits)
{
    const int32_t below = (type == PTX_F16 ? 11 : 8) << 23;
    const int32_t least = (type == PTX_F16 ? 127 - 25 : 1) << 23;

    return ptx_max(b, ptx_sub(b, ptx_and(b, bits, ptx_s32(EXPONENT)), ptx_s32(below)),
                   ptx_s32(least));
}

static ptx_val join(ptx_builder *b, const struct ptxk_step_stored *from)
{
    ptx_comment(b, "the parameter with its correction");
    ptx_val near = ptx_cvt(b, PTX_F32, from->parameter);
    ptx_val half = half_apart(b, from->type, ptx_bitcast(b, PTX_S32, near));
    ptx_val part = ptx_mul(b, from->beside, 1 / LARGEST);

    return ptx_fma(b, part, ptx_bitcast(b, PTX_F32, half), near);
}

static void split(ptx_builder *b, ptx_val x, struct ptxk_step_stored *to)
{
    ptx_comment(b, "the nearest parameter, and the correction beside it");
    ptx_val near = ptx_cvt(b, PTX_F32, ptx_cvt(b, to->type, x));
    ptx_val half = half_apart(b, to->type, ptx_bitcast(b, PTX_S32, near));
    // Both are powers of two, so what is 127 / half in 2^7ths overflows nowhere, and the sum has
    // the integer in its lowest byte.
    ptx_val parts = ptx_sub(b, ptx_s32(BITS_OF_LARGEST_128TH + (127 << 23)), half);

    to->parameter = near;
    to->beside =
        ptx_fma(b, ptx_sub(b, x, near), ptx_bitcast(b, PTX_F32, parts), INTEGER / (LARGEST + 1));
}

static void corrections_of(ptx_builder *b, const struct ptxk_lanes *stored,
                           ptx_val value[PTXK_LANES])
{
    ptx_comment(b, "the corrections");
    bytes_of(b, stored, value);
}

static void corrections_as_words(ptx_builder *b, ptx_val value[PTXK_LANES])
{
    words_of(b, 0, value);
}

// ---- states -------------------------------------------------------------------------------------

enum { CODES = 256 };

// The code of a state with signs, q, is that of y = 2 n / (1 + |n|), so n is q / (254 - |q|): the
// table has q times the inverse, each rounded, by the bits of q.
static void tables_fill(void *tables)
{
    float *n = tables;

    for (int k = 0; k < CODES; k++) {
        const int q = k < CODES / 2 ? k : k - CODES;
        const float inverse = 1 / (2 * LARGEST - (float)abs(q));
        n[k] = (float)q * inverse;
    }
}

static void decode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_state *of,
                   const struct ptxk_lanes *codes, ptx_val scale, ptx_val state[PTXK_LANES])
{
    if (of->kind == PTX_RULE_POSITIVE) {
        ptx_val part = ptx_abs(b, ptx_mul(b, scale, 1 / LARGEST_V));
        ptx_val each = ptx_select(b, ptx_gt(b, part, MOST_EACH), MOST_EACH, part);
        ptx_val of_magic = ptx_mul(b, each, -MAGIC);
        for (uint32_t n = 0; n < PTXK_LANES; n++) {
            ptxk_comment_lanes(b, "squares of codes times the scale", n, 4, PTXK_LANES);
            ptx_val code = byte_above_magic(b, codes->word[n / 4], n % 4);
            ptx_val root = ptx_fma(b, code, each, of_magic);
            state[n] = ptx_mul(b, root, root);
        }
        return;
    }
    ptx_ptr map = ptx_ptr_cast(b, PTX_F32, tables);
    for (uint32_t n = 0; n < PTXK_LANES; n++) {
        ptxk_comment_lanes(b, "codes by the table, times the scale", n, 4, PTXK_LANES);
        ptx_val code = ptx_prmt(b, codes->word[n / 4], 0, 0x4440 + n % 4);
        ptx_val part = ptx_load(b, map, ptx_bitcast(b, PTX_U32, code));
        state[n] = ptx_mul(b, part, scale);
    }
}

// The largest |state| of the block, as bits (u32), in which NaN is larger than infinity. Of roots
// none has a sign.
static ptx_val largest_of(ptx_builder *b, const ptx_val state[PTXK_LANES], bool are_roots)
{
    const bool has_max_nan = ptx_builder_target(b).sm >= 80;
    ptx_val most = { 0 };

    ptx_comment(b, "the largest state of the block");
    for (unsigned k = 0; k < PTXK_LANES; k++) {
        ptx_val size = are_roots ? state[k] : ptx_abs(b, state[k]);
        if (are_roots || !has_max_nan)
            size = ptx_bitcast(b, PTX_U32, size);
        most = !k                     ? size
               : size.type == PTX_F32 ? ptx_max_nan(b, most, size)
                                      : ptx_max(b, most, size);
    }
    most = ptx_bitcast(b, PTX_U32, most);
    return ptxk_lanes_combine_all(b, ptx_max, most, LANES_OF_BLOCK);
}

static void encode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_rule *rule,
                   unsigned states, ptx_val (*state)[PTXK_LANES], ptx_val *scale)
{
    enum { BITS_OF_LEAST = 0x2b8cbccc, SECOND_BYTE = 1 };
    const float halves = 0x1.8p15f + 0.5f; // the integer is in the second byte, half-way up
    ptx_val inverse[PTX_STEP_MAX_STATES];

    (void)tables;
    if (!states)
        return;
    for (unsigned k = 0; k < states; k++) {
        const bool has_root = rule->roots >> k & 1;
        if (rule->state[k].kind == PTX_RULE_POSITIVE && !has_root)
            ptxk_block_roots(b, state[k]);
        ptx_val most = ptx_max(b, largest_of(b, state[k], has_root), BITS_OF_LEAST);
        scale[k] = ptx_bitcast(b, PTX_F32, most);
    }
    ptxk_block_inverses(b, scale, states, inverse, state);
    for (unsigned k = 0; k < states; k++) {
        const bool is_signed = rule->state[k].kind == PTX_RULE_SIGNED;
        for (unsigned n = 0; n < PTXK_LANES; n++) {
            ptxk_comment_lanes(b, "codes of the quotients", n, 2, PTXK_LANES);
            ptx_val x = ptx_mul(b, state[k][n], inverse[k]);
            if (is_signed) {
                ptx_val more = ptx_add(b, ptx_abs(b, x), 1);
                x = ptx_mul(b, x, ptxk_quick_rcp(b, more));
            }
            const float largest = is_signed ? 2 * LARGEST : LARGEST_V;
            state[k][n] =
                ptx_op(b, PTX_OP_fma, x, ptx_f32(largest), ptx_f32(halves), .round = PTX_ROUND_RM);
        }
        words_of(b, SECOND_BYTE, state[k]);
    }
}

static const struct ptxk_step_blocks blocks = {
    .elements = ELEMENTS,
    .scale = PTX_F16,
    .tables_meaning = "of 24-bit states",
    .table_bytes = CODES * sizeof(float),
    .tables_fill = tables_fill,
    .decode = decode,
    .encode = encode,
    .by_roots = true,
    .beside_of = corrections_of,
    .beside_as_words = corrections_as_words,
};

const struct ptxk_step_format ptxk_step_format_master_24bit = {
    .name = "master_24bit",
    .parameters = { PTX_BF16, PTX_F16 },
    .state = PTX_U8,
    .beside = PTX_S8,
    .beside_name = "correction (beside)",
    .vectors = 8,
    .blocks = 4,
    .blocks_if_short = 4,
    .load = join,
    .store = split,
    .by_block = &blocks,
};
