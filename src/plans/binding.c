// SPDX-License-Identifier: MIT
#include <ptxgen/binding.h>

#include <string.h>

#include "driver/error.h"

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
