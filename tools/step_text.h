// SPDX-License-Identifier: MIT
/// "step" where the command line names a kernel: the kernels of a step plan, for a rule and a
/// format. Functions that return false have set `error`.
#ifndef PTXGEN_TOOLS_STEP_TEXT_H
#define PTXGEN_TOOLS_STEP_TEXT_H

#include "cli.h"
#include "json.h"

#include <ptxgen/step.h>

/// A plan of one tensor.
struct step_text {
    struct ptx_step_tensor tensor;
    struct ptx_step_group group;
    ptx_step_gradients gradients;
};

/// Whether the word is "step".
bool is_step(const char *name);
/// From --set options; `dtype` NULL: the format's first.
bool step_text_select(struct step_text *step, const char *dtype, const struct cli_list *sets,
                      struct message *error);
/// A finished builder with the text, to be destroyed, or NULL.
ptx_builder *step_text_emit(const struct step_text *step, struct ptx_target target, int isa,
                            struct message *error);
/// What `ptxgen info step` shows.
bool step_text_info(const struct step_text *step, bool json, struct message *error);

#endif
