// SPDX-License-Identifier: MIT
/// An optimizer's rule that a program writes, for step plans (step.h): two functions that write
/// code with the builder. The plan does the rest, as it does for the rules of rules.h: norm,
/// clipping, loss scale, guards, formats of parameters and states, shards, graphs.
///
///     // RMSprop with decoupled weight decay.
///     enum { LR, ALPHA, EPS, WEIGHT_DECAY };     // the scalars, in their order
///     enum { STEP, KEPT, NEW, SMALL, DECAY };    // what `once` gives to `update`
///
///     static void once(ptx_builder *b, struct ptx_rule_clock *clock)
///     {
///         const ptx_val *s = clock->scalar;      // f64
///         clock->c[STEP] = s[LR];                // rounded to f32 here
///         clock->c[KEPT] = s[ALPHA];
///         clock->c[NEW] = ptx_sub(b, 1, s[ALPHA]);
///         clock->c[SMALL] = s[EPS];
///         clock->c[DECAY] = ptx_mul(b, s[LR], s[WEIGHT_DECAY]);
///     }
///
///     static void update(ptx_builder *b, struct ptx_rule_element *e)
///     {
///         const ptx_val *c = e->c;
///         ptx_val gg = ptx_mul(b, e->g, e->g);
///         ptx_val v = ptx_add(b, ptx_mul(b, c[KEPT], e->state[0]), ptx_mul(b, c[NEW], gg));
///         ptx_val size = ptx_add(b, ptx_rule_sqrt(b, v), c[SMALL]);
///         ptx_val p = ptx_sub(b, e->p, ptx_mul(b, c[DECAY], e->p));
///         e->new_p = ptx_sub(b, p, ptx_mul(b, c[STEP], ptx_rule_div(b, e->g, size)));
///         e->new_state[0] = v;
///     }
///
///     ptx_rule *rmsprop = ptx_rule_create(&(struct ptx_rule_params){
///         .name = "rmsprop", .version = 1,
///         .states = { { "square_avg", PTX_RULE_POSITIVE } },
///         .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-2 },
///                      { "alpha", PTX_RULE_RANGE_BELOW_1, 0.99 },
///                      { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-8 }, { "weight_decay" } },
///         .once = once, .update = update });
///     ...
///     const struct ptx_step_group group = { .own_rule = rmsprop, .hyper = { .lr = 1e-3, ... } };
///
/// `once` computes in f64 what depends on the scalars and the step number alone: once a run for
/// each group and step count. `update` computes an element in f32. Each call is one instruction
/// with one rounding, in the order in which they are written, so the results are the same on every
/// GPU and on the emulator. The functions are called when a rule is created, to check it, and when
/// a plan's text is written, several times in both, and must write the same each time: they keep no
/// value from one call to another, and leave values to each other in `c` alone. Creation compares
/// ten calls of each, and refuses a rule of which one writes other code; a plan writes its text
/// twice, and is refused where the two differ. They see numbers, never addresses, threads or
/// formats, and may call what ptx_builder_restrict() allows: any other call is an error of
/// ptx_rule_create(), which names its line in the caller's source. So is a loop that counts
/// nothing; how far a ptx_for counts is the caller's. Options, such as nesterov, are C's: the
/// functions write other code for another `user`.
///
/// docs/rules.md is a guide.
#ifndef PTXGEN_RULE_H
#define PTXGEN_RULE_H

#include <ptxgen/builder.h>
#include <ptxgen/rules.h>

PTXGEN_BEGIN

/// What a rule has at most, beside PTX_STEP_MAX_STATES, PTX_STEP_MAX_SCALARS and
/// PTX_RULE_MAX_OPERATIONS: states that are no outputs, numbers that last, entries of `c`, and
/// terms of sums. States, outputs and the average of the weights are PTX_STEP_MAX_STATES together.
enum {
    PTX_RULE_MAX_STATES = 4,
    PTX_RULE_MAX_CLOCK_STATES = 4,
    PTX_RULE_MAX_COEFFICIENTS = 32,
    PTX_RULE_MAX_SUMS = 4
};

