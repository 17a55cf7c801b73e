// SPDX-License-Identifier: MIT
// Fragments of matrices in registers, and their products.
#include "matrix_parts.h"

#include <stdio.h>

// ---- the products -------------------------------------------------------------------------------

#define BIT PTX_TYPE_BIT

// Elements of A and B, which may be mixed within a row; k; types of C and D.
static const struct product {
    uint32_t factors, sums;
    uint8_t k, op;
} products[] = {
    { BIT(F16), BIT(F32) | BIT(F16), 8, PTX_OP_mma_k8 },
    { BIT(F16), BIT(F32) | BIT(F16), 16, PTX_OP_mma },
    { BIT(BF16), BIT(F32), 8, PTX_OP_mma },
    { BIT(BF16), BIT(F32), 16, PTX_OP_mma },
    { BIT(TF32), BIT(F32), 4, PTX_OP_mma },
    { BIT(TF32), BIT(F32), 8, PTX_OP_mma },
    { BIT(S8) | BIT(U8), BIT(S32), 16, PTX_OP_mma },
    { BIT(S8) | BIT(U8), BIT(S32), 32, PTX_OP_mma },
    { BIT(E4M3X2) | BIT(E5M2X2), BIT(F32), 32, PTX_OP_mma_f8 },
    { BIT(E4M3X2) | BIT(E5M2X2), BIT(F16), 32, PTX_OP_mma_f8_f16 },
    { BIT(E4M3X2) | BIT(E5M2X2), BIT(F32) | BIT(F16), 16, PTX_OP_mma_f8_f16 },
    { BIT(F64), BIT(F64), 4, PTX_OP_mma_f64 },
    { BIT(F64), BIT(F64), 8, PTX_OP_mma_f64 },
    { BIT(F64), BIT(F64), 16, PTX_OP_mma_f64 },
};
#undef BIT

enum { PRODUCTS = sizeof products / sizeof *products };

// The first row, from `row` on, with all of these types; k = 0 is any. PRODUCTS: none.
static unsigned find_product(unsigned row, uint32_t factors, unsigned k, uint32_t sums)
{
    while (row < PRODUCTS && ((products[row].factors & factors) != factors ||
                              (products[row].sums & sums) != sums || (k && products[row].k != k)))
        row++;
    return row;
}

static uint32_t bit_of(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? UINT32_C(1) << type : 0;
}

// ---- fragments ----------------------------------------------------------------------------------

static const char *const roles[] = { "(no role)", "A", "B", "C" };

const char *ptxb_fragment_role(ptx_fragment_role role)
{
    return roles[(unsigned)role <= PTX_FRAGMENT_C ? role : 0];
}

unsigned ptxb_fragment_bits(ptx_type type)
{
    return type == PTX_E4M3X2 || type == PTX_E5M2X2 ? 8 : ptxb_bits(type);
}

static unsigned in_a_word(ptx_type type)
{
    const unsigned bits = ptxb_fragment_bits(type);

    return bits < 32 ? 32 / bits : 1;
}

// Words of a fragment: its elements, spread over 32 lanes. 0: there is no such fragment.
static unsigned word_count(ptx_fragment_role role, ptx_type type, unsigned k)
{
    const uint32_t bit = bit_of(type);

    if (!bit || type == PTX_NONE)
        return 0;
    if (role == PTX_FRAGMENT_C)
        return k || find_product(0, 0, 0, bit) == PRODUCTS ? 0 : 4 / in_a_word(type);
    if ((role != PTX_FRAGMENT_A && role != PTX_FRAGMENT_B) || !k ||
        find_product(0, bit, k, 0) == PRODUCTS)
        return 0;
    return (role == PTX_FRAGMENT_A ? 16 : 8) * k / (32 * in_a_word(type));
}

