// SPDX-License-Identifier: MIT
// Rules as data: writes the instruction of each operation.
#include "own_rule.h"

// Rounds an f64 to f32.
static ptx_val rounded(ptx_builder *b, ptx_val x)
{
    return ptx_cvt(b, PTX_F64, ptx_cvt(b, PTX_F32, x));
}

// The calls of operations that compute, by the number of their operands.
static const struct {
    ptx_val (*one)(ptx_builder *b, ptx_val x);
    ptx_val (*two)(ptx_builder *b, ptx_val x, ptx_val y);
    ptx_val (*three)(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z);
} calls[PTX_RULE_OP_COUNT] = {
    [PTX_RULE_ADD].two = ptx_add,         [PTX_RULE_SUB].two = ptx_sub,
    [PTX_RULE_MUL].two = ptx_mul,         [PTX_RULE_DIV].two = ptxk_own_rule_div,
    [PTX_RULE_FMA].three = ptx_fma,       [PTX_RULE_MIN].two = ptx_min,
    [PTX_RULE_MAX].two = ptx_max,         [PTX_RULE_SQRT].one = ptxk_own_rule_sqrt,
    [PTX_RULE_NEG].one = ptx_neg,         [PTX_RULE_ABS].one = ptx_abs,
    [PTX_RULE_F32].one = rounded,         [PTX_RULE_LT].two = ptx_lt,
    [PTX_RULE_LE].two = ptx_le,           [PTX_RULE_GT].two = ptx_gt,
    [PTX_RULE_GE].two = ptx_ge,           [PTX_RULE_EQ].two = ptx_eq,
    [PTX_RULE_NE].two = ptx_neu,          [PTX_RULE_AND].two = ptx_and,
    [PTX_RULE_OR].two = ptx_or,           [PTX_RULE_NOT].one = ptx_not,
    [PTX_RULE_SELECT].three = ptx_select,
};

// What an operation that computes gives, of operands of one type.
static ptx_val computed(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y, ptx_val z)
{
    if (calls[op].one)
        return calls[op].one(b, x);
    return calls[op].two ? calls[op].two(b, x, y) : calls[op].three(b, x, y, z);
}

// The results of operands, { 0 } for what is none.
static ptx_val result(const ptx_val *results, uint32_t k, uint32_t before)
{
    return k < before ? results[k] : (ptx_val) { 0 };
}

void ptxk_rule_program_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const struct ptx_rule_program *program = clock->user;
    ptx_val results[PTX_RULE_MAX_OPERATIONS];

    for (uint32_t k = 0; k < program->once_count; k++) {
        const struct ptx_rule_operation *op = &program->once[k];
        const ptx_val x = result(results, op->x, k);
        results[k] = (ptx_val) { 0 };
        switch (op->op) {
        case PTX_RULE_NUMBER:
            results[k] = ptx_f64(op->number);
            break;
        case PTX_RULE_SCALAR:
            results[k] = clock->scalar[op->x];
            break;
        case PTX_RULE_T:
            results[k] = ptx_cvt(b, PTX_F64, clock->t);
            break;
        case PTX_RULE_CLOCK:
            results[k] = clock->state[op->x];
            break;
        case PTX_RULE_POWER:
            results[k] = ptxk_step_power(b, x, clock->t);
            break;
        case PTX_RULE_SET_CLOCK:
            clock->new_state[op->y] = x;
            break;
        case PTX_RULE_SET_COEFFICIENT:
            clock->c[op->y] = x;
            break;
        default:
            results[k] =
                computed(b, op->op, x, result(results, op->y, k), result(results, op->z, k));
        }
    }
}

void ptxk_rule_program_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const struct ptx_rule_program *program = e->user;
    ptx_val results[PTX_RULE_MAX_OPERATIONS];

    for (uint32_t k = 0; k < program->update_count; k++) {
        const struct ptx_rule_operation *op = &program->update[k];
        const ptx_val x = result(results, op->x, k);
        results[k] = (ptx_val) { 0 };
        switch (op->op) {
        case PTX_RULE_NUMBER:
            results[k] = ptx_f32(op->number);
            break;
        case PTX_RULE_COEFFICIENT:
            results[k] = e->c[op->x];
            break;
        case PTX_RULE_P:
            results[k] = e->p;
            break;
        case PTX_RULE_G:
            results[k] = e->g;
            break;
        case PTX_RULE_STATE:
            results[k] = e->state[op->x];
            break;
        case PTX_RULE_SET_P:
            e->new_p = x;
            break;
        case PTX_RULE_SET_STATE:
            e->new_state[op->y] = x;
            break;
        default:
            results[k] =
                computed(b, op->op, x, result(results, op->y, k), result(results, op->z, k));
        }
    }
}
