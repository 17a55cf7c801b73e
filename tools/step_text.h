// SPDX-License-Identifier: MIT
/// "step" where the command line names a kernel: the kernels of a step plan, for a rule and a
/// format. Functions that return false have set `error`.
#ifndef PTXGEN_TOOLS_STEP_TEXT_H
#define PTXGEN_TOOLS_STEP_TEXT_H

#include "cli.h"
#include "select.h"

#include <ptxgen/step.h>

/// A plan of one tensor.
struct step_text {
    struct ptx_step_tensor tensor;
    struct ptx_step_group group;
    ptx_step_gradients gradients;
};

extern const char step_name[];    ///< "step"
extern const char step_summary[]; ///< as those of kernels in `ptxgen list`

/// Whether the word is "step".
bool is_step(const char *name);
/// The types that a parameter can have, in some format: a bit each. False: out of memory.
bool step_dtypes(uint32_t *dtypes, struct message *error);
/// Value `value` of option `option`, whose name goes to *name; NULL past the last.
const char *step_choice_at(size_t option, size_t value, const char **name);
/// From --set options; `dtype` NULL: the format's first.
bool step_text_select(struct step_text *step, const char *dtype, const struct cli_list *sets,
                      struct message *error);
/// A finished builder with the text, to be destroyed, or NULL; the selection's kernel is not read.
ptx_builder *step_text_emit(const struct step_text *step, const struct selection *selection,
                            struct message *error);
/// What `ptxgen info step` shows.
bool step_text_info(const struct step_text *step, bool json, struct message *error);

#endif
