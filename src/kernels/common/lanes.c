// SPDX-License-Identifier: MIT
#include "lanes.h"

#include <string.h>

static ptx_type word_type(ptx_type type)
{
    return ptx_type_bytes(type) < 4 ? PTX_B32 : type;
}

static unsigned lanes_a_word(ptx_type type)
{
    const unsigned bytes = ptx_type_bytes(type);
    return bytes == 1 ? 4 : bytes == 2 ? 2 : 1;
}

// The words of a vector that is read or written at once.
static unsigned words_at_once(ptx_type type, unsigned words)
{
    const unsigned most = ptxk_vector_lanes(word_type(type));
    return words < most ? words : most;
}

struct ptxk_lanes ptxk_lanes_var(ptx_builder *b, ptx_type type, unsigned lanes)
{
    struct ptxk_lanes l = { .type = type, .words = lanes / lanes_a_word(type) };

    for (unsigned k = 0; k < l.words; k++)
        l.word[k] = ptx_var(b, ptx_zero(word_type(type)));
    return l;
}

struct ptxk_lanes ptxk_lanes_load(ptx_builder *b, ptx_type type, unsigned lanes, ptx_ptr at)
{
    struct ptxk_lanes l = { .type = type, .words = lanes / lanes_a_word(type) };
    const unsigned count = words_at_once(type, l.words);
    ptx_ptr p = ptx_ptr_cast(b, word_type(type), at);

    for (unsigned k = 0; k < l.words; k += count) {
        ptx_vec read = ptx_load_vec(b, p, k, count);
        for (unsigned n = 0; n < count; n++)
            l.word[k + n] = read.lane[n];
    }
    return l;
}

void ptxk_lanes_read(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at)
{
    ptxk_lanes_read_as(b, l, at, PTX_CACHE_DEFAULT);
}

void ptxk_lanes_read_as(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_cache cache)
{
    const unsigned count = words_at_once(l->type, l->words);
    ptx_ptr p = ptx_ptr_cast(b, word_type(l->type), at);

    for (unsigned k = 0; k < l->words; k += count) {
        ptx_vec read = ptx_load_vec(b, p, k, count, .cache = cache);
        for (unsigned n = 0; n < count; n++)
            ptx_set(b, l->word[k + n], read.lane[n]);
    }
}

void ptxk_lanes_read_each(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at)
{
    const unsigned each = lanes_a_word(l->type);

    for (unsigned k = 0; k < l->words; k++) {
        ptx_vec lanes = { .lanes = each };
        for (unsigned n = 0; n < each; n++)
            lanes.lane[n] = ptx_load(b, at, each * k + n);
        ptx_set(b, l->word[k], each == 1 ? lanes.lane[0] : ptx_pack(b, PTX_B32, lanes));
    }
}

// As words, or as unsigned integers of the type's bytes.
static ptx_ptr as_bits(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at)
{
    static const ptx_type types[] = { [1] = PTX_U8, [2] = PTX_U16 };
    const unsigned bytes = ptx_type_bytes(l->type);

    return bytes < 4 ? ptx_ptr_cast(b, types[bytes], at) : at;
}

static void read_lane(ptx_builder *b, const struct ptxk_lanes *l, unsigned k, ptx_ptr bits,
                      ptx_val place)
{
    const unsigned bytes = ptx_type_bytes(l->type);
    const ptx_val word = l->word[k * bytes / 4];
    ptx_val x = ptx_load(b, bits, place);

    if (bytes < 4) {
        ptx_val wide = ptx_bitcast(b, PTX_B32, ptx_cvt(b, PTX_U32, x));
        x = ptx_or(b, word, ptx_shl(b, wide, k * bytes % 4 * 8));
    }
    ptx_set(b, word, x);
}

void ptxk_lanes_read_lane(ptx_builder *b, const struct ptxk_lanes *l, unsigned k, ptx_ptr at,
                          ptx_val place)
{
    read_lane(b, l, k, as_bits(b, l, at), place);
}

void ptxk_lanes_read_some(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_val i,
                          ptx_val length)
{
    const unsigned bytes = ptx_type_bytes(l->type);
    ptx_ptr p = as_bits(b, l, at);

    for (unsigned k = 0; k < l->words; k++)
        ptx_set(b, l->word[k], 0);
    for (uint32_t k = 0; k < l->words * 4 / bytes; k++) {
        ptxk_comment_lanes(b, "those that there are", k, bytes < 4 ? 2 : 4, l->words * 4 / bytes);
        ptx_val place = ptx_add(b, i, k);
        ptx_if (b, ptx_lt(b, place, length))
            read_lane(b, l, k, p, place);
    }
}

