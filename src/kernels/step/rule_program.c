// SPDX-License-Identifier: MIT
// Rules as data: writes the instruction of each operation.
#include "own_rule.h"

// What an operation that computes gives, of operands of one type.
static ptx_val computed(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y, ptx_val z)
{
    switch (op) {
    case PTX_RULE_ADD:
        return ptx_add(b, x, y);
    case PTX_RULE_SUB:
        return ptx_sub(b, x, y);
    case PTX_RULE_MUL:
        return ptx_mul(b, x, y);
    case PTX_RULE_DIV:
        return ptxk_own_rule_div(b, x, y);
    case PTX_RULE_FMA:
        return ptx_fma(b, x, y, z);
    case PTX_RULE_MIN:
        return ptx_min(b, x, y);
    case PTX_RULE_MAX:
        return ptx_max(b, x, y);
    case PTX_RULE_SQRT:
        return ptxk_own_rule_sqrt(b, x);
    case PTX_RULE_NEG:
        return ptx_neg(b, x);
    case PTX_RULE_ABS:
        return ptx_abs(b, x);
    case PTX_RULE_F32:
        return ptx_cvt(b, PTX_F64, ptx_cvt(b, PTX_F32, x));
    case PTX_RULE_LT:
        return ptx_lt(b, x, y);
    case PTX_RULE_LE:
        return ptx_le(b, x, y);
    case PTX_RULE_GT:
        return ptx_gt(b, x, y);
    case PTX_RULE_GE:
        return ptx_ge(b, x, y);
    case PTX_RULE_EQ:
        return ptx_eq(b, x, y);
    case PTX_RULE_NE:
        return ptx_neu(b, x, y);
    case PTX_RULE_AND:
        return ptx_and(b, x, y);
    case PTX_RULE_OR:
        return ptx_or(b, x, y);
    case PTX_RULE_NOT:
        return ptx_not(b, x);
    default:
        return ptx_select(b, x, y, z);
    }
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
