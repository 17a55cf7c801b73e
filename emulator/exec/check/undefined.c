// SPDX-License-Identifier: MIT
// Undefined values in registers: tracked through instructions, reported where they decide
// something.
//
// A set bit of `init` means that the register is fully defined in that lane. An instruction that
// reads only such lanes runs as it would without the sanitizers; any other one runs through
// undefined_step() of interpret.c. For a lane without its bit, the register's record says which
// bits are undefined. A register without a record was never written.
//
// A lane is called open if an operand, or the answer to a question, is undefined in it.
#include "undefined.h"
#include "exec/base/value.h"
#include "report.h"
#include "undefined_rules.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- registers ----------------------------------------------------------------------------------

// A register that was never written has no origin.
static const struct emu_undefined never = { UINT64_MAX, 0, 0 };

static struct emu_undefined_lanes **record_of(const struct emu_warp *warp, const uint32_t *init,
                                              uint32_t reg)
{
    return warp->undefined ? &warp->undefined[init - warp->init + reg] : NULL;
}

static struct emu_undefined_lanes *make_record(struct emu_warp *warp, const uint32_t *init,
                                               uint32_t reg)
{
    size_t registers = (size_t)warp->frame_depths * warp->block->exec->program->depth_registers;
    if (!warp->undefined)
        warp->undefined = calloc(registers, sizeof(warp->undefined[0]));
    struct emu_undefined_lanes **at = record_of(warp, init, reg);
    if (!at || *at)
        return at ? *at : NULL;
    *at = malloc(sizeof(**at));
    for (unsigned i = 0; *at && i < EMU_LANES; i++)
        (*at)->lane[i] = never;
    return *at;
}

void emu_undefined_clear(struct emu_warp *warp)
{
    if (!warp->undefined) // as in a warp that was not made: it has no block
        return;
    size_t registers = (size_t)warp->frame_depths * warp->block->exec->program->depth_registers;
    for (size_t i = 0; i < registers; i++)
        free(warp->undefined[i]);
    free(warp->undefined);
    warp->undefined = NULL;
}

void emu_undefined_enter(struct emu_warp *warp, const uint32_t *init, uint32_t registers,
                         uint32_t mask)
{
    for (uint32_t reg = 0; warp->undefined && reg < registers; reg++) {
        struct emu_undefined_lanes *record = *record_of(warp, init, reg);
        for (uint32_t m = record ? mask : 0; m; m &= m - 1)
            record->lane[emu_first(m)] = never;
    }
}

static uint64_t low_bits(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static unsigned width_of(uint8_t want)
{
    return want == EMU_MASK ? 1 : want * 8u;
}

// ---- origins ------------------------------------------------------------------------------------

// The cache of a worker, which is enough while there are few origins.
static uint32_t *cached(struct emu_warp *warp, const void *insn, uint64_t what)
{
    struct emu_origins *origins = &warp->block->worker->origins;
    for (unsigned i = 0; i < EMU_ORIGINS; i++)
        if (origins->of[i].insn == insn && origins->of[i].what == what)
            return &origins->of[i].origin;
    unsigned at = origins->next++ % EMU_ORIGINS;
    origins->of[at].insn = insn;
    origins->of[at].what = what;
    origins->of[at].origin = 0;
    return &origins->of[at].origin;
}

// Waiting lanes may be in another function than the running ones: `init` tells which.
static const char *name_of(const struct emu_warp *warp, const uint32_t *init, uint32_t reg)
{
    const struct emu_program *program = warp->block->exec->program;
    size_t at = (size_t)(init - warp->init) % program->depth_registers;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct emu_code *code = &program->codes[i];
        if (code->function && code->init_at == at && code->function->register_count > reg)
            return code->function->registers[reg].name;
    }
    return "";
}

