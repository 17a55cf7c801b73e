// SPDX-License-Identifier: MIT
// Calls the functions of a caller's rule, and checks what they give.
#include "own_rule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "own_flow.h"

static const char within[] = "a rule";

// Of the function under way.
struct context {
    struct ptxk_quick *quick; // NULL: exact instructions
    struct ptxk_flow *flow;   // with quick
    bool divides;             // ptx_rule_div() or ptx_rule_sqrt() was called
    // Of `update`:
    const struct ptxk_own_rule *own;
    const ptx_val *c;
    uint32_t divisors; // bits: the coefficients by which it divided
};

uint32_t ptxk_own_rule_place(const char *name)
{
    static const struct {
        const char *name;
        uint32_t place;
    } members[] = {
        { "lr", S_LR },
        { "beta1", S_BETA1 },
        { "beta2", S_BETA2 },
        { "eps", S_EPS },
        { "weight_decay", S_WEIGHT_DECAY },
        { "momentum", S_MOMENTUM },
        { "dampening", S_DAMPENING },
    };

    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        if (!strcmp(members[k].name, name))
            return members[k].place;
    return UINT32_MAX;
}

// ---- what the functions get ---------------------------------------------------------------------

#define ENTRIES_4(X)  X(0), X(1), X(2), X(3)
#define ENTRIES_8(X)  ENTRIES_4(X), X(4), X(5), X(6), X(7)
#define ENTRIES_16(X) ENTRIES_8(X), X(8), X(9), X(10), X(11), X(12), X(13), X(14), X(15)
#define ENTRIES_32(X)                                                                              \
    ENTRIES_16(X), X(16), X(17), X(18), X(19), X(20), X(21), X(22), X(23), X(24), X(25), X(26),    \
        X(27), X(28), X(29), X(30), X(31)

// What entries are that have no value.
static const char *const entries[] = {
#define ENTRY(k) "c[" #k "], which once does not set"
    ENTRIES_32(ENTRY),
#undef ENTRY
#define ENTRY(k) "scalar[" #k "], and the rule has fewer scalars"
    ENTRIES_16(ENTRY),
#undef ENTRY
#define ENTRY(k) "state[" #k "], and the rule has fewer states"
    ENTRIES_8(ENTRY),
#undef ENTRY
#define ENTRY(k) "state[" #k "], and the rule has fewer clock states"
    ENTRIES_4(ENTRY),
#undef ENTRY
#define ENTRY(k) "sum[" #k "], and the rule has fewer sums"
    ENTRIES_4(ENTRY),
#undef ENTRY
#define ENTRY(k) "state[" #k "], which is an output, only written"
    ENTRIES_8(ENTRY),
#undef ENTRY
};
enum {
    OF_C,
    OF_SCALAR = OF_C + PTX_RULE_MAX_COEFFICIENTS,
    OF_STATE = OF_SCALAR + PTX_STEP_MAX_SCALARS,
    OF_CLOCK_STATE = OF_STATE + PTX_STEP_MAX_STATES,
    OF_SUM = OF_CLOCK_STATE + PTX_RULE_MAX_CLOCK_STATES,
    OF_OUTPUT = OF_SUM + PTX_RULE_MAX_SUMS,
    OF_ALL = OF_OUTPUT + PTX_STEP_MAX_STATES,
};
_Static_assert(sizeof entries / sizeof *entries == OF_ALL, "every entry has its words");

// Entries without a value say which they are by `reg`, where values have the number of a register.
enum { ABSENT = INT32_MAX - OF_ALL };

const char *ptxk_own_rule_absent(ptx_val x)
{
    const bool is = x.kind == PTX_KIND_POISON && x.type == PTX_NONE && x.reg >= ABSENT &&
                    x.reg < ABSENT + (uint32_t)OF_ALL;
    return is ? entries[x.reg - ABSENT] : NULL;
}

static void mark_absent(ptx_val *x, uint32_t count, uint32_t first)
{
    for (uint32_t k = 0; k < count; k++)
        if (x[k].type == PTX_NONE && !ptxk_own_rule_absent(x[k]))
            x[k] = (ptx_val) { .reg = ABSENT + first + k };
}

static void made(void *context, ptx_val result, ptx_opcode op, const ptx_val *operands)
{
    struct ptxk_flow *flow = ((struct context *)context)->flow;

    if (flow)
        ptxk_flow_made(flow, result, op, operands);
}

