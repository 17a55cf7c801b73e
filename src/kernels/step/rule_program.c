// SPDX-License-Identifier: MIT
// Rules as data: writes the instruction of each operation.
#include <string.h>

#include "own_rule.h"

// The calls of operations that compute, by the number of their operands.
static const struct {
    ptx_val (*one)(ptx_builder *b, ptx_val x);
    ptx_val (*two)(ptx_builder *b, ptx_val x, ptx_val y);
    ptx_val (*three)(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z);
} calls[PTX_RULE_OP_COUNT] = {
    [PTX_RULE_ADD].two = ptx_add,
    [PTX_RULE_SUB].two = ptx_sub,
    [PTX_RULE_MUL].two = ptx_mul,
    [PTX_RULE_DIV].two = ptxk_own_rule_div,
    [PTX_RULE_FMA].three = ptx_fma,
    [PTX_RULE_MIN].two = ptx_min,
    [PTX_RULE_MAX].two = ptx_max,
    [PTX_RULE_SQRT].one = ptxk_own_rule_sqrt,
    [PTX_RULE_NEG].one = ptx_neg,
    [PTX_RULE_ABS].one = ptx_abs,
    [PTX_RULE_LT].two = ptx_lt,
    [PTX_RULE_LE].two = ptx_le,
    [PTX_RULE_GT].two = ptx_gt,
    [PTX_RULE_GE].two = ptx_ge,
    [PTX_RULE_EQ].two = ptx_eq,
    [PTX_RULE_NE].two = ptx_neu,
    [PTX_RULE_AND].two = ptx_and,
    [PTX_RULE_OR].two = ptx_or,
    [PTX_RULE_NOT].one = ptx_not,
    [PTX_RULE_SELECT].three = ptx_select,
    [PTX_RULE_EXP2].one = ptx_math_exp2,
    [PTX_RULE_EXPM1].one = ptx_math_expm1,
    [PTX_RULE_LOG2].one = ptx_math_log2,
    [PTX_RULE_LOG1P].one = ptx_math_log1p,
    [PTX_RULE_SIN].one = ptx_math_sin,
    [PTX_RULE_COS].one = ptx_math_cos,
    [PTX_RULE_TANH].one = ptx_math_tanh,
    [PTX_RULE_SIGMOID].one = ptx_math_sigmoid,
    [PTX_RULE_ERF].one = ptx_math_erf,
    [PTX_RULE_ERFC].one = ptx_math_erfc,
    [PTX_RULE_RSQRT].one = ptx_math_rsqrt,
    [PTX_RULE_EXP].one = ptxk_rule_exp,
    [PTX_RULE_LOG].one = ptxk_rule_log,
    [PTX_RULE_POW].two = ptxk_rule_pow,
};

ptx_val ptxk_rule_program_computed(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y, ptx_val z)
{
    if (calls[op].one)
        return calls[op].one(b, x);
    return calls[op].two ? calls[op].two(b, x, y) : calls[op].three(b, x, y, z);
}

// What the list under way reads and sets: one of these.
struct place {
    struct ptx_rule_clock *clock;
    struct ptx_rule_element *element;
    struct ptx_rule_sums *sums;
};

// What an operation gives that reads or sets something; { 0 } for what is none.
static ptx_val reached(ptx_builder *b, const struct ptx_rule_operation *op, const struct place *at,
                       ptx_val x)
{
    switch (op->op) {
    case PTX_RULE_NUMBER:
        return at->element ? ptx_f32(op->number) : ptx_f64(op->number);
    case PTX_RULE_SCALAR:
        return at->clock->scalar[op->x];
    case PTX_RULE_T:
        return ptx_cvt(b, PTX_F64, at->clock->t);
    case PTX_RULE_CLOCK:
        return at->clock->state[op->x];
    case PTX_RULE_POWER:
        return ptxk_own_rule_power(b, x, at->clock->t);
    case PTX_RULE_COEFFICIENT:
        return at->element ? at->element->c[op->x] : ptx_cvt(b, PTX_F64, at->sums->c[op->x]);
    case PTX_RULE_SUM:
        return at->sums->sum[op->x];
    case PTX_RULE_P:
        return at->element->p;
    case PTX_RULE_G:
        return at->element->g;
    case PTX_RULE_STATE:
        return at->element->state[op->x];
    case PTX_RULE_SET_CLOCK:
        at->clock->new_state[op->y] = x;
        break;
    case PTX_RULE_SET_COEFFICIENT:
        *(at->clock ? &at->clock->c[op->y] : &at->sums->c[op->y]) = x;
        break;
    case PTX_RULE_SET_P:
        at->element->new_p = x;
        break;
    case PTX_RULE_SET_STATE:
        at->element->new_state[op->y] = x;
        break;
    case PTX_RULE_SET_TERM:
        at->element->term[op->y] = x;
        break;
    default:
        break;
    }
    return (ptx_val) { 0 };
}

