// SPDX-License-Identifier: MIT
/// Layer 4: binds the arguments of a launch by the names of the kernel's parameters.
///
///     const struct ptx_named_arg values[] = {
///         { "x", PTX_ARG(x) }, { "n", PTX_ARG(n) }, { "partials", PTX_ARG(partials) },
///     };
///     struct ptx_arg args[3];
///     size_t count;
///     ptx_bind(b, 0, values, 3, args, 3, &count);
///
/// The kernel alone defines the order of its parameters. Bind once and use the arguments in every
/// launch: they point at the variables, whose values may change between launches.
#ifndef PTXGEN_BINDING_H
#define PTXGEN_BINDING_H

#include <ptxgen/builder.h>
#include <ptxgen/launch.h>

PTXGEN_BEGIN

/// A value for the parameter of this name: { "n", PTX_ARG(n) }.
struct ptx_named_arg {
    const char *name;
    struct ptx_arg arg;
};

/// Puts the arguments of the builder's e-th entry, from 0, into the order of its parameters:
/// *arg_count of them, at most `room`. Of several values of one name the first is taken; those that
/// name no parameter are passed over. The values themselves are not read; whether their C types fit
/// is for the launch to check. An `e` past the last entry has no parameters: *arg_count is 0. May
/// be called from any thread. Errors: INVALID (a parameter has no value, or one of another size;
/// more parameters than room), with *arg_count unchanged.
PTXGEN_API ptx_status ptx_bind(const ptx_builder *b, unsigned e, const struct ptx_named_arg *values,
                               size_t value_count, struct ptx_arg *args, size_t room,
                               size_t *arg_count);

PTXGEN_END

#endif
