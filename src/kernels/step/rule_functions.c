// SPDX-License-Identifier: MIT
// exp, log and pow in f64, as lists of operations of rules: a list is what is emitted, and what
// other programs compute by. A sum of two values has twice the precision; the names of the second
// end in _low.
#include "own_rule.h"

#include <math.h>
#include <string.h>

enum { MOST = 256 };

// A list that is being written. A value is the place of its operation.
struct list {
    struct ptx_rule_operation at[MOST];
    uint32_t count;
};

typedef uint32_t value;

static value put(struct list *l, ptx_rule_op op, value x, value y, value z)
{
    l->at[l->count] = (struct ptx_rule_operation) { .op = op, .x = x, .y = y, .z = z };
    return l->count++;
}

static value number(struct list *l, double x)
{
    value k = put(l, PTX_RULE_NUMBER, 0, 0, 0);

    l->at[k].number = x;
    return k;
}

#define ONE(name, op)                                                                              \
    static value name(struct list *l, value x)                                                     \
    {                                                                                              \
        return put(l, PTX_RULE_##op, x, 0, 0);                                                     \
    }
#define TWO(name, op)                                                                              \
    static value name(struct list *l, value x, value y)                                            \
    {                                                                                              \
        return put(l, PTX_RULE_##op, x, y, 0);                                                     \
    }
#define THREE(name, op)                                                                            \
    static value name(struct list *l, value x, value y, value z)                                   \
    {                                                                                              \
        return put(l, PTX_RULE_##op, x, y, z);                                                     \
    }
ONE(argument, ARGUMENT)
ONE(negative, NEG)
ONE(magnitude, ABS)
ONE(whole_part, TRUNC)
ONE(exponent, EXPONENT)
ONE(mantissa, SIGNIFICAND)
ONE(power_of_2, POWER_OF_2)
ONE(not, NOT)
TWO(add, ADD)
TWO(sub, SUB)
TWO(mul, MUL)
TWO(over, DIV)
TWO(less, LT)
TWO(equal, EQ)
TWO(both, AND)
TWO(either, OR)
THREE(fma_of, FMA)
THREE(choose, SELECT)
#undef ONE
#undef TWO
#undef THREE

// x + y = result + *low exactly, for |x| >= |y| or x = 0 (Dekker).
static value sum(struct list *l, value x, value y, value *low)
{
    value high = add(l, x, y);
    *low = add(l, sub(l, x, high), y);
    return high;
}

// x y = result + *low exactly, if nothing underflows.
static value product(struct list *l, value x, value y, value *low)
{
    value high = mul(l, x, y);
    *low = fma_of(l, x, y, negative(l, high));
    return high;
}

// (x + x_low) (y + y_low), but for x_low y_low.
static value products(struct list *l, value x, value x_low, value y, value y_low, value *low)
{
    value high = product(l, x, y, low);
    *low = fma_of(l, x, y_low, *low);
    *low = fma_of(l, x_low, y, *low);
    return high;
}

// x from `least` to `most`. NaN stays.
static value within(struct list *l, value x, double least, double most)
{
    value low = number(l, least), high = number(l, most);

    x = choose(l, less(l, x, low), low, x);
    return choose(l, less(l, high, x), high, x);
}

// ln 2 in two parts. The first has 42 bits, so that its product with an exponent is exact.
static const double ln2 = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;

// ---- the exponential ----------------------------------------------------------------------------

// q where e^r = 1 + r + r^2 q, for |r| <= ln(2) / 2: the series.
static value exp_series(struct list *l, value r)
{
    double factorial = 87178291200; // of 14
    value q = number(l, 1 / factorial);

    for (unsigned n = 14; n > 2; n--) {
        factorial /= n;
        q = fma_of(l, q, r, number(l, 1 / factorial));
    }
    return q;
}

// e^(x + low), for x from -760 to 720. 2^k comes in two factors, since one has no room for it.
static value exp_of(struct list *l, value x, value low)
{
    value shift = number(l, 0x1.8p52), one = number(l, 1), r_low;
    value k = sub(l, fma_of(l, x, number(l, 0x1.71547652b82fep+0), shift), shift);
    value minus = negative(l, k);
    value most = fma_of(l, minus, number(l, ln2), x); // exact
    value rest = fma_of(l, minus, number(l, ln2_low), low);
    value r = sum(l, most, rest, &r_low);

    value small = fma_of(l, mul(l, r, r), exp_series(l, r), r_low);
    value e_low;
    value e = sum(l, one, r, &e_low);
    e = add(l, e, add(l, e_low, small));

    value half = whole_part(l, mul(l, k, number(l, 0.5)));
    e = mul(l, e, power_of_2(l, half));
    return mul(l, e, power_of_2(l, sub(l, k, half)));
}

static value exp_list(struct list *l)
{
    value x = within(l, argument(l, 0), -760, 720);
    return exp_of(l, x, number(l, 0));
}

// ---- the logarithm ------------------------------------------------------------------------------

// With s = q^2, log((1 + q) / (1 - q)) = 2 q + q^3 c(s), the series of artanh: its first two terms
// are sums of two values.
static value artanh_series(struct list *l, value s, value s_low, value *low)
{
    static const double third = 0x1.5555555555555p-1, third_low = 0x1.5555555555555p-55;  // 2/3
    static const double fifth = 0x1.999999999999ap-2, fifth_low = -0x1.999999999999ap-56; // 2/5
    value c = number(l, 2.0 / 27);

    for (unsigned n = 25; n > 5; n -= 2)
        c = fma_of(l, c, s, number(l, 2.0 / n));

    value first = number(l, fifth);
    value d = fma_of(l, c, s, first);
    value d_low = fma_of(l, c, s, sub(l, first, d));
    d_low = add(l, d_low, number(l, fifth_low));

    value p_low, e_low;
    value p = products(l, s, s_low, d, d_low, &p_low);
    value e = sum(l, number(l, third), p, &e_low);
    *low = add(l, e_low, add(l, p_low, number(l, third_low)));
    return e;
}

// x = 2^k (1 + result), 1 + result from sqrt(1/2) to sqrt(2), for a positive, finite x.
static value log_parts(struct list *l, value x, value *k)
{
    value zero = number(l, 0), half = number(l, 0.5), one = number(l, 1);
    value subnormal = less(l, x, number(l, 0x1p-1022));
    x = choose(l, subnormal, mul(l, x, number(l, 0x1p54)), x);
    value m = mantissa(l, x);
    value great = less(l, number(l, 0x1.6a09e667f3bcdp+0), m); // sqrt(2)

    *k = sub(l, exponent(l, x), choose(l, subnormal, number(l, 54), zero));
    *k = add(l, *k, choose(l, great, one, zero));
    return sub(l, choose(l, great, mul(l, m, half), m), one);
}

// log(x) = result + *low, for x >= 0; the result alone for 0, infinity and NaN, and NaN below 0.
static value log_of(struct list *l, value x, value *low)
{
    value two = number(l, 2), zero = number(l, 0), infinity = number(l, INFINITY), k;
    value f = log_parts(l, x, &k);

    // q = f / (f + 2)
    value f2_low;
    value f2 = sum(l, two, f, &f2_low);
    value q = over(l, f, f2);
    value q_low = fma_of(l, negative(l, q), f2, f);
    q_low = fma_of(l, negative(l, q), f2_low, q_low);
    q_low = over(l, q_low, f2);

    value s_low, c_low, t_low, u_low;
    value s = products(l, q, q_low, q, q_low, &s_low);
    value c = artanh_series(l, s, s_low, &c_low);
    value t = products(l, s, s_low, c, c_low, &t_low);
    value u = products(l, q, q_low, t, t_low, &u_low);

    // The sum of its terms, the greatest first.
    value h_low, g_low;
    value h = sum(l, mul(l, k, number(l, ln2)), add(l, q, q), &h_low);
    value g = sum(l, h, u, &g_low);
    value rest = fma_of(l, k, number(l, ln2_low), fma_of(l, q_low, two, u_low));
    rest = add(l, rest, add(l, h_low, g_low));
    value high = sum(l, g, rest, low);

    // x infinity + infinity is infinite for infinity, and NaN for NaN and what is below 0.
    value special = fma_of(l, x, infinity, infinity);
    special = choose(l, equal(l, x, zero), number(l, -INFINITY), special);
    value regular = both(l, less(l, zero, x), less(l, x, infinity));
    return choose(l, regular, high, special);
}

static value log_list(struct list *l)
{
    value low;
    return log_of(l, argument(l, 0), &low);
}

// ---- the power ----------------------------------------------------------------------------------

static value is_whole(struct list *l, value x)
{
    return equal(l, whole_part(l, x), x);
}

// |x|^y. A power beyond all limits has its limit, so that the exponential gives infinity or 0.
static value power_of_magnitude(struct list *l, value x, value y)
{
    value low, power_low;
    value high = log_of(l, magnitude(l, x), &low);
    value power = product(l, y, high, &power_low);
    value kept = within(l, power, -760, 720);

    power_low = fma_of(l, y, low, power_low);
    power_low = choose(l, equal(l, kept, power), power_low, number(l, 0));
    return exp_of(l, kept, power_low);
}

// The special cases are those of IEEE 754's pow. Infinite y is limited to an even integer that has
// the same results, which leaves 1^infinity = 1 and avoids infinity 0.
static value pow_list(struct list *l)
{
    value x = argument(l, 0), given = argument(l, 1);
    value zero = number(l, 0), one = number(l, 1);
    value y = within(l, given, -0x1p100, 0x1p100);
    value result = power_of_magnitude(l, x, y);

    value whole = is_whole(l, y);
    value odd = both(l, whole, not(l, is_whole(l, mul(l, y, number(l, 0.5)))));
    value below = less(l, x, zero);
    result = choose(l, both(l, below, odd), negative(l, result), result);
    // 0 has a sign, too.
    value of_zero = choose(l, less(l, y, zero), over(l, one, x), x);
    result = choose(l, both(l, odd, equal(l, x, zero)), of_zero, result);

    value undefined = both(l, below, less(l, number(l, -INFINITY), x));
    undefined = both(l, undefined, not(l, whole));
    result = choose(l, undefined, number(l, NAN), result);
    value is_1 = either(l, equal(l, y, zero), equal(l, x, one));
    return choose(l, is_1, one, result);
}

// ---- lists --------------------------------------------------------------------------------------

static void list_of(ptx_rule_op op, struct list *l)
{
    l->count = 0;
    if (op == PTX_RULE_EXP)
        (void)exp_list(l);
    else if (op == PTX_RULE_LOG)
        (void)log_list(l);
    else if (op == PTX_RULE_POW)
        (void)pow_list(l);
}

uint32_t ptxk_rule_function(ptx_rule_op op, struct ptx_rule_operation *to, uint32_t most)
{
    struct list l;

    list_of(op, &l);
    if (l.count && most)
        memcpy(to, l.at, (l.count < most ? l.count : most) * sizeof *to);
    return l.count;
}

static ptx_val bits_up(ptx_builder *b, ptx_val x)
{
    ptx_val bits = ptx_bitcast(b, PTX_U64, ptx_add(b, x, 0x1.8p52 + 1023));
    return ptx_bitcast(b, PTX_F64, ptx_shl(b, bits, 52));
}

static ptx_val exponent_of(ptx_builder *b, ptx_val x)
{
    ptx_val bits = ptx_and(b, ptx_shr(b, ptx_bitcast(b, PTX_U64, x), 52), 0x7ff);
    return ptx_sub(b, ptx_cvt(b, PTX_F64, bits), 1023);
}

static ptx_val significand_of(ptx_builder *b, ptx_val x)
{
    ptx_val bits = ptx_and(b, ptx_bitcast(b, PTX_U64, x), UINT64_C(0xfffffffffffff));
    return ptx_bitcast(b, PTX_F64, ptx_or(b, bits, UINT64_C(0x3ff0000000000000)));
}

// What the list gives of operands in registers.
static ptx_val emitted(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y)
{
    struct list l;
    ptx_val results[MOST] = { { 0 } };

    list_of(op, &l);
    for (uint32_t k = 0; k < l.count; k++) {
        const struct ptx_rule_operation *at = &l.at[k];
        const ptx_val of = results[at->x];
        switch (at->op) {
        case PTX_RULE_ARGUMENT:
            results[k] = at->x ? y : x;
            break;
        case PTX_RULE_NUMBER:
            results[k] = ptx_f64(at->number);
            break;
        case PTX_RULE_TRUNC:
            results[k] = ptx_trunc(b, of);
            break;
        case PTX_RULE_EXPONENT:
            results[k] = exponent_of(b, of);
            break;
        case PTX_RULE_SIGNIFICAND:
            results[k] = significand_of(b, of);
            break;
        case PTX_RULE_POWER_OF_2:
            results[k] = bits_up(b, of);
            break;
        default:
            results[k] = ptxk_rule_program_computed(b, at->op, of, results[at->y], results[at->z]);
        }
    }
    return results[l.count - 1];
}

// ---- calls --------------------------------------------------------------------------------------

// Whether an operand, of f32 or f64, can be used beside one of `type`, PTX_NONE: any. A C number is
// then an f64.
static bool operand(ptx_builder *b, const char *call, const char *name, ptx_val *x, ptx_type type)
{
    if (x->kind == PTX_KIND_NUMBER) {
        const double real = ptxk_own_rule_number(*x);
        *x = type == PTX_F32 ? ptx_f32(real) : ptx_f64(real);
        return true;
    }
    if (x->type == PTX_F64 || x->type == PTX_F32) {
        if (type == PTX_NONE || x->type == type)
            return true;
        ptx_builder_fail(b, "ptx_rule_%s: x is %s and %s is %s: ptx_cvt() converts", call,
                         ptx_type_name(type), name, ptx_type_name((ptx_type)x->type));
    } else if (x->type == PTX_NONE) {
        const char *const absent = ptxk_own_rule_absent(*x);
        ptx_builder_fail(b, "ptx_rule_%s: %s was never set%s%s", call, name,
                         absent ? ": it is " : "", absent ? absent : "");
    } else {
        ptx_builder_fail(b, "ptx_rule_%s: %s is %s; it must be f64 or f32", call, name,
                         ptx_type_name((ptx_type)x->type));
    }
    return false;
}

static ptx_val called(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y)
{
    ptx_val copy = ptx_copy(b, x);
    return emitted(b, op, copy, op == PTX_RULE_POW ? ptx_copy(b, y) : copy);
}

ptx_val ptxk_rule_exp(ptx_builder *b, ptx_val x)
{
    if (!operand(b, "exp", "x", &x, PTX_NONE))
        return (ptx_val) { 0 };
    return x.type == PTX_F32 ? ptx_math_exp(b, x) : called(b, PTX_RULE_EXP, x, x);
}

ptx_val ptxk_rule_log(ptx_builder *b, ptx_val x)
{
    if (!operand(b, "log", "x", &x, PTX_NONE))
        return (ptx_val) { 0 };
    return x.type == PTX_F32 ? ptx_math_log(b, x) : called(b, PTX_RULE_LOG, x, x);
}

ptx_val ptxk_rule_pow(ptx_builder *b, ptx_val x, ptx_val y)
{
    const ptx_type other = y.kind == PTX_KIND_NUMBER ? PTX_NONE : (ptx_type)y.type;

    if (!operand(b, "pow", "x", &x, x.kind == PTX_KIND_NUMBER ? other : PTX_NONE) ||
        !operand(b, "pow", "y", &y, (ptx_type)x.type))
        return (ptx_val) { 0 };
    return x.type == PTX_F32 ? ptx_math_pow(b, x, y) : called(b, PTX_RULE_POW, x, y);
}
