// SPDX-License-Identifier: MIT
/// Rules written as a caller writes them, for tests. Those to be created have no function here.
#ifndef PTXGEN_TESTS_PLANS_RULES_H
#define PTXGEN_TESTS_PLANS_RULES_H

#include <ptxgen/rule.h>

/// SGD with momentum, the average of its weights, and a copy of them in bf16, or none.
extern const struct ptx_rule_params averaged_params, averaged_with_copy_params;
/// Schedule-free SGD, with clock states; LAMB, with sums.
extern const struct ptx_rule_params schedule_free_params, lamb_params;

/// The library's own rules, with its bits. SGD is four: without momentum, and with it, which may be
/// nesterov's.
extern const struct ptx_rule_params own_adamw_params, own_adam_params, own_lion_params;
extern const struct ptx_rule_params own_sgd_params, own_sgd_momentum_params,
    own_sgd_nesterov_params;

#endif
