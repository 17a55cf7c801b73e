// SPDX-License-Identifier: MIT
// Products of matrices, tiles between shared memory and the lanes of a warp, copies into shared
// memory.
#include "internal.h"

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

static const struct ptx_op_form *form_of(ptx_opcode op)
{
    return ptx_op_get_info(op)->forms;
}

bool ptxb_whole_warps(ptx_builder *b, const char *call, const char *callee)
{
    struct entry *entry = ptxb_entry(b);
    const uint32_t *block = entry->decl.block;
    const uint32_t y = block[1] ? block[1] : 1, z = block[2] ? block[2] : 1;
    const uint32_t left = block[0] * y * z % 32;

    entry->whole_warps = true;
    if (!left)
        return true;
    ptxb_fail(b, call,
              "%s%.64s%s needs all lanes of a warp; blocks of %u x %u x %u threads end with a warp "
              "of %u. Make the block a multiple of 32 threads",
              callee ? "'" : "", callee ? callee : "it", callee ? "'" : "", block[0], y, z, left);
    return false;
}

// The register that holds the row's address, or the pointer itself.
static bool tiles_ok(ptx_builder *b, const char *call, ptx_ptr p, unsigned tiles)
{
    if (!ptxb_pointer_ok(b, call, p))
        return false;
    if (p.space != PTX_SPACE_SHARED || ptx_type_bytes((ptx_type)p.type) != 2) {
        ptxb_fail(b, call,
                  "the pointer is to %s in %s memory; tiles are of 16-bit elements in "
                  "shared memory (ptx_ptr_cast changes the type)",
                  ptx_type_name((ptx_type)p.type), ptxb_space_name(p.space));
        return false;
    }
    if (tiles != 1 && tiles != 2 && tiles != 4) {
        ptxb_fail(b, call, "there are %u tiles; it must be 1, 2 or 4", tiles);
        return false;
    }
    return ptxb_in_array(b, call, p, 16) && ptxb_whole_warps(b, call, NULL);
}

static uint32_t tiles_opcode(ptx_builder *b, const char *call, ptx_opcode op, unsigned tiles,
                             bool trans)
{
    static const char *const counts[] = { "", ".x1", ".x2", "", ".x4" };
    const struct ptx_op_form *form = form_of(op);
    const uint32_t opcode = ptxb_spell(b, form->text, ".sync.aligned.m8n8", counts[tiles],
                                       trans ? ".trans" : "", ".shared.b16", NULL);

    return ptxb_required(b, call, form->isa, form->sm, opcode);
}

// All lanes take part in the newest instruction, and each has its own results.
static void of_a_warp(ptx_builder *b)
{
    ptxb_mark_varying(b);
    ptxb_meet(b, MEET_WARP);
}

ptx_vec ptx_ldmatrix_emit(ptx_builder *b, ptx_ptr p, struct ptx_ldmatrix_params params)
{
    const unsigned tiles = params.tiles;
    ptx_vec v = { { { 0 } }, tiles <= 8 ? tiles : 8 };

    if (!tiles_ok(b, "ldmatrix", p, tiles))
        return v;
    const uint32_t opcode = tiles_opcode(b, "ldmatrix", PTX_OP_ldmatrix, tiles, params.trans);
    for (unsigned k = 0; opcode && k < tiles; k++)
        v.lane[k] = ptxb_register(b, PTX_B32);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, tiles, 1);
    if (!insn)
        return (ptx_vec) { { { 0 } }, v.lanes };
    for (unsigned k = 0; k < tiles; k++)
        ptxb_result(b, insn, k, v.lane[k]);
    ptxb_address(b, insn, tiles, p);
    ptxb_brace(b, insn, 0, tiles - 1);
    of_a_warp(b);
    return v;
}

