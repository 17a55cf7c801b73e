// SPDX-License-Identifier: MIT
// Checks of what a caller's rule is as data.
#include "rule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/error.h"

enum { MOST_OF_NAME = 48 };

// ---- states, scalars ----------------------------------------------------------------------------

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
    if (state->output && state->start_p)
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "state %s: it is an output, only written, and start_p is set: leave one out",
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

const char *ptxp_rule_must_be(ptx_rule_range range, double x)
{
    const bool finite = isfinite((float)x);

    switch (range) {
    case PTX_RULE_RANGE_AT_LEAST_0:
        return x >= 0 && finite ? NULL : "finite in f32, and 0 or more";
    case PTX_RULE_RANGE_BELOW_1:
        return x >= 0 && (float)x < 1.0f ? NULL : "0 or more, and below 1 when rounded to f32";
    case PTX_RULE_RANGE_UP_TO_1:
        return x >= 0 && x <= 1 ? NULL : "from 0 to 1";
    default:
        return finite ? NULL : "finite in f32";
    }
}

static ptx_status check_scalar(const struct ptx_rule_params *params, unsigned k)
{
    const struct ptx_rule_scalar *scalar = &params->scalars[k];

    if (!is_name(scalar->name))
        return refuse_name("the name of a scalar", scalar->name);
    if (!strcmp(scalar->name, ptxk_step_ema_decay.name))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "a scalar has the name %s, which is that of the plan's own averages",
                         scalar->name);
    for (unsigned n = 0; n < PTX_STEP_MAX_STATES && params->states[n].name; n++)
        if (!strcmp(params->states[n].name, scalar->name))
            return ptxd_fail(PTX_ERROR_INVALID, "state %u and scalar %u have the name %s", n, k,
                             scalar->name);
    for (unsigned n = 0; n < k; n++)
        if (!strcmp(params->scalars[n].name, scalar->name))
            return ptxd_fail(PTX_ERROR_INVALID, "scalars %u and %u have the name %s", n, k,
                             scalar->name);
    if ((unsigned)scalar->range > PTX_RULE_RANGE_UP_TO_1)
        return ptxd_fail(PTX_ERROR_INVALID, "scalar %s: range is %d; there are %d to %d",
                         scalar->name, (int)scalar->range, PTX_RULE_RANGE_FINITE,
                         PTX_RULE_RANGE_UP_TO_1);
    const char *const must = ptxp_rule_must_be(scalar->range, scalar->usual);
    if (must)
        return ptxd_fail(PTX_ERROR_INVALID, "scalar %s: usual is %.15g; it must be %s",
                         scalar->name, scalar->usual, must);
    return PTX_OK;
}

// What follows one without a name is lost, as it ends the list.
static ptx_status check_ends(const struct ptx_rule_params *params)
{
    unsigned end = 0, outputs = 0;

    for (; end < PTX_STEP_MAX_STATES && params->states[end].name; end++)
        outputs += params->states[end].output;
    if (end - outputs > PTX_RULE_MAX_STATES)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%u states that are no outputs; a rule has %d at most, beside outputs",
                         end - outputs, PTX_RULE_MAX_STATES);
    for (unsigned k = end; k < PTX_STEP_MAX_STATES; k++)
        if (params->states[k].name)
            return ptxd_fail(PTX_ERROR_INVALID, "state %u is %s, and state %u has no name", k,
                             params->states[k].name, end);
    for (end = 0; end < PTX_STEP_MAX_SCALARS && params->scalars[end].name;)
        end++;
    for (unsigned k = end; k < PTX_STEP_MAX_SCALARS; k++)
        if (params->scalars[k].name)
            return ptxd_fail(PTX_ERROR_INVALID, "scalar %u is %s, and scalar %u has no name", k,
                             params->scalars[k].name, end);
    return PTX_OK;
}

// ---- programs -----------------------------------------------------------------------------------

static const struct row {
    const char *name, *shape;
    unsigned where;
} rows[PTX_RULE_OP_COUNT] = {
#define ROW(name, shape, where, meaning) { #name, shape, where },
    PTX_RULE_OPS(ROW)
#undef ROW
};

// One of a program's lists.
struct listing {
    const char *name;
    unsigned where;
    const struct ptx_rule_operation *at;
    uint32_t count;
    const struct ptx_rule_params *params;
};

// How many there are of what an operation has an index of.
static uint32_t limit_of(const struct ptx_rule_params *params, ptx_rule_op op)
{
    uint32_t n = 0;

    switch (op) {
    case PTX_RULE_SCALAR:
        while (n < PTX_STEP_MAX_SCALARS && params->scalars[n].name)
            n++;
        return n;
    case PTX_RULE_STATE:
    case PTX_RULE_SET_STATE:
        while (n < PTX_STEP_MAX_STATES && params->states[n].name)
            n++;
        return n;
    case PTX_RULE_CLOCK:
    case PTX_RULE_SET_CLOCK:
        return params->clock_states;
    case PTX_RULE_SUM:
    case PTX_RULE_SET_TERM:
        return params->sums;
    default:
        return PTX_RULE_MAX_COEFFICIENTS;
    }
}