// ------------------------------------------------------------------------------ states and scalars

/// What a format may assume of a state.
typedef enum ptx_rule_kind {
    PTX_RULE_SIGNED,
    PTX_RULE_POSITIVE, ///< never below 0: the unsigned map of STATE_8BIT, else a root
    PTX_RULE_WEIGHT,   ///< of a parameter's precision: in no format with blocks
} ptx_rule_kind;

/// An array beside the parameter, with an element for each of its elements; zeros initially, or the
/// parameter. A state that begins elsewhere selects by the step number, which is 1 at the first
/// step.
struct ptx_rule_state {
    const char *name; ///< "exp_avg"; NULL: there is no such state, nor any after it
    ptx_rule_kind kind;
    /// Formats with random bits for states round it by them (STOCHASTIC); else to nearest.
    bool stochastic;
    /// PTX_F32, PTX_F16 or PTX_BF16: its type in every format, rounded to nearest; such states
    /// follow the others, and are no part of blocks. PTX_NONE: as the format stores states.
    ptx_type dtype;
    bool output; ///< only written, as a copy of the weights: `update` finds nothing there. It has a
                 ///< dtype
    /// The step with the number 1 finds the parameter there, as `update` gets it, whatever the
    /// array has. A tensor that shares its count and has no gradient in that step begins with its
    /// array. Such states take an entry of `c` together, which is not shown.
    bool start_p;
};

/// The values of a scalar that a plan accepts, checked as an f32.
typedef enum ptx_rule_range {
    PTX_RULE_RANGE_FINITE,
    PTX_RULE_RANGE_AT_LEAST_0, ///< and finite
    PTX_RULE_RANGE_BELOW_1,    ///< and at least 0
    PTX_RULE_RANGE_UP_TO_1,    ///< and at least 0
} ptx_rule_range;

/// A scalar: a double of the group's struct ptx_step_hyper. One whose name is a member there (lr,
/// beta1, beta2, eps, weight_decay, momentum, dampening) is that member; the others are more[0],
/// more[1] and on, in their order. lr may be lr_at's. No state has the name of a scalar.
struct ptx_rule_scalar {
    const char *name; ///< NULL: there is no such scalar, nor any after it
    ptx_rule_range range;
    double usual; ///< the default, for those who fill groups by name; plans do not use it
};

// --------------------------------------------------------------------------------------- functions

/// What `once` gets and sets. Unset values are { 0 }.
struct ptx_rule_clock {
    const void *user;                     ///< that of the params
    ptx_val scalar[PTX_STEP_MAX_SCALARS]; ///< f64, in the order of the params
    ptx_val t; ///< u32: the number of this step, from 1. ptx_cvt(b, PTX_F64, t) is an f64
    ptx_val state[PTX_RULE_MAX_CLOCK_STATES]; ///< f64: as the last step left them, zeros at first
    ptx_val new_state[PTX_RULE_MAX_CLOCK_STATES]; ///< f64, to be set: all of them
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS]; ///< to be set, f64 or f32: what `update` gets, as f32s.
                                          ///< What is not set `update` must not use
};

/// What `update` and `reduce` get of an element, and set. All that they get is f32.
struct ptx_rule_element {
    const void *user;
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS]; ///< from `once`, and those of `of_sums`
    ptx_val p, g; ///< the parameter; the gradient times its norm group's factor, or minus that
    ptx_val state[PTX_STEP_MAX_STATES]; ///< but outputs
    /// To be set by `update`, f32: all of them.
    ptx_val new_p, new_state[PTX_STEP_MAX_STATES];
    /// To be set by `reduce`, f32: all of them. It does not set new_p; its new_state is not read.
    ptx_val term[PTX_RULE_MAX_SUMS];
};

/// What `of_sums` gets and sets.
struct ptx_rule_sums {
    const void *user;
    ptx_val sum[PTX_RULE_MAX_SUMS];       ///< f64
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS]; ///< f32, from `once`. It may set others, f64 or f32, but
                                          ///< none of those
};

