// SPDX-License-Identifier: MIT
// Compiles and loads a plan's kernels for a device: in binding.c, beside their arguments.
#ifndef PTXGEN_PLANS_LOAD_H
#define PTXGEN_PLANS_LOAD_H

#include <ptxgen/builder.h>
#include <ptxgen/module.h>

// A builder for the newest target that the device and the driver support; NULL on an error.
ptx_builder *ptxp_builder_create(const ptx_device *device);

// The same for the device's own target, sm_90a for sm_90: the device and the driver must have it.
ptx_builder *ptxp_builder_create_own(const ptx_device *device);

// Whether launches may overlap: drivers before 12.3 cannot capture such.
bool ptxp_can_overlap(const ptx_device *device);

// Finishes the text and loads it with `params`, except their stream. NULL on an error, whose
// message calls the text `what`.
ptx_module *ptxp_load(ptx_device *device, ptx_builder *b, const char *what,
                      const struct ptx_module_params *params, CUstream stream);

// An error while the stream is being captured, because a `what`, a step plan say, is created
// before.
ptx_status ptxp_refuse_capture(ptx_device *device, CUstream stream, const char *what);

#endif