// The words of a vector, in registers; false after an error.
static bool words_ok(ptx_builder *b, const char *call, ptx_vec *x)
{
    for (unsigned k = 0; k < x->lanes; k++) {
        if (!ptxb_usable(b, call, "a word", x->lane[k]))
            return false;
        const ptx_type type = (ptx_type)x->lane[k].type;
        if (ptxb_bits(type) != 32) {
            ptxb_fail(b, call, "word %u is %s; it must have 32 bits", k, ptx_type_name(type));
            return false;
        }
        x->lane[k] = ptxb_in_register(b, ptx_bitcast(b, PTX_B32, x->lane[k]));
    }
    return !b->failed;
}

void ptx_stmatrix_emit(ptx_builder *b, ptx_ptr p, struct ptx_stmatrix_params params)
{
    ptx_vec x = params.x;

    if (!tiles_ok(b, "stmatrix", p, x.lanes) || !words_ok(b, "stmatrix", &x))
        return;
    const uint32_t opcode = tiles_opcode(b, "stmatrix", PTX_OP_stmatrix, x.lanes, params.trans);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, 1 + x.lanes);
    if (!insn)
        return;
    ptxb_address(b, insn, 0, p);
    for (unsigned k = 0; k < x.lanes; k++)
        ptxb_source(b, insn, 1 + k, x.lane[k]);
    ptxb_brace(b, insn, 1, x.lanes);
    of_a_warp(b);
}

// ---- fragments ----------------------------------------------------------------------------------

static const char *const roles[] = { "(no role)", "A", "B", "C" };

static bool is_factor(ptx_type type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_TF32 || type == PTX_S8 ||
           type == PTX_U8;
}

// Words of a fragment: its elements, spread over 32 lanes. 0: there is no such fragment.
static unsigned word_count(ptx_fragment_role role, ptx_type type, unsigned k)
{
    const unsigned bits = ptxb_bits(type);

    if (role == PTX_FRAGMENT_C)
        return k ? 0 : type == PTX_F32 || type == PTX_S32 ? 4 : type == PTX_F16 ? 2 : 0;
    if ((role != PTX_FRAGMENT_A && role != PTX_FRAGMENT_B) || !is_factor(type) ||
        (k * bits != 128 && k * bits != 256))
        return 0;
    return (role == PTX_FRAGMENT_A ? 16 : 8) * k * bits / 1024;
}

static unsigned require_fragment(ptx_builder *b, const char *call, ptx_fragment_role role,
                                 ptx_type type, unsigned k)
{
    const unsigned words = word_count(role, type, k);

    if (!words)
        ptxb_fail(b, call,
                  "there is no fragment %s of %s with k = %u: A and B are f16 or bf16 (k = 8, 16), "
                  "tf32 (4, 8), s8 or u8 (16, 32); C is f32, f16 or s32, with k = 0",
                  roles[(unsigned)role <= PTX_FRAGMENT_C ? role : 0], ptx_type_name(type), k);
    return words;
}

static ptx_fragment make(ptx_fragment_role role, ptx_type type, unsigned k, unsigned words)
{
    return (ptx_fragment) {
        .words = (uint8_t)words, .role = (uint8_t)role, .type = (uint8_t)type, .k = (uint8_t)k
    };
}

static bool fragment_ok(ptx_builder *b, const char *call, const char *name, ptx_fragment f)
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
        require_fragment(b, "fragment_fill", PTX_FRAGMENT_C, (ptx_type)x.type, 0);
    if (!words)
        return poison;
    ptx_fragment f = make(PTX_FRAGMENT_C, (ptx_type)x.type, 0, words);
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
    const unsigned words = require_fragment(b, "fragment_from", role, type, k);
    if (!words)
        return poison;
    if (x.lanes != words) {
        ptxb_fail(b, "fragment_from", "there are %u words; fragment %s of %s with k = %u has %u",
                  x.lanes, roles[role], ptx_type_name(type), k, words);
        return poison;
    }
    ptx_fragment f = make(role, type, k, words);
    const ptx_type word = role == PTX_FRAGMENT_C && type != PTX_F16 ? type : PTX_B32;
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

    if (!ptxb_ready(b, "fragment_words") || !fragment_ok(b, "fragment_words", "the fragment", f))
        return v;
    v.lanes = f.words;
    for (unsigned k = 0; k < f.words; k++)
        v.lane[k] = f.word[k];
    return v;
}

