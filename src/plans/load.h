// SPDX-License-Identifier: MIT
// From a plan's kernels to a module, for a device.
#ifndef PTXGEN_PLANS_LOAD_H
#define PTXGEN_PLANS_LOAD_H

#include <ptxgen/builder.h>
#include <ptxgen/module.h>

// A builder for the newest target that device and driver take; NULL with the thread's error.
ptx_builder *ptxp_builder_create(const ptx_device *device);

// Finishes the text and loads it; `params` but for their stream. NULL with the thread's error,
// which calls the text `what`.
ptx_module *ptxp_load(ptx_device *device, ptx_builder *b, const char *what,
                      const struct ptx_module_params *params, CUstream stream);

#endif
