// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_RULE_H
#define PTXGEN_PLANS_RULE_H

#include <ptxgen/rule.h>

#include "kernels/step/own_rule.h"

struct ptx_rule {
    struct ptxk_own_rule own;
    struct ptx_rule_info info;
    char names[]; // of the rule, the states and the scalars
};

#endif