static uint32_t origin_of_register(struct emu_warp *warp, const uint32_t *init,
                                   const struct emu_insn *insn, uint32_t reg)
{
    const struct emu_exec *exec = warp->block->exec;
    uint32_t at = insn ? insn->line : 0;
    uint32_t *origin = cached(warp, insn, reg);
    if (*origin)
        return *origin;
    char text[512 + EMU_SOURCE], line[EMU_QUOTE];
    emu_quote_line(exec->launch->module, at, line, sizeof(line));
    snprintf(text, sizeof(text), "register %s, never written, read at line %u of kernel %s%s",
             name_of(warp, init, reg), (unsigned)at, exec->launch->entry->name, line);
    return *origin = emu_origin_add(exec->shadows, text);
}

static uint32_t origin_of_load(struct emu_warp *warp, const struct emu_op *op, uint64_t address)
{
    const struct emu_exec *exec = warp->block->exec;
    uint64_t start = 0, size = 0;
    bool freed, global = emu_memory_nearest(exec->memory, address, &start, &size, &freed) &&
                         address >= start && address - start < size;
    uint32_t *origin = cached(warp, op->insn, global ? start : UINT64_MAX);
    if (*origin)
        return *origin;
    char text[512 + EMU_SOURCE], line[EMU_QUOTE], where[96] = "";
    emu_quote_line(exec->launch->module, op->insn->line, line, sizeof(line));
    if (global)
        snprintf(where, sizeof(where), ", in the allocation of %llu bytes at 0x%llx",
                 (unsigned long long)size, (unsigned long long)start);
    snprintf(text, sizeof(text), "memory, never written, read at line %u of kernel %s%s%s",
             (unsigned)op->insn->line, exec->launch->entry->name, line, where);
    return *origin = emu_origin_add(exec->shadows, text);
}

uint32_t emu_origin_of_lane(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                            const char *why)
{
    const struct emu_exec *exec = warp->block->exec;
    char text[512 + EMU_SOURCE], line[EMU_QUOTE];
    emu_quote_line(exec->launch->module, insn->line, line, sizeof(line));
    snprintf(text, sizeof(text), "lane %u, which %s, read by the shuffle at line %u of kernel %s%s",
             lane, why, (unsigned)insn->line, exec->launch->entry->name, line);
    return emu_origin_add(exec->shadows, text);
}

// ---- operands -----------------------------------------------------------------------------------

// The form of a register's record: its own bits, zeros above.
static struct emu_undefined of_register(struct emu_warp *warp, const uint32_t *init,
                                        const struct emu_insn *insn, uint32_t reg, unsigned lane)
{
    struct emu_undefined_lanes **record = record_of(warp, init, reg);
    struct emu_undefined u = record && *record ? (*record)->lane[lane] : never;
    if (init[reg] >> lane & 1)
        return (struct emu_undefined) { 0 };
    if (u.bits == UINT64_MAX && !u.origin)
        u.origin = origin_of_register(warp, init, insn, reg);
    return u;
}

void emu_undefined_fetch(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                         const struct emu_value *value, uint32_t mask,
                         struct emu_undefined_lanes *lanes)
{
    uint64_t read = low_bits(width_of(value->want)) & low_bits(value->bits);
    memset(lanes, 0, sizeof(*lanes));
    for (uint32_t m = emu_undefined_in(init, value, mask); m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_undefined u = of_register(warp, init, op->insn, value->reg, i);
        u.bits &= read;
        u.computed &= u.bits;
        lanes->lane[i] = u;
    }
}

void emu_undefined_put(struct emu_warp *warp, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, const struct emu_undefined_lanes *lanes)
{
    if (!init || value->place != EMU_AT_SLOT)
        return;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_undefined u = lanes->lane[i];
        if (value->extend && u.bits >> (value->extend - 1) & 1)
            u.bits |= UINT64_MAX << value->extend;
        if (value->extend && u.computed >> (value->extend - 1) & 1)
            u.computed |= UINT64_MAX << value->extend;
        u.bits &= low_bits(width_of(value->want)) & low_bits(value->bits);
        if (!u.bits)
            continue;
        u.computed &= u.bits;
        init[value->reg] &= ~(1u << i);
        struct emu_undefined_lanes *record = make_record(warp, init, value->reg);
        if (record)
            record->lane[i] = u;
    }
}

