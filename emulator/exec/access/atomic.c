// SPDX-License-Identifier: MIT
// atom and red, lane after lane in ascending order. Other workers may access the same memory, so
// each is one atomic operation of the host or a compare-and-swap loop.
#include "access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "exec/check/undefined_rules.h"

#include <stdalign.h>

static uint32_t flush_f32(uint32_t x)
{
    return x & UINT32_C(0x7f800000) ? x : x & UINT32_C(0x80000000);
}

// An f32 atomic flushes subnormals in global memory, as PTX specifies. In shared memory, and for
// other types, they are kept.
static uint64_t float_add(const struct emu_insn *insn, bool flush, uint64_t x, uint64_t y)
{
    switch (insn->type) {
    case EMU_F16:
    case EMU_BF16:
        return emu_half_add(insn->type == EMU_BF16, (uint16_t)x, (uint16_t)y);
    case EMU_F16X2:
    case EMU_BF16X2: {
        bool bf16 = insn->type == EMU_BF16X2;
        uint32_t low = emu_half_add(bf16, (uint16_t)x, (uint16_t)y);
        uint32_t high = emu_half_add(bf16, (uint16_t)(x >> 16), (uint16_t)(y >> 16));
        return high << 16 | low;
    }
    case EMU_F32: {
        uint32_t a = (uint32_t)x, b = (uint32_t)y;
        float sum = flush ? emu_f32(flush_f32(a)) + emu_f32(flush_f32(b)) : emu_f32(a) + emu_f32(b);
        uint32_t bits = sum == sum ? emu_f32_bits(sum) : EMU_F32_NAN;
        return flush ? flush_f32(bits) : bits;
    }
    default: {
        double sum = emu_f64(x) + emu_f64(y);
        if (sum == sum)
            return emu_f64_bits(sum);
        // If both are NaN, shared memory keeps its own, global memory takes the operand.
        return flush ? emu_nan64(y, x) : emu_nan64(x, y);
    }
    }
}

// A number takes precedence over a NaN, and +0 is above -0.
static uint32_t half_extreme(bool bf16, bool least, uint32_t x, uint32_t y)
{
    const uint32_t infinity = bf16 ? 0x7f80 : 0x7c00;
    const bool x_nan = (x & 0x7fff) > infinity, y_nan = (y & 0x7fff) > infinity;
    const uint32_t of_x = x & 0x8000 ? 0xffff ^ x : 0x8000 | x;
    const uint32_t of_y = y & 0x8000 ? 0xffff ^ y : 0x8000 | y;
    if (x_nan || y_nan)
        return x_nan && y_nan ? EMU_F16_NAN : x_nan ? y : x;
    return (of_x < of_y) == least ? x : y;
}

static uint64_t float_extreme(const struct emu_insn *insn, uint64_t x, uint64_t y)
{
    const bool bf16 = insn->type == EMU_BF16 || insn->type == EMU_BF16X2;
    const bool least = insn->atomic == EMU_ATOMIC_MIN;
    const uint32_t a = (uint32_t)x, b = (uint32_t)y;
    const uint32_t low = half_extreme(bf16, least, a & 0xffff, b & 0xffff);
    return emu_bits((enum emu_type)insn->type) == 16
               ? low
               : half_extreme(bf16, least, a >> 16, b >> 16) << 16 | low;
}

static bool is_float(unsigned type)
{
    return type >= EMU_F16;
}

static bool less(const struct emu_insn *insn, uint64_t x, uint64_t y)
{
    switch (insn->type) {
    case EMU_S32:
        return (int32_t)x < (int32_t)y;
    case EMU_S64:
        return (int64_t)x < (int64_t)y;
    default:
        return x < y;
    }
}

// The value of memory after the operation on `old`.
static uint64_t result(const struct emu_insn *insn, bool flush, uint64_t old, uint64_t x,
                       uint64_t fresh)
{
    switch (insn->atomic) {
    case EMU_ATOMIC_ADD:
        return is_float(insn->type) ? float_add(insn, flush, old, x) : old + x;
    case EMU_ATOMIC_MIN:
    case EMU_ATOMIC_MAX:
        if (is_float(insn->type))
            return float_extreme(insn, old, x);
        if (insn->atomic == EMU_ATOMIC_MAX)
            return less(insn, old, x) ? x : old;
        return less(insn, x, old) ? x : old;
    case EMU_ATOMIC_INC:
        return old >= x ? 0 : old + 1;
    case EMU_ATOMIC_DEC:
        return old == 0 || old > x ? x : old - 1;
    case EMU_ATOMIC_AND:
        return old & x;
    case EMU_ATOMIC_OR:
        return old | x;
    case EMU_ATOMIC_XOR:
        return old ^ x;
    case EMU_ATOMIC_EXCH:
        return x;
    default:
        return old == x ? fresh : old;
    }
}

#define EXCHANGE(T)                                                                                \
    {                                                                                              \
        _Atomic(T) *at = (_Atomic(T) *)(void *)host;                                               \
        T old = atomic_load(at);                                                                   \
        while (!atomic_compare_exchange_weak(                                                      \
            at, &old, (T)result(insn, flush, old, (uint64_t)(T)x, (uint64_t)(T)fresh)))            \
            ;                                                                                      \
        return old;                                                                                \
    }

