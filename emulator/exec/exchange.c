// SPDX-License-Identifier: MIT
// What lanes of a warp tell each other: shuffles, votes, matches, reductions.
#include "undefined.h"

#include <stdalign.h>

struct exchange {
    struct emu_warp *warp;
    const struct emu_op *op;
    unsigned char *frame;
    uint32_t *init;
    uint32_t lanes, members; // lanes: those at this instruction
};

static void put_words(const struct exchange *x, const uint32_t *words)
{
    emu_put(x->frame, x->init, &x->op->dst[0], x->lanes, words);
}

static void put_mask(const struct exchange *x, unsigned dst, uint32_t mask)
{
    emu_put(x->frame, x->init, &x->op->dst[dst], x->lanes, &mask);
}

// The lane that lane `i` reads: -1 if its own, since the other would be out of its segment.
static int shuffle_source(unsigned opcode, unsigned i, uint32_t b, uint32_t c)
{
    uint32_t clamp = c & 31, segments = c >> 8 & 31;
    b &= 31;
    int most = (int)((i & segments) | (clamp & ~segments)), least = (int)(i & segments), j;
    switch (opcode) {
    case EMU_OP_SHFL_UP:
        j = (int)i - (int)b;
        return j >= most ? j : -1;
    case EMU_OP_SHFL_DOWN:
        j = (int)i + (int)b;
        break;
    case EMU_OP_SHFL_BFLY:
        j = (int)(i ^ b);
        break;
    default:
        j = least | (int)(b & ~segments);
    }
    return j <= most ? j : -1;
}

static bool shuffle(const struct exchange *x)
{
    alignas(64) uint32_t scratch[3][EMU_LANES], out[EMU_LANES] = { 0 };
    const uint32_t *a = emu_fetch(x->warp, x->frame, &x->op->src[0], scratch[0]);
    const uint32_t *b = emu_fetch(x->warp, x->frame, &x->op->src[1], scratch[1]);
    const uint32_t *c = emu_fetch(x->warp, x->frame, &x->op->src[2], scratch[2]);
    uint32_t inside = 0;
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        int j = shuffle_source(x->op->insn->opcode, i, b[i], c[i]);
        if (j >= 0)
            inside |= 1u << i;
        unsigned from = j >= 0 ? (unsigned)j : i;
        if (!(x->lanes >> from & 1) && x->warp->block->exec->sanitize &&
            !emu_report_finding(x->warp, x->op->insn, i, EMU_FINDING_SHUFFLE,
                                "shuffle from inactive lane: lane %u reads lane %u, which %s", i,
                                from,
                                !(x->members >> from & 1)        ? "is not in the membermask"
                                : !(x->warp->exists >> from & 1) ? "does not exist"
                                : !(x->warp->live >> from & 1)   ? "has ended"
                                                                 : "is at another instruction"))
            return false;
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
    switch (x->op->insn->opcode) {
    case EMU_OP_VOTE_ALL:
        put_mask(x, 0, value == x->lanes ? UINT32_MAX : 0);
        break;
    case EMU_OP_VOTE_ANY:
        put_mask(x, 0, value ? UINT32_MAX : 0);
        break;
    case EMU_OP_VOTE_UNI:
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
    if (x->op->insn->opcode == EMU_OP_MATCH_ALL) {
        for (unsigned i = 0; i < EMU_LANES; i++)
            words[i] = all ? x->lanes : 0;
        if (x->op->dst_count > 1)
            put_mask(x, 1, all ? UINT32_MAX : 0);
    }
    put_words(x, words);
    return true;
}

static uint32_t reduce(const struct emu_insn *insn, uint32_t x, uint32_t y)
{
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
    uint32_t result = a[emu_first(x->lanes)];
    for (uint32_t m = x->lanes & (x->lanes - 1); m; m &= m - 1)
        result = reduce(x->op->insn, result, a[emu_first(m)]);
    for (unsigned i = 0; i < EMU_LANES; i++)
        words[i] = result;
    put_words(x, words);
    return true;
}

static bool is_shuffle(unsigned opcode)
{
    return opcode == EMU_OP_SHFL_BFLY || opcode == EMU_OP_SHFL_DOWN || opcode == EMU_OP_SHFL_IDX ||
           opcode == EMU_OP_SHFL_UP;
}

static bool exchange(const struct exchange *x)
{
    switch (x->op->insn->opcode) {
    case EMU_OP_SHFL_BFLY:
    case EMU_OP_SHFL_DOWN:
    case EMU_OP_SHFL_IDX:
    case EMU_OP_SHFL_UP:
        return shuffle(x);
    case EMU_OP_MATCH_ALL:
    case EMU_OP_MATCH_ANY:
        return match(x);
    case EMU_OP_REDUX:
        return redux(x);
    default:
        return vote(x);
    }
}

// Each lane has what is known of the value it reads.
static void shuffle_undefined(const struct exchange *x, const struct emu_undefined_lanes *u,
                              struct emu_undefined_lanes *results)
{
    alignas(64) uint32_t scratch[2][EMU_LANES];
    const uint32_t *b = emu_fetch(x->warp, x->frame, &x->op->src[1], scratch[0]);
    const uint32_t *c = emu_fetch(x->warp, x->frame, &x->op->src[2], scratch[1]);
    for (uint32_t m = x->lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        int from = shuffle_source(x->op->insn->opcode, i, b[i], c[i]);
        results[0].lane[i] = u->lane[from >= 0 ? (unsigned)from : i];
        results[1].lane[i] = (struct emu_undefined) { 0 };
    }
}

// What is known of the results, before they go where the value was.
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
    if (is_shuffle(x->op->insn->opcode))
        shuffle_undefined(x, &u, results);
    else
        emu_undefined_exchange(x->op->insn, x->lanes, values, &u, results);
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
    if (op->insn->opcode == EMU_OP_BAR_WARP)
        return true;
    return emu_undefined_in(init, &op->src[0], lanes) ? exchange_undefined(&x) : exchange(&x);
}
