// SPDX-License-Identifier: MIT
/// A plan where the command line names a kernel: the kernels of a plan of one tensor. Functions
/// that return false have set `error`.
#ifndef PTXGEN_TOOLS_PLAN_TEXT_H
#define PTXGEN_TOOLS_PLAN_TEXT_H

#include "cli.h"
#include "select.h"

enum {
    PLAN_OPTIONS = 16,       ///< most of a plan
    PLAN_ELEMENTS = 1 << 20, ///< of the plan's tensor
};

/// What a plan says of itself.
struct plan_facts {
    ptx_type dtype; ///< of the tensor
    int launches;
    uint64_t bytes; ///< read and written by a run
    const char *determinism;
};

/// An option of --set.
struct plan_option {
    const char *name, *summary;
    const char *values[12]; ///< NULL after the last; the first is the default
};

struct plan_text {
    const char *name, *summary;               ///< as those of kernels
    const char *tensor;                       ///< what its tensor is
    struct plan_option options[PLAN_OPTIONS]; ///< a name of NULL after the last
    /// Describes the plan with a value of each option, and writes its kernels if `b` is not NULL.
    /// The dtype PTX_NONE is the usual one for these values.
    ptx_status (*write)(ptx_builder *b, const unsigned *chosen, ptx_type dtype,
                        struct plan_facts *facts);
};

extern const struct plan_text plan_clip, plan_step;

/// Plans in the order of `ptxgen list`; NULL past the last.
const struct plan_text *plan_at(size_t k);
/// NULL: no plan has this name.
const struct plan_text *plan_find(const char *name);
/// The types that the tensor can have, with some value of an option: a bit each. False: out of
/// memory.
bool plan_dtypes(const struct plan_text *plan, uint32_t *dtypes, struct message *error);

/// A plan with its options chosen.
struct plan_choice {
    const struct plan_text *plan;
    unsigned chosen[PLAN_OPTIONS];
    ptx_type dtype;
    struct plan_facts facts;
};

/// From --set options; `dtype` NULL: the usual one.
bool plan_select(struct plan_choice *choice, const struct plan_text *plan, const char *dtype,
                 const struct cli_list *sets, struct message *error);
/// A finished builder with the text, to be destroyed, or NULL; the selection's kernel is not read.
ptx_builder *plan_emit(const struct plan_choice *choice, const struct selection *selection,
                       struct message *error);
/// What `ptxgen info` shows.
bool plan_info(const struct plan_choice *choice, bool json, struct message *error);

#endif