// From here on the code is the caller's.
static void restrict_to(ptx_builder *b, struct context *context)
{
    ptx_builder_restrict(b,
                         (struct ptx_restriction) { within, context, ptxk_own_rule_absent, made });
}

static void restrict_no_more(ptx_builder *b)
{
    ptx_builder_restrict(b, (struct ptx_restriction) { 0 });
}

static bool same_value(ptx_val x, ptx_val y)
{
    return x.bits == y.bits && x.reg == y.reg && x.kind == y.kind && x.type == y.type;
}

// ---- what the functions give --------------------------------------------------------------------

static const uint32_t no_index = UINT32_MAX;

// A value that a function had to set. Before other code is written, so that the last instruction,
// whose place errors have that are about no value, is the function's.
static ptx_val given(ptx_builder *b, const struct ptxk_step_rule *rule, const char *function,
                     ptx_val x, ptx_type type, const char *field, uint32_t k, const char *name)
{
    const char *const must = strcmp(field, "c") != 0 ? ptx_type_name(type) : "f64 or f32";
    char index[16] = "";

    if (k != no_index)
        snprintf(index, sizeof index, "[%" PRIu32 "]", k);
    if (ptxk_own_rule_absent(x))
        ptx_builder_fail_value(b, x, "rule %s: %s sets %s%s to %s", rule->name, function, field,
                               index, ptxk_own_rule_absent(x));
    else if (x.type == PTX_NONE)
        ptx_builder_fail_value(b, x, "rule %s: %s does not set %s%s%s%s", rule->name, function,
                               field, index, name ? ", " : "", name ? name : "");
    else if (x.type != type || x.kind == PTX_KIND_NUMBER)
        ptx_builder_fail_value(b, x, "rule %s: %s sets %s%s to %s %s; it must be %s", rule->name,
                               function, field, index,
                               x.kind == PTX_KIND_NUMBER ? "a number of type" : "a value of type",
                               ptx_type_name((ptx_type)x.type), must);
    else if (!ptx_builder_is_usable(b, x) && x.kind == PTX_KIND_POISON)
        ptx_builder_fail_value(b, x, "rule %s: %s sets %s%s to a ptx_val that no call has made",
                               rule->name, function, field, index);
    else if (!ptx_builder_is_usable(b, x))
        ptx_builder_fail_value(b, x,
                               "rule %s: %s sets %s%s to a value that was made inside a block that "
                               "is closed, so that it is not defined on every path; make a ptx_var "
                               "before the block and ptx_set it inside",
                               rule->name, function, field, index);
    return x;
}

// Values that were made while another text was written; `own` was made for this one.
static void none_kept(ptx_builder *b, const struct ptxk_step_rule *rule, const char *function,
                      const ptx_val *x, uint32_t count, const char *field, ptx_val own)
{
    for (uint32_t k = 0; k < count; k++)
        if ((x[k].kind == PTX_KIND_REGISTER || x[k].kind == PTX_KIND_VARIABLE) &&
            x[k].bits != own.bits)
            ptx_builder_fail_value(b, (ptx_val) { 0 },
                                   "rule %s: %s sets %s[%" PRIu32
                                   "] to a value of an earlier call: a rule is called several "
                                   "times, and keeps no value from one call to another",
                                   rule->name, function, field, k);
}

// Values that a function set beyond those that the rule has: `count` of `most`.
static void none_more(ptx_builder *b, const struct ptxk_step_rule *rule, const char *function,
                      const ptx_val *x, uint32_t count, uint32_t most, const char *field,
                      const char *what)
{
    for (uint32_t k = count; k < most; k++)
        if (x[k].type != PTX_NONE || ptxk_own_rule_absent(x[k]))
            ptx_builder_fail_value(
                b, x[k], "rule %s: %s sets %s[%" PRIu32 "], and the rule has %" PRIu32 " %s%s",
                rule->name, function, field, k, count, what, count == 1 ? "" : "s");
}

// A value that another function of the rule sets.
static void not_for(ptx_builder *b, const struct ptxk_step_rule *rule, const char *function,
                    ptx_val x, const char *field, const char *other)
{
    if (x.type != PTX_NONE || ptxk_own_rule_absent(x))
        ptx_builder_fail_value(b, x, "rule %s: %s sets %s, which is for %s alone", rule->name,
                               function, field, other);
}