unsigned ptxb_fragment_count(ptx_builder *b, const char *call, ptx_fragment_role role,
                             ptx_type type, unsigned k)
{
    const unsigned words = word_count(role, type, k);

    if (!words)
        ptxb_fail(b, call,
                  "there is no fragment %s of %s with k = %u: A and B are f16 or bf16 (k = 8, 16), "
                  "tf32 (4, 8), s8 or u8 (16, 32), e4m3x2 or e5m2x2 (16, 32) or f64 (4, 8, 16); C "
                  "is f32, f16, s32 or f64, with k = 0",
                  ptxb_fragment_role(role), ptx_type_name(type), k);
    return words;
}

ptx_type ptxb_fragment_word(ptx_fragment_role role, ptx_type type)
{
    return type == PTX_F64 || (role == PTX_FRAGMENT_C && type != PTX_F16) ? type : PTX_B32;
}

ptx_fragment ptxb_fragment_make(ptx_fragment_role role, ptx_type type, unsigned k, unsigned words)
{
    return (ptx_fragment) {
        .words = (uint8_t)words, .role = (uint8_t)role, .type = (uint8_t)type, .k = (uint8_t)k
    };
}

bool ptxb_fragment_ok(ptx_builder *b, const char *call, const char *name, ptx_fragment f)
{
    if (!f.role || f.words != word_count((ptx_fragment_role)f.role, (ptx_type)f.type, f.k)) {
        if (!ptxb_follows(b))
            ptxb_fail(b, call, "%s was never set", name);
        return false;
    }
    for (unsigned k = 0; k < f.words; k++)
        if (!ptxb_usable(b, call, name, f.word[k]))
            return false;
    return true;
}

ptx_fragment ptx_fragment_fill(ptx_builder *b, ptx_val x)
{
    const ptx_fragment poison = { 0 };

    if (!ptxb_ready(b, "fragment_fill") || !ptxb_usable(b, "fragment_fill", "x", x))
        return poison;
    const unsigned words =
        ptxb_fragment_count(b, "fragment_fill", PTX_FRAGMENT_C, (ptx_type)x.type, 0);
    if (!words)
        return poison;
    ptx_fragment f = ptxb_fragment_make(PTX_FRAGMENT_C, (ptx_type)x.type, 0, words);
    if (x.type == PTX_F16)
        x = ptx_bitcast(b, PTX_B32, ptx_pack(b, PTX_F16X2, ptx_vec2(x, x)));
    x = ptxb_in_register(b, x);
    for (unsigned k = 0; k < words; k++)
        f.word[k] = x.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, x) : x;
    return b->failed ? poison : f;
}

// Whether one of the last instructions loads the word, from memory that ptxas does not know: it
// takes a value that the kernel stored from the store.
static bool is_loaded(const ptx_builder *b, ptx_val x)
{
    enum { LAST = 64 };
    const struct code *code = &b->code[0];
    const uint32_t end = code->insns.count > LAST ? code->insns.count - LAST : 0;

    for (uint32_t at = code->insns.count; x.kind == PTX_KIND_REGISTER && at-- > end;) {
        const struct insn *insn = &code->insns.at[at];
        const struct operand *operands = ptxb_operands(code, insn);
        for (unsigned k = 0; k < insn->dst_count; k++) {
            if (operands[k].id != x.reg)
                continue;
            const char *text = b->opcodes.at[insn->opcode].text;
            return !insn->divergence &&
                   (!strncmp(text, "ldmatrix.", 9) || !strncmp(text, "ld.volatile.", 12) ||
                    (!strncmp(text, "ld.global.", 10) && strstr(text, ".nc.")));
        }
    }
    return false;
}

// A word of a fragment. ptxas 13.0 takes the signs out of a constant B of 16-bit elements with k =
// 8 and negates the operand of its instruction, which is wrong for the lower of two elements. So it
// may know no bit of such a word: all are turned if bit 31 of the count of multiprocessors is set.
// No compiler knows that it is not.
static ptx_val word_of(ptx_builder *b, const ptx_fragment *f, ptx_val x)
{
    if (f->role != PTX_FRAGMENT_B || f->k != 8 || ptxb_bits((ptx_type)f->type) != 16 ||
        is_loaded(b, x))
        return ptxb_in_register(b, x);
    const ptx_val count = ptx_bitcast(b, PTX_S32, ptx_nsmid(b));
    return ptx_xor(b, x, ptx_bitcast(b, PTX_B32, ptx_shr(b, count, ptx_u32(31))));
}

