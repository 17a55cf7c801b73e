// SPDX-License-Identifier: MIT
#include "../format.h"

const struct ptxk_step_format ptxk_step_format_stochastic = {
    .name = "stochastic",
    .parameters = { PTX_BF16, PTX_F16 },
    .state = PTX_BF16,
    .rounds_parameter = true,
    .rounds_states = true,
    .vectors = 4,
    .blocks = 3,
    .blocks_if_short = 4,
};
