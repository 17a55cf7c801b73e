// SPDX-License-Identifier: MIT
// Rules of callers: checks of what is data, and a text that has their code.
#include "rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"

enum { MOST_OF_NAME = 48 };

// ---- checks -------------------------------------------------------------------------------------

static bool is_name(const char *name)
{
    const size_t length = strlen(name);

    return length && length <= MOST_OF_NAME && !(name[0] >= '0' && name[0] <= '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               length;
}

static ptx_status refuse_name(const char *what, const char *name)
{
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s is '%.64s'; it must have 1 to %d letters, digits and '_', and begin with "
                     "none of the digits",
                     what, name, MOST_OF_NAME);
}

static ptx_status check_state(const struct ptx_rule_params *params, unsigned k)
{
    const struct ptx_rule_state *state = &params->states[k];

    if (!is_name(state->name))
        return refuse_name("the name of a state", state->name);
    for (unsigned n = 0; n < k; n++)
        if (!strcmp(params->states[n].name, state->name))
            return ptxd_fail(PTX_ERROR_INVALID, "states %u and %u have the name %s", n, k,
                             state->name);
    if ((unsigned)state->kind > PTX_RULE_WEIGHT)
        return ptxd_fail(PTX_ERROR_INVALID, "state %s: kind is %d; there are %d to %d", state->name,
                         (int)state->kind, PTX_RULE_SIGNED, PTX_RULE_WEIGHT);
    if (state->dtype != PTX_NONE && state->dtype != PTX_F32 && state->dtype != PTX_F16 &&
        state->dtype != PTX_BF16)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "state %s: dtype is %s; it must be f32, f16 or bf16, or none", state->name,
                         ptx_type_name(state->dtype));
    if (state->output && state->dtype == PTX_NONE)
        return ptxd_fail(PTX_ERROR_INVALID, "state %s: an output needs a dtype of its own",
                         state->name);
    if (state->stochastic && state->dtype != PTX_NONE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "state %s: it is stochastic, and has a dtype of its own, to which it is "
                         "rounded to nearest: leave one out",
                         state->name);
    if (state->dtype == PTX_NONE && k && params->states[k - 1].dtype != PTX_NONE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "state %s follows %s, which has a dtype of its own: those come last",
                         state->name, params->states[k - 1].name);
    return PTX_OK;
}

static ptx_status check_scalar(const struct ptx_rule_params *params, unsigned k, unsigned *others)
{
    enum { MOST_OTHERS = sizeof((struct ptx_step_hyper *)0)->more / sizeof(double) };
    const struct ptx_rule_scalar *scalar = &params->scalars[k];

    if (!is_name(scalar->name))
        return refuse_name("the name of a scalar", scalar->name);
    if (!strcmp(scalar->name, ptxk_step_ema_decay.name))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "a scalar has the name %s, which is that of the plan's own averages",
                         scalar->name);
    for (unsigned n = 0; n < k; n++)
        if (!strcmp(params->scalars[n].name, scalar->name))
            return ptxd_fail(PTX_ERROR_INVALID, "scalars %u and %u have the name %s", n, k,
                             scalar->name);
    if ((unsigned)scalar->range > PTX_RULE_RANGE_UP_TO_1)
        return ptxd_fail(PTX_ERROR_INVALID, "scalar %s: range is %d; there are %d to %d",
                         scalar->name, (int)scalar->range, PTX_RULE_RANGE_FINITE,
                         PTX_RULE_RANGE_UP_TO_1);
    *others += ptxk_own_rule_place(scalar->name) == UINT32_MAX;
    if (*others > MOST_OTHERS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "scalar %s: more than %d scalars have names that struct ptx_step_hyper "
                         "does not have",
                         scalar->name, MOST_OTHERS);
    return PTX_OK;
}

static ptx_status check_functions(const struct ptx_rule_params *params)
{
    if (!params->once || !params->update)
        return ptxd_fail(PTX_ERROR_INVALID, "%s is NULL", params->once ? "update" : "once");
    if (params->clock_states > PTX_RULE_MAX_CLOCK_STATES)
        return ptxd_fail(PTX_ERROR_INVALID, "clock_states is %" PRIu32 "; a rule has %d at most",
                         params->clock_states, PTX_RULE_MAX_CLOCK_STATES);
    if (params->sums > PTX_RULE_MAX_SUMS)
        return ptxd_fail(PTX_ERROR_INVALID, "sums is %" PRIu32 "; a rule has %d at most",
                         params->sums, PTX_RULE_MAX_SUMS);
    if (!params->sums != !params->reduce || !params->sums != !params->of_sums)
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "sums is %" PRIu32 ", reduce is %s and of_sums is %s: a rule has all three, "
            "or none",
            params->sums, params->reduce ? "given" : "NULL", params->of_sums ? "given" : "NULL");
    return PTX_OK;
}

