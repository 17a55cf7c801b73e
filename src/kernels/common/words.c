// SPDX-License-Identifier: MIT
#include "words.h"

static ptx_type word_type(ptx_type dtype)
{
    return ptx_type_bytes(dtype) == 2 ? PTX_B32 : dtype;
}

ptx_vec ptxk_words_var(ptx_builder *b, ptx_type dtype)
{
    const ptx_type type = word_type(dtype);
    ptx_vec words = { .lanes = ptxk_vector_lanes(type) };

    for (unsigned k = 0; k < words.lanes; k++)
        words.lane[k] = ptx_var(b, ptx_zero(type));
    return words;
}

void ptxk_words_read(ptx_builder *b, ptx_vec words, ptx_ptr p, ptx_val i)
{
    ptx_ptr vector = ptx_ptr_cast(b, word_type((ptx_type)p.type), ptx_at(b, p, i));
    ptx_vec read = ptx_load_vec(b, vector, ptx_u32(0), words.lanes);

    for (unsigned k = 0; k < words.lanes; k++)
        ptx_set(b, words.lane[k], read.lane[k]);
}

ptx_vec ptxk_words_copy(ptx_builder *b, ptx_vec words)
{
    for (unsigned k = 0; k < words.lanes; k++)
        words.lane[k] = ptx_copy(b, words.lane[k]);
    return words;
}

ptx_vec ptxk_words_lanes(ptx_builder *b, ptx_vec words, ptx_type dtype)
{
    ptx_vec v = { .lanes = ptxk_vector_lanes(dtype) };

    if (v.lanes == words.lanes)
        return words;
    for (unsigned k = 0; k < words.lanes; k++) {
        ptx_vec pair = ptx_unpack(b, dtype, words.lane[k]);
        v.lane[2 * k] = pair.lane[0];
        v.lane[2 * k + 1] = pair.lane[1];
    }
    return v;
}