ptx_fragment ptx_fragment_var(ptx_builder *b, ptx_fragment f)
{
    const ptx_fragment poison = { 0 };

    if (!ptxb_ready(b, "fragment_var") || !fragment_ok(b, "fragment_var", "init", f))
        return poison;
    for (unsigned k = 0; k < f.words; k++)
        f.word[k] = ptx_var(b, f.word[k]);
    return b->failed ? poison : f;
}

void ptx_fragment_set(ptx_builder *b, ptx_fragment var, ptx_fragment x)
{
    if (!ptxb_ready(b, "fragment_set") || !fragment_ok(b, "fragment_set", "the variable", var) ||
        !fragment_ok(b, "fragment_set", "the value", x))
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

// ---- mma ----------------------------------------------------------------------------------------

static bool product_ok(ptx_builder *b, ptx_fragment x, ptx_fragment y, ptx_fragment c,
                       bool satfinite)
{
    const ptx_type a = (ptx_type)x.type, sum = (ptx_type)c.type;
    const bool integers = a == PTX_S8 || a == PTX_U8;
    const bool same = integers ? y.type == PTX_S8 || y.type == PTX_U8 : y.type == a;
    const bool fits =
        integers ? sum == PTX_S32 : sum == PTX_F32 || (sum == PTX_F16 && a == PTX_F16);

    if (x.role != PTX_FRAGMENT_A || y.role != PTX_FRAGMENT_B || c.role != PTX_FRAGMENT_C) {
        ptxb_fail(b, "mma", "x, y and c are fragments %s, %s and %s; they must be A, B and C",
                  roles[x.role], roles[y.role], roles[c.role]);
        return false;
    }
    if (x.k != y.k || !same) {
        ptxb_fail(b, "mma",
                  "A is of %s with k = %u and B of %s with k = %u; they do not go together",
                  ptx_type_name(a), x.k, ptx_type_name((ptx_type)y.type), y.k);
        return false;
    }
    if (!fits) {
        ptxb_fail(b, "mma", "a product of %s is not added to %s; %s", ptx_type_name(a),
                  ptx_type_name(sum),
                  integers       ? "it is s32"
                  : a == PTX_F16 ? "it is f32 or f16"
                                 : "it is f32");
        return false;
    }
    if (satfinite && !integers)
        ptxb_fail(b, "mma", "a product of %s takes no .satfinite; integers do", ptx_type_name(a));
    return !b->failed;
}

static uint32_t mma_opcode(ptx_builder *b, ptx_fragment x, ptx_fragment y, ptx_fragment c,
                           bool satfinite)
{
    const char *const depth = x.k == 4    ? "m16n8k4"
                              : x.k == 8  ? "m16n8k8"
                              : x.k == 16 ? "m16n8k16"
                                          : "m16n8k32";
    const char *const sum = ptx_type_name((ptx_type)c.type);
    const bool first = x.type == PTX_F16 && x.k == 8; // sm_75 has this one
    const struct ptx_op_form *form = form_of(first ? PTX_OP_mma_k8 : PTX_OP_mma);
    const uint32_t opcode = ptxb_spell(
        b, "mma.sync.aligned.", depth, ".row.col.", satfinite ? "satfinite." : "", sum, ".",
        ptx_type_name((ptx_type)x.type), ".", ptx_type_name((ptx_type)y.type), ".", sum, NULL);

    return ptxb_required(b, "mma", form->isa, form->sm, opcode);
}

ptx_fragment ptx_mma_emit(ptx_builder *b, ptx_fragment x, ptx_fragment y,
                          struct ptx_mma_params params)
{
    const ptx_fragment poison = { 0 }, c = params.c;
    const ptx_fragment sources[] = { x, y, c };

    if (!ptxb_ready(b, "mma") || !fragment_ok(b, "mma", "x", x) || !fragment_ok(b, "mma", "y", y) ||
        !fragment_ok(b, "mma", "c", c) || !product_ok(b, x, y, c, params.satfinite) ||
        !ptxb_whole_warps(b, "mma", NULL))
        return poison;
    const uint32_t opcode = mma_opcode(b, x, y, c, params.satfinite);
    ptx_fragment d = make(PTX_FRAGMENT_C, (ptx_type)c.type, 0, c.words);
    for (unsigned k = 0; opcode && k < d.words; k++)
        d.word[k] = ptxb_register(b, (ptx_type)c.word[0].type);
    const unsigned count = (unsigned)x.words + y.words + c.words;
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, d.words, count);
    if (!insn)
        return poison;
    for (unsigned k = 0; k < d.words; k++)
        ptxb_result(b, insn, k, d.word[k]);
    ptxb_brace(b, insn, 0, d.words - 1u);
    unsigned at = d.words;
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned k = 0; k < sources[s].words; k++)
            ptxb_source(b, insn, at + k, sources[s].word[k]);
        ptxb_brace(b, insn, at, at + sources[s].words - 1u);
        at += sources[s].words;
    }
    of_a_warp(b);
    return b->failed ? poison : d;
}

