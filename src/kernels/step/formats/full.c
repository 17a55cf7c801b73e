// SPDX-License-Identifier: MIT
#include "../format.h"

const struct ptxk_step_format ptxk_step_format_full = {
    .name = "full",
    .parameters = { PTX_F32 },
    .state = PTX_F32,
    .vectors = 1,
    .blocks = 7,
    .blocks_if_short = 7,
};
