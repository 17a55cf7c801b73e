// SPDX-License-Identifier: MIT
// Rules: which bits of a result are undefined. Most rules call the instruction's own lane function.
// An instruction that moves bits moves masks of undefined bits in the same way. For other
// instructions, a result bit is undefined if it changes with the undefined bits of the sources.
#include "undefined_rules.h"
#include "exec/base/value.h"

#include <stdalign.h>
#include <string.h>

static bool is_integer(unsigned type)
{
    return type >= EMU_U8 && type <= EMU_B64;
}

static bool is_packed(unsigned type)
{
    return type == EMU_F16X2 || type == EMU_BF16X2 || type == EMU_U16X2 || type == EMU_S16X2 ||
           type == EMU_F32X2;
}

static bool is_fp8(unsigned type)
{
    return type == EMU_E4M3X2 || type == EMU_E5M2X2;
}

uint64_t emu_undefined_upward(uint64_t bits)
{
    return bits | (0 - bits);
}

bool emu_undefined_differ(uint64_t x, struct emu_undefined ux, uint64_t y, struct emu_undefined uy)
{
    return ((x ^ y) & ~(ux.bits | uy.bits)) != 0;
}

// ---- the lane function on other values ----------------------------------------------------------

typedef uint64_t numbers[EMU_LANES];

static void call(const struct emu_op *op, const numbers *x, numbers out)
{
    alignas(64) unsigned char sources[4][EMU_LANES * 8], result[EMU_LANES * 8];
    const void *at[4] = { sources[0], sources[1], sources[2], sources[3] };
    for (unsigned k = 0; k < op->src_count && k < 4; k++) {
        uint32_t mask = 0;
        for (unsigned i = 0; i < EMU_LANES; i++) {
            uint32_t low = (uint32_t)x[k][i];
            mask |= (low & 1) << i;
            if (op->src[k].want == EMU_LONG)
                memcpy(sources[k] + 8 * i, &x[k][i], 8);
            else
                memcpy(sources[k] + 4 * i, &low, 4);
        }
        if (op->src[k].want == EMU_MASK)
            memcpy(sources[k], &mask, 4);
    }
    emu_apply(op->fn, result, at, op->insn);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t low;
        memcpy(&low, result + (op->dst[0].want == EMU_WORD ? 4 * i : 0), 4);
        if (op->dst[0].want == EMU_LONG)
            memcpy(&out[i], result + 8 * i, 8);
        else
            out[i] = op->dst[0].want == EMU_WORD ? low : low >> i & 1;
    }
}

// The value that the undefined bits of a source take.
enum way { DOWN, UP };

// Calls the lane function with the undefined bits of each source all 0 or all 1.
static void call_with(const struct emu_op *op, const numbers *x,
                      const struct emu_undefined_lanes *u, const enum way *ways, numbers out)
{
    numbers y[4];
    for (unsigned k = 0; k < op->src_count && k < 4; k++)
        for (unsigned i = 0; i < EMU_LANES; i++) {
            uint64_t bits = u[k].lane[i].bits;
            y[k][i] = ways[k] == DOWN ? x[k][i] & ~bits : x[k][i] | bits;
        }
    call(op, (const numbers *)y, out);
}

