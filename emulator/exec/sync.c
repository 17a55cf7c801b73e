// SPDX-License-Identifier: MIT
// Synchronisation and exchange between threads: barriers of the block, lanes that wait for the
// lanes of their mask, shuffles, votes, matches, reductions.
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "exec/check/undefined_rules.h"
#include "warps.h"

#include <stdalign.h>

void emu_warp_park(struct emu_warp *warp, uint32_t lanes, enum emu_wait wait, uint32_t what)
{
    emu_set_lanes(warp->wait, wait, lanes);
    emu_set_lanes(warp->wait_mask, what, lanes);
    emu_set_lanes(warp->lane_pc, warp->pc - 1, lanes); // stay at the instruction until it completes
    warp->waiting |= lanes;
    warp->active &= ~lanes;
}

void emu_warp_release(struct emu_warp *warp, uint32_t lanes)
{
    emu_set_lanes(warp->wait, EMU_WAIT_NONE, lanes);
    for (unsigned i = 0; i < EMU_LANES; i++)
        warp->lane_pc[i] += (lanes & emu_bit_of_lane[i]) != 0;
    warp->waiting &= ~lanes;
    warp->leave = true;
}

static const struct emu_op *op_at(const struct emu_warp *warp, unsigned lane)
{
    const struct emu_program *program = warp->block->exec->program;
    return &program->codes[warp->lane_code[lane]].ops[warp->lane_pc[lane]];
}

// The lanes among `lanes` that are at the same instruction as the first.
static uint32_t together(const struct emu_warp *warp, uint32_t lanes)
{
    unsigned first = emu_first(lanes);
    uint32_t group = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        if (warp->lane_pc[i] == warp->lane_pc[first] &&
            warp->lane_code[i] == warp->lane_code[first] &&
            warp->lane_depth[i] == warp->lane_depth[first])
            group |= 1u << i;
    }
    return group;
}

// ---- barriers -----------------------------------------------------------------------------------

// The number of threads that have arrived. A warp counts as whole if all its live lanes have
// arrived.
static uint32_t arrived(const struct emu_block *block, const struct emu_barrier *barrier)
{
    uint32_t threads = barrier->arrived;
    for (unsigned w = 0; w < block->warp_count; w++) {
        uint32_t lanes = barrier->waiting[w];
        threads += lanes && lanes == block->warps[w].live ? EMU_LANES : emu_count(lanes);
    }
    return threads;
}

static bool all_there(const struct emu_block *block, const struct emu_barrier *barrier)
{
    for (unsigned w = 0; w < block->warp_count; w++)
        if (block->warps[w].live & ~barrier->waiting[w])
            return false;
    return true;
}

// `open` are the lanes with undefined predicates, whose origin is recorded.
static uint32_t predicates_of(struct emu_warp *warp, uint32_t lanes, uint32_t *open,
                              uint32_t *origin)
{
    const struct emu_program *program = warp->block->exec->program;
    uint32_t result = 0;
    while (lanes) {
        uint32_t group = together(warp, lanes);
        unsigned first = emu_first(group);
        const struct emu_op *op = op_at(warp, first);
        unsigned char *frame =
            emu_frame(warp, warp->lane_depth[first], program, warp->lane_code[first]);
        lanes &= ~group;
        if (op->dst_count == 0)
            continue;
        uint32_t scratch, value;
        const struct emu_value *source = &op->src[op->src_count - 1];
        memcpy(&value, emu_fetch(warp, frame, source, &scratch), 4);
        result |= value & group;
        const uint32_t *init =
            emu_init(warp, warp->lane_depth[first], program, warp->lane_code[first]);
        uint32_t undefined = emu_undefined_in(init, source, group);
        if (!undefined)
            continue;
        struct emu_undefined_lanes u;
        emu_undefined_fetch(warp, init, op, source, undefined, &u);
        *open |= undefined;
        *origin = u.lane[emu_first(undefined)].origin;
    }
    return result;
}

// Counts the predicates that hold and those that do not; undefined ones are neither.
struct counts {
    uint32_t count, threads, yes, no;
    uint32_t origin;
};

static bool is_open(const struct counts *c, const struct emu_op *op)
{
    bool popc = op->dst[0].want != EMU_MASK, all = op->insn->boolean == EMU_BOOL_AND;
    return c->yes + c->no < c->threads && (popc || (all ? c->no : c->yes) == 0);
}

