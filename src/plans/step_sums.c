// SPDX-License-Identifier: MIT
#include "step_sums.h"

#include <stdatomic.h>
#include <time.h>

#include "kernels/common/parts.h"

uint64_t ptxp_sum_parts(const struct ptx_step_params *params, struct step_tile_row *rows)
{
    uint64_t n = 0;

    for (size_t t = 0; t < params->tensor_count; t++) {
        const uint64_t parts = parts_of(params->tensors[t].count, STEP_PART);
        for (uint64_t k = 0; k < parts && rows; k++)
            rows[n + k] = (struct step_tile_row) { (uint32_t)t, (uint32_t)k };
        n += parts;
    }
    if (n == 0 && rows)
        rows[0] = (struct step_tile_row) { (uint32_t)params->tensor_count, 0 };
    return n ? n : 1;
}

uint32_t ptxp_sum_first_turn(void)
{
    static const uint32_t apart = 0x9e3779b1; // spreads what is counted over all numbers
    static atomic_uint_least32_t plans;
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    const uint32_t nth = (uint32_t)atomic_fetch_add(&plans, 1);
    return (nth + (uint32_t)now.tv_sec) * apart + (uint32_t)now.tv_nsec * 2;
}