struct ptxk_lanes ptxk_lanes_copy(ptx_builder *b, const struct ptxk_lanes *l)
{
    struct ptxk_lanes copy = *l;

    for (unsigned k = 0; k < l->words; k++)
        copy.word[k] = ptx_copy(b, l->word[k]);
    return copy;
}

ptx_vec ptxk_lanes_vec(ptx_builder *b, const struct ptxk_lanes *l)
{
    const unsigned each = lanes_a_word(l->type);
    ptx_vec v = { .lanes = each * l->words };

    for (unsigned k = 0; k < l->words; k++) {
        if (each == 1) {
            v.lane[k] = l->word[k];
            continue;
        }
        ptx_vec pair = ptx_unpack(b, l->type, l->word[k]);
        v.lane[2 * k] = pair.lane[0];
        v.lane[2 * k + 1] = pair.lane[1];
    }
    return v;
}

void ptxk_lanes_of(ptx_builder *b, const struct ptxk_lanes *l, ptx_val value[PTXK_LANES])
{
    if (l->type != PTX_BF16) {
        const ptx_vec v = ptxk_lanes_vec(b, l);
        memcpy(value, v.lane, sizeof v.lane);
        return;
    }
    for (unsigned k = 0; k < l->words; k++) {
        ptx_val low = ptx_shl(b, l->word[k], 16);
        ptx_val high = ptx_and(b, l->word[k], 0xffff0000);
        value[2 * k] = ptx_bitcast(b, PTX_F32, low);
        value[2 * k + 1] = ptx_bitcast(b, PTX_F32, high);
    }
}

ptx_val ptxk_narrow(ptx_builder *b, ptx_type type, ptx_val x)
{
    if (x.type != PTX_U32 || type == PTX_U32)
        return ptx_cvt(b, type, x);
    return ptx_unpack(b, type, ptx_bitcast(b, PTX_B32, x)).lane[1];
}

// Two 16-bit values as a b32, the first in the lower half.
static ptx_val narrow_pair(ptx_builder *b, ptx_type type, ptx_val low, ptx_val high)
{
    if (low.type == PTX_U32) {
        enum { UPPER_HALVES = 0x7632 };
        return ptx_prmt(b, ptx_bitcast(b, PTX_B32, low), ptx_bitcast(b, PTX_B32, high),
                        UPPER_HALVES);
    }
    if (low.type == PTX_F32 && ptx_builder_target(b).sm >= 80) {
        const ptx_type pair = type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
        return ptx_bitcast(b, PTX_B32, ptx_cvt_pack(b, pair, low, high));
    }
    return ptx_pack(b, PTX_B32, ptx_vec2(ptx_cvt(b, type, low), ptx_cvt(b, type, high)));
}

void ptxk_lanes_write(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                      unsigned lanes)
{
    ptxk_lanes_write_as(b, type, at, value, lanes, PTX_CACHE_DEFAULT);
}

void ptxk_lanes_write_as(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                         unsigned lanes, ptx_cache cache)
{
    const unsigned each = lanes_a_word(type), words = lanes / each;
    ptx_ptr p = ptx_ptr_cast(b, word_type(type), at);

    for (unsigned k = 0; k < words; k += words_at_once(type, words)) {
        ptx_vec v = { .lanes = words_at_once(type, words) };
        for (unsigned n = 0; n < v.lanes; n++) {
            const ptx_val *x = value + (k + n) * each;
            if (each == 2 && ptx_builder_target(b).sm < 80)
                ptxk_comment_lanes(b, "as 16 bits", (k + n) * each, 2, lanes);
            v.lane[n] = each == 2 ? narrow_pair(b, type, x[0], x[1]) : *x;
        }
        ptx_store_vec(b, p, k, v, .cache = cache);
    }
}

void ptxk_lanes_write_some(ptx_builder *b, ptx_type type, ptx_ptr at, ptx_val i, ptx_val length,
                           const ptx_val value[PTXK_LANES])
{
    const unsigned bytes = ptx_type_bytes(type);

    for (uint32_t k = 0; k < PTXK_LANES; k++) {
        ptxk_comment_lanes(b, "writes those that there are", k,
                           bytes == 1 ? 2 : ptxk_comment_each(b), PTXK_LANES);
        ptx_val place = ptx_add(b, i, k);
        ptx_if (b, ptx_lt(b, place, length)) {
            if (bytes == 1) {
                ptx_val low = ptx_shr(b, ptx_bitcast(b, PTX_U32, value[k]), k % 4 * 8);
                ptx_store(b, ptx_ptr_cast(b, PTX_U8, at), place, ptx_cvt(b, PTX_U8, low));
            } else {
                ptx_store(b, at, place, ptxk_narrow(b, type, value[k]));
            }
        }
    }
}
