// SPDX-License-Identifier: MIT
#include "step.h"

enum { ROUNDS = 7 };

struct ptxk_philox ptxk_philox(ptx_builder *b, const ptx_val counter[4], const ptx_val key[2])
{
    static const uint32_t multiplier[2] = { 0xd2511f53, 0xcd9e8d57 };
    static const uint32_t bump[2] = { 0x9e3779b9, 0xbb67ae85 };
    struct ptxk_philox x = { { counter[0], counter[1], counter[2], counter[3] } };
    ptx_val k[2] = { key[0], key[1] };

    for (unsigned round = 0; round < ROUNDS; round++) {
        ptx_val high[2], low[2];
        if (round % 3 == 0)
            ptx_comment(b, "Philox: from round %u of %d on", round + 1, ROUNDS);
        for (unsigned n = 0; n < 2; n++) {
            ptx_val wide = ptx_mul_wide(b, x.word[2 * n], multiplier[n]);
            ptx_vec halves = ptx_unpack(b, PTX_U32, wide);
            low[n] = halves.lane[0];
            high[n] = halves.lane[1];
        }
        x.word[0] = ptx_xor(b, ptx_xor(b, high[1], x.word[1]), k[0]);
        x.word[2] = ptx_xor(b, ptx_xor(b, high[0], x.word[3]), k[1]);
        x.word[1] = low[1];
        x.word[3] = low[0];
        for (unsigned n = 0; n < 2 && round + 1 < ROUNDS; n++)
            k[n] = ptx_add(b, k[n], bump[n]);
    }
    return x;
}
