// SPDX-License-Identifier: MIT
// From a text to a kernel that can be launched: loading it, and its arguments by their names.
#include "load.h"

#include <string.h>

#include <ptxgen/binding.h>
#include <ptxgen/stream.h>

#include "driver/error.h"

static ptx_builder *create_builder(const struct ptx_builder_params *params)
{
    ptx_builder *b = ptx_builder_create(params);

    if (!b)
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for the text of a kernel");
    return b;
}

ptx_builder *ptxp_builder_create_own(const ptx_device *device)
{
    const struct ptx_target own = { .sm = ptx_device_get_info(device)->sm, .suffix = 'a' };

    return create_builder(&(struct ptx_builder_params) { .target = own });
}

bool ptxp_can_overlap(const ptx_device *device)
{
    enum { PROGRAMMATIC_EDGES = 12030 };

    return ptx_device_get_info(device)->driver_version >= PROGRAMMATIC_EDGES;
}

ptx_builder *ptxp_builder_create(const ptx_device *device)
{
    const struct ptx_device_info *info = ptx_device_get_info(device);
    struct ptx_builder_params params = { 0 };

    if (!ptx_target_newest(info->sm, info->isa, &params.target)) {
        ptxd_fail(PTX_ERROR_UNSUPPORTED, "%s (compute capability %d.%d): there is no target for it",
                  info->name, info->sm / 10, info->sm % 10);
        return NULL;
    }
    return create_builder(&params);
}

ptx_module *ptxp_load(ptx_device *device, ptx_builder *b, const char *what,
                      const struct ptx_module_params *params, CUstream stream)
{
    struct ptx_module_params of_stream = *params;
    const char *text = ptx_builder_finish(b);

    of_stream.stream = stream;
    if (text)
        return ptx_module_load(device, text, &of_stream);
    ptxd_fail(ptx_builder_out_of_memory(b) ? PTX_ERROR_OUT_OF_MEMORY : PTX_ERROR_INVALID, "%s: %s",
              what, ptx_builder_error(b));
    return NULL;
}

ptx_status ptxp_refuse_capture(ptx_device *device, CUstream stream, const char *what)
{
    bool capturing;
    const ptx_status status = ptx_stream_is_capturing(device, stream, &capturing);

    if (status || !capturing)
        return status;
    return ptxd_fail(PTX_ERROR_CAPTURE,
                     "%s is being captured: create the %s before the capture begins, and run it "
                     "there",
                     ptxd_captured(stream), what);
}

// ---- arguments ----------------------------------------------------------------------------------

static size_t bytes_of(const struct ptx_param_info *param)
{
    const size_t bytes = param->is_pointer ? sizeof(uint64_t) : ptx_type_bytes(param->type);

    return param->count ? param->count * bytes : bytes;
}

static const struct ptx_arg *find(const struct ptx_named_arg *values, size_t count,
                                  const char *name)
{
    for (size_t k = 0; k < count; k++)
        if (values[k].name && strcmp(values[k].name, name) == 0)
            return &values[k].arg;
    return NULL;
}

static ptx_status bind_one(const struct ptx_param_info *param, const struct ptx_arg *arg)
{
    if (!arg || !arg->value)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_bind: parameter '%s' has no value", param->name);
    if (arg->size != bytes_of(param))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "ptx_bind: parameter '%s' takes %zu byte%s, and its value has %zu",
                         param->name, bytes_of(param), ptxd_plural(bytes_of(param)), arg->size);
    return PTX_OK;
}

ptx_status ptx_bind(const ptx_builder *b, unsigned e, const struct ptx_named_arg *values,
                    size_t value_count, struct ptx_arg *args, size_t room, size_t *arg_count)
{
    struct ptx_param_info param;
    unsigned count = 0;

    if (!b || (!values && value_count) || (!args && room) || !arg_count)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_bind: the %s is NULL",
                         !b                       ? "builder"
                         : !values && value_count ? "list of values"
                         : !args && room          ? "room for arguments"
                                                  : "count");
    for (; ptx_builder_param(b, e, count, &param); count++) {
        if (count == room)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "ptx_bind: entry %u has more than the %zu parameters that there "
                             "is room for",
                             e, room);
        const struct ptx_arg *arg = find(values, value_count, param.name);
        const ptx_status status = bind_one(&param, arg);
        if (status)
            return status;
        args[count] = *arg;
    }
    *arg_count = count;
    return PTX_OK;
}
