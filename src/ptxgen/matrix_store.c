// SPDX-License-Identifier: MIT
// Fragments C to memory, where a lane's address is made once too.
#include "matrix_parts.h"

#include <stdio.h>

enum { DOWN = 16, ACROSS = 8 }; // rows and columns of C

static bool is_narrow(ptx_ptr p)
{
    return p.type == PTX_F16 || p.type == PTX_BF16;
}

static bool in_tiles(ptx_ptr p)
{
    return is_narrow(p) && p.space == PTX_SPACE_SHARED;
}

// Lanes store two neighbours, tiles rows of 16 bytes.
unsigned ptxb_sum_unit(ptx_ptr p)
{
    return in_tiles(p) ? 16 : 2 * ptx_type_bytes((ptx_type)p.type);
}

unsigned ptxb_sum_tiles(const ptx_builder *b, ptx_ptr p)
{
    const struct ptx_op_form *form = ptxb_matrix_form(PTX_OP_stmatrix);

    return in_tiles(p) && b->params.target.sm >= form->sm ? 4 : 0;
}

// Lane l has elements 2 (l % 4) and the next of rows l / 4 and l / 4 + 8.
ptx_val ptxb_sum_lane(ptx_builder *b, ptx_val stride)
{
    ptx_val lane = ptx_laneid(b), row = ptx_shr(b, lane, ptx_u32(2));
    ptx_val column = ptx_shl(b, ptx_and(b, lane, ptx_u32(3)), ptx_u32(1));

    return ptx_mad(b, row, stride, column);
}

// Whether C of `type` may be stored from p on, in rows that begin at multiples of `unit` bytes.
static bool may_store(ptx_builder *b, const char *call, unsigned role, ptx_type type, ptx_ptr p,
                      ptx_val *stride, unsigned unit)
{
    const unsigned bytes = ptx_type_bytes((ptx_type)p.type);

    if (role != PTX_FRAGMENT_C || (p.type != type && !(is_narrow(p) && type == PTX_F32))) {
        ptxb_fail(b, call,
                  "fragment %s of %s cannot be stored as %s; C is stored as its own type, f32 also "
                  "as f16 and bf16",
                  ptxb_fragment_role((ptx_fragment_role)role), ptx_type_name(type),
                  ptx_type_name((ptx_type)p.type));
        return false;
    }
    if (!ptxb_stride_ok(b, call, stride, unit / bytes) ||
        !ptxb_rows_in_array(b, call, p, *stride, DOWN, ACROSS, unit))
        return false;
    if (stride->kind == PTX_KIND_IMMEDIATE && stride->bits < ACROSS) {
        ptxb_fail(b, call, "the stride is %u elements; rows have 8, and would overlap",
                  (unsigned)stride->bits);
        return false;
    }
    ptxb_require_uniform_matrix(b, call, p, *stride);
    return true;
}

bool ptxb_sum_ok(ptx_builder *b, const char *call, ptx_type type, ptx_ptr p,
                 struct ptx_fragment_load_params *params)
{
    if (params->trans || (p.space != PTX_SPACE_SHARED && p.space != PTX_SPACE_GLOBAL)) {
        ptxb_fail(b, call, "C %s; it is stored row after row, to shared or global memory",
                  params->trans ? "takes no .trans" : "is in other memory");
        return false;
    }
    return may_store(b, call, PTX_FRAGMENT_C, type, p, &params->stride, ptxb_sum_unit(p));
}

// ---- stores -------------------------------------------------------------------------------------

// Two neighbours as one value of 32 bits in the type of memory.
static ptx_val pair_of(ptx_builder *b, const ptx_fragment *f, unsigned half, ptx_ptr p)
{
    if (f->type == PTX_F16)
        return ptx_bitcast(b, PTX_F16X2, f->word[half]);
    return ptx_cvt_pack(b, p.type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2, f->word[2 * half],
                        f->word[2 * half + 1]);
}