struct emu_undefined emu_undefined_load(struct emu_warp *warp, const struct emu_op *op,
                                        uint64_t address, const unsigned char *shadow,
                                        uint32_t bytes)
{
    struct emu_undefined value = { 0 };
    for (uint32_t k = 0; k < bytes; k++) {
        struct emu_undefined byte = emu_shadow_get(warp->block->exec->shadows, shadow + k);
        if (!byte.bits)
            continue;
        if (!value.origin)
            value.origin = byte.origin ? byte.origin : origin_of_load(warp, op, address);
        value.bits |= byte.bits << 8 * k;
        value.computed |= byte.computed << 8 * k;
    }
    return value;
}

void emu_undefined_store(struct emu_warp *warp, unsigned char *shadow, uint32_t bytes,
                         struct emu_undefined value)
{
    warp->block->shared_defined = false; // if it is there
    for (uint32_t k = 0; k < bytes; k++) {
        struct emu_undefined byte = { value.bits >> 8 * k, value.computed >> 8 * k, value.origin };
        emu_shadow_put(warp->block->exec->shadows, shadow + k, byte);
    }
}

// ---- decisions ----------------------------------------------------------------------------------

static const char *const decided[] = {
    [EMU_FINDING_GUARD] = "a guard",
    [EMU_FINDING_ADDRESS] = "an address",
    [EMU_FINDING_TARGET] = "a branch target",
    [EMU_FINDING_LANE] = "a shuffle's lane",
    [EMU_FINDING_CLAMP] = "a shuffle's clamp",
    [EMU_FINDING_MEMBERS] = "a membermask",
    [EMU_FINDING_BARRIER] = "a barrier's number",
    [EMU_FINDING_COUNT] = "a barrier's thread count",
    [EMU_FINDING_SIZE] = "the size of a cp.async",
    [EMU_FINDING_PHASE] = "an mbarrier's count, state or parity",
    [EMU_FINDING_SCALE] = "whether a product is added to D",
};

static bool decides(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                    uint32_t reg, uint32_t lanes, enum emu_finding kind)
{
    const struct emu_exec *exec = warp->block->exec;
    unsigned lane = emu_first(lanes);
    struct emu_undefined u = of_register(warp, init, op->insn, reg, lane);
    return emu_report_finding(
        warp, op->insn, lane, kind, "uninitialised value decides %s: register %s; it comes from %s",
        decided[kind], name_of(warp, init, reg), emu_origin_text(exec->shadows, u.origin));
}

bool emu_undefined_decides(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                           const struct emu_value *value, uint32_t mask, enum emu_finding kind)
{
    struct emu_undefined_lanes u;
    uint32_t lanes = emu_undefined_in(init, value, mask), undefined = 0;
    if (!lanes)
        return true;
    // Only the bits of a wide register that are read count.
    emu_undefined_fetch(warp, init, op, value, lanes, &u);
    for (uint32_t m = lanes; m; m &= m - 1)
        undefined |= u.lane[emu_first(m)].bits ? 1u << emu_first(m) : 0;
    return !undefined || decides(warp, init, op, value->reg, undefined, kind);
}