// ---- fragments in memory ------------------------------------------------------------------------

static bool stride_ok(ptx_builder *b, const char *call, ptx_val *stride, unsigned multiple)
{
    *stride = ptxb_typed(b, call, "the stride", *stride, PTX_U32);
    if (!ptxb_usable(b, call, "the stride", *stride))
        return false;
    if (stride->type != PTX_U32) {
        ptxb_fail(b, call, "the stride is %s; it must be u32",
                  ptx_type_name((ptx_type)stride->type));
        return false;
    }
    if (stride->kind == PTX_KIND_IMMEDIATE && stride->bits % multiple) {
        ptxb_fail(b, call, "the stride is %llu elements; it must be a multiple of %u",
                  (unsigned long long)stride->bits, multiple);
        return false;
    }
    return true;
}

// Whether rows of `length` elements lie within an array, as far as that is known; `unit` bytes are
// accessed at a time.
static bool rows_in_array(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride,
                          unsigned rows, unsigned length, unsigned unit)
{
    const int64_t bytes = ptx_type_bytes((ptx_type)p.type);
    ptx_ptr last = p;

    if (!ptxb_in_array(b, call, p, unit))
        return false;
    if (stride.kind != PTX_KIND_IMMEDIATE)
        return true;
    last.offset += ((int64_t)(rows - 1) * (int64_t)stride.bits + length) * bytes - unit;
    return ptxb_in_array(b, call, last, unit);
}

static void require_uniform(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride)
{
    ptxb_require_uniform(b, call, "the pointer", p.base);
    ptxb_require_uniform(b, call, "the stride", stride);
}