static void write_results(struct emu_warp *warp, uint32_t lanes, const struct counts *c)
{
    uint32_t count = c->count;
    bool every = c->count == c->threads;
    const struct emu_program *program = warp->block->exec->program;
    while (lanes) {
        uint32_t group = together(warp, lanes), words[EMU_LANES], mask;
        unsigned first = emu_first(group);
        const struct emu_op *op = op_at(warp, first);
        lanes &= ~group;
        if (op->dst_count == 0)
            continue;
        for (unsigned i = 0; i < EMU_LANES; i++)
            words[i] = count;
        mask = op->insn->boolean == EMU_BOOL_AND ? (every ? UINT32_MAX : 0)
               : count                           ? UINT32_MAX
                                                 : 0;
        emu_put(emu_frame(warp, warp->lane_depth[first], program, warp->lane_code[first]),
                emu_init(warp, warp->lane_depth[first], program, warp->lane_code[first]),
                &op->dst[0], group,
                op->dst[0].want != EMU_MASK ? (const void *)words : (const void *)&mask);
        if (!is_open(c, op))
            continue;
        struct emu_undefined_lanes u;
        for (unsigned i = 0; i < EMU_LANES; i++)
            u.lane[i] = (struct emu_undefined) { UINT64_MAX, UINT64_MAX, c->origin };
        emu_undefined_put(warp,
                          emu_init(warp, warp->lane_depth[first], program, warp->lane_code[first]),
                          &op->dst[0], group, &u);
    }
}

// The lanes of a warp must reach an aligned barrier together. If no count is given, the barrier
// waits for every thread of the block that has not ended, as hardware does since sm_70.
static bool check_divergence(struct emu_block *block, unsigned id)
{
    const struct emu_barrier *barrier = &block->barriers[id];
    for (unsigned w = 0; w < block->warp_count; w++) {
        struct emu_warp *warp = &block->warps[w];
        uint32_t lanes = barrier->waiting[w];
        if (!lanes)
            continue;
        unsigned first = emu_first(lanes);
        char source[EMU_SOURCE];
        const struct emu_insn *insn = op_at(warp, first)->insn;
        uint32_t apart = barrier->apart[w] ? lanes & ~together(warp, lanes) : 0;
        if (insn->aligned && apart &&
            !emu_report_finding(
                warp, insn, first, EMU_FINDING_DIVERGENCE,
                "divergent barrier: lane %u of the same warp waits at another barrier "
                "instruction, line %u%s",
                emu_first(apart), (unsigned)op_at(warp, emu_first(apart))->insn->line,
                emu_beside_line(warp->block->exec->launch->module,
                                op_at(warp, emu_first(apart))->insn->line, source)))
            return false;
    }
    return true;
}

static void complete(struct emu_block *block, unsigned id)
{
    struct emu_barrier *barrier = &block->barriers[id];
    struct counts c = { 0 };
    for (unsigned w = 0; barrier->red && w < block->warp_count; w++) {
        uint32_t waiting = barrier->waiting[w], open = 0;
        uint32_t holds = predicates_of(&block->warps[w], waiting, &open, &c.origin);
        c.count += emu_count(holds);
        c.threads += emu_count(waiting);
        c.yes += emu_count(holds & ~open);
        c.no += emu_count(waiting & ~holds & ~open);
    }
    for (unsigned w = 0; w < block->warp_count; w++) {
        if (barrier->red)
            write_results(&block->warps[w], barrier->waiting[w], &c);
        emu_warp_release(&block->warps[w], barrier->waiting[w]);
    }
    block->stuck = 0;
    emu_race_barrier_done(block, id, barrier->all);
    memset(barrier, 0, sizeof(*barrier));
}

bool emu_barrier_check(struct emu_block *block, unsigned id)
{
    struct emu_barrier *barrier = &block->barriers[id];
    bool done =
        barrier->all ? all_there(block, barrier) : arrived(block, barrier) >= barrier->expected;
    if (!done)
        return true;
    if (block->exec->sanitize && !check_divergence(block, id))
        return false;
    complete(block, id);
    return true;
}