static uint64_t all_bits(const struct emu_op *op)
{
    unsigned bits = emu_bits(op->insn->type), most = op->dst[0].want * 8u;
    bits = op->insn->letters[0] == 'w' ? 2 * bits : bits;
    if (op->dst[0].want == EMU_MASK)
        return 1;
    bits = bits < most ? bits : most;
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

// For sources that are wider than what is read of them.
static uint64_t source_bits(const struct emu_op *op)
{
    unsigned bits = strchr(op->insn->letters, 'S') ? emu_bits(op->insn->source_type) : 64;
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

// ---- rules --------------------------------------------------------------------------------------

struct step {
    const struct emu_op *op;
    const numbers *x;
    const struct emu_undefined_lanes *u;
    struct emu_undefined_lanes *out;
    unsigned sources;
};

static uint64_t any_bits(const struct step *s, unsigned i)
{
    uint64_t bits = 0;
    for (unsigned k = 0; k < s->sources; k++)
        bits |= s->u[k].lane[i].bits;
    return bits;
}

static void all_or_nothing(const struct step *s)
{
    uint64_t read = source_bits(s->op), all = all_bits(s->op);
    for (unsigned i = 0; i < EMU_LANES; i++)
        s->out->lane[i].bits = any_bits(s, i) & read ? all : 0;
}

// `rule`: BITWISE, MASK or SELECT.
static void bitwise(const struct step *s, enum emu_definedness rule)
{
    const bool selects = rule == EMU_DEFINED_SELECT;
    numbers first, other;
    enum way ways[4];
    for (unsigned c = 0; c < 1u << s->sources; c++) {
        for (unsigned k = 0; k < s->sources; k++)
            ways[k] = c >> k & 1 ? UP : DOWN;
        call_with(s->op, s->x, s->u, ways, c ? other : first);
        for (unsigned i = 0; c && i < EMU_LANES; i++)
            s->out->lane[i].bits |= first[i] ^ other[i];
    }
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t computed = 0, seen = 0;
        for (unsigned k = 0; k < s->sources; k++) {
            struct emu_undefined u = s->u[k].lane[i];
            // A predicate selects all bits.
            bool chooses = selects && k == 2 && u.bits;
            uint64_t bits = chooses ? UINT64_MAX : u.bits;
            bool alone = selects && k < 2;
            computed |= u.computed | (chooses ? UINT64_MAX : alone ? 0 : seen & bits);
            seen |= bits;
        }
        s->out->lane[i].computed = rule == EMU_DEFINED_BITWISE ? UINT64_MAX : computed;
        if (selects && s->u[2].lane[i].bits == 0)
            s->out->lane[i].origin = s->u[s->x[2][i] & 1 ? 0 : 1].lane[i].origin;
    }
}

// `data` has a bit for each source whose bits are moved. The other sources say where to.
static void moves(const struct step *s, unsigned data)
{
    numbers y[4], bits, computed;
    memcpy(y, s->x, sizeof(numbers) * s->sources);
    for (unsigned k = 0; k < s->sources; k++)
        if (data >> k & 1)
            memset(y[k], 0, sizeof(numbers));
    for (unsigned i = 0; i < EMU_LANES; i++)
        s->out->lane[i].computed = 0;
    for (unsigned k = 0; k < s->sources; k++) {
        if (!(data >> k & 1))
            continue;
        for (unsigned i = 0; i < EMU_LANES; i++)
            y[k][i] = s->u[k].lane[i].bits;
        call(s->op, (const numbers *)y, bits);
        for (unsigned i = 0; i < EMU_LANES; i++)
            y[k][i] = s->u[k].lane[i].computed;
        call(s->op, (const numbers *)y, computed);
        memset(y[k], 0, sizeof(numbers));
        for (unsigned i = 0; i < EMU_LANES; i++) {
            if (bits[i])
                s->out->lane[i].origin = s->u[k].lane[i].origin;
            s->out->lane[i].bits |= bits[i];
            s->out->lane[i].computed |= computed[i];
        }
    }
    for (unsigned k = 0; k < s->sources; k++)
        for (unsigned i = 0; !(data >> k & 1) && i < EMU_LANES; i++)
            if (s->u[k].lane[i].bits)
                s->out->lane[i] =
                    (struct emu_undefined) { all_bits(s->op), UINT64_MAX, s->u[k].lane[i].origin };
}

// x + y is smallest with all undefined bits 0 and largest with all of them 1. Where both results
// agree, no carry depends on an undefined bit. For x - y, the bits of y are the other way round.
static void sum(const struct step *s, bool subtracts)
{
    const enum way least[4] = { DOWN, subtracts ? UP : DOWN };
    const enum way most[4] = { UP, subtracts ? DOWN : UP };
    numbers low, high;
    call_with(s->op, s->x, s->u, least, low);
    call_with(s->op, s->x, s->u, most, high);
    for (unsigned i = 0; i < EMU_LANES; i++)
        s->out->lane[i].bits = (low[i] ^ high[i]) | any_bits(s, i);
}

static void product(const struct step *s)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        struct emu_undefined x = s->u[0].lane[i], y = s->u[1].lane[i];
        uint64_t factors = (x.bits == 0 && s->x[0][i] == 0) || (y.bits == 0 && s->x[1][i] == 0)
                               ? 0
                               : x.bits | y.bits;
        uint64_t more = s->sources > 2 ? s->u[2].lane[i].bits : 0;
        s->out->lane[i].bits = emu_undefined_upward(factors | more);
    }
}

