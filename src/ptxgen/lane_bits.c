// SPDX-License-Identifier: MIT
// The bits of results from those of operands: each rule computes its instruction, with bits that
// may be 0 or 1. So what it leaves out of account is not claimed.
#include "lane_bits.h"

#include <assert.h>

// Where a variable is written again, bits from here on differ together, and no more of the lowest
// bits are known to be zero. Bits from 32 on may be above the variable's type.
enum { BITS_APART = 16, LEAST_TOP = 32 };

// ---- facts --------------------------------------------------------------------------------------

static bool is_power_of_two(struct lane_bits x)
{
    return (x.zero ^ x.one) == UINT64_MAX && x.one && !(x.one & (x.one - 1));
}

// The number of lowest bits that are clear in a mask; and its length without highest ones.
static unsigned clear_below(uint64_t mask)
{
    unsigned k = mask ? 0 : 64;

    for (unsigned n = 32; mask && n; n /= 2)
        if (!(mask >> k & ptxb_low_mask(n)))
            k += n;
    return k;
}

static unsigned length(uint64_t mask)
{
    unsigned k = mask != 0;

    for (unsigned n = 32; n; n /= 2)
        if (mask >> (k + n - 1))
            k += n;
    return k;
}

unsigned ptxb_differing_bits(struct lane_bits x, ptx_type type)
{
    return length(x.differ & ptxb_low_mask(ptxb_bits(type)));
}

struct lane_bits ptxb_cut_to_type(struct lane_bits x, ptx_type type)
{
    const uint64_t kept = ptxb_low_mask(ptxb_bits(type));

    x.differ = x.differ & kept ? x.differ | ~kept : 0;
    x.zero |= ~kept;
    x.one |= ~kept;
    return x;
}

static struct lane_bits either(struct lane_bits x, struct lane_bits y)
{
    return (struct lane_bits) { x.differ | y.differ, x.zero | y.zero, x.one | y.one, false };
}

struct lane_bits ptxb_also_written(struct lane_bits before, struct lane_bits x)
{
    struct lane_bits both = either(before, x);
    const unsigned zeros = clear_below(both.one);

    if (!(before.zero | before.one) ||
        (both.differ == before.differ && both.zero == before.zero && both.one == before.one))
        return both;
    if (both.differ & ptxb_low_mask(LEAST_TOP) & ~ptxb_low_mask(BITS_APART))
        both.differ |= ~ptxb_low_mask(BITS_APART);
    both.zero = UINT64_MAX;
    both.one = ~ptxb_low_mask(zeros < BITS_APART ? zeros : BITS_APART);
    return both;
}

// ---- arithmetic ---------------------------------------------------------------------------------

struct bit {
    bool differs, zero, one;
};

static struct bit bit_of(struct lane_bits x, unsigned k)
{
    return (struct bit) { x.differ >> k & 1, x.zero >> k & 1, x.one >> k & 1 };
}

static struct lane_bits from_bit(struct bit x)
{
    return ptxb_cut_to_type((struct lane_bits) { x.differs, x.zero, x.one, false }, PTX_PRED);
}

static struct lane_bits bitwise_xor(struct lane_bits x, struct lane_bits y)
{
    return (struct lane_bits) { x.differ | y.differ, (x.zero & y.zero) | (x.one & y.one),
                                (x.zero & y.one) | (x.one & y.zero), false };
}

// What x + y + carry carries into each bit, and out of the highest.
static struct lane_bits carries(struct lane_bits x, struct lane_bits y, bool carry, struct bit *out)
{
    // The least and the greatest numbers that the operands may be carry the least and the most.
    const uint64_t least = ~x.zero + ~y.zero + carry, most = x.one + y.one + carry;
    struct lane_bits c = { 0, ~(least ^ x.zero ^ y.zero), most ^ x.one ^ y.one, false };
    const uint64_t differ = x.differ | y.differ;
    uint64_t unknown = c.zero & c.one;

    // A carry that is not known differs if a bit to its right does, or the carry to there.
    c.differ = differ << 1 & unknown;
    for (unsigned n = 1; n < 64; n *= 2) {
        c.differ |= c.differ << n & unknown;
        unknown &= unknown << n;
    }
    out->zero = ((x.zero & y.zero) | ((x.zero | y.zero) & c.zero)) >> 63;
    out->one = ((x.one & y.one) | ((x.one | y.one) & c.one)) >> 63;
    out->differs = out->zero && out->one && (differ | c.differ) >> 63;
    return c;
}

static struct lane_bits sum_of(struct lane_bits x, struct lane_bits y, bool carry)
{
    struct bit out;

