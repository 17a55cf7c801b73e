// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_RULE_H
#define PTXGEN_PLANS_RULE_H

#include <ptxgen/error.h>
#include <ptxgen/rule.h>

#include "kernels/step/own_rule.h"

struct ptx_rule {
    struct ptxk_own_rule own;
    struct ptx_rule_info info;
    struct ptx_rule_program program;
    // Its own, if it is a program; then the names of the rule, the states and the scalars.
    struct ptx_rule_operation operations[];
};

// How many registers the values of a text's entry take at most, each from the first line that has
// it to the last; and the line, from 1, after which it is so. False: out of memory.
bool ptxp_rule_registers(const char *text, uint32_t *most, uint32_t *line);

// What a value of a scalar must be, rounded to f32 as rules use it, if it is not; else NULL.
const char *ptxp_rule_must_be(ptx_rule_range range, double x);
// Checks the params, but for what their functions write.
ptx_status ptxp_rule_check(const struct ptx_rule_params *params);

#endif
