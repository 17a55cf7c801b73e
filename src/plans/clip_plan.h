// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_CLIP_PLAN_H
#define PTXGEN_PLANS_CLIP_PLAN_H

#include <stdatomic.h>

#include "clip_table.h"
#include "clip_text.h"

struct ptx_clip_plan {
    ptx_device *device;
    ptx_module *module;
    ptx_buffer *memory;
    struct clip_layout layout;
    bool any_address, measure_only;
    atomic_flag busy;
    struct clip_tensor_row *rows; // the host's copy, for checks
    struct clip_start *starts;    // in the order of chunks
    size_t start_count;
#define CLIP_DECLARE(name) ptx_function *name;
    CLIP_KERNELS(CLIP_DECLARE)
#undef CLIP_DECLARE
    CUdeviceptr state;   // the loss scale's
    CUdeviceptr summary; // after the records
#define CLIP_DECLARE(member, type) CUdeviceptr member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

struct clip_spec clip_spec_of(const struct ptx_clip_params *params,
                              const struct clip_layout *layout);

#endif
