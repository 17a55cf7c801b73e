// SPDX-License-Identifier: MIT
// What ptx_rule_create() refuses: what functions of rules may not write, or leave out, and what
// rules are not.
#include <string.h>

#include "plan_calls.h"
#include "test.h"

static void nothing_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[0] = clock->scalar[0];
}

static void expect_line(void)
{
    if (!strstr(ptx_error_message(), "test_rule_input.c:"))
        fail_msg("no line: %s", ptx_error_message());
}

static void plain_update(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, e->c[0], e->g));
    e->new_state[0] = e->g;
}

static void no_state(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_sub(b, e->p, e->g);
}

static void no_parameter(ptx_builder *b, struct ptx_rule_element *e)
{
    (void)b;
    e->new_state[0] = e->g;
}

static void other_type(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_state[0] = ptx_cvt(b, PTX_F64, e->g);
}

static void no_coefficient(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_mul(b, e->p, e->c[1]);
}

static void coefficient_alone(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = e->c[31];
}

static void quotient_of_none(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_rule_div(b, e->p, e->c[2]);
}

static void quotient_of_types(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_rule_div(b, e->p, ptx_cvt(b, PTX_F64, e->g));
}

static void invented(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = (ptx_val) { .type = PTX_F32 };
}

static void power_of_none(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_rule_exp(b, e->c[3]);
}

static void a_term(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->term[0] = ptx_mul(b, e->g, e->g);
}

static void a_term_of_p(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->term[0] = e->p;
}

// The first call's value, which another text has.
static void keeps_a_value(ptx_builder *b, struct ptx_rule_element *e)
{
    static ptx_val kept;

    plain_update(b, e);
    kept = kept.kind ? kept : e->new_p;
    e->new_state[0] = kept;
}

static void endless(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_loop (b)
        ptx_comment(b, "without an end");
}

static void endless_while(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_while (b, ptx_lt(b, e->p, 0))
        ptx_comment(b, "p stays");
}

static void store(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_store(b, (ptx_ptr) { 0 }, 0, e->p);
}

static void barrier(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_barrier(b);
}

static void thread(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_cvt(b, PTX_F32, ptx_tid(b, PTX_X));
}

static void text(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_asm(b, "membar.gl;");
}

static void approximation(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_ex2(b, e->p);
}

static void returns(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_return(b);
}

// All products are there before the first is added: more values than registers.
static void too_many(ptx_builder *b, struct ptx_rule_element *e)
{
    enum { VALUES = 300 };
    ptx_val value[VALUES];

    plain_update(b, e);
    for (unsigned k = 0; k < VALUES; k++)
        value[k] = ptx_mul(b, e->g, ptx_f32(k + 2));
    for (unsigned k = 0; k < VALUES; k++)
        e->new_p = ptx_mul(b, e->new_p, value[k]);
}

static void more_states(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_state[1] = ptx_mul(b, e->g, 2);
}

static void absent_state(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_add(b, e->p, e->state[1]);
}

static void wide_number(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_mul(b, e->p, ptx_f64(0.5));
}

static void integers(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_val k = ptx_cvt(b, PTX_S32, e->p);
    e->new_p = ptx_cvt(b, PTX_F32, ptx_div(b, k, 3));
}

static void remainder_of(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_val k = ptx_cvt(b, PTX_U32, e->p);
    e->new_p = ptx_cvt(b, PTX_F32, ptx_rem(b, k, k));
}

static void no_condition(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_select(b, e->p, e->p, e->g);
}

static void no_variable(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_set(b, e->p, e->g);
}

static void a_predicate(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_state[0] = ptx_lt(b, e->p, 0);
}

static void load(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_load(b, ptx_param_ptr(b, PTX_F32, "x"), 0);
}

static void prints(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_printf(b, "p");
}

static void calls(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_call(b, "square", e->p);
    e->new_state[0] = e->g;
}

static void entry(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_entry (b, "mine_too", .block = { 32 })
        ;
}

static void of_block(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val x = ptx_var(b, e->g);

    plain_update(b, e);
    ptx_if (b, ptx_lt(b, e->g, 0)) {
        e->new_p = ptx_mul(b, e->p, 2);
        ptx_set(b, x, e->new_p);
    }
}

