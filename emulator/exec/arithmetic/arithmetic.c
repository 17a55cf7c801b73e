// SPDX-License-Identifier: MIT
// The modifiers around a lane function: ftz, sat and rounding modes; comparisons; carries; moves of
// parts.
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "exec/check/undefined_rules.h"

#include <fenv.h>
#include <math.h>
#include <stdalign.h>

// ---- floats -------------------------------------------------------------------------------------

static void flush_words(void *to, const void *from)
{
    const uint32_t *x = from;
    uint32_t *r = to;
    for (unsigned i = 0; i < EMU_LANES; i++)
        r[i] = x[i] & UINT32_C(0x7f800000) ? x[i] : x[i] & UINT32_C(0x80000000);
}

// Flushes f32 subnormals to zero.
static void flush_sources(const struct emu_op *op, struct emu_sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++) {
        if (op->src[k].want != EMU_WORD)
            continue;
        flush_words(s->scratch[k], s->at[k]);
        s->at[k] = s->scratch[k];
    }
}

// Hardware flushes a result that, rounded with an unbounded exponent, is below 2^-126. This
// includes results that rounding to a subnormal would have raised to 2^-126. So such results are
// computed again, scaled by 2^64. The sources are already flushed, their sums are exact, and the
// calling thread still has the rounding mode of the instruction.
static bool below_normal(unsigned mode, float x, float y, float z)
{
    const float up = 0x1p64f, down = 0x1p-64f;
    volatile float scaled;

    switch (mode) {
    case EMU_MODE_PRODUCT:
        scaled = fabsf(x) < 1 ? x * up * y : y * up * x;
        break;
    case EMU_MODE_PRODUCT_SUM:
        if (fabsf(z) > 1)
            return false;
        scaled = fabsf(x) < 1 ? fmaf(x * up, y, z * up) : fmaf(y * up, x, z * up);
        break;
    case EMU_MODE_QUOTIENT:
        scaled = fabsf(x) < 1 ? x * up / y : x / (y * down);
        break;
    case EMU_MODE_RECIPROCAL:
        scaled = 1 / (x * down);
        break;
    default:
        return false;
    }
    return fabsf(scaled) < 0x1p-62f;
}

static void flush_carried(const struct emu_op *op, const struct emu_sources *s, uint32_t *r)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        float x[3] = { 0, 0, 0 };
        if ((r[i] & UINT32_C(0x7fffffff)) != UINT32_C(0x00800000))
            continue;
        for (unsigned k = 0; k < op->src_count && k < 3; k++)
            memcpy(&x[k], (const uint32_t *)s->at[k] + i, sizeof x[k]);
        if (below_normal(op->insn->mode, x[0], x[1], x[2]))
            r[i] &= UINT32_C(0x80000000);
    }
}

int emu_host_rounding(unsigned round)
{
    switch (round) {
    case EMU_RZ:
        return FE_TOWARDZERO;
    case EMU_RM:
        return FE_DOWNWARD;
    case EMU_RP:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

// Clamps to [0, 1]; NaN and -0 become +0.
static void saturate_words(uint32_t *r)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t x = r[i] > UINT32_C(0x7f800000) ? 0 : r[i];
        r[i] = x > UINT32_C(0x3f800000) ? UINT32_C(0x3f800000) : x;
    }
}

