// SPDX-License-Identifier: MIT
#include "binding_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct argument *binding_argument(const struct binding *binding, const char *name)
{
    for (size_t k = 0; k < binding->count; k++)
        if (strcmp(binding->arguments[k].info.name, name) == 0)
            return (struct argument *)&binding->arguments[k];
    return NULL;
}

bool binding_read_values(struct binding *binding, struct message *error)
{
    for (size_t k = 0; k < binding->sets->count; k++) {
        char name[ASSIGNMENT_NAME_SIZE];
        const char *value;
        struct message reason;
        if (binding->used[k])
            continue;
        if (!split_assignment(binding->sets->items[k], name, &value, error))
            return false;
        struct argument *argument = binding_argument(binding, name);
        if (!argument)
            return message_set(error, "unknown option or value '%s'", name);
        if (!scalar_parse(&argument->value, (ptx_type)argument->info.type, value, &reason))
            return message_set(error, "--set %s: %s", name, reason.text);
        argument->given = true;
        argument->settled = true;
    }
    return true;
}

/// The parameter that gives a pointer's number of elements, or NULL.
static struct argument *count_of(const struct binding *binding, const struct argument *pointer)
{
    if (!pointer->info.is_pointer || !pointer->info.length)
        return NULL;
    struct argument *count = binding_argument(binding, pointer->info.length);
    return count && !count->info.is_pointer ? count : NULL;
}

/// Sets a count from the tensors whose elements it counts.
static bool settle_count(struct argument *count, const struct argument *pointer,
                         const struct argument *first, const char *path, struct message *error)
{
    uint64_t elements = pointer->input->count;
    struct message reason;
    if (!count->settled) {
        if (!scalar_from_count(&count->value, (ptx_type)count->info.type, elements, &reason))
            return message_set(error, "%s: tensor '%s': its number of elements, %s", path,
                               pointer->info.name, reason.text);
        count->settled = true;
    }
    if (count->value.magnitude == elements && !count->value.negative)
        return true;
    message_set(error, "%s: tensor '%s' has %" PRIu64 " element%s, but %s is ", path,
                pointer->info.name, elements, plural(elements), count->info.name);
    message_add(error, "%s%" PRIu64, count->value.negative ? "-" : "", count->value.magnitude);
    if (first && first != pointer)
        message_add(error, ", as tensor '%s' has it", first->info.name);
    return false;
}

static bool settle_counts(struct binding *binding, const char *path, struct message *error)
{
    const struct argument *first[BINDING_LIMIT] = { NULL };
    for (size_t k = 0; k < binding->count; k++) {
        const struct argument *pointer = &binding->arguments[k];
        struct argument *count = count_of(binding, pointer);
        if (!count || !pointer->input)
            continue;
        size_t at = (size_t)(count - binding->arguments);
        if (!first[at] && !count->given)
            first[at] = pointer;
        if (!settle_count(count, pointer, first[at], path, error))
            return false;
    }
    return true;
}

/// The launch covers the value of the first count parameter, or, if there is none, the first input.
static bool settle_launch(struct binding *binding, struct message *error)
{
    const struct argument *first = NULL;
    const struct argument *count = NULL;
    for (size_t k = 0; k < binding->count && !count; k++) {
        count = count_of(binding, &binding->arguments[k]);
        if (!first && binding->arguments[k].input)
            first = &binding->arguments[k];
    }
    if (count && !count->settled)
        return message_set(error, "%s is not known from any tensor: --set %s=COUNT",
                           count->info.name, count->info.name);
    binding->n = count ? count->value.magnitude : first ? first->input->count : 0;
    const struct selection *selection = &binding->selection;
    if (ptx_kernel_geometry(selection->kernel, selection->spec.dtype, binding->n,
                            &binding->geometry))
        return true;
    return message_set(error, "%" PRIu64 " elements need more blocks than a launch can have",
                       binding->n);
}

static bool settle_value(struct argument *argument, struct message *error)
{
    const struct ptx_param_info *info = &argument->info;
    struct message reason;
    if (argument->settled)
        return true;
    if (!info->preset)
        return message_set(error, "%s is not given: --set %s=VALUE%s%s%s", info->name, info->name,
                           info->meaning ? " (" : "", info->meaning ? info->meaning : "",
                           info->meaning ? ")" : "");
    if (!scalar_parse(&argument->value, (ptx_type)info->type, info->preset, &reason))
        return message_set(error, "the preset of %s: %s", info->name, reason.text);
    argument->settled = true;
    return true;
}

/// A size by its parameter's name, for lengths that depend on it; 0 if the kernel has none.
static bool size_of(const struct binding *binding, const char *name, uint64_t *size,
                    struct message *error)
{
    struct argument *argument = binding_argument(binding, name);
    *size = 0;
    if (!argument || argument->info.is_pointer)
        return true;
    if (!settle_value(argument, error))
        return false;
    *size = argument->value.negative ? 0 : argument->value.magnitude;
    return true;
}

/// A length that the kernel derives from the sizes, as "blocks".
static bool derived_length(const struct binding *binding, struct argument *pointer,
                           struct message *error)
{
    struct ptx_kernel_sizes sizes = { .n = binding->n };
    const struct selection *selection = &binding->selection;
    if (!size_of(binding, "channels", &sizes.channels, error) ||
        !size_of(binding, "inner", &sizes.inner, error))
        return false;
    if (pointer->info.length && ptx_kernel_length(selection->kernel, &selection->spec, &sizes,
                                                  pointer->info.length, &pointer->length))
        return true;
    const int group = ptx_kernel_find_option(selection->kernel, "group");
    if (group >= 0)
        return message_set(error, "n is %" PRIu64 ", not a multiple of the group, %s", binding->n,
                           selection->kernel->options[group].values[selection->spec.option[group]]);
    return message_set(error, "%s: the length of '%s' is not known", selection->kernel->name,
                       pointer->info.name);
}