static void of_block_in_sum(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val x = ptx_var(b, e->g);

    ptx_if (b, ptx_lt(b, e->g, 0)) {
        e->term[0] = ptx_mul(b, e->p, 2);
        ptx_set(b, x, e->p);
    }
}

// What C assigns in a block counts always.
static void assigns_in_if(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val g = e->g;

    plain_update(b, e);
    ptx_if (b, ptx_lt(b, ptx_mul(b, g, e->state[0]), 0))
        g = ptx_f32(0);
    e->new_p = ptx_sub(b, e->p, g);
}

static void assigns_in_else(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val x = ptx_var(b, e->g), y = e->p;

    plain_update(b, e);
    ptx_if (b, ptx_lt(b, e->g, 0)) {
        ptx_set(b, x, e->p);
    }
    ptx_else (b) {
        ptx_val unused = ptx_var(b, e->p);
        ptx_set(b, unused, ptx_mul(b, e->p, 2));
        y = ptx_f32(1);
    }
    e->new_p = ptx_add(b, x, y);
}

static void assigns_in_for(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_for (b, k, 0, 3, 1)
        e->new_p = e->g;
}

static void sets_in_blocks(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val x = ptx_var(b, e->g);

    plain_update(b, e);
    ptx_if (b, ptx_lt(b, e->g, 0)) {
        ptx_if (b, ptx_lt(b, e->p, 0))
            ptx_set(b, x, e->p);
    }
    ptx_else_if (b, ptx_gt(b, e->g, 2)) {
        ptx_for (b, k, 0, 3, 1) {
            ptx_if (b, ptx_gt(b, x, 8))
                ptx_break(b);
            ptx_set(b, x, ptx_mul(b, x, 2));
        }
    }
    ptx_else (b) {
        ptx_for_down (b, k, 3, 0, 1)
            ptx_set(b, x, ptx_add(b, x, 1));
    }
    e->new_p = ptx_add(b, x, e->p);
}

// Other code at the second call and after it.
static unsigned writes;
static void counts_calls(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    if (writes++)
        e->new_p = ptx_mul(b, e->p, 2);
}

// The same, where the first code of another file is written by the second call.
static void counts_elsewhere(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    if (writes++) {
        ptx_builder_place(b, "other.c:7");
        e->new_p = (ptx_neg)(b, e->new_p);
    }
}

static void counts_calls_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->scalar[0], ptx_f64(2 + writes++));
}

// A value that one function leaves to another, past `c`.
static ptx_val passed;
static void passes(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = passed = ptx_mul(b, clock->scalar[0], 2);
}

static void is_passed(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_mul(b, e->p, ptx_cvt(b, PTX_F32, passed));
}

static void passes_sum(ptx_builder *b, struct ptx_rule_sums *s)
{
    s->c[1] = passed = ptx_sqrt(b, s->sum[0]);
}

// The value of the last call.
static void keeps_operand(ptx_builder *b, struct ptx_rule_element *e)
{
    static ptx_val kept;

    plain_update(b, e);
    e->new_p = ptx_add(b, e->p, kept.kind ? kept : e->g);
    kept = ptx_mul(b, e->g, 3);
}

static void lanes(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_shfl_down(b, e->p, 1);
}

static void power_of_element(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_rule_power(b, e->p, ptx_cvt(b, PTX_U32, e->p));
}

static void open_block(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    ptx_if_begin(b, ptx_lt(b, e->p, 0));
}

static void no_term(ptx_builder *b, struct ptx_rule_element *e)
{
    (void)b, (void)e;
}

static void no_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    (void)b, (void)s;
}

static void a_square(ptx_builder *b, struct ptx_rule_element *e)
{
    e->term[0] = ptx_mul(b, e->g, e->g);
}

static void also_p(ptx_builder *b, struct ptx_rule_element *e)
{
    a_square(b, e);
    e->new_p = ptx_add(b, e->p, 1);
}

static void over_once(ptx_builder *b, struct ptx_rule_sums *s)
{
    s->c[0] = ptx_sqrt(b, s->sum[0]);
}

static void more_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    s->c[1] = ptx_sqrt(b, s->sum[1]);
}

static void of_output(ptx_builder *b, struct ptx_rule_element *e)
{
    plain_update(b, e);
    e->new_p = ptx_mul(b, e->state[0], 2);
}