static bool arrive(struct emu_warp *warp, const struct emu_op *op, uint32_t lanes, uint32_t id,
                   uint32_t expected)
{
    struct emu_block *block = warp->block;
    unsigned first = emu_first(lanes);
    bool all = expected == 0;
    if (id >= EMU_BARRIERS)
        return emu_fault(warp, op->insn, first, EMU_ILLEGAL_INSTRUCTION,
                         "barrier %u does not exist: a block has barriers 0 to 15", (unsigned)id);
    if (expected % EMU_LANES || expected > EMU_MAX_THREADS)
        return emu_fault(warp, op->insn, first, EMU_ILLEGAL_INSTRUCTION,
                         "barrier for %u threads: the count must be a multiple of 32, at most 1024",
                         (unsigned)expected);
    struct emu_barrier *barrier = &block->barriers[id];
    char source[EMU_SOURCE];
    if (barrier->busy && (barrier->all != all || barrier->expected != expected) &&
        block->exec->sanitize &&
        !emu_report_finding(warp, op->insn, first, EMU_FINDING_DIVERGENCE,
                            "divergent barrier: other threads wait at barrier %u with another "
                            "thread count, line %u%s",
                            (unsigned)id, (unsigned)barrier->line,
                            emu_beside_line(block->exec->launch->module, barrier->line, source)))
        return false;
    if (!barrier->busy)
        barrier->line = op->insn->line;
    barrier->busy = true;
    barrier->all = all;
    barrier->expected = expected;
    emu_race_arrive(warp, id);
    if (op->insn->mode == EMU_MODE_ARRIVE) {
        barrier->arrived += lanes == warp->live ? EMU_LANES : emu_count(lanes);
    } else {
        barrier->apart[warp->index] |= barrier->waiting[warp->index] != 0;
        barrier->waiting[warp->index] |= lanes;
        barrier->red = barrier->red || op->dst_count;
        emu_warp_park(warp, lanes, EMU_WAIT_BARRIER, id);
    }
    return emu_barrier_check(block, id);
}

bool emu_do_barrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t scratch[2][EMU_LANES], counts[EMU_LANES];
    bool has_count = op->src_count - op->dst_count > 1;
    const uint32_t *ids = emu_fetch(warp, frame, &op->src[0], scratch[0]);
    if (has_count)
        memcpy(counts, emu_fetch(warp, frame, &op->src[1], scratch[1]), sizeof(counts));
    if (op->src[0].place == EMU_AT_CONST && !has_count)
        return arrive(warp, op, mask, ids[0], 0);
    // Each lane may have another barrier number in its register.
    while (mask) {
        unsigned first = emu_first(mask);
        uint32_t same = 0;
        for (uint32_t m = mask; m; m &= m - 1) {
            unsigned i = emu_first(m);
            if (ids[i] == ids[first] && (!has_count || counts[i] == counts[first]))
                same |= 1u << i;
        }
        if (has_count && counts[first] == 0)
            return emu_fault(
                warp, op->insn, first, EMU_ILLEGAL_INSTRUCTION,
                "barrier for 0 threads: the count must be a multiple of 32, at least 32");
        if (!arrive(warp, op, same, ids[first], has_count ? counts[first] : 0))
            return false;
        mask &= ~same;
    }
    return true;
}

// ---- lanes that wait for lanes ------------------------------------------------------------------

static bool run_parked(struct emu_warp *warp, uint32_t lanes, uint32_t members)
{
    const struct emu_program *program = warp->block->exec->program;
    for (uint32_t rest = lanes; rest;) {
        uint32_t group = together(warp, rest);
        unsigned first = emu_first(group);
        unsigned char *frame =
            emu_frame(warp, warp->lane_depth[first], program, warp->lane_code[first]);
        uint32_t *init = emu_init(warp, warp->lane_depth[first], program, warp->lane_code[first]);
        if (!emu_warp_operation(warp, op_at(warp, first), frame, init, group, members))
            return false;
        rest &= ~group;
    }
    emu_race_warp(warp, lanes);
    emu_warp_release(warp, lanes);
    return true;
}

// Releases every set of lanes that have the same mask, once no live lane of the mask is missing.
bool emu_warp_sync_check(struct emu_warp *warp)
{
    uint32_t rest = 0;
    for (uint32_t m = warp->waiting; m; m &= m - 1)
        if (warp->wait[emu_first(m)] == EMU_WAIT_WARP)
            rest |= 1u << emu_first(m);
    while (rest) {
        uint32_t mask = warp->wait_mask[emu_first(rest)], same = 0;
        for (uint32_t m = rest; m; m &= m - 1)
            if (warp->wait_mask[emu_first(m)] == mask)
                same |= 1u << emu_first(m);
        rest &= ~same;
        if ((mask & warp->live & ~same) == 0 && !run_parked(warp, same, mask))
            return false;
    }
    return true;
}