// How many results of others an operation takes: its first operands.
static unsigned operands_of(ptx_rule_op op)
{
    static const char *const shapes[PTX_RULE_OP_COUNT] = {
#define SHAPE(name, shape, ...) shape,
        PTX_RULE_OPS(SHAPE)
#undef SHAPE
    };

    return (unsigned)strspn(strchr(shapes[op], '=') + 1, "vp");
}

static bool takes(const struct ptx_rule_operation *op, uint32_t of)
{
    const uint32_t operands[] = { op->x, op->y, op->z };

    for (unsigned n = 0; n < operands_of(op->op); n++)
        if (operands[n] == of)
            return true;
    return false;
}

// What the operations of a list give: of `once` and `of_sums` in f64. What is an f32 there is in
// `narrow`, and in f64 only once an operation takes it so: conversions are slow.
struct results {
    ptx_val full[PTX_RULE_MAX_OPERATIONS], narrow[PTX_RULE_MAX_OPERATIONS];
};

static bool is_narrow(const struct results *of, uint32_t k)
{
    return of->narrow[k].type != PTX_NONE;
}

static ptx_val full(ptx_builder *b, struct results *of, uint32_t k)
{
    if (is_narrow(of, k) && of->full[k].type == PTX_NONE)
        of->full[k] = ptx_cvt(b, PTX_F64, of->narrow[k]);
    return of->full[k];
}

// Whether an operation in f64 takes f32s, and all that becomes of its result is rounded to f32. It
// has the same bits in f32 then: with 2 * 24 + 2 bits or more in between, sums, products, quotients
// and roots that are rounded twice are as if rounded once (Figueroa 1995), to the fewer bits of
// subnormal numbers, too.
static bool computes_in_f32(const struct ptx_rule_operation *ops, uint32_t count, uint32_t k,
                            const struct results *results)
{
    static const bool can[PTX_RULE_OP_COUNT] = {
        [PTX_RULE_ADD] = true, [PTX_RULE_SUB] = true,  [PTX_RULE_MUL] = true,
        [PTX_RULE_DIV] = true, [PTX_RULE_SQRT] = true,
    };
    const uint32_t operands[] = { ops[k].x, ops[k].y };

    if (!can[ops[k].op])
        return false;
    for (unsigned n = 0; n < operands_of(ops[k].op); n++)
        if (!is_narrow(results, operands[n]))
            return false;
    for (uint32_t n = k + 1; n < count; n++)
        if (takes(&ops[n], k) && ops[n].op != PTX_RULE_F32 && ops[n].op != PTX_RULE_SET_COEFFICIENT)
            return false;
    return true;
}

// Whether the operation gives or sets an f32 where others of its list give f64s.
static bool run_narrow(ptx_builder *b, const struct ptx_rule_operation *ops, uint32_t count,
                       uint32_t k, const struct place *at, struct results *results)
{
    const struct ptx_rule_operation *op = &ops[k];
    const ptx_val *narrow = results->narrow;

    if (op->op == PTX_RULE_F32)
        results->narrow[k] =
            is_narrow(results, op->x) ? narrow[op->x] : ptx_cvt(b, PTX_F32, results->full[op->x]);
    else if (op->op == PTX_RULE_SET_COEFFICIENT && is_narrow(results, op->x))
        (void)reached(b, op, at, narrow[op->x]);
    else if (computes_in_f32(ops, count, k, results))
        results->narrow[k] =
            ptxk_rule_program_computed(b, op->op, narrow[op->x], narrow[op->y], (ptx_val) { 0 });
    else
        return false;
    return true;
}

static void run(ptx_builder *b, const struct ptx_rule_operation *ops, uint32_t count,
                const struct place *at)
{
    struct results results;

    for (uint32_t k = 0; k < count; k++) {
        const ptx_rule_op op = ops[k].op;
        const uint32_t operands[] = { ops[k].x, ops[k].y, ops[k].z };
        ptx_val of[3] = { { 0 } };
        results.full[k] = results.narrow[k] = (ptx_val) { 0 };
        if (!at->element && run_narrow(b, ops, count, k, at, &results))
            continue;
        for (unsigned n = 0; n < operands_of(op); n++)
            of[n] = full(b, &results, operands[n]);
        const bool computes = calls[op].one || calls[op].two || calls[op].three;
        results.full[k] = computes ? ptxk_rule_program_computed(b, op, of[0], of[1], of[2])
                                   : reached(b, &ops[k], at, of[0]);
    }
}

void ptxk_rule_program_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const struct ptx_rule_program *program = clock->user;

    run(b, program->once, program->once_count, &(struct place) { .clock = clock });
}

void ptxk_rule_program_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const struct ptx_rule_program *program = e->user;

    run(b, program->update, program->update_count, &(struct place) { .element = e });
}

void ptxk_rule_program_reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    const struct ptx_rule_program *program = e->user;

    run(b, program->reduce, program->reduce_count, &(struct place) { .element = e });
}

void ptxk_rule_program_of_sums(ptx_builder *b, struct ptx_rule_sums *sums)
{
    const struct ptx_rule_program *program = sums->user;

    run(b, program->of_sums, program->of_sums_count, &(struct place) { .sums = sums });
}
