// SPDX-License-Identifier: MIT
/// Selects a kernel's text from words of the command line. Functions that return false set `error`,
/// which names the wrong word and the valid ones.
#ifndef PTXGEN_TOOLS_SELECT_H
#define PTXGEN_TOOLS_SELECT_H

#include "json.h"

#include <ptxgen/ptxgen.h>

/// One text to write.
struct selection {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    struct ptx_target target; ///< zero: sm_80
    int isa;                  ///< 80 for 8.0; zero: the least
    bool line_info;           ///< the text has the lines of the kernels' sources
    const char *source_folder;
};

/// The options of every command that writes a kernel's text, for a selection.
#define LINES_HELP         "with the lines of the kernel's source, for profilers"
#define SOURCE_FOLDER_HELP "of ptxgen, absolute: where they look for src/kernels"
#define SELECT_LINES(selection)                                                                    \
    CLI_FLAG("line-info", 0, &(selection).line_info, LINES_HELP),                                  \
        CLI_TEXT("source-folder", 0, "FOLDER", &(selection).source_folder, SOURCE_FOLDER_HELP)

enum { ASSIGNMENT_NAME_SIZE = 64, SELECTION_NAME_SIZE = 256 };

/// Adds to the error of select_kernel() that a file of this name is there, for a command that takes
/// files too.
void select_advise_file(struct message *error, const char *name);
bool select_kernel(const char *name, const ptx_kernel **kernel, struct message *error);
/// If `name` is NULL: f32 if the kernel supports it, else its first dtype.
bool select_dtype(const ptx_kernel *kernel, const char *name, ptx_type *dtype,
                  struct message *error);
bool select_target(const char *name, struct ptx_target *target, struct message *error);
/// Converts "8.0" to 80, if that version exists and supports the target.
bool select_isa(const char *name, struct ptx_target target, int *isa, struct message *error);
/// Checks --line-info and --source-folder.
bool select_lines(const struct selection *selection, struct message *error);
/// The builder's parameters for the selection.
struct ptx_builder_params selection_params(const struct selection *selection);
/// Splits "name=value".
bool split_assignment(const char *text, char name[ASSIGNMENT_NAME_SIZE], const char **value,
                      struct message *error);
/// Sets the option of "option=value".
bool select_option(struct selection *selection, const char *assignment, struct message *error);

/// A finished builder with the text, which the caller destroys. NULL only if memory ran out,
/// because every kernel can be written for every target in every version that select_isa() accepts.
ptx_builder *selection_emit(const struct selection *selection, struct message *error);
/// "squared_sum.f32 partials=f64 sm_80", for messages. Returns `name`.
const char *selection_name(const struct selection *selection, char name[SELECTION_NAME_SIZE]);
/// Advances to the next combination of option values; returns false after the last one, with all
/// options back at the first value. Options whose bit is set in `fixed` do not change.
bool selection_next_options(struct selection *selection, unsigned fixed);

/// Dtype `k` of the kernel, or PTX_NONE past the last.
ptx_type kernel_dtype_at(const ptx_kernel *kernel, size_t k);
/// The names of types, of which each has a bit, as a JSON array.
json_t *dtypes_json(uint32_t dtypes);

#endif