/// x^t, for an f64 x and a u32 t: by squaring and multiplying over the bits of t, the most
/// significant first, each product rounded. 1 - beta^t of the library's own rules is this with an x
/// that was rounded to f32 first. Other types are errors of the builder.
PTXGEN_API ptx_val ptx_rule_power(ptx_builder *b, ptx_val x, ptx_val t);

/// x / y and sqrt(x), correctly rounded: the bits of ptx_div() and ptx_sqrt(). Of f32 values in
/// `update` they are faster, because the elements of a thread overlap: a short sequence, which
/// holds for the usual values, and a check of a thread's elements together. Where it fails, they
/// are computed again by the instructions. Elsewhere they are the instructions, with their types
/// and errors.
PTXGEN_API ptx_val ptx_rule_div(ptx_builder *b, ptx_val x, ptx_val y);
PTXGEN_API ptx_val ptx_rule_sqrt(ptx_builder *b, ptx_val x);

// ------------------------------------------------------------------------------- functions in f64

// clang-format off

/// Functions in f64, for `once`. Columns: name, operands, the largest error in units in the last
/// place of the exact value (of exp and pow below 2^-1022: 0.8 units of 2^-1074), result. The special
/// cases are those of C. They are instructions of IEEE 754 and of integers, without calls: one bit
/// pattern everywhere, but for the bits of NaN.
#define PTX_RULE_FUNCTIONS(X) \
    X(exp, 1, 0.7, "e^x") \
    X(log, 1, 0.51, "the natural logarithm of x") \
    X(pow, 2, 0.8, "x^y")

// clang-format on

/// One for each row. An operand is an f64 or a C number; of f32s they are those of math.h. Another
/// type is an error.
PTXGEN_API ptx_val ptx_rule_exp(ptx_builder *b, ptx_val x);
PTXGEN_API ptx_val ptx_rule_log(ptx_builder *b, ptx_val x);
PTXGEN_API ptx_val ptx_rule_pow(ptx_builder *b, ptx_val x, ptx_val y);

// ----------------------------------------------------------------------------------- rules as data

// clang-format off