// The lane function of the operation on these sources, and the modifiers around it.
static void compute(const struct emu_op *op, struct emu_sources *s, uint32_t *out)
{
    int rounding = emu_host_rounding(op->insn->round);
    if (rounding != FE_TONEAREST)
        fesetround(rounding);
    emu_apply(op->fn, out, s->at, op->insn);
    if (op->float_out && op->insn->ftz)
        flush_carried(op, s, out);
    if (rounding != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    if (op->float_out && op->insn->ftz)
        flush_words(out, out);
    if (op->float_out && op->insn->sat)
        saturate_words(out);
}

void emu_do_float(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint32_t out[EMU_LANES * 2];
    emu_fetch_all(warp, frame, op, &s);
    if (op->is_float && op->insn->ftz)
        flush_sources(op, &s);
    compute(op, &s, out);
    emu_put(frame, init, &op->dst[0], mask, out);
}

void emu_do_float_pair(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                       const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s, half;
    alignas(64) uint64_t out[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    emu_fetch_all(warp, frame, op, &s);
    for (unsigned part = 0; part < 2; part++) {
        for (unsigned k = 0; k < op->src_count; k++) {
            const uint64_t *longs = s.at[k];
            for (unsigned i = 0; i < EMU_LANES; i++)
                words[i] = (uint32_t)(longs[i] >> 32 * part);
            if (op->insn->ftz)
                flush_words(half.scratch[k], words);
            else
                memcpy(half.scratch[k], words, sizeof(words));
            half.at[k] = half.scratch[k];
        }
        compute(op, &half, words);
        for (unsigned i = 0; i < EMU_LANES; i++)
            out[i] = part ? out[i] | (uint64_t)words[i] << 32 : words[i];
    }
    emu_put(frame, init, &op->dst[0], mask, out);
}

// ---- comparisons --------------------------------------------------------------------------------

// The result of a `set` whose comparison holds.
static uint64_t truth(unsigned type)
{
    switch (type) {
    case EMU_F32:
        return UINT64_C(0x3f800000);
    case EMU_F64:
        return UINT64_C(0x3ff0000000000000);
    case EMU_F16:
        return 0x3c00;
    case EMU_BF16:
        return 0x3f80;
    case EMU_F16X2:
        return UINT64_C(0x3c003c00);
    case EMU_BF16X2:
        return UINT64_C(0x3f803f80);
    default:
        return emu_bits(type) >= 64 ? UINT64_MAX : (UINT64_C(1) << emu_bits(type)) - 1;
    }
}

// Combines the comparison, or its complement, with the predicate.
static uint32_t with_predicate(const struct emu_op *op, const struct emu_sources *s, uint32_t holds)
{
    uint32_t with;
    if (op->insn->boolean == EMU_BOOL_NONE)
        return holds;
    memcpy(&with, s->at[2], 4);
    return op->insn->boolean == EMU_BOOL_AND  ? holds & with
           : op->insn->boolean == EMU_BOOL_OR ? holds | with
                                              : holds ^ with;
}

// The result of `set`: `yes` where the comparison holds, for the lower and the upper half of a
// pair.
static void put_number(unsigned char *frame, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, uint64_t yes, const uint32_t halves[2])
{
    const uint64_t low = yes & UINT64_C(0xffffffff0000ffff), high = yes & UINT64_C(0xffff0000);
    alignas(64) uint64_t longs[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++) {
        longs[i] = (halves[0] >> i & 1 ? low : 0) | (halves[1] >> i & 1 ? high : 0);
        words[i] = (uint32_t)longs[i];
    }
    emu_put(frame, init, value, mask,
            value->want == EMU_LONG ? (const void *)longs : (const void *)words);
}

void emu_do_compare(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                    const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    uint32_t holds = 0;
    emu_fetch_all(warp, frame, op, &s);
    if (op->is_float)
        flush_sources(op, &s);
    emu_apply(op->fn, &holds, s.at, op->insn);
    uint32_t fails = with_predicate(op, &s, ~holds);
    holds = with_predicate(op, &s, holds);
    if (op->dst[0].want == EMU_MASK) {
        emu_put(frame, init, &op->dst[0], mask, &holds);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &fails);
        return;
    }
    put_number(frame, init, &op->dst[0], mask, truth(op->insn->type),
               (const uint32_t[2]) { holds, holds });
}

void emu_do_compare_pair(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                         const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint32_t part[2][EMU_LANES];
    uint32_t halves[2] = { 0, 0 };
    emu_fetch_all(warp, frame, op, &s);
    for (unsigned half = 0; half < 2; half++) {
        const uint32_t *a = s.at[0], *b = s.at[1];
        for (unsigned i = 0; i < EMU_LANES; i++) {
            part[0][i] = a[i] >> 16 * half & 0xffff;
            part[1][i] = b[i] >> 16 * half & 0xffff;
        }
        op->fn(&halves[half], part[0], part[1], NULL, NULL, op->insn);
        halves[half] = with_predicate(op, &s, halves[half]);
    }
    if (op->dst[0].want == EMU_MASK) {
        emu_put(frame, init, &op->dst[0], mask, &halves[0]);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &halves[1]);
        return;
    }
    put_number(frame, init, &op->dst[0], mask, truth(op->insn->type), halves);
}

void emu_do_truth(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint32_t out[EMU_LANES], scratch;
    uint32_t holds = 0, with;
    for (unsigned k = 0; k < op->src_count - 1u; k++)
        s.at[k] = emu_fetch(warp, frame, &op->src[k], s.scratch[k]);
    memcpy(&with, emu_fetch(warp, frame, &op->src[op->src_count - 1], &scratch), sizeof(with));
    emu_apply(op->fn, out, s.at, op->insn);
    for (unsigned i = 0; i < EMU_LANES; i++)
        holds |= (uint32_t)(out[i] != 0) << i;
    holds = op->insn->boolean == EMU_BOOL_AND ? holds & with : holds | with;
    emu_put(frame, init, &op->dst[0], mask, out);
    emu_put(frame, init, &op->dst[1], mask, &holds);
}