static void no_clock_state(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->scalar[0], 2);
    clock->new_state[0] = clock->state[0];
}

#define PLAIN .name = "mine", .states = { { "m" } }, .scalars = { { "lr" } }, .once = nothing_once

static void last_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[0] = clock->c[PTX_RULE_MAX_COEFFICIENTS - 1] = clock->scalar[0];
}

static void of_count(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->scalar[0], clock->t);
}

static void absent_scalar(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->scalar[1], 2);
}

static void absent_clock_state(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_add(b, clock->state[0], 1);
}

static void a_count(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_add(b, clock->t, 1);
}

static void passes_scalar(ptx_builder *b, struct ptx_rule_clock *clock)
{
    ptx_val rate = ptx_mul(b, clock->scalar[0], 2);

    clock->c[0] = rate;
    clock->c[1] = clock->scalar[3];
}

static void before_it_is_set(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->c[1], 2);
}

static void keeps_no_state(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_mul(b, clock->scalar[0], 2);
    clock->new_state[0] = clock->state[0];
}

static void more_clock_states(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->new_state[0] = ptx_add(b, clock->scalar[0], 1);
}

static void of_f32(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_math_exp(b, clock->scalar[0]);
}

static const struct {
    void (*once)(ptx_builder *, struct ptx_rule_clock *);
    const char *words;
} wrong_once[] = {
    { of_count, "ptx_mul: x is f64 and y is u32; both must have the same type" },
    { absent_scalar, "ptx_mul: x was never set: it is scalar[1], and the rule has fewer scalars" },
    { absent_clock_state,
      "ptx_add: x was never set: it is state[0], and the rule has fewer clock states" },
    { passes_scalar, "once sets c[1] to scalar[3], and the rule has fewer scalars" },
    { before_it_is_set, "ptx_mul: x was never set: it is c[1], which once does not set" },
    { keeps_no_state, "once sets new_state[0], and the rule has 0 clock states" },
    { a_count, "once sets c[0] to a value of type u32; it must be f64 or f32" },
    { more_clock_states, "once sets new_state[0], and the rule has 0 clock states" },
    { of_f32, "ptx_math_exp: x is f64; it must be f32" },
};

