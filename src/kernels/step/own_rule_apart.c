// SPDX-License-Identifier: MIT
// The functions of a caller's rule in entries of their own.
#include "own_rule.h"

#include <stdio.h>

// In the order in which a step calls them.
enum function { ONCE, REDUCE, OF_SUMS, UPDATE };

static void write_once(ptx_builder *b, const struct ptxk_own_rule *own, ptx_val *c)
{
    struct ptxk_step_clock clock = { .rule = &own->rule };
    ptx_ptr count = ptx_param_ptr(b, PTX_F32, "step", .readonly = true);

    if (own->rule.scalars)
        clock.hyper = ptx_param_ptr(b, PTX_F64, "scalars", .readonly = true);
    clock.t = ptx_cvt(b, PTX_U32, ptx_load(b, count, 0));
    for (uint32_t k = 0; k < own->rule.clock_states; k++)
        clock.state[k] = ptx_load(b, ptx_ptr_cast(b, PTX_F64, count), 1 + k);
    own->rule.once(b, &clock, c);
}

// One of the others, with its own loads of the coefficients that are set.
static void write_other(ptx_builder *b, const struct ptxk_own_rule *own, enum function function,
                        ptx_val *c)
{
    enum { P = PTX_RULE_MAX_COEFFICIENTS, G, STATE };
    const struct ptxk_step_rule *rule = &own->rule;
    struct ptxk_step_element e = { .rule = rule };
    ptx_val term[PTX_RULE_MAX_SUMS], sum[PTX_RULE_MAX_SUMS];
    ptx_ptr values = ptx_param_ptr(b, PTX_F32, "values", .readonly = true), sums = { 0 };

    if (rule->sums)
        sums = ptx_param_ptr(b, PTX_F64, "sums", .readonly = true);
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        if (c[k].type != PTX_NONE)
            c[k] = ptx_load(b, values, k);
    for (uint32_t k = 0; k < rule->sums; k++)
        sum[k] = ptx_load(b, sums, k);
    e.p = ptx_load(b, values, P);
    e.g = ptx_load(b, values, G);
    e.first = ptx_eq(b, e.p, 0);
    for (uint32_t k = 0; k < rule->states; k++)
        if (!rule->state[k].output)
            e.state[k] = ptx_load(b, values, STATE + k);
    if (function == REDUCE)
        rule->reduce(b, 0, c, &e, term);
    else if (function == OF_SUMS)
        rule->of_sums(b, rule, sum, c);
    else
        rule->update(b, 0, c, &e);
}

void ptxk_own_rule_emit_apart(ptx_builder *b, struct ptxk_own_rule *own)
{
    static const char *const names[] = { "once", "reduce", "of_sums", "update" };
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS] = { { 0 } };
    char name[128];

    own->divisors = own->reciprocals = 0;
    own->first_at = PTX_RULE_MAX_COEFFICIENTS;
    for (int k = ONCE; k <= UPDATE; k++) {
        if ((k == REDUCE || k == OF_SUMS) && !own->rule.sums)
            continue;
        snprintf(name, sizeof name, "%s_%s", own->rule.name, names[k]);
        ptx_entry (b, name, .block = { 32 }) {
            if (k == ONCE)
                write_once(b, own, c);
            else
                write_other(b, own, (enum function)k, c);
        }
    }
}