// ---- carries ------------------------------------------------------------------------------------

static bool takes_carry(const struct emu_insn *insn)
{
    return insn->mode == EMU_MODE_ADD_CARRY || insn->mode == EMU_MODE_SUBTRACT_CARRY;
}

static bool subtracts(const struct emu_insn *insn)
{
    return insn->mode == EMU_MODE_SUBTRACT || insn->mode == EMU_MODE_SUBTRACT_CARRY;
}

// x + y or x - y. The carry in comes from the flag if the instruction takes it.
static uint64_t with_carry(const struct emu_insn *insn, bool wide, uint64_t x, uint64_t y,
                           bool *carry)
{
    uint64_t in = takes_carry(insn) ? *carry : subtracts(insn), sum;
    bool out;
    y = subtracts(insn) ? ~y : y;
    if (wide) {
        sum = x + y + in;
        out = sum < x || (in && sum == x);
    } else {
        sum = (uint64_t)(uint32_t)x + (uint32_t)y + in;
        out = sum >> 32 & 1;
        sum = (uint32_t)sum;
    }
    if (insn->carry_out)
        *carry = out;
    return sum;
}

static uint64_t lane_of(bool wide, const void *lanes, unsigned i)
{
    return wide ? ((const uint64_t *)lanes)[i] : ((const uint32_t *)lanes)[i];
}

// The undefined bits of the operands that are added: of the product, if there is one, and of the
// other.
static void fetch_undefined(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                            uint32_t mask, struct emu_undefined_lanes *u)
{
    struct emu_undefined_lanes factor;
    bool upward = emu_definedness_of[op->insn->opcode] == EMU_DEFINED_PRODUCT;
    emu_undefined_fetch(warp, init, op, &op->src[0], mask, &u[0]);
    emu_undefined_fetch(warp, init, op, &op->src[1], mask, &u[1]);
    if (!op->fn)
        return;
    factor = u[1];
    emu_undefined_fetch(warp, init, op, &op->src[2], mask, &u[1]);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        struct emu_undefined *product = &u[0].lane[i];
        product->origin = product->bits ? product->origin : factor.lane[i].origin;
        product->bits |= factor.lane[i].bits;
        product->bits =
            upward ? emu_undefined_upward(product->bits) : (product->bits ? UINT64_MAX : 0);
    }
}

// Computes with both extremes of the undefined bits: the sum and carry bits that differ are
// undefined.
static void carry_undefined(struct emu_warp *warp, const struct emu_op *op, bool wide,
                            const void *first, const void *second, uint32_t mask,
                            struct emu_undefined_lanes *u)
{
    const struct emu_insn *insn = op->insn;
    bool minus = subtracts(insn);
    uint32_t open = takes_carry(insn) ? warp->carry_undefined : 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_undefined x = u[0].lane[i], y = u[1].lane[i];
        uint64_t a = lane_of(wide, first, i), b = lane_of(wide, second, i);
        bool in = warp->carry >> i & 1, unknown = open >> i & 1;
        bool low = in && !unknown, high = in || unknown;
        uint64_t least =
            with_carry(insn, wide, a & ~x.bits, minus ? b | y.bits : b & ~y.bits, &low);
        uint64_t most = with_carry(insn, wide, a | x.bits, minus ? b & ~y.bits : b | y.bits, &high);
        uint32_t origin = x.bits ? x.origin : y.bits ? y.origin : warp->carry_origin[i];
        u[0].lane[i] =
            (struct emu_undefined) { (least ^ most) | x.bits | y.bits, UINT64_MAX, origin };
        if (!insn->carry_out)
            continue;
        warp->carry_undefined &= ~(1u << i);
        warp->carry_undefined |= low != high ? 1u << i : 0;
        warp->carry_origin[i] = origin;
    }
}