// What an entry of `c` was set to that has no value, but for its own mark.
static bool is_other_absent(ptx_val x, uint32_t k)
{
    return ptxk_own_rule_absent(x) && x.reg != ABSENT + OF_C + k;
}

static bool is_wide(ptx_val x)
{
    return x.type == PTX_F64 && x.kind != PTX_KIND_NUMBER;
}

// Coefficients in f32; those that are not set stay.
static void coefficients(ptx_builder *b, const struct ptxk_step_rule *rule, const char *function,
                         const ptx_val *from, ptx_val *c)
{
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        if (from[k].type != PTX_NONE || is_other_absent(from[k], k))
            given(b, rule, function, from[k], is_wide(from[k]) ? PTX_F64 : PTX_F32, "c", k, NULL);
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        if (from[k].type != PTX_NONE)
            c[k] = is_wide(from[k]) ? ptx_cvt(b, PTX_F32, from[k]) : from[k];
}

// ---- the functions as those of struct ptxk_step_rule --------------------------------------------

// The reciprocals of divisors, from `first_reciprocal` on.
static void reciprocals(ptx_builder *b, const struct ptxk_own_rule *own, ptx_val *c)
{
    uint32_t at = own->first_reciprocal;

    if (own->reciprocals)
        ptx_comment(b, "reciprocals, NaN where quick quotients do not hold: none is used");
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS && own->reciprocals; k++) {
        if (!(own->divisors >> k & 1))
            continue;
        const struct ptxk_quick_divisor y = ptxk_quick_divisor(b, c[k]);
        c[at++] = y.reciprocal;
        c[at++] = y.rest;
    }
}

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const struct ptxk_step_rule *rule = clock->rule;
    const struct ptx_rule_params *params = &rule->own->params;
    struct ptx_rule_clock own = { .user = params->user, .t = clock->t };

    for (uint32_t k = 0; k < rule->scalars; k++) {
        ptx_val x = ptx_load(b, clock->hyper, rule->scalar[k].place);
        if (rule->scalar[k].place == S_LR && clock->lr_at.type != PTX_NONE) {
            x = ptx_var(b, x);
            ptx_if (b, ptx_ne(b, clock->lr_at, 0)) {
                ptx_ptr at = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, clock->lr_at);
                ptx_set(b, x, ptx_cvt(b, PTX_F64, ptx_load(b, at, 0)));
            }
            x = ptx_copy(b, x);
        }
        own.scalar[k] = x;
    }
    for (uint32_t k = 0; k < rule->clock_states; k++)
        own.state[k] = clock->state[k];
    struct context context = { .quick = NULL };
    mark_absent(own.c, PTX_RULE_MAX_COEFFICIENTS, OF_C);
    mark_absent(own.scalar, PTX_STEP_MAX_SCALARS, OF_SCALAR);
    mark_absent(own.state, PTX_RULE_MAX_CLOCK_STATES, OF_CLOCK_STATE);
    restrict_to(b, &context);
    params->once(b, &own);
    restrict_no_more(b);
    none_kept(b, rule, "once", own.c, PTX_RULE_MAX_COEFFICIENTS, "c", clock->t);
    none_kept(b, rule, "once", own.new_state, rule->clock_states, "new_state", clock->t);
    for (uint32_t k = 0; k < rule->clock_states; k++)
        clock->state[k] = given(b, rule, "once", own.new_state[k], PTX_F64, "new_state", k, NULL);
    none_more(b, rule, "once", own.new_state, rule->clock_states, PTX_RULE_MAX_CLOCK_STATES,
              "new_state", "clock state");
    coefficients(b, rule, "once", own.c, c);
    if (rule->own->first_at < PTX_RULE_MAX_COEFFICIENTS) {
        ptx_comment(b, "whether states start as the parameter");
        ptx_val is_first = ptx_eq(b, clock->t, 1);
        c[rule->own->first_at] = ptx_select(b, is_first, ptx_f32(1), 0);
    }
    reciprocals(b, rule->own, c);
}

static void element_of(ptx_builder *b, const ptx_val *c, const struct ptxk_step_element *e,
                       struct ptx_rule_element *own)
{
    const struct ptx_rule_params *params = &e->rule->own->params;
    ptx_val first = e->first;

