// SPDX-License-Identifier: MIT
// Loads, stores and atomics of 128 bits. Strong ones exclude each other by a lock, so that none
// sees half of another.
#include "access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"

#include <stdalign.h>

enum { BYTES = 16 };

static pthread_mutex_t strong_accesses = PTHREAD_MUTEX_INITIALIZER;

struct wide {
    struct emu_warp *warp;
    const struct emu_op *op;
    const uint32_t *init;
    enum emu_use use;
    const uint64_t *fresh[2], *compared[2]; // halves of each lane
};

static enum emu_use use_of(const struct emu_op *op)
{
    if (op->src_count == 1)
        return EMU_USE_LOAD;
    return strchr(op->insn->letters, '=') == op->insn->letters ? EMU_USE_STORE : EMU_USE_ATOMIC;
}

// Writes the halves of a lane, and which of their bits are defined.
static bool write_halves(const struct wide *w, unsigned lane, uint64_t address,
                         const struct emu_access *access)
{
    const unsigned first = w->op->src_count - 2u;
    for (unsigned k = 0; k < 2; k++) {
        const struct emu_value *value = &w->op->src[first + k];
        struct emu_undefined_lanes u = { 0 };
        if (emu_undefined_in(w->init, value, 1u << lane))
            emu_undefined_fetch(w->warp, w->init, w->op, value, 1u << lane, &u);
        if (access->shadow)
            emu_undefined_store(w->warp, access->shadow + 8 * k, 8, u.lane[lane]);
        else if (emu_is_host_address(w->op->space, address) && u.lane[lane].computed &&
                 !emu_report_finding(
                     w->warp, w->op->insn, lane, EMU_FINDING_HOST, EMU_TO_HOST,
                     emu_origin_text(w->warp->block->exec->shadows, u.lane[lane].origin)))
            return false;
        memcpy(access->host + 8 * k, &w->fresh[k][lane], 8);
    }
    return true;
}

// One access, under the lock if it is strong.
static bool access_lane(const struct wide *w, unsigned lane, uint64_t address,
                        const struct emu_access *access, uint64_t results[2][EMU_LANES],
                        struct emu_undefined_lanes *u, uint32_t *open)
{
    uint64_t old[2];
    memcpy(old, access->host, BYTES);
    const bool shut = !access->shadow || emu_shadow_set(access->shadow, BYTES);
    for (unsigned k = 0; k < 2; k++) {
        results[k][lane] = old[k];
        u[k].lane[lane] =
            shut ? (struct emu_undefined) { 0 }
                 : emu_undefined_load(w->warp, w->op, address, access->shadow + 8 * k, 8);
    }
    *open |= shut ? 0 : 1u << lane;
    if (w->use == EMU_USE_LOAD ||
        (w->compared[0] && (w->compared[0][lane] != old[0] || w->compared[1][lane] != old[1])))
        return true;
    return write_halves(w, lane, address, access);
}

static bool is_ordered(const struct wide *w, unsigned lane, const struct emu_access *access)
{
    const struct emu_block *block = w->warp->block;
    return !access->shared || !block->race ||
           emu_race_access(w->warp, w->op, lane, (uint32_t)(access->host - block->shared), BYTES,
                           w->use, false);
}

bool emu_do_wide(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[5][EMU_LANES], results[2][EMU_LANES] = { { 0 } };
    const uint64_t *address = emu_addresses(warp, frame, op, scratch[0]);
    struct emu_undefined_lanes u[2] = { 0 };
    struct wide w = { .warp = warp, .op = op, .init = init, .use = use_of(op) };
    const bool strong = op->strong || w.use == EMU_USE_ATOMIC;
    uint32_t open = 0;
    for (unsigned k = 1; k < op->src_count; k++) {
        const uint64_t *lanes = emu_fetch(warp, frame, &op->src[k], scratch[k]);
        if (op->src_count - k <= 2)
            w.fresh[2 - (op->src_count - k)] = lanes;
        else
            w.compared[k - 1] = lanes;
    }
    if (strong)
        emu_race_atomic(warp, op);
    for (uint32_t m = mask; m; m &= m - 1) {
        const unsigned i = emu_first(m);
        struct emu_access access;
        if (!emu_lane_access(warp, op, i, address[i], BYTES, w.use, &access) ||
            !is_ordered(&w, i, &access))
            return false;
        if (strong)
            pthread_mutex_lock(&strong_accesses);
        const bool fine = access_lane(&w, i, address[i], &access, results, u, &open);
        if (strong)
            pthread_mutex_unlock(&strong_accesses);
        if (!fine)
            return false;
    }
    for (unsigned k = 0; k < op->dst_count; k++)
        emu_put_longs(frame, init, &op->dst[k], mask, results[k]);
    for (unsigned k = 0; open && k < op->dst_count; k++)
        emu_undefined_put(warp, init, &op->dst[k], open, &u[k]);
    return true;
}