static void upward(const struct step *s)
{
    for (unsigned i = 0; i < EMU_LANES; i++)
        s->out->lane[i].bits = emu_undefined_upward(any_bits(s, i));
}

// The third source selects: an integer by its sign, a float as a whole.
static void choice(const struct step *s)
{
    const uint64_t decides =
        s->op->insn->source_type == EMU_S32 ? UINT32_C(0x80000000) : UINT32_MAX;
    numbers y[3], chosen;
    memset(y, 0, sizeof(y));
    for (unsigned i = 0; i < EMU_LANES; i++) {
        y[0][i] = 1;
        y[2][i] = s->x[2][i];
    }
    call(s->op, (const numbers *)y, chosen);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        struct emu_undefined a = s->u[0].lane[i], b = s->u[1].lane[i], c = s->u[2].lane[i];
        s->out->lane[i] = chosen[i] & 1 ? a : b;
        if (c.bits & decides)
            s->out->lane[i] = (struct emu_undefined) { a.bits | b.bits | (s->x[0][i] ^ s->x[1][i]),
                                                       UINT64_MAX, c.origin };
    }
}

static void halves(const struct step *s)
{
    const unsigned bits_of_half = emu_bits((enum emu_type)s->op->insn->type) / 2;
    const uint64_t low = (UINT64_C(1) << bits_of_half) - 1;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        const uint64_t bits = any_bits(s, i);
        s->out->lane[i].bits =
            (bits & low ? low : 0) | (bits >> bits_of_half ? low << bits_of_half : 0);
    }
}

// Two sources as the halves of one result, the first in the upper one.
static void pack(const struct step *s)
{
    const unsigned bits = emu_bits(s->op->insn->type) / 2;
    const uint64_t half = (UINT64_C(1) << bits) - 1;

    for (unsigned i = 0; i < EMU_LANES; i++)
        s->out->lane[i].bits =
            (s->u[1].lane[i].bits ? half : 0) | (s->u[0].lane[i].bits ? half << bits : 0);
}

// The halves of the source as those of a result of half or twice its width.
static void resize(const struct step *s)
{
    const unsigned to = emu_bits(s->op->insn->type) / 2;
    const unsigned from = emu_bits(s->op->insn->source_type) / 2;
    const uint64_t half = (UINT64_C(1) << to) - 1, read = (UINT64_C(1) << from) - 1;

    for (unsigned i = 0; i < EMU_LANES; i++) {
        const uint64_t bits = s->u[0].lane[i].bits;
        s->out->lane[i].bits = (bits & read ? half : 0) | (bits >> from & read ? half << to : 0);
    }
}

// Applies the rule of the row in isa.def. Floats and saturated integers are wholly undefined or not
// at all, each half of a pair separately.
static void by_row(const struct step *s)
{
    const struct emu_insn *insn = s->op->insn;
    const bool integer = is_integer(insn->type) && !insn->sat;
    unsigned rule = emu_definedness_of[insn->opcode];
    if (rule == EMU_DEFINED_CONVERT && s->sources == 2) {
        pack(s);
        return;
    }
    if (rule == EMU_DEFINED_CONVERT && (is_fp8(insn->type) || is_fp8(insn->source_type))) {
        resize(s);
        return;
    }
    if (rule == EMU_DEFINED_CONVERT)
        rule = integer && is_integer(insn->source_type) ? EMU_DEFINED_MOVES : EMU_DEFINED_ALL;
    if (rule >= EMU_DEFINED_SUM && rule <= EMU_DEFINED_PRODUCT && !integer)
        rule = EMU_DEFINED_ALL;
    switch (rule) {
    case EMU_DEFINED_BITWISE:
    case EMU_DEFINED_MASK:
    case EMU_DEFINED_SELECT:
        bitwise(s, (enum emu_definedness)rule);
        break;
    case EMU_DEFINED_MOVES:
        moves(s, 1);
        break;
    case EMU_DEFINED_MOVES_TWO:
        moves(s, 3);
        break;
    case EMU_DEFINED_SUM:
        sum(s, false);
        break;
    case EMU_DEFINED_DIFFERENCE:
        sum(s, true);
        break;
    case EMU_DEFINED_PRODUCT:
        product(s);
        break;
    case EMU_DEFINED_UPWARD:
        upward(s);
        break;
    case EMU_DEFINED_CHOICE:
        choice(s);
        break;
    default:
        if (is_packed(insn->type))
            halves(s);
        else
            all_or_nothing(s);
    }
}

