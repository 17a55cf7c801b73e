// SPDX-License-Identifier: MIT
#include "binding.h"

#include "binding_values.h"

#include <inttypes.h>
#include <string.h>

/// Writes the text again and reads its parameters.
static int read_params(struct binding *binding, struct message *error)
{
    ptx_builder_destroy(&binding->builder);
    binding->builder = selection_emit(&binding->selection, error);
    if (!binding->builder)
        return EXIT_FAILED;
    memset(binding->arguments, 0, sizeof(binding->arguments));
    binding->count = 0;
    struct ptx_param_info info;
    for (unsigned k = 0; ptx_builder_param(binding->builder, 0, k, &info); k++) {
        if (k == BINDING_LIMIT || info.count > 0) {
            message_set(error, "%s: parameter %s is not one that run can pass",
                        binding->selection.kernel->name, info.name);
            return EXIT_FAILED;
        }
        binding->arguments[binding->count++].info = info;
    }
    return EXIT_DONE;
}

/// The value distinguishes options from parameters of the same name: max_norm=device selects a
/// variant, max_norm=1 sets a value.
static bool take_options(struct binding *binding, struct message *error)
{
    bool chosen[PTX_KERNEL_MAX_OPTIONS] = { false };
    for (size_t k = 0; k < binding->sets->count; k++) {
        char name[ASSIGNMENT_NAME_SIZE];
        const char *value;
        if (!split_assignment(binding->sets->items[k], name, &value, error))
            return false;
        int option = ptx_kernel_find_option(binding->selection.kernel, name);
        if (!ptx_kernel_spec_set(&binding->selection.spec, binding->selection.kernel, name, value))
            continue;
        if (chosen[option])
            return message_set(error, "--set %s is given twice", binding->sets->items[k]);
        chosen[option] = true;
        binding->used[k] = true;
    }
    return true;
}

static bool fail_name(const struct binding *binding, const char *name, struct message *error)
{
    const ptx_kernel *kernel = binding->selection.kernel;
    const char *names[PTX_KERNEL_MAX_OPTIONS + BINDING_LIMIT];
    size_t count = 0;
    for (size_t o = 0; o < PTX_KERNEL_MAX_OPTIONS && kernel->options[o].name; o++)
        names[count++] = kernel->options[o].name;
    for (size_t a = 0; a < binding->count; a++)
        if (!binding->arguments[a].info.is_pointer)
            names[count++] = binding->arguments[a].info.name;
    return message_unknown(error, "option or value", name, names, count);
}

/// Handles the argument if it does not select an option. Whether a float fits is checked when its
/// type is known: f64 can hold more than f32.
static bool check_value(const struct binding *binding, const char *assignment, const char *name,
                        const char *value, struct message *error)
{
    const struct argument *argument = binding_argument(binding, name);
    bool option = ptx_kernel_find_option(binding->selection.kernel, name) >= 0;
    struct selection scratch = binding->selection;
    if (!argument || argument->info.is_pointer) {
        if (option)
            return select_option(&scratch, assignment, error);
        if (!argument)
            return fail_name(binding, name, error);
        return message_set(error, "--set %s: %s is a tensor: it is read from the file", name, name);
    }
    ptx_type type = argument->info.type == PTX_F32 ? PTX_F64 : (ptx_type)argument->info.type;
    struct scalar scalar;
    struct message reason;
    if (scalar_parse(&scalar, type, value, &reason))
        return true;
    message_set(error, "--set %s: %s", name, reason.text);
    if (option && !select_option(&scratch, assignment, &reason))
        message_add(error, "; and %s", reason.text);
    return false;
}

static bool given_before(const struct binding *binding, size_t k, const char *name)
{
    size_t length = strlen(name);
    for (size_t before = 0; before < k; before++)
        if (!binding->used[before] && strncmp(binding->sets->items[before], name, length) == 0 &&
            binding->sets->items[before][length] == '=')
            return true;
    return false;
}

static bool check_values(const struct binding *binding, struct message *error)
{
    for (size_t k = 0; k < binding->sets->count; k++) {
        const char *assignment = binding->sets->items[k];
        char name[ASSIGNMENT_NAME_SIZE];
        const char *value;
        if (binding->used[k])
            continue;
        if (!split_assignment(assignment, name, &value, error) ||
            !check_value(binding, assignment, name, value, error))
            return false;
        if (given_before(binding, k, name))
            return message_set(error, "--set %s is given twice", name);
    }
    return true;
}

