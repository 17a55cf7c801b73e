// SPDX-License-Identifier: MIT
#include "../format.h"

const struct ptxk_step_format ptxk_step_format_state_bf16 = {
    .name = "state_bf16",
    .parameters = { PTX_F32 },
    .state = PTX_BF16,
    .vectors = 1,
    .blocks = 6,
    .blocks_if_short = 6,
};