static bool settle_length(const struct binding *binding, struct argument *pointer, const char *path,
                          struct message *error)
{
    const struct argument *count = count_of(binding, pointer);
    if (count && count->settled)
        pointer->length = count->value.magnitude;
    else if (!derived_length(binding, pointer, error))
        return false;
    if (pointer->input && pointer->input->count < pointer->length)
        return message_set(
            error, "%s: tensor '%s' has %" PRIu64 " element%s, but the kernel takes %" PRIu64, path,
            pointer->info.name, pointer->input->count, plural(pointer->input->count),
            pointer->length);
    return true;
}

bool binding_count(struct binding *binding, const char *path, struct message *error)
{
    if (!settle_counts(binding, path, error) || !settle_launch(binding, error))
        return false;
    for (size_t k = 0; k < binding->count; k++)
        if (binding->arguments[k].info.is_pointer &&
            !settle_length(binding, &binding->arguments[k], path, error))
            return false;
    return true;
}

/// A bound: a number, or the value of the parameter with this name.
static bool read_bound(const struct binding *binding, const struct argument *argument,
                       const char *bound, struct scalar *value)
{
    const struct argument *other = binding_argument(binding, bound);
    struct message ignored;
    if (!other)
        return scalar_parse(value, (ptx_type)argument->info.type, bound, &ignored);
    *value = other->value;
    return !other->info.is_pointer && other->settled &&
           other->value.integer == argument->value.integer;
}

static bool check_value(const struct binding *binding, const struct argument *argument,
                        struct message *error)
{
    const struct ptx_param_info *info = &argument->info;
    struct scalar bound;
    const char *broken = scalar_range_broken(&argument->value, info->range);
    if (broken)
        return message_set(error, "%s %s", info->name, broken);
    if (info->low && read_bound(binding, argument, info->low, &bound) &&
        scalar_compare(&argument->value, &bound) < 0)
        return message_set(error, "%s must be %s or more", info->name, info->low);
    if (info->high && read_bound(binding, argument, info->high, &bound) &&
        scalar_compare(&argument->value, &bound) > 0)
        return message_set(error, "%s must be %s or less", info->name, info->high);
    return true;
}

bool binding_check_values(struct binding *binding, struct message *error)
{
    for (size_t k = 0; k < binding->count; k++)
        if (!binding->arguments[k].info.is_pointer && !settle_value(&binding->arguments[k], error))
            return false;
    for (size_t k = 0; k < binding->count; k++)
        if (!binding->arguments[k].info.is_pointer &&
            !check_value(binding, &binding->arguments[k], error))
            return false;
    return true;
}

/// An element of a tensor of floats.
static struct scalar element_of(const struct argument *argument, uint64_t k)
{
    const size_t bytes = ptx_type_bytes((ptx_type)argument->info.type);
    struct scalar element = { .bytes = (unsigned)bytes };
    memcpy(&element.as, (const char *)argument->input->data + k * bytes, bytes);
    element.number = argument->info.type == PTX_F64 ? element.as.f64 : (double)element.as.f32;
    return element;
}

static bool check_elements(const struct argument *argument, const char *path, struct message *error)
{
    const struct ptx_param_info *info = &argument->info;
    const bool floats = info->type == PTX_F32 || info->type == PTX_F64;
    for (uint64_t k = 0; floats && k < argument->length; k++) {
        const struct scalar element = element_of(argument, k);
        const char *broken = scalar_range_broken(&element, info->range);
        if (broken)
            return message_set(error, "%s: tensor '%s': element %" PRIu64 " is %g; it %s", path,
                               info->name, k, element.number, broken);
    }
    return true;
}

bool binding_check_tensors(const struct binding *binding, const char *path, struct message *error)
{
    for (size_t k = 0; k < binding->count; k++) {
        const struct argument *argument = &binding->arguments[k];
        if (argument->input && argument->info.range != PTX_RANGE_ANY &&
            !check_elements(argument, path, error))
            return false;
    }
    return true;
}

/// The input whose shape an output takes: the tensor itself if it is also an input, else the first
/// input of the same length.
static const struct tensor *model_of(const struct binding *binding, const struct argument *output)
{
    if (output->input)
        return output->input;
    for (size_t k = 0; k < binding->count; k++) {
        const struct argument *argument = &binding->arguments[k];
        if (argument->input && argument->info.length &&
            strcmp(argument->info.length, output->info.length) == 0 &&
            argument->input->count == output->length)
            return argument->input;
    }
    return NULL;
}

bool binding_shape(struct binding *binding, struct message *error)
{
    for (size_t k = 0; k < binding->count; k++) {
        struct argument *argument = &binding->arguments[k];
        if (!argument->info.is_pointer || argument->info.readonly)
            continue;
        const struct tensor *model = model_of(binding, argument);
        struct tensor *output = &argument->output;
        argument->extent = argument->length;
        *output = (struct tensor) {
            .name = argument->info.name,
            .dtype = argument->info.format ? tensor_dtype_of_format(argument->info.format)
                                           : tensor_dtype_of((ptx_type)argument->info.type),
            .shape = model ? model->shape : &argument->extent,
            .rank = model ? model->rank : 1,
            .count = model ? model->count : argument->length,
        };
        if (!output->dtype)
            return message_set(error, "a tensor file cannot hold '%s', whose type is %s",
                               output->name, ptx_type_name((ptx_type)argument->info.type));
        output->bytes = output->count * output->dtype->bytes;
    }
    return true;
}