TEST(test_functions)
{
    static const struct {
        void (*update)(ptx_builder *, struct ptx_rule_element *);
        const char *words;
    } wrong[] = {
        { no_state, "rule mine: update does not set new_state[0], m" },
        { no_parameter, "rule mine: update does not set new_p" },
        { other_type,
          "rule mine: update sets new_state[0] to a value of type f64; it must be f32" },
        { no_coefficient, "mine: ptx_mul: y was never set: it is c[1], which once does not set" },
        { coefficient_alone, "rule mine: update sets new_p to c[31], which once does not set" },
        { quotient_of_none, "ptx_rule_div: y was never set: it is c[2], which once does not set" },
        { quotient_of_types, "ptx_rule_div: x is f32 and y is f64; both must have the same type" },
        { invented, "rule mine: update sets new_p to a ptx_val that no call has made" },
        { power_of_none, "ptx_rule_exp: x was never set: it is c[3], which once does not set" },
        { a_term, "rule mine: update sets a term, which is for reduce alone" },
        { a_term_of_p, "rule mine: update sets a term, which is for reduce alone" },
        { keeps_a_value,
          "rule mine: update sets new_state[0] to a value of an earlier call: a rule" },
        { endless, "ptx_loop: a rule may have no ptx_while and no ptx_loop" },
        { endless_while, "ptx_while: a rule may have no ptx_while and no ptx_loop" },
        { store, "ptx_store: a rule may only compute values" },
        { barrier, "ptx_barrier: a rule may only compute values" },
        { thread, "ptx_tid: a rule may only compute values" },
        { text, "a rule may only compute values" },
        { approximation, "ptx_ex2: a rule may only compute values" },
        { returns, "ptx_return: a rule may only compute values" },
        { too_many, "rule mine: update has values of 3" },
        { too_many, "registers at one time, and a thread has 255: use values soon" },
        { more_states, "update sets new_state[1], and the rule has 1 state" },
        { absent_state, "ptx_add: y was never set: it is state[1], and the rule has fewer states" },
        { wide_number, "ptx_mul: x is f32 and y is f64; both must have the same type" },
        { integers, "ptx_div: a rule may not divide integers, here s32: by 0 a GPU gives any" },
        { remainder_of, "ptx_rem: a rule may not divide integers, here u32" },
        { no_condition, "ptx_select: the condition is f32; it must be pred" },
        { no_variable, "ptx_set: the first value is not a variable; ptx_var() makes one" },
        { a_predicate, "update sets new_state[0] to a value of type pred; it must be f32" },
        { load, "ptx_param_ptr: a rule may only compute values" },
        { prints, "ptx_printf: a rule may only compute values" },
        { calls, "ptx_call: a rule may only compute values" },
        { entry, "ptx_entry: entry 'mine' is still open" },
        { of_block, "rule mine: update sets new_p to a value that was made inside a block" },
        { assigns_in_if, "ptx_if: the block sets no variable, so it changes nothing" },
        { assigns_in_else, "ptx_else: the block sets no variable, so it changes nothing" },
        { assigns_in_for, "ptx_for: the block sets no variable, so it changes nothing" },
        { counts_calls, "rule mine: update writes other code when it is called again" },
        { keeps_operand, "ptx_add: y was made by an earlier call: a rule keeps no value" },
        { lanes, "ptx_shfl_down: a rule may only compute values" },
        { power_of_element, "ptx_rule_power: x is f32 and t is u32; they must be f64 and u32" },
        { open_block, "a block inside it was never closed" },
    };

    ptx_rule *good =
        made(ptx_rule_create(&(struct ptx_rule_params) { PLAIN, .update = sets_in_blocks }));
    ptx_rule_destroy(&good);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const struct ptx_rule_params params = { PLAIN, .update = wrong[k].update };
        expect_no_rule(&params, wrong[k].words);
        // All name the line, but of a function without a call, which no line of the text follows.
        if (wrong[k].update != no_parameter)
            expect_line();
        assert_null(strstr(ptx_error_message(), "\nafter "));
    }
    writes = 0;
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = counts_elsewhere },
                   "other.c:7: rule mine: update writes other code when it is called again");
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = plain_update, .sums = 1,
                                               .reduce = no_term, .of_sums = no_sums },
                   "rule mine: reduce does not set term[0]");
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = plain_update, .sums = 1,
                                               .reduce = also_p, .of_sums = no_sums },
                   "rule mine: reduce sets new_p, which is for update alone");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = plain_update, .sums = 1,
                                               .reduce = of_block_in_sum, .of_sums = no_sums },
                   "rule mine: reduce sets term[0] to a value that was made inside a block");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = is_passed, .sums = 1,
                                               .reduce = a_square, .of_sums = passes_sum },
                   "mine_update: ptx_cvt: x was made by an earlier call: a rule keeps no value");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { .name = "mine",
                                               .states = { { "m" } },
                                               .scalars = { { "lr" } },
                                               .once = passes,
                                               .update = is_passed },
                   "mine_update: ptx_cvt: x was made by an earlier call: a rule keeps no value");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { .name = "mine",
                                               .states = { { "m" } },
                                               .scalars = { { "lr" } },
                                               .once = counts_calls_once,
                                               .update = plain_update },
                   "rule mine: once writes other code when it is called again");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = plain_update, .sums = 1,
                                               .reduce = a_square, .of_sums = over_once },
                   "rule mine: of_sums sets c[0], which once has set: take another entry");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { PLAIN, .update = plain_update, .sums = 1,
                                               .reduce = a_square, .of_sums = more_sums },
                   "ptx_sqrt: x was never set: it is sum[1], and the rule has fewer sums");
    expect_line();
    expect_no_rule(
        &(struct ptx_rule_params) { .name = "mine",
                                    .states = { { "copy", .dtype = PTX_BF16, .output = true } },
                                    .scalars = { { "lr" } },
                                    .once = nothing_once,
                                    .update = of_output },
        "ptx_mul: x was never set: it is state[0], which is an output, only written");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { .name = "mine",
                                               .scalars = { { "lr" } },
                                               .once = no_clock_state,
                                               .update = no_state,
                                               .clock_states = 2 },
                   "rule mine: once does not set new_state[1]");
    expect_line();
    expect_no_rule(&(struct ptx_rule_params) { .name = "mine",
                                               .states = { { "m", .start_p = true } },
                                               .scalars = { { "lr" } },
                                               .once = last_once,
                                               .update = plain_update },
                   "rule mine: c[31] is set, and a state that starts as the parameter takes an "
                   "entry behind all others: set 31 at most");
    expect_line();
    for (unsigned k = 0; k < sizeof wrong_once / sizeof *wrong_once; k++) {
        expect_no_rule(&(struct ptx_rule_params) { .name = "mine",
                                                   .scalars = { { "lr" } },
                                                   .once = wrong_once[k].once,
                                                   .update = no_state },
                       wrong_once[k].words);
        expect_line();
    }
}