int binding_select(struct binding *binding, const char *kernel, const struct cli_list *sets,
                   struct message *error)
{
    *binding = (struct binding) { .selection = binding->selection, .sets = sets };
    struct selection *selection = &binding->selection;
    selection->target.sm = 80;
    if (!select_kernel(kernel, &selection->kernel, error) ||
        !select_dtype(selection->kernel, NULL, &selection->spec.dtype, error) ||
        !take_options(binding, error))
        return EXIT_USAGE;
    int status = read_params(binding, error);
    if (status == EXIT_DONE && !check_values(binding, error))
        status = EXIT_USAGE;
    return status;
}

void binding_release(struct binding *binding)
{
    ptx_builder_destroy(&binding->builder);
}

static bool fail_missing(const struct tensor_file *file, const char *name, struct message *error)
{
    char quoted[QUOTED_SIZE];
    message_set(error, "%s has no tensor '%s'", file->path, name);
    for (size_t k = 0; k < file->count && k < 8; k++)
        message_add(error, "%s%s", k ? ", " : "; it has ", quote(quoted, file->tensors[k].name));
    if (file->count > 8)
        message_add(error, " and %zu more", file->count - 8);
    return false;
}

/// The number of input tensors, in order, that have the type the kernel takes; *wrong is the index
/// of the first one that does not. False if a tensor is missing.
static bool match(const struct binding *binding, const struct tensor_file *file, size_t *matches,
                  size_t *wrong, struct message *error)
{
    *matches = 0;
    *wrong = BINDING_LIMIT;
    for (size_t k = 0; k < binding->count; k++) {
        const struct ptx_param_info *info = &binding->arguments[k].info;
        if (!info->is_pointer || info->writeonly)
            continue;
        const struct tensor *tensor = tensor_file_find(file, info->name);
        if (!tensor)
            return fail_missing(file, info->name, error);
        if (*wrong == BINDING_LIMIT) {
            if (tensor->dtype->type == info->type)
                ++*matches;
            else
                *wrong = k;
        }
    }
    return true;
}

/// Writes the kernel's text for the dtype of the tensors. The first tensor decides the dtype;
/// errors name the tensors that differ from it.
static int choose_dtype(struct binding *binding, const struct tensor_file *file,
                        struct message *error)
{
    struct message reason = { "" };
    size_t best = 0;
    ptx_type dtype;
    for (size_t t = 0; (dtype = kernel_dtype_at(binding->selection.kernel, t)) != PTX_NONE; t++) {
        binding->selection.spec.dtype = dtype;
        int status = read_params(binding, error);
        size_t matches, wrong;
        if (status != EXIT_DONE)
            return status;
        if (!match(binding, file, &matches, &wrong, error))
            return EXIT_FAILED;
        if (wrong == BINDING_LIMIT)
            return EXIT_DONE;
        const struct ptx_param_info *info = &binding->arguments[wrong].info;
        const struct tensor_dtype *wanted = tensor_dtype_of((ptx_type)info->type);
        if (t == 0 || matches > best)
            message_set(&reason, "%s: tensor '%s' is %s, but %s%s%s takes ", file->path, info->name,
                        tensor_file_find(file, info->name)->dtype->name,
                        binding->selection.kernel->name, matches ? " in " : "",
                        matches ? ptx_type_name(dtype) : "");
        else if (matches == best)
            message_add(&reason, " or ");
        if (matches >= best) {
            message_add(&reason, "%s", wanted ? wanted->name : ptx_type_name((ptx_type)info->type));
            best = matches;
        }
    }
    *error = reason;
    return EXIT_FAILED;
}

int binding_fill(struct binding *binding, const struct tensor_file *file, struct message *error)
{
    int status = choose_dtype(binding, file, error);
    if (status != EXIT_DONE)
        return status;
    for (size_t k = 0; k < binding->count; k++) {
        struct argument *argument = &binding->arguments[k];
        if (argument->info.is_pointer && !argument->info.writeonly)
            argument->input = tensor_file_find(file, argument->info.name);
    }
    if (!binding_read_values(binding, error))
        return EXIT_USAGE;
    if (!binding_count(binding, file->path, error))
        return EXIT_FAILED;
    if (!binding_check_values(binding, error))
        return EXIT_USAGE;
    if (!binding_check_tensors(binding, file->path, error))
        return EXIT_FAILED;
    return binding_shape(binding, error) ? EXIT_DONE : EXIT_FAILED;
}

uint64_t binding_traffic(const struct binding *binding)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < binding->count; k++) {
        const struct argument *argument = &binding->arguments[k];
        if (!argument->info.is_pointer)
            continue;
        uint64_t once = argument->length * ptx_type_bytes((ptx_type)argument->info.type);
        bytes += argument->input ? once : 0;
        bytes += argument->output.name ? once : 0;
    }
    return bytes;
}