    *own = (struct ptx_rule_element) { .user = params->user, .p = e->p, .g = e->g };
    memcpy(own->c, c, sizeof own->c);
    memcpy(own->state, e->state, sizeof own->state);
    for (uint32_t k = 0; k < e->rule->states; k++) {
        if (!params->states[k].start_p)
            continue;
        if (first.type == PTX_NONE)
            first = ptx_ne(b, c[e->rule->own->first_at], 0);
        own->state[k] = ptx_select(b, first, e->p, e->state[k]);
    }
    if (e->rule->own->first_at < PTX_RULE_MAX_COEFFICIENTS)
        own->c[e->rule->own->first_at] = (ptx_val) { 0 };
    for (uint32_t k = 0; k < e->rule->own->reciprocals; k++)
        own->c[e->rule->own->first_reciprocal + k] = (ptx_val) { 0 };
    mark_absent(own->c, PTX_RULE_MAX_COEFFICIENTS, OF_C);
    mark_absent(own->state, e->rule->states, OF_OUTPUT);
    mark_absent(own->state, PTX_STEP_MAX_STATES, OF_STATE);
}

// Calls `update` in a context.
static void updated(ptx_builder *b, const ptx_val *c, struct ptxk_step_element *e,
                    struct context *context)
{
    const struct ptxk_step_rule *rule = e->rule;
    const struct ptx_rule_params *params = &rule->own->params;
    struct ptx_rule_element own;

    element_of(b, c, e, &own);
    restrict_to(b, context);
    params->update(b, &own);
    restrict_no_more(b);
    none_kept(b, rule, "update", &own.new_p, 1, "new_p", e->p);
    none_kept(b, rule, "update", own.new_state, rule->states, "new_state", e->p);
    e->p = given(b, rule, "update", own.new_p, PTX_F32, "new_p", no_index, NULL);
    for (uint32_t k = 0; k < rule->states; k++)
        e->state[k] = given(b, rule, "update", own.new_state[k], PTX_F32, "new_state", k,
                            params->states[k].name);
    none_more(b, rule, "update", own.new_state, rule->states, PTX_STEP_MAX_STATES, "new_state",
              "state");
    for (uint32_t k = 0; k < PTX_RULE_MAX_SUMS; k++)
        not_for(b, rule, "update", own.term[k], "a term", "reduce");
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    struct context context = { .quick = e->quick, .own = e->rule->own, .c = c };
    struct ptxk_flow flow;

    (void)options;
    if (!e->quick) {
        updated(b, c, e, &context);
        return;
    }
    ptxk_quick_keep(b, e->quick);
    ptxk_flow_begin(b, &flow, e->quick);
    context.flow = &flow;
    updated(b, c, e, &context);
    // NaN is not rounded stochastically.
    for (uint32_t k = 0; k < e->rule->states; k++)
        if (e->rule->state[k].stochastic)
            ptxk_flow_note(b, &flow, e->state[k]);
    ptxk_flow_end(b, &flow, e->p);
}

static void reduce(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e,
                   ptx_val *term)
{
    const struct ptx_rule_params *params = &e->rule->own->params;
    struct ptx_rule_element own;
    struct context context = { .quick = NULL };

    (void)options;
    element_of(b, c, e, &own);
    restrict_to(b, &context);
    params->reduce(b, &own);
    restrict_no_more(b);
    none_kept(b, e->rule, "reduce", own.term, e->rule->sums, "term", e->p);
    for (uint32_t k = 0; k < e->rule->sums; k++)
        term[k] = given(b, e->rule, "reduce", own.term[k], PTX_F32, "term", k, NULL);
    none_more(b, e->rule, "reduce", own.term, e->rule->sums, PTX_RULE_MAX_SUMS, "term", "sum");
    not_for(b, e->rule, "reduce", own.new_p, "new_p", "update");
}

static void of_sums(ptx_builder *b, const struct ptxk_step_rule *rule, const ptx_val *sum,
                    ptx_val *c)
{
    const struct ptx_rule_params *params = &rule->own->params;
    struct ptx_rule_sums own = { .user = params->user };
    struct context context = { .quick = NULL };

    memcpy(own.sum, sum, rule->sums * sizeof *sum);
    memcpy(own.c, c, sizeof own.c);
    mark_absent(own.sum, PTX_RULE_MAX_SUMS, OF_SUM);
    mark_absent(own.c, PTX_RULE_MAX_COEFFICIENTS, OF_C);
    restrict_to(b, &context);
    params->of_sums(b, &own);
    restrict_no_more(b);
    none_kept(b, rule, "of_sums", own.c, PTX_RULE_MAX_COEFFICIENTS, "c", sum[0]);
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        if (c[k].type != PTX_NONE && !same_value(c[k], own.c[k]))
            ptx_builder_fail_value(b, own.c[k],
                                   "rule %s: of_sums sets c[%" PRIu32
                                   "], which once has set: take another entry",
                                   rule->name, k);
    coefficients(b, rule, "of_sums", own.c, c);
}