static ptx_status check_params(const struct ptx_rule_params *params)
{
    ptx_status status = PTX_OK;
    unsigned others = 0;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    if (!params->name)
        return ptxd_fail(PTX_ERROR_INVALID, "name is NULL");
    if (!is_name(params->name))
        return refuse_name("name", params->name);
    for (unsigned r = 0; r < PTX_STEP_RULE_COUNT; r++)
        if (!strcmp(ptxk_step_rule_of((ptx_step_rule)r)->name, params->name))
            return ptxd_fail(PTX_ERROR_INVALID, "name is %s, which is a rule of the library's",
                             params->name);
    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name && !status; k++)
        status = check_state(params, k);
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name && !status; k++)
        status = check_scalar(params, k, &others);
    return status ? status : check_functions(params);
}

// ---- rules --------------------------------------------------------------------------------------

static size_t names_size(const struct ptx_rule_params *params)
{
    size_t size = strlen(params->name) + 1;

    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name; k++)
        size += strlen(params->states[k].name) + 1;
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name; k++)
        size += strlen(params->scalars[k].name) + 1;
    return size;
}

// Copies a name to `*to`, and moves that behind it.
static const char *kept(const char *name, char **to)
{
    char *const made = *to;
    const size_t size = strlen(name) + 1;

    memcpy(made, name, size);
    *to += size;
    return made;
}

static void copy(struct ptx_rule *rule, const struct ptx_rule_params *params)
{
    static atomic_uint_least64_t serials;
    struct ptx_rule_params *own = &rule->own.params;
    char *names = rule->names;

    *own = *params;
    own->name = kept(params->name, &names);
    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name; k++)
        own->states[k].name = kept(params->states[k].name, &names);
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name; k++)
        own->scalars[k].name = kept(params->scalars[k].name, &names);
    rule->own.serial = atomic_fetch_add(&serials, 1);
    ptxk_own_rule_set(&rule->own);
}

// Writes the rule's code, for what is found so.
static ptx_status try(struct ptx_rule *rule)
{
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 70 } });
    ptx_status status = PTX_OK;

    ptxk_own_rule_emit(b, &rule->own);
    if (!ptx_builder_finish(b))
        status =
            ptxd_fail(ptx_builder_out_of_memory(b) ? PTX_ERROR_OUT_OF_MEMORY : PTX_ERROR_INVALID,
                      "%s", ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return status;
}

static void note(struct ptx_rule *rule)
{
    const struct ptxk_step_rule *own = &rule->own.rule;

    rule->info = (struct ptx_rule_info) { .name = own->name,
                                          .version = rule->own.params.version,
                                          .states = own->states,
                                          .scalars = own->scalars,
                                          .clock_states = own->clock_states,
                                          .quick = own->quick };
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        rule->info.coefficients += rule->own.coefficients >> k & 1;
    for (uint32_t k = 0; k < own->scalars; k++)
        rule->info.place[k] = own->scalar[k].place;
}

ptx_rule *ptx_rule_create(const struct ptx_rule_params *params)
{
    ptx_status status = check_params(params);
    struct ptx_rule *rule = NULL;

    if (!status) {
        rule = calloc(1, sizeof *rule + names_size(params));
        if (!rule)
            status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a rule");
    }
    if (!status) {
        copy(rule, params);
        status = try(rule);
    }
    if (ptxd_named(status, __func__))
        ptx_rule_destroy(&rule);
    else
        note(rule);
    return rule;
}

void ptx_rule_destroy(ptx_rule **rule)
{
    if (!rule)
        return;
    free(*rule);
    *rule = NULL;
}

const struct ptx_rule_info *ptx_rule_get_info(const ptx_rule *rule)
{
    return rule ? &rule->info : NULL;
}

// ---- what functions of rules call
// ----------------------------------------------------------------

ptx_val ptx_rule_power(ptx_builder *b, ptx_val x, ptx_val t)
{
    if (x.type == PTX_F64 && t.type == PTX_U32 && t.kind != PTX_KIND_NUMBER)
        return ptxk_step_power(b, x, t);
    ptx_builder_fail(b, "ptx_rule_power: x is %s and t is %s; they must be f64 and u32",
                     ptx_type_name((ptx_type)x.type), ptx_type_name((ptx_type)t.type));
    return (ptx_val) { 0 };
}

ptx_val ptx_rule_div(ptx_builder *b, ptx_val x, ptx_val y)
{
    return ptxk_own_rule_div(b, x, y);
}

ptx_val ptx_rule_sqrt(ptx_builder *b, ptx_val x)
{
    return ptxk_own_rule_sqrt(b, x);
}

void ptx_rule_emit(ptx_builder *b, const ptx_rule *rule)
{
    if (!rule) {
        ptx_builder_fail(b, "ptx_rule_emit: rule is NULL");
        return;
    }
    struct ptxk_own_rule own = rule->own; // which is noted again
    own.rule.own = &own;
    own.rule.scalar = own.scalar;
    ptxk_own_rule_emit(b, &own);
}