// The lanes' rows. Without .trans, a tile has 8 rows of A (columns of B) and 16 bytes of each; the
// words of A alternate between the upper and the lower rows, those of B go along k. With .trans,
// tiles change sides.
ptx_fragment ptx_fragment_load_emit(ptx_builder *b, ptx_fragment_role role, ptx_type type,
                                    unsigned k, ptx_ptr p, struct ptx_fragment_load_params params)
{
    const ptx_fragment poison = { 0 };
    const bool is_a = role == PTX_FRAGMENT_A;

    if (!ptxb_pointer_ok(b, "fragment_load", p))
        return poison;
    const unsigned words = require_fragment(b, "fragment_load", role, type, k);
    const unsigned bytes = ptx_type_bytes(type);
    if (!words)
        return poison;
    if (role == PTX_FRAGMENT_C || p.space != PTX_SPACE_SHARED ||
        ptx_type_bytes((ptx_type)p.type) != bytes || (params.trans && bytes != 2)) {
        ptxb_fail(b, "fragment_load",
                  "fragment %s of %s from %s in %s memory%s: A and B come from elements of their "
                  "width in shared memory; .trans is for 16-bit elements",
                  roles[role], ptx_type_name(type), ptx_type_name((ptx_type)p.type),
                  ptxb_space_name(p.space), params.trans ? " with .trans" : "");
        return poison;
    }
    const unsigned side = is_a ? 16 : 8;
    if (!stride_ok(b, "fragment_load", &params.stride, 16 / bytes) ||
        !rows_in_array(b, "fragment_load", p, params.stride, params.trans ? k : side,
                       params.trans ? side : k, 16))
        return poison;
    require_uniform(b, "fragment_load", p, params.stride);
    b->within = "fragment_load";
    ptx_val lane = ptx_laneid(b), in_tile = ptx_and(b, lane, ptx_u32(7));
    // Of the tile that this lane has a row of: bit 3 of the lane counts words of one kind, bit 4
    // those of the other.
    ptx_val low = ptx_and(b, ptx_shr(b, lane, ptx_u32(3)), ptx_u32(1));
    ptx_val high = ptx_shr(b, lane, ptx_u32(4));
    const bool rows_first = is_a != params.trans;
    ptx_val down = rows_first ? low : is_a ? high : ptx_u32(0);
    ptx_val along = rows_first ? (is_a ? high : ptx_u32(0)) : low;
    ptx_val row = ptx_mad(b, down, ptx_u32(8), in_tile);
    ptx_val column = ptx_mul(b, along, ptx_u32(16 / bytes));
    ptx_ptr at = ptx_at(b, p, ptx_mad(b, row, params.stride, column));
    ptx_vec v =
        ptx_ldmatrix_emit(b, ptx_ptr_cast(b, PTX_B16, at),
                          (struct ptx_ldmatrix_params) { .tiles = words, .trans = params.trans });
    const ptx_fragment f = ptx_fragment_from(b, role, type, k, v);
    b->within = NULL;
    return b->failed ? poison : f;
}

// Two neighbours as one value of 32 bits in the type of memory.
static ptx_val pair_of(ptx_builder *b, ptx_fragment f, unsigned half, ptx_type to)
{
    if (f.type == PTX_F16)
        return ptx_bitcast(b, PTX_F16X2, f.word[half]);
    return ptx_cvt_pack(b, to == PTX_F16 ? PTX_F16X2 : PTX_BF16X2, f.word[2 * half],
                        f.word[2 * half + 1]);
}

// Lane l has elements 2 (l % 4) and the next of rows l / 4 and l / 4 + 8.
void ptx_fragment_store(ptx_builder *b, ptx_fragment f, ptx_ptr p, ptx_val stride)
{
    const bool narrow = p.type == PTX_F16 || p.type == PTX_BF16;

    if (!ptxb_pointer_ok(b, "fragment_store", p) ||
        !fragment_ok(b, "fragment_store", "the fragment", f))
        return;
    if (f.role != PTX_FRAGMENT_C || (p.type != f.type && !(narrow && f.type == PTX_F32))) {
        ptxb_fail(b, "fragment_store",
                  "fragment %s of %s cannot be stored as %s; C is stored as its own type, f32 also "
                  "as f16 and bf16",
                  roles[f.role], ptx_type_name((ptx_type)f.type), ptx_type_name((ptx_type)p.type));
        return;
    }
    if (!stride_ok(b, "fragment_store", &stride, 2) ||
        !rows_in_array(b, "fragment_store", p, stride, 16, 8, narrow ? 4 : 8))
        return;
    if (stride.kind == PTX_KIND_IMMEDIATE && stride.bits < 8) {
        ptxb_fail(b, "fragment_store", "the stride is %u elements; rows have 8, and would overlap",
                  (unsigned)stride.bits);
        return;
    }
    require_uniform(b, "fragment_store", p, stride);
    b->within = "fragment_store";
    ptx_val lane = ptx_laneid(b), row = ptx_shr(b, lane, ptx_u32(2));
    ptx_val column = ptx_shl(b, ptx_and(b, lane, ptx_u32(3)), ptx_u32(1));
    for (unsigned half = 0; half < 2; half++) {
        ptx_ptr at = ptx_at(b, p, ptx_mad(b, row, stride, column));
        if (narrow) {
            ptx_val pair = pair_of(b, f, half, (ptx_type)p.type);
            ptx_store(b, ptx_ptr_cast(b, (ptx_type)pair.type, at), ptx_u32(0), pair);
        } else {
            ptx_store_vec(b, at, ptx_u32(0), ptx_vec2(f.word[2 * half], f.word[2 * half + 1]));
        }
        if (!half)
            row = ptx_add(b, row, ptx_u32(8));
    }
    b->within = NULL;
}

