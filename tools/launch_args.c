// SPDX-License-Identifier: MIT
#include "launch_args.h"

#include "scalar.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BYTES = 8 };

bool array_files_open(struct array_files *files, const struct cli_list *paths,
                      struct message *error)
{
    files->count = 0;
    for (size_t k = 0; k < paths->count; k++) {
        if (!tensor_file_open(&files->files[k], paths->items[k], error)) {
            array_files_close(files);
            return false;
        }
        files->count++;
    }
    return true;
}

void array_files_close(struct array_files *files)
{
    while (files->count > 0)
        tensor_file_close(&files->files[--files->count]);
}

/// The array of this name; *twice: a second file has it too.
static const struct tensor *find_array(const struct array_files *files, const char *name,
                                       bool *twice)
{
    const struct tensor *found = NULL;
    *twice = false;
    for (size_t k = 0; k < files->count; k++) {
        const struct tensor *tensor = tensor_file_find(&files->files[k], name);
        *twice = *twice || (tensor && found);
        found = found ? found : tensor;
    }
    return found;
}

// ---- which argument is whose --------------------------------------------------------------------

/// The length of the name before '=', 0 if there is none: then the argument goes by its position.
static size_t name_length(const char *given)
{
    const size_t length = strcspn(given, "=");
    return given[length] == '=' ? length : 0;
}

bool launch_args_check(const struct cli_list *given, struct message *error)
{
    char quoted[QUOTED_SIZE];
    for (size_t k = 0; k < given->count; k++) {
        const char *text = given->items[k];
        const size_t length = name_length(text);
        if (text[0] == '=' || text[0] == '\0' || text[length + (length > 0)] == '\0')
            return message_set(error, "--arg %s: give it as NAME=VALUE, or as VALUE",
                               quote(quoted, text));
        if (!length && k > 0 && name_length(given->items[k - 1]))
            return message_set(error,
                               "--arg %s has no name and comes after one that has: "
                               "arguments by position come first",
                               quote(quoted, text));
        for (size_t other = 0; length && other < k; other++)
            if (name_length(given->items[other]) == length &&
                strncmp(given->items[other], text, length) == 0)
                return message_set(error, "--arg %.*s is given twice", (int)length, text);
    }
    return true;
}

/// nvcc, NVRTC, Triton and Numba name parameters KERNEL_param_0.
static const char *short_name(const struct ptx_function_info *info, const char *name)
{
    const size_t length = strlen(info->name);
    return strncmp(name, info->name, length) == 0 && name[length] == '_' ? name + length + 1 : name;
}

static void list_parameters(const struct launch_args *args, struct message *error)
{
    message_add(error, "%s",
                args->count ? "; the kernel's parameters are" : "; the kernel has none");
    for (size_t k = 0; k < args->count; k++)
        message_add(error, "%s %s (.%s)", k ? "," : "", args->items[k].name,
                    args->items[k].param->type);
}

static bool assign(struct launch_args *args, const struct cli_list *given, struct message *error)
{
    char quoted[QUOTED_SIZE];
    for (size_t k = 0; k < given->count; k++) {
        const char *text = given->items[k];
        const size_t length = name_length(text);
        struct launch_arg *arg = !length && k < args->count ? &args->items[k] : NULL;
        for (size_t i = 0; length && i < args->count; i++)
            for (unsigned full = 0; full < 2; full++) {
                const char *name = full ? args->items[i].param->name : args->items[i].name;
                if (strlen(name) == length && strncmp(name, text, length) == 0)
                    arg = &args->items[i];
            }
        if (!arg) {
            message_set(error, "--arg %s: %s", quote(quoted, text),
                        length ? "no parameter has this name" : "one too many");
            list_parameters(args, error);
            return false;
        }
        if (arg->given)
            return message_set(error, "argument %s is given twice: %s and %s", arg->name,
                               arg->given, text + length + (length > 0));
        arg->given = text + length + (length > 0);
    }
    return true;
}

// ---- values -------------------------------------------------------------------------------------

/// Whether the parameter is an array of bytes: a struct that is passed by value.
static bool is_struct(const struct ptx_function_param *param)
{
    const size_t bits = (size_t)strtoul(param->type + strcspn(param->type, "0123456789"), NULL, 10);
    return param->size * 8 != bits;
}

static bool wrong(struct message *error, const struct launch_arg *arg, const char *format, ...)
    PTXGEN_PRINTF(3, 4);