/// What an operation of a program computes. Columns: name, shape, where (the sum of 1 in `once`, 2
/// in `update`, 4 in `reduce`, 8 in `of_sums`; 0: in the lists of ptx_rule_function() alone),
/// meaning. A shape is the result, then the operands x, y and z: v a value, f32 in `update` and
/// `reduce`, else f64; p a predicate; i an index; n the number. An operation that sets something has
/// no result.
#define PTX_RULE_OPS(X) \
    X(NUMBER, "v=n", 15, "the number, rounded to the type") \
    X(SCALAR, "v=i", 1, "scalar x") \
    X(T, "v=", 1, "the number of this step") \
    X(CLOCK, "v=i", 1, "clock state x") \
    X(COEFFICIENT, "v=i", 14, "c[x]") \
    X(P, "v=", 6, "the parameter") \
    X(G, "v=", 6, "the gradient") \
    X(STATE, "v=i", 6, "state x") \
    X(ADD, "v=vv", 15, "x + y") \
    X(SUB, "v=vv", 15, "x - y") \
    X(MUL, "v=vv", 15, "x * y") \
    X(DIV, "v=vv", 15, "x / y") \
    X(FMA, "v=vvv", 15, "x * y + z, rounded once") \
    X(MIN, "v=vv", 15, "the smaller; of NaN and a number the number") \
    X(MAX, "v=vv", 15, "the greater; of NaN and a number the number") \
    X(SQRT, "v=v", 15, "the root") \
    X(NEG, "v=v", 15, "-x") \
    X(ABS, "v=v", 15, "|x|") \
    X(F32, "v=v", 9, "x rounded to f32") \
    X(POWER, "v=v", 1, "ptx_rule_power(x, t)") \
    X(LT, "p=vv", 15, "x < y") \
    X(LE, "p=vv", 15, "x <= y") \
    X(GT, "p=vv", 15, "x > y") \
    X(GE, "p=vv", 15, "x >= y") \
    X(EQ, "p=vv", 15, "x == y") \
    X(NE, "p=vv", 15, "x != y, also where one is NaN") \
    X(AND, "p=pp", 15, "both") \
    X(OR, "p=pp", 15, "either") \
    X(NOT, "p=p", 15, "not x") \
    X(SELECT, "v=pvv", 15, "x ? y : z") \
    X(SET_CLOCK, "=vi", 1, "clock state y becomes x") \
    X(SET_COEFFICIENT, "=vi", 9, "c[y] becomes x") \
    X(SET_P, "=v", 2, "the parameter becomes x") \
    X(SET_STATE, "=vi", 2, "state y becomes x") \
    X(SUM, "v=i", 8, "sum x") \
    X(SET_TERM, "=vi", 4, "term y becomes x") \
    X(EXP2, "v=v", 6, "ptx_math_exp2(x)") \
    X(EXPM1, "v=v", 6, "ptx_math_expm1(x)") \
    X(LOG2, "v=v", 6, "ptx_math_log2(x)") \
    X(LOG1P, "v=v", 6, "ptx_math_log1p(x)") \
    X(SIN, "v=v", 6, "ptx_math_sin(x)") \
    X(COS, "v=v", 6, "ptx_math_cos(x)") \
    X(TANH, "v=v", 6, "ptx_math_tanh(x)") \
    X(SIGMOID, "v=v", 6, "ptx_math_sigmoid(x)") \
    X(ERF, "v=v", 6, "ptx_math_erf(x)") \
    X(ERFC, "v=v", 6, "ptx_math_erfc(x)") \
    X(RSQRT, "v=v", 6, "ptx_math_rsqrt(x)") \
    X(EXP, "v=v", 15, "ptx_rule_exp(x)") \
    X(LOG, "v=v", 15, "ptx_rule_log(x)") \
    X(POW, "v=vv", 15, "ptx_rule_pow(x, y)") \
    X(ARGUMENT, "v=i", 0, "operand x of the function, 0 or 1") \
    X(TRUNC, "v=v", 0, "x without its fraction") \
    X(EXPONENT, "v=v", 0, "bits 52 to 62 of x as a number, less 1023") \
    X(SIGNIFICAND, "v=v", 0, "bits 0 to 51 of x, with those of 1 above them") \
    X(POWER_OF_2, "v=v", 0, "the bits of x + (0x1.8p52 + 1023), 52 places up: 2^x")

// clang-format on

/// The operations above.
typedef enum ptx_rule_op {
#define PTX_DECLARE(name, ...) PTX_RULE_##name,
    PTX_RULE_OPS(PTX_DECLARE)
#undef PTX_DECLARE
        PTX_RULE_OP_COUNT
} ptx_rule_op;

/// An operation: its operands are the places of earlier ones in the same list, or indices.
struct ptx_rule_operation {
    ptx_rule_op op;
    uint32_t x, y, z;
    double number;
};

enum { PTX_RULE_MAX_OPERATIONS = 1024 };

/// A rule's functions as data, for those who have no compiler where they write rules. Each
/// operation is one instruction, in the order of the lists.
struct ptx_rule_program {
    const struct ptx_rule_operation *once;
    const struct ptx_rule_operation *update;
    uint32_t once_count, update_count;       ///< each at most PTX_RULE_MAX_OPERATIONS
    const struct ptx_rule_operation *reduce; ///< with sums, as of_sums
    const struct ptx_rule_operation *of_sums;
    uint32_t reduce_count, of_sums_count;
};

/// The list that EXP, LOG or POW of f64 stands for: with it another program computes the same bits.
/// ARGUMENT is an operand, and the last operation gives the result. Writes those that there is room
/// for, of `most`, and returns how many the list has: 0 if `op` is another operation. `to` may be
/// NULL if `most` is 0.
PTXGEN_API uint32_t ptx_rule_function(ptx_rule_op op, struct ptx_rule_operation *to, uint32_t most);

// ------------------------------------------------------------------------------------------- rules

