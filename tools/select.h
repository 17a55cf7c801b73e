// SPDX-License-Identifier: MIT
/// From words of the command line to a kernel's text. Every function that returns false has set
/// `error` to say which word is wrong and what there is instead.
#ifndef PTXGEN_TOOLS_SELECT_H
#define PTXGEN_TOOLS_SELECT_H

#include "json.h"

#include <ptxgen/ptxgen.h>

/// One text: what to write, and for what.
struct selection {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    struct ptx_target target; ///< zero: sm_80
    int isa;                  ///< 80 for 8.0; zero: the least
};

enum { ASSIGNMENT_NAME_SIZE = 64, SELECTION_NAME_SIZE = 256 };

bool select_kernel(const char *name, const ptx_kernel **kernel, struct message *error);
/// `name` NULL: f32 if the kernel has it, else its first.
bool select_dtype(const ptx_kernel *kernel, const char *name, ptx_type *dtype,
                  struct message *error);
bool select_target(const char *name, struct ptx_target *target, struct message *error);
/// "8.0" to 80, if there is such a version and it has the target.
bool select_isa(const char *name, struct ptx_target target, int *isa, struct message *error);
/// Takes "name=value" apart.
bool split_assignment(const char *text, char name[ASSIGNMENT_NAME_SIZE], const char **value,
                      struct message *error);
/// Sets the option that "option=value" names.
bool select_option(struct selection *selection, const char *assignment, struct message *error);

/// A finished builder with the text, to be destroyed, or NULL: memory ran out, since every kernel
/// can be written for every target in every version that select_isa() lets through.
ptx_builder *selection_emit(const struct selection *selection, struct message *error);
/// "squared_sum.f32 partials=f64 sm_80", for messages. Returns `name`.
const char *selection_name(const struct selection *selection, char name[SELECTION_NAME_SIZE]);
/// Steps to the next combination of option values; false after the last, with all back at the
/// first. Options whose bit is set in `fixed` stay.
bool selection_next_options(struct selection *selection, unsigned fixed);

/// The k-th dtype of the kernel, or PTX_NONE past the last.
ptx_type kernel_dtype_at(const ptx_kernel *kernel, size_t k);
/// The names of its dtypes, a JSON array.
json_t *kernel_dtypes_json(const ptx_kernel *kernel);

#endif
