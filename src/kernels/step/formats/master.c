// SPDX-License-Identifier: MIT
#include "../format.h"

static ptx_val load(ptx_builder *b, const struct ptxk_step_stored *from)
{
    (void)b;
    return from->beside;
}

static void store(ptx_builder *b, ptx_val p, struct ptxk_step_stored *to)
{
    (void)b;
    to->parameter = to->beside = p;
}

const struct ptxk_step_format ptxk_step_format_master = {
    .name = "master",
    .parameters = { PTX_BF16, PTX_F16 },
    .state = PTX_F32,
    .beside = PTX_F32,
    .beside_name = "master (beside)",
    .follows = true,
    .vectors = 1,
    .blocks = 3,
    .blocks_if_short = 3,
    .load = load,
    .store = store,
};