void emu_do_carry(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint64_t longs[EMU_LANES], product[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    const bool wide = emu_bits(op->insn->type) == 64, multiplies = op->fn != NULL;
    emu_fetch_all(warp, frame, op, &s);
    if (multiplies)
        emu_apply(op->fn, product, s.at, op->insn);
    const void *first = multiplies ? product : s.at[0];
    const void *second = multiplies ? s.at[2] : s.at[1];
    struct emu_undefined_lanes u[2];
    uint32_t open = takes_carry(op->insn) ? mask & warp->carry_undefined : 0;
    for (unsigned k = 0; k < op->src_count; k++)
        open |= emu_undefined_in(init, &op->src[k], mask);
    if (open) {
        fetch_undefined(warp, init, op, mask, u);
        carry_undefined(warp, op, wide, first, second, mask, u);
    } else if (op->insn->carry_out) {
        warp->carry_undefined &= ~mask;
    }
    for (unsigned i = 0; i < EMU_LANES; i++) {
        bool carry = warp->carry >> i & 1;
        longs[i] =
            with_carry(op->insn, wide, lane_of(wide, first, i), lane_of(wide, second, i), &carry);
        words[i] = (uint32_t)longs[i];
        if (mask >> i & 1)
            warp->carry = (warp->carry & ~(1u << i)) | (uint32_t)carry << i;
    }
    emu_put(frame, init, &op->dst[0], mask, wide ? (const void *)longs : (const void *)words);
    if (open)
        emu_undefined_put(warp, init, &op->dst[0], mask, &u[0]);
}

// ---- parts and addresses ------------------------------------------------------------------------

bool emu_do_move(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES], from[EMU_MOST_PARTS][EMU_LANES];
    alignas(64) uint64_t to[EMU_MOST_PARTS][EMU_LANES];
    for (unsigned k = 0; k < op->src_count; k++) {
        const void *lanes = emu_fetch(warp, frame, &op->src[k], scratch);
        for (unsigned i = 0; i < EMU_LANES; i++)
            from[k][i] = emu_lane_of(&op->src[k], lanes, i);
    }
    emu_move_parts(op, (const uint64_t(*)[EMU_LANES])from, to);
    for (unsigned k = 0; k < op->dst_count; k++)
        emu_put_longs(frame, init, &op->dst[k], mask, to[k]);
    return true;
}

static uint64_t window_of(unsigned space)
{
    switch (space) {
    case EMU_SHARED:
        return EMU_SHARED_WINDOW;
    case EMU_LOCAL:
        return EMU_LOCAL_WINDOW;
    case EMU_PARAM:
        return EMU_PARAM_WINDOW;
    default:
        return 0; // global and const addresses are generic ones
    }
}

static bool is_in(const struct emu_exec *exec, unsigned space, uint64_t address)
{
    bool window = address >= EMU_SHARED_WINDOW && address < EMU_WINDOWS_END;
    uint64_t base = window_of(space);
    if (base)
        return address >= base && address - base < EMU_WINDOW_SIZE;
    bool is_const = address - exec->launch->const_base < exec->launch->module->const_bytes;
    return !window && is_const == (space == EMU_CONST);
}

bool emu_do_address(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    struct emu_exec *exec = warp->block->exec;
    unsigned char *frame = emu_frame(warp, warp->depth, exec->program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, exec->program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES], out[EMU_LANES];
    const uint64_t *a = emu_fetch(warp, frame, &op->src[0], scratch);
    uint64_t window = window_of(op->space);
    uint32_t inside = 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        out[i] = op->insn->mode == EMU_MODE_TO ? a[i] - window : a[i] + window;
        if (is_in(exec, op->space, a[i]))
            inside |= 1u << i;
    }
    if (op->dst[0].want == EMU_MASK)
        emu_put(frame, init, &op->dst[0], mask, &inside);
    else
        emu_put_longs(frame, init, &op->dst[0], mask, out);
    return true;
}

// Each block is its own cluster, of rank 0: mapa gives the address that it gets.
bool emu_do_cluster(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[2][EMU_LANES], results[EMU_LANES] = { 0 };
    if (op->insn->mode == EMU_MODE_MAP) {
        const void *addresses = emu_fetch(warp, frame, &op->src[0], scratch[0]);
        const void *ranks = emu_fetch(warp, frame, &op->src[1], scratch[1]);
        for (uint32_t m = mask; m; m &= m - 1) {
            const unsigned i = emu_first(m);
            const uint32_t rank = (uint32_t)emu_lane_of(&op->src[1], ranks, i);
            if (rank)
                return emu_fault(warp, op->insn, i, EMU_ILLEGAL_INSTRUCTION,
                                 "mapa to block %u of the cluster, which has 1 block",
                                 (unsigned)rank);
            results[i] = emu_lane_of(&op->src[0], addresses, i);
        }
    }
    emu_put_longs(frame, init, &op->dst[0], mask, results);
    return true;
}