// Checks the sources that decide something. The others only carry undefined bits on.
static bool check_decisions(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                            uint32_t mask)
{
#define DECIDES(k, kind)                                                                           \
    emu_undefined_decides(warp, init, op, &op->src[k], mask, EMU_FINDING_##kind)
    switch (op->handler) {
    case EMU_DO_LOAD:
    case EMU_DO_STORE:
    case EMU_DO_ATOMIC:
    case EMU_DO_WIDE:
        return DECIDES(0, ADDRESS);
    case EMU_DO_STACK:
        return op->src_count == 0 || DECIDES(0, ADDRESS);
    case EMU_DO_COPY:
        return DECIDES(0, ADDRESS) && DECIDES(1, ADDRESS) &&
               (op->src_count < 4 || DECIDES(3, SIZE));
    case EMU_DO_COPY_ARRIVE:
        return DECIDES(0, ADDRESS);
    case EMU_DO_BULK:
        return DECIDES(0, ADDRESS) && DECIDES(1, ADDRESS) && DECIDES(2, SIZE) &&
               (op->src_count < 4 || DECIDES(3, ADDRESS));
    case EMU_DO_MBARRIER:
    case EMU_DO_PHASE_WAIT:
        return DECIDES(0, ADDRESS) && (op->src_count < 2 || DECIDES(1, PHASE));
    case EMU_DO_PENDING_COUNT:
        return DECIDES(0, PHASE);
    case EMU_DO_CALL:
        return op->insn->mode != EMU_MODE_INDIRECT || DECIDES(op->src_count - 1, TARGET);
    case EMU_DO_BRANCH_LIST:
        return DECIDES(0, TARGET);
    case EMU_DO_BARRIER:
        return DECIDES(0, BARRIER) && (op->src_count - op->dst_count < 2 || DECIDES(1, COUNT));
    case EMU_DO_SHUFFLE:
        return DECIDES(1, LANE) && DECIDES(2, CLAMP) && DECIDES(3, MEMBERS);
    case EMU_DO_WARP_BARRIER:
    case EMU_DO_VOTE:
    case EMU_DO_MATCH:
    case EMU_DO_REDUX:
    case EMU_DO_ELECT:
        return DECIDES(op->src_count - 1, MEMBERS);
    case EMU_DO_MATRIX_LOAD: // the addresses of the rows
    case EMU_DO_MATRIX_STORE:
        mask &= UINT32_MAX >> (32 - 8 * (op->insn->lanes <= 4 ? op->insn->lanes : 4));
        return DECIDES(0, ADDRESS);
    case EMU_DO_TILE_LOAD: // the stride is part of the addresses
    case EMU_DO_TILE_STORE:
        return DECIDES(0, ADDRESS) &&
               (strchr(op->insn->letters, 'u') == NULL || DECIDES(op->src_count - 1, ADDRESS));
    case EMU_DO_WARPGROUP: { // A's descriptor, where it has one, and B's
        const unsigned b = op->insn->letters[2] == 'y' ? 1 : emu_fragment_registers(op->insn, 'A');
        return (b != 1 || DECIDES(0, ADDRESS)) && DECIDES(b, ADDRESS) && DECIDES(b + 1, SCALE);
    }
    default:
        return true;
    }
#undef DECIDES
}

// ---- steps --------------------------------------------------------------------------------------

bool emu_undefined_computes(const struct emu_op *op)
{
    return op->handler == EMU_DO_LANES || op->handler == EMU_DO_FLOAT ||
           op->handler == EMU_DO_FLOAT_PAIR || op->handler == EMU_DO_TRUTH ||
           op->handler == EMU_DO_COMPARE || op->handler == EMU_DO_COMPARE_PAIR ||
           op->handler == EMU_DO_MOVE || op->handler == EMU_DO_ADDRESS ||
           op->handler == EMU_DO_CLUSTER;
}

void emu_undefined_compute(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                           const struct emu_op *op, uint32_t mask,
                           struct emu_undefined_lanes *results)
{
    uint64_t x[EMU_MOST_PARTS][EMU_LANES];
    alignas(64) uint64_t scratch[EMU_LANES];
    struct emu_undefined_lanes u[EMU_MOST_PARTS];
    for (unsigned k = 0; k < op->src_count; k++) {
        const void *at = emu_fetch(warp, frame, &op->src[k], scratch);
        uint32_t bits = 0;
        if (op->src[k].want == EMU_MASK)
            memcpy(&bits, at, 4);
        for (unsigned i = 0; i < EMU_LANES; i++)
            x[k][i] = op->src[k].want == EMU_MASK ? bits >> i & 1 : emu_lane_of(&op->src[k], at, i);
        emu_undefined_fetch(warp, init, op, &op->src[k], mask, &u[k]);
    }
    emu_undefined_results(op, (const uint64_t(*)[EMU_LANES])x, u, results);
}

bool emu_undefined_allows(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                          uint32_t mask)
{
    uint32_t open = op->guard == EMU_NO_REGISTER ? 0 : warp->active & ~init[op->guard_register];
    if (open && !decides(warp, init, op, op->guard_register, open, EMU_FINDING_GUARD))
        return false;
    return mask == 0 || emu_undefined_computes(op) || check_decisions(warp, init, op, mask);
}