void ptxk_own_rule_set(struct ptxk_own_rule *own)
{
    const struct ptx_rule_params *params = &own->params;
    struct ptxk_step_rule *rule = &own->rule;
    uint32_t others = (uint32_t)PTXK_STEP_PLACE(more);

    *rule = (struct ptxk_step_rule) { .name = params->name,
                                      .own = own,
                                      .scalar = own->scalar,
                                      .clock_states = params->clock_states,
                                      .sums = params->sums,
                                      .once = once,
                                      .update = update,
                                      .reduce = params->sums ? reduce : NULL,
                                      .of_sums = params->sums ? of_sums : NULL };
    while (rule->states < PTX_STEP_MAX_STATES && params->states[rule->states].name) {
        const struct ptx_rule_state *state = &params->states[rule->states];
        rule->state[rule->states++] = (struct ptxk_step_state) { .kind = state->kind,
                                                                 .stochastic = state->stochastic,
                                                                 .type = state->dtype,
                                                                 .output = state->output };
    }
    while (rule->scalars < PTX_STEP_MAX_SCALARS && params->scalars[rule->scalars].name) {
        const struct ptx_rule_scalar *scalar = &params->scalars[rule->scalars];
        const uint32_t member = ptxk_own_rule_place(scalar->name);
        own->scalar[rule->scalars++] = (struct ptxk_step_scalar) {
            .name = scalar->name,
            .place = member == UINT32_MAX ? others++ : member,
            .range = scalar->range,
            .usual = scalar->usual,
        };
    }
}

// ---- quotients and roots ------------------------------------------------------------------------

// Lifts the restriction while the library emits; the caller restores it.
static struct context *context_of(ptx_builder *b, struct ptx_restriction *before)
{
    *before = ptx_builder_restrict(b, (struct ptx_restriction) { .absent = ptxk_own_rule_absent });
    return before->within == within ? before->context : NULL;
}

// Its loop ends.
ptx_val ptxk_own_rule_power(ptx_builder *b, ptx_val x, ptx_val t)
{
    struct ptx_restriction before;

    (void)context_of(b, &before);
    ptx_val power = ptxk_step_power(b, x, t);
    ptx_builder_restrict(b, before);
    return power;
}

double ptxk_own_rule_number(ptx_val x)
{
    double real;

    memcpy(&real, &x.bits, sizeof real);
    return x.type == PTX_F64 ? real : x.type == PTX_S64 ? (double)(int64_t)x.bits : (double)x.bits;
}

// A C number as an f32, which has no bits without its instruction.
static ptx_val as_f32(ptx_val x)
{
    return x.kind == PTX_KIND_NUMBER ? ptx_f32(ptxk_own_rule_number(x)) : x;
}

// The coefficient of `once` that a value is; PTX_RULE_MAX_COEFFICIENTS: none.
static uint32_t coefficient_of(const struct context *context, ptx_val x)
{
    uint32_t k = 0;

    while (context->own && k < PTX_RULE_MAX_COEFFICIENTS &&
           (!(context->own->coefficients >> k & 1) || !same_value(context->c[k], x)))
        k++;
    return context->own && x.kind == PTX_KIND_REGISTER ? k : PTX_RULE_MAX_COEFFICIENTS;
}