/// What a rule is made of. name is required, and so are once and update, or a program.
struct ptx_rule_params {
    const char *name; ///< letters, digits and '_', as an entry's; at most 48. Not that of a rule of
                      ///< rules.h
    uint32_t version; ///< the caller's: a checkpoint of another version has other states
    struct ptx_rule_state states[PTX_STEP_MAX_STATES]; ///< PTX_RULE_MAX_STATES, and outputs
    struct ptx_rule_scalar scalars[PTX_STEP_MAX_SCALARS];
    /// f64 values of each step count that last from step to step, such as a running product. They
    /// are in the caller's memory, from 8 bytes after the count (`step`) on, zeros initially; the
    /// step writes them with the count, and a step that is skipped leaves both. Such a count is at
    /// a multiple of 8, and belongs to one group.
    uint32_t clock_states;
    uint32_t sums;    ///< over the elements of a tensor, in f64, before the first update: one more
                      ///< pass over the arrays, and two launches. 0: neither `reduce` nor `of_sums`
    const void *user; ///< for the functions; must live as long as the rule. What changes the code,
                      ///< such as an option, is there: another value is another rule
    void (*once)(ptx_builder *b, struct ptx_rule_clock *clock);
    void (*update)(ptx_builder *b, struct ptx_rule_element *element);
    /// With sums: the terms of an element, and what depends on the sums, in each thread.
    void (*reduce)(ptx_builder *b, struct ptx_rule_element *element);
    void (*of_sums)(ptx_builder *b, struct ptx_rule_sums *sums);
    /// In place of the functions and `user`; copied.
    const struct ptx_rule_program *program;
};

/// A rule. It belongs to no device, and may be used by several threads at the same time.
typedef struct ptx_rule ptx_rule;

/// Checks a rule, by writing its code for sm_70. The params and names are copied. Errors (NULL):
/// INVALID, OUT_OF_MEMORY. The message of what a function does wrong names the line that does it.
PTXGEN_API ptx_rule *ptx_rule_create(const struct ptx_rule_params *params);
/// Frees the rule, which no plan may have any more, and sets *rule to NULL.
PTXGEN_API void ptx_rule_destroy(ptx_rule **rule);

/// What is known of a rule.
struct ptx_rule_info {
    const char *name;
    uint32_t version, states, scalars, clock_states;
    uint32_t coefficients; ///< f32s that `once` sets
    bool quick;            ///< `update` calls ptx_rule_div() or ptx_rule_sqrt()
    /// The place of each scalar among the doubles of a struct ptx_step_hyper.
    uint32_t place[PTX_STEP_MAX_SCALARS];
};

/// The rule's own; NULL for NULL.
PTXGEN_API const struct ptx_rule_info *ptx_rule_get_info(const ptx_rule *rule);

/// Writes an entry of the rule's name with its code alone, to be read: `once` for a group, then
/// `reduce`, `of_sums` and `update` for an element each thread, with the instructions in place of
/// quick quotients and roots.
PTXGEN_API void ptx_rule_emit(ptx_builder *b, const ptx_rule *rule);

PTXGEN_END

// Errors name the caller's line; see places.h.
#ifdef PTXGEN_PLACED
#define ptx_rule_emit(b, ...)   PTXGEN_PLACED_VOID(b, ptx_rule_emit(b, __VA_ARGS__))
#define ptx_rule_power(b, x, t) PTXGEN_V2(b, x, t, ptxgen_popped2(b, PTXGEN_HERE, ptx_rule_power))
#define ptx_rule_div(b, x, y)   PTXGEN_V2(b, x, y, ptxgen_popped2(b, PTXGEN_HERE, ptx_rule_div))
#define ptx_rule_sqrt(b, x)     PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_rule_sqrt))
#define ptx_rule_exp(b, x)      PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_rule_exp))
#define ptx_rule_log(b, x)      PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_rule_log))
#define ptx_rule_pow(b, x, y)   PTXGEN_V2(b, x, y, ptxgen_popped2(b, PTXGEN_HERE, ptx_rule_pow))
#endif

#endif