// ---- comparisons --------------------------------------------------------------------------------

static bool compares_signed(const struct emu_insn *insn, unsigned type)
{
    return emu_is_signed((enum emu_type)type) &&
           !(insn->compare >= EMU_LO && insn->compare <= EMU_HS);
}

// The smallest and the largest possible value of a number. For a signed one, an undefined sign is
// set in the smallest.
static void bounds(const struct step *s, unsigned k, uint64_t sign, numbers least, numbers most)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t x = s->x[k][i], bits = s->u[k].lane[i].bits;
        least[i] = (x & ~bits) | (bits & sign);
        most[i] = (x | bits) & ~(bits & sign);
    }
}

// Whether the comparison itself is open, and its result otherwise.
static bool comparison_open(const struct step *s, unsigned compared, unsigned i, uint64_t low,
                            uint64_t high)
{
    struct emu_undefined x = s->u[0].lane[i], y = s->u[1].lane[i];
    unsigned compare = s->op->insn->compare;
    if ((x.bits | y.bits) == 0)
        return false;
    if (!is_integer(compared))
        return true;
    if (compare == EMU_EQ || compare == EMU_NE)
        return !emu_undefined_differ(s->x[0][i], x, s->x[1][i], y);
    return low != high;
}

// A comparison combined with a predicate: and, or and xor of two bits, each of which may be open.
static bool open_with(unsigned boolean, bool open, bool holds, bool with_open, bool with)
{
    switch (boolean) {
    case EMU_BOOL_AND:
        return (open && (with_open || with)) || (with_open && (open || holds));
    case EMU_BOOL_OR:
        return (open && (with_open || !with)) || (with_open && (open || !holds));
    case EMU_BOOL_XOR:
        return open || with_open;
    default:
        return open;
    }
}

// The undefined bits of the result of a comparison that is open, or half open.
static void put_open(const struct step *s, unsigned i, bool first, bool second)
{
    struct emu_undefined_lanes *out = s->out;
    if (s->op->dst[0].want == EMU_MASK) {
        out[0].lane[i].bits = first;
        if (s->op->dst_count > 1)
            out[1].lane[i].bits = second;
        return;
    }
    uint64_t all = all_bits(s->op);
    out[0].lane[i].bits = (first ? all & UINT64_C(0xffffffff0000ffff) : 0) |
                          (second ? all & UINT64_C(0xffff0000) : 0);
}

static void compare(const struct step *s)
{
    const struct emu_insn *insn = s->op->insn;
    unsigned compared = insn->source_type;
    uint64_t sign = UINT64_C(1) << (emu_bits((enum emu_type)compared) - 1);
    numbers least[4], most[4], crossed[2], results[3];
    sign = compares_signed(insn, compared) ? sign : 0;
    memcpy(least, s->x, sizeof(numbers) * s->sources);
    memcpy(most, s->x, sizeof(numbers) * s->sources);
    for (unsigned k = 0; k < 2; k++)
        bounds(s, k, sign, least[k], most[k]);
    // Smallest x against largest y, and the other way round.
    memcpy(crossed[0], most[1], sizeof(numbers));
    memcpy(crossed[1], least[1], sizeof(numbers));
    memcpy(least[1], crossed[0], sizeof(numbers));
    memcpy(most[1], crossed[1], sizeof(numbers));
    struct emu_op mask = *s->op;
    struct emu_value to = { .want = EMU_MASK };
    mask.dst = &to;
    call(&mask, (const numbers *)least, results[0]);
    call(&mask, (const numbers *)most, results[1]);
    call(&mask, s->x, results[2]);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        bool open = comparison_open(s, compared, i, results[0][i], results[1][i]);
        bool holds = results[2][i];
        bool with_open = s->sources > 2 && s->u[2].lane[i].bits;
        bool with = s->sources > 2 && s->x[2][i] & 1;
        bool first = open_with(insn->boolean, open, holds, with_open, with);
        bool second = s->op->dst[0].want == EMU_MASK
                          ? open_with(insn->boolean, open, !holds, with_open, with)
                          : first;
        put_open(s, i, first, second);
    }
}