// The lane's two elements of the upper or lower 8 rows.
static void store_half(ptx_builder *b, ptx_ptr at, const ptx_fragment *f, unsigned half)
{
    if (is_narrow(at)) {
        ptx_val pair = pair_of(b, f, half, at);
        ptx_store(b, ptx_ptr_cast(b, (ptx_type)pair.type, at), ptx_u32(0), pair);
    } else {
        ptx_store_vec(b, at, ptx_u32(0), ptx_vec2(f->word[2 * half], f->word[2 * half + 1]));
    }
}

void ptx_fragment_store(ptx_builder *b, ptx_fragment f, ptx_ptr p, ptx_val stride)
{
    if (!ptxb_pointer_ok(b, "fragment_store", p) ||
        !ptxb_fragment_ok(b, "fragment_store", "the fragment", f) ||
        !may_store(b, "fragment_store", f.role, (ptx_type)f.type, p, &stride,
                   2 * ptx_type_bytes((ptx_type)p.type)))
        return;
    b->within = "fragment_store";
    ptx_ptr at = ptx_at(b, p, ptxb_sum_lane(b, stride));
    store_half(b, at, &f, 0);
    if (stride.kind == PTX_KIND_IMMEDIATE)
        at = ptx_at(b, at, ptx_u64(8 * stride.bits));
    else
        at = ptx_at(b, at, ptx_shl(b, stride, ptx_u32(3)));
    store_half(b, at, &f, 1);
    b->within = NULL;
}

// Two fragments at a time are four tiles; the last of an odd number is two.
static void store_tiles(ptx_builder *b, ptx_ptr at, const ptx_fragment *from, unsigned count)
{
    for (unsigned f = 0; f < count && !b->failed; f += 2) {
        ptx_vec x = { .lanes = f + 1 < count ? 4 : 2 };
        for (unsigned k = 0; k < x.lanes; k++)
            x.lane[k] = pair_of(b, &from[f + k / 2], k % 2, at);
        ptx_stmatrix_emit(b, ptx_at(b, at, ptx_u64(ACROSS * f)),
                          (struct ptx_stmatrix_params) { .x = x });
    }
}

void ptx_matrix_store(ptx_builder *b, ptx_matrix m, unsigned row, unsigned column, unsigned count,
                      const ptx_fragment *from)
{
    if (!ptxb_is_matrix(b, "matrix_store", &m))
        return;
    if (m.role != PTX_FRAGMENT_C) {
        ptxb_fail(b, "matrix_store",
                  "the matrix is of fragments %s, which are loaded; ptx_matrix_from() with "
                  "PTX_FRAGMENT_C makes one to store",
                  ptxb_fragment_role((ptx_fragment_role)m.role));
        return;
    }
    if (!from || !count || count > MATRIX_FRAGMENTS) {
        ptxb_fail(b, "matrix_store",
                  from ? "there are %u fragments to store; it must be 1 to %u"
                       : "`from` is NULL; it points to the %u fragments that are stored (at most "
                         "%u)",
                  count, MATRIX_FRAGMENTS);
        return;
    }
    for (unsigned f = 0; f < count; f++) {
        char name[16];
        snprintf(name, sizeof name, "from[%u]", f);
        if (!ptxb_fragment_ok(b, "matrix_store", name, from[f]))
            return;
        if (from[f].role != m.role || from[f].type != m.type) {
            ptxb_fail(b, "matrix_store", "%s is a fragment %s of %s; the matrix is of C of %s",
                      name, ptxb_fragment_role((ptx_fragment_role)from[f].role),
                      ptx_type_name((ptx_type)from[f].type), ptx_type_name((ptx_type)m.type));
            return;
        }
    }
    if (!ptxb_matrix_place_ok(b, "matrix_store", &m, row, column, count))
        return;
    b->within = "matrix_store";
    if (m.tiles)
        store_tiles(b, ptxb_matrix_moved(b, &m, m.lane, row, column), from, count);
    for (unsigned half = 0; half < 2 && !m.tiles; half++) {
        ptx_ptr at = ptxb_matrix_moved(b, &m, m.lane, row + 8 * half, column);
        for (unsigned f = 0; f < count; f++)
            store_half(b, ptx_at(b, at, ptx_u64(ACROSS * f)), &from[f], half);
    }
    b->within = NULL;
}