TEST(test_data)
{
    const struct ptx_rule_params good = { PLAIN, .update = plain_update };
    struct ptx_rule_params bad;
#define BAD(words, ...) (bad = good, __VA_ARGS__, expect_no_rule(&bad, words))

    ptx_rule *rule = made(ptx_rule_create(&good));
    ptx_rule_destroy(&rule);
    assert_null(rule);
    ptx_rule_destroy(&rule);
    assert_null(ptx_rule_get_info(NULL));
    expect_no_rule(NULL, "ptx_rule_create: params is NULL");
    BAD("name is NULL", bad.name = NULL);
    BAD("name is '1st'; it must have 1 to 48 letters, digits and '_'", bad.name = "1st");
    BAD("name is 'a b'", bad.name = "a b");
    BAD("name is adamw, which is a rule of the library's: take another one", bad.name = "adamw");
    BAD("update is NULL", bad.update = NULL);
    BAD("once is NULL", bad.once = NULL);
    BAD("the name of a state is ''", bad.states[0].name = "");
    BAD("states 0 and 1 have the name m", bad.states[1].name = "m");
    BAD("state m: kind is 3; there are 0 to 2", bad.states[0].kind = (ptx_rule_kind)3);
    BAD("state m: dtype is f64; it must be f32, f16 or bf16, or none",
        bad.states[0].dtype = PTX_F64);
    BAD("state m: an output needs a dtype of its own", bad.states[0].output = true);
    BAD("state m: it is an output, only written, and start_p is set: leave one out",
        bad.states[0].output = bad.states[0].start_p = true, bad.states[0].dtype = PTX_F32);
    BAD("5 states that are no outputs; a rule has 4 at most, beside outputs",
        bad.states[1].name = "n", bad.states[2].name = "o", bad.states[3].name = "p",
        bad.states[4].name = "q");
    BAD("state m: it is stochastic, and has a dtype of its own", bad.states[0].stochastic = true,
        bad.states[0].dtype = PTX_F32);
    BAD("state v follows m, which has a dtype of its own: those come last",
        bad.states[0].dtype = PTX_F32, bad.states[1].name = "v");
    BAD("the name of a scalar is 'l r'", bad.scalars[0].name = "l r");
    BAD("scalars 0 and 1 have the name lr", bad.scalars[1].name = "lr");
    BAD("scalar lr: range is 4; there are 0 to 3", bad.scalars[0].range = (ptx_rule_range)4);
    BAD("state 0 and scalar 1 have the name m", bad.scalars[1].name = "m");
    BAD("a scalar has the name ema_decay", bad.scalars[1].name = "ema_decay");
    BAD("state 2 is v, and state 1 has no name", bad.states[2].name = "v");
    BAD("scalar 3 is eps, and scalar 1 has no name", bad.scalars[3].name = "eps");
    BAD("scalar lr: usual is 2; it must be from 0 to 1",
        bad.scalars[0].range = PTX_RULE_RANGE_UP_TO_1, bad.scalars[0].usual = 2);
    BAD("clock_states is 5; a rule has 4 at most", bad.clock_states = 5);
    BAD("sums is 5; a rule has 4 at most", bad.sums = 5);
    BAD("sums is 1, reduce is NULL and of_sums is NULL: a rule has all three, or none",
        bad.sums = 1);
    BAD("sums is 0, reduce is given and of_sums is NULL", bad.reduce = no_term);
}

int main(void)
{
    return tests_run(NULL, NULL);
}