// x / y by the quick sequences; NaN or a failure where they do not hold.
static ptx_val quick_quotient(ptx_builder *b, const struct context *context, ptx_val x, ptx_val y)
{
    const struct ptxk_own_rule *own = context->own;
    const uint32_t k = coefficient_of(context, y);
    uint32_t at = own->first_reciprocal;

    if (!own->reciprocals || k == PTX_RULE_MAX_COEFFICIENTS || !(own->divisors >> k & 1))
        return ptxk_flow_in_range(b, context->flow, context->c, own->coefficients, &y)
                   ? ptxk_quick_div(b, context->quick, x, y)
                   : ptxk_quick_quotient(b, context->quick, x, y);
    for (uint32_t n = 0; n < k; n++)
        at += 2 * (own->divisors >> n & 1);
    const struct ptxk_quick_divisor divisor = { y, context->c[at], context->c[at + 1] };
    ptx_val scaled = ptxk_flow_scaled_root(context->flow, x);
    if (scaled.type == PTX_NONE)
        return ptxk_quick_over(b, context->quick, x, &divisor);
    ptxk_quick_at_least(b, context->quick, k, y);
    scaled = ptxk_quick_root_over(b, scaled, &divisor);
    ptx_val quotient = ptx_mul(b, scaled, 1 / PTXK_QUICK_SCALE);
    ptxk_flow_root(context->flow, (struct ptxk_flow_root) { quotient, scaled, true });
    return quotient;
}

static ptx_val flowing_quotient(ptx_builder *b, const struct context *context, ptx_val x, ptx_val y)
{
    const ptx_val operands[] = { as_f32(x), as_f32(y) };
    ptx_val quotient = quick_quotient(b, context, operands[0], operands[1]);

    ptxk_flow_made(context->flow, quotient, PTX_OP_div, operands);
    ptxk_flow_note(b, context->flow, quotient);
    return quotient;
}

static ptx_val flowing_root(ptx_builder *b, const struct context *context, ptx_val x)
{
    ptx_val scaled = ptxk_quick_root(b, x);
    ptx_val root = ptx_mul(b, scaled, 1 / PTXK_QUICK_SCALE);

    ptxk_flow_root(context->flow, (struct ptxk_flow_root) { root, scaled, false });
    ptxk_flow_made(context->flow, root, PTX_OP_sqrt, &x);
    ptxk_flow_note(b, context->flow, root);
    return root;
}

ptx_val ptxk_own_rule_div(ptx_builder *b, ptx_val x, ptx_val y)
{
    struct ptx_restriction before;
    struct context *context = context_of(b, &before);
    const bool is_f32 = (x.type == PTX_F32 || x.kind == PTX_KIND_NUMBER) &&
                        (y.type == PTX_F32 || y.kind == PTX_KIND_NUMBER) &&
                        (x.kind != PTX_KIND_NUMBER || y.kind != PTX_KIND_NUMBER);

    if (context && is_f32) {
        const uint32_t k = coefficient_of(context, y);
        context->divides = true;
        context->divisors |= k < PTX_RULE_MAX_COEFFICIENTS ? UINT32_C(1) << k : 0;
    }
    ptx_val quotient =
        context && context->quick && is_f32 ? flowing_quotient(b, context, x, y) : ptx_div(b, x, y);
    ptx_builder_restrict(b, before);
    return quotient;
}

ptx_val ptxk_own_rule_sqrt(ptx_builder *b, ptx_val x)
{
    struct ptx_restriction before;
    struct context *context = context_of(b, &before);
    ptx_val root;

    if (context && x.type == PTX_F32)
        context->divides = true;
    root = context && context->quick && x.type == PTX_F32 ? flowing_root(b, context, x)
                                                          : ptx_sqrt(b, x);
    ptx_builder_restrict(b, before);
    return root;
}

// ---- an entry to read, and to check -------------------------------------------------------------

// The sums and coefficients of an element, whose terms are written.
static void sums_emit(ptx_builder *b, const struct ptxk_step_rule *rule, ptx_val i, ptx_val *c,
                      const struct ptxk_step_element *e)
{
    ptx_ptr terms = ptx_param_ptr(b, PTX_F32, "terms", .writeonly = true);
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "sums", .readonly = true);
    struct ptxk_step_element own = *e;
    ptx_val term[PTX_RULE_MAX_SUMS] = { { 0 } }, sum[PTX_RULE_MAX_SUMS];

    ptx_comment(b, "reduce: the terms of the sums");
    rule->reduce(b, 0, c, &own, term);
    for (uint32_t k = 0; k < rule->sums; k++)
        ptx_store(b, terms, ptx_mad(b, i, rule->sums, k), term[k]);
    ptx_comment(b, "of_sums: what depends on them");
    for (uint32_t k = 0; k < rule->sums; k++)
        sum[k] = ptx_load(b, sums, k);
    rule->of_sums(b, rule, sum, c);
}

static bool starts_as_p(const struct ptx_rule_params *params)
{
    bool starts = false;

    for (uint32_t k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name; k++)
        starts = starts || params->states[k].start_p;
    return starts;
}