static uint64_t exchange(const struct emu_insn *insn, bool flush, unsigned char *host,
                         unsigned bytes, uint64_t x, uint64_t fresh)
{
    switch (bytes) {
    case 1:
        EXCHANGE(uint8_t)
    case 2:
        EXCHANGE(uint16_t)
    case 4:
        EXCHANGE(uint32_t)
    default:
        EXCHANGE(uint64_t)
    }
}

void emu_reduce(const struct emu_insn *insn, unsigned char *host, unsigned bytes, uint64_t x)
{
    exchange(insn, false, host, bytes, x, 0);
}

static bool supported(const struct emu_insn *insn)
{
    const bool halves = insn->type != EMU_F32 && insn->type != EMU_F64;
    return !is_float(insn->type) || insn->atomic == EMU_ATOMIC_ADD ||
           (halves && (insn->atomic == EMU_ATOMIC_MIN || insn->atomic == EMU_ATOMIC_MAX)) ||
           insn->atomic == EMU_ATOMIC_EXCH || insn->atomic == EMU_ATOMIC_CAS;
}

static struct emu_access within(const struct emu_reach *reach, unsigned lane)
{
    const int32_t away = reach->away[lane];
    return (struct emu_access) { reach->host + away, reach->shadow ? reach->shadow + away : NULL,
                                 reach->shared };
}

static unsigned elements_of(const struct emu_op *op)
{
    return op->insn->atomic == EMU_ATOMIC_CAS ? 1 : op->src_count - 1u;
}

// Runs before the operation if something is undefined: computes the undefined bits of memory
// afterwards and of the returned value. False after a fault.
__attribute__((noinline)) static bool
carry_undefined(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op, unsigned lane,
                uint64_t address, const struct emu_access *access, const void *const *x,
                struct emu_undefined_lanes *given)
{
    struct emu_undefined u[8];
    const unsigned count = op->src_count - 1u;
    for (unsigned k = 0; k < count; k++) {
        struct emu_undefined_lanes fetched;
        emu_undefined_fetch(warp, init, op, &op->src[k + 1], 1u << lane, &fetched);
        u[k] = fetched.lane[lane];
    }
    for (unsigned k = 0; k < elements_of(op); k++) {
        unsigned char *shadow = access->shadow ? access->shadow + k * op->bytes : NULL;
        uint64_t old = emu_read_strong(access->host + k * op->bytes, op->bytes);
        uint64_t value = emu_lane_of(&op->src[k + 1], x[k], lane);
        if (shadow) {
            struct emu_undefined before = emu_undefined_load(warp, op, address, shadow, op->bytes);
            given[k].lane[lane] = before;
            emu_undefined_store(
                warp, shadow, op->bytes,
                emu_undefined_atomic(op->insn, old, before, value, u[k], u[count - 1]));
        } else if (emu_is_host_address(op->space, address) && u[k].computed &&
                   !emu_report_finding(warp, op->insn, lane, EMU_FINDING_HOST, EMU_TO_HOST,
                                       emu_origin_text(warp->block->exec->shadows, u[k].origin))) {
            return false;
        }
    }
    return true;
}

bool emu_do_atomic(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[9][EMU_LANES], longs[8][EMU_LANES];
    const uint64_t *address = emu_addresses(warp, frame, op, scratch[0]);
    const unsigned elements = elements_of(op);
    const uint32_t total = op->bytes * elements;
    const void *x[8] = { NULL };
    for (unsigned k = 0; k + 1u < op->src_count; k++)
        x[k] = emu_fetch(warp, frame, &op->src[k + 1], scratch[k + 1]);
    const void *fresh = x[op->src_count - 2];
    if (!supported(op->insn))
        return emu_fault(warp, op->insn, emu_first(mask), EMU_ILLEGAL_INSTRUCTION,
                         "the emulator does not support this atomic operation for this type");
    struct emu_undefined_lanes given[8];
    uint32_t open = 0, gave = 0;
    for (unsigned k = 1; init && k < op->src_count; k++)
        open |= emu_undefined_in(init, &op->src[k], mask);
    emu_race_atomic(warp, op);
    struct emu_reach reach;
    const bool together = op->space != EMU_PARAM &&
                          emu_reach_all(warp, frame, op, mask, total, &reach) &&
                          emu_constant_lanes(warp, op, mask, &reach, total, EMU_USE_ATOMIC);
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_access access;
        if (together)
            access = within(&reach, i);
        else if (!emu_lane_access(warp, op, i, address[i], total, EMU_USE_ATOMIC, &access))
            return false;
        if (access.shared && warp->block->race &&
            !emu_race_access(warp, op, i, (uint32_t)(access.host - warp->block->shared), total,
                             EMU_USE_ATOMIC, false))
            return false;
        if (open >> i & 1 || (access.shadow && !emu_shadow_set_strong(access.shadow, total))) {
            gave |= access.shadow ? 1u << i : 0;
            if (!carry_undefined(warp, init, op, i, address[i], &access, x, given))
                return false;
        }
        for (unsigned k = 0; k < elements; k++)
            longs[k][i] = exchange(
                op->insn, !access.shared && (op->insn->type != EMU_F32 || !op->insn->noftz),
                access.host + k * op->bytes, op->bytes, emu_lane_of(&op->src[k + 1], x[k], i),
                emu_lane_of(&op->src[op->src_count - 1], fresh, i));
    }
    for (unsigned k = 0; k < op->dst_count; k++)
        emu_put_longs(frame, init, &op->dst[k], mask, longs[k]);
    for (unsigned k = 0; gave && k < op->dst_count; k++)
        emu_undefined_put(warp, init, &op->dst[k], gave, &given[k]);
    return true;
}