// Without a mask of members, and without an order of memory.
static bool needs_warp(const struct emu_op *op)
{
    return op->handler >= EMU_DO_MATRIX_LOAD && op->handler <= EMU_DO_MMA;
}

bool emu_do_warp_sync(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    uint32_t scratch[EMU_LANES];
    const uint32_t *members = scratch;
    if (needs_warp(op))
        memset(scratch, 0xff, sizeof(scratch));
    else
        members = emu_fetch(warp, frame, &op->src[op->src_count - 1], scratch);
    bool parked = false;
    uint32_t rest = mask;
    while (rest) {
        unsigned first = emu_first(rest);
        uint32_t wanted = members[first], same = 0;
        for (uint32_t m = rest; m; m &= m - 1)
            if (members[emu_first(m)] == wanted)
                same |= 1u << emu_first(m);
        rest &= ~same;
        uint32_t outside = same & ~wanted;
        if (outside && warp->block->exec->sanitize &&
            !emu_report_finding(warp, op->insn, emu_first(outside), EMU_FINDING_OUTSIDE,
                                "executed by lane %u, which is not in its own membermask 0x%08x",
                                emu_first(outside), (unsigned)wanted))
            return false;
        if ((wanted & warp->live & ~same) == 0) {
            if (!emu_warp_operation(warp, op, frame, init, same, wanted))
                return false;
            if (!needs_warp(op))
                emu_race_warp(warp, same);
        } else {
            emu_warp_park(warp, same, EMU_WAIT_WARP, wanted);
            parked = true;
        }
    }
    if (!parked)
        return true;
    warp->leave = true;
    return emu_warp_sync_check(warp);
}

// ---- exchanges ----------------------------------------------------------------------------------

struct exchange {
    struct emu_warp *warp;
    const struct emu_op *op;
    unsigned char *frame;
    uint32_t *init;
    uint32_t lanes, members; // lanes: the lanes at this instruction
};

static void put_words(const struct exchange *x, const uint32_t *words)
{
    emu_put(x->frame, x->init, &x->op->dst[0], x->lanes, words);
}

static void put_mask(const struct exchange *x, unsigned dst, uint32_t mask)
{
    emu_put(x->frame, x->init, &x->op->dst[dst], x->lanes, &mask);
}

// The lane that lane `i` reads; -1 if it reads its own value because the other lane is outside its
// segment.
static int shuffle_source(unsigned mode, unsigned i, uint32_t b, uint32_t c)
{
    uint32_t clamp = c & 31, segments = c >> 8 & 31;
    b &= 31;
    int most = (int)((i & segments) | (clamp & ~segments)), least = (int)(i & segments), j;
    switch (mode) {
    case EMU_MODE_UP:
        j = (int)i - (int)b;
        return j >= most ? j : -1;
    case EMU_MODE_DOWN:
        j = (int)i + (int)b;
        break;
    case EMU_MODE_BFLY:
        j = (int)(i ^ b);
        break;
    default:
        j = least | (int)(b & ~segments);
    }
    return j <= most ? j : -1;
}

// What a shuffle reads. A register is zero in the lanes of threads that the block does not have.
static const uint32_t *shuffled(const struct exchange *x, uint32_t *scratch)
{
    const uint32_t *lanes = emu_fetch(x->warp, x->frame, &x->op->src[0], scratch);
    const uint32_t exists = x->warp->exists;
    if (exists == UINT32_MAX || x->op->src[0].place != EMU_AT_SLOT)
        return lanes;
    for (unsigned i = 0; i < EMU_LANES; i++)
        scratch[i] = exists & emu_bit_of_lane[i] ? lanes[i] : 0;
    return scratch;
}

static bool shuffle(const struct exchange *x)
{
    alignas(64) uint32_t scratch[3][EMU_LANES], out[EMU_LANES] = { 0 };
    const uint32_t *a = shuffled(x, scratch[0]);
    const uint32_t *b = emu_fetch(x->warp, x->frame, &x->op->src[1], scratch[1]);
    const uint32_t *c = emu_fetch(x->warp, x->frame, &x->op->src[2], scratch[2]);
    uint32_t inside = 0;
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        int j = shuffle_source(x->op->insn->mode, i, b[i], c[i]);
        if (j >= 0)
            inside |= 1u << i;
        unsigned from = j >= 0 ? (unsigned)j : i;
        out[i] = a[from];
    }
    put_words(x, out);
    if (x->op->dst_count > 1)
        put_mask(x, 1, inside);
    return true;
}