ptx_fragment ptx_fragment_from(ptx_builder *b, ptx_fragment_role role, ptx_type type, unsigned k,
                               ptx_vec x)
{
    const ptx_fragment poison = { 0 };

    if (!ptxb_ready(b, "fragment_from"))
        return poison;
    const unsigned words = ptxb_fragment_count(b, "fragment_from", role, type, k);
    if (!words)
        return poison;
    if (x.lanes != words) {
        ptxb_fail(b, "fragment_from", "there are %u words; fragment %s of %s with k = %u has %u",
                  x.lanes, roles[role], ptx_type_name(type), k, words);
        return poison;
    }
    ptx_fragment f = ptxb_fragment_make(role, type, k, words);
    const ptx_type word = ptxb_fragment_word(role, type);
    for (unsigned i = 0; i < words; i++) {
        if (!ptxb_usable(b, "fragment_from", "a word", x.lane[i]))
            return poison;
        const ptx_type given = (ptx_type)x.lane[i].type;
        if (word == PTX_B32 ? ptxb_bits(given) != 32 : given != word) {
            ptxb_fail(b, "fragment_from", "word %u is %s; it must be %s", i, ptx_type_name(given),
                      word == PTX_B32 ? "of 32 bits" : ptx_type_name(word));
            return poison;
        }
        f.word[i] = word_of(b, &f, ptx_bitcast(b, word, x.lane[i]));
    }
    return b->failed ? poison : f;
}

ptx_vec ptx_fragment_words(ptx_builder *b, ptx_fragment f)
{
    ptx_vec v = { { { 0 } }, 0 };

    if (!ptxb_ready(b, "fragment_words") ||
        !ptxb_fragment_ok(b, "fragment_words", "the fragment", f))
        return v;
    v.lanes = f.words;
    for (unsigned k = 0; k < f.words; k++)
        v.lane[k] = f.word[k];
    return v;
}

ptx_fragment ptx_fragment_var(ptx_builder *b, ptx_fragment f)
{
    const ptx_fragment poison = { 0 };

    if (!ptxb_ready(b, "fragment_var") || !ptxb_fragment_ok(b, "fragment_var", "init", f))
        return poison;
    for (unsigned k = 0; k < f.words; k++)
        f.word[k] = ptx_var(b, f.word[k]);
    return b->failed ? poison : f;
}

void ptx_fragment_set(ptx_builder *b, ptx_fragment var, ptx_fragment x)
{
    if (!ptxb_ready(b, "fragment_set") ||
        !ptxb_fragment_ok(b, "fragment_set", "the variable", var) ||
        !ptxb_fragment_ok(b, "fragment_set", "the value", x))
        return;
    if (var.role != x.role || var.type != x.type || var.k != x.k) {
        ptxb_fail(b, "fragment_set",
                  "the variable is a fragment %s of %s with k = %u and the value %s of %s with "
                  "k = %u",
                  roles[var.role], ptx_type_name((ptx_type)var.type), var.k, roles[x.role],
                  ptx_type_name((ptx_type)x.type), x.k);
        return;
    }
    if (var.word[0].kind != PTX_KIND_VARIABLE) {
        ptxb_fail(b, "fragment_set",
                  "the first fragment is not of variables; ptx_fragment_var() makes one");
        return;
    }
    for (unsigned k = 0; k < var.words; k++)
        ptx_set(b, var.word[k], x.word[k]);
}

// The words that A of `elements` has of a fragment of C: two neighbours of its row are in a word.
static void words_for_a(ptx_builder *b, ptx_type type, const ptx_fragment *c, ptx_val *word)
{
    for (unsigned half = 0; half < 2; half++)
        word[half] = ptxb_in_register(
            b, ptx_bitcast(b, PTX_B32,
                           c->type == PTX_F16
                               ? c->word[half]
                               : ptx_cvt_pack(b, type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2,
                                              c->word[2 * half], c->word[2 * half + 1])));
}

