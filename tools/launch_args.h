// SPDX-License-Identifier: MIT
/// The arguments of a kernel that is given as text, from --arg and from files of arrays.
#ifndef PTXGEN_TOOLS_LAUNCH_ARGS_H
#define PTXGEN_TOOLS_LAUNCH_ARGS_H

#include "array.h"
#include "cli.h"

#include <ptxgen/driver.h>

/// One parameter of the kernel and what it gets.
struct launch_arg {
    const struct ptx_function_param *param;
    const char *name;       ///< the parameter's, without the kernel's before it
    const char *given;      ///< the text of --arg; NULL: an array of that name in a file
    bool is_array;          ///< an array in device memory, whose address is the argument
    struct tensor array;    ///< its name, type, shape and elements
    struct array_spec spec; ///< where array.shape points to, unless the array is of a file
    void *elements;         ///< owned: what `array.data` or `value` points to; NULL: a file's
    unsigned char number[8];
    const void *value; ///< param->size bytes; for an array, the caller's address of it
};

struct launch_args {
    struct launch_arg *items; ///< in the order of the kernel's parameters
    size_t count;
};

/// What the device has.
struct launch_limits {
    uint64_t memory; ///< bytes
    bool emulated;
};

/// The files of -i.
struct array_files {
    struct tensor_file files[CLI_LIST_LIMIT];
    size_t count;
};

/// Opens the files. False, with none left open, if one cannot be read.
bool array_files_open(struct array_files *files, const struct cli_list *paths,
                      struct message *error);
void array_files_close(struct array_files *files);

/// Checks what can be checked without the kernel: numbered arguments come first, no name is given
/// twice.
bool launch_args_check(const struct cli_list *given, struct message *error);
/// Gives each parameter of the kernel its argument, and makes the elements of arrays; `seed` is
/// that of :random. `info`, `given` and `files` must outlive the arguments. Returns an exit status,
/// with the reason in `error` unless it is EXIT_DONE. The caller releases the arguments in both
/// cases.
int launch_args_read(struct launch_args *args, const struct ptx_function_info *info,
                     const struct cli_list *given, const struct array_files *files,
                     const struct launch_limits *limits, uint64_t seed, struct message *error);
void launch_args_release(struct launch_args *args);

#endif