static bool vote(const struct exchange *x)
{
    uint32_t scratch, value, words[EMU_LANES];
    memcpy(&value, emu_fetch(x->warp, x->frame, &x->op->src[0], &scratch), 4);
    value &= x->lanes;
    switch (x->op->insn->mode) {
    case EMU_MODE_ALL:
        put_mask(x, 0, value == x->lanes ? UINT32_MAX : 0);
        break;
    case EMU_MODE_ANY:
        put_mask(x, 0, value ? UINT32_MAX : 0);
        break;
    case EMU_MODE_UNI:
        put_mask(x, 0, value == 0 || value == x->lanes ? UINT32_MAX : 0);
        break;
    default:
        for (unsigned i = 0; i < EMU_LANES; i++)
            words[i] = value;
        put_words(x, words);
    }
    return true;
}

static bool match(const struct exchange *x)
{
    alignas(64) uint64_t scratch[EMU_LANES];
    uint32_t words[EMU_LANES] = { 0 };
    const void *lanes = emu_fetch(x->warp, x->frame, &x->op->src[0], scratch);
    bool wide = x->op->src[0].want == EMU_LONG, all = true;
    uint64_t value[EMU_LANES] = { 0 };
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        value[i] = wide ? ((const uint64_t *)lanes)[i] : ((const uint32_t *)lanes)[i];
    }
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        for (uint32_t n = x->lanes; n; n &= n - 1)
            if (value[emu_first(n)] == value[i])
                words[i] |= 1u << emu_first(n);
        all = all && words[i] == x->lanes;
    }
    if (x->op->insn->mode == EMU_MODE_ALL) {
        for (unsigned i = 0; i < EMU_LANES; i++)
            words[i] = all ? x->lanes : 0;
        if (x->op->dst_count > 1)
            put_mask(x, 1, all ? UINT32_MAX : 0);
    }
    put_words(x, words);
    return true;
}

// +0 is above -0. A number takes precedence over a NaN; with .NaN, the NaN does.
static uint32_t extreme(const struct emu_insn *insn, uint32_t x, uint32_t y)
{
    const float a = emu_f32(x), b = emu_f32(y);
    const bool below = a < b || (a == b && x > y);
    if (a != a || b != b)
        return insn->nan || (a != a && b != b) ? EMU_F32_NAN : a != a ? y : x;
    return (insn->atomic == EMU_ATOMIC_MIN) == below ? x : y;
}

static uint32_t reduce(const struct emu_insn *insn, uint32_t x, uint32_t y)
{
    if (insn->type == EMU_F32)
        return extreme(insn, x, y);
    bool is_signed = insn->type == EMU_S32;
    bool below = is_signed ? (int32_t)x < (int32_t)y : x < y;
    switch (insn->atomic) {
    case EMU_ATOMIC_ADD:
        return x + y;
    case EMU_ATOMIC_MIN:
        return below ? x : y;
    case EMU_ATOMIC_MAX:
        return below ? y : x;
    case EMU_ATOMIC_AND:
        return x & y;
    case EMU_ATOMIC_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static bool redux(const struct exchange *x)
{
    alignas(64) uint32_t scratch[EMU_LANES];
    uint32_t words[EMU_LANES];
    const uint32_t *a = emu_fetch(x->warp, x->frame, &x->op->src[0], scratch);
    const uint32_t keep = x->op->insn->abs ? UINT32_C(0x7fffffff) : UINT32_MAX;
    uint32_t result = a[emu_first(x->lanes)] & keep;
    if (x->op->insn->type == EMU_F32) // a NaN of one lane alone becomes the canonical one
        result = extreme(x->op->insn, result, result);
    for (uint32_t m = x->lanes & (x->lanes - 1); m; m &= m - 1)
        result = reduce(x->op->insn, result, a[emu_first(m)] & keep);
    for (unsigned i = 0; i < EMU_LANES; i++)
        words[i] = result;
    put_words(x, words);
    return true;
}

// The first lane is the elected one. Hardware may elect any.
static bool elect(const struct exchange *x)
{
    const unsigned leader = emu_first(x->lanes);
    uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++)
        words[i] = leader;
    put_words(x, words);
    put_mask(x, 1, 1u << leader);
    return true;
}

static bool exchange(const struct exchange *x)
{
    switch (x->op->handler) {
    case EMU_DO_ELECT:
        return elect(x);
    case EMU_DO_SHUFFLE:
        return shuffle(x);
    case EMU_DO_MATCH:
        return match(x);
    case EMU_DO_REDUX:
        return redux(x);
    default:
        return vote(x);
    }
}

// The lanes that read a lane which does not take part: what they get is undefined.
static uint32_t absent_sources(const struct exchange *x)
{
    alignas(64) uint32_t scratch[2][EMU_LANES];
    const uint32_t *b = emu_fetch(x->warp, x->frame, &x->op->src[1], scratch[0]);
    const uint32_t *c = emu_fetch(x->warp, x->frame, &x->op->src[2], scratch[1]);
    uint32_t absent = 0;
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        int from = shuffle_source(x->op->insn->mode, i, b[i], c[i]);
        if (from >= 0 && !(x->lanes >> from & 1))
            absent |= 1u << i;
    }
    return absent;
}

