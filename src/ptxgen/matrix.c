// SPDX-License-Identifier: MIT
// Tiles between shared memory and the lanes of a warp, copies into shared memory.
#include "matrix_parts.h"

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

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
    const struct ptx_op_form *form = ptxb_matrix_form(op);
    const uint32_t opcode = ptxb_spell(b, form->text, ".sync.aligned.m8n8", counts[tiles],
                                       trans ? ".trans" : "", ".shared.b16", NULL);

    return ptxb_required(b, call, form->isa, form->sm, opcode);
}

void ptxb_of_a_warp(ptx_builder *b)
{
    ptxb_mark_varying(b);
    ptxb_meet_whole_warps(b);
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
    ptxb_of_a_warp(b);
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
    ptxb_of_a_warp(b);
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
    const struct ptx_op_form *form = ptxb_matrix_form(PTX_OP_cp_async);

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
    const struct ptx_op_form *form = ptxb_matrix_form(PTX_OP_cp_async);

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
