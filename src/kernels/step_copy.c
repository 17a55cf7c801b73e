// SPDX-License-Identifier: MIT
// Copies of the weights in 8 bits, made of what the step stores.
#include "common/fp8.h"
#include "step_codes.h"
#include "step_tile.h"

#define ROW(member) NORM_PLACE(uint64_t, struct step_copy_row, member)

ptx_ptr ptxk_step_copies_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "copies", .readonly = true,
                         .meaning = "rows of 4: amax, codes, their scale, its reciprocal");
}

void ptxk_step_copy_param(ptx_builder *b, struct ptxk_tile *s)
{
    if (ptxk_step_has_copy_rows(s->spec) && !s->reduces)
        s->copies = ptxk_step_copies_param(b);
}

static ptx_ptr row_of(ptx_builder *b, const struct ptxk_tile *s)
{
    const uint32_t length = NORM_LENGTH(uint64_t, struct step_copy_row);

    return ptx_at(b, s->copies, ptx_mul_wide(b, s->tensor, length));
}

ptx_val ptxk_step_amax_of(ptx_builder *b, const struct ptxk_tile *s)
{
    return ptx_load(b, row_of(b, s), ROW(amax));
}

void ptxk_step_copy_row(ptx_builder *b, struct ptxk_tile *s)
{
    if (!ptxk_step_has_copy_rows(s->spec) || s->reduces)
        return;
    ptx_ptr row = row_of(b, s);
    ptx_vec to = ptx_load_vec(b, row, ROW(amax), 2);

    s->amax_at = to.lane[0];
    s->codes_at = to.lane[1];
    if (!ptxk_step_has_copies(s->spec))
        return;
    ptx_vec scales = ptx_load_vec(b, row, ROW(scale), 2);
    s->copy_scale_at = scales.lane[0];
    s->scale_inv_at = scales.lane[1];
}

void ptxk_step_copy_scale(ptx_builder *b, struct ptxk_tile *s)
{
    if (!s->variant->copy || s->reduces)
        return;
    ptx_ptr codes = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, s->codes_at);
    ptx_ptr scale = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->copy_scale_at);

    s->codes = ptx_at(b, codes, s->tensor_first);
    s->copy_scale = ptx_load(b, scale, 0);
    if (ptxk_step_lanes(s->variant) == STEP_CODES_EACH)
        s->codes_policy = ptxk_codes_policy(b);
}

void ptxk_step_copy_inverse(ptx_builder *b, const struct ptxk_tile *s)
{
    if (!s->variant->copy)
        return;
    ptx_comment(b, "the reciprocal of the codes' scale, where it is wanted");
    ptx_if (b, ptx_ne(b, s->scale_inv_at, 0)) {
        ptx_ptr to = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->scale_inv_at);
        ptx_store(b, to, 0, ptx_rcp(b, s->copy_scale));
    }
}

// ---- codes --------------------------------------------------------------------------------------

static enum fp8_format format_of(const struct ptxk_tile *s)
{
    return (enum fp8_format)(s->variant->copy - 1);
}

static ptx_val scaled(ptx_builder *b, const struct ptxk_tile *s, ptx_val parameter)
{
    ptx_val x = ptxk_step_as_stored(b, s->variant->parameter, parameter);

    return ptx_mul(b, x, s->copy_scale);
}

// Each lane's is the word that it is in.
static void codes_of(ptx_builder *b, const struct ptxk_tile *s, unsigned lanes,
                     const ptx_val *parameter, ptx_val word[PTXK_LANES])
{
    enum { EACH = 4 };
    ptx_val x[EACH];

    for (unsigned k = 0; k < lanes; k += EACH) {
        ptx_comment(b, "the codes of the weights");
        for (unsigned n = 0; n < EACH; n++)
            x[n] = scaled(b, s, parameter[k + n]);
        word[k] = ptxk_fp8_word(b, format_of(s), x);
        for (unsigned n = 1; n < EACH; n++)
            word[k + n] = word[k];
    }
}

void ptxk_step_copy_vector(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                           ptx_val value[ARRAYS][PTXK_LANES])
{
    const unsigned lanes = ptxk_step_lanes(s->variant);
    ptx_val word[PTXK_LANES];

    if (!s->variant->copy)
        return;
    codes_of(b, s, lanes, value[ARRAY_PARAMETER], word);
    ptxk_step_square_keep_codes(b, s, word[0]);
    ptx_comment(b, "writes them");
    ptx_ptr at = ptx_at(b, s->codes, i);
    if (lanes == STEP_CODES_EACH)
        ptxk_codes_store(b, s->codes_policy, ptx_ptr_cast(b, PTX_B32, at),
                         (ptx_vec) { .lanes = 1, .lane = { word[0] } });
    else
        ptxk_lanes_write(b, PTX_U8, at, word, lanes);
}

void ptxk_step_copy_some(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                         ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_val word[PTXK_LANES];

    if (!s->variant->copy)
        return;
    codes_of(b, s, PTXK_LANES, value[ARRAY_PARAMETER], word);
    ptxk_lanes_write_some(b, PTX_U8, s->codes, i, s->length, word);
}

void ptxk_step_copy_single(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                           ptx_val value[ARRAYS][PTXK_LANES])
{
    if (!s->variant->copy)
        return;
    ptx_comment(b, "and its code");
    ptx_val x = scaled(b, s, value[ARRAY_PARAMETER][0]);
    ptx_store(b, s->codes, i, ptxk_fp8_code(b, format_of(s), x));
}
