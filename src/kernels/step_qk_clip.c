// SPDX-License-Identifier: MIT
// QK-clip: rows or columns of a tensor have factors, which its new weights are multiplied by before
// they are stored.
#include "norm_parts.h"
#include "step_tile.h"

void ptxk_step_qk_param(ptx_builder *b, struct ptxk_tile *s)
{
    s->qk.rows = ptx_param_ptr(b, PTX_U64, "qk_rows", .readonly = true,
                               .meaning = "rows of 2, one a tensor: where the addresses of its "
                                          "factors are; columns, twice the factors + 1 if they are "
                                          "of columns (u32)");
}

void ptxk_step_qk_begin(ptx_builder *b, struct ptxk_tile *s)
{
    const uint32_t length = NORM_LENGTH(uint64_t, struct step_qk_row);

    if (!s->variant->qk_clip || s->reduces)
        return;
    ptx_comment(b, "where the factors of rows or columns are");
    ptx_ptr at = ptx_at(b, s->qk.rows, ptx_mul_wide(b, s->tensor, length));
    ptx_vec row = ptx_load_vec(b, at, 0, 2);
    ptx_vec sides = ptx_unpack(b, PTX_U32, row.lane[1]);
    ptx_val odd = ptx_and(b, sides.lane[1], 1);
    s->qk.factors = ptx_ptr_from(b, PTX_U64, PTX_SPACE_GLOBAL, row.lane[0]);
    s->qk.columns = sides.lane[0];
    s->qk.count = ptx_shr(b, sides.lane[1], 1);
    s->qk.by_columns = ptx_ne(b, odd, 0);
}

// The factor of an element by its row and column (u32).
static ptx_val factor_of(ptx_builder *b, const struct ptxk_qk_lines *qk, ptx_val row,
                         ptx_val column)
{
    ptx_val line = ptx_select(b, qk->by_columns, column, row);
    ptx_val at = ptx_load(b, qk->factors, ptx_min(b, line, qk->count));

    return ptx_load(b, ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, at), 0);
}

void ptxk_step_qk_factors(ptx_builder *b, const struct ptxk_tile *s, ptx_val i, unsigned lanes,
                          ptx_val factor[PTXK_LANES])
{
    const struct ptxk_qk_lines *qk = &s->qk;

    if (!s->variant->qk_clip)
        return;
    ptx_comment(b, "the factor of the row or column");
    ptx_val first = ptx_cvt(b, PTX_U32, s->random.first);
    ptx_val element = ptx_add(b, first, ptx_bitcast(b, PTX_U32, i));
    ptx_val row = ptx_div(b, element, qk->columns);
    ptx_val column = ptx_sub(b, element, ptx_mul(b, row, qk->columns));
    factor[0] = factor_of(b, qk, row, column);
    if (lanes == 1)
        return;
    for (unsigned k = 1; k < lanes; k++)
        factor[k] = ptx_var(b, factor[0]);
    ptx_comment(b, "those of the other elements, where they are others");
    ptx_val ends = ptx_gt(b, ptx_add(b, column, lanes), qk->columns);
    ptx_if (b, ptx_or(b, ends, qk->by_columns)) {
        for (unsigned k = 1; k < lanes; k++) {
            ptxk_comment_lanes(b, "that of the next element", k, 2, lanes);
            ptx_val next = ptx_add(b, column, 1);
            ptx_val wraps = ptx_eq(b, next, qk->columns);
            column = ptx_select(b, wraps, 0, next);
            row = ptx_add(b, row, ptx_select(b, wraps, ptx_u32(1), 0));
            ptx_set(b, factor[k], factor_of(b, qk, row, column));
        }
    }
}

ptx_val ptxk_step_qk_multiply(ptx_builder *b, const struct ptxk_tile *s, ptx_val p, ptx_val factor)
{
    if (!s->variant->qk_clip)
        return p;
    ptx_comment(b, "times its factor");
    ptx_val is_one = ptx_eq(b, factor, 1);
    ptx_val product = ptx_mul(b, p, factor);

    return ptx_select(b, is_one, p, product);
}