// The first result is that of the row. The second says whether it is not 0, with a predicate.
static void truth(const struct step *s)
{
    const unsigned sources = s->sources - 1;
    const struct step value = { s->op, s->x, s->u, s->out, sources };
    numbers result;
    by_row(&value);
    call(s->op, s->x, result);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        const uint64_t open = s->out[0].lane[i].bits;
        const bool holds = (result[i] & ~open) != 0;
        s->out[1].lane[i].bits = open_with(s->op->insn->boolean, open && !holds, holds,
                                           s->u[sources].lane[i].bits != 0, s->x[sources][i] & 1);
    }
}

static void compare_pair(const struct step *s)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t bits = s->u[0].lane[i].bits | s->u[1].lane[i].bits;
        bool with = s->sources > 2 && s->u[2].lane[i].bits;
        put_open(s, i, with || bits & 0xffff, with || bits >> 16);
    }
}

// ---- all of them --------------------------------------------------------------------------------

static void move_parts(const struct step *s)
{
    numbers from[EMU_MOST_PARTS], to[EMU_MOST_PARTS];
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned k = 0; k < s->sources; k++)
            for (unsigned i = 0; i < EMU_LANES; i++)
                from[k][i] = pass ? s->u[k].lane[i].computed : s->u[k].lane[i].bits;
        emu_move_parts(s->op, (const numbers *)from, to);
        for (unsigned k = 0; k < s->op->dst_count; k++)
            for (unsigned i = 0; i < EMU_LANES; i++)
                *(pass ? &s->out[k].lane[i].computed : &s->out[k].lane[i].bits) = to[k][i];
    }
}

static uint32_t origin_of(const struct step *s, unsigned i)
{
    for (unsigned k = 0; k < s->sources; k++)
        if (s->u[k].lane[i].bits)
            return s->u[k].lane[i].origin;
    return 0;
}

void emu_undefined_results(const struct emu_op *op, const uint64_t (*x)[EMU_LANES],
                           const struct emu_undefined_lanes *u, struct emu_undefined_lanes *results)
{
    const struct step s = { op, x, u, results, op->src_count };
    memset(results, 0, sizeof(*results) * op->dst_count);
    for (unsigned k = 0; k < op->dst_count; k++)
        for (unsigned i = 0; i < EMU_LANES; i++)
            results[k].lane[i] = (struct emu_undefined) { 0, UINT64_MAX, origin_of(&s, i) };
    switch (op->handler) {
    case EMU_DO_COMPARE:
        compare(&s);
        break;
    case EMU_DO_COMPARE_PAIR:
        compare_pair(&s);
        break;
    case EMU_DO_TRUTH:
        truth(&s);
        break;
    case EMU_DO_MOVE:
        move_parts(&s);
        break;
    default:
        by_row(&s);
    }
}

// ---- between lanes, and in memory ---------------------------------------------------------------

struct votes {
    uint32_t open, yes, no; // lanes
};

static uint64_t vote(const struct emu_insn *insn, struct votes v)
{
    switch (insn->mode) {
    case EMU_MODE_ALL:
        return v.open && !v.no;
    case EMU_MODE_ANY:
        return v.open && !v.yes;
    case EMU_MODE_UNI:
        return v.open && !(v.yes && v.no);
    default:
        return v.open;
    }
}

// The lanes whose value may or may not equal that of lane i.
static uint32_t open_matches(uint32_t lanes, const uint64_t *x, const struct emu_undefined_lanes *u,
                             unsigned i)
{
    uint32_t open = 0;
    for (uint32_t m = lanes & ~(1u << i); m; m &= m - 1) {
        unsigned k = emu_first(m);
        if (u->lane[i].bits | u->lane[k].bits)
            open |= emu_undefined_differ(x[i], u->lane[i], x[k], u->lane[k]) ? 0 : 1u << k;
    }
    return open;
}