static struct emu_undefined from_absent(const struct exchange *x, unsigned from)
{
    const struct emu_warp *warp = x->warp;
    const char *why = !(x->members >> from & 1)     ? "is not in the membermask"
                      : !(warp->exists >> from & 1) ? "does not exist"
                      : !(warp->live >> from & 1)   ? "has ended"
                                                    : "is at another instruction";
    uint32_t origin = emu_origin_of_lane(x->warp, x->op->insn, from, why);
    return (struct emu_undefined) { UINT32_MAX, UINT32_MAX, origin };
}

// Each lane gets the undefined bits of the value that it reads.
static void shuffle_undefined(const struct exchange *x, const struct emu_undefined_lanes *u,
                              struct emu_undefined_lanes *results)
{
    alignas(64) uint32_t scratch[2][EMU_LANES];
    const uint32_t *b = emu_fetch(x->warp, x->frame, &x->op->src[1], scratch[0]);
    const uint32_t *c = emu_fetch(x->warp, x->frame, &x->op->src[2], scratch[1]);
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        int from = shuffle_source(x->op->insn->mode, i, b[i], c[i]);
        if (from >= 0 && !(x->lanes >> from & 1))
            results[0].lane[i] = from_absent(x, (unsigned)from);
        else
            results[0].lane[i] = u->lane[from >= 0 ? (unsigned)from : i];
        results[1].lane[i] = (struct emu_undefined) { 0 };
    }
}

// Computes the undefined bits of the results before the results overwrite the source.
static bool exchange_undefined(const struct exchange *x)
{
    struct emu_undefined_lanes u, results[2];
    uint64_t scratch[EMU_LANES], values[EMU_LANES];
    const struct emu_value *source = &x->op->src[0];
    const void *at = emu_fetch(x->warp, x->frame, source, scratch);
    uint32_t bits = 0;
    emu_undefined_fetch(x->warp, x->init, x->op, source, x->lanes, &u);
    if (source->want == EMU_MASK)
        memcpy(&bits, at, sizeof(bits));
    for (unsigned i = 0; i < EMU_LANES; i++)
        values[i] = source->want == EMU_MASK ? bits >> i & 1 : emu_lane_of(source, at, i);
    if (x->op->handler == EMU_DO_SHUFFLE)
        shuffle_undefined(x, &u, results);
    else
        emu_undefined_exchange(x->op, x->lanes, values, &u, results);
    if (!exchange(x))
        return false;
    for (unsigned k = 0; k < x->op->dst_count; k++)
        emu_undefined_put(x->warp, x->init, &x->op->dst[k], x->lanes, &results[k]);
    return true;
}

bool emu_warp_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                        uint32_t *init, uint32_t lanes, uint32_t members)
{
    const struct exchange x = { warp, op, frame, init, lanes, members };
    if (op->handler == EMU_DO_WARP_BARRIER)
        return true;
    if (op->handler == EMU_DO_ELECT)
        return exchange(&x);
    if (needs_warp(op))
        return emu_matrix_operation(warp, op, frame, init, lanes);
    bool open = emu_undefined_in(init, &op->src[0], lanes) ||
                (init && op->handler == EMU_DO_SHUFFLE && absent_sources(&x));
    return open ? exchange_undefined(&x) : exchange(&x);
}