    return bitwise_xor(bitwise_xor(x, y), carries(x, y, carry, &out));
}

static struct lane_bits complement(struct lane_bits x)
{
    return (struct lane_bits) { x.differ, x.one, x.zero, false };
}

// Of unsigned numbers of 64 bits: x - y borrows, so x + ~y + 1 carries nothing.
static struct lane_bits is_less(struct lane_bits x, struct lane_bits y)
{
    struct bit carry;

    carries(x, complement(y), true, &carry);
    return complement(from_bit(carry));
}

static struct lane_bits left_by(struct lane_bits x, unsigned n)
{
    return n > 63 ? ptxb_constant_bits(0)
                  : (struct lane_bits) { x.differ << n, x.zero << n | ptxb_low_mask(n), x.one << n,
                                         false };
}

static uint64_t filled(uint64_t mask, unsigned n, bool top)
{
    return mask >> n | (top ? ~(UINT64_MAX >> n) : 0);
}

// Filled with the highest bit if signed, else with 0.
static struct lane_bits right_by(struct lane_bits x, unsigned n, bool is_signed)
{
    const struct bit top = is_signed ? bit_of(x, 63) : (struct bit) { .zero = true };

    if (n > 63 && !is_signed)
        return ptxb_constant_bits(0);
    n = n < 63 ? n : 63;
    return (struct lane_bits) { filled(x.differ, n, top.differs), filled(x.zero, n, top.zero),
                                filled(x.one, n, top.one), false };
}

static struct lane_bits product(struct lane_bits x, struct lane_bits y)
{
    if (is_power_of_two(x) || is_power_of_two(y))
        return is_power_of_two(y) ? left_by(x, clear_below(y.one)) : left_by(y, clear_below(x.one));
    // A bit of the product depends on the same and lower bits of both.
    const unsigned x_zeros = clear_below(x.one), y_zeros = clear_below(y.one);
    const unsigned x_from = clear_below(x.differ) + y_zeros;
    const unsigned y_from = clear_below(y.differ) + x_zeros;
    struct lane_bits result = ptxb_low_bits_zero(x_zeros + y_zeros);
    result.differ = ~ptxb_low_mask(x_from < y_from ? x_from : y_from);
    return result;
}

// ---- one rule an instruction --------------------------------------------------------------------

// The sources, as the instruction's types say: `x` and `y` are those of its type, extended to 64
// bits.
struct sources {
    struct lane_bits x, y;
    const struct lane_bits *all;
    bool is_signed, positive;
};

static struct lane_bits copy(const struct sources *s)
{
    return s->all[0];
}

static struct lane_bits convert(const struct sources *s)
{
    return s->x;
}

static struct lane_bits add(const struct sources *s)
{
    return sum_of(s->x, s->y, false);
}

// A counter that differs, of a limit that does not: only low bits of the counter's complement
// differ, and limit + ~counter is the difference minus one.
static struct lane_bits subtract(const struct sources *s)
{
    const bool less_one = s->positive && s->y.differ && !s->x.differ;
    struct lane_bits result = sum_of(s->x, complement(s->y), !less_one);

    result.less_one = less_one;
    return result;
}

static struct lane_bits multiply(const struct sources *s)
{
    return product(s->x, s->y);
}

static struct lane_bits multiply_add(const struct sources *s)
{
    return sum_of(product(s->x, s->y), s->all[2], false);
}

// The u32 by which a shift shifts, or where a field is; false if it is not constant.
static bool known_count(struct lane_bits by, unsigned *n)
{
    const uint64_t count = by.one & UINT32_MAX;

    *n = count < 64 ? (unsigned)count : 64;
    return !((by.zero & by.one) & UINT32_MAX);
}

static bool count_differs(struct lane_bits by)
{
    return by.differ & UINT32_MAX;
}

// Up to the lowest bit of a mask that is set, or down from the highest.
static uint64_t and_above(uint64_t mask)
{
    return ~ptxb_low_mask(clear_below(mask));
}

static uint64_t and_below(uint64_t mask)
{
    return ptxb_low_mask(length(mask));
}

static struct lane_bits shift_left(const struct sources *s)
{
    unsigned n;

    if (count_differs(s->all[1]))
        return ptxb_uniform_if(false);
    if (known_count(s->all[1], &n))
        return left_by(s->x, n);
    return (struct lane_bits) { and_above(s->x.differ), UINT64_MAX, and_above(s->x.one), false };
}

static struct lane_bits shift_right(const struct sources *s)
{
    unsigned n;