static bool some_differ(uint32_t lanes, const uint64_t *x, const struct emu_undefined_lanes *u)
{
    for (uint32_t m = lanes; m; m &= m - 1)
        for (uint32_t n = m & (m - 1); n; n &= n - 1)
            if (emu_undefined_differ(x[emu_first(m)], u->lane[emu_first(m)], x[emu_first(n)],
                                     u->lane[emu_first(n)]))
                return true;
    return false;
}

static uint64_t reduce(const struct emu_insn *insn, uint32_t lanes, const uint64_t *x,
                       const struct emu_undefined_lanes *u)
{
    uint64_t bits = 0, zeros = 0, ones = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        bits |= u->lane[i].bits;
        zeros |= ~(x[i] | u->lane[i].bits);
        ones |= x[i] & ~u->lane[i].bits;
    }
    switch (insn->atomic) {
    case EMU_ATOMIC_AND:
        return bits & ~zeros;
    case EMU_ATOMIC_OR:
        return bits & ~ones;
    case EMU_ATOMIC_XOR:
        return bits;
    case EMU_ATOMIC_ADD:
        return emu_undefined_upward(bits);
    default:
        return bits ? UINT64_MAX : 0;
    }
}

void emu_undefined_exchange(const struct emu_op *op, uint32_t lanes, const uint64_t *x,
                            const struct emu_undefined_lanes *u,
                            struct emu_undefined_lanes *results)
{
    struct votes v = { 0, 0, 0 };
    uint32_t origin = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint32_t bit = 1u << i;
        v.open |= u->lane[i].bits ? bit : 0;
        v.yes |= !u->lane[i].bits && x[i] ? bit : 0;
        v.no |= !u->lane[i].bits && !x[i] ? bit : 0;
        origin = u->lane[i].bits && !origin ? u->lane[i].origin : origin;
    }
    bool match = op->handler == EMU_DO_MATCH, all = match && op->insn->mode == EMU_MODE_ALL;
    uint64_t open_all = all && !some_differ(lanes, x, u) ? UINT64_MAX : 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint64_t bits = all                           ? open_all
                        : match                       ? open_matches(lanes, x, u, i)
                        : op->handler == EMU_DO_REDUX ? reduce(op->insn, lanes, x, u)
                                                      : vote(op->insn, v);
        results[0].lane[i] = (struct emu_undefined) { bits, bits, origin };
        results[1].lane[i] = (struct emu_undefined) { open_all & 1, open_all & 1, origin };
    }
}

struct emu_undefined emu_undefined_atomic(const struct emu_insn *insn, uint64_t old,
                                          struct emu_undefined u_old, uint64_t x,
                                          struct emu_undefined u_x, struct emu_undefined u_fresh)
{
    uint64_t bits = u_old.bits | u_x.bits;
    struct emu_undefined result = { 0, UINT64_MAX, u_old.bits ? u_old.origin : u_x.origin };
    unsigned size = emu_bits(insn->type);
    uint64_t all = size >= 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1;
    switch (insn->atomic) {
    case EMU_ATOMIC_EXCH:
        return u_x;
    case EMU_ATOMIC_AND:
        result.bits = bits & (u_old.bits | old) & (u_x.bits | x);
        break;
    case EMU_ATOMIC_OR:
        result.bits = bits & (u_old.bits | ~old) & (u_x.bits | ~x);
        break;
    case EMU_ATOMIC_XOR:
        result.bits = bits;
        break;
    case EMU_ATOMIC_ADD:
        result.bits = is_integer(insn->type) ? emu_undefined_upward(bits) & all : bits ? all : 0;
        break;
    case EMU_ATOMIC_CAS:
        if (emu_undefined_differ(old, u_old, x, u_x))
            return u_old;
        if (bits == 0)
            return u_fresh; // if equal; otherwise they differ
        result.bits = all;
        break;
    default:
        result.bits = bits ? all : 0;
    }
    return result;
}