// ---- cp.async -----------------------------------------------------------------------------------

static bool copy_ok(ptx_builder *b, ptx_ptr to, ptx_ptr from, struct ptx_cp_async_params *p)
{
    if (!ptxb_pointer_ok(b, "cp_async", to) || !ptxb_pointer_ok(b, "cp_async", from))
        return false;
    if (to.space != PTX_SPACE_SHARED || from.space != PTX_SPACE_GLOBAL) {
        ptxb_fail(b, "cp_async", "it copies from %s to %s memory; it must be from global to shared",
                  ptxb_space_name(from.space), ptxb_space_name(to.space));
        return false;
    }
    if ((p->bytes != 4 && p->bytes != 8 && p->bytes != 16) || (p->bypass && p->bytes != 16)) {
        ptxb_fail(b, "cp_async", "it copies %u bytes; it must be %s", p->bytes,
                  p->bypass ? "16 with .bypass" : "4, 8 or 16");
        return false;
    }
    if (to.readonly || from.writeonly) {
        ptxb_fail(b, "cp_async", "the %s is %s", to.readonly ? "target" : "source",
                  to.readonly ? "read-only" : "write-only");
        return false;
    }
    if (!ptxb_in_array(b, "cp_async", to, p->bytes) ||
        !ptxb_in_array(b, "cp_async", from, p->bytes))
        return false;
    p->taken = ptxb_typed(b, "cp_async", ".taken", p->taken, PTX_U32);
    if (!ptxb_is_given(p->taken))
        return !b->failed;
    if (!ptxb_usable(b, "cp_async", ".taken", p->taken))
        return false;
    if (p->taken.type != PTX_U32)
        ptxb_fail(b, "cp_async", ".taken is %s; it must be u32",
                  ptx_type_name((ptx_type)p->taken.type));
    else if (p->taken.kind == PTX_KIND_IMMEDIATE && p->taken.bits > p->bytes)
        ptxb_fail(b, "cp_async", ".taken is %u; it must be at most the %u bytes copied",
                  (unsigned)p->taken.bits, p->bytes);
    return !b->failed;
}

void ptx_cp_async_emit(ptx_builder *b, ptx_ptr to, ptx_ptr from, struct ptx_cp_async_params p)
{
    const struct ptx_op_form *form = form_of(PTX_OP_cp_async);

    if (!copy_ok(b, to, from, &p))
        return;
    const bool given = ptxb_is_given(p.taken);
    const uint32_t opcode = ptxb_required(
        b, "cp_async", form->isa, form->sm,
        ptxb_opcode(b, p.bypass ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global"));
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, given ? 4 : 3);
    if (!insn)
        return;
    ptxb_address(b, insn, 0, to);
    ptxb_address(b, insn, 1, from);
    ptxb_source(b, insn, 2, ptx_u32(p.bytes));
    if (given)
        ptxb_source(b, insn, 3, p.taken);
}

static void copy_groups(ptx_builder *b, const char *call, const char *text, const ptx_val *pending)
{
    const struct ptx_op_form *form = form_of(PTX_OP_cp_async);

    if (ptxb_ready(b, call))
        ptxb_emit_void(b, ptxb_required(b, call, form->isa, form->sm, ptxb_opcode(b, text)),
                       pending ? 1 : 0, pending);
}

void ptx_cp_async_commit(ptx_builder *b)
{
    copy_groups(b, "cp_async_commit", "cp.async.commit_group", NULL);
}

void ptx_cp_async_wait(ptx_builder *b, unsigned pending)
{
    const ptx_val groups = ptx_u32(pending);

    copy_groups(b, "cp_async_wait", "cp.async.wait_group", &groups);
}

void ptx_cp_async_wait_all(ptx_builder *b)
{
    copy_groups(b, "cp_async_wait_all", "cp.async.wait_all", NULL);
}