static bool wrong(struct message *error, const struct launch_arg *arg, const char *format, ...)
{
    char text[MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (is_struct(arg->param))
        return message_set(error, "argument %s (%zu bytes by value): %s", arg->name,
                           arg->param->size, text);
    return message_set(error, "argument %s (.%s): %s", arg->name, arg->param->type, text);
}

static bool parse_as(struct launch_arg *arg, ptx_type type, const char *text, struct message *error)
{
    struct scalar scalar;
    struct message reason;
    const bool small = type == PTX_F16 || type == PTX_BF16;
    if (!scalar_parse(&scalar, small ? PTX_F64 : type, text, &reason))
        return wrong(error, arg, "%s", reason.text);
    const uint64_t bits = small ? array_float_bits(type, scalar.number) : scalar.as.u64;
    memcpy(arg->number, &bits, sizeof(bits)); // little-endian, as the device is
    arg->value = arg->number;
    return true;
}

/// The parameter's type as that of a number. An integer may have a sign: nvcc writes .u32 for int.
static ptx_type type_of(const struct ptx_function_param *param, const char *text)
{
    static const ptx_type types[4][2] = {
        { PTX_U8, PTX_S8 }, { PTX_U16, PTX_S16 }, { PTX_U32, PTX_S32 }, { PTX_U64, PTX_S64 }
    };
    if (param->type[0] == 'f')
        return param->size == 2 ? PTX_F16 : param->size == 4 ? PTX_F32 : PTX_F64;
    const unsigned row = param->size == 1 ? 0 : param->size == 2 ? 1 : param->size == 4 ? 2 : 3;
    return types[row][param->type[0] == 's' || text[0] == '-'];
}

/// TYPE:NUMBER, for a struct of that size (nvcc's half) or a .b32 that holds a float.
static bool read_typed(struct launch_arg *arg, const char *colon, struct message *error)
{
    const struct tensor_dtype *dtype = array_dtype(arg->given, (size_t)(colon - arg->given));
    if (dtype && array_is_fill(colon + 1))
        return wrong(error, arg, "an array has a count: write %.*s[COUNT]%s",
                     (int)(colon - arg->given), arg->given, colon);
    if (!dtype || dtype->type == PTX_NONE)
        return wrong(error, arg, "before : stands the type of a number, as in f16:0.5");
    if (dtype->bytes != arg->param->size)
        return wrong(error, arg, "%s has %u byte%s", ptx_type_name(dtype->type), dtype->bytes,
                     plural(dtype->bytes));
    return parse_as(arg, dtype->type, colon + 1, error);
}

static bool takes_address(const struct ptx_function_param *param)
{
    return param->size == ADDRESS_BYTES && !is_struct(param) && param->type[0] != 'f';
}

/// Where an array goes: its address, or its bytes into a struct.
static bool place_array(struct launch_arg *arg, struct message *error)
{
    if (takes_address(arg->param)) {
        arg->is_array = true;
        return true;
    }
    if (!is_struct(arg->param))
        return wrong(error, arg, "takes a number, and an array has an address, of .u64 or .b64");
    if (arg->spec.fill == ARRAY_UNINITIALISED)
        return wrong(error, arg, ":uninitialised is of arrays in device memory");
    if (arg->array.bytes != arg->param->size)
        return wrong(error, arg, "an array of %" PRIu64 " bytes", arg->array.bytes);
    arg->value = arg->array.data;
    return true;
}

static bool use_file(struct launch_arg *arg, const char *name, const struct array_files *files,
                     struct message *error)
{
    bool twice;
    char quoted[QUOTED_SIZE];
    const struct tensor *tensor = find_array(files, name, &twice);
    quote(quoted, name);
    if (twice)
        return wrong(error, arg, "two files have an array %s", quoted);
    if (!tensor && files->count == 0)
        return wrong(error, arg,
                     "%s is neither a number nor an array as f32[1000]:zeros, and there is no -i",
                     quoted);
    if (!tensor)
        return wrong(error, arg, "no array %s in %s", quoted,
                     files->count == 1 ? files->files[0].path : "the files of -i");
    arg->array = *tensor;
    return true;
}

/// TYPE[SHAPE] without a fill: that array in a file, which must have this type and shape.
static bool use_given(struct launch_arg *arg, const struct array_files *files,
                      struct message *error)
{
    struct tensor wanted = arg->array;
    if (files->count == 0)
        return wrong(error, arg,
                     "its elements are missing: :zeros, :iota, :random, or -i FILE with "
                     "an array %s",
                     arg->name);
    if (!use_file(arg, arg->name, files, error))
        return false;
    if (arg->array.dtype != wanted.dtype || arg->array.count != wanted.count)
        return wrong(error, arg,
                     "the file's array is %s with %" PRIu64 " element%s, not %s with %" PRIu64,
                     arg->array.dtype->name, arg->array.count, plural(arg->array.count),
                     wanted.dtype->name, wanted.count);
    return true;
}

static bool make_array(struct launch_arg *arg, uint64_t seed, const struct array_files *files,
                       struct message *error)
{
    struct message reason;
    if (!array_parse(&arg->spec, arg->given, &reason))
        return wrong(error, arg, "%s", reason.text);
    arg->array = (struct tensor) { .name = arg->name,
                                   .dtype = arg->spec.dtype,
                                   .shape = arg->spec.shape,
                                   .rank = arg->spec.rank,
                                   .count = arg->spec.count,
                                   .bytes = arg->spec.bytes };
    if (arg->spec.fill == ARRAY_GIVEN)
        return use_given(arg, files, error) && place_array(arg, error);
    arg->elements = malloc((size_t)arg->array.bytes + 1);
    arg->array.data = arg->elements;
    if (!arg->elements)
        return wrong(error, arg, "out of memory for %" PRIu64 " bytes", arg->array.bytes);
    if (!array_fill(&arg->spec, arg->elements, seed, &reason))
        return wrong(error, arg, "%s", reason.text);
    return place_array(arg, error);
}

static bool read_value(struct launch_arg *arg, uint64_t seed, const struct array_files *files,
                       struct message *error)
{
    const char *given = arg->given;
    if (!given)
        return use_file(arg, arg->name, files, error) && place_array(arg, error);
    const bool number = given[0] == '-' || given[0] == '+' || given[0] == '.' ||
                        (given[0] >= '0' && given[0] <= '9') || arg->param->type[0] == 'f';
    const char *colon = strchr(given, ':');
    if (array_is(given))
        return make_array(arg, seed, files, error);
    if (colon)
        return read_typed(arg, colon, error);
    if (!number)
        return use_file(arg, given, files, error) && place_array(arg, error);
    if (is_struct(arg->param))
        return wrong(error, arg,
                     "give its bytes as an array, as u8[%zu] of -i, or a number with its "
                     "type, as f16:0.5",
                     arg->param->size);
    return parse_as(arg, type_of(arg->param, given), given, error);
}

/// Whether each parameter has an argument, or an array of its name in a file.
static bool check_complete(const struct launch_args *args, const struct array_files *files,
                           struct message *error)
{
    bool twice;
    const char *separator = "";
    error->text[0] = '\0';
    for (size_t k = 0; k < args->count; k++) {
        const struct launch_arg *arg = &args->items[k];
        if (arg->given || find_array(files, arg->name, &twice))
            continue;
        message_add(error, "%s--arg %s=%s is missing", separator, arg->name,
                    takes_address(arg->param) ? "TYPE[COUNT]:zeros (or a number)"
                    : is_struct(arg->param)   ? "TYPE[COUNT] (bytes by value)"
                                              : "NUMBER");
        separator = ", ";
    }
    return !*separator;
}

/// Every array has a name of its own in the output.
static bool check_names(const struct launch_args *args, struct message *error)
{
    for (size_t k = 0; k < args->count; k++)
        for (size_t other = 0; args->items[k].is_array && other < k; other++)
            if (args->items[other].is_array &&
                strcmp(args->items[k].array.name, args->items[other].array.name) == 0)
                return message_set(error,
                                   "two arrays of the name %s: arguments %s and %s would be one "
                                   "array of the output; give one of them by a copy of the file "
                                   "with another name",
                                   args->items[k].array.name, args->items[other].name,
                                   args->items[k].name);
    return true;
}

/// Whether the arrays that are made fit into the device's memory, before one is filled.
static bool check_sizes(const struct launch_args *args, const struct launch_limits *limits,
                        struct message *error)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < args->count; k++) {
        const struct launch_arg *arg = &args->items[k];
        struct array_spec spec;
        struct message reason;
        if (!arg->given || !array_is(arg->given) || !array_parse(&spec, arg->given, &reason))
            continue;
        if (__builtin_add_overflow(sum, spec.bytes, &sum) || sum > limits->memory)
            return wrong(error, arg,
                         "an array of %" PRIu64 " bytes is more than is left of the device's "
                         "%" PRIu64 "%s",
                         spec.bytes, limits->memory,
                         limits->emulated ? "; PTXGEN_EMU_MEMORY=64G gives the emulator more" : "");
    }
    return true;
}

int launch_args_read(struct launch_args *args, const struct ptx_function_info *info,
                     const struct cli_list *given, const struct array_files *files,
                     const struct launch_limits *limits, uint64_t seed, struct message *error)
{
    *args = (struct launch_args) { calloc(info->param_count + 1, sizeof(*args->items)),
                                   info->param_count };
    if (!args->items) {
        args->count = 0;
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    for (size_t k = 0; k < args->count; k++) {
        args->items[k].param = &info->params[k];
        args->items[k].name = short_name(info, info->params[k].name);
    }
    if (!assign(args, given, error) || !check_complete(args, files, error) ||
        !check_sizes(args, limits, error))
        return EXIT_USAGE;
    for (size_t k = 0; k < args->count; k++)
        if (!read_value(&args->items[k], seed + k, files, error))
            return EXIT_USAGE;
    return check_names(args, error) ? EXIT_DONE : EXIT_USAGE;
}

void launch_args_release(struct launch_args *args)
{
    for (size_t k = 0; k < args->count; k++)
        free(args->items[k].elements);
    free(args->items);
    *args = (struct launch_args) { 0 };
}