static ptx_status check_operand(const struct listing *list, uint32_t k, char kind, uint32_t operand)
{
    const struct ptx_rule_operation *op = &list->at[k];
    const char *const name = rows[op->op].name;
    const uint32_t limit = limit_of(list->params, op->op);

    if (kind == 'i' && operand >= limit)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "operation %" PRIu32 " of %s, %s, has the index %" PRIu32
                         "; it must be below %" PRIu32,
                         k, list->name, name, operand, limit);
    if (kind == 'i')
        return PTX_OK;
    if (operand >= k)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "operation %" PRIu32 " of %s, %s, takes the result of %" PRIu32
                         ", which is not before it",
                         k, list->name, name, operand);
    const struct row *from = &rows[list->at[operand].op];
    if (from->shape[0] != kind)
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "operation %" PRIu32 " of %s, %s, takes the result of %" PRIu32 ", %s, which is no %s",
            k, list->name, name, operand, from->name, kind == 'p' ? "predicate" : "value");
    return PTX_OK;
}

static ptx_status check_operation(const struct listing *list, uint32_t k)
{
    const struct ptx_rule_operation *op = &list->at[k];
    const uint32_t operand[] = { op->x, op->y, op->z };
    ptx_status status = PTX_OK;

    if ((unsigned)op->op >= PTX_RULE_OP_COUNT)
        return ptxd_fail(PTX_ERROR_INVALID, "operation %" PRIu32 " of %s is %d; there are 0 to %d",
                         k, list->name, (int)op->op, PTX_RULE_OP_COUNT - 1);
    const struct row *row = &rows[op->op];
    if (!(row->where & list->where))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "operation %" PRIu32 " of %s is %s, which is not for it", k, list->name,
                         row->name);
    const char *kinds = strchr(row->shape, '=') + 1;
    for (unsigned n = 0; kinds[n] && kinds[n] != 'n' && !status; n++)
        status = check_operand(list, k, kinds[n], operand[n]);
    if (!status && op->op == PTX_RULE_STATE && list->params->states[op->x].output)
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "operation %" PRIu32 " of %s reads state %s, which is only written", k,
                           list->name, list->params->states[op->x].name);
    return status;
}

static ptx_status check_program(const struct ptx_rule_params *params)
{
    const struct ptx_rule_program *program = params->program;
    const struct listing lists[] = {
        { "once", 1, program->once, program->once_count, params },
        { "update", 2, program->update, program->update_count, params },
        { "reduce", 4, program->reduce, program->reduce_count, params },
        { "of_sums", 8, program->of_sums, program->of_sums_count, params },
    };
    const char *const more = params->once      ? "once"
                             : params->update  ? "update"
                             : params->reduce  ? "reduce"
                             : params->of_sums ? "of_sums"
                             : params->user    ? "user"
                                               : NULL;
    ptx_status status = PTX_OK;

    if (more)
        return ptxd_fail(PTX_ERROR_INVALID, "program is given, and so is %s: leave one out", more);
    for (unsigned n = 0; n < sizeof lists / sizeof *lists && !status; n++) {
        const struct listing *list = &lists[n];
        if (list->count > PTX_RULE_MAX_OPERATIONS || (list->count && !list->at))
            return ptxd_fail(
                PTX_ERROR_INVALID, "%s of the program is %" PRIu32 " operations%s; %d are the most",
                list->name, list->count, list->at ? "" : " at NULL", PTX_RULE_MAX_OPERATIONS);
        for (uint32_t k = 0; k < list->count && !status; k++)
            status = check_operation(list, k);
    }
    return status;
}

// ---- rules --------------------------------------------------------------------------------------

static ptx_status check_functions(const struct ptx_rule_params *params)
{
    if (!params->program && (!params->once || !params->update))
        return ptxd_fail(PTX_ERROR_INVALID, "%s is NULL", params->once ? "update" : "once");
    if (params->clock_states > PTX_RULE_MAX_CLOCK_STATES)
        return ptxd_fail(PTX_ERROR_INVALID, "clock_states is %" PRIu32 "; a rule has %d at most",
                         params->clock_states, PTX_RULE_MAX_CLOCK_STATES);
    if (params->sums > PTX_RULE_MAX_SUMS)
        return ptxd_fail(PTX_ERROR_INVALID, "sums is %" PRIu32 "; a rule has %d at most",
                         params->sums, PTX_RULE_MAX_SUMS);
    const struct ptx_rule_program *program = params->program;
    const bool reduces = program ? program->reduce_count > 0 : params->reduce != NULL;
    const bool follows = program ? program->of_sums_count > 0 : params->of_sums != NULL;
    if ((params->sums > 0) != reduces || (params->sums > 0) != follows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "sums is %" PRIu32
                         ", reduce is %s and of_sums is %s: a rule has all three, "
                         "or none",
                         params->sums, reduces ? "given" : "NULL", follows ? "given" : "NULL");
    return PTX_OK;
}

ptx_status ptxp_rule_check(const struct ptx_rule_params *params)
{
    ptx_status status = PTX_OK;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    if (!params->name)
        return ptxd_fail(PTX_ERROR_INVALID, "name is NULL");
    if (!is_name(params->name))
        return refuse_name("name", params->name);
    for (unsigned r = 0; r < PTX_STEP_RULE_COUNT; r++)
        if (!strcmp(ptxk_step_rule_of((ptx_step_rule)r)->name, params->name))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "name is %s, which is a rule of the library's: take another one",
                             params->name);
    status = check_ends(params);
    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name && !status; k++)
        status = check_state(params, k);
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name && !status; k++)
        status = check_scalar(params, k);
    if (!status)
        status = check_functions(params);
    return status || !params->program ? status : check_program(params);
}
