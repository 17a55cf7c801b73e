// SPDX-License-Identifier: MIT
// Prints the size of each struct that bench/ptxgen.py declares: one line "name bytes" for each.
#include <ptxgen/ptxgen.h>

#include <stdio.h>

#define SIZE(name) printf(#name " %zu\n", sizeof(struct name))

int main(void)
{
    SIZE(ptx_arg);
    SIZE(ptx_builder_params);
    SIZE(ptx_clip_params);
    SIZE(ptx_clip_record);
    SIZE(ptx_clip_summary);
    SIZE(ptx_clip_tensor);
    SIZE(ptx_geometry);
    SIZE(ptx_kernel_spec);
    SIZE(ptx_launch_params);
    SIZE(ptx_lerp_params);
    SIZE(ptx_loss_scale_params);
    SIZE(ptx_loss_scale_state);
    SIZE(ptx_quantize_params);
    SIZE(ptx_step_group);
    SIZE(ptx_step_hyper);
    SIZE(ptx_step_params);
    SIZE(ptx_step_tensor);
    SIZE(ptx_target);
    return 0;
}