    if (count_differs(s->all[1]))
        return ptxb_uniform_if(false);
    if (known_count(s->all[1], &n))
        return right_by(s->x, n, s->is_signed);
    return (struct lane_bits) { and_below(s->x.differ), UINT64_MAX, UINT64_MAX, false };
}

static struct lane_bits bitwise_and(struct lane_bits x, struct lane_bits y)
{
    const uint64_t differ = (x.differ & y.one) | (y.differ & x.one);

    return (struct lane_bits) { differ, x.zero | y.zero, x.one & y.one, false };
}

static struct lane_bits bits_and(const struct sources *s)
{
    return bitwise_and(s->all[0], s->all[1]);
}

// By De Morgan.
static struct lane_bits bits_or(const struct sources *s)
{
    return complement(bitwise_and(complement(s->all[0]), complement(s->all[1])));
}

static struct lane_bits bits_xor(const struct sources *s)
{
    return bitwise_xor(s->all[0], s->all[1]);
}

static struct lane_bits bits_not(const struct sources *s)
{
    return complement(s->all[0]);
}

// Unsigned. Numbers that differ in their lowest bits alone have the same quotient by a multiple of
// what those bits can make, and the remainders differ in these bits alone.
static struct lane_bits divide(const struct sources *s)
{
    const unsigned differing = length(s->x.differ);

    if (is_power_of_two(s->y))
        return right_by(s->x, clear_below(s->y.one), false);
    return ptxb_uniform_if(!s->y.differ && clear_below(s->y.one) >= differing);
}

static struct lane_bits remain(const struct sources *s)
{
    const unsigned differing = length(s->x.differ);

    if (is_power_of_two(s->y))
        return bitwise_and(s->x, ptxb_constant_bits(s->y.one - 1));
    if (s->y.differ || clear_below(s->y.one) < differing)
        return ptxb_uniform_if(!s->x.differ && !s->y.differ);
    return ptxb_low_bits_differ(differing);
}

// Unsigned: a field's highest bit is not copied. Of places above 255, targets make different bits.
static struct lane_bits extract(const struct sources *s)
{
    const struct lane_bits from = s->all[1], count = s->all[2];
    unsigned n, bits;
    struct lane_bits result = { and_below(s->x.differ), UINT64_MAX, UINT64_MAX, false };

    if (count_differs(from) || count_differs(count))
        return ptxb_uniform_if(false);
    if (known_count(from, &n) && !(from.one & UINT32_MAX & ~UINT64_C(255)))
        result = right_by(s->x, n, false);
    result.zero = UINT64_MAX;
    if (known_count(count, &bits) && !(count.one & UINT32_MAX & ~UINT64_C(255))) {
        result.differ &= ptxb_low_mask(bits);
        result.one &= ptxb_low_mask(bits);
    }
    return result;
}

// Signed numbers are ordered as unsigned ones with the highest bit inverted.
static struct lane_bits ordered(const struct sources *s, struct lane_bits x)
{
    return bitwise_xor(x, ptxb_constant_bits((uint64_t)s->is_signed << 63));
}

static struct lane_bits less(const struct sources *s)
{
    return is_less(ordered(s, s->x), ordered(s, s->y));
}

static struct lane_bits not_less(const struct sources *s)
{
    return complement(less(s));
}

// x - 1 < y is x <= y, where x is not 0.
static struct lane_bits greater(const struct sources *s)
{
    return s->all[0].less_one ? complement(is_less(s->x, s->y))
                              : is_less(ordered(s, s->y), ordered(s, s->x));
}

static struct lane_bits not_greater(const struct sources *s)
{
    return complement(greater(s));
}

static struct lane_bits unequal(const struct sources *s)
{
    const struct lane_bits d = bitwise_xor(s->x, s->y);
    const bool surely = ~d.zero != 0;

    return from_bit((struct bit) { !surely && d.differ, !surely, d.one != 0 });
}

static struct lane_bits equal(const struct sources *s)
{
    return complement(unequal(s));
}

static struct lane_bits select(const struct sources *s)
{
    return s->all[2].differ & 1 ? ptxb_uniform_if(false) : either(s->all[0], s->all[1]);
}

// What all lanes of a mask agree on.
static struct lane_bits agree(const struct sources *s)
{
    return ptxb_uniform_if(!s->all[1].differ);
}

// The value of one lane, of all 32.
static struct lane_bits one_lane(const struct sources *s)
{
    unsigned clamp;

    return ptxb_uniform_if(!s->all[1].differ && known_count(s->all[2], &clamp) && clamp == 31 &&
                           !s->all[3].differ);
}