ptx_fragment ptx_fragment_to_a(ptx_builder *b, ptx_type type, unsigned k, const ptx_fragment *c)
{
    const ptx_fragment poison = { 0 };

    if (!ptxb_ready(b, "fragment_to_a"))
        return poison;
    const unsigned words = ptxb_fragment_count(b, "fragment_to_a", PTX_FRAGMENT_A, type, k);
    if (!words)
        return poison;
    if (type != PTX_F16 && type != PTX_BF16) {
        ptxb_fail(
            b, "fragment_to_a",
            "A of %s has its elements in other lanes than C; A of f16 and bf16 has not. Write "
            "C to shared memory (ptx_fragment_store) and load A from there "
            "(ptx_fragment_load)",
            ptx_type_name(type));
        return poison;
    }
    if (!c) {
        ptxb_fail(b, "fragment_to_a", "c is NULL; it points to %u fragment%s of C", k / 8,
                  k > 8 ? "s" : "");
        return poison;
    }
    ptx_fragment f = ptxb_fragment_make(PTX_FRAGMENT_A, type, k, words);
    for (unsigned at = 0; at < k / 8; at++) {
        const ptx_type sum = (ptx_type)c[at].type;
        char name[16];
        snprintf(name, sizeof name, "c[%u]", at);
        if (!ptxb_fragment_ok(b, "fragment_to_a", name, c[at]))
            return poison;
        if (c[at].role != PTX_FRAGMENT_C || (sum != PTX_F32 && (sum != PTX_F16 || sum != type))) {
            ptxb_fail(b, "fragment_to_a",
                      "%s is a fragment %s of %s; A of %s is made of C of f32%s", name,
                      ptxb_fragment_role((ptx_fragment_role)c[at].role), ptx_type_name(sum),
                      ptx_type_name(type), type == PTX_F16 ? " or f16" : "");
            return poison;
        }
    }
    b->within = "fragment_to_a";
    for (unsigned at = 0; at < k / 8; at++)
        words_for_a(b, type, &c[at], &f.word[2 * at]);
    b->within = NULL;
    return b->failed ? poison : f;
}

// ---- mma ----------------------------------------------------------------------------------------

// The row of a product; PRODUCTS after an error.
static unsigned product_of(ptx_builder *b, ptx_fragment x, ptx_fragment y, ptx_fragment c,
                           bool satfinite)
{
    const ptx_type a = (ptx_type)x.type, sum = (ptx_type)c.type;
    const uint32_t factors = bit_of(a) | bit_of((ptx_type)y.type);

    if (x.role != PTX_FRAGMENT_A || y.role != PTX_FRAGMENT_B || c.role != PTX_FRAGMENT_C) {
        ptxb_fail(b, "mma", "x, y and c are fragments %s, %s and %s; they must be A, B and C",
                  roles[x.role], roles[y.role], roles[c.role]);
        return PRODUCTS;
    }
    const unsigned first = find_product(0, factors, x.k, 0);
    if (x.k != y.k || first == PRODUCTS) {
        ptxb_fail(b, "mma",
                  "A is of %s with k = %u and B of %s with k = %u; they do not go together",
                  ptx_type_name(a), x.k, ptx_type_name((ptx_type)y.type), y.k);
        return PRODUCTS;
    }
    const unsigned row = find_product(first, factors, x.k, bit_of(sum));
    if (row == PRODUCTS) {
        const bool half = find_product(first, factors, x.k, PTX_TYPE_BIT(F16)) < PRODUCTS;
        ptxb_fail(b, "mma", "a product of %s is not added to %s; it is %s", ptx_type_name(a),
                  ptx_type_name(sum),
                  half                                       ? "f32 or f16"
                  : products[first].sums & PTX_TYPE_BIT(S32) ? "s32"
                  : products[first].sums & PTX_TYPE_BIT(F64) ? "f64"
                                                             : "f32");
    } else if (satfinite && sum != PTX_S32) {
        ptxb_fail(b, "mma", "a product of %s takes no .satfinite; integers do", ptx_type_name(a));
    }
    return b->failed ? PRODUCTS : row;
}