// Notes what is behind `c`: whether the step is the first, and the reciprocals of those divisors
// for which there is room.
static void places(ptx_builder *b, struct ptxk_own_rule *own, const ptx_val *c, uint32_t bits)
{
    uint32_t first = PTX_RULE_MAX_COEFFICIENTS;

    while (first && c[first - 1].type == PTX_NONE)
        first--;
    if (starts_as_p(&own->params)) {
        if (first == PTX_RULE_MAX_COEFFICIENTS)
            ptx_builder_fail_value(b, (ptx_val) { 0 },
                                   "rule %s: c[%d] is set, and a state that starts as the "
                                   "parameter takes an entry behind all others: set %d at most",
                                   own->rule.name, PTX_RULE_MAX_COEFFICIENTS - 1,
                                   PTX_RULE_MAX_COEFFICIENTS - 1);
        own->first_at = first++;
        own->rule.coefficients = first;
    }
    own->first_reciprocal = first;
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++) {
        if (!(bits >> k & 1) || first + own->reciprocals + 2 > PTX_RULE_MAX_COEFFICIENTS)
            continue;
        own->divisors |= UINT32_C(1) << k;
        own->reciprocals += 2;
        own->rule.coefficients = first + own->reciprocals;
    }
}

void ptxk_own_rule_emit(ptx_builder *b, struct ptxk_own_rule *own)
{
    static const char *const names[PTX_STEP_MAX_STATES] = {
        "state_0", "state_1", "state_2", "state_3", "state_4", "state_5", "state_6", "state_7",
    };
    const struct ptxk_step_rule *rule = &own->rule;
    struct ptxk_step_clock clock = { .rule = rule };
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS] = { { 0 } };
    struct context context = { .own = own, .c = c };
    ptx_ptr state[PTX_STEP_MAX_STATES];
    char length[16];

    snprintf(length, sizeof length, "%" PRIu32, ptxk_step_rule_places(rule));
    ptx_entry (b, rule->name, .block = { 32 }) {
        ptx_ptr count = ptx_param_ptr(b, PTX_F32, "step", .meaning = "the steps taken");
        if (rule->scalars)
            clock.hyper = ptx_param_ptr(b, PTX_F64, "scalars", .readonly = true, .length = length);
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), g = ptx_param_ptr(b, PTX_F32, "g");
        for (uint32_t k = 0; k < rule->states; k++)
            state[k] = ptx_param_ptr(b, PTX_F32, names[k], .meaning = own->params.states[k].name);
        ptx_val i = ptx_global_index(b, PTX_X);
        clock.t = ptx_cvt(b, PTX_U32, ptx_add(b, ptx_load(b, count, 0), 1));
        ptx_ptr clock_states = ptx_ptr_cast(b, PTX_F64, count);
        for (uint32_t k = 0; k < rule->clock_states; k++)
            clock.state[k] = ptx_load(b, clock_states, PTXK_STEP_CLOCK_STATE_AT + k);
        own->divisors = own->reciprocals = 0;
        own->first_at = PTX_RULE_MAX_COEFFICIENTS;
        ptx_comment(b, "once");
        rule->once(b, &clock, c);
        for (uint32_t k = 0; k < rule->clock_states; k++)
            ptx_store(b, clock_states, PTXK_STEP_CLOCK_STATE_AT + k, clock.state[k]);
        own->coefficients = 0;
        for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
            if (c[k].type != PTX_NONE) {
                own->coefficients |= UINT32_C(1) << k;
                own->rule.coefficients = k + 1;
            }
        struct ptxk_step_element e = { .p = ptx_load(b, p, i), .rule = rule };
        e.g = ptx_load(b, g, i);
        if (starts_as_p(&own->params))
            e.first = ptx_eq(b, clock.t, 1);
        for (uint32_t k = 0; k < rule->states; k++)
            if (!rule->state[k].output)
                e.state[k] = ptx_load(b, state[k], i);
        if (rule->sums)
            sums_emit(b, rule, i, c, &e);
        ptx_comment(b, "update");
        updated(b, c, &e, &context);
        own->rule.quick = context.divides;
        places(b, own, c, context.divisors);
        ptx_store(b, p, i, e.p);
        for (uint32_t k = 0; k < rule->states; k++)
            ptx_store(b, state[k], i, e.state[k]);
    }
}
