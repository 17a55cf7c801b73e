// SPDX-License-Identifier: MIT
/// The library's own rules as rules of a caller, with its bits, for sets of a step fixture.
#ifndef PTXGEN_TESTS_PLANS_OWN_H
#define PTXGEN_TESTS_PLANS_OWN_H

#include "step_fixture.h"

/// Creates the rules, once for a test program; fails the test if that fails.
void own_rules_create(void);
void own_rules_destroy(void);
/// The rule that does what the group's does.
const ptx_rule *own_rule_of(const struct ptx_step_group *group);
/// A group with a caller's rule, whose scalars alone are set.
struct ptx_step_group own_group(const struct ptx_step_group *group, const ptx_rule *rule);
/// The groups of a set; those of the bits of `own` have a caller's rule.
void own_groups(const struct step_set *set, unsigned own, struct ptx_step_group *to);

#endif