// Without the number of elements of a pair.
static const char *element_name(ptx_type type)
{
    return type == PTX_E4M3X2 ? "e4m3" : type == PTX_E5M2X2 ? "e5m2" : ptx_type_name(type);
}

static uint32_t mma_opcode(ptx_builder *b, ptx_opcode op, const char *size, ptx_fragment x,
                           ptx_fragment y, ptx_fragment c, bool satfinite)
{
    const char *const sum = ptx_type_name((ptx_type)c.type);
    const struct ptx_op_form *form = ptxb_matrix_form(op);
    const uint32_t opcode = ptxb_spell(
        b, "mma.sync.aligned.", size, ".row.col.", satfinite ? "satfinite." : "", sum, ".",
        element_name((ptx_type)x.type), ".", element_name((ptx_type)y.type), ".", sum, NULL);

    return ptxb_required(b, "mma", form->isa, form->sm, opcode);
}

// One instruction: D's words take the place of those of C.
static void multiply(ptx_builder *b, uint32_t opcode, ptx_fragment x, ptx_fragment y,
                     ptx_fragment *c)
{
    const ptx_fragment sources[] = { x, y, *c };
    const unsigned words = c->words;

    for (unsigned k = 0; opcode && k < words; k++)
        c->word[k] = ptxb_register(b, (ptx_type)c->word[0].type);
    struct insn *insn =
        ptxb_append(b, INSN_PLAIN, opcode, words, (unsigned)x.words + y.words + words);
    if (!insn)
        return;
    for (unsigned k = 0; k < words; k++)
        ptxb_result(b, insn, k, c->word[k]);
    ptxb_brace(b, insn, 0, words - 1u);
    unsigned at = words;
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned k = 0; k < sources[s].words; k++)
            ptxb_source(b, insn, at + k, sources[s].word[k]);
        ptxb_brace(b, insn, at, at + sources[s].words - 1u);
        at += sources[s].words;
    }
    ptxb_of_a_warp(b);
}

// A product of f64 before sm_90, of pieces of 8 x 4 and 4 x 8: words of A alternate between the
// upper and the lower rows, and those of C come in pairs. The order along k is that of one
// instruction.
static void multiply_pieces(ptx_builder *b, ptx_fragment x, ptx_fragment y, ptx_fragment *c)
{
    const uint32_t opcode = mma_opcode(b, PTX_OP_mma, "m8n8k4", x, y, *c, false);

    for (unsigned half = 0; half < 2; half++) {
        ptx_fragment sum = { .word = { c->word[2 * half], c->word[2 * half + 1] }, .words = 2 };
        for (unsigned k = 0; k < y.words; k++) {
            const ptx_fragment row = { .word = { x.word[2 * k + half] }, .words = 1 };
            const ptx_fragment column = { .word = { y.word[k] }, .words = 1 };
            multiply(b, opcode, row, column, &sum);
        }
        c->word[2 * half] = sum.word[0];
        c->word[2 * half + 1] = sum.word[1];
    }
}

ptx_fragment ptx_mma_emit(ptx_builder *b, ptx_fragment x, ptx_fragment y,
                          struct ptx_mma_params params)
{
    const ptx_fragment poison = { 0 };
    ptx_fragment c = params.c;

    if (!ptxb_ready(b, "mma") || !ptxb_fragment_ok(b, "mma", "x", x) ||
        !ptxb_fragment_ok(b, "mma", "y", y) || !ptxb_fragment_ok(b, "mma", "c", c))
        return poison;
    const unsigned row = product_of(b, x, y, c, params.satfinite);
    if (row == PRODUCTS || !ptxb_whole_warps(b, "mma", NULL))
        return poison;
    char size[16];
    snprintf(size, sizeof size, "m16n8k%u", x.k);
    if (x.type == PTX_F64 && b->params.target.sm < 90)
        multiply_pieces(b, x, y, &c);
    else
        multiply(b, mma_opcode(b, (ptx_opcode)products[row].op, size, x, y, c, params.satfinite), x,
                 y, &c);
    return b->failed ? poison : c;
}