static const struct rule {
    char opcode[16];
    struct lane_bits (*result)(const struct sources *s);
    bool twice;    // the result has twice the width of the type
    bool less_one; // takes a first source that is known minus one
    bool agrees;   // holds for an instruction that is marked as varying
} rules[] = {
    { "", NULL }, // no other
    { "mov.", copy },
    { "cvt.", convert },
    { "add.", add },
    { "sub.", subtract },
    { "mul.lo.", multiply },
    { "mul.wide.", multiply, .twice = true },
    { "mad.lo.", multiply_add },
    { "mad.wide.", multiply_add, .twice = true },
    { "shl.", shift_left },
    { "shr.", shift_right },
    { "and.", bits_and },
    { "or.", bits_or },
    { "xor.", bits_xor },
    { "not.", bits_not },
    { "div.u", divide },
    { "rem.u", remain },
    { "bfe.u", extract },
    { "setp.lt.", less },
    { "setp.ge.", not_less },
    { "setp.gt.", greater, .less_one = true },
    { "setp.le.", not_greater, .less_one = true },
    { "setp.ne.", unequal },
    { "setp.eq.", equal },
    { "selp.", select },
    { "vote.", agree, .agrees = true },
    { "redux.", agree, .agrees = true },
    { "match.all.", agree, .agrees = true },
    { "shfl.sync.idx.", one_lane, .agrees = true },
};

// ---- looking them up ----------------------------------------------------------------------------

static bool starts_with(const char *text, const char *start)
{
    while (*start && *start == *text++)
        start++;
    return !*start;
}

// The type that ends at `end`, after a dot, if it is of integers, bits or predicates; moves `end`
// to the dot.
static ptx_type last_type(const char *text, const char **end)
{
    static const char letters[] = "usb", sizes[] = "8 163264"; // in the order of the types
    const char *at = *end;

    while (at > text && at[-1] != '.')
        at--;
    const size_t length = (size_t)(*end - at);
    const char *letter = memchr(letters, *at, 3);
    *end = at > text ? at - 1 : at;
    if (length == 4 && starts_with(at, "pred"))
        return PTX_PRED;
    for (unsigned k = 0; letter && k < 4; k++)
        if (length == (k ? 3 : 2) && !memcmp(at + 1, sizes + 2 * k, length - 1))
            return (ptx_type)(PTX_U8 + 4 * (letter - letters) + k);
    return PTX_NONE;
}

static_assert(PTX_S8 == PTX_U8 + 4 && PTX_B8 == PTX_S8 + 4, "last_type() counts");

// An opcode with types that the rules know, without modifiers that they do not.
static void look_up(struct opcode *opcode)
{
    const char *text = opcode->text, *end = text + opcode->length;
    const ptx_type from = last_type(text, &end);
    size_t k = from == PTX_NONE ? 1 : sizeof rules / sizeof *rules;

    while (--k && (*text != *rules[k].opcode || !starts_with(text, rules[k].opcode)))
        ;
    const ptx_type to = k ? last_type(text, &end) : PTX_NONE;
    const bool is_float = rules[k].result == convert && to == PTX_NONE;
    opcode->rule = (k && (is_float || strstr(text, ".sat"))) ? 1 : (uint8_t)(k + 1);
    opcode->from = (uint8_t)from;
    opcode->to = (uint8_t)(to == PTX_NONE ? from : to);
}

static bool is_signed(ptx_type type)
{
    return type >= PTX_S8 && type <= PTX_S64;
}

static struct lane_bits extended(struct lane_bits x, ptx_type type)
{
    const unsigned unused = 64 - ptxb_bits(type);

    return right_by(left_by(x, unused), unused, is_signed(type));
}

bool ptxb_has_lane_rule(struct opcode *opcode, const struct insn *insn)
{
    if (!opcode->rule)
        look_up(opcode);
    return opcode->rule > 1 && (!insn->varying || rules[opcode->rule - 1].agrees);
}

void ptxb_lane_bits(const struct opcode *opcode, const struct insn *insn,
                    struct lane_bits source[4], struct lane_bits *result)
{
    const struct rule *rule = &rules[opcode->rule - 1];
    const ptx_type from = (ptx_type)opcode->from, to = (ptx_type)opcode->to;

    for (unsigned k = 0; k < 4; k++)
        if (source[k].less_one && (k > 0 || !rule->less_one || is_signed(from)))
            source[k] = sum_of(source[k], ptxb_constant_bits(1), false);
    const struct sources s = { extended(source[0], from), extended(source[1], from), source,
                               is_signed(from), insn->positive };
    *result = ptxb_cut_to_type(rule->result(&s), rule->twice ? (ptx_type)(to + 1) : to);
}
