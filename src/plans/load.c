// SPDX-License-Identifier: MIT
#include "load.h"

#include "driver/error.h"

ptx_builder *ptxp_builder_create(const ptx_device *device)
{
    const struct ptx_device_info *info = ptx_device_get_info(device);
    struct ptx_builder_params params = { 0 };

    if (!ptx_target_newest(info->sm, info->isa, &params.target)) {
        ptxd_fail(PTX_ERROR_UNSUPPORTED, "%s (compute capability %d.%d): there is no target for it",
                  info->name, info->sm / 10, info->sm % 10);
        return NULL;
    }
    ptx_builder *b = ptx_builder_create(&params);
    if (!b)
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for the text of a kernel");
    return b;
}

ptx_module *ptxp_load(ptx_device *device, ptx_builder *b, const char *what,
                      const struct ptx_module_params *params, CUstream stream)
{
    struct ptx_module_params of_stream = *params;
    const char *text = ptx_builder_finish(b);

    of_stream.stream = stream;
    if (text)
        return ptx_module_load(device, text, &of_stream);
    ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "%s: %s", what, ptx_builder_error(b));
    return NULL;
}
