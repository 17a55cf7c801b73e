// SPDX-License-Identifier: MIT
// The random bits of elements: which words of Philox they get.
#include "random.h"

// Where the upper word of element / 8, which is below 2^29, says whose the bits are.
enum { WHICH = 29 };

// The index in the whole parameter of element `i` (s32) of the tile.
static ptx_val place_in_whole(ptx_builder *b, const struct ptxk_step_random *r, ptx_val i)
{
    ptx_comment(b, "the place in the whole parameter, which counts the random bits");
    ptx_val element = ptx_add(b, r->first, ptx_cvt(b, PTX_U64, i));
    ptx_val place = ptx_var(b, element);

    ptx_if (b, ptx_ne(b, r->run, r->stride)) {
        ptx_val turn = ptx_div(b, element, r->run);
        ptx_val rest = ptx_sub(b, element, ptx_mul(b, turn, r->run));
        ptx_set(b, place, ptx_mad(b, turn, r->stride, rest));
    }
    return ptx_add(b, place, r->whole_first);
}

static struct ptxk_philox random_words(ptx_builder *b, const struct ptxk_step_random *r,
                                       ptx_val place, unsigned which)
{
    ptx_val eighth = ptx_shr(b, place, 3);
    ptx_val high = ptx_cvt(b, PTX_U32, ptx_shr(b, eighth, 32));
    const ptx_val counter[4] = {
        ptx_cvt(b, PTX_U32, eighth),
        which ? ptx_or(b, high, which << WHICH) : high,
        r->t,
        r->id,
    };
    return ptxk_philox(b, counter, r->key);
}

static ptx_val half_of(ptx_builder *b, ptx_val word, bool upper)
{
    return upper ? ptx_shr(b, word, 16) : ptx_and(b, word, 0xffff);
}

void ptxk_step_random_vector(ptx_builder *b, const struct ptxk_step_variant *v,
                             const struct ptxk_step_random *r, ptx_val i,
                             ptx_val random[PTXK_STREAMS][PTXK_LANES])
{
    const unsigned streams = ptxk_step_streams(v);

    if (!streams)
        return;
    ptx_val place = place_in_whole(b, r, i);
    for (unsigned n = 0; n < streams; n++) {
        const unsigned which = ptxk_step_stream_of(v, n);
        if (which == PTXK_STREAM_EMA)
            ptx_comment(b, "random bits of the average");
        struct ptxk_philox words = random_words(b, r, place, which);
        for (unsigned k = 0; k < PTXK_LANES; k++)
            random[n][k] = half_of(b, words.word[k / 2], k % 2);
    }
}

// Where an element's bits are: in which word, and which half of it.
struct place {
    ptx_val whole, pair, odd;
};

static struct place place_of(ptx_builder *b, const struct ptxk_step_random *r, ptx_val i)
{
    struct place p = { .whole = place_in_whole(b, r, i) };
    ptx_val lane = ptx_and(b, ptx_cvt(b, PTX_U32, p.whole), 7);

    p.pair = ptx_shr(b, lane, 1);
    p.odd = ptx_ne(b, ptx_and(b, lane, 1), 0);
    return p;
}

static ptx_val bits_at(ptx_builder *b, const struct ptxk_step_random *r, const struct place *p,
                       unsigned which)
{
    struct ptxk_philox words = random_words(b, r, p->whole, which);
    ptx_val word = words.word[0];

    for (unsigned k = 1; k < 4; k++)
        word = ptx_select(b, ptx_eq(b, p->pair, k), words.word[k], word);
    ptx_val upper = half_of(b, word, true);
    return ptx_select(b, p->odd, upper, half_of(b, word, false));
}

void ptxk_step_random_element(ptx_builder *b, const struct ptxk_step_variant *v,
                              const struct ptxk_step_random *r, ptx_val i,
                              ptx_val random[PTXK_STREAMS][PTXK_LANES])
{
    const unsigned streams = ptxk_step_streams(v);

    if (!streams)
        return;
    const struct place p = place_of(b, r, i);
    for (unsigned n = 0; n < streams; n++)
        random[n][0] = bits_at(b, r, &p, ptxk_step_stream_of(v, n));
}

ptx_val ptxk_step_random_of(ptx_builder *b, const struct ptxk_step_random *r, ptx_val i,
                            unsigned which)
{
    const struct place p = place_of(b, r, i);

    return bits_at(b, r, &p, which);
}
