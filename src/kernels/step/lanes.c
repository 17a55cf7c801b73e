// SPDX-License-Identifier: MIT
#include "lanes.h"

enum { WORDS_AT_ONCE = 4 };

static ptx_type word_type(ptx_type type)
{
    return ptx_type_bytes(type) < 4 ? PTX_B32 : type;
}

struct ptxk_lanes ptxk_lanes_var(ptx_builder *b, ptx_type type, unsigned lanes)
{
    struct ptxk_lanes l = { .type = type, .words = lanes * ptx_type_bytes(type) / 4 };

    for (unsigned k = 0; k < l.words; k++)
        l.word[k] = ptx_var(b, ptx_zero(word_type(type)));
    return l;
}

void ptxk_lanes_read(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at)
{
    ptx_ptr p = ptx_ptr_cast(b, word_type(l->type), at);

    for (unsigned k = 0; k < l->words; k += WORDS_AT_ONCE) {
        const unsigned count = l->words < WORDS_AT_ONCE ? l->words : WORDS_AT_ONCE;
        ptx_vec read = ptx_load_vec(b, p, ptx_u32(k), count);
        for (unsigned n = 0; n < count; n++)
            ptx_set(b, l->word[k + n], read.lane[n]);
    }
}

void ptxk_lanes_of(ptx_builder *b, const struct ptxk_lanes *l, ptx_val value[PTXK_LANES])
{
    for (unsigned k = 0; k < l->words; k++) {
        if (ptx_type_bytes(l->type) == 4) {
            value[k] = l->word[k];
        } else if (l->type == PTX_BF16) {
            ptx_val low = ptx_shl(b, l->word[k], ptx_u32(16));
            ptx_val high = ptx_and(b, l->word[k], ptx_b32(0xffff0000));
            value[2 * k] = ptx_bitcast(b, PTX_F32, low);
            value[2 * k + 1] = ptx_bitcast(b, PTX_F32, high);
        } else {
            ptx_vec pair = ptx_unpack(b, l->type, l->word[k]);
            value[2 * k] = pair.lane[0];
            value[2 * k + 1] = pair.lane[1];
        }
    }
}

void ptxk_lanes_write(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                      unsigned lanes)
{
    const unsigned lanes_a_word = 4 / ptx_type_bytes(type);
    const unsigned words = lanes / lanes_a_word;
    ptx_ptr p = ptx_ptr_cast(b, word_type(type), at);

    for (unsigned k = 0; k < words; k += WORDS_AT_ONCE) {
        ptx_vec v = { .lanes = words < WORDS_AT_ONCE ? words : WORDS_AT_ONCE };
        for (unsigned n = 0; n < v.lanes; n++) {
            const ptx_val *x = value + (k + n) * lanes_a_word;
            v.lane[n] = lanes_a_word == 2 ? ptxk_step_narrow_pair(b, type, x[0], x[1]) : *x;
        }
        ptx_store_vec(b, p, ptx_u32(k), v);
    }
}

void ptxk_lanes_read_some(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_val i,
                          ptx_val length)
{
    static const ptx_type types[] = { [1] = PTX_U8, [2] = PTX_U16 };
    const unsigned bytes = ptx_type_bytes(l->type);
    ptx_ptr p = bytes < 4 ? ptx_ptr_cast(b, types[bytes], at) : at;

    for (unsigned k = 0; k < l->words; k++)
        ptx_set(b, l->word[k], ptx_zero(word_type(l->type)));
    for (uint32_t k = 0; k < l->words * 4 / bytes; k++) {
        const ptx_val word = l->word[k * bytes / 4];
        ptx_val place = ptx_add(b, i, ptx_s32((int32_t)k));
        ptx_if (b, ptx_lt(b, place, length)) {
            ptx_val x = ptx_load(b, p, place);
            if (bytes < 4) {
                ptx_val bits = ptx_bitcast(b, PTX_B32, ptx_cvt(b, PTX_U32, x));
                x = ptx_or(b, word, ptx_shl(b, bits, ptx_u32(k * bytes % 4 * 8)));
            }
            ptx_set(b, word, x);
        }
    }
}

void ptxk_lanes_write_some(ptx_builder *b, ptx_type type, ptx_ptr at, ptx_val i, ptx_val length,
                           const ptx_val value[PTXK_LANES])
{
    for (uint32_t k = 0; k < PTXK_LANES; k++) {
        ptx_val place = ptx_add(b, i, ptx_s32((int32_t)k));
        ptx_if (b, ptx_lt(b, place, length)) {
            if (type == PTX_U8) {
                ptx_val low = ptx_shr(b, ptx_bitcast(b, PTX_U32, value[k]), ptx_u32(k % 4 * 8));
                ptx_store(b, at, place, ptx_cvt(b, PTX_U8, low));
            } else {
                ptx_store(b, at, place, ptxk_step_narrow(b, type, value[k]));
            }
        }
    }
}
